"""Fetching the states from which a leg starts, if an earlier leg of the order ended with them on another machine."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from link.blobs import BlobStore
from link.client import ClusterClient
from link.errors import ClusterError
from link.types import GET_STATES, StateRef, StatesRequest
from pol.work.pool import PoolError
from validator.decide import actions as do
from validator.decide.records import LegKey, LocalOrder
from validator.ledger import Ledger
from validator.work import numerics
from validator.work.perform import Table
from validator.work.requests import RootedFile

_log = logging.getLogger("assay.validator")
R = TypeVar("R")
T = TypeVar("T")
RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class StateFetcher:
    """The records, blobs and connections with which states are fetched. ``run`` runs a function in the process pool."""

    ledger: Ledger
    blobs: BlobStore
    run: Callable[[Callable[[RootedFile], bool], RootedFile], bool]
    connect: Callable[[str], ClusterClient]

    def table(self) -> Table:
        """Return the function that carries out the action, by the action's class."""
        return {do.FetchStates: self.fetch}

    def fetch(self, action: do.FetchStates) -> float | None:
        """Take the states that the consumer sent, and fetch the others; return the pause before the next try."""
        local = self.ledger.load(action.leg.order_id, action.leg.leg)
        if local is None:
            return None
        missing = set(action.roots)
        for state in local.offered:
            if state.root in missing and self.blobs.status(state.blob).complete and self._take(action.leg, state):
                missing.discard(state.root)
        for source in action.sources:
            if missing:
                missing -= self._fetch_from(source, action, missing)
        return RETRY_SECONDS if missing else None

    def _fetch_from(self, source: str, action: do.FetchStates, missing: set[bytes]) -> set[bytes]:
        """Fetch states from a validator, and return the roots of those that arrived and are right."""
        leg = action.leg
        taken: set[bytes] = set()
        try:
            client = self.connect(source)
            manifest = client.call(GET_STATES, StatesRequest(leg.order_id, action.source))
            for state in manifest.states:
                if state.root in missing - taken:
                    self.blobs.hold(state.blob.sha256, str(leg))
                    client.fetch(state.blob, self.blobs)
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
