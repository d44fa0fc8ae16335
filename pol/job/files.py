"""Opening the files of a job directory: only plain files of the expected size are accepted."""

import os
import stat
from io import BufferedReader
from pathlib import Path

from pol.errors import JobError

REMEDY = "fetch the job again, or build it again with assay job build"
"""Remedy for a file whose content is not what the document describes."""


def check_folder(directory: Path) -> None:
    """Raise JobError, with a remedy, if ``directory`` is not a directory."""
    if directory.is_file() and directory.suffix == ".py":
        build = f"assay job build {directory} -o {directory.with_suffix('')}"
        raise JobError(str(directory), "is a job file, which must be built first", f"build it: {build}")
    if not directory.is_dir():
        reason = "is not a directory" if directory.exists() else "does not exist"
        raise JobError(str(directory), reason, "name the directory that assay job build wrote")


def open_file(path: Path, field: str, size_limit: int, size: int | None = None) -> BufferedReader:
    """Open a plain file for reading.

    It may have at most ``size_limit`` bytes, and must have ``size`` bytes if ``size`` is given. Links, folders and
    devices are refused. Raises JobError for ``field`` if the file is missing, is not a plain file, or has the wrong
    size.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise JobError(field, f"the file cannot be opened ({error.strerror})", REMEDY) from None
    flaw = _flaw(os.fstat(descriptor), size_limit, size)
    if flaw:
        os.close(descriptor)
        raise JobError(field, flaw, REMEDY)
    return os.fdopen(descriptor, "rb")


def _flaw(status: os.stat_result, size_limit: int, size: int | None) -> str:
    if not stat.S_ISREG(status.st_mode):
        return "is not a plain file"
    if status.st_size > size_limit:
        return f"has {status.st_size} bytes, more than {size_limit}"
    if size is not None and status.st_size != size:
        return f"has {status.st_size} bytes, not {size}"
    return ""


def read_file(path: Path, field: str, size_limit: int, size: int | None = None) -> bytes:
    """Return the bytes of a file, opened under the conditions of :func:`open_file`.

    Raises JobError also if the file changes its size while it is read.
    """
    with open_file(path, field, size_limit, size) as file:
        expected = os.fstat(file.fileno()).st_size
        data = file.read(expected + 1)
    if len(data) != expected:
        raise JobError(field, "changed while it was read", REMEDY)
    return data
