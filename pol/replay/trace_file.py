"""The trace file of a local run: the traces of all shares of all rounds, as JSON.

The leaves of a trace are the same as on a network, because they do not depend on the machine that trains. The reader is
strict, since the file may come from an untrusted author.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from domain import plain
from domain.bounds import Count, Hash, Length
from domain.errors import Refusal
from domain.readable import Readable
from host.foreign_json import read_json
from pol.errors import JobError, TraceError
from pol.job.files import read_file
from pol.rules.commitment import boundary_root, compute_trace_root
from pol.work.records import Boundary, RoundSlot

VERSION = 3
FILE_SIZE_MAX = 256 << 20
TOKENS_MAX = 1 << 23
"""Largest number of brackets, commas and colons of a trace file; a boundary has 14 to 21 of them."""
LIST_MAX = 1 << 20
_REMEDY = "write the trace again with assay job run"


@dataclass(frozen=True)
class ShareRecord(Readable):
    """The record of a share in a trace file, which is the work of one slot in one round.

    Example::

        for share in assay.load_trace("my-job/run/trace.json").shares:
            print(share.round, share.slot, share.segments, share.fault or "whole")
    """

    slot: Count
    round: Count
    boundaries: Annotated[tuple[Boundary, ...], Length(2, LIST_MAX)]
    update_root: Hash
    local_out_root: Hash
    trace_root: Hash

    @property
    def part(self) -> RoundSlot:
        """The round and the slot of the share."""
        return RoundSlot(self.round, self.slot)

    @property
    def segments(self) -> int:
        """The number of segments, which is one less than the number of boundaries."""
        return len(self.boundaries) - 1

    @property
    def fault(self) -> str:
        """The first contradiction between the share's own hashes; empty if there is none.

        It is found without a replay.
        """
        for index, boundary in enumerate(self.boundaries):
            if boundary.index != index:
                return f"boundary {index} has the index {boundary.index}"
            if boundary.root != boundary_root(boundary.global_root, boundary.local_root, boundary.metrics):
                return f"the root of boundary {index} is not the hash of the roots of its two states and its metrics"
        if self.boundaries[0].metrics:
            return "boundary 0 has metrics"
        root = trace_root(self.boundaries)
        return "" if root == self.trace_root else "the trace root is not the root of its leaves"


@dataclass(frozen=True)
class RoundEnd(Readable):
    """The end of a round in a trace file: the root of the global state.

    Example::

        for end in assay.load_trace("my-job/run/trace.json").rounds:
            print(end.state_root.hex())
    """

    state_root: Hash


@dataclass(frozen=True)
class Trace(Readable):
    """The checked part of a trace file: the job's id, the end of each round, and the shares, ordered by round and slot.

    The other fields of the file are for display only.

    Example::

        trace = assay.load_trace("my-job/run/trace.json")
        print(trace.job.hex(), len(trace.rounds))
    """

    job: Hash
    rounds: Annotated[tuple[RoundEnd, ...], Length(0, LIST_MAX)]
    shares: Annotated[tuple[ShareRecord, ...], Length(0, LIST_MAX)]

    @property
    def round_roots(self) -> tuple[bytes, ...]:
        """The root of the global state after each round."""
        return tuple(end.state_root for end in self.rounds)


def share_record(
    part: RoundSlot,
    boundaries: tuple[Boundary, ...],
    update_root: bytes,
    local_out_root: bytes,
) -> ShareRecord:
    """Return the record of a share, including its trace root.

    ``codec.to_plain`` converts it to the form in the file.
    """
    root = trace_root(boundaries)
    return ShareRecord(
        slot=part.slot,
        round=part.round,
        boundaries=boundaries,
        update_root=update_root,
        local_out_root=local_out_root,
        trace_root=root,
    )


def trace_root(boundaries: tuple[Boundary, ...]) -> bytes:
    """Return the trace root of a share with boundaries 0 to n.

    Boundary 0 is its initial state and is not a leaf of the trace.
    """
    return compute_trace_root(boundary.leaf for boundary in boundaries[1:])


def read_trace(path: Path | str) -> Trace:
    """Read a trace file. TraceError names the field that is wrong.

    Example::

        trace = assay.load_trace("my-job/run/trace.json")
    """
    path = Path(path)
    try:
        value: object = read_json(read_file(path.resolve(), str(path), FILE_SIZE_MAX), TOKENS_MAX)
    except JobError as error:
        raise TraceError(error.field, error.reason, "name the trace.json that assay job run wrote") from None
    except ValueError as error:
        raise TraceError(str(path), f"is not JSON that can be read: {error}", _REMEDY) from None
    if not isinstance(value, dict) or value.get("version") != VERSION:
        raise TraceError("version", f"is not {VERSION}", _REMEDY)
    checked = _only(value, Trace)
    if isinstance(value.get("rounds"), list):
        checked["rounds"] = [_only(entry, RoundEnd) for entry in value["rounds"]]
    try:
        return plain.read(Trace, checked)
    except Refusal as refusal:
        raise TraceError(refusal.field, refusal.reason, _REMEDY) from None


def _only(value: Any, cls: type) -> Any:
    """Return a JSON object without the keys that are not fields of ``cls``."""
    if not isinstance(value, dict):
        return value
    return {name: part for name, part in value.items() if name in cls.__annotations__}
