"""The interfaces between a node and its query services and gRPC server, and the names of the software.

``Application`` (or the solo engine) provides a :class:`QueryPort`. CometBFT or the solo engine provides a
:class:`Broadcaster`. The services use only these two interfaces, so all services can run against a state in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, Protocol

from chain.app.tree_page import Page
from chain.state_machine.rules import Rulebook
from chain.state_machine.store import Reader
from domain.block import BroadcastResult, TxResult
from domain.errors import Code
from domain.market.queries import SimulateMatchRequest, SimulateMatchResponse
from domain.node.queries import EventsRequest, EventsResponse
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
class ChainHead:
    """The head of a store, written in the same batch as the state that it describes."""

    chain_id: str
    block: CommittedBlock
    next_event: int


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


class ProvableState(Protocol):
    """A committed state whose keys and values can be proven against its app hash."""

    @property
    def head(self) -> ChainHead:
        """The head of the store at the commit."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key of the state, or None."""

    def page(self, prefix: str) -> Page | None:
        """Return a page of the state's Merkle tree by its prefix, or None."""


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

    @property
    def oldest_height(self) -> int:
        """The lowest height whose state :meth:`view` returns."""

    def view(self, height: int = 0) -> CommittedState:
        """Return the committed state at a height (0: the newest); it does not change while the caller holds it.

        Raise a Refusal for a height whose state the node does not have. It has those of the last few blocks.
        """

    def committed(self, height: int = 0) -> ProvableState:
        """Return the committed state at a height (0: the newest) for proofs; raise a Refusal as :meth:`view` does."""

    def block(self, height: int) -> CommittedBlock | None:
        """Return a committed block; None if the node does not know it, or no longer has it."""

    def block_txs(self, height: int) -> tuple[bytes, ...] | None:
        """Return the hashes of a committed block's transactions in order; None if the node does not know them."""

    def tx_by_hash(self, tx_hash: bytes) -> StoredTx | None:
        """Return a committed transaction by its hash, or None if there is none."""

    def events(self, request: EventsRequest) -> EventsResponse:
        """Return numbered events of committed blocks that fit a request; one call looks at a bounded number."""

    def wait_for_block(self, height: int, seconds: float) -> None:
        """Wait until a block above ``height`` is committed, at most ``seconds``."""

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


@dataclass(frozen=True, slots=True)
class WholeBlock:
    """A block as ``tendermint.types.Block``, and its ``BlockID``."""

    id: Any
    block: Any


@dataclass(frozen=True, slots=True)
class VotingValidator:
    """A member of the validator set of a height, with its power in the consensus."""

    address: bytes
    pub_key: bytes  # ed25519
    power: int
    priority: int = 0  # in the choice of the next proposer


@dataclass(frozen=True, slots=True)
class NodeAbout:
    """A node's identity as ``tendermint.p2p.DefaultNodeInfo``; ``is_syncing`` while it fetches old blocks."""

    node_info: Any
    is_syncing: bool


class BlockReader(Protocol):
    """The reader of what the maker of blocks keeps: whole blocks, validator sets, an index of transactions.

    Any thread may call. Every method raises Refusal(UNREACHABLE) if the maker of blocks does not answer in time.
    """

    def block(self, height: int) -> WholeBlock | None:
        """Return a committed block, or None if it is no longer there."""

    def validators(self, height: int) -> Sequence[VotingValidator]:
        """Return the validator set of a height, in the order of its votes."""

    def search_txs(self, query: str, page: int, limit: int, newest_first: bool) -> tuple[list[bytes], int]:
        """Return the hashes of one page (from 1 on) of the transactions that fit a query, and the number of all."""

    def about(self) -> NodeAbout:
        """Return the node's identity."""


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
