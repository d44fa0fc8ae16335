"""Who runs in a folder, and who uses a key: one process at a time, which the others learn the id of.

A process keeps a file of its folder locked, with its id in it, for as long as it lives.

The kernel lets go of the lock when the process ends, however it ends, and an id that another process got since, after a
restart of the machine say, means nothing. Files of network disks may know no locks: homes lie on disks of this machine.

A copy of a folder has another lock and the same keys. So a process that works with a key also listens on a socket of
the kernel's (Linux, "abstract") whose name comes from the secret: one name per key on the whole machine, whatever user
or folder, which no program without the secret can take. A container with a network of its own has names of its own.
"""

import errno
import fcntl
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import IO

_WAIT_SECONDS = 0.2
"""For who only looks, and has the file for a moment."""


def holder_of(path: Path) -> int:
    """Return the id of the process that holds ``path``; 0 if none does."""
    try:
        with path.open() as file:
            return 0 if _lock(file, fcntl.LOCK_SH) else int(file.read())
    except (OSError, ValueError):
        return 0


@contextmanager
def held(path: Path, refused: Callable[[int], Exception]) -> Iterator[None]:
    """Hold ``path`` until the end of the block or of this process; raise what ``refused`` makes of another's id.

    The id is 0 where the other one has just begun or ended.
    """
    ends = time.monotonic() + _WAIT_SECONDS
    while (file := _claim(path)) is None:
        if time.monotonic() > ends:
            raise refused(holder_of(path)) from None
        time.sleep(_WAIT_SECONDS / 20)
    with file:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _claim(path: Path) -> IO[str] | None:
    """Return the file, locked; None where somebody else has it, or has just deleted it."""
    file = path.open("a+")
    with suppress(FileNotFoundError):
        if _lock(file, fcntl.LOCK_EX) and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            return file
    file.close()
    return None


def _lock(file: IO[str], kind: int) -> bool:
    """Lock a file until it is closed, without waiting; False where somebody else has it."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# --- keys ----------------------------------------------------------------------------------------

NAMESPACE = "assay"
"""In front of the names of sockets; tests of several runs on one machine, whose keys are the same, have one each."""
_CREDENTIALS = struct.Struct("3i")
_BACKLOG = 8


@contextmanager
def secret_held(
    secret: bytes, purpose: str, refused: Callable[[int], Exception], wait_seconds: float = 2.0
) -> Iterator[None]:
    """Be the only process of this machine that uses ``secret`` for ``purpose``, until the end of the block.

    A holder that is ending is waited for; then what ``refused`` makes of its process id is raised, which is 0 where it
    cannot be seen from here. On other systems than Linux nothing is held.
    """
    if sys.platform != "linux":
        yield
        return
    name = _name_of(secret, purpose)
    with socket.socket(socket.AF_UNIX) as listener:
        ends = time.monotonic() + wait_seconds
        while not _bound(listener, name):
            if time.monotonic() > ends:
                raise refused(secret_holder(secret, purpose) or 0)
            time.sleep(_WAIT_SECONDS / 4)
        listener.listen(_BACKLOG)
        Thread(target=_answer, args=(listener,), name="key-in-use", daemon=True).start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def secret_holder(secret: bytes, purpose: str) -> int | None:
    """Return the id of the process that uses ``secret`` for ``purpose``: 0 if it cannot be seen, None if none does."""
    if sys.platform != "linux":
        return None
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(_WAIT_SECONDS)
        try:
            caller.connect(_name_of(secret, purpose))
        except ConnectionRefusedError:
            return None
        except OSError:
            return 0
        raw = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid: int = _CREDENTIALS.unpack(raw)[0]
        return pid


def _name_of(secret: bytes, purpose: str) -> str:
    return f"\0{NAMESPACE}/" + sha256(f"assay/in-use/{purpose}/".encode() + secret).hexdigest()


def _bound(listener: socket.socket, name: str) -> bool:
    try:
        listener.bind(name)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True


def _answer(listener: socket.socket) -> None:
    """Take connections of those who ask for the holder's id, which the kernel tells them."""
    with suppress(OSError):
        while True:
            listener.accept()[0].close()
