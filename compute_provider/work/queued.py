"""A sandboxed worker of this machine that gets several shares at once, and trains one after another.

A provider whose machines are elsewhere trains the legs in hardware arithmetic with it: a share in this arithmetic
should come from one kind of machine, and a cluster moves shares between its nodes.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from compute_provider.work.trainer import Listen, SandboxedTrainer
from compute_provider.work.worker import ENDS, WorkOrder
from domain.keys import ShareKey


class QueuedTrainer:
    """A :class:`SandboxedTrainer` with a queue. Call its methods on the daemon's main thread only."""

    def __init__(self, listen: Listen, home: Path) -> None:
        """Train as :class:`SandboxedTrainer` does, with the worker's log and folders in ``home``."""
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._listen = listen
        self._trainer = SandboxedTrainer(self._hear, home)
        # Held only for moments: the worker's thread needs it, and ending a worker waits for this thread.
        self._lock = Lock()
        self._current: ShareKey | None = None
        self._waiting: dict[ShareKey, tuple[WorkOrder, tuple[str, ...]]] = {}

    def start(self, key: ShareKey, order: WorkOrder, program: Sequence[str]) -> None:
        """Train a share when those before it have ended, unless it is being trained or waits already."""
        with self._lock:
            if key != self._current:
                self._waiting.setdefault(key, (order, tuple(program)))
        self._go_on()

    def stop(self, key: ShareKey) -> None:
        """End the training of this share, or forget it if it waits."""
        with self._lock:
            self._waiting.pop(key, None)
        self._trainer.stop(key)
        self._ended(key)

    def tend(self, orders: Collection[bytes]) -> None:
        """Begin with the next share, and end a worker that has waited too long."""
        self._go_on()
        self._trainer.tend(orders)

    def close(self) -> None:
        """End the worker, and forget all shares."""
        with self._lock:
            self._waiting.clear()
        self._trainer.close()

    def pids(self) -> list[int]:
        """Return the process ids of the workers that run."""
        return self._trainer.pids()

    def _go_on(self) -> None:
        with self._lock:
            if self._current is not None or not self._waiting:
                return
            key = next(iter(self._waiting))
            order, program = self._waiting.pop(key)
            self._current = key
        try:
            self._trainer.start(key, order, program)
        except OSError:
            self._ended(key)
            raise

    def _ended(self, key: ShareKey) -> None:
        with self._lock:
            if self._current == key:
                self._current = None

    def _hear(self, key: ShareKey, message: dict[str, Any]) -> None:
        if ENDS & message.keys():
            self._ended(key)
        self._listen(key, message)
