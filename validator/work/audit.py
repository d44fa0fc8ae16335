"""Carrying out what is decided about audits: the winner is asked, data are fetched, places replayed, answers sent.

A link that breaks says nothing about the data: a daemon that is killed and started again still has them. The same holds
for a pool that is full. So what fails is tried again soon; when to give up is not decided here.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from chain.client.sender import TxSender
from domain.queries import AuditDuty
from domain.records import AuditKind, Place
from link.blobs import BlobStore
from link.client import ClusterClient
from link.errors import ClusterError
from link.types import GET_OPENING, AuditOpening, BlobRef, OpeningRequest, PayloadFile
from pol.rules.commitment import boundary_root
from pol.work.pool import PoolError
from pol.work.records import RoundSlot
from validator.decide import actions as do
from validator.decide.audits import audited_loaded, opening_arrived, place_replayed
from validator.decide.records import ReplayOutcome
from validator.ledger import Ledger
from validator.work import numerics
from validator.work.files import is_materialised, materialise
from validator.work.perform import Table

_log = logging.getLogger("assay.validator.audit")
T = TypeVar("T")
RETRY_SECONDS = 0.5
ASK_SECONDS = (0.05, 1.0)
"""The least and the most between two questions for an opening that the winner does not have yet."""


class Run(Protocol):
    """Runs a function in the process pool and waits for what it returns."""

    def __call__(self, function: Callable[..., T], *arguments: object) -> T:
        """Return the function's result."""
        ...


@dataclass(frozen=True, slots=True)
class Auditor:
    """Everything that actions about audits need.

    ``connect`` is asked for a client of a validator each time: it may move, or renew its certificate, in the middle.
    """

    ledger: Ledger
    blobs: BlobStore
    jobs: Path
    run: Run
    backend: str
    connect: Callable[[str], ClusterClient]
    sender: TxSender

    def table(self) -> Table:
        """Return how each kind of action about audits is carried out."""
        return {
            do.AskOpening: partial(_soon_again, self.ask),
            do.LoadAudited: partial(_soon_again, self.load),
            do.ReplayPlace: partial(_soon_again, self.replay),
            do.AnswerAudit: self.answer,
            do.EndAudit: lambda action: self.ledger.end_audit(action.duty),
        }

    def ask(self, action: do.AskOpening) -> float | None:
        """Ask the winner for an opening; return when to ask again where it has none yet."""
        duty = action.duty
        request = OpeningRequest(duty.order_id, duty.attempt, duty.round, action.place_index)
        opening = self.connect(action.winner).call(GET_OPENING, request)
        if not opening.ready:
            least, most = ASK_SECONDS
            return min(most, max(least, opening.retry_after_ms / 1e3))
        self.ledger.change_audit(
            duty, lambda now: opening_arrived(now, action.place_index, opening)
        )
        return None

    def load(self, action: do.LoadAudited) -> None:
        """Fetch the job and load it."""
        directory = self._job(action.duty, action.winner, action.files)
        loaded = self.run(numerics.load, directory)
        sizes = self.run(numerics.sizes, directory) if loaded.terms == action.terms else None
        self.ledger.change_audit(
            action.duty,
            lambda now: audited_loaded(now, action.terms, loaded.terms, sizes, loaded.text),
        )

    def replay(self, action: do.ReplayPlace) -> None:
        """Fetch what a place needs and replay it."""
        duty = action.duty
        audit = self.ledger.store.audit(duty)
        opening = audit.places[action.place_index].opening if audit else None
        if audit is None or opening is None:
            return
        directory = self._job(duty, action.winner, audit.files)
        states = [
            (
                self._fetch(duty, action.winner, state.global_state),
                self._fetch(duty, action.winner, state.local_state),
            )
            for state in opening.states
        ]
        place = duty.places[action.place_index]
        if place.kind == AuditKind.AGGREGATION:
            outcome = self._aggregation(action, opening, directory, states[0][0])
        else:
            outcome = self._share(action, place, opening, directory, states)
        self.ledger.change_audit(duty, lambda now: place_replayed(now, action.place_index, outcome))

    def answer(self, action: do.AnswerAudit) -> None:
        """Send the answer, and remember it."""
        message = action.message
        self.sender.send(message)
        self.ledger.store.save_answered(
            message.order_id, message.attempt, message.round, action.agreed
        )

    # Replaying

    def _share(
        self,
        action: do.ReplayPlace,
        place: Place,
        opening: AuditOpening,
        directory: Path,
        states: list[tuple[Path, Path]],
    ) -> ReplayOutcome:
        (share,), closing = action.shares, opening.leaves[-1]
        if place.kind == AuditKind.UPDATE:
            return self.run(
                numerics.audit_update,
                directory,
                (states[0][0], action.global_in),
                states[1],
                opening.states[1].metrics,
                closing.boundary_root,
            )
        # What a share starts from is on chain, and no leaf can say otherwise.
        start = boundary_root(action.global_in, share.local_in)
        if place.segment:
            start = opening.leaves[0].boundary_root
        return self.run(
            numerics.check_segment,
            directory,
            RoundSlot(share.claim.round, share.claim.slot),
            place.segment,
            states[0],
            opening.states[0].metrics,
            (start, closing.boundary_root),
            self.backend,
        )

    def _aggregation(
        self, action: do.ReplayPlace, opening: AuditOpening, directory: Path, start: Path
    ) -> ReplayOutcome:
        sent = {item.slot: item.update.blob for item in opening.updates}
        updates = tuple(
            (
                self._fetch(action.duty, action.winner, sent[share.claim.slot]),
                share.roots.update_root,
            )
            for share in action.shares
            if share.roots is not None
        )
        return self.run(
            numerics.audit_aggregation,
            directory,
            (start, action.global_in),
            updates,
            self.backend,
        )

    # Fetching

    def _job(self, duty: AuditDuty, winner: str, files: Iterable[PayloadFile]) -> Path:
        """Return the directory of the job, fetched if it is not here."""
        files = tuple(files)
        if not is_materialised(files, self.jobs):
            for file in files:
                self._fetch(duty, winner, file.blob)
        return materialise(files, self.blobs, self.jobs)

    def _fetch(self, duty: AuditDuty, winner: str, blob: BlobRef) -> Path:
        """Fetch a blob, as long as the audit lasts."""

        def go_on(_done: int, _size: int) -> None:
            self.ledger.hold_for(duty, ())

        self.ledger.hold_for(duty, (blob,))
        self.connect(winner).fetch(blob, self.blobs, go_on)
        return self.blobs.path(blob.sha256)


def _soon_again(act: Callable[[T], float | None], action: T) -> float | None:
    """Carry an action out; where the link or the pool fails, say that it makes sense soon again."""
    try:
        return act(action)
    except (ClusterError, PoolError) as error:
        _log.info("%s", error)
        return RETRY_SECONDS
