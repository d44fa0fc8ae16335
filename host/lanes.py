"""Threads for a daemon's actions: each action runs at most once at a time, and after a failure only after a pause.

A daemon looks at the chain and its machine repeatedly, and asks each time for every action whose outcome is still
missing. Lanes make this safe. A running action is not started again. If an action ended after a look had begun, that
look does not start the action again. An action that fails is tried again after a pause, which doubles with each
failure.
"""

import logging
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from threading import Event, Lock
from typing import Generic, TypeVar

_log = logging.getLogger("assay.lanes")
PAUSE_SECONDS = 0.2
RETRY_SECONDS = 2.0
RETRY_SECONDS_MAX = 8.0
FORGET_SECONDS = 300.0

Lane = TypeVar("Lane", bound=Hashable)
Task = Callable[[], float | None]
"""The function of an action. It may return a number of seconds; for this time the action is not started again."""


class RunState(StrEnum):
    """The state of an action that was asked for."""

    RUNNING = "running"
    # It waits for a thread of its lane.
    WAITING = "waiting"
    # It failed, and waits until it may be tried again.
    PAUSED = "paused"


class Outcome(StrEnum):
    """The outcome of an action."""

    DONE = "done"
    FAILED = "failed"
    BUG = "bug"


@dataclass(slots=True)
class _Run(Generic[Lane]):
    lane: Lane
    busy: bool = True
    begun: bool = False
    ended: float = 0.0
    next_at: float = 0.0
    failures: int = 0


class Lanes(Generic[Lane]):
    """Threads that run actions. Only one thread starts actions; ``wake`` is set after each action."""

    def __init__(
        self,
        sizes: Mapping[Lane, int],
        stop: Event,
        wake: Event,
        expected: tuple[type[Exception], ...],
        now: Callable[[], float] = time.monotonic,
        ended: Callable[[Lane, Outcome], None] = lambda lane, outcome: None,
    ) -> None:
        """Make each lane with its number of threads; an action that waits in one lane does not delay other lanes.

        ``expected`` are the exceptions of failures outside this process; each is logged in a line. Any other exception
        is a bug and is logged with its traceback. In both cases, the action is tried again. ``now`` is in seconds
        and never decreases. ``ended`` is called after each action, on the thread that ran it.
        """
        self._stop = stop
        self._wake = wake
        self._expected = expected
        self._now = now
        self._ended = ended
        self._runs: dict[str, _Run[Lane]] = {}
        self._lock = Lock()
        self._threads = {lane: ThreadPoolExecutor(size, thread_name_prefix=str(lane)) for lane, size in sizes.items()}

    def start(self, key: str, work: Task, lane: Lane, seen: float) -> bool:
        """Start ``work`` unless it is running, has to pause, or ended after ``seen``; return whether it was started.

        ``seen`` is the time (by ``now``) at which the look that asks for the action began. If an action ended after
        that time, it may already have produced the outcome that the look still misses.
        """
        now = self._now()
        with self._lock:
            run = self._runs.get(key)
            if run is not None and (run.busy or now < run.next_at or seen <= run.ended):
                return False
            self._runs[key] = _Run(lane, failures=run.failures if run else 0)
            self._prune(now)
        self._threads[lane].submit(self._guarded, key, work)
        return True

    def busy(self) -> list[str]:
        """Return the keys of the actions that run or wait for a thread."""
        with self._lock:
            return [key for key, run in self._runs.items() if run.busy]

    def counts(self) -> dict[tuple[Lane, RunState], int]:
        """Return the number of actions per lane and state."""
        now = self._now()
        counts = {(lane, state): 0 for lane in self._threads for state in RunState}
        with self._lock:
            for run in self._runs.values():
                if run.busy:
                    counts[run.lane, RunState.RUNNING if run.begun else RunState.WAITING] += 1
                elif run.failures and now < run.next_at:
                    counts[run.lane, RunState.PAUSED] += 1
        return counts

    def failures(self) -> dict[Lane, int]:
        """Return, for each lane, the largest number of failures in a row of any of its actions."""
        now = self._now()
        worst = dict.fromkeys(self._threads, 0)
        with self._lock:
            for run in self._runs.values():
                # This action does not count, because no look has asked for it for a long time.
                if not run.busy and now - run.ended > FORGET_SECONDS:
                    continue
                worst[run.lane] = max(worst[run.lane], run.failures)
        return worst

    def close(self) -> None:
        """Drop waiting actions, and wait for running ones."""
        for threads in self._threads.values():
            threads.shutdown(wait=True, cancel_futures=True)

    def _guarded(self, key: str, work: Task) -> None:
        outcome = Outcome.FAILED
        pause = None
        with self._lock:
            self._runs[key].begun = True
        try:
            pause = work()
            outcome = Outcome.DONE
        except self._expected as error:
            _log.warning("%s: %s", key, error)
        except Exception:  # noqa: BLE001 - logged and tried again: the daemon continues
            # An error after a client or database was closed on purpose is not a bug.
            if not self._stop.is_set():
                outcome = Outcome.BUG
                _log.exception("bug in %s", key)
        finally:
            self._end(key, pause, outcome)

    def _end(self, key: str, pause: float | None, outcome: Outcome) -> None:
        failed = outcome is not Outcome.DONE
        with self._lock:
            run = self._runs[key]
            run.failures = run.failures + 1 if failed else 0
            if failed:
                pause = min(RETRY_SECONDS * 2 ** min(run.failures - 1, 8), RETRY_SECONDS_MAX)
            run.busy = False
            run.ended = self._now()
            run.next_at = run.ended + (PAUSE_SECONDS if pause is None else pause)
        self._ended(run.lane, outcome)
        self._wake.set()

    def _prune(self, now: float) -> None:
        """Forget actions that were not asked for recently."""
        if len(self._runs) % 256 == 0:
            old = [k for k, r in self._runs.items() if not r.busy and now - r.ended > FORGET_SECONDS]
            for key in old:
                del self._runs[key]
