"""The narrowing of a difference between two traces, or between a trace and a recomputation, to a single value.

A trace has the roots at boundaries only. They give the round, the slot and the segment at which two traces part. The
states at its start are the same in both, so the place can be recomputed alone. With a record of the place
(``place_record.py``) from a party, the first value that it has computed wrongly is found: a step, an operation, and
within a repeat the turn and the operation of its body. The operands of this operation are equal for both parties.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pol.errors import RangeError, TraceError
from pol.executor.interface import Backend
from pol.job.load import LoadedJob
from pol.replay.place_record import PlaceRecord, ValueList, read_record, record_name
from pol.replay.replay import StateFolder
from pol.replay.trace_file import ShareRecord, Trace, share_record
from pol.replay.walk import PlaceKind, See, SeenValue, walk_aggregation, walk_segment, walk_update
from pol.rules.commitment import boundary_root
from pol.state.arrays import Array, State
from pol.values import metric_values
from pol.work.records import Boundary, RoundSlot
from pol.work.segments import SlotState, run_segment, slot_state
from pol.work.train import aggregate, share_update, train_share

SHOWN_VALUES = 8
"""Number of elements of an operand that a difference shows."""


class Level:
    """The names of the levels to which a difference can be narrowed, the coarsest first."""

    START = "start"
    PLACE = "place"
    TENSOR = "tensor"
    STEP = "step"
    OPERATION = "operation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """The first place at which two traces have different roots. ``kind`` is None for the start of a share.

    ``first`` and ``second`` are the roots after the place. If ``is_local`` is true, they are those of the local state
    that the share leaves.
    """

    kind: PlaceKind | None
    round: int
    slot: int
    segment: int
    first: bytes
    second: bytes
    is_local: bool = False

    @property
    def where(self) -> str:
        """The place in words."""
        match self.kind:
            case PlaceKind.AGGREGATION:
                return f"round {self.round}, aggregation"
            case PlaceKind.SEGMENT:
                return f"round {self.round}, slot {self.slot}, segment {self.segment}"
            case PlaceKind.UPDATE:
                return f"round {self.round}, slot {self.slot}, update"
            case None:
                return f"round {self.round}, slot {self.slot}, start"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownArray:
    """An array in a report: its dtype, its shape, and its first elements."""

    dtype: str
    shape: tuple[int, ...]
    elements: tuple[float | int | bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference that was narrowed as far as the files of both parties allow.

    - ``level``: the level of the finding: start, place, tensor, step (an output of a step), or operation.
    - ``kind``, ``round``, ``slot``, ``segment``: the place. ``slot`` is -1 for an aggregation.
    - ``step``: the inner step of the job. ``node``: the value number in its program. ``turn`` and ``inner``: within a
      repeat, the turn and the value number in the body. ``path`` has all of these numbers, also for nested repeats.
    - ``operation``: the name of the primitive. ``name``: the name of a tensor or a metric.
    - ``first``, ``second`` and ``own``: the hashes or roots of both parties and of the recomputation. One is empty if
      the party did not show it.
    - ``operands`` and ``result``: the inputs of the operation, and the recomputed result.
    - ``agrees``: the names of the parties that the recomputation agrees with.
    - ``sentence``: the finding in words. ``advice``: what to do to narrow it further, or empty text.
    """

    level: str
    kind: str
    round: int
    slot: int
    segment: int
    step: int | None = None
    node: int | None = None
    turn: int | None = None
    inner: int | None = None
    path: tuple[int, ...] = ()
    operation: str = ""
    name: str = ""
    first: bytes = b""
    second: bytes = b""
    own: bytes = b""
    operands: tuple[ShownArray, ...] = ()
    result: ShownArray | None = None
    agrees: tuple[str, ...] = ()
    sentence: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A difference, and the arrays that show it: the operands by name, and the recomputed ``result``."""

    difference: Difference
    arrays: dict[str, Array]


@dataclass(frozen=True, slots=True)
class TraceParty:
    """A party of a comparison: its name in sentences, its trace, and the folders of its states and its records."""

    name: str
    trace: Trace
    states: Path | None = None
    records: Path | None = None


# --- where two traces part -----------------------------------------------------------------------


def find_departure(first: Trace, second: Trace) -> Departure | None:
    """Return the first place at which two traces of one job part, or None if the shorter one begins the longer one.

    The caller has checked the shape and the hashes of both.
    """
    slots = len(first.shares) // len(first.rounds) if first.rounds else 0
    for round, (one, other) in enumerate(zip(first.round_roots, second.round_roots, strict=False)):
        for slot in range(slots):
            at = round * slots + slot
            found = part_of_shares(first.shares[at], second.shares[at])
            if found is not None:
                return found
        if one != other:
            return Departure(kind=PlaceKind.AGGREGATION, round=round, slot=-1, segment=0, first=one, second=other)
    return None


def part_of_shares(first: ShareRecord, second: ShareRecord) -> Departure | None:
    """Return the first place at which two records of one share part, or None if they are the same."""
    make = partial(Departure, round=first.round, slot=first.slot)
    for one, other in zip(first.boundaries, second.boundaries, strict=True):
        if one.root != other.root:
            kind = PlaceKind.SEGMENT if one.index else None
            segment = max(0, one.index - 1)
            return make(kind=kind, segment=segment, first=one.root, second=other.root)
    end = partial(make, kind=PlaceKind.UPDATE, segment=first.segments)
    if first.update_root != second.update_root:
        return end(first=first.update_root, second=second.update_root)
    if first.local_out_root != second.local_out_root:
        return end(first=first.local_out_root, second=second.local_out_root, is_local=True)
    return None


# --- the recomputation ---------------------------------------------------------------------------


class HonestRun:
    """A recomputation of a job from its initial states, as far as it is needed."""

    def __init__(self, loaded: LoadedJob, executor: Backend, folders: Sequence[StateFolder] = ()) -> None:
        """Use ``executor``. States at boundaries are read from ``folders`` if they have them."""
        self._loaded, self._executor, self._folders = loaded, executor, folders
        slots = loaded.job.document.slots
        self._reached: tuple[int, State, tuple[State, ...]] = (
            0,
            loaded.global_state,
            (loaded.local_state,) * slots,
        )

    def first_difference(self, trace: Trace) -> Departure | None:
        """Return the first place at which a trace parts from the recomputation; its ``second`` root is ours."""
        loaded, slots = self._loaded, self._loaded.job.document.slots
        state: State = loaded.global_state
        locals_: list[State] = [loaded.local_state] * slots
        for round, claimed in enumerate(trace.round_roots):
            self._reached = round, state, tuple(locals_)
            updates: list[State] = []
            for slot in range(slots):
                own, update, locals_[slot] = self._share(RoundSlot(round, slot), state, locals_[slot])
                found = part_of_shares(trace.shares[round * slots + slot], own)
                if found is not None:
                    return found
                updates.append(update)
            result = aggregate(loaded, state, updates, self._executor)
            if result.root != claimed:
                return Departure(
                    kind=PlaceKind.AGGREGATION, round=round, slot=-1, segment=0, first=claimed, second=result.root
                )
            state = result.state
        return None

    def _share(self, part: RoundSlot, state: State, local: State) -> tuple[ShareRecord, State, State]:
        share = train_share(self._loaded, part, state, local, backend=self._executor)
        record = share_record(part, share.boundaries, share.update_root, share.local_out_root)
        return record, share.update, share.local_out

    def at(self, share: ShareRecord, index: int) -> SlotState:
        """Return the states at a boundary of a share, from a folder or by recomputation.

        Raises TraceError if the recomputation reaches other states than those of the trace.
        """
        boundary = share.boundaries[index]
        for folder in self._folders:
            try:
                return slot_state(self._loaded, *folder.at(boundary))
            except TraceError:
                continue
        opening, local = self._before(share.round, share.slot)
        state = slot_state(self._loaded, opening, local)
        for segment in range(index):
            state, _ = run_segment(self._loaded, share.part, segment, state, self._executor)
        if state.roots != (boundary.global_root, boundary.local_root):
            raise TraceError(
                f"shares[{share.round}][{share.slot}]",
                f"the recomputation does not reach the states at boundary {index}",
                "verify this trace first, without another one",
            )
        return state

    def _before(self, round: int, slot: int) -> tuple[State, State]:
        """Return the global state before a round, and the local state of a slot there."""
        if self._reached[0] > round:
            loaded, slots = self._loaded, self._loaded.job.document.slots
            self._reached = 0, loaded.global_state, (loaded.local_state,) * slots
        first, state, locals_ = self._reached
        for number in range(first, round):
            shares = [self._share(RoundSlot(number, each), state, local) for each, local in enumerate(locals_)]
            updates = [update for _, update, _ in shares]
            state = aggregate(self._loaded, state, updates, self._executor).state
            locals_ = tuple(local for *_, local in shares)
            self._reached = number + 1, state, locals_
        return state, locals_[slot]

    def walk(self, trace: Trace, found: Departure) -> Callable[[Backend, See], bytes]:
        """Return a function that recomputes the place of a departure value by value, and returns the root after it.

        ``trace`` is one of both traces; they agree on all that the place depends on.
        """
        loaded, slots = self._loaded, self._loaded.job.document.slots
        shares = trace.shares[found.round * slots : (found.round + 1) * slots]
        match found.kind:
            case PlaceKind.SEGMENT:
                share = shares[found.slot]
                start = self.at(share, found.segment)
                return lambda backend, see: walk_segment(loaded, share.part, found.segment, start, backend, see).root
            case PlaceKind.UPDATE:
                share = shares[found.slot]
                opening, end = self.at(share, 0).global_state, self.at(share, share.segments)
                return lambda backend, see: walk_update(loaded, opening, end, backend, see)
            case PlaceKind.AGGREGATION:
                opening = self.at(shares[0], 0).global_state
                ends = [self.at(share, share.segments) for share in shares]
                updates = [share_update(loaded, opening, end, self._executor).update for end in ends]
                return lambda backend, see: walk_aggregation(loaded, opening, updates, backend, see)
            case None:
                raise ValueError("the start of a share is not computed")


# --- the search ----------------------------------------------------------------------------------


class _Search:
    """A search for the first value of a recomputation that a record does not have."""

    def __init__(self, lists: Sequence[Sequence[bytes]]) -> None:
        self._lists = lists
        self.count = 0
        self.found: SeenValue | None = None
        self.claims: tuple[bytes, ...] = ()

    def see(self, seen: SeenValue) -> None:
        """Compare a value with those of the records, and keep the first one that differs."""
        if self.found is None and any(self._at(hashes) != seen.hash for hashes in self._lists):
            self.found, self.claims = seen, tuple(map(self._at, self._lists))
        self.count += 1

    def _at(self, hashes: Sequence[bytes]) -> bytes:
        return hashes[self.count] if self.count < len(hashes) else b""


def narrow(first: TraceParty, second: TraceParty | None, loaded: LoadedJob, executor: Backend) -> Narrowed | None:
    """Find the first difference between two traces, or between a trace and the recomputation if there is no second one.

    Return None if there is no difference. The caller has checked that both traces have the job's shape, and that their
    own hashes are right.

    Raises TraceError if a record is not that of its trace, and Stopped if the recomputation has no result.
    """
    parties = [party for party in (first, second) if party is not None]
    folders = [StateFolder(party.states, loaded) for party in parties if party.states is not None]
    honest = HonestRun(loaded, executor, folders)
    departure = honest.first_difference(first.trace) if second is None else find_departure(first.trace, second.trace)
    if departure is None:
        return None
    if departure.kind is None or departure.is_local:
        return Narrowed(_describe_root(first, second, loaded, departure), {})
    records = [_find_record(party, loaded, departure) for party in parties]
    search = _Search([record.hashes for record in records if record is not None])
    own = honest.walk(first.trace, departure)(executor, search.see)
    claims = dict(zip((party.name for party in parties), (departure.first, departure.second), strict=False))
    agrees = tuple(name for name, root in claims.items() if root == own)
    plain = partial(
        _make, departure, second.name if second is not None else "", agrees=agrees, own=own, first_name=first.name
    )
    for record in records:
        if record is not None and len(record.hashes) != search.count:
            reason = f"the record of {departure.where} has {len(record.hashes)} values, not {search.count}"
            raise TraceError("values", reason, "write it again with the same release of Assay")
    if search.found is not None:
        names = [party.name for party, record in zip(parties, records, strict=True) if record is not None]
        return _narrowed(plain, search.found, dict(zip(names, search.claims, strict=True)), first.name)
    if any(records):
        shown = [p.name for p, r in zip(parties, records, strict=True) if r is not None and p.name not in agrees]
        if shown:
            detail = f"the record of {shown[0]} agrees with the recomputation in every value, but its root does not"
            return Narrowed(plain(level=Level.PLACE, detail=detail), {})
    return _compare_states(plain, parties, honest, loaded, executor, departure, agrees)


def _find_record(party: TraceParty, loaded: LoadedJob, found: Departure) -> PlaceRecord | None:
    """Return a party's record of a place, or None if it has none; TraceError if the record is of another run."""
    if party.records is None or found.kind is None:
        return None
    path = party.records / record_name(found.kind, found.round, found.slot, found.segment)
    if not path.exists():
        return None
    record = read_record(path)
    opening, closing = roots_of(party.trace, loaded, found.kind, found.round, found.slot, found.segment)
    if (record.job, record.kind, record.opening, record.closing) != (loaded.job.id, found.kind, opening, closing):
        reason = f"is not a record of {found.where} in {party.name}"
        raise TraceError(str(path), reason, "ask the author of the trace for the record of the same run")
    return record


def roots_of(
    trace: Trace, loaded: LoadedJob, kind: PlaceKind, round: int, slot: int, segment: int
) -> tuple[bytes, bytes]:
    """Return the roots that a trace has before and after a place."""
    slots = loaded.job.document.slots
    if kind is PlaceKind.AGGREGATION:
        before = trace.round_roots[round - 1] if round else loaded.job.document.global_root
        return before, trace.round_roots[round]
    share = trace.shares[round * slots + slot]
    if kind is PlaceKind.UPDATE:
        return share.boundaries[-1].root, share.update_root
    return share.boundaries[segment].root, share.boundaries[segment + 1].root


def _describe_root(first: TraceParty, second: TraceParty | None, loaded: LoadedJob, found: Departure) -> Difference:
    """Return a difference that needs no recomputation: the start of a share, or the local state that it leaves."""
    document = loaded.job.document
    at = found.round * document.slots + found.slot
    share = first.trace.shares[at]
    if found.is_local:
        own = share.boundaries[-1].local_root
        detail = "the local state that the share leaves is not that at its last boundary"
    else:
        opening = first.trace.round_roots[found.round - 1] if found.round else document.global_root
        local = first.trace.shares[at - document.slots].local_out_root if found.round else document.local_root
        own = boundary_root(opening, local, ())
        detail = "the share does not start from the states at the end of the round before"
    other = second.name if second is not None else ""
    claims = {first.name: found.first, other: found.second}
    agrees = tuple(name for name, root in claims.items() if name and root == own)
    return _make(found, other, agrees=agrees, own=own, first_name=first.name, level=Level.START, detail=detail)


def _compare_states(
    plain: Callable[..., Difference],
    parties: Sequence[TraceParty],
    honest: HonestRun,
    loaded: LoadedJob,
    executor: Backend,
    found: Departure,
    agrees: Sequence[str],
) -> Narrowed:
    """Name the first tensor that differs at the end of a segment, if the party that is wrong kept its states."""
    wrong = " and ".join(party.name for party in parties if party.name not in agrees)
    advice = f"for the operation, the author of {wrong} writes a record of this place with assay trace record"
    coarse = Narrowed(plain(level=Level.PLACE, advice=advice), {})
    if found.kind is not PlaceKind.SEGMENT:
        return coarse
    at = found.round * loaded.job.document.slots + found.slot
    for party in parties:
        if party.name in agrees:
            continue
        share = party.trace.shares[at]
        claimed = share.boundaries[found.segment + 1]
        start = honest.at(share, found.segment)
        end, reached = run_segment(loaded, share.part, found.segment, start, executor)
        if (claimed.global_root, claimed.local_root) == (reached.global_root, reached.local_root):
            return Narrowed(_compare_metrics(plain, loaded.job.document.metrics, claimed, reached), {})
        narrowed = _compare_tensors(partial(plain, advice=advice), party, loaded, claimed, end)
        if narrowed is not None:
            return narrowed
    return coarse


def _compare_metrics(
    plain: Callable[..., Difference], names: Sequence[str], claimed: Boundary, reached: Boundary
) -> Difference:
    """Name the first metric that differs at a boundary whose states are equal."""
    pairs = zip(metric_values(claimed.metrics), metric_values(reached.metrics), strict=False)
    for name, (theirs, own) in zip(names, pairs, strict=False):
        if theirs != own:
            return plain(level=Level.TENSOR, name=name, detail=f"the metric {name} is {theirs:.9g}, not {own:.9g}")
    return plain(level=Level.PLACE, detail=f"the boundary has {len(claimed.metrics)} metrics, not {len(names)}")


def _compare_tensors(
    plain: Callable[..., Difference], party: TraceParty, loaded: LoadedJob, claimed: Boundary, end: SlotState
) -> Narrowed | None:
    """Name the first tensor that differs from the states that a party kept; None if it kept none."""
    if party.states is None:
        return None
    try:
        theirs = StateFolder(party.states, loaded).at(claimed)
    except TraceError:
        return None
    for which, own, other in zip(("global", "local"), (end.global_state, end.local_state), theirs, strict=True):
        for name in sorted(own):
            places = np.flatnonzero(np.asarray(own[name] != other[name]).reshape(-1))
            if places.size:
                element = int(places[0])
                claim, value = (_element(array, element) for array in (other[name], own[name]))
                detail = f"element {element} of the {which} tensor {name} is {claim} at its end, not {value}"
                arrays = {"claimed": np.asarray(other[name]), "result": np.asarray(own[name])}
                return Narrowed(plain(level=Level.TENSOR, name=name, detail=detail), arrays)
    return None


def _element(array: Array, at: int) -> str:
    return str(array.reshape(-1)[at].item())


def _narrowed(plain: Callable[..., Difference], seen: SeenValue, claims: dict[str, bytes], first_name: str) -> Narrowed:
    """Return the difference at a single value, with the arrays that show it."""
    path, node = seen.spot.path, seen.node
    right = tuple(name for name, claim in claims.items() if claim == seen.hash)
    parts = []
    if seen.spot.step is not None:
        parts.append(f"step {seen.spot.step}")
    parts.append(_words(seen))
    said = ", ".join(f"{name} has {claim.hex()[:12]}" for name, claim in claims.items())
    detail = f"from the same inputs, {said}, and the recomputation {seen.hash.hex()[:12]}"
    level = Level.OPERATION if node is not None else Level.STEP if seen.spot.step is not None else Level.TENSOR
    names = [f"operand.{at}" for at in range(len(seen.operands))]
    arrays = {**dict(zip(names, seen.operands, strict=True)), "result": seen.value}
    others = [claim for name, claim in claims.items() if name != first_name]
    difference = plain(
        level=level,
        step=seen.spot.step,
        node=path[0] if path else None,
        turn=path[1] if len(path) > 1 else None,
        inner=path[2] if len(path) > 2 else None,
        path=path,
        operation=node.op if node is not None else "",
        name=seen.spot.name,
        first=claims.get(first_name, b""),
        second=others[0] if others else b"",
        own=seen.hash,
        operands=tuple(_shown(operand) for operand in seen.operands),
        result=_shown(seen.value),
        at=", ".join(parts),
        detail=detail,
        right=right,
    )
    return Narrowed(difference, arrays)


def _words(seen: SeenValue) -> str:
    """Return the position of a value within its step in words."""
    if seen.node is None:
        return seen.spot.name
    path = seen.spot.path
    words = [f"node {path[at]} (repeat), turn {path[at + 1]}" for at in range(0, len(path) - 1, 2)]
    words.append(f"node {path[-1]} ({seen.node.op})" if len(path) == 1 else f"operation {path[-1]} ({seen.node.op})")
    return ", ".join(words)


def _shown(array: Array) -> ShownArray:
    flat = np.asarray(array).reshape(-1)[:SHOWN_VALUES]
    return ShownArray(dtype=str(array.dtype), shape=tuple(array.shape), elements=tuple(item.item() for item in flat))


def _make(
    found: Departure,
    second_name: str,
    *,
    first_name: str,
    level: str,
    agrees: tuple[str, ...],
    own: bytes,
    at: str = "",
    detail: str = "",
    advice: str = "",
    right: tuple[str, ...] | None = None,
    **more: Any,
) -> Difference:
    """Return a difference with its sentence. ``right`` are the parties that have the recomputed value, if known."""
    where = f"{found.where}, {at}" if at else found.where
    if second_name:
        sentence = f"{first_name} and {second_name} part in {where}"
        named = agrees if right is None else right
        verdict = " and ".join(named) if named else "neither of them"
        ending = f"; the recomputation agrees with {verdict}"
    else:
        sentence, ending = f"{first_name} departs from the recomputation in {where}", ""
    values = {"first": found.first, "second": found.second if second_name else b"", "own": own, **more}
    return Difference(
        level=level,
        kind=found.kind or "start",
        round=found.round,
        slot=found.slot,
        segment=found.segment,
        agrees=agrees,
        sentence=sentence + (f": {detail}" if detail else "") + ending,
        advice=advice,
        **values,
    )


# --- records -------------------------------------------------------------------------------------


def make_record(
    party: TraceParty, loaded: LoadedJob, executor: Backend, kind: PlaceKind, round: int, slot: int, segment: int
) -> PlaceRecord:
    """Recompute a place of a trace value by value on this machine, and return its record.

    Raises RangeError if the trace has no such place. Raises TraceError if this machine reaches another root than the
    trace: a record is of use only if it was made as the trace was.
    """
    document = loaded.job.document
    share_places = kind is not PlaceKind.AGGREGATION
    if not 0 <= round < len(party.trace.rounds):
        raise RangeError(f"round {round} is outside the trace's {len(party.trace.rounds)} rounds")
    if share_places and not 0 <= slot < document.slots:
        raise RangeError(f"slot {slot} is outside the job's {document.slots} slots")
    if kind is PlaceKind.SEGMENT and not 0 <= segment < document.share_segments:
        raise RangeError(f"segment {segment} is outside a share of {document.share_segments}")
    if kind is PlaceKind.UPDATE:
        segment = document.share_segments
    opening, closing = roots_of(party.trace, loaded, kind, round, slot, segment)
    place = Departure(
        kind=kind, round=round, slot=slot if share_places else -1, segment=segment, first=closing, second=b""
    )
    folders = [] if party.states is None else [StateFolder(party.states, loaded)]
    values = ValueList()
    root = HonestRun(loaded, executor, folders).walk(party.trace, place)(executor, values.see)
    if root != closing:
        raise TraceError(
            place.where,
            f"this machine reaches the root {root.hex()[:12]}, but {party.name} has {closing.hex()[:12]}",
            "write the record on the machine that made the trace, and with the same backend",
        )
    return PlaceRecord(
        job=loaded.job.id,
        kind=kind.value,
        round=round,
        slot=max(0, place.slot),
        segment=segment if share_places else 0,
        opening=opening,
        closing=closing,
        values=b"".join(values.hashes),
    )
