"""Errors of disks name the file, where those of libraries and of open files do not."""

import errno
import os
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest

from host.disks import FREE_BYTES_MIN, disk_error, named
from host.records import unusable


def status(free: int, flags: int = 0) -> SimpleNamespace:
    return SimpleNamespace(f_flag=flags, f_bavail=free, f_frsize=1)


@pytest.mark.parametrize(
    ("status", "number"),
    [
        (status(FREE_BYTES_MIN), None),
        (status(FREE_BYTES_MIN - 1), errno.ENOSPC),
        (status(FREE_BYTES_MIN, os.ST_RDONLY), errno.EROFS),
    ],
)
def test_a_disk_that_is_full_or_read_only_has_an_error_with_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: SimpleNamespace, number: int | None
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: status)
    path = tmp_path / "not" / "made yet" / "r.db"
    error = disk_error(path)
    assert (error and error.errno) == number
    reason = unusable(path, sqlite3.OperationalError("disk I/O error"))
    if error is None:
        assert "disk I/O error" in str(reason)
        assert "restore it from a backup" in str(reason)
    else:
        assert error.filename == str(path)
        assert isinstance(reason, OSError)


def test_an_error_without_a_file_gets_its_name(tmp_path: Path) -> None:
    assert named(OSError(errno.ENOSPC, "full"), tmp_path).filename == str(tmp_path)
    other = OSError(errno.ENOSPC, "full", "other")
    assert named(other, tmp_path) is other
