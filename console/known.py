"""The console's data: the index of events, and a snapshot of the node's last answers."""

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
"""Number of newest blocks whose times and proposers are all read."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A node of a cluster that daemons on this machine use, with the tasks that run there and those that ended.

    ``problem`` says why it computes nothing; it is empty for a node that works. ``fault`` says why its last task had to
    go to another node, for example a full disk.
    """

    name: str
    address: str
    processors: int
    memory: int
    problem: str
    tasks: tuple[str, ...]
    ended: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """The node's last answers."""

    address: str = ""
    status: StatusResponse | None = None
    params: Params | None = None
    validators: tuple[Validator, ...] = ()
    # Operators of validators that the consensus jailed.
    consensus_jailed: tuple[str, ...] = ()
    providers: tuple[Provider, ...] = ()
    bids: tuple[Bid, ...] = ()
    # All coins (uassay); 0 if the node does not report them.
    supply: int = 0
    # Transactions that wait for a block; None if CometBFT is not known or does not answer.
    mempool: int | None = None
    # True if the node's CometBFT reports that it is fetching old blocks.
    catching_up: bool = False
    # Endpoints of validators, each with True if it accepts connections.
    alive: tuple[tuple[str, bool], ...] = ()
    # Reason why the node does not answer; empty while it does.
    away: str = ""
    # Time of the node's last answer, in seconds since the epoch by this machine's clock.
    seen_at: float = 0.0
    # Nodes of the clusters of validators whose homes are on this machine.
    machines: tuple[Machine, ...] = ()
    # Number of the next event that the index needs.
    next_event: int = 1

    @property
    def block_age(self) -> float:
        """Seconds since the last block, by this machine's clock; 0 if no block is known."""
        return max(0.0, time.time() - self.status.time_ns / 1e9) if self.status else 0.0

    @property
    def clock(self) -> int:
        """An estimate of the chain clock now, which advances between blocks."""
        if self.status is None:
            return 0
        passed = max(0.0, time.time() - self.status.time_ns / 1e9) if not self.away else 0.0
        return min(self.status.clock + int(passed), self.clock_most)

    @property
    def clock_most(self) -> int:
        """The highest chain clock that the next block can have.

        ``clock`` never exceeds it, because deadlines pass only in blocks.
        """
        if self.status is None:
            return 0
        return self.status.clock + (self.params.of(NodeParams).clock_step_max if self.params else 0)


class NodeState:
    """The index and the current snapshot, for one thread that writes and many that read."""

    def __init__(self, index: EventIndex) -> None:
        """Create the state of an index, with an empty snapshot."""
        self.index = index
        self._snapshot = NodeSnapshot(next_event=index.next)
        self._changed = Condition()
        self._listeners: list[Callable[[], None]] = []

    @property
    def snapshot(self) -> NodeSnapshot:
        """The current snapshot."""
        return self._snapshot

    def listen(self, listener: Callable[[], None]) -> None:
        """Register a ``listener``, which the writing thread calls after each change."""
        self._listeners.append(listener)

    def show(self, **changes: object) -> None:
        """Change fields of the snapshot, update its ``next_event`` from the index, and call all listeners."""
        changes = {"next_event": self.index.next, **changes}
        with self._changed:
            self._snapshot = replace(self._snapshot, **changes)  # type: ignore[arg-type]
            self._changed.notify_all()
        for listener in self._listeners:
            listener()

    def wait_until(self, condition: Callable[[NodeSnapshot], bool], seconds: float) -> bool:
        """Wait until the snapshot satisfies a condition; return False if it does not within ``seconds``."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self._snapshot), seconds)
