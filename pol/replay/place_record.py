"""The record of a recomputed place: a hash of each of its values, in the order of ``walk.py``, as JSON.

Two parties that disagree about a place both write such a record, and compare them. The reader is strict, since the file
may come from the other party.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from domain import codec, plain
from domain.bounds import Count, Hash, Pattern, Size
from domain.errors import Refusal
from host.files import write_whole
from host.foreign_json import read_json
from pol.errors import JobError, TraceError
from pol.job.files import read_file
from pol.replay.walk import PlaceKind, See, SeenValue

VERSION = 1
RECORDS_FOLDER = "records"
"""Folder beside a trace, with the records of its places."""
RECORD_SIZE_MAX = 256 << 20
VALUES_SIZE_MAX = 96 << 20
HASH_SIZE = 32
_TOKENS_MAX = 256
_KINDS = Pattern("a kind of place", "|".join(PlaceKind), f"use one of {', '.join(PlaceKind)}")
_REMEDY = "write the record again with assay trace record"


@dataclass(frozen=True)
class PlaceRecord:
    """A record of a place of a trace.

    ``segment`` is the number of the segment. It is the number of the share's segments for an update, and 0 for an
    aggregation, whose ``slot`` is 0 too. ``opening`` and ``closing`` are the trace's roots before and after the place.
    ``values`` holds the hashes, one after another.
    """

    job: Hash
    kind: Annotated[str, _KINDS]
    round: Count
    slot: Count
    segment: Count
    opening: Hash
    closing: Hash
    values: Annotated[bytes, Size(0, VALUES_SIZE_MAX)]

    @property
    def hashes(self) -> tuple[bytes, ...]:
        """The hashes of the values, in order."""
        return tuple(self.values[at : at + HASH_SIZE] for at in range(0, len(self.values), HASH_SIZE))


@dataclass
class ValueList:
    """A list of hashes that a recomputation fills."""

    hashes: list[bytes] = field(default_factory=list)

    @property
    def see(self) -> See:
        """A function that adds the hash of a value."""

        def add(seen: SeenValue) -> None:
            self.hashes.append(seen.hash)

        return add


def record_name(kind: PlaceKind, round: int, slot: int, segment: int) -> str:
    """Return the file name of a place's record."""
    match kind:
        case PlaceKind.AGGREGATION:
            return f"round-{round}-{kind}.json"
        case PlaceKind.UPDATE:
            return f"round-{round}-slot-{slot}-{kind}.json"
        case PlaceKind.SEGMENT:
            return f"round-{round}-slot-{slot}-{kind}-{segment}.json"


def write_record(record: PlaceRecord, path: Path) -> None:
    """Write a record to a file, whose folder is made if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps({"version": VERSION, **codec.to_plain(record)}) + "\n").encode())


def read_record(path: Path) -> PlaceRecord:
    """Read a record. TraceError names the field that is wrong."""
    try:
        value: Any = read_json(read_file(path.resolve(), str(path), RECORD_SIZE_MAX), _TOKENS_MAX)
    except JobError as error:
        raise TraceError(error.field, error.reason, _REMEDY) from None
    except ValueError as error:
        raise TraceError(str(path), f"is not JSON that can be read: {error}", _REMEDY) from None
    if not isinstance(value, dict) or value.pop("version", None) != VERSION:
        raise TraceError(f"{path}: version", f"is not {VERSION}", _REMEDY)
    try:
        record = plain.read(PlaceRecord, value)
    except Refusal as refusal:
        raise TraceError(f"{path}: {refusal.field}", refusal.reason, _REMEDY) from None
    if len(record.values) % HASH_SIZE:
        raise TraceError(f"{path}: values", f"is no list of hashes of {HASH_SIZE} bytes", _REMEDY)
    return record
