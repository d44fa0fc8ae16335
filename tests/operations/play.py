"""Blocks of random operations in a market: whatever anybody sends, each invariant holds after each block.

The market's people train, audit and complain as in the random worlds of the state machine's tests, so that orders come
far, and send what an order's life allows (:mod:`tests.operations.life`). Beside that, everybody sends messages of every
kind: some are right, most are nearly right. Transactions are bent, too. Validators stay away and sign twice.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from random import Random
from typing import Any

from chain.state_machine.ledger.tables import POTS, TALLIES
from chain.state_machine.rules import RULES
from chain.state_machine.store import Overlay
from chain.state_machine.transition import check_stateless
from domain.beacon import possession_sign_bytes
from domain.block import Misbehaviour, MisbehaviourKind, TxResult
from domain.errors import TX_DECODE, Refusal
from domain.ledger.messages import MsgWithdrawBond
from domain.legs.messages import MsgDeclineOrder, MsgStopOrder
from domain.legs.records import Leg
from domain.market.messages import MsgCancelOrder, MsgChangeBid, MsgSubmitOrder, MsgWithdrawBid
from domain.market.queries import OrdersRequest
from domain.market.records import ChallengeTerms, OrderState
from domain.messages import Message, signer_of
from domain.registry.messages import (
    MsgDismissProvider,
    MsgLeaveCluster,
    MsgPromiseAudits,
    MsgRegisterProvider,
    MsgRevokeBeaconKey,
    MsgSetBeaconKey,
)
from domain.staking.messages import MsgBeginRedelegate, MsgUndelegate
from domain.tx import Tx
from pol.rules.tiers.exact import EXACT
from pol.rules.tiers.replicated import REPLICATED
from tests.operations.governance import executed
from tests.operations.life import DELIVERED, Life, LifeMarket
from tests.support.chain_harness import CHAIN_ID, check_bounds, cons_address, cons_key, pub_key, sign
from tests.support.chain_market import Trace, bid
from tests.support.operations import Operations
from tests.unit.chain.state_machine.test_random_worlds import World

QUIET_SECONDS = 20_000
"""Within so long after the last operation, every order ends."""
SHORT = {
    "unbonding_time": 20,
    "voting_period": 10,
    "max_deposit_period": 15,
    "beacon_delay": 2,
    "signed_blocks_window": 10,
    "downtime_jail_duration": 5,
}
"""Parameters with which within a hundred blocks stake is paid, proposals are decided, and jails end."""
AUDITED = {"auditors": 2, "due_gas": 30_000_000, "round_window": 40, "audit_room_bps": 5_000, "stage_base": 12}
"""Parameters with which panels decide rounds in time, if seats are there."""
LAWLESS = 4
"""In each such seed, parameters and diligence are as random as in other worlds. In the others, orders come far."""
CALM_WHIMS = 0.01
"""Part of the steps of legs that end them early in calm seeds."""
CALM_NOISE = 0.1
"""Part of the hand-overs with a wrong chunk in calm seeds. Consumers complain about most of them."""
CALM_ERRORS = 0.02
"""Part of the places that panels find wrong in calm seeds, so that rulings are appealed. In these seeds all train
rightly and stay, and only strangers send random messages in the first half of the blocks. So orders come far.
"""
STRANGERS = ("eve", "frank")
"""People that are not in the genesis."""
LEAVING = (
    MsgBeginRedelegate,
    MsgCancelOrder,
    MsgChangeBid,
    MsgDeclineOrder,
    MsgDismissProvider,
    MsgLeaveCluster,
    MsgPromiseAudits,
    MsgRegisterProvider,
    MsgRevokeBeaconKey,
    MsgSetBeaconKey,
    MsgStopOrder,
    MsgUndelegate,
    MsgWithdrawBid,
    MsgWithdrawBond,
)
"""Messages that leave the market or end an order."""
PROMISE = 10**12
"""FLOP/s and bytes/s that a validator promises again from time to time."""
TIERS = (EXACT.name, REPLICATED.name)
"""Tiers of the bids that come beside the first ones."""
REPLICATED_PART = 0.4
"""Part of the orders that have replicas."""
MIXED = 0.2
"""Part of the blocks in which random messages come before those of orders."""
BENDS = 0.06
"""Part of the transactions that are wrong as transactions."""


@dataclass
class Played:
    """The operations of a seed that were done and refused, by kind of message; with those of proposals."""

    seed: int
    blocks: int = 0
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    digests: list[bytes] = field(default_factory=list)  # of each block's results and changes


class BusyWorld(World):
    """A market in which everybody also sends what comes to mind."""

    MARKET = LifeMarket
    SIZES = (4, 6, 6, 8)  # with two, no order could have the auditors of AUDITED
    market: LifeMarket

    def __init__(self, seed: int, operations: int) -> None:
        super().__init__(seed, **SHORT, **({} if seed % LAWLESS == 0 else AUDITED))
        self.dice = Random(f"{seed}/operations")
        self.life = Life(self.market, self.consumers, Random(f"{seed}/life"))
        people = (*self.people(), *self.consumers, *STRANGERS)
        self.operations = Operations(self.dice, people, [pub_key(name) for name in people])
        self.count = operations
        self.changes: list[tuple[bytes, bytes | None]] = []
        commit = self.chain.commit

        def note(overlay: Overlay) -> Iterable[bytes]:
            self.changes = list(overlay.changes().items())
            return commit(overlay)

        self.chain.commit = note  # type: ignore[method-assign]
        if seed % LAWLESS:
            self.diligence = self.presence = 0.9
        if seed % 2:
            self.life.is_calm = True
            self.lies = self.faults = 0.0
            self.errors, self.whims, self.noise = CALM_ERRORS, CALM_WHIMS, CALM_NOISE
        self.restless = self.dice.choice((0.01, 0.05, 1.0))
        self.absence = self.dice.choice((0.0, 0.03))
        if self.life.is_calm:
            self.restless, self.absence = 0.01, 0.0
        self.played = Played(seed)

    def blocks(self, count: int) -> Iterator[None]:
        """Make blocks, one each time that the next one is asked for."""
        for number in range(count):
            overlay = self.chain.overlay()
            self.operations.look(overlay, self.chain.time_ns)
            messages = [*self.legs(), *self.audits(), *self.moods(), *self.complaints(), *self.taken_early()]
            if number < count * 2 // 3 and self.chance(0.3):
                messages.append(self.some_order())
            if self.dice.random() < 0.2:
                messages.append(bid(self.dice.choice(self.market.validators), capacity=10**12, tiers=TIERS))
            # Random promises are mostly so low that no order could be audited in time.
            messages.append(MsgPromiseAudits(self.dice.choice(self.market.validators), PROMISE, PROMISE))
            messages += self.life.messages()
            self.dice.shuffle(messages)
            is_quiet = self.life.is_calm and number < count // 2
            messages += [self._operation(is_quiet=is_quiet) for _ in range(self.count)]
            # A random message that is refused before it uses its sequence keeps its sender's later ones out of a block.
            if self.dice.random() < MIXED:
                self.dice.shuffle(messages)
            self._change_presence()
            result = self.chain.block(
                *(txs := self._txs(messages)),
                seconds=self.dice.choice((0, 1, 1, 2, 2, 7)),
                proposer=self._proposer(),
                misbehaviours=self._misbehaviours(),
            )
            self._count(txs, result.tx_results)
            self.played.digests.append(sha256(repr((result, self.changes)).encode()).digest())
            yield

    def some_order(self) -> Message:
        """Return an order. Rounds of half of the orders wait for challenges, some of them of everybody. Most deadlines
        leave time for all stages of a panel. Some orders have replicas.
        """
        order, dice = super().some_order(), self.life.dice
        assert isinstance(order, MsgSubmitOrder)
        wait, anyone = dice.choice((0, 0, 5, 20)), dice.random() < 0.2
        deadline = dice.choice((order.deadline, 600, 1_200))
        order = replace(order, challenges=ChallengeTerms(anyone=anyone, wait=wait), deadline=deadline)
        if dice.random() >= REPLICATED_PART:
            return order
        conditions = replace(order.conditions, tiers=(REPLICATED.name,))
        return replace(order, conditions=conditions, replicas=dice.choice((2, 2, 3)))

    def next_step(self, order_id: bytes, leg: Leg) -> Message | None:
        """Return the next message of a leg's validator; None if it is a person that has become a validator."""
        if leg.validator not in self.market.clusters:
            return None
        return self.life.stop(leg) if self.life.is_failing(leg) else super().next_step(order_id, leg)

    def new_trace(self, order_id: bytes, slot: int) -> Trace:
        """Return a share of a slot, which often has a content that can be delivered."""
        if self.life.dice.random() >= DELIVERED:
            return super().new_trace(order_id, slot)
        cluster = self.market.clusters[self.market.leg(order_id).validator]
        return self.life.trace(order_id, slot, self.life.dice.choice(cluster))

    def _count(self, txs: Sequence[Tx | Refusal], results: Sequence[TxResult]) -> None:
        self.played.blocks += 1
        for tx, found in zip(txs, results, strict=True):
            for message in () if isinstance(tx, Refusal) else tx.messages:
                name = type(message).__name__
                if found.code:
                    self.played.refused[name] += 1
                    self.played.codes[f"{found.codespace}/{found.code}"] += 1
                else:
                    self.played.done[name] += 1

    def _operation(self, *, is_quiet: bool) -> Message:
        """Return a message of a random person, or of a stranger if the market ``is_quiet``. In most worlds, people in
        the market rarely leave it.
        """
        if is_quiet:
            message: Any = self.operations.message()
            stranger = self.dice.choice(STRANGERS)
            return self._proven(replace(message, **{message.SIGNER: stranger}))
        while True:
            message = self.operations.message()
            is_outside = signer_of(message) in STRANGERS
            if is_outside or not isinstance(message, LEAVING) or self.dice.random() < self.restless:
                return self._proven(message)

    # --- transactions ---

    def _proven(self, message: Message) -> Message:
        """Return a message with the proof that its key's owner would make."""
        if isinstance(message, MsgSetBeaconKey) and self.dice.random() < 0.8:
            document = possession_sign_bytes(CHAIN_ID, message.operator, message.beacon_key)
            return replace(message, key_proof=sign(message.beacon_key, document))
        return message

    def _txs(self, messages: Sequence[Message]) -> list[Tx | Refusal]:
        """Make transactions, with the sequences that their signers will have."""
        used: dict[str, int] = {}
        txs: list[Tx | Refusal] = []
        waiting: dict[str, list[Message]] = {}
        for message in messages:
            name = signer_of(message)
            waiting.setdefault(name, []).append(message)
            if self.dice.random() < 0.1 and len(waiting[name]) < 3:
                continue  # it comes with the next one of this signer
            several = tuple(waiting.pop(name))
            at = used.get(name, self.chain.sequence(name))
            if self.dice.random() < BENDS:
                txs.append(self._bent(several, at))
                continue
            tx = self.chain.tx(*several, sequence=at)
            txs.append(tx)
            used[name] = at + _uses_sequence(tx)
        return txs

    def _bent(self, messages: tuple[Message, ...], at: int) -> Tx | Refusal:
        """Return a transaction that is wrong in one way, or bytes that are none."""
        dice = self.dice
        match dice.randrange(9):
            case 0:
                return self.chain.tx(*messages, sequence=at + 1)
            case 1:
                return self.chain.tx(*messages, sequence=at, fee=0)
            case 2:
                return self.chain.tx(*messages, sequence=at, gas_limit=dice.choice((1, 2**40)))
            case 3:
                return self.chain.tx(*messages, sequence=at, timeout_height=1)
            case 4:
                return self.chain.tx(*messages, sequence=at, granter=dice.choice(self.operations.people))
            case 5:
                return self.chain.tx(*messages, sequence=at, size=2**24)
            case 6:
                return self.chain.tx(*messages, sequence=at, memo="m" * 5_000)
            case 7:
                tx = self.chain.tx(*messages, sequence=at)
                (signer,) = tx.signers
                return replace(tx, signers=(replace(signer, signature=bytes(64)),))
        return Refusal(TX_DECODE, "tx", "is not a transaction", "send another one")

    # --- validators ---

    def _change_presence(self) -> None:
        for name in self.market.validators:
            if self.dice.random() < self.absence:
                self.chain.away ^= {name}

    def _proposer(self) -> str:
        """Return one of the validator set; the genesis's validators alone make blocks here."""
        _, upcoming, _ = self.chain.sets
        able = [name for name in self.market.validators if cons_key(name) in upcoming]
        return self.dice.choice(able or list(self.market.validators))

    def _misbehaviours(self) -> tuple[Misbehaviour, ...]:
        if self.chain.height < 2 or self.dice.random() >= self.absence:
            return ()
        name = self.dice.choice(self.market.validators)
        height = self.dice.randrange(1, self.chain.height + 1)
        address, kind = cons_address(name), self.dice.choice(list(MisbehaviourKind))
        return (Misbehaviour(kind, address, height, self.chain.time_ns, self.dice.choice((0, 5, 10_000))),)

    # --- the end ---

    def end(self) -> Played:
        """Nobody does anything any more: every order ends and holds nothing."""
        chain = self.chain
        chain.check_books()
        until = chain.clock + QUIET_SECONDS
        while any(order.state is not OrderState.CLOSED for order in chain.ask(OrdersRequest("", "", 0, 0, b"")).orders):
            chain.block(seconds=5, proposer=self._proposer())
            assert chain.clock < until, "an order does not end"
        check_bounds(chain.store)
        overlay = chain.overlay()
        assert all(tally.held == 0 for tally in TALLIES.scan(overlay))
        assert POTS.get(overlay, "escrows") == POTS.get(overlay, "audits") == 0
        chain.check_books()
        numbers = [event.number for event in chain.events]
        assert numbers == list(range(1, len(numbers) + 1))
        self.played.events.update(event.type for event in chain.events)
        for name, is_done in executed(chain.events):
            (self.played.done if is_done else self.played.refused)[name] += 1
        return self.played


def _uses_sequence(tx: Tx) -> bool:
    """Return whether the transaction comes as far as to use its sequence."""
    try:
        check_stateless(RULES, tx)
    except Refusal:
        return False
    return True


def play(seed: int, blocks: int, operations: int) -> Played:
    """Play a seed to its end."""
    world = BusyWorld(seed, operations)
    for _ in world.blocks(blocks):
        pass
    return world.end()
