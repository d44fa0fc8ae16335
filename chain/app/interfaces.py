"""The interfaces between a node and its query services and gRPC server, and the names of the software.

``Application`` (or the solo engine) provides a :class:`QueryPort`. CometBFT or the solo engine provides a
:class:`Broadcaster`. The services use only these two interfaces, so all services can run against a state in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final, Protocol

from chain.state_machine.rules import Rulebook
from chain.state_machine.store import Reader
from domain.block import BroadcastResult, TxResult
from domain.errors import Code
from domain.market.queries import SimulateMatchRequest, SimulateMatchResponse
from domain.node.queries import EventsResponse
from domain.tx import Tx


@dataclass(frozen=True, slots=True)
class CommittedBlock:
    """The data that the application has about a committed block."""

    height: int
    time_ns: int
    hash: bytes
    proposer: bytes  # consensus address, 20 bytes
    app_hash: bytes  # app hash after this block


@dataclass(frozen=True, slots=True)
class CommittedState:
    """The state after a commit; ``reader`` and ``head`` are of the same commit.

    Before the first block, ``head`` has height 0.
    """

    head: CommittedBlock
    reader: Reader


@dataclass(frozen=True, slots=True)
class StoredTx:
    """A transaction of a committed block, with its result."""

    hash: bytes
    height: int
    index: int
    time_ns: int  # time of its block
    raw: bytes
    result: TxResult


UNREACHABLE: Final = Code("node", 1, "unreachable")
"""The broadcaster's code for a missing answer: it is unknown whether the mempool has the transaction."""


class QueryPort(Protocol):
    """The reading methods of a node, for its query services. Any thread may call them, and none waits for consensus."""

    @property
    def chain_id(self) -> str:
        """The chain's id; empty before InitChain."""

    @property
    def solo(self) -> bool:
        """True if one process makes the blocks."""

    @property
    def rulebook(self) -> Rulebook:
        """The versions of the rules that this node has."""

    def view(self) -> CommittedState:
        """Return the newest committed state; it does not change while the caller holds it."""

    def block(self, height: int) -> CommittedBlock | None:
        """Return a committed block; None if the node does not know it, or no longer has it."""

    def tx_by_hash(self, tx_hash: bytes) -> StoredTx | None:
        """Return a committed transaction by its hash, or None if there is none."""

    def events(self, since: int, limit: int) -> EventsResponse:
        """Return at most ``limit`` numbered events of committed blocks, from number ``since`` on."""

    def simulate_match(self, request: SimulateMatchRequest) -> SimulateMatchResponse:
        """Return the bids that an order would match in the newest committed state; one call runs at a time."""

    def simulate(self, tx: Tx) -> TxResult:
        """Return the result of ``tx`` on a throw-away overlay of the committed state; it ignores signature and fee."""


class Broadcaster(Protocol):
    """The sender to the mempool. Any thread may call every method."""

    def broadcast_sync(self, raw: bytes) -> BroadcastResult:
        """Send ``raw`` to the mempool, and return the result of CheckTx.

        A network failure is returned as a result too.
        """


class BlockWatcher:
    """A receiver of reports about checks and blocks of an application. This base class ignores them."""

    def checked(self, result: TxResult, *, recheck: bool) -> None:
        """Record the result of CheckTx for one transaction."""

    def committed(self, before: CommittedBlock, block: CommittedBlock, results: Sequence[TxResult]) -> None:
        """Record a committed block, the block before it, and the results of its transactions."""


SOFTWARE = "assay"
SOFTWARE_VERSION = version(SOFTWARE)
APP_VERSION = 1
"""Version of the state machine; it changes whenever the same block could lead to another state."""
