"""The functions that carry out the actions on the daemon's own records: verdicts, blobs, job directories."""

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
"""Time (seconds) for which a blob is kept if no record names it."""
UNUSED_SECONDS = 86_400
"""Seconds for which an unused job directory is kept."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """The records and folders that these actions need. ``keep_providers`` forgets all other providers."""

    ledger: Ledger
    blobs: BlobStore
    jobs: Path
    keep_providers: Callable[[Collection[str]], None]
    _written: dict[LegKey, frozenset[VerdictRow]] = field(default_factory=dict)

    def table(self) -> Table:
        """Return the functions that carry out these actions, by the action's class."""
        return {
            do.NoteVerdicts: self.note,
            do.Tidy: lambda action: self.ledger.tidy(action.leg, action.needed),
            do.ForgetLeg: self.forget,
            do.TakeInitialStates: self.take_initial_states,
            do.Clean: self.clean,
        }

    def note(self, action: do.NoteVerdicts) -> None:
        """Write the verdicts of a leg to the store, except verdicts that the last call for this leg already had."""
        rows = frozenset(action.rows)
        new = rows - self._written.get(action.leg, frozenset())
        if new:
            self.ledger.store.save_verdicts(new)
        self._written[action.leg] = rows

    def take_initial_states(self, action: do.TakeInitialStates) -> None:
        """Hold the states of an earlier leg that a leg starts from."""
        self.ledger.take_initial_states(action.leg, action.earlier_global, action.slots)

    def forget(self, action: do.ForgetLeg) -> None:
        """Delete the record of a leg."""
        self.ledger.forget(action.leg)
        self._written.pop(action.leg, None)

    def clean(self, action: do.Clean) -> None:
        """Delete unclaimed blobs and unused job directories, and forget providers that left."""
        self.blobs.collect(time.time() - UNCLAIMED_SECONDS)
        sweep(self.jobs, UNUSED_SECONDS)
        self.keep_providers(action.providers)
