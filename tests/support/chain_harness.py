"""The chain in memory of ``localnet/simulator``, with what tests of the state machine ask of it."""

from collections.abc import Callable
from functools import lru_cache

from chain.state_machine import store as state_store
from chain.state_machine.market.book import LivingBook
from chain.state_machine.mempool import Mempool
from chain.state_machine.queue import DEADLINES
from chain.state_machine.store import Overlay
from domain.beacon import next_beacon
from domain.block import BlockResult, TxResult
from domain.codec import decode
from domain.errors import Code
from domain.market.records import Order
from domain.messages import Message
from domain.node.params import NodeParams
from domain.proof.queries import OrderRequest
from domain.tx import Tx
from localnet.simulator.memory_chain import (
    CHAIN_ID,
    COINS,
    CRYPTO,
    GENESIS_TIME,
    PUBLIC,
    STAKE,
    UNPROVEN,
    HashCrypto,
    MemoryChain,
    beacon_key,
    check_bounds,
    cons_address,
    cons_key,
    make_genesis,
    prove,
    prove_key,
    pub_key,
    sign,
)
from localnet.simulator.rebuilt.compare import adopt

__all__ = [
    "CHAIN_ID",
    "COINS",
    "CRYPTO",
    "GENESIS_TIME",
    "PUBLIC",
    "STAKE",
    "UNPROVEN",
    "Chain",
    "HashCrypto",
    "MemoryChain",
    "beacon_key",
    "check_bounds",
    "cons_address",
    "cons_key",
    "make_genesis",
    "prove",
    "prove_key",
    "pub_key",
    "sign",
]

# Every invariant reads every record again after every block, and few have changed; records are frozen.
vars(state_store).update(decode=lru_cache(maxsize=2**16)(decode))


class Chain(MemoryChain):
    """A chain in memory, of which tests expect that a block succeeds or is refused, and whose state they break."""

    def beacon_after(self, value: bytes) -> bytes:
        """Return the beacon of the next block if its proposer reveals ``value``."""
        return next_beacon(self.beacon, value)

    def value_for(self, wanted: Callable[[bytes], bool]) -> bytes:
        """Return a value with which the next block's beacon is as ``wanted``."""
        values = map(self.value, range(1_000_000, 1_100_000))
        return next(value for value in values if wanted(self.beacon_after(value)))

    def ok(self, *items: Message | Tx, seconds: int = 1) -> BlockResult:
        """Make a block in which every transaction must succeed."""
        result = self.block(*items, seconds=seconds)
        for tx in result.tx_results:
            assert tx.code == 0, tx.log
        return result

    def refused(self, code: Code, item: Message | Tx, *, field: str = "", seconds: int = 1) -> TxResult:
        """Make a block in which the transaction must be refused with ``code``, at ``field`` if given."""
        (result,) = self.block(item, seconds=seconds).tx_results
        assert (result.codespace, result.code) == (code.space, code.number), (code.name, result.log)
        assert result.log.startswith(field), result.log
        return result

    def pass_time(self, seconds: int) -> None:
        """Make blocks until the chain clock has advanced by ``seconds``."""
        end = self.clock + seconds
        while self.clock < end:
            self.block(seconds=min(self.genesis.params.of(NodeParams).clock_step_max, end - self.clock))

    def pass_until(self, clock: int) -> None:
        """Make blocks until the chain clock is at ``clock``."""
        self.pass_time(clock - self.clock)

    def mempool(self) -> Mempool:
        return Mempool(self.store, self.crypto, self.rulebook)

    def check(self, tx: Tx, mempool: Mempool | None = None, *, recheck: bool = False) -> TxResult:
        """Check a transaction as the mempool does."""
        mempool = mempool or self.mempool()
        return mempool.check_tx(tx, min_gas_price_millionths=0, recheck=recheck)

    def change(self, edit: Callable[[Overlay], object]) -> None:
        """Change the state behind the machine's back, to break it on purpose."""
        overlay = Overlay(self.store)
        edit(overlay)
        adopt(self.books, self.overlay(), self.commit(overlay))
        # As if the node had been started with this state.
        self.book = LivingBook()

    def drop_queue(self) -> None:
        """Empty the queue of deadlines, as if no block had got round to it; invariants are off from here on."""
        self.checked = False

        def drop(overlay: Overlay) -> None:
            for key in list(overlay.scan_keys(DEADLINES.key())):
                overlay.delete(key)

        self.change(drop)

    def order(self, order_id: bytes) -> Order:
        found: Order = self.ask(OrderRequest(order_id)).order
        return found
