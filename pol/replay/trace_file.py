"""The trace file of a local run: the same tree as on chain, over all shares of all rounds, as JSON.

A local run belongs to no chain and no provider, so its leaves name the job where an order's leaves name the order.
The reader is strict: a file may come from anybody.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from domain.hashing import merkle_root
from domain.records import ShareClaim
from pol.errors import JobError, TraceError
from pol.job.load import read_file
from pol.job.strict_json import take_hex, take_int, take_list
from pol.rules.commitment import boundary_root, trace_leaf
from pol.work.records import Boundary, Range

VERSION = 1
FILE_SIZE_MAX = 256 << 20
_NO_CHAIN, _NO_PROVIDER = "", ""
_ATTEMPT = _ISSUE = 1
_LIST_MAX = 1 << 20
_U32_MAX, _I64_MAX = 2**32 - 1, 2**63 - 1
_REMEDY = "write it again with assay job run"


@dataclass(frozen=True)
class ShareRecord:
    """What a trace file holds of one slot's work in one round."""

    slot: int
    range: Range
    boundaries: tuple[Boundary, ...]
    update_root: bytes
    local_out_root: bytes
    trace_root: bytes

    @property
    def segments(self) -> int:
        """The number n of segments between the n + 1 boundaries."""
        return len(self.boundaries) - 1


@dataclass(frozen=True)
class Trace:
    """A trace file: shares by round and slot, and the root of the global state after each round."""

    job_id: bytes
    slots: int
    shares: tuple[ShareRecord, ...]
    round_roots: tuple[bytes, ...]


def trace_root(
    job_id: bytes,
    slot: int,
    part: Range,
    boundaries: tuple[Boundary, ...],
    update_root: bytes,
    local_out_root: bytes,
) -> bytes:
    """Return the Merkle root over the leaves of a share, with ``pol.rules.commitment``."""
    claim = ShareClaim(
        order_id=job_id,
        attempt=_ATTEMPT,
        round=part.round,
        slot=slot,
        issue=_ISSUE,
        first=part.first,
        count=part.count,
        provider=_NO_PROVIDER,
        global_in=boundaries[0].global_root,
        local_in=boundaries[0].local_root,
        local_out=local_out_root,
        segments=len(boundaries) - 1,
        trace_root=b"",
        update_root=update_root,
        executor_version=0,
    )
    leaves = [trace_leaf(_NO_CHAIN, claim, b.index, b.step, b.root, b.metrics) for b in boundaries]
    return merkle_root(leaves)


def broken_link(job_id: bytes, share: ShareRecord) -> str:
    """Return what does not fit together in a share's own hashes, empty if all does; nothing is replayed."""
    for index, boundary in enumerate(share.boundaries):
        if boundary.index != index:
            return f"boundary {index} is numbered {boundary.index}"
        if boundary.root != boundary_root(boundary.global_root, boundary.local_root):
            return f"the root of boundary {index} is not the hash of its two states' roots"
    again = trace_root(
        job_id,
        share.slot,
        share.range,
        share.boundaries,
        share.update_root,
        share.local_out_root,
    )
    return "" if again == share.trace_root else "the trace root is not the root of its leaves"


def share_record(job_id: bytes, share: ShareRecord) -> dict[str, Any]:
    """Return a share as it stands in the file; its trace root is computed here."""
    part = share.range
    root = trace_root(
        job_id, share.slot, part, share.boundaries, share.update_root, share.local_out_root
    )
    return {
        "slot": share.slot,
        "round": part.round,
        "first": part.first,
        "count": part.count,
        "boundaries": [
            {
                "index": boundary.index,
                "step": boundary.step,
                "global_root": boundary.global_root.hex(),
                "local_root": boundary.local_root.hex(),
                "root": boundary.root.hex(),
                "metrics": list(boundary.metrics),
            }
            for boundary in share.boundaries
        ],
        "update_root": share.update_root.hex(),
        "local_out_root": share.local_out_root.hex(),
        "trace_root": root.hex(),
    }


def read_trace(path: Path) -> Trace:
    """Read a trace file; TraceError names the field."""
    try:
        value: object = json.loads(read_file(path.resolve(), str(path), FILE_SIZE_MAX))
    except JobError as error:
        raise TraceError(error.field, error.reason, "give the trace.json of a run") from None
    except (ValueError, RecursionError):
        raise TraceError(str(path), "is not JSON", _REMEDY) from None
    try:
        return _trace(value)
    except JobError as error:
        raise TraceError(error.field, error.reason, _REMEDY) from None


def _trace(value: object) -> Trace:
    fields = _object(value, "trace")
    if fields.get("version") != VERSION:
        raise TraceError("version", f"is not {VERSION}", _REMEDY)
    rounds = take_list(fields.get("rounds"), _LIST_MAX, "rounds")
    shares = take_list(fields.get("shares"), _LIST_MAX, "shares")
    return Trace(
        _digest(fields, "job", "trace"),
        take_int(fields.get("slots"), 1, _LIST_MAX, "slots"),
        tuple(_share(item, f"shares[{index}]") for index, item in enumerate(shares)),
        tuple(
            _digest(_object(item, f"rounds[{index}]"), "state_root", f"rounds[{index}]")
            for index, item in enumerate(rounds)
        ),
    )


def _share(value: object, where: str) -> ShareRecord:
    fields = _object(value, where)
    most = {"slot": _U32_MAX, "round": _U32_MAX, "first": _I64_MAX, "count": _I64_MAX}
    number = {
        name: take_int(fields.get(name), 0, high, f"{where}.{name}") for name, high in most.items()
    }
    boundaries = take_list(fields.get("boundaries"), _LIST_MAX, f"{where}.boundaries")
    if len(boundaries) < 2:
        raise TraceError(f"{where}.boundaries", "there are fewer than two", _REMEDY)
    return ShareRecord(
        number["slot"],
        Range(number["round"], number["first"], number["count"]),
        tuple(
            _boundary(item, f"{where}.boundaries[{index}]") for index, item in enumerate(boundaries)
        ),
        _digest(fields, "update_root", where),
        _digest(fields, "local_out_root", where),
        _digest(fields, "trace_root", where),
    )


def _boundary(value: object, where: str) -> Boundary:
    fields = _object(value, where)
    metrics = take_list(fields.get("metrics"), 1024, f"{where}.metrics")
    return Boundary(
        take_int(fields.get("index"), 0, _LIST_MAX, f"{where}.index"),
        take_int(fields.get("step"), 0, _I64_MAX, f"{where}.step"),
        _digest(fields, "global_root", where),
        _digest(fields, "local_root", where),
        _digest(fields, "root", where),
        tuple(take_int(bits, 0, _U32_MAX, f"{where}.metrics") for bits in metrics),
    )


def _object(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TraceError(where, "is not an object", _REMEDY)
    return value


def _digest(fields: Mapping[str, object], name: str, where: str) -> bytes:
    return take_hex(fields.get(name), 32, f"{where}.{name}")
