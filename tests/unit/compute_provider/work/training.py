"""The tiny job, trained in a worker of its own, and what the worker said."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import Any

from compute_provider.interfaces import Behaviour, Honest
from compute_provider.work.trainer import SandboxedTrainer
from compute_provider.work.worker import WorkOrder
from domain import codec
from domain.keys import ShareKey
from pol.executor.names import Engine
from pol.work.records import Boundary, RoundSlot
from tests.unit.compute_provider.support import TINY, task, terms

KEY = task(slot=1).key
PART = RoundSlot(KEY.round, KEY.slot)
SEGMENTS = 5


def order(folder: Path, **changes: Any) -> WorkOrder:
    known = terms()
    base = WorkOrder(
        job=str(TINY),
        folder=str(folder),
        global_in=str(TINY / "global.state"),
        local_in=str(TINY / "local.state"),
        global_root=known.global_root,
        local_root=known.local_root,
        round=PART.round,
        slot=PART.slot,
        engine=Engine("numpy", memory=8 << 30),
        boundaries=(),
    )
    return replace(base, **changes)


class Listener:
    """Collects what a worker says; ``react`` sees each message as it comes."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.said: list[dict[str, Any]] = []
        self.last: Queue[dict[str, Any]] = Queue()
        self.react: Callable[[dict[str, Any]], None] = lambda message: None
        self.trainer = SandboxedTrainer(self.hear, folder, **options)

    def hear(self, key: ShareKey, message: dict[str, Any]) -> None:
        self.said.append(message)
        self.react(message)
        if {"done", "stopped", "failed"} & message.keys():
            self.last.put(message)

    def run(
        self, order: WorkOrder, behaviour: Behaviour | None = None, key: ShareKey = KEY, seconds: float = 60.0
    ) -> dict[str, Any]:
        self.trainer.start(key, order, (behaviour or Honest()).worker(key))
        return self.last.get(timeout=seconds)

    def boundaries(self) -> tuple[Boundary, ...]:
        plain = [message["boundary"] for message in self.said if "boundary" in message]
        last = {each["index"]: codec.from_plain(Boundary, each) for each in plain}
        return tuple(last[index] for index in sorted(last))
