"""Fetching the states from which a leg starts, if an earlier leg of the order ended with them on another machine."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from link.blobs import BlobStore
from link.client import ClusterClient
from link.errors import ClusterError, ClusterErrorKind
from link.types import GET_STATES, StateRef, StatesRequest
from pol.work.executor import PoolError
from validator.decide import actions as do
from validator.decide.records import LegKey, LocalOrder
from validator.decide.seats import blob_awaited, place_recomputed
from validator.ledger import Ledger
from validator.work import numerics
from validator.work.perform import Table
from validator.work.requests import RootedFile, StatesDigest
from validator.work.seats import LEAST_SECONDS, Run

_log = logging.getLogger("assay.validator")
R = TypeVar("R")
T = TypeVar("T")
RETRY_SECONDS = 1.0
KEEP_RETRY_SECONDS = 5.0
FIND_RETRY_SECONDS = 2.0
TURN_SECONDS = 60.0
"""Longest time (seconds) for one source before the next one has its turn. What has arrived is not fetched again."""


@dataclass(frozen=True, slots=True)
class StateFetcher:
    """The records, blobs and connections with which states are fetched. ``run`` runs a function in the process pool."""

    ledger: Ledger
    blobs: BlobStore
    run: Callable[[Callable[[RootedFile], bool], RootedFile], bool]
    connect: Callable[[str], ClusterClient]
    now: Callable[[], float] = time.monotonic  # seconds

    def table(self) -> Table:
        """Return the functions that carry out the actions, by the action's class."""
        return {do.FetchStates: self.fetch, do.KeepStates: self.keep}

    def keep(self, action: do.KeepStates) -> float | None:
        """Fetch the states that a mirror keeps; return the pause before the next try."""
        return None if self.fetch(action) is None else KEEP_RETRY_SECONDS

    def find(self, action: do.FindStates) -> list[Path] | None:
        """Fetch all states that a round left, for a seat; return their files, or None if some are missing.

        They are kept for the validator of the next leg in the record of the leg that left them.
        """
        leg = action.leg
        self.ledger.begin(leg.order_id, leg.leg)
        known = self.ledger.find_states(leg.order_id, leg.leg, action.roots)
        missing = set(action.roots) - {state.root for state in known}
        missing -= self._take_offered(leg, missing)
        for source in action.sources:
            if missing:
                missing -= self._fetch_from(source, action, missing)
        known = self.ledger.find_states(leg.order_id, leg.leg, action.roots)
        return None if len(known) < len(action.roots) else [self.blobs.path(state.blob.sha256) for state in known]

    def fetch(self, action: do.FetchStates | do.KeepStates) -> float | None:
        """Take the states that the consumer sent, and fetch the others; return the pause before the next try."""
        if self.ledger.load(action.leg.order_id, action.leg.leg) is None:
            return None
        missing = set(action.roots)
        missing -= self._take_offered(action.leg, missing)
        for source in action.sources:
            if missing:
                missing -= self._fetch_from(source, action, missing)
        return RETRY_SECONDS if missing else None

    def _take_offered(self, leg: LegKey, missing: set[bytes]) -> set[bytes]:
        """Take the states that the consumer has sent, and return the roots of those that are right."""
        local = self.ledger.load(leg.order_id, leg.leg)
        taken: set[bytes] = set()
        for state in local.offered if local is not None else ():
            if state.root in missing - taken and self.blobs.status(state.blob).complete and self._take(leg, state):
                taken.add(state.root)
        return taken

    def _fetch_from(
        self, source: str, action: do.FetchStates | do.KeepStates | do.FindStates, missing: set[bytes]
    ) -> set[bytes]:
        """Fetch states from a validator, and return the roots of those that arrived and are right.

        A source may lie about its states, or send them slowly. So only states that have a size of the order are
        fetched, and other sources have their turn after ``TURN_SECONDS``.
        """
        leg = action.leg
        taken: set[bytes] = set()
        ends = self.now() + TURN_SECONDS

        def keep_time(_done: int, _size: int) -> None:
            if self.now() >= ends:
                raise ClusterError(ClusterErrorKind.TIMED_OUT, "the turn of this source is over", "ask another one")

        try:
            client = self.connect(source)
            manifest = client.call(GET_STATES, StatesRequest(leg.order_id, action.source))
            for state in manifest.states:
                if state.root in missing - taken and state.blob.size in action.sizes:
                    self.blobs.hold(state.blob.sha256, str(leg))
                    client.fetch(state.blob, self.blobs, keep_time)
                    if self._take(leg, state):
                        taken.add(state.root)
        except ClusterError as error:
            _log.info("%s: the states are not fetched from %s: %s", action.key, source, error)
        return taken

    def _take(self, leg: LegKey, state: StateRef) -> bool:
        """Record a state that has arrived, if it has its root."""
        try:
            right = self.run(numerics.has_root, RootedFile(self.blobs.path(state.blob.sha256), state.root))
        except PoolError as error:
            _log.info("%s: a state cannot be checked now: %s", leg, error)
            return False
        if not right:
            _log.warning("%s: a state that arrived does not have the root %s", leg, state.root.hex())
            return False

        def take(now: LocalOrder) -> LocalOrder:
            known = {held.root: held for held in now.fetched} | {state.root: state}
            return replace(now, fetched=tuple(known[root] for root in sorted(known)))

        self.ledger.change(leg.order_id, leg.leg, take, (state.blob,))
        return True


@dataclass(frozen=True, slots=True)
class StatesFinder:
    """The work of a seat in a panel about the states that a round left. ``run`` runs a function for seats."""

    fetcher: StateFetcher
    run: Run
    clock: Callable[[], int]  # returns the chain's clock (seconds) at the last look

    def table(self) -> Table:
        """Return the function that carries out the action, by the action's class."""
        return {do.FindStates: self.find}

    def find(self, action: do.FindStates) -> float | None:
        """Fetch the states, and record a digest over all their bytes; return the pause before the next try."""
        ledger = self.fetcher.ledger
        paths = self.fetcher.find(action)
        if paths is None:
            return FIND_RETRY_SECONDS
        ledger.change_seat(action.seat, lambda now: blob_awaited(now, action.index, b""))
        request = StatesDigest(paths=tuple(paths), root=action.roots[0], seeds=action.seeds, tier=action.tier)
        seconds = max(LEAST_SECONDS, float(action.until - self.clock()))
        try:
            result = self.run(seconds, numerics.digest_states, request)
        except PoolError as error:
            _log.info("%s: %s; trying again", action.key, error)
            return RETRY_SECONDS
        ledger.change_seat(action.seat, lambda now: place_recomputed(now, action.index, result))
        return None
