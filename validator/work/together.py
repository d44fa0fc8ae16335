"""The recomputation of places on several machines of one owner: segments, updates and aggregations.

The answers are those of one process (:mod:`validator.work.checks.exact`, :mod:`validator.work.numerics`), byte by byte,
but no process holds a whole state. The calling process leads the machines: it reads no job and no state, only a form of
the job and hashes. Only the tier ``exact`` allows it, because only its results are the same bits on every machine.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Any, TypeVar, cast

from domain.proof.reasons import ShareReason
from pol.errors import AggregationFailed, ReplayError, StateError, StepFailed, UpdateFailed
from pol.executor.names import Engine
from pol.machines.form import CLOSE, OUTER, Shape, check_device, number_of, spec_here
from pol.machines.group import Group
from pol.machines.nodes import LANE, NodeQueues, Nodes, members_lane
from pol.machines.pool import GroupPool, Hosting, OneGroup, Roots
from pol.machines.processes import ProcessNodes
from pol.replay.trial import TrialRequest, try_payload
from pol.replay.trial_together import try_together
from pol.rules.commitment import boundary_root, update_claim
from pol.rules.tiers.exact import EXACT
from pol.work.cluster.dispatch import NodeReport
from pol.work.executor import Ended, Executor, address_of
from pol.work.places import boundary_step, check_segment
from pol.work.replayer import Lane, Replayer, start_replayer
from pol.work.trials import Trial
from validator.decide.records import Recomputed, ReplayOutcome, finished, stopped
from validator.work import numerics
from validator.work.checks import exact
from validator.work.requests import (
    AggregationAudit,
    OpenedStates,
    OpeningCheck,
    SegmentAudit,
    SegmentCheck,
    StatesReplay,
    StopCheck,
    UpdateAudit,
    UpdateCheck,
)

R = TypeVar("R")
T = TypeVar("T")
Watch = Callable[[Group], None]


def _watch_nothing(group: Group) -> None:
    pass


class Together:
    """The functions of a lane that several machines compute together. Each takes a request, a deadline and a stop."""

    def __init__(self, pool: GroupPool, watch: Watch = _watch_nothing) -> None:
        """Compute on the groups of ``pool``. ``watch`` receives a group when it has replayed a segment."""
        self.pool, self._watch = pool, watch
        self._functions: Mapping[Callable[..., Any], Callable[[Any, float, Event], Any]] = {
            exact.check_segment: self.check_segment,
            exact.check_stop: self.check_stop,
            exact.check_update: self.check_update,
            exact.recompute_segment: self.recompute_segment,
            exact.recompute_update: self.recompute_update,
            exact.recompute_aggregation: self.recompute_aggregation,
            numerics.recompute_states: self.recompute_states,
            try_payload: self.try_payload,
        }

    def takes(self, function: Callable[..., Any]) -> bool:
        """Return whether groups compute what this function computes."""
        return function in self._functions

    def run(self, function: Callable[[R], T], request: R, ends: float, stop: Event) -> T:
        """Compute a request before ``ends`` (on the monotonic clock).

        Raises PoolError if there is no result until then, or if the machines fail.
        """
        return cast("T", self._functions[function](request, ends, stop))

    def check_segment(self, asked: SegmentCheck, ends: float, stop: Event) -> ReplayOutcome:
        """Replay a segment of a share; see :func:`validator.work.checks.exact.check_segment`."""
        with self._opened(exact.check_segment, asked, asked.start, ends, stop) as group:
            if group is None:
                return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"")
            try:
                root = group.run_segment(asked.part, asked.index).root
                self._watch(group)
            except StepFailed:
                return ReplayOutcome(ShareReason.NOT_FINITE, b"")
        same = root == asked.end_root
        return ReplayOutcome(ShareReason.NONE if same else ShareReason.SEGMENT_MISMATCH, root)

    def check_update(self, asked: UpdateCheck, ends: float, stop: Event) -> ReplayOutcome:
        """Recompute the update of a share; see :func:`validator.work.checks.exact.check_update`."""
        with self.pool.group(asked.directory, exact.check_update.__name__, _anywhere, ends, stop) as group:
            if self._hashed(group, asked.directory, asked.round_opening, asked.closing, ends) is None:
                return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"")
            try:
                update_root, local_root = group.make(CLOSE, _reads(asked.round_opening, asked.closing))
            except UpdateFailed:
                return ReplayOutcome(ShareReason.NOT_FINITE, b"")
            update_specs, local_specs = (file.specs for file in group.form.writes(CLOSE))
            self._watch(group)
        root = update_claim(update_root, local_root, asked.closing.metrics)
        if root != update_claim(asked.update_root, asked.local_root, asked.closing.metrics):
            return ReplayOutcome(ShareReason.UPDATE_MISMATCH, root)
        sent = (asked.update, update_specs, asked.update_root), (asked.local_out, local_specs, asked.local_root)
        # One process hashes the files of the provider piece by piece.
        has = all(self.pool.ask(numerics.holds_state, *each, timeout=ends - time.monotonic()) for each in sent)
        return ReplayOutcome(ShareReason.NONE if has else ShareReason.MALFORMED, root)

    def recompute_update(self, asked: UpdateAudit, ends: float, stop: Event) -> Recomputed:
        """Recompute an update as a seat does; see :func:`validator.work.checks.exact.recompute_update`."""
        opening, files = asked.round_opening, asked.closing.files
        with self.pool.group(asked.directory, exact.recompute_update.__name__, _anywhere, ends, stop) as group:
            try:
                is_right = self._hashed(group, asked.directory, opening.path, asked.closing, ends) == opening.root
            except StateError:
                is_right = False
            if not is_right:
                return Recomputed(exact.WRONG_STATES)
            try:
                update_root, local_root = group.make(CLOSE, _reads(opening.path, asked.closing))
                self._watch(group)
            except UpdateFailed:
                digests = EXACT.digests(
                    asked.seeds, (), chain(_bytes_of(files.global_state), _bytes_of(files.local_state))
                )
                return stopped(digests)
            digests = EXACT.digests(asked.seeds, (), chain(group.made(0), group.made(1)))
        root = update_claim(update_root, local_root, asked.closing.metrics)
        return finished(root, digests)

    def recompute_aggregation(self, asked: AggregationAudit, ends: float, stop: Event) -> Recomputed:
        """Recompute a global state as a seat does; see :func:`validator.work.checks.exact.recompute_aggregation`."""
        files = asked.opening, *asked.updates
        reads = [file.path for file in files]
        with self.pool.group(asked.directory, exact.recompute_aggregation.__name__, _anywhere, ends, stop) as group:
            try:
                is_right = group.hash(OUTER, reads) == tuple(file.root for file in files)
            except StateError:
                is_right = False
            if not is_right:
                return Recomputed(exact.WRONG_STATES)
            try:
                (root,) = group.make(OUTER, reads)
                self._watch(group)
            except AggregationFailed:
                digests = EXACT.digests(asked.seeds, (), _bytes_of(asked.opening.path))
                return stopped(digests)
            digests = EXACT.digests(asked.seeds, (), group.made(0))
        return finished(root, digests)

    def check_stop(self, asked: StopCheck, ends: float, stop: Event) -> ReplayOutcome:
        """Check that the job stops itself in a share; see :func:`validator.work.checks.exact.check_stop`."""
        with self.pool.group(asked.directory, exact.check_stop.__name__, _anywhere, ends, stop) as group:
            if asked.index >= group.form.share_segments:
                return self._check_update_stops(group, asked, ends)
        return self._check_segment_stops(asked, ends, stop)

    def _check_update_stops(self, group: Group, asked: StopCheck, ends: float) -> ReplayOutcome:
        if self._hashed(group, asked.directory, asked.round_opening, asked.last, ends) is None:
            return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"")
        try:
            group.make(CLOSE, _reads(asked.round_opening, asked.last))
        except UpdateFailed:
            return ReplayOutcome(ShareReason.NONE, b"")
        return ReplayOutcome(ShareReason.NOT_STOPPED, b"")

    def _check_segment_stops(self, asked: StopCheck, ends: float, stop: Event) -> ReplayOutcome:
        with self._opened(exact.check_stop, asked, asked.last, ends, stop) as group:
            if group is None:
                return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"")
            try:
                group.run_segment(asked.part, asked.index)
            except StepFailed as error:
                right = boundary_step(group.form, asked.part.round, asked.index) + asked.steps
                return ReplayOutcome(ShareReason.NONE if error.step == right else ShareReason.NOT_STOPPED, b"")
        return ReplayOutcome(ShareReason.NOT_STOPPED, b"")

    def recompute_segment(self, asked: SegmentAudit, ends: float, stop: Event) -> Recomputed:
        """Replay a segment as a seat does; see :func:`validator.work.checks.exact.recompute_segment`."""
        inner: list[bytes] = []

        def follow(roots: Roots) -> None:
            inner.append(boundary_root(*roots))

        with self._opened(exact.recompute_segment, asked, asked.start, ends, stop) as group:
            if group is None:
                return Recomputed(exact.WRONG_STATES)
            try:
                root = group.run_segment(asked.part, asked.index, follow=follow).root
                self._watch(group)
            except StepFailed as error:
                digests = EXACT.digests(asked.seeds, inner, chain(*group.states()))
                return stopped(digests, error.step)
            digests = EXACT.digests(asked.seeds, inner, chain(*group.states()))
        return finished(root, digests)

    def recompute_states(self, asked: StatesReplay, ends: float, stop: Event) -> numerics.Written | None:
        """Replay some segments, and write the states; see :func:`validator.work.numerics.recompute_states`."""
        files = asked.states.global_state, asked.states.local_state
        try:
            with self.pool.group(asked.directory, numerics.recompute_states.__name__, _anywhere, ends, stop) as group:
                group.open(*files)
                root = b""
                for segment in range(asked.start, asked.index):
                    if (asked.part.round, segment) == (0, 0):
                        self.pool.open_slot(group, asked.directory, asked.part.slot, files[0])
                    root = group.run_segment(asked.part, segment).root
                paths = asked.to.global_state, asked.to.local_state
                digests = tuple(_write(path, pieces) for path, pieces in zip(paths, group.states(), strict=True))
        except ReplayError:
            return None
        return numerics.Written(root, digests)

    def try_payload(self, request: TrialRequest, ends: float, stop: Event) -> Trial:
        """Try a payload; see :func:`pol.replay.trial.try_payload`."""
        return try_together(self.pool, request, ends, stop)

    def _hashed(self, group: Group, directory: Path, opening: Path, closing: OpenedStates, ends: float) -> bytes | None:
        """Return the root of the state at the beginning of a round, from the files that ``close`` reads.

        It is None unless the states at the end are states of the job, and hash to their boundary root. Raises
        StateError if only the first file is wrong, which no provider has sent.
        """
        try:
            opening_root, first, second = group.hash(CLOSE, _reads(opening, closing))
        except StateError:
            check = OpeningCheck(directory, closing)
            if self.pool.ask(numerics.opening_holds, check, timeout=ends - time.monotonic()):
                raise
            return None
        return opening_root if boundary_root(first, second, closing.metrics) == closing.root else None

    @contextmanager
    def _opened(
        self,
        function: Callable[..., Any],
        asked: SegmentCheck | StopCheck | SegmentAudit,
        start: OpenedStates,
        ends: float,
        stop: Event,
    ) -> Iterator[Group | None]:
        """Yield a group that stands at the start of a segment; None unless its states hash to the boundary root.

        The files are read even if the group stands there: an answer says what is in these files.
        """
        part, index = asked.part, asked.index
        with self.pool.group(asked.directory, function.__name__, _anywhere, ends, stop) as group:
            check_segment(group.form, part, index)
            paths = start.files.global_state, start.files.local_state
            try:
                roots = group.open(*paths)
            except StateError:
                yield None
                return
            if boundary_root(*roots, start.metrics) != start.root:
                yield None
                return
            if (part.round, index) == (0, 0):
                # The first step of a slot that has a local state of its own reads that state.
                self.pool.open_slot(group, asked.directory, part.slot, paths[0])
            yield group


def _anywhere(_roots: Roots) -> bool:
    return True


def _reads(opening: Path, closing: OpenedStates) -> tuple[Path, Path, Path]:
    """Return the files that ``close`` reads."""
    return opening, closing.files.global_state, closing.files.local_state


def _bytes_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(partial(file.read, numerics.PIECE_BYTES), b"")


def _write(to: Path, pieces: Iterable[bytes]) -> bytes:
    """Write a state to a new file; return the file's SHA-256."""
    digest = sha256()
    with to.open("xb") as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
    return digest.digest()


@dataclass(frozen=True, slots=True)
class GroupReplayer:
    """A replayer whose segments are computed by several machines together, in the lanes that have ``groups``."""

    inner: Replayer
    groups: Mapping[str, Together]
    ended: Mapping[str, Ended]
    # The processes of groups on this machine; None if there are none.
    here: ProcessNodes | None = None

    @property
    def lanes(self) -> Mapping[str, Executor]:
        """The executors of everything else; see :class:`pol.work.replayer.Replayer`."""
        return self.inner.lanes

    def recompute(self, lane: str, function: Callable[[R], T], request: R, seconds: float) -> T:
        """Recompute a place; see :class:`pol.work.replayer.Replayer`."""
        together = self.groups.get(lane)
        began = time.monotonic()
        if together is None or not together.takes(function):
            return self.inner.recompute(lane, function, request, seconds)
        try:
            answer = together.run(function, request, began + seconds, Event())
        except Exception as error:
            self.ended[lane](time.monotonic() - began, error)
            raise
        self.ended[lane](time.monotonic() - began, None)
        return answer

    def recompute_all(self, lane: str, function: Callable[[R], T], requests: Sequence[R], seconds: float) -> list[T]:
        """Recompute several places that are no segments; see :class:`pol.work.replayer.Replayer`."""
        return self.inner.recompute_all(lane, function, requests, seconds)

    def width(self, lane: str) -> int:
        """Return how many such places can be recomputed at once; see :class:`pol.work.replayer.Replayer`."""
        return self.inner.width(lane)

    def tend(self) -> None:
        """End groups that have waited long, and report what runs in those on this machine."""
        for together in self.groups.values():
            together.pool.tend()
        if self.here is not None:
            self.here.look()

    def close(self) -> None:
        """End all groups, then everything else."""
        for together in self.groups.values():
            together.pool.close()
        self.inner.close()


def start_together(
    executor: str,
    engine: Engine,
    lanes: Sequence[Lane],
    grouped: Sequence[str],
    machines: Shape,
    folder: Path,
    on_nodes: Callable[[tuple[NodeReport, ...]], None] = lambda nodes: None,
    start: Callable[..., Replayer] = start_replayer,
) -> GroupReplayer:
    """Start what recomputes for a daemon. If ``machines`` is not 1, so many of them recompute a segment together, in
    the lanes ``grouped``.

    The other arguments are those of :func:`pol.work.replayer.start_replayer`, which raises the same errors. Raises
    ExecutionError if ``engine`` names a GPU for a group.
    """
    ended = {lane.name: lane.ended for lane in lanes}
    if number_of(machines) == 1:
        return GroupReplayer(start(executor, engine, lanes, folder / "driver", on_nodes), {}, ended)
    check_device(engine)
    here = None if address_of(executor) else ProcessNodes(spec_here(machines, engine), on_nodes)
    nodes: tuple[NodeReport, ...] = ()

    def see(found: tuple[NodeReport, ...]) -> None:
        nonlocal nodes
        nodes = found
        on_nodes(found)

    inner = start(executor, engine, [*lanes, members_lane(folder)], folder / "driver", see)

    def hosting(lane: Lane) -> Hosting:
        # Lanes do not wait for each other, so each has groups of its own: a node may have a member for each lane.
        if here is not None:
            return OneGroup(here.spec, partial(here.running, lane.name))
        return Nodes(lambda: nodes, cast("NodeQueues", inner.lanes[LANE.name]), machines, engine)

    def pool(lane: Lane) -> GroupPool:
        def ask(function: Callable[..., T], *args: Any, timeout: float) -> T:
            return inner.lanes[lane.name].submit(function, *args, timeout=timeout).result()

        return GroupPool(hosting(lane), ask, folder / "groups" / lane.name, lane.folder, lane.reads)

    pools = {lane.name: Together(pool(lane)) for lane in lanes if lane.name in grouped}
    return GroupReplayer(inner=inner, groups=pools, ended=ended, here=here)
