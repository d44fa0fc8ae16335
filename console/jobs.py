"""Names of jobs. The chain has the hash of a job's document alone; the document names it, where one lies here."""

import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from console.index.writing import EventIndex
from consumer.errors import ConsumerError
from consumer.jobs import recall
from pol.job.document import DOCUMENT
from pol.limits import LIMITS

NAME_MAX: Final = 64
LOOKED_AT: Final = 200
"""Orders at most of which a look seeks the document, the newest first."""
_BLOBS: Final = (Path("validator", "blobs", "complete"), Path("provider", "blobs", "complete"))


def name_jobs(index: EventIndex, homes: Iterable[Path]) -> bool:
    """Keep the names of jobs whose document a home has by now; True where any is new.

    Consumers have it where they built the job, validators and providers among the files of their orders.
    """
    found: dict[bytes, str] = {}
    places = tuple(homes)
    for order_id, job_id in index.unnamed_orders(LOOKED_AT):
        if job_id in found:
            continue
        for path in _documents(places, order_id, job_id):
            if name := read_name(path, job_id):
                found[job_id] = name
                break
    if found:
        index.name_jobs(found)
    return bool(found)


def _documents(homes: Iterable[Path], order_id: bytes, job_id: bytes) -> Iterator[Path]:
    digits = job_id.hex()
    for home in homes:
        yield from (home / blobs / digits[:2] / digits for blobs in _BLOBS)
        try:
            yield recall(home, order_id).job / DOCUMENT
        except (ConsumerError, OSError):
            continue


def read_name(path: Path, job_id: bytes) -> str:
    """Return the name in a job's document; empty where the file is not there, or is another one's."""
    try:
        with path.open("rb") as file:
            data = file.read(LIMITS.document_size + 1)
        if sha256(data).digest() != job_id:
            return ""
        name = str(json.loads(data)["name"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return name[:NAME_MAX]
