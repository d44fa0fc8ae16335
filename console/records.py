"""Reads what homes of this machine hold of traces, and of jobs their names; the chain has the hashes alone.

They forget a round when it is verified, and the index keeps what it was told. Nothing of theirs is written.
"""

import logging
import sqlite3
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Final

from compute_provider.store import TraceReader as ProviderReader
from console.jobs import name_jobs
from console.known import NodeState
from console.traces import Reached, Replayed, ShareTrace
from domain.errors import Expected
from domain.keys import ShareKey
from link.types import BOUNDARIES_MAX
from pol.values import metric_values
from validator.decide.records import SlotWork
from validator.store import TraceReader as ValidatorReader

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.5
PATIENCE: Final = 40
"""Looks at a file that cannot be read before that is said, once."""
VALIDATOR: Final = Path("validator", "validator.db")
PROVIDER: Final = Path("provider", "provider.db")
"""Where a home has them."""


class RecordWatcher:
    """Looks at the records of homes of this machine until it is stopped."""

    def __init__(self, known: NodeState, homes: Iterable[Path]) -> None:
        """``homes`` may have a validator, a provider, both, or none yet."""
        self._known, self._index = known, known.index
        self._homes = tuple(homes)
        self._readers: dict[Path, tuple[ValidatorReader | ProviderReader, int]] = {}
        self._tries: Counter[Path] = Counter()
        self._named_at = 0
        self._stop = Event()
        self._thread = Thread(target=self._run, name="console-records", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for reader, _ in self._readers.values():
            reader.close()

    def _run(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            try:
                self.look()
            except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
                # Records that are being replaced, or a full disk: what is known stays on show.
                log.warning("records of traces cannot be read: %s", error)

    def look(self) -> None:
        """Take in whatever was written since the last look."""
        changed, events = False, self._index.next
        if events != self._named_at:
            self._named_at, changed = events, name_jobs(self._index, self._homes)
        for home in self._homes:
            for path, kind in (
                (home / PROVIDER, ProviderReader),
                (home / VALIDATOR, ValidatorReader),
            ):
                reader = self._reader(path, kind)
                if reader is None:
                    continue
                version = reader.version
                if version == self._readers[path][1]:
                    continue
                taken = (
                    self._take_provider(reader) if isinstance(reader, ProviderReader) else self._take_validator(reader)
                )
                self._readers[path] = reader, version
                changed = taken or changed
        if changed:
            self._known.show()

    def _reader(
        self, path: Path, kind: type[ValidatorReader | ProviderReader]
    ) -> ValidatorReader | ProviderReader | None:
        """Return what reads a file, None as long as it is not there, or if it is of another version of the program.

        A file that is just being made is of none yet, so that is said of one that stays so.
        """
        if path in self._readers:
            return self._readers[path][0]
        if not path.is_file():
            return None
        try:
            reader = kind(path if kind is ValidatorReader else path.parent)
        except Expected as error:
            self._tries[path] += 1
            if self._tries[path] == PATIENCE:
                log.warning("%s", error)
            return None
        self._readers[path] = reader, -1
        return reader

    def _take_provider(self, reader: ProviderReader) -> bool:
        found: dict[ShareKey, ShareTrace] = {}

        def known(key: ShareKey) -> int:
            if key not in found:
                found[key] = self._index.trace(key)
            return len(found[key].boundaries) if not found[key].claimed else BOUNDARIES_MAX

        changed = set()
        for key, boundary in reader.boundaries(known):
            before = found[key]
            made = Reached(
                index=boundary.index,
                step=boundary.step,
                root=boundary.root,
                metrics=metric_values(boundary.metrics),
            )
            if made.index == len(before.boundaries) + 1:
                found[key] = replace(before, boundaries=(*before.boundaries, made))
                changed.add(key)
        for key in changed:
            self._index.put_trace(key, found[key])
        return bool(changed)

    def _take_validator(self, reader: ValidatorReader) -> bool:
        changed = False
        for key, work in reader.shares(lambda key: self._index.trace(key).claimed):
            before = self._index.trace(key)
            after = _taken(before, work)
            if after != before:
                self._index.put_trace(key, after)
                changed = True
        return changed


def _taken(before: ShareTrace, work: SlotWork) -> ShareTrace:
    """Return a trace with what its validator has of it."""
    after = replace(
        before,
        replayed=tuple(Replayed(found.segment, found.reason, found.replayed_root) for found in work.checked),
        picks=work.picks,
        verdict=work.verdict,
    )
    if work.packet is None:
        return after
    # What was handed in takes the place of what a provider of this machine trained: it is what counts.
    return replace(
        after,
        claimed=True,
        boundaries=tuple(
            Reached(
                index=index,
                step=found.step,
                root=found.boundary_root,
                metrics=metric_values(found.metrics),
            )
            for index, found in enumerate(work.packet.boundaries, 1)
        ),
    )
