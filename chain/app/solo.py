"""A block maker in one process over the same Application, for development, tests and simulation.

One owner makes all blocks, so there is no consensus. Proposers take turns among the registered validators whose beacon
keys the application holds. A test may choose the hash, time and proposer of each block.
"""

import logging
import time
from collections.abc import Callable
from hashlib import sha256
from threading import Condition, Event, Lock, Thread

from chain.app.application import Application, Finalized
from chain.state_machine.queries import answer
from chain.state_machine.staking.tables import get_powers
from chain.state_machine.store import Overlay
from domain.block import BroadcastResult, Vote
from domain.errors import MEMPOOL_FULL, TX_IN_CACHE, Code, Expected
from domain.genesis import Genesis
from domain.hashing import hash_fields, u64
from domain.limits import BLOCK_BYTES_MAX, MEMPOOL_TXS_MAX
from domain.registry.queries import ValidatorsRequest, ValidatorsResponse

log = logging.getLogger(__name__)

NOTICE = (
    "solo: one process makes all blocks. This is for development and tests: no other party has to agree, so a solo"
    " chain proves nothing to anyone."
)


class SoloEngine:
    """A mempool and block maker in one; it is the ``Broadcaster`` of a solo node. Any thread may call."""

    def __init__(
        self,
        app: Application,
        genesis: Genesis,
        *,
        genesis_time_ns: int = 0,
        clock: Callable[[], int] = time.time_ns,
        on_fatal: Callable[[BaseException], None] | None = None,
    ) -> None:
        """Start a new chain from ``genesis`` if the application's store is empty, else continue its chain."""
        log.warning(NOTICE)
        self._app = app
        self._clock = clock
        self._on_fatal = on_fatal
        self._mempool: dict[bytes, bytes] = {}
        self._mempool_lock = Lock()
        self._block_lock = Lock()
        self._committed = Condition()
        self._stop = Event()
        self._thread: Thread | None = None
        if app.head.block.height == 0:
            app.init_chain(genesis, genesis_time_ns or clock())
        elif app.chain_id != genesis.chain_id:
            raise ValueError(f"the store has chain {app.chain_id}, but the genesis is for chain {genesis.chain_id}")

    def broadcast_sync(self, raw: bytes) -> BroadcastResult:
        """Check the transaction ``raw`` and, if it is accepted, keep it for the next block."""
        tx_hash = sha256(raw).digest()
        with self._mempool_lock:
            if tx_hash in self._mempool:
                return _rejected(tx_hash, TX_IN_CACHE, "the mempool already has it")
            if len(self._mempool) >= MEMPOOL_TXS_MAX:
                return _rejected(tx_hash, MEMPOOL_FULL, "the mempool is full: try again later")
            result = self._app.check_tx(raw)
            if result.code == 0:
                self._mempool[tx_hash] = raw
        return BroadcastResult(hash=tx_hash, code=result.code, codespace=result.codespace, log=result.log)

    @property
    def waiting(self) -> int:
        """The number of transactions in the mempool."""
        with self._mempool_lock:
            return len(self._mempool)

    def make_block(
        self,
        *,
        hash: bytes | None = None,
        time_ns: int | None = None,
        proposer: bytes | None = None,
    ) -> Finalized:
        """Make and commit the next block.

        By default it has the clock's time, the next proposer, and the hash of its content.
        """
        with self._block_lock:
            previous = self._app.head.block
            height = previous.height + 1
            with self._mempool_lock:
                waiting = list(self._mempool.values())
            if time_ns is None:
                time_ns = max(self._clock(), previous.time_ns + 1)
            if proposer is None:
                proposer = self._next_proposer(height)
            raws = self._app.prepare_proposal(waiting, BLOCK_BYTES_MAX, height, proposer)
            if not self._app.process_proposal(raws, height, proposer):
                raise RuntimeError("the application refuses its own proposal")
            if hash is None:
                content = (u64(height), u64(time_ns), proposer, previous.hash, previous.app_hash)
                hash = hash_fields("assay/solo-block", *content, *map(_digest, raws))
            votes = self._votes() if height > 1 else ()
            finalized = self._app.finalize_block(height, time_ns, hash, proposer, raws, votes=votes)
            # As in CometBFT, no transaction is checked between commit and recheck.
            with self._mempool_lock:
                self._app.commit()
                self._drop_and_recheck(raws)
        with self._committed:
            self._committed.notify_all()
        return finalized

    def wait_for_height(self, height: int, timeout: float) -> bool:
        """Wait until block ``height`` is committed; return False if ``timeout`` seconds pass before."""
        with self._committed:
            return self._committed.wait_for(lambda: self._app.head.block.height >= height, timeout)

    def start(self, interval_seconds: float) -> None:
        """Make a block every ``interval_seconds`` in the background."""
        self._thread = Thread(target=self._run, args=(interval_seconds,), name="solo-blocks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the current block, and make no further one."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, interval_seconds: float) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            try:
                self.make_block()
            except Exception as error:
                if not isinstance(error, Expected):
                    log.exception("bug in a block: the solo chain stops")
                if self._on_fatal is not None:
                    self._on_fatal(error)
                return
            due = max(due + interval_seconds, time.monotonic())
            self._stop.wait(due - time.monotonic())

    def _drop_and_recheck(self, included: list[bytes]) -> None:
        for raw in included:
            self._mempool.pop(_digest(raw), None)
        for tx_hash, raw in list(self._mempool.items()):
            if self._app.check_tx(raw, recheck=True).code != 0:
                del self._mempool[tx_hash]

    def _votes(self) -> tuple[Vote, ...]:
        """Return a vote of each bonded validator, because the owner of all blocks agrees with itself."""
        powers = get_powers(Overlay(self._app.view().reader))
        return tuple(Vote(sha256(cons_key).digest()[:20], power, signed=True) for cons_key, power in powers)

    def _next_proposer(self, height: int) -> bytes:
        """Return the next proposer: validators take turns by address, one block each.

        A validator takes part only if the application holds its beacon key. If there is no such validator, return an
        unknown address; blocks of this address do not change the beacon.
        """
        response = answer(self._app.view().reader, ValidatorsRequest(), self._app.rulebook)
        assert isinstance(response, ValidatorsResponse)
        candidates = (v.cons_address for v in response.validators)
        active = sorted(filter(self._app.can_propose, candidates))
        return active[height % len(active)] if active else bytes(20)


def _digest(raw: bytes) -> bytes:
    return sha256(raw).digest()


def _rejected(tx_hash: bytes, code: Code, text: str) -> BroadcastResult:
    return BroadcastResult(hash=tx_hash, code=code.number, codespace=code.space, log=text)
