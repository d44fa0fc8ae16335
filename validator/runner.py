"""Runs actions by key: each once at a time, never from an outdated look, and after a failure only after a pause."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from threading import Event, Lock

from chain.client.errors import ChainError
from link.errors import ClusterError
from pol.work.pool import PoolError

_log = logging.getLogger("assay.validator")
PAUSE_SECONDS = 0.2
RETRY_SECONDS = 2.0
RETRY_SECONDS_MAX = 8.0
FORGET_SECONDS = 300.0


class Lane(Enum):
    """Where an action runs, with the number of threads: what waits for others holds up nothing else."""

    TX = 1
    WORK = 8
    AUDIT = 64  # a seat in each of so many rounds: one whose winner is silent keeps its thread to the end


@dataclass(slots=True)
class _Run:
    busy: bool = True
    ended: float = 0.0
    next_at: float = 0.0
    failures: int = 0


class Runner:
    """Threads for actions. Only one thread starts; ``wake`` is set whenever an action ends."""

    def __init__(self, stop: Event, wake: Event, now: Callable[[], float] = time.monotonic) -> None:
        """Nothing runs."""
        self._stop, self._wake, self._now = stop, wake, now
        self._runs: dict[str, _Run] = {}
        self._lock = Lock()
        self._lanes = {
            lane: ThreadPoolExecutor(lane.value, thread_name_prefix=lane.name.lower())
            for lane in Lane
        }

    def start(self, key: str, work: Callable[[], None], lane: Lane, seen: float) -> bool:
        """Start ``work`` unless it is under way, has to pause, or ended after ``seen``; tell whether it was started.

        ``seen`` is when (monotonic) the look at the chain began that asks for it: an action that ended later may well
        have done what this look still misses.
        """
        now = self._now()
        with self._lock:
            run = self._runs.get(key)
            if run is not None and (run.busy or now < run.next_at or seen <= run.ended):
                return False
            self._runs[key] = _Run(failures=run.failures if run else 0)
            self._prune(now)
        self._lanes[lane].submit(self._guarded, key, work)
        return True

    def close(self) -> None:
        """Drop what waits, and wait for what runs."""
        for executor in self._lanes.values():
            executor.shutdown(wait=True, cancel_futures=True)

    def _guarded(self, key: str, work: Callable[[], None]) -> None:
        failed = True
        try:
            work()
            failed = False
        except (ChainError, ClusterError, PoolError, OSError) as error:
            _log.warning("%s: %s", key, error)
        except Exception:  # noqa: BLE001 - logged, and tried again: the daemon goes on
            if not self._stop.is_set():  # a client or database that was closed under it
                _log.exception("bug in %s", key)
        finally:
            self._end(key, failed=failed)

    def _end(self, key: str, *, failed: bool) -> None:
        with self._lock:
            run = self._runs[key]
            run.failures = run.failures + 1 if failed else 0
            doubled = RETRY_SECONDS * 2 ** min(run.failures - 1, 8)
            pause = min(doubled, RETRY_SECONDS_MAX) if failed else PAUSE_SECONDS
            run.busy, run.ended = False, self._now()
            run.next_at = run.ended + pause
        self._wake.set()

    def _prune(self, now: float) -> None:
        """Forget actions that nobody has asked for in a while."""
        if len(self._runs) % 256 == 0:
            old = [
                k for k, r in self._runs.items() if not r.busy and now - r.ended > FORGET_SECONDS
            ]
            for key in old:
                del self._runs[key]
