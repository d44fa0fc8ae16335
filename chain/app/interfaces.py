"""What the query services and the gRPC server need of a node and what it calls itself, and nothing more.

``Application`` (or the solo engine) provides a :class:`QueryPort`; CometBFT or the solo engine
provides a :class:`Broadcaster`. The services know only these, so that every one of them runs
against a state in memory.
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
    """What the application knows of a committed block."""

    height: int
    time_ns: int
    hash: bytes
    proposer: bytes  # consensus address, 20 bytes
    app_hash: bytes  # after this block


@dataclass(frozen=True, slots=True)
class CommittedState:
    """The committed state at one height: ``reader`` and ``head`` belong to the same commit.

    ``head`` has height 0 before the first block.
    """

    head: CommittedBlock
    reader: Reader


@dataclass(frozen=True, slots=True)
class StoredTx:
    """A transaction of a committed block with its result."""

    hash: bytes
    height: int
    index: int
    time_ns: int  # of its block
    raw: bytes
    result: TxResult


UNREACHABLE: Final = Code("node", 1, "unreachable")
"""The broadcaster's code for "nobody said anything": the mempool may have the transaction, or not."""


class QueryPort(Protocol):
    """Reads of a node. Any thread may call every method; none waits for consensus."""

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
        """Return the newest committed state; it stays as it is while the caller holds it."""

    def block(self, height: int) -> CommittedBlock | None:
        """Return a committed block, or None where it is not known (any more)."""

    def tx_by_hash(self, tx_hash: bytes) -> StoredTx | None:
        """Return a committed transaction."""

    def events(self, since: int, limit: int) -> EventsResponse:
        """Return numbered events from ``since`` on."""

    def simulate_match(self, request: SimulateMatchRequest) -> SimulateMatchResponse:
        """Return what an order would match in the newest committed state. Asked of one at a time."""

    def simulate(self, tx: Tx) -> TxResult:
        """Run ``tx`` on a throw-away overlay of the committed state; signature and fee are not
        looked at.
        """


class Broadcaster(Protocol):
    """The way into the mempool. Every method may be called from any thread."""

    def broadcast_sync(self, raw: bytes) -> BroadcastResult:
        """Hand ``raw`` to the mempool and return what CheckTx said. Never raises for what the
        network does.
        """


class BlockWatcher:
    """Is told what an application has done, after the fact; by itself it does nothing about it."""

    def checked(self, result: TxResult, *, recheck: bool) -> None:
        """Take note of an answer to CheckTx."""

    def committed(self, before: CommittedBlock, block: CommittedBlock, results: Sequence[TxResult]) -> None:
        """Take note of a block that was written, and of what its transactions came to."""


SOFTWARE = "assay"
SOFTWARE_VERSION = version(SOFTWARE)
APP_VERSION = 1
"""Version of the state machine: it changes whenever the same block could give another state."""
