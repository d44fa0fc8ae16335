"""Names of jobs, from job documents on this machine. The chain has only the hash of each document."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from console.index.writing import EventIndex
from consumer.errors import ConsumerError
from consumer.jobs import recall
from host.foreign_json import read_json
from pol.job.paths import DOCUMENT
from pol.limits import LIMITS

NAME_MAX: Final = 64
LOOKED_AT: Final = 200
"""Number of orders whose documents are searched for at a time. The newest orders come first."""
_BLOBS: Final = (Path("validator", "blobs", "complete"), Path("provider", "blobs", "complete"))


def name_jobs(index: EventIndex, homes: Iterable[Path]) -> bool:
    """Look in ``homes`` for documents of jobs without a known name; store the names, and return True if any was found.

    A consumer has the document in the directory of the job. A validator or provider has it among the files of its
    orders.
    """
    names: dict[bytes, str] = {}
    directories = tuple(homes)
    for order_id, job_id in index.unnamed_orders(LOOKED_AT):
        if job_id in names:
            continue
        for path in _documents(directories, order_id, job_id):
            if name := read_name(path, job_id):
                names[job_id] = name
                break
    if names:
        index.name_jobs(names)
    return bool(names)


def _documents(homes: Iterable[Path], order_id: bytes, job_id: bytes) -> Iterator[Path]:
    digits = job_id.hex()
    for home in homes:
        yield from (home / blobs / digits[:2] / digits for blobs in _BLOBS)
        try:
            yield recall(home, order_id).job / DOCUMENT
        except (ConsumerError, OSError):
            continue


def read_name(path: Path, job_id: bytes) -> str:
    """Return the name in a job's document; empty if the file is missing or its hash is not ``job_id``."""
    try:
        with path.open("rb") as file:
            data = file.read(LIMITS.document_size + 1)
        if sha256(data).digest() != job_id:
            return ""
        name = str(read_json(data, LIMITS.json_tokens)["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return name[:NAME_MAX]
