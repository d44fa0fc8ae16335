"""Disks that cannot be written: the reason that the operating system gives, where a library's text does not name it."""

import errno
import os
from pathlib import Path

FREE_BYTES_MIN = 1 << 20
"""A disk with less free space is full: SQLite's shared memory and one page of a database need less."""


def disk_error(path: Path) -> OSError | None:
    """Return the error of a disk that is full or read-only, with ``path`` as its file name; None for other disks."""
    folder = path
    while not folder.exists():
        folder = folder.parent
    status = os.statvfs(folder)
    if status.f_flag & os.ST_RDONLY:
        return OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
    if status.f_bavail * status.f_frsize < FREE_BYTES_MIN:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    return None


def named(error: OSError, path: Path) -> OSError:
    """Return an error of the operating system with the name of the file, which errors of open files lack."""
    return error if error.filename else OSError(error.errno, error.strerror, str(path))
