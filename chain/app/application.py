"""The replicated application behind consensus, without sockets: what each ABCI call means for state and store.

Consensus calls run under one lock and work on an overlay; only :meth:`Application.commit` writes, one atomic batch.
CheckTx runs on the mempool's overlay, queries on snapshots of the last commit; neither waits for a block.

A bug in CheckTx or a query becomes an error code, because it is one stranger's request. A bug in a block is raised:
a node that cannot compute what the others agree on must stop (the server does that), never guess.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event as Flag
from threading import Lock, RLock

from chain.app import smt
from chain.app.ahead import Ahead
from chain.app.genesis_check import check_names
from chain.app.interfaces import CommittedBlock, CommittedState, StoredTx
from chain.app.storage import Snapshot, Storage
from chain.app.stored import ChainHead
from chain.state_machine.market.book import LivingBook, book_step, version_of
from chain.state_machine.market.queries import simulate_match
from chain.state_machine.mempool import Mempool, simulate_tx
from chain.state_machine.store import Overlay, Reader
from chain.state_machine.transition import apply_block, init_chain
from domain.block import Block, BlockResult, TxResult, ValidatorUpdate
from domain.errors import Refusal
from domain.events import Event
from domain.genesis import Genesis
from domain.limits import EVENTS_LIMIT_MAX
from domain.queries import EventsResponse, SimulateMatchRequest, SimulateMatchResponse
from domain.tx import Tx
from wire.decoder import TxDecoder
from wire.keys import SignatureVerifier

log = logging.getLogger(__name__)

BLOCK_TXS_MAX = 20_000
INTERNAL = ("undefined", 1)  # codespace and code that Cosmos clients know for a bug


@dataclass(frozen=True, slots=True)
class AppConfig:
    """What a node may choose for itself; nothing here changes what a block does."""

    min_gas_price_millionths: int = 0  # its own floor for CheckTx, beside the chain's
    solo: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """Answer of InitChain: consensus powers from genesis, and the app hash of block 1's header."""

    validators: tuple[ValidatorUpdate, ...]
    app_hash: bytes


@dataclass(frozen=True, slots=True)
class Finalized:
    """Answer of FinalizeBlock."""

    txs: tuple[Tx | Refusal, ...]
    result: BlockResult
    app_hash: bytes


@dataclass(frozen=True, slots=True)
class _Base:
    """What the next block, CheckTx and queries build on: the last commit, or genesis before the first one."""

    head: ChainHead
    reader: Reader  # an overlay without changes: it keeps decoded records for all who read
    snapshot: Snapshot  # for tree nodes; behind ``reader`` as long as genesis is not committed
    uncommitted: Overlay | None  # genesis, to be written with block 1


@dataclass(frozen=True, slots=True)
class _Pending:
    """A finalized block that waits for Commit."""

    head: ChainHead
    changes: dict[bytes, bytes | None]
    nodes: dict[bytes, bytes | None]
    txs: tuple[StoredTx, ...]
    events: tuple[Event, ...]


class Application:
    """ABCI semantics over a :class:`Storage`; also the ``QueryPort`` of the query services."""

    def __init__(
        self, storage: Storage, config: AppConfig, verifier: SignatureVerifier | None = None
    ) -> None:
        """Continue from where ``storage`` stands."""
        self._storage = storage
        self._config = config
        self._decode = TxDecoder()
        self._verify = verifier or SignatureVerifier()
        self._consensus = RLock()
        self._mempool_lock = Lock()
        self._pending: _Pending | None = None
        self.started = Flag()  # set once there is a state to query
        snapshot = storage.snapshot()
        self._base = _Base(snapshot.head, Overlay(snapshot), snapshot, None)
        self._mempool = Mempool(self._base.reader, self._verify)
        self._ahead = Ahead(self._decode, self._verify)
        # A book for the auction and another one for quotes, so that blocks never wait for strangers.
        self._book, self._quoted = LivingBook(), LivingBook()
        self._quote_lock = Lock()
        if snapshot.head.block.height:
            self.started.set()

    # --- consensus -----------------------------------------------------------

    @property
    def head(self) -> ChainHead:
        """The last committed block (or genesis, at height 0)."""
        return self._base.head

    def info(self) -> ChainHead:
        """Return the head for a handshake: a commit that is under way for a connection that broke is waited for."""
        with self._consensus:
            return self._base.head

    def init_chain(self, genesis: Genesis, time_ns: int) -> Started:
        """Prepare the first state. Nothing is written, so that after a crash before block 1 it simply comes again."""
        with self._consensus:
            snapshot = self._storage.snapshot()
            if snapshot.head.block.height:
                raise RuntimeError(f"InitChain on a store at height {snapshot.head.block.height}")
            check_names(genesis)
            overlay = Overlay(snapshot)
            validators = init_chain(overlay, genesis, time_ns)
            root = smt.update(snapshot.node, overlay.changes()).root
            head = ChainHead(genesis.chain_id, CommittedBlock(0, time_ns, b"", b"", root), 1)
            self._pending = None
            self._rebase(_Base(head, overlay, snapshot, overlay))
            return Started(validators, root)

    def prepare_proposal(self, raws: Sequence[bytes], max_bytes: int) -> list[bytes]:
        """Return the transactions of a proposal: those that decode, in the mempool's order, as many as fit."""
        chosen: dict[bytes, None] = {}
        left = max_bytes
        for raw in raws[:BLOCK_TXS_MAX]:
            if raw in chosen or isinstance(self._decode(raw), Refusal):
                continue
            left -= _encoded_size(raw)
            if left < 0:
                break  # a later one might need this one's sequence
            chosen[raw] = None
        return list(chosen)

    def process_proposal(self, raws: Sequence[bytes]) -> bool:
        """Tell whether to vote for a proposal, and verify its signatures now, so that they are known in its block."""
        if len(raws) > BLOCK_TXS_MAX:
            log.warning("proposal refused: %d transactions", len(raws))
            return False
        for index, raw in enumerate(raws):
            tx = self._decode(raw)
            if isinstance(tx, Refusal):
                log.warning("proposal refused: transaction %d: %s", index, tx)
                return False
        base = self._base
        self._ahead.verify_all(base.reader, base.head.chain_id, raws)
        return True

    def finalize_block(
        self, height: int, time_ns: int, block_hash: bytes, proposer: bytes, raws: Sequence[bytes]
    ) -> Finalized:
        """Execute a decided block on an overlay and return its results and app hash; nothing is written."""
        with self._consensus:
            base = self._base
            if height != base.head.block.height + 1:
                raise RuntimeError(f"block {height} cannot follow {base.head.block.height}")
            overlay = Overlay(base.reader)
            block = Block(height, time_ns, block_hash, proposer, tuple(map(self._decode, raws)))
            result = apply_block(overlay, block, self._verify, self._book)
            if len(result.tx_results) != len(raws):
                raise RuntimeError(f"{len(result.tx_results)} results for {len(raws)} transactions")
            changes = overlay.changes()
            if base.uncommitted is not None:
                changes = {**base.uncommitted.changes(), **changes}
            tree = smt.update(base.snapshot.node, changes)
            events = _numbered(result, base.head.next_event)
            info = CommittedBlock(height, time_ns, block_hash, proposer, tree.root)
            self._pending = _Pending(
                ChainHead(base.head.chain_id, info, base.head.next_event + len(events)),
                changes,
                tree.nodes,
                _stored_txs(block, raws, result),
                events,
            )
            return Finalized(block.txs, result, tree.root)

    def commit(self) -> ChainHead:
        """Write the finalized block in one atomic batch; CheckTx and queries see it from here on."""
        with self._consensus:
            pending = self._pending
            if pending is None:
                raise RuntimeError("Commit without a finalized block")
            self._storage.commit(
                pending.head, pending.changes, pending.nodes, pending.txs, pending.events
            )
            snapshot = self._storage.snapshot()
            base = _Base(snapshot.head, Overlay(snapshot), snapshot, None)
            before, after = version_of(self._base.reader), version_of(base.reader)
            step = book_step(before, after, pending.changes)
            self._book.follow(step)
            self._quoted.follow(step)
            self._pending = None
            self._rebase(base)
            return snapshot.head

    def _rebase(self, base: _Base) -> None:
        with self._mempool_lock:
            self._base = base
            self._ahead.forget()
            self._mempool = Mempool(base.reader, self._verify)
        self.started.set()

    # --- mempool -------------------------------------------------------------

    def prefetch(self, raws: Sequence[bytes]) -> None:
        """Prepare for what :meth:`check_tx` is going to be asked next."""
        base = self._base
        self._ahead.fetch(base.reader, base.head.chain_id, raws)

    def check_tx(self, raw: bytes, recheck: bool = False) -> TxResult:
        """Tell whether the mempool may keep ``raw``; a bug is an answer, too."""
        try:
            signature_holds = self._ahead.take(raw)
            tx = self._decode(raw)
            if isinstance(tx, Refusal):
                return _refused(tx)
            with self._mempool_lock:
                return self._mempool.check_tx(
                    tx,
                    min_gas_price_millionths=self._config.min_gas_price_millionths,
                    recheck=recheck or signature_holds,
                )
        except Exception:
            log.exception("bug in CheckTx")
            return _internal_error()

    # --- queries (QueryPort) -------------------------------------------------

    @property
    def chain_id(self) -> str:
        """The chain's id; empty before InitChain."""
        return self._base.head.chain_id

    @property
    def solo(self) -> bool:
        """Whether one process makes the blocks."""
        return self._config.solo

    def view(self) -> CommittedState:
        """Return the newest committed state."""
        base = self._base
        return CommittedState(base.head.block, base.reader)

    def committed(self) -> Snapshot:
        """Return the newest commit with its tree; at height 0 it is empty."""
        return self._base.snapshot

    def block(self, height: int) -> CommittedBlock | None:
        """Return a committed block."""
        return self._storage.block(height)

    def tx_by_hash(self, tx_hash: bytes) -> StoredTx | None:
        """Return a committed transaction."""
        return self._storage.tx(tx_hash)

    def events(self, since: int, limit: int) -> EventsResponse:
        """Return numbered events of committed blocks, in order without gaps."""
        until = self._base.head.next_event
        cap = min(limit, EVENTS_LIMIT_MAX) if limit > 0 else EVENTS_LIMIT_MAX
        return EventsResponse(self._storage.events(since, until, cap), until)

    def simulate_match(self, request: SimulateMatchRequest) -> SimulateMatchResponse:
        """Return what an order would match in the newest committed state."""
        with self._quote_lock:
            return simulate_match(self._base.reader, request, self._quoted)

    def simulate(self, tx: Tx) -> TxResult:
        """Run ``tx`` on a throw-away overlay of the committed state."""
        return simulate_tx(self._base.reader, tx)


def _refused(refusal: Refusal) -> TxResult:
    return TxResult(refusal.code.number, refusal.code.space, str(refusal), 0, 0, ())


def _internal_error() -> TxResult:
    space, code = INTERNAL
    return TxResult(code, space, "internal error; the node's log has it", 0, 0, ())


def _encoded_size(raw: bytes) -> int:
    """Return what a transaction adds to a block: a tag, its length as a varint, its bytes."""
    return 1 + max(1, (len(raw).bit_length() + 6) // 7) + len(raw)


def _numbered(result: BlockResult, first: int) -> tuple[Event, ...]:
    """Return the events of the gap-free sequence; a gap is a bug, because daemons rely on seeing every one."""
    events = [event for event in result.events if event.number]
    for tx_result in result.tx_results:
        events += [event for event in tx_result.events if event.number]
    events.sort(key=lambda event: event.number)
    numbers = [event.number for event in events]
    if numbers != list(range(first, first + len(events))):
        raise RuntimeError(f"events {numbers} do not continue from {first}")
    return tuple(events)


def _stored_txs(block: Block, raws: Sequence[bytes], result: BlockResult) -> tuple[StoredTx, ...]:
    return tuple(
        StoredTx(tx.hash, block.height, index, block.time_ns, raw, tx_result)
        for index, (tx, raw, tx_result) in enumerate(
            zip(block.txs, raws, result.tx_results, strict=True)
        )
        if isinstance(tx, Tx)
    )
