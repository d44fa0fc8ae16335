"""The recomputation of one place of another validator's closed round, from data that are fetched from that validator
and checked.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from domain.legs.records import Leg
from domain.proof.queries import OrderResponse
from domain.proof.records import AnswerKind, AuditPlace, Finding, Round
from link.blobs import BlobStore
from link.client import ClusterClient
from link.errors import ClusterError, ClusterErrorKind
from link.types import GET_PLACE, AuditOpening, BlobRef, PlaceRequest
from pol.executor.names import Engine
from pol.machines.form import Shape, number_of, spec_here
from pol.machines.pool import GroupPool, OneGroup
from pol.work.executor import LOCAL
from pol.work.replayer import Lane
from validator.decide.records import Recomputed, Sizes
from validator.decide.seats import find_fault, fits_sizes, shares_of
from validator.watch.places import (
    accepted_shares,
    agrees,
    compares_ends,
    find_stop,
    found_within,
    get_claim,
    to_finding,
)
from validator.work.audits import KINDS, PlaceFiles, make_audit
from validator.work.checks.table import checks_of
from validator.work.files import materialise, places_in
from validator.work.requests import (
    AggregationAudit,
    OpenedStates,
    SegmentAudit,
    StateFiles,
    StatesComparison,
    UpdateAudit,
)
from validator.work.together import Together, start_together

LATER = frozenset({ClusterErrorKind.BUSY, ClusterErrorKind.UNREACHABLE, ClusterErrorKind.TIMED_OUT})
"""Kinds of errors after which the request to the validator is repeated."""
_PAUSE = 0.5
RECOMPUTE_SECONDS = 1_200.0
"""Longest time (s) for the recomputation of one place."""
_SEED = bytes(32)
"""Seed for the digest, which is not used here: no panel has drawn the place, so there is no real seed."""

Run = Callable[[Callable[[Any], Any], Any], Any]
"""A function that calls another one with a request, in this process or in a pool."""
Progress = Callable[[str, int, int], None]
"""A function that is called with the name of the file that is fetched, and with the number of its bytes that have
arrived.
"""


@dataclass(frozen=True, slots=True)
class PlaceCheck:
    """The result of recomputing a place: the finding, the root that the chain has, and whether they agree.

    If the finding is ``unavailable``, ``why`` says what was not served, or what is wrong with the served data.
    """

    place: AuditPlace
    finding: Finding
    claim: bytes
    agrees: bool
    why: str = ""


def run_here(function: Callable[[Any], Any], request: Any) -> Any:
    """Recompute a place in this process."""
    return function(request)


def _ask_here(function: Callable[..., Any], *args: Any, timeout: float) -> Any:
    del timeout
    return function(*args)


@contextmanager
def _running_together(machines: Shape, engine: Engine, folder: Path, reads: Sequence[Path]) -> Iterator[Run]:
    """Yield the function that recomputes a segment in a group of processes, and other places in this process. Other
    tiers than ``exact`` compute segments in this process too.

    The group works in ``folder``. Raises ExecutionError if there is no such group.
    """
    pool = GroupPool(OneGroup(spec_here(machines, engine)), _ask_here, folder / "groups", folder / "scratch", reads)
    together = Together(pool)

    def run(function: Callable[[Any], Any], request: Any) -> Any:
        if not together.takes(function):
            return run_here(function, request)
        return together.run(function, request, time.monotonic() + RECOMPUTE_SECONDS, Event())

    try:
        yield run
    finally:
        pool.close()


@contextmanager
def recomputing(executor: str, engine: Engine, folder: Path, machines: Shape = 1) -> Iterator[Run]:
    """Yield the function that recomputes a place where ``executor`` says: in this process, or on a cluster.

    If ``machines`` is not 1, so many processes of this machine, or nodes of the cluster, recompute a segment together.
    ``folder`` holds the folders ``jobs`` and ``blobs``. ClusterUnusable if this machine cannot use the cluster.
    """
    reads = folder / "jobs", folder / "blobs"
    is_group = number_of(machines) > 1
    if executor == LOCAL:
        with _running_together(machines, engine, folder, reads) if is_group else nullcontext(run_here) as run:
            yield run
        return
    lane = Lane(name="places", processes=1, folder=folder / "scratch", reads=reads)
    replayer = start_together(executor, engine, (lane,), (lane.name,), machines, folder)
    try:
        yield lambda function, request: replayer.recompute(lane.name, function, request, RECOMPUTE_SECONDS)
    finally:
        replayer.close()


@dataclass(frozen=True, slots=True)
class Watcher:
    """The files and the connection with which places are recomputed.

    ``seconds`` limits the wait for the data of each place. ``run`` recomputes a place.
    """

    link: ClusterClient
    blobs: BlobStore
    jobs: Path
    engine: Engine
    seconds: float
    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    run: Run = run_here

    def check(
        self, on_chain: OrderResponse, closed: Round, place: AuditPlace, progress: Progress | None = None
    ) -> PlaceCheck:
        """Fetch and recompute a place, and compare it with the chain.

        Raise ClusterError if the validator refuses to serve the place. A place that it does not serve in time has the
        finding ``unavailable``.
        """
        leg = on_chain.leg(closed.leg)
        if leg is None:
            raise LookupError("a closed round has no leg")
        shares = accepted_shares(on_chain, closed)
        until = self.now() + self.seconds
        opening = self._ask(closed, place, until)
        if opening is None:
            return _unserved(place, f"the validator did not open the place within {self.seconds:.0f} s")
        terms = on_chain.order.terms
        compares = compares_ends(leg, place)
        fault = find_fault(place, opening, terms, shares, (), with_end=compares)
        if not fault and not fits_sizes(opening, Sizes(terms.global_bytes, terms.local_bytes, terms.update_bytes)):
            fault = "a state or an update in the opening has a wrong size"
        if fault:
            return _unserved(place, fault)
        try:
            files = self._fetch(opening, progress, until)
        except ClusterError as error:
            if error.kind not in LATER:
                raise
            return _unserved(place, f"the validator did not send the data within {self.seconds:.0f} s")
        claim, stop = get_claim(closed, shares, place, opening), find_stop(on_chain, closed, shares, place)
        with places_in(self.jobs.parent / "scratch", 2 if compares else 0) as kept:
            audit = make_audit(
                leg.tier,
                place,
                shares_of(shares, place),
                opening,
                files,
                global_in=closed.global_in,
                seeds=(_SEED,),
                engine=self.engine,
                keep=StateFiles(*kept) if compares else None,
            )
            found: Recomputed = self.run(audit.function, audit.request)
            if found.fault:
                return _unserved(place, found.fault)
            finding = to_finding(found)
            if compares:
                own = OpenedStates(StateFiles(*kept), found.metrics, found.digest)
                kind = self._compare(leg, audit.request, opening, files, own, claim, stopped=found.stopped)
                if kind is AnswerKind.UNAVAILABLE:
                    return _unserved(place, "the end states in the opening do not have their root")
                finding = found_within(claim, stop) if kind is AnswerKind.WITHIN else Finding(kind, b"", 0)
        return PlaceCheck(place=place, finding=finding, claim=claim, agrees=agrees(leg.tier, finding, claim, stop))

    def _compare(
        self,
        leg: Leg,
        asked: SegmentAudit | UpdateAudit | AggregationAudit,
        opening: AuditOpening,
        files: PlaceFiles,
        own: OpenedStates,
        claim: bytes,
        *,
        stopped: bool,
    ) -> AnswerKind:
        """Return the result of comparing the provider's end states of a segment with one's ``own``.

        ``claim`` is empty if the job stops in the segment, according to the chain.
        """
        if not isinstance(asked, SegmentAudit):
            raise TypeError("only segments are compared")
        if not claim or stopped:
            return AnswerKind.WITHIN if stopped and not claim else AnswerKind.OUTSIDE
        theirs = OpenedStates(files.states[1], opening.states[1].metrics, claim)
        request = StatesComparison(
            directory=asked.directory, start=asked.start, own=own, others=(theirs,), part=asked.part, index=asked.index
        )
        (match,) = self.run(checks_of(leg.tier).compare, request)
        return KINDS[match]

    def _ask(self, closed: Round, place: AuditPlace, until: float) -> AuditOpening | None:
        """Return the opening of a place; None if the validator does not open it in time."""
        request = PlaceRequest(order_id=closed.order_id, leg=closed.leg, round=closed.round, place=place)
        while True:
            try:
                opening = self.link.call(GET_PLACE, request)
            except ClusterError as error:
                if error.kind not in LATER:
                    raise
                opening = None
            if opening is not None and opening.ready:
                return opening
            if self.now() >= until:
                return None
            self.pause(max(_PAUSE, opening.retry_after_ms / 1e3 if opening else 0.0))

    def _fetch(self, opening: AuditOpening, progress: Progress | None, until: float) -> PlaceFiles:
        """Fetch the job and the blobs of a place; ClusterError TIMED_OUT if they do not arrive in time."""

        def take(name: str, blob: BlobRef) -> Path:
            def arrived(done: int, size: int) -> None:
                if progress is not None:
                    progress(name, done, size)
                if self.now() >= until:
                    raise ClusterError(ClusterErrorKind.TIMED_OUT, "the data of the place came too late")

            self.link.fetch(blob, self.blobs, arrived)
            return self.blobs.path(blob.sha256)

        for file in opening.payload:
            take(file.path, file.blob)
        directory = materialise(opening.payload, self.blobs, self.jobs)
        states = [
            StateFiles(take("global state", state.global_state), take("local state", state.local_state))
            for state in opening.states
        ]
        updates = {item.slot: take(f"update of slot {item.slot}", item.update.blob) for item in opening.updates}
        return PlaceFiles(directory, states, updates)


def _unserved(place: AuditPlace, why: str) -> PlaceCheck:
    return PlaceCheck(place, Finding(AnswerKind.UNAVAILABLE, b"", 0), b"", agrees=False, why=why)
