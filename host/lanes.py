"""Actions by key on threads: each once at a time, never from an outdated look, after a failure only after a pause.

A daemon looks at the world again and again and asks for every action whose outcome is still missing. Lanes make that
safe: what is under way is not started twice, what ended after the look began is not started because of that look, and
what fails is tried again after a pause that doubles.
"""

import logging
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Lock
from typing import Generic, TypeVar

_log = logging.getLogger("assay.lanes")
PAUSE_SECONDS = 0.2
RETRY_SECONDS = 2.0
RETRY_SECONDS_MAX = 8.0
FORGET_SECONDS = 300.0

Lane = TypeVar("Lane", bound=Hashable)
Work = Callable[[], float | None]
"""What an action does. It may return the seconds after which it makes sense to ask for it again."""


@dataclass(slots=True)
class _Run:
    busy: bool = True
    ended: float = 0.0
    next_at: float = 0.0
    failures: int = 0


class Lanes(Generic[Lane]):
    """Threads for actions. Only one thread starts actions; ``wake`` is set whenever one ends."""

    def __init__(
        self,
        sizes: Mapping[Lane, int],
        stop: Event,
        wake: Event,
        expected: tuple[type[Exception], ...],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make each lane with its number of threads: what waits in one of them holds up no other.

        ``expected`` are the exceptions of a world that fails; each costs a line in the log, any other one is a bug
        and is shown whole. Both are tried again: the daemon goes on. ``now`` is in seconds and only ever grows.
        """
        self._stop, self._wake, self._expected, self._now = stop, wake, expected, now
        self._runs: dict[str, _Run] = {}
        self._lock = Lock()
        self._threads = {
            lane: ThreadPoolExecutor(size, thread_name_prefix=str(lane))
            for lane, size in sizes.items()
        }

    def start(self, key: str, work: Work, lane: Lane, seen: float) -> bool:
        """Start ``work`` unless it is under way, has to pause, or ended after ``seen``; tell whether it was started.

        ``seen`` is when (by ``now``) the look began that asks for it: an action that ended later may well have done
        what this look still misses.
        """
        now = self._now()
        with self._lock:
            run = self._runs.get(key)
            if run is not None and (run.busy or now < run.next_at or seen <= run.ended):
                return False
            self._runs[key] = _Run(failures=run.failures if run else 0)
            self._prune(now)
        self._threads[lane].submit(self._guarded, key, work)
        return True

    def busy(self) -> list[str]:
        """Return the keys of what is under way or waits for a thread."""
        with self._lock:
            return [key for key, run in self._runs.items() if run.busy]

    def close(self) -> None:
        """Drop what waits, and wait for what runs."""
        for threads in self._threads.values():
            threads.shutdown(wait=True, cancel_futures=True)

    def _guarded(self, key: str, work: Work) -> None:
        failed, pause = True, None
        try:
            pause = work()
            failed = False
        except self._expected as error:
            _log.warning("%s: %s", key, error)
        except Exception:  # noqa: BLE001 - logged, and tried again: the daemon goes on
            # A client or a database that was closed under it is no bug.
            if not self._stop.is_set():
                _log.exception("bug in %s", key)
        finally:
            self._end(key, pause, failed=failed)

    def _end(self, key: str, pause: float | None, *, failed: bool) -> None:
        with self._lock:
            run = self._runs[key]
            run.failures = run.failures + 1 if failed else 0
            if failed:
                pause = min(RETRY_SECONDS * 2 ** min(run.failures - 1, 8), RETRY_SECONDS_MAX)
            run.busy, run.ended = False, self._now()
            run.next_at = run.ended + (PAUSE_SECONDS if pause is None else pause)
        self._wake.set()

    def _prune(self, now: float) -> None:
        """Forget actions that nobody has asked for in a while."""
        if len(self._runs) % 256 == 0:
            old = [
                k for k, r in self._runs.items() if not r.busy and now - r.ended > FORGET_SECONDS
            ]
            for key in old:
                del self._runs[key]
