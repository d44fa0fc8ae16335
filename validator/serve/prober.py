"""The measurement of providers.

Several providers are measured at the same time, so that two providers on one machine slow each other down, as they also
do when they train.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from os import urandom
from threading import Lock

from link.types import ProbeTask
from validator.decide.probe import WAY_BYTES, Failed, Probe, ProbeResult, begin, go_on

PAUSE_NS = 2 * 10**9
"""Pause (ns) after a failed probe; the pause doubles with each further failure."""
DOUBLINGS_MAX = 8
ACTIVE_MAX = 16
"""Largest number of providers that are measured at a time, because each of them gets a megabyte of data."""
_SEED_BYTES = 32


@dataclass(frozen=True, slots=True)
class ProbeFailures:
    """A provider's failed probes: their number, the last reason, and the time of the next try (monotonic ns)."""

    count: int
    reason: str
    until: int


class Prober:
    """The measurements under way, and the results of earlier ones. Thread-safe."""

    def __init__(
        self,
        now: Callable[[], int] = time.monotonic_ns,
        fresh: Callable[[int], bytes] = urandom,
    ) -> None:
        """Begin without any measurement; ``now`` returns nanoseconds, ``fresh`` returns random bytes."""
        self._now = now
        self._fresh = fresh
        self._lock = Lock()
        self._wanted: frozenset[str] = frozenset()
        self._active: dict[str, Probe] = {}
        self._measured: dict[str, ProbeResult] = {}
        self._failures: dict[str, ProbeFailures] = {}

    def want(self, names: Collection[str]) -> None:
        """Set the providers to measure, and forget the results of all others."""
        with self._lock:
            self._wanted = frozenset(names)
            for known in (self._measured, self._failures):
                for name in [name for name in known if name not in self._wanted]:
                    del known[name]

    def why_not(self, name: str) -> str:
        """Return why a measurement of this provider cannot begin now; empty if it can."""
        with self._lock:
            return self._why_not(name)

    def failing(self, name: str) -> ProbeFailures | None:
        """Return the failures of a provider that must still wait before its next probe; None if it need not wait."""
        with self._lock:
            failures = self._failures.get(name)
            return failures if failures and self._now() < failures.until else None

    def step(self, name: str, digests: tuple[bytes, ...]) -> ProbeTask:
        """Take a provider's answer and return its next task; without ``digests``, begin a measurement."""
        with self._lock:
            if not digests:
                return self._begin(name)
            probe = self._active.get(name)
            if probe is None:
                return ProbeTask(text="no task of yours is open")
            outcome = go_on(probe, digests, self._now(), self._fresh(_SEED_BYTES))
            if isinstance(outcome, Failed):
                self._fail(name, outcome.reason)
                return ProbeTask(text=outcome.reason)
            if isinstance(outcome, ProbeResult):
                del self._active[name]
                self._measured[name] = outcome
                return ProbeTask()
            self._active[name], task = outcome
            return task

    def drop(self, name: str) -> None:
        """End a measurement without counting a failure."""
        with self._lock:
            self._active.pop(name, None)

    def measured(self) -> tuple[ProbeResult, ...]:
        """Return the results of the providers to measure, sorted by address."""
        with self._lock:
            return tuple(self._measured[name] for name in sorted(self._measured))

    def judge(self, measured: ProbeResult, right: bool) -> None:
        """Record whether the recomputed pieces of a measurement are right; wrong pieces count as a failure."""
        with self._lock:
            if self._measured.get(measured.provider) != measured:
                return
            if right:
                self._measured[measured.provider] = replace(measured, sure=True)
                self._failures.pop(measured.provider, None)
            else:
                self._fail(measured.provider, "a piece differs from its recomputation")

    # The caller holds the lock

    def _begin(self, name: str) -> ProbeTask:
        if name in self._active:
            self._fail(name, "the provider began a new measurement before this one had ended")
        if reason := self._why_not(name):
            return ProbeTask(text=reason)
        data = self._fresh(WAY_BYTES)
        self._active[name], task = begin(name, data, self._now())
        return task

    def _why_not(self, name: str) -> str:
        now = self._now()
        for late in [probe.provider for probe in self._active.values() if now >= probe.ends_at]:
            self._fail(late, "the answer came too late")
        if name in self._measured or name not in self._wanted:
            return "no measurement is due"
        failures = self._failures.get(name)
        if failures and now < failures.until:
            return f"the last measurement failed ({failures.reason}); it is repeated after a pause"
        if name not in self._active and len(self._active) >= ACTIVE_MAX:
            return f"{ACTIVE_MAX} other providers are being measured"
        return ""

    def _fail(self, name: str, reason: str) -> None:
        known = self._failures.get(name)
        count = known.count + 1 if known else 1
        pause = PAUSE_NS << min(count - 1, DOUBLINGS_MAX)
        self._failures[name] = ProbeFailures(count, reason, self._now() + pause)
        self._measured.pop(name, None)
        self._active.pop(name, None)
