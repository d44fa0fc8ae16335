"""Locks that allow one process per folder and one process per key. Other processes can learn the id of the holder.

A process keeps a file of its folder locked as long as it lives, and writes its id into the file.

The kernel releases the lock when the process ends for any reason. So an old id in the file does no harm, even if
another process has the same id now, for example after a restart of the machine. Network disks may not support locks, so
homes must lie on local disks.

The lock of a folder does not protect its keys, because a copy of the folder has a lock of its own and the same keys. So
a process that works with a key also listens on an abstract socket (Linux) whose name is derived from the secret. Such a
name is unique on the whole machine, for all users and folders, and no program without the secret can take it. A
container that has its own network has its own names.
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

from host.disks import named

_WAIT_SECONDS = 0.2
"""Longest wait for a process that locks the file only for a moment, to read it."""


def holder_of(path: Path) -> int:
    """Return the id of the process that holds the lock file ``path``; 0 if no process does."""
    try:
        with path.open() as file:
            return 0 if _lock(file, fcntl.LOCK_SH) else int(file.read())
    except (OSError, ValueError):
        return 0


@contextmanager
def held(path: Path, refused: Callable[[int], Exception]) -> Iterator[None]:
    """Hold the lock file ``path`` until the end of the block or of this process.

    If another process holds the file, raise ``refused(id)`` with the id of that process. The id is 0 if the holder has
    just begun or ended.
    """
    ends = time.monotonic() + _WAIT_SECONDS
    while (file := _claim(path)) is None:
        if time.monotonic() > ends:
            raise refused(holder_of(path)) from None
        time.sleep(_WAIT_SECONDS / 20)
    with file:
        try:
            file.truncate(0)
            # Not through the file's buffer, which would try again when the file is closed.
            os.write(file.fileno(), str(os.getpid()).encode())
        except OSError as error:
            raise named(error, path) from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _claim(path: Path) -> IO[str] | None:
    """Return the locked file, or None if another process has it or has just deleted it."""
    file = path.open("a+")
    with suppress(FileNotFoundError):
        if _lock(file, fcntl.LOCK_EX) and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            return file
    file.close()
    return None


def _lock(file: IO[str], kind: int) -> bool:
    """Lock a file until it is closed, without waiting; return False if another process has it."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# --- keys ----------------------------------------------------------------------------------------

NAMESPACE = "assay"
"""Prefix of the sockets' names; tests that run at the same time with the same keys use different prefixes."""
_CREDENTIALS = struct.Struct("3i")
_BACKLOG = 8


@contextmanager
def secret_held(
    secret: bytes, purpose: str, refused: Callable[[int], Exception], wait_seconds: float = 2.0
) -> Iterator[None]:
    """Reserve ``secret`` for this process and this ``purpose`` until the end of the ``with`` block; no other process of
    this machine can then reserve it.

    If another process holds it, wait, because that process may be about to end. After ``wait_seconds``, raise
    ``refused(id)`` with the holder's process id, which is 0 if this process cannot see it. On systems other than Linux,
    this function does nothing.
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
    """Return the id of the process that uses ``secret`` for ``purpose``; None if no process does.

    The id is 0 if this process cannot see it.
    """
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
    """Accept the connections of processes that want the holder's id. From the connection, the kernel tells them the
    id.
    """
    with suppress(OSError):
        while True:
            listener.accept()[0].close()
