"""What the console knows: the index of what happened, and what the node said last."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Condition
from typing import Final

from console.index.writing import EventIndex
from domain.market.records import Bid
from domain.node.params import NodeParams
from domain.node.queries import StatusResponse
from domain.params import Params
from domain.registry.records import Provider, Validator

BLOCKS_SHOWN: Final = 120
"""The newest blocks, of which all is known."""


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """What the node said last."""

    address: str = ""
    status: StatusResponse | None = None
    params: Params | None = None
    validators: tuple[Validator, ...] = ()
    providers: tuple[Provider, ...] = ()
    bids: tuple[Bid, ...] = ()
    # All coins (uassay), 0 where the node does not tell.
    supply: int = 0
    # Transactions that wait, None where nobody can be asked.
    mempool: int | None = None
    # Whether its CometBFT says that it fetches old blocks.
    catching_up: bool = False
    # Whether an endpoint takes connections.
    alive: tuple[tuple[str, bool], ...] = ()
    # Why the node does not answer, empty while it does.
    away: str = ""
    # Seconds since the epoch by this machine's clock, when it answered last.
    seen_at: float = 0.0
    # The next number that the index needs, and the one that the chain gives next.
    next_event: int = 1

    @property
    def block_age(self) -> float:
        """Seconds since the last block, by this machine's clock; 0 where that is not known."""
        return max(0.0, time.time() - self.status.time_ns / 1e9) if self.status else 0.0

    @property
    def clock(self) -> int:
        """The chain clock now, as far as that can be told: it goes on between blocks."""
        if self.status is None:
            return 0
        passed = max(0.0, time.time() - self.status.time_ns / 1e9) if not self.away else 0.0
        return min(self.status.clock + int(passed), self.clock_most)

    @property
    def clock_most(self) -> int:
        """What the chain clock is at most with the next block: while a chain stands still, no deadline passes."""
        if self.status is None:
            return 0
        return self.status.clock + (self.params.of(NodeParams).clock_step_max if self.params else 0)


class NodeState:
    """The index and the snapshot, for one thread that writes and many that read."""

    def __init__(self, index: EventIndex) -> None:
        """Begin with what the index has, and no word of a node."""
        self.index = index
        self._snapshot = NodeSnapshot(next_event=index.next)
        self._changed = Condition()
        self._listeners: list[Callable[[], None]] = []

    @property
    def snapshot(self) -> NodeSnapshot:
        """What is known now."""
        return self._snapshot

    def listen(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called, in the thread that writes, whenever there is something new."""
        self._listeners.append(listener)

    def show(self, **changes: object) -> None:
        """Change fields of the snapshot, with the index as it is now, and tell who listens."""
        changes = {"next_event": self.index.next, **changes}
        with self._changed:
            self._snapshot = replace(self._snapshot, **changes)  # type: ignore[arg-type]
            self._changed.notify_all()
        for listener in self._listeners:
            listener()

    def wait_until(self, condition: Callable[[NodeSnapshot], bool], seconds: float) -> bool:
        """Wait until what is known satisfies a condition; False where it takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self._snapshot), seconds)
