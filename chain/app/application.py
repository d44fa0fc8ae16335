"""The replicated application behind consensus, without sockets: the effect of each ABCI call on state and store.

Consensus calls run under one lock and work on an overlay. Only :meth:`Application.commit` writes, as one atomic batch.
CheckTx runs on the mempool's overlay, and queries run on snapshots of the last commit; neither waits for a block.

A bug in CheckTx or in a query becomes an error code, because it affects one request only. A bug in a block is raised,
and the server then stops the node: a node that cannot compute the same result as the other nodes must not guess.
"""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Condition, Lock, RLock
from threading import Event as Flag

from chain.app import smt
from chain.app.ahead import Ahead
from chain.app.beacon_keys import BeaconKeys
from chain.app.event_search import EventSearch
from chain.app.evidence_rules import EvidenceRules, evidence_rules
from chain.app.homes import check_names
from chain.app.interfaces import BlockWatcher, ChainHead, CommittedBlock, CommittedState, StoredTx
from chain.app.proposals import BlockRoom, choose, encoded_size
from chain.app.storage import Storage, StoreSnapshot
from chain.app.turns import TurnQueue
from chain.state_machine.context import PARAMS, NodeMemory
from chain.state_machine.market.book import LivingBook, book_step, version_of
from chain.state_machine.market.queries import simulate_match
from chain.state_machine.mempool import Mempool, simulate_tx
from chain.state_machine.registry.beacon import RevealDuty, get_reveal_duty
from chain.state_machine.rules import RULEBOOK, Rulebook, Rules
from chain.state_machine.store import Overlay, Reader
from chain.state_machine.transition import apply_block, init_chain
from domain.beacon import Reveal
from domain.block import Block, BlockResult, Misbehaviour, TxResult, ValidatorUpdate, Vote
from domain.errors import INVALID_REQUEST, Refusal
from domain.events import Event
from domain.genesis import Genesis
from domain.limits import BLOCK_BYTES_MAX, EVENTS_LIMIT_MAX
from domain.market.queries import SimulateMatchRequest, SimulateMatchResponse
from domain.node.queries import EventsRequest, EventsResponse
from domain.tx import Tx
from wire.crypto import WireCrypto
from wire.keys import SignatureVerifier
from wire.reveal import decode_reveal, encode_reveal
from wire.tx import TxDecoder

log = logging.getLogger(__name__)

HEIGHTS_KEPT = 16
"""Number of blocks whose states queries can read; a client reads several lists at one height."""
INTERNAL = ("undefined", 1)  # codespace and code by which Cosmos clients recognize a bug


@dataclass(frozen=True, slots=True)
class AppConfig:
    """A node's own settings. None of them changes the result of a block."""

    # The node's own minimum gas price for CheckTx, in addition to the chain's minimum.
    min_gas_price_millionths: int = 0
    solo: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """The answer to InitChain: the consensus powers from the genesis, and the app hash for the header of block 1."""

    validators: tuple[ValidatorUpdate, ...]
    app_hash: bytes


@dataclass(frozen=True, slots=True)
class Finalized:
    """The answer to FinalizeBlock."""

    items: tuple[Reveal | Tx | Refusal, ...]
    result: BlockResult
    app_hash: bytes
    evidence: EvidenceRules | None  # if the block changed them


@dataclass(frozen=True, slots=True)
class _Uncommitted:
    """The state of genesis and its tree, which are written together with block 1."""

    changes: dict[bytes, bytes | None]
    tree: smt.TreeUpdate


@dataclass(frozen=True, slots=True)
class _Base:
    """The state that the next block, CheckTx and queries start from: the last commit, or genesis if there is none."""

    head: ChainHead
    reader: Reader  # an overlay without changes, which caches decoded records for all readers
    snapshot: StoreSnapshot  # Until genesis is committed, it is older than ``reader``.
    uncommitted: _Uncommitted | None  # None after block 1.
    next: "_Next | None"  # None before InitChain.


@dataclass(frozen=True, slots=True)
class _Next:
    """The start of the next block: its rules, and the state converted to them. Proposals and votes read it."""

    rules: Rules
    store: Overlay


@dataclass(frozen=True, slots=True)
class _Pending:
    """A finalized block, which the next Commit writes."""

    head: ChainHead
    changes: dict[bytes, bytes | None]
    tree: smt.TreeUpdate
    txs: tuple[StoredTx, ...]
    events: tuple[Event, ...]


class Application:
    """ABCI semantics over a :class:`Storage`; also the ``QueryPort`` of the query services."""

    def __init__(
        self,
        storage: Storage,
        config: AppConfig,
        verifier: SignatureVerifier | None = None,
        beacon_keys: BeaconKeys | None = None,
        watcher: BlockWatcher | None = None,
        rulebook: Rulebook = RULEBOOK,
    ) -> None:
        """Continue from the last commit of ``storage``. A validator without its beacon key cannot make valid proposals.

        Raises RulesMissing if ``rulebook`` lacks the rules of the next block.
        """
        self._rulebook = rulebook
        self._watcher = watcher or BlockWatcher()
        self._storage = storage
        self._config = config
        self._decode = TxDecoder()
        self._verify = SignatureVerifier() if verifier is None else verifier
        self._crypto = WireCrypto(self._verify)
        self._beacon_keys = beacon_keys or BeaconKeys()
        self._consensus = RLock()
        self._mempool_lock = Lock()
        self._pending: _Pending | None = None
        self.started = Flag()  # set once there is a state to query
        snapshot = storage.snapshot()
        self._base = self._make_base(snapshot.head, Overlay(snapshot), snapshot)
        self._mempool = Mempool(self._base.reader, self._crypto, rulebook)
        self._ahead = Ahead(self._decode, self._verify)
        # The auction and quotes have a book each, so that blocks never wait for strangers' quotes.
        self._book = LivingBook()
        self._quoted = LivingBook()
        self._quote_lock = Lock()
        self._simulations = TurnQueue()
        self._searches = TurnQueue(callers=2, what="searches of the event log")
        # The last commits, the newest last; queries may ask for the state at their heights.
        self._recent: deque[StoreSnapshot] = deque([snapshot], HEIGHTS_KEPT)
        self._advanced = Condition()
        if snapshot.head.block.height:
            self.started.set()
            self._warn_of_missing_rules()

    # --- consensus -----------------------------------------------------------

    @property
    def head(self) -> ChainHead:
        """The last committed block (or genesis, at height 0)."""
        return self._base.head

    def info(self) -> ChainHead:
        """Return the head for a handshake. If a commit of a broken connection is still running, wait until it ends."""
        with self._consensus:
            return self._base.head

    def init_chain(self, genesis: Genesis, time_ns: int) -> Started:
        """Prepare the first state. Nothing is written, so after a crash before block 1 the call can be repeated."""
        with self._consensus:
            snapshot = self._storage.snapshot()
            if snapshot.head.block.height:
                height = snapshot.head.block.height
                raise RuntimeError(f"CometBFT called InitChain, but the store is already at height {height}")
            check_names(genesis)
            overlay = Overlay(snapshot)
            validators = init_chain(overlay, genesis, time_ns, self._rulebook)
            changes = overlay.changes()
            tree = smt.update(self._storage.page, changes)
            head = ChainHead(
                genesis.chain_id,
                CommittedBlock(height=0, time_ns=time_ns, hash=b"", proposer=b"", app_hash=tree.root),
                1,
            )
            self._pending = None
            self._rebase(self._make_base(head, overlay, snapshot, _Uncommitted(changes, tree)))
            self._warn_of_missing_rules()
            return Started(validators, tree.root)

    def can_propose(self, proposer: bytes) -> bool:
        """Return whether this node can make the reveal that the next block needs if ``proposer`` proposes it.

        The answer is also True if that block needs no reveal.
        """
        duty = self._reveal_duty(proposer)
        return duty is None or self._beacon_keys.holds(duty.pub_key)

    def prepare_proposal(self, raws: Sequence[bytes], max_bytes: int, height: int, proposer: bytes) -> list[bytes]:
        """Return a proposal: its proposer's reveal, then transactions in the order of :mod:`chain.app.proposals`.

        If no valid proposal is possible, it is empty, and the log has the reason.
        """
        if height != self.head.block.height + 1:
            log.error("no proposal for block %d: the last block is %d", height, self.head.block.height)
            return []
        bytes_left = min(max_bytes, BLOCK_BYTES_MAX)
        first: list[bytes] = []
        duty = self._reveal_duty(proposer)
        if duty is not None:
            proof = self._beacon_keys.prove(duty.pub_key, duty.message)
            if proof is None:
                log.error(
                    "this node lacks the beacon key %s of %s, so other nodes refuse its proposals;"
                    " restore the key from a copy, or revoke it",
                    duty.pub_key.hex(),
                    duty.operator,
                )
                return []
            first = [encode_reveal(proof)]
            if encoded_size(first[0]) > bytes_left:
                log.error("no proposal: its reveal does not fit into %d bytes", bytes_left)
                return []
            bytes_left -= encoded_size(first[0])
        upcoming = self._next()
        return [*first, *choose(raws, self._decode, upcoming.store, upcoming.rules, bytes_left)]

    def process_proposal(self, raws: Sequence[bytes], height: int, proposer: bytes) -> bool:
        """Return whether to vote for a proposal. Its signatures are verified now, so that its block is executed faster.

        Nothing is executed. The cost of a block is bounded by the gas that its transactions declare. The check ends at
        the first transaction that the block must not have. The order of transactions is not checked, because the
        proposer chooses it.
        """
        if height != self.head.block.height + 1:
            log.warning("proposal for block %d refused: the last block is %d", height, self.head.block.height)
            return False
        duty = self._reveal_duty(proposer)
        bytes_left = BLOCK_BYTES_MAX
        if duty is not None:
            reveal = decode_reveal(raws[0]) if raws else None
            if reveal is None or not self._crypto.reveal(duty.pub_key, duty.message, reveal.proof):
                log.warning("proposal refused: it does not begin with the reveal of %s", duty.operator)
                return False
            bytes_left -= encoded_size(raws[0])
            raws = raws[1:]
        upcoming = self._next()
        room = BlockRoom(upcoming.store, upcoming.rules, bytes_left)
        for index, raw in enumerate(raws):
            tx = self._decode(raw)
            problem = str(tx) if isinstance(tx, Refusal) else room.find_problem(raw, tx)
            if isinstance(tx, Refusal) or problem:
                log.warning("proposal refused: transaction %d: %s", index, problem)
                return False
            room.take(raw, tx)
        base = self._base
        self._ahead.verify_all(base.reader, base.head.chain_id, raws)
        return True

    def _reveal_duty(self, proposer: bytes) -> RevealDuty | None:
        base = self._base
        return get_reveal_duty(self._next().store, proposer, base.head.block.height + 1)

    def _next(self) -> _Next:
        upcoming = self._base.next
        if upcoming is None:
            raise RuntimeError("CometBFT sent a block before InitChain")
        return upcoming

    def finalize_block(
        self,
        height: int,
        time_ns: int,
        block_hash: bytes,
        proposer: bytes,
        raws: Sequence[bytes],
        *,
        votes: tuple[Vote, ...] = (),
        misbehaviours: tuple[Misbehaviour, ...] = (),
    ) -> Finalized:
        """Execute a decided block on an overlay, and return its results and app hash; nothing is written.

        ``votes`` are those for the previous block.
        """
        with self._consensus:
            base = self._base
            if height != base.head.block.height + 1:
                raise RuntimeError(f"block {height} cannot follow {base.head.block.height}")
            overlay = Overlay(base.reader)
            reveal = decode_reveal(raws[0]) if raws else None
            txs = tuple(map(self._decode, raws if reveal is None else raws[1:]))
            block = Block(
                height=height,
                time_ns=time_ns,
                hash=block_hash,
                proposer=proposer,
                txs=txs,
                reveal=reveal,
                votes=votes,
                misbehaviours=misbehaviours,
            )
            result = apply_block(overlay, block, self._crypto, NodeMemory(self._book), self._rulebook)
            if len(result.tx_results) != len(raws):
                raise RuntimeError(f"{len(result.tx_results)} results for {len(raws)} transactions")
            changes = overlay.changes()
            if base.uncommitted is None:
                tree = smt.update(self._storage.page, changes)
            else:
                tree = smt.update_again(self._storage.page, base.uncommitted.tree, changes)
                changes = {**base.uncommitted.changes, **changes}
            events = _numbered(result, base.head.next_event)
            info = CommittedBlock(
                height=height,
                time_ns=time_ns,
                hash=block_hash,
                proposer=proposer,
                app_hash=tree.root,
            )
            self._pending = _Pending(
                head=ChainHead(base.head.chain_id, info, base.head.next_event + len(events)),
                changes=changes,
                tree=tree,
                txs=_stored_txs(block, raws, result),
                events=events,
            )
            before, after = (evidence_rules(PARAMS.get(store)) for store in (Overlay(base.reader), overlay))
            return Finalized(
                items=_items(block),
                result=result,
                app_hash=tree.root,
                evidence=after if after != before else None,
            )

    def commit(self) -> ChainHead:
        """Write the finalized block as one atomic batch; afterwards CheckTx and queries see it."""
        with self._consensus:
            pending = self._pending
            if pending is None:
                raise RuntimeError("CometBFT called Commit, but no block is finalized")
            self._storage.commit(pending.head, pending.changes, pending.tree, pending.txs, pending.events)
            snapshot = self._storage.snapshot()
            base = self._make_base(snapshot.head, Overlay(snapshot), snapshot)
            before, after = version_of(self._base.reader), version_of(base.reader)
            step = book_step(before, after, pending.changes)
            self._book.follow(step)
            self._quoted.follow(step)
            self._pending = None
            last = self._base.head.block
            self._rebase(base)
            self._recent.append(snapshot)
            with self._advanced:
                self._advanced.notify_all()
            self._watcher.committed(last, base.head.block, [tx.result for tx in pending.txs])
            return snapshot.head

    def _make_base(
        self,
        head: ChainHead,
        reader: Overlay,
        snapshot: StoreSnapshot,
        uncommitted: _Uncommitted | None = None,
    ) -> _Base:
        """Return the base of the next block; raise RulesMissing if this software lacks the rules of that block."""
        upcoming = None
        if head.block.height or uncommitted is not None:
            store = Overlay(reader)
            rules, _ = self._rulebook.enter(store, head.block.height + 1)
            upcoming = _Next(rules, store)
        return _Base(head=head, reader=reader, snapshot=snapshot, uncommitted=uncommitted, next=upcoming)

    def _warn_of_missing_rules(self) -> None:
        base = self._base
        missing = self._rulebook.get_missing(Overlay(base.reader), base.head.block.height + 1)
        if missing is not None:
            log.warning("this node will have to stop: %s", missing)

    def _rebase(self, base: _Base) -> None:
        with self._mempool_lock:
            self._base = base
            self._ahead.forget()
            self._mempool = Mempool(base.reader, self._crypto, self._rulebook)
        self.started.set()

    # --- mempool -------------------------------------------------------------

    def prefetch(self, raws: Sequence[bytes]) -> None:
        """Decode and verify transactions in advance.

        The next calls of :meth:`check_tx` are expected to be about these transactions.
        """
        base = self._base
        self._ahead.fetch(base.reader, base.head.chain_id, raws)

    def check_tx(self, raw: bytes, recheck: bool = False) -> TxResult:
        """Return the result of checking whether the mempool may keep ``raw``.

        A bug in the check becomes an error code too.
        """
        result = self._check_tx(raw, recheck)
        self._watcher.checked(result, recheck=recheck)
        return result

    def _check_tx(self, raw: bytes, recheck: bool) -> TxResult:
        try:
            known = self._ahead.take(raw)
            tx = self._decode(raw) if known is None else known
            if isinstance(tx, Refusal):
                return _refused(tx)
            with self._mempool_lock:
                return self._mempool.check_tx(
                    tx,
                    min_gas_price_millionths=self._config.min_gas_price_millionths,
                    recheck=recheck,
                    check_signature=known is None,
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
    def rulebook(self) -> Rulebook:
        """The versions of the rules that this node has."""
        return self._rulebook

    @property
    def solo(self) -> bool:
        """True if one process makes the blocks."""
        return self._config.solo

    @property
    def oldest_height(self) -> int:
        """The lowest height whose state :meth:`view` returns."""
        return self._recent[0].head.block.height

    def view(self, height: int = 0) -> CommittedState:
        """Return the committed state at a height (0: the newest), with the block that made it.

        Raise a Refusal for a height whose state is not there.
        """
        base = self._base
        if height in (0, base.head.block.height):
            return CommittedState(base.head.block, base.reader)
        snapshot = self.committed(height)
        return CommittedState(snapshot.head.block, Overlay(snapshot))

    def committed(self, height: int = 0) -> StoreSnapshot:
        """Return a commit with its tree (0: the newest), which is empty at height 0; raise a Refusal as above."""
        base = self._base
        if height in (0, base.head.block.height):
            return base.snapshot
        for snapshot in tuple(self._recent):
            if snapshot.head.block.height == height:
                return snapshot
        newest = base.head.block.height
        remedy = f"use 0 or the newest height, {newest}; the states of {HEIGHTS_KEPT} blocks are kept"
        raise Refusal(INVALID_REQUEST, "height", f"{height} is not available", remedy)

    def block(self, height: int) -> CommittedBlock | None:
        """Return a committed block, or None."""
        block = self._storage.block(height)
        return block if block is not None and self._is_seen(block.height) else None

    def tx_by_hash(self, tx_hash: bytes) -> StoredTx | None:
        """Return a committed transaction by its hash.

        The result is None if queries do not see its block yet, or it does not exist.
        """
        tx = self._storage.tx(tx_hash)
        return tx if tx is not None and self._is_seen(tx.height) else None

    def _is_seen(self, height: int) -> bool:
        """Return whether queries already see the block at a height.

        The store has a block a moment before queries see it.
        """
        return height <= self._base.head.block.height

    def block_txs(self, height: int) -> tuple[bytes, ...] | None:
        """Return the hashes of a committed block's transactions in order, or None if they are not known."""
        return self._storage.block_txs(height) if self.block(height) is not None else None

    def events(self, request: EventsRequest) -> EventsResponse:
        """Return numbered events of committed blocks, in order; without conditions, there are no gaps."""
        until = self._base.head.next_event
        limit = request.limit
        cap = min(limit, EVENTS_LIMIT_MAX) if limit > 0 else EVENTS_LIMIT_MAX
        search = EventSearch.of(request)
        if search is None:
            events = self._storage.events(request.since, until, cap)
            first = max(request.since, 1)
            return EventsResponse(events, until, events[-1].number + 1 if events else min(first, until))
        with self._searches.turn():
            return search.run(self._storage.event_rows, until, cap)

    def wait_for_block(self, height: int, seconds: float) -> None:
        """Wait until a block above ``height`` is committed, at most ``seconds``."""
        with self._advanced:
            self._advanced.wait_for(lambda: self._base.head.block.height > height, max(seconds, 0.0))

    def simulate_match(self, request: SimulateMatchRequest) -> SimulateMatchResponse:
        """Return the bids that an order would match in the newest committed state."""
        with self._quote_lock:
            return simulate_match(self._base.reader, request, self._quoted)

    def simulate(self, tx: Tx) -> TxResult:
        """Return the result of ``tx`` on a throw-away overlay of the committed state.

        A simulation can keep one core busy for as long as a transaction may run. So only one simulation runs at a time,
        and a few others may wait for it. Raise a Refusal if too many wait already.
        """
        with self._simulations.turn():
            return simulate_tx(self._base.reader, tx, self._crypto, self._rulebook)


def _refused(refusal: Refusal) -> TxResult:
    return TxResult(
        code=refusal.code.number,
        codespace=refusal.code.space,
        log=str(refusal),
        gas_wanted=0,
        gas_used=0,
        events=(),
    )


def _internal_error() -> TxResult:
    space, code = INTERNAL
    return TxResult(
        code=code,
        codespace=space,
        log="internal error; the node's log has the details",
        gas_wanted=0,
        gas_used=0,
        events=(),
    )


def _numbered(result: BlockResult, first: int) -> tuple[Event, ...]:
    """Return the numbered events of a block; ``first`` is the number that they must start with.

    A gap in the numbers is a bug, because daemons rely on seeing every event.
    """
    events = [event for event in result.events if event.number]
    for tx_result in result.tx_results:
        events += [event for event in tx_result.events if event.number]
    events.sort(key=lambda event: event.number)
    numbers = [event.number for event in events]
    if numbers != list(range(first, first + len(events))):
        raise RuntimeError(f"events {numbers} do not continue from {first}")
    return tuple(events)


def _items(block: Block) -> tuple[Reveal | Tx | Refusal, ...]:
    """Return the items of a block in their order: the reveal, if there is one, and the transactions."""
    return block.txs if block.reveal is None else (block.reveal, *block.txs)


def _stored_txs(block: Block, raws: Sequence[bytes], result: BlockResult) -> tuple[StoredTx, ...]:
    return tuple(
        StoredTx(
            hash=item.hash,
            height=block.height,
            index=index,
            time_ns=block.time_ns,
            raw=raw,
            result=tx_result,
        )
        for index, (item, raw, tx_result) in enumerate(zip(_items(block), raws, result.tx_results, strict=True))
        if not isinstance(item, Refusal)
    )
