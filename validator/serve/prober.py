"""Measuring providers, side by side: two on one machine halve each other, as they will when they train."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from os import urandom
from threading import Lock

from link.types import ProbeTask
from validator.decide.probe import WAY_BYTES, Failed, Probe, ProbeResult, begin, go_on

PAUSE_NS = 2 * 10**9
"""After a probe that failed; twice as long after each further one."""
DOUBLINGS_MAX = 8
ACTIVE_MAX = 16
"""Providers that are measured at a time: each has a megabyte sent."""
_SEED_BYTES = 32


@dataclass(frozen=True, slots=True)
class ProbeFailures:
    """How often a provider failed, why it did last, and until when it is not measured."""

    count: int
    reason: str
    until: int


class Prober:
    """The measurements under way, and what came of those before. Thread-safe."""

    def __init__(
        self,
        now: Callable[[], int] = time.monotonic_ns,
        fresh: Callable[[int], bytes] = urandom,
    ) -> None:
        """Nobody is measured before :meth:`want` names somebody."""
        self._now, self._fresh = now, fresh
        self._lock = Lock()
        self._wanted: frozenset[str] = frozenset()
        self._active: dict[str, Probe] = {}
        self._measured: dict[str, ProbeResult] = {}
        self._failures: dict[str, ProbeFailures] = {}

    def want(self, names: Collection[str]) -> None:
        """Say who is to be measured, and forget what is known of all others."""
        with self._lock:
            self._wanted = frozenset(names)
            for known in (self._measured, self._failures):
                for name in [name for name in known if name not in self._wanted]:
                    del known[name]

    def why_not(self, name: str) -> str:
        """Return why a measurement cannot begin now, or an empty string."""
        with self._lock:
            return self._why_not(name)

    def failing(self, name: str) -> ProbeFailures | None:
        """Return the failures of somebody who has to wait because of them."""
        with self._lock:
            failures = self._failures.get(name)
            return failures if failures and self._now() < failures.until else None

    def step(self, name: str, digests: tuple[bytes, ...]) -> ProbeTask:
        """Take an answer, or begin where there is none; return what is next."""
        with self._lock:
            if not digests:
                return self._begin(name)
            probe = self._active.get(name)
            if probe is None:
                return ProbeTask(text="no task of yours is open")
            found = go_on(probe, digests, self._now(), self._fresh(_SEED_BYTES))
            if isinstance(found, Failed):
                self._fail(name, found.reason)
                return ProbeTask(text=found.reason)
            if isinstance(found, ProbeResult):
                del self._active[name]
                self._measured[name] = found
                return ProbeTask()
            self._active[name], task = found
            return task

    def drop(self, name: str) -> None:
        """End a measurement that is nobody's fault."""
        with self._lock:
            self._active.pop(name, None)

    def measured(self) -> tuple[ProbeResult, ...]:
        """Return what was found of those who are to be measured."""
        with self._lock:
            return tuple(self._measured[name] for name in sorted(self._measured))

    def judge(self, measured: ProbeResult, right: bool) -> None:
        """Take note of whether the pieces that were drawn are right."""
        with self._lock:
            if self._measured.get(measured.provider) != measured:
                return
            if right:
                self._measured[measured.provider] = replace(measured, sure=True)
                self._failures.pop(measured.provider, None)
            else:
                self._fail(measured.provider, "a piece was not what comes of its seed")

    # With the lock held

    def _begin(self, name: str) -> ProbeTask:
        if name in self._active:
            self._fail(name, "it was begun anew")
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
            return f"the last measurement failed ({failures.reason}): wait a while"
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
