"""Job directories made from blobs: hard links, so that a payload lies on the disk once."""

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from cluster.blobs import BlobStore
from cluster.types import PayloadFile


def materialise(files: Sequence[PayloadFile], blobs: BlobStore, jobs: Path) -> Path:
    """Return a directory under ``jobs`` with these files; a finished one is used again.

    Its name is the hash of what is in it. Paths were checked on the link: plain names, at most two folders deep.
    """
    listing = "\n".join(f"{file.path} {file.blob.sha256.hex()}" for file in files)
    directory = jobs / sha256(listing.encode()).hexdigest()[:32]
    done = directory / ".complete"
    if done.exists():
        return directory
    for file in files:
        target = directory / file.path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target.unlink(missing_ok=True)
        os.link(blobs.path(file.blob.sha256), target)
    done.touch()
    return directory
