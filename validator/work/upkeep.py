"""Carrying out what is decided about a daemon's own house: verdicts for people, blobs, job directories."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from link.blobs import BlobStore
from validator.decide import actions as do
from validator.decide.records import LegKey, VerdictRow
from validator.ledger import Ledger
from validator.work.files import sweep
from validator.work.perform import Table

UNCLAIMED_SECONDS = 3_600
"""How long bytes are kept that nothing names."""
UNUSED_SECONDS = 86_400
"""How long a job directory is kept that nobody uses."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """Everything that these actions need; ``keep_providers`` forgets what is known of all others."""

    ledger: Ledger
    blobs: BlobStore
    jobs: Path
    keep_providers: Callable[[Collection[str]], None]
    _written: dict[LegKey, frozenset[VerdictRow]] = field(default_factory=dict)

    def table(self) -> Table:
        """Return how each of these actions is carried out."""
        return {
            do.NoteVerdicts: self.note,
            do.Tidy: lambda action: self.ledger.tidy(action.leg, action.needed),
            do.ForgetLeg: self.forget,
            do.TakeOpenings: self.take_openings,
            do.Clean: self.clean,
        }

    def note(self, action: do.NoteVerdicts) -> None:
        """Write the verdicts that are new; what was written is remembered until the leg is forgotten."""
        rows = frozenset(action.rows)
        new = rows - self._written.get(action.leg, frozenset())
        if new:
            self.ledger.store.save_verdicts(new)
        self._written[action.leg] = rows

    def take_openings(self, action: do.TakeOpenings) -> None:
        """Hold the states of another leg that a leg starts from."""
        self.ledger.take_openings(action.leg, action.opening, action.slots)

    def forget(self, action: do.ForgetLeg) -> None:
        """Forget a leg."""
        self.ledger.forget(action.leg)
        self._written.pop(action.leg, None)

    def clean(self, action: do.Clean) -> None:
        """Delete what nobody needs."""
        self.blobs.collect(time.time() - UNCLAIMED_SECONDS)
        sweep(self.jobs, UNUSED_SECONDS)
        self.keep_providers(action.providers)
