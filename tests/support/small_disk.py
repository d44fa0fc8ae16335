"""A disk of its own in memory, which a test fills or makes read-only. Mounting it needs the rights of root."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


class SmallDisk:
    """A mounted disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        """Leave no free byte."""
        size = shutil.disk_usage(self.path).free
        with suppress(OSError), self._filler.open("ab") as file:
            os.posix_fallocate(file.fileno(), self._filler.stat().st_size, size)
        with suppress(OSError), self._filler.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4_096))

    def free(self) -> None:
        """Undo :meth:`fill`."""
        self._filler.unlink(missing_ok=True)

    def make_read_only(self) -> None:
        """Refuse each write from now on. A disk with files that are open for writing is busy and stays as it is."""
        subprocess.run(["mount", "-o", "remount,ro", self.path], check=True)

    def make_writable(self) -> None:
        """Undo :meth:`make_read_only`."""
        subprocess.run(["mount", "-o", "remount,rw", self.path], check=True)


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount a disk at ``path``; the test is skipped if this user may not mount."""
    path.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", str(path)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a disk of its own cannot be mounted: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        # Lazily, because a process that a test left may still have a file open.
        subprocess.run(["umount", "--lazy", path], check=True)
