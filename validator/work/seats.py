"""The functions that carry out the actions about seats: ask the winner, fetch data, recompute places.

A broken connection does not show that the winner lacks the data, because a winner that is killed and started again
still has them. A full process pool does not show it, either. So a failed action is repeated soon, until ``decide``
gives up.
"""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Protocol, TypeVar

from chain.client.client import TxReceipt
from domain.proof.messages import MsgRevealAnswer
from domain.proof.records import AnswerKind, AuditKind
from host.files import plain_pieces
from link.blobs import BlobStore
from link.client import ClusterClient
from link.errors import ClusterError, ClusterErrorKind
from link.handover import HandoverError, rebuild_root
from link.types import GET_OPENING, AuditOpening, BlobRef, OpenedState, OpeningRequest, PayloadFile
from pol.executor.names import Engine
from pol.rules.tiers.remarks import write_remarks
from pol.rules.tiers.table import tier_named
from pol.work.executor import PoolError
from pol.work.records import RoundSlot
from validator.decide import actions as do
from validator.decide.records import Compared, Recomputed, SeatKey, SeatPlace, finished
from validator.decide.seats import (
    blob_awaited,
    job_loaded,
    opening_arrived,
    payload_awaited,
    place_recomputed,
    states_compared,
)
from validator.ledger import Ledger
from validator.work import numerics
from validator.work.audits import KINDS, PlaceFiles, make_audit, opened_start
from validator.work.checks.table import checks_of
from validator.work.files import is_materialised, materialise, places_in
from validator.work.perform import Table
from validator.work.requests import Match, OpenedStates, StateFiles, StatesComparison

_log = logging.getLogger("assay.validator.seats")
_BAD = (ClusterErrorKind.TIMED_OUT, ClusterErrorKind.WRONG_CONTENT, ClusterErrorKind.BAD_REPLY)
R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A", do.AskOpening, do.LoadAudited, do.ReplayPlace, do.CompareStates)
RETRY_SECONDS = 0.5
ASK_SECONDS = (0.05, 1.0)
"""The shortest and the longest pause before a winner is asked again for an opening that is not ready."""
LEAST_SECONDS = 0.1
HELPER_SECONDS = 2.0
"""Longest time (seconds) for one call to a mirror or to a seat of an earlier stage, and least time for a blob."""
LEAST_HELPER_PART = 2
"""All helpers together may take this part of the seat's remaining time for a blob: a half."""
CALLS_MAX = 16
"""Most threads that wait for one winner at a time, so that a slow winner does not block the seats of other rounds."""


class Run(Protocol):
    """A function that runs another function in the process pool, and waits at most ``seconds`` for its result."""

    def __call__(self, seconds: float, function: Callable[[R], T], request: R) -> T:
        """Return the function's result for one request; PoolError if there is no result in time."""
        ...


class SeatQueues:
    """The number of threads that wait for each winner."""

    def __init__(self, most: int = CALLS_MAX) -> None:
        """Let at most ``most`` threads wait for one winner."""
        self._most = most
        self._lock = Lock()
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def of(self, winner: str) -> Iterator[bool]:
        """Yield whether one more thread may wait for this winner. If so, that thread counts until the context ends."""
        with self._lock:
            free = self._waiting[winner] < self._most
            if free:
                self._waiting[winner] += 1
        try:
            yield free
        finally:
            if free:
                with self._lock:
                    self._waiting[winner] -= 1
                    if not self._waiting[winner]:
                        del self._waiting[winner]


@dataclass(frozen=True, slots=True)
class Auditor:
    """The records, blobs and connections that actions about seats need.

    ``connect`` returns a client of a validator. It is called before each use, because a validator may change its
    endpoint or its certificate at any time.
    """

    ledger: Ledger
    blobs: BlobStore
    jobs: Path
    scratch: Path
    run: Run
    engine: Engine
    connect: Callable[[str], ClusterClient]
    clock: Callable[[], int]  # returns the chain's clock (seconds) at the last look
    turns: SeatQueues = field(default_factory=SeatQueues)
    # The keys of each seat's actions whose last try failed.
    failing: dict[SeatKey, set[str]] = field(default_factory=dict)
    # The helpers of each seat that were too slow, or sent wrong bytes; they are not asked again.
    dropped: dict[SeatKey, set[str]] = field(default_factory=dict)
    now: Callable[[], float] = time.monotonic  # seconds

    def table(self) -> Table:
        """Return the functions that carry out the actions about seats, by the action's class."""
        return {
            do.AskOpening: partial(self._in_turn, self.ask),
            do.LoadAudited: partial(self._in_turn, self.load),
            do.ReplayPlace: partial(self._in_turn, self.replay),
            do.CompareStates: partial(self._in_turn, self.compare),
            do.RebuildChunk: self.rebuild,
            do.EndSeat: self.end,
        }

    def end(self, action: do.EndSeat) -> None:
        """Delete the record and the blobs of a seat."""
        self.ledger.end_seat(action.seat)
        self.failing.pop(action.seat, None)
        self.dropped.pop(action.seat, None)

    def ask(self, action: do.AskOpening) -> float | None:
        """Ask the winner for an opening, then the mirrors of the round, then seats of earlier stages.

        Return the pause (seconds) before the next try if the opening is not ready. If no one has the opening, raise the
        ClusterError that the winner returned.
        """
        seat = action.seat
        request = OpeningRequest(
            order_id=seat.order_id,
            leg=seat.leg,
            round=seat.round,
            dispute=seat.dispute,
            place_index=action.number,
        )
        pause: float | None = None
        failure: ClusterError | None = None
        for name in (action.winner, *self._willing(seat, action.helpers)):
            helper = "" if name == action.winner else name
            try:
                opening = self.connect(name).call(GET_OPENING, request, HELPER_SECONDS if helper else None)
            except ClusterError as error:
                self._note_helper(seat, helper, error)
                failure = failure or error
                continue
            if opening.ready:
                arrived = partial(opening_arrived, index=action.index, opening=opening, helper=helper)
                self.ledger.change_seat(seat, arrived)
                return None
            if not helper:
                least, most = ASK_SECONDS
                pause = min(most, max(least, opening.retry_after_ms / 1e3))
        if pause is None and failure is not None:
            raise failure
        return pause

    def load(self, action: do.LoadAudited) -> None:
        """Fetch and load the job, and record its sizes."""
        seat = action.seat
        directory = self._job(action, action.files)
        loaded = self._run(action, numerics.load, directory)
        same = loaded.terms == action.terms
        sizes = self._run(action, numerics.sizes, directory) if same else None
        self.ledger.change_seat(seat, lambda now: job_loaded(now, action.terms, loaded.terms, sizes, loaded.text))

    def replay(self, action: do.ReplayPlace) -> None:
        """Fetch the blobs of a place, recompute the place, and record the result."""
        key = action.seat
        index = action.index
        seat = self.ledger.store.seat(key)
        opening = seat.places[index].opening if seat else None
        if seat is None or opening is None:
            return
        directory = self._job(action, seat.files)
        states = [
            StateFiles(
                self._fetch(action, state.global_state),
                self._fetch(action, state.local_state),
            )
            for state in opening.states
        ]
        sent = {item.slot: self._fetch(action, item.update.blob) for item in opening.updates}
        self.ledger.change_seat(key, lambda now: blob_awaited(now, index, b""))
        compares = action.place.kind is AuditKind.SEGMENT and tier_named(action.tier).hardware
        with places_in(self.scratch, 2 if compares else 0) as places:
            audit = make_audit(
                action.tier,
                action.place,
                action.shares,
                opening,
                PlaceFiles(directory, states, sent),
                global_in=action.global_in,
                seeds=action.seeds,
                engine=self.engine,
                keep=StateFiles(*places) if compares else None,
            )
            result = self._run(action, audit.function, audit.request)
            kept = self._keep(action, places, result) if compares and not result.fault else None
        self.ledger.change_seat(key, lambda now: place_recomputed(now, index, result, kept))

    def _keep(self, action: do.ReplayPlace, places: Sequence[Path], result: Recomputed) -> OpenedState:
        """Return the end states of a segment that a process of the pool wrote, as blobs that other seats may get."""
        blobs = [self.blobs.gather(plain_pieces(place)) for place in places]
        self.ledger.hold_for(action.seat, blobs)
        return OpenedState(
            index=action.place.segment + 1, global_state=blobs[0], local_state=blobs[1], metrics=result.metrics
        )

    def compare(self, action: do.CompareStates) -> float | None:
        """Compare the provider's end state of a segment, and those of seats of earlier stages, with the seat's own.

        Return the pause (seconds) before the next try if the provider's state or that of another seat is not served
        yet. The ClusterError of the winner is raised.
        """
        seat = self.ledger.store.seat(action.seat)
        place = seat.places[action.index] if seat else None
        if seat is None or place is None or place.kept is None or place.found is None or place.opening is None:
            return None
        own = self._own(place, place.kept)
        ends: list[OpenedStates] = []
        if action.claim and not place.found.stopped:
            end = place.opening.states[1] if action.shown else self._end(action, action.winner)
            if end is None:
                return RETRY_SECONDS
            ends.append(self._opened(action, action.winner, end, action.claim))
        served, missing = self._ask_reviewed(action)
        if missing and self.clock() < action.ask_until:
            return RETRY_SECONDS
        directory = self._job(action, seat.files)
        start = self._start(action, place.opening)
        part = RoundSlot(action.seat.round, action.place.slot)
        others = (*ends, *(states for _, states in served))
        request = StatesComparison(
            directory=directory, start=start, own=own, others=others, part=part, index=action.place.segment
        )
        found = self._run(action, checks_of(action.tier).compare, request)
        kind = AnswerKind.OUTSIDE
        if ends:
            kind = KINDS[found[0]]
        elif not action.claim and place.found.stopped:
            kind = AnswerKind.WITHIN
        rows = [(other, match) for (other, _), match in zip(served, found[len(ends) :], strict=True)]
        outside = [other for other, match in rows if match is Match.OUTSIDE]
        unserved = [*missing, *(other for other, match in rows if match is Match.OTHER)]
        compared = Compared(kind, _remarks(action.stages, outside, unserved))
        self.ledger.change_seat(action.seat, lambda now: states_compared(now, action.index, compared))
        return None

    def _own(self, place: SeatPlace, kept: OpenedState) -> OpenedStates:
        """Return the end states that this validator computed for a place."""
        files = StateFiles(self.blobs.path(kept.global_state.sha256), self.blobs.path(kept.local_state.sha256))
        return OpenedStates(files, kept.metrics, place.found.digest if place.found is not None else b"")

    def _start(self, action: do.CompareStates, opening: AuditOpening) -> OpenedStates:
        """Return the states at the start of a segment, which are here since its replay."""
        first = opening.states[0]
        files = StateFiles(self.blobs.path(first.global_state.sha256), self.blobs.path(first.local_state.sha256))
        return opened_start(action.place, action.shares[0], opening, files, action.global_in)

    def _end(self, action: do.CompareStates, name: str, seconds: float | None = None) -> OpenedState | None:
        """Ask a validator for the end states of a segment; None if it is not ready. ClusterError if it has none."""
        key = action.seat
        request = OpeningRequest(
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            dispute=key.dispute,
            place_index=action.number,
            end=True,
        )
        opening = self.connect(name).call(GET_OPENING, request, seconds)
        return opening.states[0] if opening.ready and opening.states else None

    def _opened(
        self, action: do.CompareStates, name: str, end: OpenedState, root: bytes, seconds: float = math.inf
    ) -> OpenedStates:
        """Fetch end states from a validator. ClusterError if they have a wrong size or take longer than ``seconds``."""
        seat = self.ledger.store.seat(action.seat)
        sizes = seat.sizes if seat is not None else None
        if sizes is None or (end.global_state.size, end.local_state.size) != (sizes.global_state, sizes.local_state):
            raise ClusterError(ClusterErrorKind.WRONG_CONTENT, "the end states have a wrong size", "ask another seat")
        ends = self.now() + seconds

        def keep_time(_done: int, _size: int) -> None:
            self.ledger.hold_for(action.seat, ())
            if self.now() >= ends:
                raise ClusterError(ClusterErrorKind.BUSY, "too slow for the time of this seat", "go on without it")

        for blob in (end.global_state, end.local_state):
            self.ledger.hold_for(action.seat, (blob,))
            if not self.blobs.status(blob).complete:
                wait = None if seconds == math.inf else HELPER_SECONDS
                self.connect(name).fetch(blob, self.blobs, keep_time, name, wait)
        files = StateFiles(self.blobs.path(end.global_state.sha256), self.blobs.path(end.local_state.sha256))
        return OpenedStates(files, end.metrics, root)

    def _ask_reviewed(
        self, action: do.CompareStates
    ) -> tuple[list[tuple[do.ReviewedSeat, OpenedStates]], list[do.ReviewedSeat]]:
        """Fetch the end states of seats of earlier stages; return those that were served, and the seats that served
        none.

        Each seat has the same time. Otherwise a seat without a state could keep a reviewer from its answer.
        """
        served, missing = [], []
        seconds = max(HELPER_SECONDS, float(action.ask_until - self.clock()) / max(1, len(action.reviewed)))
        for other in action.reviewed:
            try:
                end = self._end(action, other.validator, HELPER_SECONDS)
                if end is not None:
                    states = self._opened(action, other.validator, end, other.root, seconds)
                    served.append((other, states))
                    continue
            except ClusterError as error:
                _log.info("%s: %s serves no end state: %s", action.key, other.validator, error)
            missing.append(other)
        return served, missing

    def rebuild(self, action: do.RebuildChunk) -> None:
        """Encrypt an opened chunk again. Record the root that follows, or the reason why no root follows."""
        seat = self.ledger.store.seat(action.seat)
        opening = seat.places[action.index].opening if seat else None
        if opening is None or opening.chunk is None:
            return
        try:
            root = rebuild_root(action.asked, action.chunk, opening.chunk)
            result = finished(root, tier_named(action.tier).digests(action.seeds, (), (opening.chunk.data,)))
        except HandoverError as error:
            result = Recomputed(fault=str(error))
        self.ledger.change_seat(action.seat, lambda now: place_recomputed(now, action.index, result))

    def answered(self, action: do.SendAnswer, receipt: TxReceipt) -> None:
        """Log that the transaction with an answer is in a block. If it reveals answers, record that in the history."""
        message = action.message
        _log.info("%s: %s at height %d", action.key, type(message).__name__, receipt.height)
        if isinstance(message, MsgRevealAnswer):
            self.ledger.store.save_answered(message.order_id, message.leg, message.round, action.agreed)

    # Recomputation

    def _run(
        self,
        action: do.LoadAudited | do.ReplayPlace | do.CompareStates,
        function: Callable[[R], T],
        request: R,
    ) -> T:
        """Run a function in the pool, at most until the answer must be sent."""
        seconds = max(LEAST_SECONDS, float(action.until - self.clock()))
        return self.run(seconds, function, request)

    # Fetching

    def _job(self, action: do.LoadAudited | do.ReplayPlace | do.CompareStates, files: Iterable[PayloadFile]) -> Path:
        """Return the directory of the job; fetch its files if they are not here."""
        files = tuple(files)
        seat = action.seat
        if not is_materialised(files, self.jobs):
            missing = [f.blob for f in files if not self.blobs.status(f.blob).complete]
            if missing:
                first = missing[0].sha256
                self.ledger.change_seat(seat, lambda now: payload_awaited(now, first))
            for blob in missing:
                self._take(action, blob)
        directory = materialise(files, self.blobs, self.jobs)
        self.ledger.change_seat(seat, lambda now: payload_awaited(now, b""))
        return directory

    def _fetch(self, action: do.ReplayPlace, blob: BlobRef) -> Path:
        """Return the path of a blob of a place; fetch the blob if it is not here."""
        if not self.blobs.status(blob).complete:
            awaited = partial(blob_awaited, index=action.index, blob=blob.sha256)
            self.ledger.change_seat(action.seat, awaited)
        self._take(action, blob)
        return self.blobs.path(blob.sha256)

    def _take(self, action: do.LoadAudited | do.ReplayPlace | do.CompareStates, blob: BlobRef) -> None:
        """Fetch a blob by its hash from the first source that has it: the winner, a mirror, or an earlier seat.

        Each helper has the same time, so that a slow one cannot use up the time of the others. Raises the first
        source's ClusterError if none has the blob, or if the seat ends meanwhile.
        """
        seat = action.seat

        def go_on(_done: int, _size: int) -> None:
            self.ledger.hold_for(seat, ())

        self.ledger.hold_for(seat, (blob,))
        if self.blobs.status(blob).complete:
            return
        failure: ClusterError | None = None
        try:
            self.connect(action.winner).fetch(blob, self.blobs, go_on)
        except ClusterError as error:
            failure = error
        else:
            return
        helpers = () if isinstance(action, do.CompareStates) else self._willing(seat, action.helpers)
        for name in helpers:
            left = float(action.until - self.clock()) / LEAST_HELPER_PART
            ends = self.now() + max(HELPER_SECONDS, left / len(helpers))

            def keep_time(done: int, size: int, ends: float = ends) -> None:
                go_on(done, size)
                if self.now() >= ends:
                    raise ClusterError(ClusterErrorKind.BUSY, "too slow for the time of this helper", "ask another one")

            try:
                self.connect(name).fetch(blob, self.blobs, keep_time, name, HELPER_SECONDS)
            except ClusterError as error:
                self._note_helper(seat, name, error)
            else:
                return
        raise failure

    def _willing(self, seat: SeatKey, helpers: Sequence[str]) -> tuple[str, ...]:
        """Return the helpers that may be asked for a seat."""
        dropped = self.dropped.get(seat, set())
        return tuple(name for name in helpers if name not in dropped)

    def _note_helper(self, seat: SeatKey, helper: str, error: ClusterError) -> None:
        """Drop a helper for the rest of a seat if it did not answer in time, or sent wrong bytes.

        A helper that has nothing yet says so at once, and is asked again.
        """
        if helper and error.kind in _BAD:
            self.dropped.setdefault(seat, set()).add(helper)

    def _in_turn(self, act: Callable[[A], float | None], action: A) -> float | None:
        """Carry out an action; if its winner has too many callers or the action fails, return the pause for a retry."""
        with self.turns.of(action.winner) as free:
            if not free:
                return RETRY_SECONDS
            try:
                pause = act(action)
            except (ClusterError, PoolError) as error:
                failing = self.failing.setdefault(action.seat, set())
                # A single failure is not logged: the winner may see a block a moment later than this daemon.
                if action.key in failing:
                    _log.info("%s: %s; trying again", action.key, error)
                failing.add(action.key)
                return RETRY_SECONDS
            self.failing.get(action.seat, set()).discard(action.key)
            return pause


def _remarks(stages: int, outside: Iterable[do.ReviewedSeat], unserved: Iterable[do.ReviewedSeat]) -> tuple[bytes, ...]:
    """Return the remarks about the seats of each earlier stage."""
    return tuple(
        write_remarks(
            [seat.number for seat in outside if seat.stage == stage],
            [seat.number for seat in unserved if seat.stage == stage],
        )
        for stage in range(1, stages + 1)
    )
