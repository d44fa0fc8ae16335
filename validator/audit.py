"""Auditing somebody else's round: fetch what each place needs, replay it here, answer with roots.

A place whose data cannot be had, or does not hash to what is on the chain, is answered ``unavailable``: that is what
an auditor can say for certain.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from chain.types.messages import TraceLeaf
from chain.types.queries import AuditDuty, OrderResponse
from chain.types.reasons import ShareReason
from chain.types.records import AuditAnswer, AuditKind, Place, Round, Share
from cluster.blobs import BlobStore
from cluster.client import ClusterClient
from cluster.errors import ClusterError
from cluster.types import AuditOpening, BlobRef, OpenedLeaf, OpeningRequest
from pol.replay.records import Range
from pol.rules.commitment import audit_digest, check_leaf
from validator import numerics
from validator.files import materialise
from validator.numerics import Claimed, ReplayOutcome

_log = logging.getLogger("assay.validator.audit")


T = TypeVar("T")


class Run(Protocol):
    """Runs a function in the process pool and waits for what it returns."""

    def __call__(self, function: Callable[..., T], *arguments: object) -> T:
        """Return the function's result."""
        ...


@dataclass(frozen=True, slots=True)
class Auditor:
    """Everything an audit needs besides the duty itself."""

    me: str
    chain_id: str
    blobs: BlobStore
    jobs: Path
    run: Run
    backend: str
    stopped: Callable[[float], bool]  # waits that many seconds; True when the daemon stops

    def answer(
        self, duty: AuditDuty, chain: OrderResponse, client: ClusterClient, seconds: float
    ) -> tuple[AuditAnswer, ...]:
        """Answer all places in their order within ``seconds``; what cannot be had by then is unavailable."""
        ends = time.monotonic() + seconds
        return tuple(
            self._answer_place(duty, index, place, chain, client, ends)
            for index, place in enumerate(duty.places)
        )

    def _answer_place(
        self,
        duty: AuditDuty,
        index: int,
        place: Place,
        chain: OrderResponse,
        client: ClusterClient,
        ends: float,
    ) -> AuditAnswer:
        try:
            opening = self._fetch(duty, index, client, ends)
            if opening is not None:
                outcome, leaf = self._replay(duty, place, chain, opening)
                if outcome.reason in (ShareReason.NONE, *_DISAGREEMENTS):
                    digest = audit_digest(
                        self.me,
                        duty.order_id,
                        duty.attempt,
                        duty.round,
                        index,
                        outcome.inner_roots,
                    )
                    return AuditAnswer(outcome.root, digest, leaf)
                _log.warning("place %d of round %d: %s", index, duty.round, outcome.reason)
        except ClusterError as error:
            _log.warning("place %d of round %d: %s", index, duty.round, error)
        return AuditAnswer(b"", b"", None)

    def _fetch(
        self, duty: AuditDuty, index: int, client: ClusterClient, ends: float
    ) -> AuditOpening | None:
        """Ask for an opening until it is ready, and fetch its blobs."""
        request = OpeningRequest(duty.order_id, duty.attempt, duty.round, index)
        while time.monotonic() < ends:
            try:
                opening = client.get_opening(request)
            except ClusterError as error:
                _log.info("opening of place %d: %s", index, error)
                opening = None
            if opening is not None and opening.ready:
                for blob in _blobs_of(opening):
                    client.fetch(blob, self.blobs)
                return opening
            if self.stopped(
                min(1.0, max(0.05, (opening.retry_after_ms if opening else 500) / 1e3))
            ):
                return None
        return None

    def _replay(
        self, duty: AuditDuty, place: Place, chain: OrderResponse, opening: AuditOpening
    ) -> tuple[ReplayOutcome, TraceLeaf | None]:
        directory = materialise(opening.payload, self.blobs, self.jobs)
        loaded = self.run(numerics.load, directory)
        if loaded.terms != chain.order.terms:
            return _unavailable(), None
        path = self.blobs.path
        if place.kind == AuditKind.AGGREGATION:
            return self._aggregation(duty, chain, opening, directory), None
        share = _share_of(chain, duty, place)
        leaves = [_leaf(item) for item in opening.leaves]
        if len(leaves) != 2 or not all(
            check_leaf(self.chain_id, share.claim, leaf) for leaf in leaves
        ):
            return _unavailable(), None
        first, last = leaves
        if place.kind == AuditKind.UPDATE:
            ends = (opening.states[0], opening.states[-1])
            if (first.index, last.index) != (0, share.claim.segments):
                return _unavailable(), None
            outcome = self.run(
                numerics.audit_update,
                directory,
                (path(ends[0].global_state.blob.sha256), share.claim.global_in),
                (path(ends[1].global_state.blob.sha256), path(ends[1].local_state.blob.sha256)),
                last.boundary_root,
            )
            return outcome, None
        if (first.index, last.index) != (place.segment, place.segment + 1):
            return _unavailable(), None
        state = opening.states[0]
        outcome = self.run(
            numerics.check_segment,
            directory,
            Range(duty.round, share.claim.first, share.claim.count),
            place.segment,
            (path(state.global_state.blob.sha256), path(state.local_state.blob.sha256)),
            Claimed(first.boundary_root, last.boundary_root, last.metrics),
            self.backend,
        )
        return outcome, last

    def _aggregation(
        self, duty: AuditDuty, chain: OrderResponse, opening: AuditOpening, directory: Path
    ) -> ReplayOutcome:
        closed = _round_of(chain, duty)
        updates: list[tuple[int, Path, bytes]] = []
        sent = {update.slot: update.update.blob for update in opening.updates}
        for ref in closed.shares:
            share = next(s for s in _shares_of(chain, duty) if _is(s, ref.slot, ref.issue))
            if ref.slot not in sent:
                return _unavailable()
            updates.append(
                (
                    share.claim.count,
                    self.blobs.path(sent[ref.slot].sha256),
                    share.claim.update_root,
                )
            )
        state = opening.states[0].global_state.blob
        return self.run(
            numerics.audit_aggregation,
            directory,
            (self.blobs.path(state.sha256), closed.global_in),
            tuple(updates),
            self.backend,
        )


_DISAGREEMENTS = (
    ShareReason.SEGMENT_MISMATCH,
    ShareReason.METRICS_MISMATCH,
    ShareReason.UPDATE_MISMATCH,
)


def _unavailable() -> ReplayOutcome:
    return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"", ())


def _leaf(opened: OpenedLeaf) -> TraceLeaf:
    return TraceLeaf(opened.index, opened.step, opened.boundary_root, opened.metrics, opened.path)


def _shares_of(chain: OrderResponse, duty: AuditDuty) -> list[Share]:
    return [
        share
        for share in chain.shares
        if (share.claim.attempt, share.claim.round) == (duty.attempt, duty.round)
    ]


def _is(share: Share, slot: int, issue: int) -> bool:
    return (share.claim.slot, share.claim.issue) == (slot, issue)


def _share_of(chain: OrderResponse, duty: AuditDuty, place: Place) -> Share:
    return next(s for s in _shares_of(chain, duty) if _is(s, place.slot, place.issue))


def _round_of(chain: OrderResponse, duty: AuditDuty) -> Round:
    return next(r for r in chain.rounds if (r.attempt, r.number) == (duty.attempt, duty.round))


def _blobs_of(opening: AuditOpening) -> Iterator[BlobRef]:
    for file in opening.payload:
        yield file.blob
    for state in opening.states:
        yield state.global_state.blob
        yield state.local_state.blob
    for update in opening.updates:
        yield update.update.blob
