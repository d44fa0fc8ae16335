"""Job directories, and files of pool processes. Job directories are hard links: a payload is on the disk only once."""

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from host.files import link_whole
from link.blobs import BlobStore
from link.types import PayloadFile

_DONE = ".complete"  # no file of a payload begins with a dot
_MADE = "made-"


def job_directory(files: Sequence[PayloadFile], jobs: Path) -> Path:
    """Return the directory of a job with these files; its name is a hash of their paths and contents."""
    listing = "\n".join(f"{file.path} {file.blob.sha256.hex()}" for file in files)
    return jobs / sha256(listing.encode()).hexdigest()[:32]


def is_materialised(files: Sequence[PayloadFile], jobs: Path) -> bool:
    """Return whether the directory of a job is here and complete."""
    return (job_directory(files, jobs) / _DONE).exists()


def materialise(files: Sequence[PayloadFile], blobs: BlobStore, jobs: Path) -> Path:
    """Return a directory under ``jobs`` with these files; a complete directory is used again.

    The paths were checked when they arrived: they are plain names, at most two folders deep.
    """
    directory = job_directory(files, jobs)
    done = directory / _DONE
    if done.exists():
        os.utime(done)  # mark it as used, so that :func:`sweep` keeps it
        return directory
    for file in files:
        target = directory / file.path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Replaced without a gap, because another thread may be loading the job.
        link_whole(blobs.path(file.blob.sha256), target)
    done.touch()
    return directory


def sweep(jobs: Path, unused_seconds: float) -> None:
    """Delete job directories that were not used for ``unused_seconds``; they are made again if they are needed."""
    before = time.time() - unused_seconds
    for directory in jobs.iterdir() if jobs.exists() else ():
        done = directory / _DONE
        if (done if done.exists() else directory).stat().st_mtime < before:
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def places_in(scratch: Path, count: int) -> Iterator[tuple[Path, ...]]:
    """Yield ``count`` new paths in the folder where pool processes may write, and delete the files there at the end."""
    places = tuple(scratch / f"{_MADE}{token_hex(16)}" for _ in range(count))
    try:
        yield places
    finally:
        for place in places:
            _delete(place)


def clear(scratch: Path) -> None:
    """Delete the files that a killed daemon left at paths from :func:`places_in`."""
    for place in scratch.glob(f"{_MADE}*"):
        _delete(place)


def _delete(place: Path) -> None:
    """Delete a file, a link or a folder: a pool process may create any of them."""
    if place.is_dir() and not place.is_symlink():
        with suppress(RecursionError):  # folders may be nested too deeply
            shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)
