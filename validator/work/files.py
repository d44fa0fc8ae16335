"""Job directories made from blobs, by hard links, so that a payload lies on the disk once; and what workers write."""

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
    """Return where a job with these files lies; the name is the hash of what is in it."""
    listing = "\n".join(f"{file.path} {file.blob.sha256.hex()}" for file in files)
    return jobs / sha256(listing.encode()).hexdigest()[:32]


def is_materialised(files: Sequence[PayloadFile], jobs: Path) -> bool:
    """Tell whether the directory of a job is here, whole."""
    return (job_directory(files, jobs) / _DONE).exists()


def materialise(files: Sequence[PayloadFile], blobs: BlobStore, jobs: Path) -> Path:
    """Return a directory under ``jobs`` with these files; a finished one is used again.

    Paths were checked on the link: plain names, at most two folders deep.
    """
    directory = job_directory(files, jobs)
    done = directory / _DONE
    if done.exists():
        os.utime(done)  # it is in use: not for :func:`sweep`
        return directory
    for file in files:
        target = directory / file.path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Never absent once it was there: another thread may be loading the job.
        link_whole(blobs.path(file.blob.sha256), target)
    done.touch()
    return directory


def sweep(jobs: Path, unused_seconds: float) -> None:
    """Delete job directories that nobody used for a while; a payload that is still held comes back when needed."""
    before = time.time() - unused_seconds
    for directory in jobs.iterdir() if jobs.exists() else ():
        done = directory / _DONE
        if (done if done.exists() else directory).stat().st_mtime < before:
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def places_in(scratch: Path, count: int) -> Iterator[tuple[Path, ...]]:
    """Give names in the folder where workers may write, for files that are deleted in the end."""
    places = tuple(scratch / f"{_MADE}{token_hex(16)}" for _ in range(count))
    try:
        yield places
    finally:
        for place in places:
            _delete(place)


def clear(scratch: Path) -> None:
    """Delete what a daemon that was killed left at such places."""
    for place in scratch.glob(f"{_MADE}*"):
        _delete(place)


def _delete(place: Path) -> None:
    """Delete whatever is there: a worker may make anything, a folder too."""
    if place.is_dir() and not place.is_symlink():
        with suppress(RecursionError):  # of folders in folders without end
            shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)
