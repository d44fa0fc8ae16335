"""The time that a node takes to check a complaint about a handed-over chunk, and what the complaint costs its sender.

The chunk has the largest size, and both trees have about as many chunks as a job may have. The handler runs on real
records with real keys. Times are process time, the best of several runs.
"""

from collections.abc import Callable
from hashlib import sha256
from time import process_time

from benchmarks.figures import Figures, Row
from chain.state_machine.context import BlockInfo, Context
from chain.state_machine.gas import gas_of
from chain.state_machine.ledger.tables import TALLIES, Tally
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.handlers import complain
from chain.state_machine.proof.tables import ROUNDS
from chain.state_machine.rules import RULES
from chain.state_machine.store import MemoryStore, Overlay
from domain.errors import BAD_PROOF, Refusal
from domain.genesis import DENOM
from domain.hashing import root_from_path
from domain.keys import ShareRef
from domain.ledger.params import LedgerParams
from domain.ledger.records import Coin
from domain.legs.records import Leg, LegState
from domain.limits import STATE_CHUNK_BYTES
from domain.market.records import Conditions, JobTerms, Order, OrderState
from domain.params import Params
from domain.proof.messages import MsgComplain
from domain.proof.records import OpenedChunk, Round
from link.handover import Sealed, prove_chunk, public_point, seal_chunk
from pol.rules.commitment import chunk_leaf
from pol.rules.handover import HandoverId, chunk_statement, sealed_leaf
from wire import cipher, dleq
from wire.crypto import WireCrypto
from wire.keys import Key
from wire.tx import build_tx, decode_tx

NAME = "complaint"
GOAL = 0.002
"""Longest time for a complaint in seconds."""
TIMES, RUNS = 7, 50
"""Number of measurements, of which the best counts, and of runs in each."""
_CHAIN, _ORDER = "assay-local-1", b"\x05" * 32
_CONSUMER, _VALIDATOR = Key(b"\x01" * 32), Key(b"\x02" * 32)
_ORDER_SECRET, _SECRET = b"\x03" * 32, b"\x04" * 32
_CHUNKS = 2**31
"""Number of chunks of the global state, so that paths are as long as they get."""
_NUMBER = _CHUNKS - 2
_HANDOVER = HandoverId(chain_id=_CHAIN, order_id=_ORDER, leg=1, round=0)
_CHUNK = bytes(range(256)) * (STATE_CHUNK_BYTES // 256)
_HASH = bytes(32)


def run() -> Figures:
    """Measure the parts of the check, the whole check of a proven and of a false complaint, and the sender's cost."""
    right = seal_chunk(_HANDOVER, _NUMBER, _CHUNK, public_point(_ORDER_SECRET), _SECRET)
    noise = Sealed(right.point, bytes(len(right.ciphertext)))
    proven, false = _Case(noise), _Case(right)
    opened = proven.opened
    statement = chunk_statement(_HANDOVER, _NUMBER, sealed_leaf(_HANDOVER, _NUMBER, noise.leaf))
    proof = (public_point(_ORDER_SECRET), noise.point, opened.shared, opened.proof, statement)
    key = sha256(b"key").digest()
    ciphertext = cipher.encrypt(key, _CHUNK)
    gas = gas_of(decode_tx(proven.transaction))
    rows = [
        Row("the proof of S_i (BIP-374)", _measure(lambda: dleq.verify(*proof)) * 1e3, "ms"),
        Row("decryption of a chunk", _measure(lambda: cipher.decrypt(key, ciphertext)) * 1e3, "ms"),
        _row("a complaint that is proven", proven, proves=True),
        _row("a complaint about a right chunk", false, proves=False),
        Row("size of the transaction", len(proven.transaction), "bytes"),
        Row("gas of the transaction", gas, "gas"),
        Row("least fee of the transaction", _fee(gas), DENOM),
    ]
    slow = [row.case for row in rows if row.goal is not None and (row.ratio or 0) > row.goal]
    notes = [f"{case}: the check takes more than {GOAL * 1e3:g} ms" for case in slow]
    return Figures(name=NAME, rows=rows, notes=notes)


class _Case:
    """A chain with one order that handed over ``sealed``, and the complaint about it."""

    def __init__(self, sealed: Sealed) -> None:
        siblings = tuple(sha256(b"sibling %d" % at).digest() for at in range(40))
        leaf = sealed_leaf(_HANDOVER, _NUMBER, sealed.leaf)
        state_leaf = chunk_leaf(_CHUNK)
        shared, proof = prove_chunk(_HANDOVER, _NUMBER, sealed.leaf, _ORDER_SECRET, bytes(32))
        path, ciphertext_root = _grow(leaf, _CHUNKS + 1, siblings)
        state_path, root = _grow(state_leaf, _CHUNKS, siblings)
        self.opened = OpenedChunk(
            ciphertext=sealed.ciphertext, shared=shared, proof=proof, state_leaf=state_leaf, path=state_path
        )
        self.message = MsgComplain(
            consumer=_CONSUMER.address,
            order_id=_ORDER,
            leg=1,
            round=0,
            chunk=_NUMBER,
            leaf=sealed.leaf,
            path=path,
            opened=self.opened,
        )
        store = Overlay(MemoryStore())
        ORDERS.put(store, _order())
        LEGS.put(store, _leg())
        ROUNDS.put(store, _round(root, ciphertext_root))
        TALLIES.put(store, Tally(_ORDER))
        info = BlockInfo(
            chain_id=_CHAIN,
            denom=DENOM,
            height=9,
            clock=9,
            params=Params(),
            previous_hash=_HASH,
            previous_beacon=_HASH,
        )
        self.ctx = Context(store=store, block=info, crypto=WireCrypto(), rules=RULES, next_event=1)

    def proves(self) -> bool:
        """Check the complaint, and return whether it is proven."""
        try:
            complain.check_state(self.ctx, self.message)
        except Refusal as refusal:
            if refusal.code is not BAD_PROOF or refusal.field != "opened.ciphertext":
                raise
            return False
        return True

    @property
    def transaction(self) -> bytes:
        """The signed transaction with the complaint."""
        raw: bytes = build_tx(
            [self.message],
            _CONSUMER,
            chain_id=_CHAIN,
            account_number=1,
            sequence=1,
            fee=(Coin(DENOM, 1),),
            gas_limit=2_000_000,
        )
        return raw


def _grow(leaf: bytes, count: int, siblings: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], bytes]:
    """Return a path of the leaf in a tree of ``count`` leaves, and the root."""
    for length in range(len(siblings)):
        root = root_from_path(leaf, _NUMBER, count, siblings[:length])
        if root is not None:
            return siblings[:length], root
    raise ValueError(f"a tree of {count} leaves is too high")


def _order() -> Order:
    terms = JobTerms(
        job_id=_HASH,
        payload_bytes=1,
        data_bytes=1,
        global_root=_HASH,
        local_root=_HASH,
        data_root=_HASH,
        rounds=1,
        slots=1,
        round_steps=1,
        batch=1,
        segment_steps=1,
        step_work=1,
        outer_work=1,
        global_bytes=1,
        local_bytes=1,
        update_bytes=1,
        global_chunks=_CHUNKS,
        local_chunks=1,
        executor_version=1,
    )
    return Order(
        id=_ORDER,
        consumer=_CONSUMER.address,
        order_key=public_point(_ORDER_SECRET),
        terms=terms,
        conditions=Conditions(),
        price_limit=1,
        time_to_live=1,
        deadline=100,
        rematch=False,
        state=OrderState.PROVEN,
        legs=1,
        failures=0,
        opened_at=0,
        opened_height=0,
        expires_at=0,
        excluded=(),
        close_reason=0,
        unmatched=(),
        work_verified=0,
        params=Params().for_order(),
    )


def _leg() -> Leg:
    return Leg(
        order_id=_ORDER,
        number=1,
        bid_id=_HASH,
        validator=_VALIDATOR.address,
        price=1,
        tier="exact",
        first_round=0,
        rounds=1,
        first_slot=0,
        slots=1,
        work=1,
        job_bond=1,
        providers_bps=0,
        slot_speed=1,
        slots_at_once=1,
        state=LegState.PROVEN,
        end_reason=0,
        matched_at=0,
        accept_deadline=0,
        progress_deadline=0,
        round=1,
        verified=1,
        void=0,
        initial_root=_HASH,
        global_in=_HASH,
        settles_at=0,
    )


def _round(root: bytes, ciphertext_root: bytes) -> Round:
    return Round(
        order_id=_ORDER,
        leg=1,
        round=0,
        global_in=_HASH,
        next_root=root,
        ciphertext_root=ciphertext_root,
        shares=(ShareRef(0, 1),),
        work=1,
        closed_at=0,
        closed_height=0,
        window_ends=0,
        verified=True,
        void=False,
    )


def _row(case: str, complaint: _Case, *, proves: bool) -> Row:
    if complaint.proves() is not proves:
        raise RuntimeError(f"{case}: the check decides otherwise")
    return Row(case, _measure(complaint.proves) * 1e3, "ms", baseline=GOAL * 1e3, goal=1.0)


def _measure(act: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    best = float("inf")
    for _ in range(TIMES):
        start = process_time()
        for _ in range(RUNS):
            act()
        best = min(best, (process_time() - start) / RUNS)
    return best


def _fee(gas: int) -> int:
    """Return the least fee (uassay) for an amount of gas at the genesis price."""
    return -(-gas * Params().of(LedgerParams).min_gas_price_millionths // 10**6)
