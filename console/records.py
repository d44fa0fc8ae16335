"""The watcher of the records of daemons on this machine. It reads traces and names of jobs, and never writes.

Daemons delete the records of a round once it is verified; the console's index keeps what was read from them.
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
from console.known import Machine, NodeState
from console.traces import Reached, Replayed, ShareTrace
from domain.errors import Expected
from domain.keys import ShareKey
from link.types import BOUNDARIES_MAX
from pol.values import metric_values
from pol.work.cluster.seen import read_nodes
from validator.decide.records import SlotWork
from validator.store import TraceReader as ValidatorReader

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.5
PATIENCE: Final = 40
"""Number of failed attempts to read a file after which a warning is logged, once.

A file that is being created cannot be read yet.
"""
VALIDATOR: Final = Path("validator", "validator.db")
PROVIDER: Final = Path("provider", "provider.db")
"""Paths of the records in a home."""


class RecordWatcher:
    """A thread that reads new records from homes of this machine until it is closed."""

    def __init__(self, known: NodeState, homes: Iterable[Path]) -> None:
        """Create a watcher; each of ``homes`` may have a validator, a provider, both, or neither yet."""
        self._known = known
        self._index = known.index
        self._homes = tuple(homes)
        self._readers: dict[Path, tuple[ValidatorReader | ProviderReader, int]] = {}
        self._tries: Counter[Path] = Counter()
        self._named_at = 0
        self._stop = Event()
        self._thread = Thread(target=self._run, name="console-records", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and close all files."""
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
                # A daemon may be replacing its records, or the disk may be full. Pages keep the data read before.
                log.warning("records of traces cannot be read: %s", error)

    def look(self) -> None:
        """Read all records that were written since the last look."""
        changed = False
        next_event = self._index.next
        if next_event != self._named_at:
            self._named_at = next_event
            changed = name_jobs(self._index, self._homes)
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
                is_new = (
                    self._take_provider(reader) if isinstance(reader, ProviderReader) else self._take_validator(reader)
                )
                self._readers[path] = reader, version
                changed = is_new or changed
        machines = self._machines()
        if machines != self._known.snapshot.machines:
            self._known.show(machines=machines)
        elif changed:
            self._known.show()

    def _machines(self) -> tuple[Machine, ...]:
        """Return the nodes of all daemons' clusters. Daemons that share a cluster are named before their tasks."""
        homes = [home for home in self._homes for path in (VALIDATOR, PROVIDER) if read_nodes((home / path).parent)]
        made: dict[str, Machine] = {}
        for home in self._homes:
            for path in (VALIDATOR, PROVIDER):
                cluster = read_nodes((home / path).parent)
                for node in cluster.nodes if cluster else ():
                    who = f"{home.name}: " if len(homes) > 1 else ""
                    ended = ", ".join(f"{count} {kind}" for kind, count in node.ended)
                    known = made.get(node.name)
                    made[node.name] = Machine(
                        name=node.name,
                        address=node.address,
                        processors=node.processors,
                        memory=node.memory,
                        problem=node.problem if known is None else known.problem and node.problem,
                        fault=node.fault or (known.fault if known else ""),
                        tasks=(*(known.tasks if known else ()), *(f"{who}{task}" for task in node.tasks)),
                        ended=(*(known.ended if known else ()), *([f"{who}{ended}"] if ended else [])),
                    )
        return tuple(made.values())

    def _reader(
        self, path: Path, kind: type[ValidatorReader | ProviderReader]
    ) -> ValidatorReader | ProviderReader | None:
        """Return the reader of a daemon's file; None if the file is missing or of another version of the program.

        A file that is just being created has no version yet. A warning is therefore logged only if this state lasts.
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
        traces: dict[ShareKey, ShareTrace] = {}

        def known(key: ShareKey) -> int:
            if key not in traces:
                traces[key] = self._index.trace(key)
            return len(traces[key].boundaries) if not traces[key].claimed else BOUNDARIES_MAX

        changed = set()
        for key, boundary in reader.boundaries(known):
            before = traces[key]
            reached = Reached(
                index=boundary.index,
                step=boundary.step,
                root=boundary.root,
                metrics=metric_values(boundary.metrics),
            )
            if reached.index == len(before.boundaries) + 1:
                traces[key] = replace(before, boundaries=(*before.boundaries, reached))
                changed.add(key)
        for key in changed:
            self._index.put_trace(key, traces[key])
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
    """Return the trace ``before`` with the records of the share's validator added."""
    after = replace(
        before,
        replayed=tuple(Replayed(check.segment, check.reason, check.replayed_root) for check in work.checked),
        picks=work.picks,
        verdict=work.verdict,
    )
    if work.packet is None:
        return after
    # The boundaries that the provider handed in replace the boundaries that a provider of this machine recorded.
    return replace(
        after,
        claimed=True,
        boundaries=tuple(
            Reached(
                index=index,
                step=boundary.step,
                root=boundary.boundary_root,
                metrics=metric_values(boundary.metrics),
            )
            for index, boundary in enumerate(work.packet.boundaries, 1)
        ),
    )
