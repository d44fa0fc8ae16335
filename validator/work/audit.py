"""Auditing somebody else's round: fetch what each place needs, replay it here, answer with roots.

A place whose data cannot be had in time, or does not hash to what is on the chain, is answered ``unavailable``: that is
what an auditor can say for certain. The audited validator may be hostile: nothing it sends is larger than the order
allows, and nothing it does keeps an auditor beyond its time, because a silent seat is cut.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from domain.messages import TraceLeaf
from domain.queries import AuditDuty, OrderResponse
from domain.reasons import ShareReason
from domain.records import AuditAnswer, AuditKind, Place, Round, Share
from link.blobs import BlobStore
from link.client import ClusterClient
from link.errors import ClusterError
from link.types import AuditOpening, BlobRef, OpenedLeaf, OpeningRequest
from pol.rules.commitment import audit_digest, check_leaf, update_claim
from pol.work.pool import PoolError
from pol.work.records import Range
from validator.decide.receive import JOB_FILE
from validator.work import numerics
from validator.work.files import is_materialised, materialise
from validator.work.numerics import Claimed, ReplayOutcome, Sizes

_log = logging.getLogger("assay.validator.work.audit")
T = TypeVar("T")


class Run(Protocol):
    """Runs a function in the process pool and waits for what it returns."""

    def __call__(self, function: Callable[..., T], *arguments: object) -> T:
        """Return the function's result."""
        ...


class Unavailable(Exception):
    """Why a place cannot be replayed."""


@dataclass(frozen=True, slots=True)
class Found:
    """An answer for one place, and whether it is what the chain has."""

    answer: AuditAnswer
    agrees: bool


UNAVAILABLE = Found(AuditAnswer(b"", b"", None), agrees=False)


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
        self,
        duty: AuditDuty,
        chain: OrderResponse,
        connect: Callable[[], ClusterClient],
        seconds: float,
    ) -> tuple[Found, ...]:
        """Answer all places in their order within ``seconds``; what cannot be had by then is unavailable.

        ``connect`` is asked each time: the audited validator may move, or renew its certificate, in the middle.
        """
        audit = _Audit(self, duty, chain, connect, time.monotonic() + seconds)
        try:
            return tuple(audit.answer(index, place) for index, place in enumerate(duty.places))
        finally:
            self.blobs.release(audit.holder)


@dataclass(frozen=True, slots=True)
class _Audit:
    """One audit under way."""

    auditor: Auditor
    duty: AuditDuty
    chain: OrderResponse
    connect: Callable[[], ClusterClient]
    ends: float

    @property
    def holder(self) -> str:
        duty = self.duty
        return f"audit/{duty.order_id.hex()}/{duty.attempt}/{duty.round}/{duty.draw_ends}"

    def answer(self, index: int, place: Place) -> Found:
        """Try until there is an answer or the time is over.

        A link that breaks says nothing about the data: a daemon that is killed and started again still has them. The
        same holds for a pool that is full.
        """
        duty, wait = self.duty, 0.0
        while time.monotonic() < self.ends and not self.auditor.stopped(wait):
            try:
                opening = self.connect().get_opening(
                    OpeningRequest(duty.order_id, duty.attempt, duty.round, index)
                )
                if opening.ready:
                    outcome, claimed, leaf = self._replay(place, opening)
                    return self._found(index, outcome, claimed, leaf)
                wait = min(1.0, max(0.05, opening.retry_after_ms / 1e3))
            except (ClusterError, PoolError) as error:
                _log.info("place %d of round %d: %s", index, duty.round, error)
                wait = 0.5
            except Unavailable as error:
                _log.warning("place %d of round %d is unavailable: %s", index, duty.round, error)
                return UNAVAILABLE
            except Exception:  # noqa: BLE001 - whatever hostile data lead to: a silent seat is cut
                _log.exception("bug in place %d of round %d", index, duty.round)
                wait = 0.5
        return UNAVAILABLE

    def _found(
        self, index: int, outcome: ReplayOutcome, claimed: bytes, leaf: TraceLeaf | None
    ) -> Found:
        if not outcome.root:
            raise Unavailable(ShareReason(outcome.reason).name.lower())
        duty = self.duty
        digest = audit_digest(
            self.auditor.me,
            duty.order_id,
            duty.attempt,
            duty.round,
            index,
            outcome.inner_roots,
        )
        return Found(AuditAnswer(outcome.root, digest, leaf), outcome.root == claimed)

    # Fetching

    def _fetch(self, blob: BlobRef) -> Path:
        """Fetch a blob, as long as there is time."""
        blobs = self.auditor.blobs
        blobs.hold(blob.sha256, self.holder)
        self.connect().fetch(blob, blobs, lambda _done, _size: self._check_time())
        return blobs.path(blob.sha256)

    def _check_time(self) -> None:
        if time.monotonic() >= self.ends:
            raise Unavailable("the data did not come in time")

    def _job(self, opening: AuditOpening) -> Path:
        """Return the directory of the job, which must be the ordered one."""
        auditor, terms = self.auditor, self.chain.order.terms
        files = {file.path: file.blob for file in opening.payload}
        size = sum(blob.size for blob in files.values())
        if JOB_FILE not in files or files[JOB_FILE].sha256 != terms.job_id:
            raise Unavailable("another job")
        if len(files) != len(opening.payload) or size != terms.payload_bytes:
            raise Unavailable("a payload of another size")
        if not is_materialised(opening.payload, auditor.jobs):
            for blob in files.values():
                self._fetch(blob)
        directory = materialise(opening.payload, auditor.blobs, auditor.jobs)
        loaded = auditor.run(numerics.load, directory)
        if loaded.terms != terms:
            raise Unavailable(loaded.text or "a job with other terms")
        return directory

    def _states(self, opening: AuditOpening, sizes: Sizes) -> list[tuple[Path, Path]]:
        paths: list[tuple[Path, Path]] = []
        for state in opening.states:
            pair = (state.global_state.blob, state.local_state.blob)
            if (pair[0].size, pair[1].size) != (sizes.global_state, sizes.local_state):
                raise Unavailable("a state of another size")
            paths.append((self._fetch(pair[0]), self._fetch(pair[1])))
        return paths

    def _share(self, slot: int, issue: int) -> Share:
        return self.chain.shares_of(self.duty.attempt, self.duty.round)[slot, issue]

    # Replaying

    def _replay(
        self, place: Place, opening: AuditOpening
    ) -> tuple[ReplayOutcome, bytes, TraceLeaf | None]:
        """Return what replay found, the root that the chain has, and the leaf that goes with the answer."""
        directory = self._job(opening)
        sizes = self.auditor.run(numerics.sizes, directory)
        states = self._states(opening, sizes)
        if place.kind == AuditKind.AGGREGATION:
            closed = _round_of(self.chain, self.duty)
            outcome = self._aggregation(closed, opening, directory, states, sizes)
            return outcome, closed.next_root, None
        share = self._share(place.slot, place.issue)
        wanted = (place.segment, place.segment + 1)
        if place.kind == AuditKind.UPDATE:
            wanted = (0, share.claim.segments)
        leaves = [_leaf(item) for item in opening.leaves]
        if tuple(leaf.index for leaf in leaves) != wanted:
            raise Unavailable("leaves of other boundaries")
        if not all(check_leaf(self.auditor.chain_id, share.claim, leaf) for leaf in leaves):
            raise Unavailable("leaves that are not in the share's trace")
        if place.kind == AuditKind.UPDATE:
            outcome = self._update(share, leaves[1], directory, states)
            return outcome, update_claim(share.claim.update_root, share.claim.local_out), None
        outcome = self._segment(share, place.segment, leaves, directory, states)
        return outcome, leaves[1].boundary_root, leaves[1]

    def _segment(
        self,
        share: Share,
        segment: int,
        leaves: list[TraceLeaf],
        directory: Path,
        states: list[tuple[Path, Path]],
    ) -> ReplayOutcome:
        if len(states) != 1:
            raise Unavailable("no states")
        first, last = leaves
        return self.auditor.run(
            numerics.check_segment,
            directory,
            Range(self.duty.round, share.claim.first, share.claim.count),
            segment,
            states[0],
            Claimed(first.boundary_root, last.boundary_root, last.metrics),
            self.auditor.backend,
        )

    def _update(
        self, share: Share, last: TraceLeaf, directory: Path, states: list[tuple[Path, Path]]
    ) -> ReplayOutcome:
        if len(states) != 2:
            raise Unavailable("no states")
        return self.auditor.run(
            numerics.audit_update,
            directory,
            (states[0][0], share.claim.global_in),
            states[1],
            last.boundary_root,
        )

    def _aggregation(
        self,
        closed: Round,
        opening: AuditOpening,
        directory: Path,
        states: list[tuple[Path, Path]],
        sizes: Sizes,
    ) -> ReplayOutcome:
        sent = {update.slot: update.update.blob for update in opening.updates}
        slots = {ref.slot for ref in closed.shares}
        if len(states) != 1 or sent.keys() != slots:
            raise Unavailable("not the round's updates")
        if any(blob.size != sizes.update for blob in sent.values()):
            raise Unavailable("an update of another size")
        updates: list[tuple[int, Path, bytes]] = []
        for ref in closed.shares:
            claim = self._share(ref.slot, ref.issue).claim
            updates.append((claim.count, self._fetch(sent[ref.slot]), claim.update_root))
        return self.auditor.run(
            numerics.audit_aggregation,
            directory,
            (states[0][0], closed.global_in),
            tuple(updates),
            self.auditor.backend,
        )


def _leaf(opened: OpenedLeaf) -> TraceLeaf:
    return TraceLeaf(opened.index, opened.step, opened.boundary_root, opened.metrics, opened.path)


def _round_of(chain: OrderResponse, duty: AuditDuty) -> Round:
    return next(r for r in chain.rounds if (r.attempt, r.number) == (duty.attempt, duty.round))
