"""Who runs in a folder: a process keeps a file there locked, with its id in it, for as long as it lives.

The kernel lets go of the lock when the process ends, however it ends, and an id that another process got since, after a
restart of the machine say, means nothing. Files of network disks may know no locks: homes lie on disks of this machine.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
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
