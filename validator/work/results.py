"""The work of a seat in a panel about the encrypted result of a round: it fetches all chunks and checks them."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from domain.hashing import merkle_root
from link.blobs import BlobStore
from link.client import ClusterClient
from link.errors import ClusterError, ClusterErrorKind
from link.handover import ciphertext_root
from link.types import ResultManifest
from pol.rules.handover import has_valid_length
from pol.work.executor import PoolError
from validator.decide import actions as do
from validator.decide.records import FoundResult, LocalOrder, SealedResult
from validator.decide.seats import blob_awaited, place_recomputed
from validator.ledger import Ledger
from validator.work import numerics
from validator.work.perform import Table
from validator.work.requests import ChunkedFile, StatesDigest
from validator.work.seats import LEAST_SECONDS, Run
from validator.work.states import FIND_RETRY_SECONDS, RETRY_SECONDS, TURN_SECONDS

_log = logging.getLogger("assay.validator")
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ResultFinder:
    """The records, blobs and connections with which a seat fetches a result. ``run`` runs a function for seats."""

    ledger: Ledger
    blobs: BlobStore
    run: Run
    connect: Callable[[str], ClusterClient]
    clock: Callable[[], int]  # returns the chain's clock (seconds) at the last look
    now: Callable[[], float] = time.monotonic  # seconds

    def table(self) -> Table:
        """Return the function that carries out the action, by the action's class."""
        return {do.FindResult: self.find}

    def find(self, action: do.FindResult) -> float | None:
        """Fetch a result, and record a digest over all its bytes; return the pause before the next try.

        The result is kept in a record of the leg that handed it over, and served to the consumer and to other seats.
        """
        leg = action.leg
        self.ledger.begin(leg.order_id, leg.leg)
        local = self.ledger.load(leg.order_id, leg.leg)
        known = next((found for found in local.results if found.round == action.seat.round), None) if local else None
        sealed = known.sealed if known is not None else self._fetch(action)
        if sealed is None:
            return FIND_RETRY_SECONDS
        self.ledger.change_seat(action.seat, lambda now: blob_awaited(now, action.index, b""))
        path = self.blobs.path(sealed.blob.sha256)
        request = StatesDigest(paths=(path,), root=action.root, seeds=action.seeds, tier=action.tier)
        try:
            result = self.run(self._seconds(action), numerics.digest_states, request)
        except PoolError as error:
            _log.info("%s: %s; trying again", action.key, error)
            return RETRY_SECONDS
        self.ledger.change_seat(action.seat, lambda now: place_recomputed(now, action.index, result))
        return None

    def _seconds(self, action: do.FindResult) -> float:
        return max(LEAST_SECONDS, float(action.until - self.clock()))

    def _fetch(self, action: do.FindResult) -> SealedResult | None:
        """Fetch a result from the first validator that serves all of it rightly, and record it."""
        for source in action.sources:
            try:
                sealed = self._fetch_from(source, action)
            except (ClusterError, PoolError) as error:
                _log.info("%s: the result is not fetched from %s: %s", action.key, source, error)
                continue
            found = FoundResult(action.seat.round, sealed)

            def take(now: LocalOrder, found: FoundResult = found) -> LocalOrder:
                others = (known for known in now.results if known.round != found.round)
                return replace(now, results=(*others, found))

            self.ledger.change(action.leg.order_id, action.leg.leg, take, (sealed.blob,))
            return sealed
        return None

    def _fetch_from(self, source: str, action: do.FindResult) -> SealedResult:
        """Fetch a result from a validator; ClusterError if it does not serve a result that has the roots on chain."""
        ends = self.now() + TURN_SECONDS

        def keep_time(_done: int, _size: int) -> None:
            if self.now() >= ends:
                raise ClusterError(ClusterErrorKind.TIMED_OUT, "the turn of this source is over", "ask another one")

        client = self.connect(source)
        manifest = client.whole_result(action.seat.order_id, action.seat.round, action.layout.count)
        self._check(action, manifest)
        blob = manifest.ciphertext
        self.blobs.hold(blob.sha256, str(action.leg))
        client.fetch(blob, self.blobs, keep_time)
        leaves = tuple(leaf.sealed for leaf in manifest.leaves)
        chunked = ChunkedFile(
            path=self.blobs.path(blob.sha256),
            sizes=tuple(leaf.length for leaf in leaves),
            hashes=tuple(leaf.sha256 for leaf in leaves),
        )
        if not self.run(self._seconds(action), numerics.has_chunks, chunked):
            raise ClusterError(ClusterErrorKind.WRONG_CONTENT, "the ciphertext does not have the leaves' chunks")
        state_leaves = tuple(leaf.state_leaf for leaf in manifest.leaves)
        return SealedResult(ciphertext_root=action.root, blob=blob, leaves=leaves, state_leaves=state_leaves)

    def _check(self, action: do.FindResult, manifest: ResultManifest) -> None:
        """Check the leaves of a result against the chain, before any chunk is fetched."""
        layout, leaves = action.layout, manifest.leaves
        right = ciphertext_root(action.handover, [leaf.sealed for leaf in leaves]) == action.root
        for state, root in enumerate(action.roots):
            own = leaves[layout.first_chunk(state) : layout.first_chunk(state + 1)]
            right = right and merkle_root([leaf.state_leaf for leaf in own]) == root
        for number, leaf in enumerate(leaves):
            place = layout.locate(number)
            right = right and place is not None and has_valid_length(place, leaf.sealed.length)
        if not right or manifest.ciphertext.size != sum(leaf.sealed.length for leaf in leaves):
            raise ClusterError(ClusterErrorKind.WRONG_CONTENT, "the leaves of the result do not fit the chain")
