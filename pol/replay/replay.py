"""Replaying single segments of a share, and checking the trace of a local run.

The replay of a segment needs only the job and the global and local state at the segment's start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import SystemRandom
from typing import Protocol

from domain.readable import Readable
from host.files import write_whole
from pol.errors import JobError, ReplayError, StateError, TraceError
from pol.executor.backend import backend as executor_of
from pol.executor.interface import Backend
from pol.executor.names import DEFAULT_ENGINE, Engine
from pol.job.files import read_file
from pol.job.load import LoadedJob, load_document, load_job
from pol.replay.trace_file import ShareRecord, Trace
from pol.state.arrays import State
from pol.state.canonical import decode_state, state_pieces, state_tree
from pol.state.layout import encoded_size
from pol.values import TensorSpec
from pol.work.places import boundary_step, check_segment
from pol.work.records import Boundary, ReplayedSegment, RoundSlot, UpdateResult
from pol.work.segments import SlotState, run_segment, slot_state
from pol.work.train import aggregate, share_update


def replay_segment(
    loaded: LoadedJob,
    part: RoundSlot,
    index: int,
    opening: State,
    local: State,
    backend: Backend,
    on_step: Callable[[SlotState], None] | None = None,
) -> ReplayedSegment:
    """Run the steps of segment ``index`` of a share, beginning with the states at the segment's start.

    ``part`` is the share's round and slot, and ``opening`` and ``local`` are the global and the local state.
    ``on_step`` receives the states after each step and may keep them.

    Raises RangeError if the share has no such segment, StateError if a state does not have the job's tensors, and
    StepFailed if a step has no result. A job stops at a step without a result, so an honest trace never contains such a
    step.
    """
    # This private copy may be overwritten by the replay.
    start = slot_state(loaded, opening, local)
    return replay_from(loaded, part, index, start, backend, on_step, donate=on_step is None)


def replay_from(
    loaded: LoadedJob,
    part: RoundSlot,
    index: int,
    start: SlotState,
    backend: Backend,
    on_step: Callable[[SlotState], None] | None = None,
    donate: bool = True,
) -> ReplayedSegment:
    """Replay a segment as :func:`replay_segment` does, from the states ``start``, which the caller has checked.

    If ``donate`` is true, ``start`` is overwritten, and states passed to ``on_step`` are valid only during the call.
    """
    check_segment(loaded.job.document, part, index)

    def observe(_step: int, _loss: float, state: SlotState) -> None:
        if on_step is not None:
            on_step(state)

    end, boundary = run_segment(loaded, part, index, start, backend, observe, donate=donate)
    return ReplayedSegment(boundary, end.global_state, end.local_state)


# --- the check of a trace ------------------------------------------------------------------------

# Without kept states, everything is replayed from the job's initial states, round by round, and no state from the
# trace's author is used. With kept states, drawn segments are replayed, each from states whose roots are checked.

RUN_FOLDER, STATES_FOLDER = "run", "states"
"""Names of two folders: the default folder of a run, which is in the job's directory; and the folder of kept states,
which is in the run's folder.
"""
_REMEDY = "name the job directory that this run trained"
_OTHER_START = "the share does not start from the global state at the end of the round before"
_OTHER_LOCAL_START = "the share does not start from the slot's local state at the end of the round before"
_KEEP = "run the job again and keep its states (--keep-states, or keep_states=True), or check all segments"


@dataclass(frozen=True)
class Check(Readable):
    """The result of checking one share, or of the aggregation at the end of a round (with ``slot`` -1).

    ``segments`` is the number of the share's segments, and ``checked`` the number of them that the check replayed.
    ``fault`` describes the first error; it is empty if there is no error. If the share contradicts itself, it is not
    ``is_narrowable``: no replay explains it.

    Example::

        trace = assay.load_trace("my-job/run/trace.json")
        for check in assay.verify_trace(trace, "my-job"):
            print(check.round, check.slot, check.fault or "holds")
    """

    round: int
    slot: int
    segments: int
    checked: int
    fault: str
    is_narrowable: bool = True

    @property
    def holds(self) -> bool:
        """True if the check found no fault."""
        return not self.fault


@dataclass(frozen=True)
class CheckCost(Readable):
    """The work of a check of a trace: the segments that it replayed, their steps and FLOPs, and the wall-clock seconds.

    ``part`` is their part of all segments of the trace's rounds. ``narrowing_seconds`` is the time that the search for
    the first wrong value took after it, or 0.0. Updates, aggregations and hashes are in the seconds only.
    """

    segments: int
    steps: int
    flops: int
    part: float
    seconds: float
    narrowing_seconds: float = 0.0


class _States(Protocol):
    """A source of the states at the boundaries of a share."""

    def at(self, boundary: Boundary) -> tuple[State, State]:
        """Return the global and the local state at a boundary."""
        ...

    def reached(self, boundary: Boundary, state: State, local: State) -> None:
        """Receive the states that the replay of a segment reached at ``boundary``."""
        ...


class _Chained:
    """A source that holds only the states at the end of the last segment that the checker replayed."""

    def __init__(self, state: State, local: State) -> None:
        self._last = (state, local)

    def at(self, boundary: Boundary) -> tuple[State, State]:
        """Return the last states. Callers ask for boundaries in order, so these are the states at ``boundary``."""
        return self._last

    def reached(self, boundary: Boundary, state: State, local: State) -> None:
        """Keep the states, because the next segment starts from them."""
        self._last = (state, local)


class StateFolder:
    """A folder with the states of a run.

    Each state is in a file named by its root, which is checked when the state is read.
    """

    def __init__(self, folder: Path, loaded: LoadedJob) -> None:
        """Use ``folder`` for the states of the job. It is created when the first state is written."""
        self._folder, self._document = folder, loaded.job.document

    def keep(self, boundary: Boundary, state: State, local: State) -> None:
        """Write the states at a boundary, unless their files exist."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for root, value in ((boundary.global_root, state), (boundary.local_root, local)):
            path = self._path(root)
            if not path.exists():
                write_whole(path, state_pieces(value))

    def at(self, boundary: Boundary) -> tuple[State, State]:
        """Read the states at a boundary.

        Raises TraceError if a state is missing or does not have the root in its file's name.
        """
        return (
            self._read(boundary.global_root, self._document.global_tensors),
            self._read(boundary.local_root, self._document.local_tensors),
        )

    def reached(self, boundary: Boundary, state: State, local: State) -> None:
        """Do nothing, since the start of every segment is read from the folder."""

    def _read(self, root: bytes, specs: Sequence[TensorSpec]) -> State:
        path = self._path(root)
        try:
            size = encoded_size(specs)
            state = decode_state(read_file(path, str(path), size, size), specs)
        except JobError as error:
            reason = error.reason if path.exists() else "this state was not kept"
            raise TraceError(str(path), reason, _KEEP) from None
        except StateError as error:
            raise TraceError(str(path), str(error), _KEEP) from None
        if state_tree(state).root != root:
            raise TraceError(str(path), "the root of the state differs from the file's name", _KEEP)
        return state

    def _path(self, root: bytes) -> Path:
        return self._folder / f"{root.hex()}.state"


Progress = Callable[[int, int], None]
"""A function that is called with the number of replayed segments and the number of segments to replay."""


def verify_trace(
    trace: Trace,
    directory: Path | str,
    *,
    segments: int | None = None,
    states: Path | str | None = None,
    engine: Engine = DEFAULT_ENGINE,
    on_progress: Progress | None = None,
) -> tuple[Check, ...]:
    """Check a trace by replay on an engine. The job is in ``directory``.

    If ``segments`` is not given, everything is replayed from the beginning, and the check ends with the first round
    that has a fault. With ``segments=N``, the check replays N randomly drawn segments of each share, the share's first
    and last segment, and its update. These replays start from the states that the run kept in the folder ``states``,
    which is ``run/states`` in ``directory`` by default. ``on_progress`` is called after each segment.

    Raises JobError if the job does not load, the trace belongs to another job, or a kept state is missing.

    Example::

        trace = assay.load_trace("my-job/run/trace.json")
        print(all(check.holds for check in assay.verify_trace(trace, "my-job")))
    """
    directory = Path(directory)
    loaded = load_job(directory)
    _check_job(trace, loaded)
    checker = _Checker(trace, loaded, executor_of(engine), on_progress, segments)
    if segments is None:
        return checker.all_in_order()
    folder = Path(states) if states is not None else directory / RUN_FOLDER / STATES_FOLDER
    return checker.drawn(StateFolder(folder, loaded))


def check_cost(trace: Trace, directory: Path, segments: int, seconds: float, narrowing_seconds: float) -> CheckCost:
    """Return the cost of a check that replayed ``segments`` segments of a trace in so many seconds.

    The job is in ``directory``. Raises JobError if its document is not a job.
    """
    document = load_document(directory).document
    steps = segments * document.segment_steps
    return CheckCost(
        segments=segments,
        steps=steps,
        flops=steps * document.step_flops,
        part=segments / sum(share.segments for share in trace.shares),
        seconds=seconds,
        narrowing_seconds=narrowing_seconds,
    )


def check_trace_of(trace: Trace, loaded: LoadedJob) -> None:
    """Raise TraceError if a trace does not belong to a job, or contradicts itself; nothing is replayed."""
    _check_job(trace, loaded)
    for share in trace.shares:
        fault = share.fault or wrong_shape(share, loaded)
        if fault:
            field = f"round {share.round}, slot {share.slot}"
            raise TraceError(field, fault, "get the file again from its author")


def _check_job(trace: Trace, loaded: LoadedJob) -> None:
    if trace.job != loaded.job.id:
        raise TraceError("job", "the trace belongs to another job", _REMEDY)
    _check_shape(trace, loaded)


def wrong_shape(share: ShareRecord, loaded: LoadedJob) -> str:
    """Return how a share's numbers of segments and steps differ from the job's, or empty text."""
    document = loaded.job.document
    if share.segments != document.share_segments:
        return f"the share has {share.segments} segments, not {document.share_segments}"
    for boundary in share.boundaries:
        expected = boundary_step(document, share.round, boundary.index)
        if boundary.step != expected:
            return f"boundary {boundary.index} has the step {boundary.step}, not {expected}"
    return ""


def _check_shape(trace: Trace, loaded: LoadedJob) -> None:
    """Raise TraceError if the trace lacks a share of one of its rounds, because a missing share cannot be checked."""
    document = loaded.job.document
    if not 1 <= len(trace.round_roots) <= document.rounds:
        raise TraceError("rounds", f"the job has {document.rounds} rounds", _REMEDY)
    whole = len(trace.shares) == len(trace.round_roots) * document.slots
    if not whole or any(
        (share.round, share.slot) != divmod(index, document.slots) for index, share in enumerate(trace.shares)
    ):
        raise TraceError("shares", "the trace does not have one share per slot and round, in this order", _REMEDY)


class _Checker:
    """A checker of one trace."""

    def __init__(
        self,
        trace: Trace,
        loaded: LoadedJob,
        executor: Backend,
        on_progress: Progress | None,
        segments: int | None,
    ) -> None:
        self._trace = trace
        self._loaded = loaded
        self._executor = executor
        self._document = loaded.job.document
        self._slots = loaded.job.document.slots
        self._on_progress = on_progress
        self._done = 0
        self._drawn = [_drawn(share, segments) for share in trace.shares]
        self._all = sum(len(drawn) for drawn in self._drawn)

    def all_in_order(self) -> tuple[Check, ...]:
        """Replay the whole run up to the first round with a fault. Later rounds cannot be checked."""
        state: State = self._loaded.global_state
        locals_: list[State] = [self._loaded.local_state] * self._slots
        checks: list[Check] = []
        for round, claimed in enumerate(self._trace.round_roots):
            updates: list[State] = []
            for share, drawn in self._round(round):
                states = _Chained(state, locals_[share.slot])
                check, result = self._share(share, drawn, states)
                checks.append(check)
                if result is not None:
                    updates.append(result.update)
                    locals_[share.slot] = result.local_out
            if not all(check.holds for check in checks):
                return tuple(checks)
            check, state = self._aggregation(round, claimed, state, updates)
            checks.append(check)
            if not check.holds:
                return tuple(checks)
        return tuple(checks)

    def drawn(self, states: StateFolder) -> tuple[Check, ...]:
        """Replay the drawn segments from kept states, and the aggregation of every round.

        ``states`` has the kept states.
        """
        checks: list[Check] = []
        opening = self._document.global_root
        locals_ = [self._document.local_root] * self._slots
        for round, claimed in enumerate(self._trace.round_roots):
            updates: list[State] = []
            for share, drawn in self._round(round):
                check, result = self._share(share, drawn, states)
                if check.holds and share.boundaries[0].global_root != opening:
                    check = replace(check, fault=_OTHER_START)
                if check.holds and share.boundaries[0].local_root != locals_[share.slot]:
                    check = replace(check, fault=_OTHER_LOCAL_START)
                locals_[share.slot] = share.local_out_root
                checks.append(check)
                updates += [] if result is None else [result.update]
            if len(updates) == self._slots:
                first, _ = states.at(self._round(round)[0][0].boundaries[0])
                checks.append(self._aggregation(round, claimed, first, updates)[0])
            opening = claimed
        return tuple(checks)

    def _round(self, round: int) -> list[tuple[ShareRecord, tuple[int, ...]]]:
        part = slice(round * self._slots, (round + 1) * self._slots)
        return list(zip(self._trace.shares[part], self._drawn[part], strict=True))

    def _share(self, share: ShareRecord, drawn: tuple[int, ...], states: _States) -> tuple[Check, UpdateResult | None]:
        """Check a share: its hashes, its ``drawn`` segments and its update.

        Return the result, and the share's update if there is no fault.
        """
        checked = 0

        def failed(fault: str, *, is_narrowable: bool = True) -> tuple[Check, None]:
            return Check(
                is_narrowable=is_narrowable,
                round=share.round,
                slot=share.slot,
                segments=share.segments,
                checked=checked,
                fault=fault,
            ), None

        fault = share.fault or wrong_shape(share, self._loaded)
        if fault:
            return failed(fault, is_narrowable=False)
        opening = states.at(share.boundaries[0])
        roots = (share.boundaries[0].global_root, share.boundaries[0].local_root)
        if roots != (state_tree(opening[0]).root, state_tree(opening[1]).root):
            return failed("boundary 0 is not the state from which the share must start")
        for index in drawn:
            try:
                fault = self._segment(share, index, states)
            except (ReplayError, StateError) as error:
                fault = f"segment {index}: {error}"
            if fault:
                return failed(fault)
            checked += 1
        closing, local = states.at(share.boundaries[-1])
        try:
            result = share_update(self._loaded, opening[0], SlotState(closing, local), self._executor)
        except (ReplayError, StateError) as error:
            return failed(f"the update: {error}")
        if result.update_root != share.update_root:
            return failed("the update does not follow from the first and the last state of the share")
        if result.local_out_root != share.local_out_root:
            return failed("the local state at the end of the share differs from the replayed one")
        check = Check(round=share.round, slot=share.slot, segments=share.segments, checked=checked, fault="")
        return check, result

    def _segment(self, share: ShareRecord, index: int, states: _States) -> str:
        state, local = states.at(share.boundaries[index])
        replayed = replay_segment(self._loaded, share.part, index, state, local, self._executor)
        claimed = share.boundaries[index + 1]
        actual = replayed.boundary
        states.reached(claimed, replayed.global_state, replayed.local_state)
        self._done += 1
        if self._on_progress is not None:
            self._on_progress(self._done, self._all)
        if claimed.root == actual.root:
            return ""
        same = (claimed.global_root, claimed.local_root) == (actual.global_root, actual.local_root)
        return f"segment {index} {'has other metrics' if same else 'ends in another state'} than the trace claims"

    def _aggregation(self, round: int, claimed: bytes, opening: State, updates: Sequence[State]) -> tuple[Check, State]:
        try:
            result = aggregate(self._loaded, opening, updates, self._executor)
        except (ReplayError, StateError) as error:
            return Check(
                round=round,
                slot=-1,
                segments=0,
                checked=0,
                fault=f"the aggregation has no result: {error}",
            ), opening
        fault = "" if result.root == claimed else "the round ends in another global state than the trace claims"
        return Check(round=round, slot=-1, segments=0, checked=0, fault=fault), result.state


def _drawn(share: ShareRecord, count: int | None) -> tuple[int, ...]:
    if count is None or count >= share.segments:
        return tuple(range(share.segments))
    drawn = SystemRandom().sample(range(share.segments), count)
    return tuple(sorted({0, share.segments - 1, *drawn}))
