"""The functions that carry out the actions about seats: ask the winner, fetch data, recompute places.

A broken connection does not show that the winner lacks the data, because a winner that is killed and started again
still has them. A full process pool does not show it, either. So a failed action is repeated soon, until ``decide``
gives up.
"""

import logging
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
from domain.proof.records import AnswerKind
from link.blobs import BlobStore
from link.client import ClusterClient
from link.errors import ClusterError
from link.handover import HandoverError, rebuild_root
from link.types import GET_OPENING, BlobRef, OpeningRequest, PayloadFile
from pol.rules.tiers.table import tier_named
from pol.work.pool import PoolError
from validator.decide import actions as do
from validator.decide.records import Recomputed, SeatKey
from validator.decide.seats import (
    blob_awaited,
    job_loaded,
    opening_arrived,
    payload_awaited,
    place_recomputed,
)
from validator.ledger import Ledger
from validator.work import numerics
from validator.work.audits import PlaceFiles, make_audit
from validator.work.files import is_materialised, materialise
from validator.work.perform import Table
from validator.work.requests import StateFiles

_log = logging.getLogger("assay.validator.seats")
R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A", do.AskOpening, do.LoadAudited, do.ReplayPlace)
RETRY_SECONDS = 0.5
ASK_SECONDS = (0.05, 1.0)
"""The shortest and the longest pause before a winner is asked again for an opening that is not ready."""
LEAST_SECONDS = 0.1
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
    run: Run
    backend: str
    connect: Callable[[str], ClusterClient]
    clock: Callable[[], int]  # returns the chain's clock (seconds) at the last look
    turns: SeatQueues = field(default_factory=SeatQueues)
    # The keys of each seat's actions whose last try failed.
    failing: dict[SeatKey, set[str]] = field(default_factory=dict)

    def table(self) -> Table:
        """Return the functions that carry out the actions about seats, by the action's class."""
        return {
            do.AskOpening: partial(self._in_turn, self.ask),
            do.LoadAudited: partial(self._in_turn, self.load),
            do.ReplayPlace: partial(self._in_turn, self.replay),
            do.RebuildChunk: self.rebuild,
            do.EndSeat: self.end,
        }

    def end(self, action: do.EndSeat) -> None:
        """Delete the record and the blobs of a seat."""
        self.ledger.end_seat(action.seat)
        self.failing.pop(action.seat, None)

    def ask(self, action: do.AskOpening) -> float | None:
        """Ask the winner for an opening, then seats of earlier stages.

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
        for name in (action.winner, *action.helpers):
            helper = "" if name == action.winner else name
            try:
                opening = self.connect(name).call(GET_OPENING, request)
            except ClusterError as error:
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
        directory = self._job(seat, (action.winner, *action.helpers), action.files)
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
        directory = self._job(key, (action.winner, *action.helpers), seat.files)
        states = [
            StateFiles(
                self._fetch(action, state.global_state),
                self._fetch(action, state.local_state),
            )
            for state in opening.states
        ]
        sent = {item.slot: self._fetch(action, item.update.blob) for item in opening.updates}
        self.ledger.change_seat(key, lambda now: blob_awaited(now, index, b""))
        audit = make_audit(
            action.tier,
            action.place,
            action.shares,
            opening,
            PlaceFiles(directory, states, sent),
            global_in=action.global_in,
            seed=action.seed,
            backend=self.backend,
        )
        result = self._run(action, audit.function, audit.request)
        self.ledger.change_seat(key, lambda now: place_recomputed(now, index, result))

    def rebuild(self, action: do.RebuildChunk) -> None:
        """Encrypt an opened chunk again. Record the root that follows, or the reason why no root follows."""
        seat = self.ledger.store.seat(action.seat)
        opening = seat.places[action.index].opening if seat else None
        if opening is None or opening.chunk is None:
            return
        try:
            root = rebuild_root(action.asked, action.chunk, opening.chunk)
            digest = tier_named(action.tier).digest(action.seed, (), (opening.chunk.data,))
            result = Recomputed(fault="", kind=AnswerKind.FINISHED, root=root, digest=digest)
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
        action: do.LoadAudited | do.ReplayPlace,
        function: Callable[[R], T],
        request: R,
    ) -> T:
        """Run a function in the pool, at most until the answer must be sent."""
        seconds = max(LEAST_SECONDS, float(action.until - self.clock()))
        return self.run(seconds, function, request)

    # Fetching

    def _job(self, seat: SeatKey, sources: Sequence[str], files: Iterable[PayloadFile]) -> Path:
        """Return the directory of the job; fetch its files if they are not here."""
        files = tuple(files)
        if not is_materialised(files, self.jobs):
            missing = [f.blob for f in files if not self.blobs.status(f.blob).complete]
            if missing:
                first = missing[0].sha256
                self.ledger.change_seat(seat, lambda now: payload_awaited(now, first))
            for blob in missing:
                self._take(seat, sources, blob)
        directory = materialise(files, self.blobs, self.jobs)
        self.ledger.change_seat(seat, lambda now: payload_awaited(now, b""))
        return directory

    def _fetch(self, action: do.ReplayPlace, blob: BlobRef) -> Path:
        """Return the path of a blob of a place; fetch the blob if it is not here."""
        if not self.blobs.status(blob).complete:
            awaited = partial(blob_awaited, index=action.index, blob=blob.sha256)
            self.ledger.change_seat(action.seat, awaited)
        self._take(action.seat, (action.winner, *action.helpers), blob)
        return self.blobs.path(blob.sha256)

    def _take(self, seat: SeatKey, sources: Sequence[str], blob: BlobRef) -> None:
        """Fetch a blob by its hash from the first source that has it.

        Raises the first source's ClusterError if none has it, or if the seat ends meanwhile.
        """

        def go_on(_done: int, _size: int) -> None:
            self.ledger.hold_for(seat, ())

        self.ledger.hold_for(seat, (blob,))
        if self.blobs.status(blob).complete:
            return
        failure: ClusterError | None = None
        for name in sources:
            try:
                self.connect(name).fetch(blob, self.blobs, go_on)
            except ClusterError as error:
                failure = failure or error
            else:
                return
        if failure is not None:
            raise failure

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
