"""One run: a chain, everybody on it, a virtual clock and a network, all from one seed.

Real are the state machine, what validators and providers decide, and every message. Made up are tensors, which are
hashes, and signatures, as everywhere in the chain's tests.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any

from chain.app.proposals import choose
from chain.state_machine.context import HEAD, NS
from chain.state_machine.gas_price import get_gas_price
from chain.state_machine.lane import Lane
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.proof.tables import DIFFERENCES, PUBLISHED, ROUNDS, get_drawn_rounds
from chain.state_machine.registry.tables import PROVIDERS
from chain.state_machine.rules import RULEBOOK, Rulebook
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.block import Misbehaviour, MisbehaviourKind, TxResult
from domain.genesis import DENOM
from domain.keys import RoundKey, ShareKey
from domain.ledger.messages import MsgDepositBond, MsgSend
from domain.ledger.params import LedgerParams
from domain.ledger.queries import AccountRequest
from domain.ledger.records import Coin
from domain.limits import BLOCK_BYTES_MAX
from domain.market.messages import MsgPlaceBid
from domain.messages import Message
from domain.node.params import NodeParams, tx_gas_max
from domain.params import Params
from domain.proof.queries import OrderRequest, OrderResponse
from domain.proof.records import ShareClaim
from domain.registry.messages import MsgAdmitProvider, MsgCertifyProvider, MsgRegisterProvider
from domain.tx import Tx
from link.handover import Sealed
from link.types import StateRef
from localnet.simulator.actors.assembly import AssemblyActor
from localnet.simulator.actors.challenger import ChallengerActor
from localnet.simulator.actors.consumer import OrderActor, OrderPlan
from localnet.simulator.actors.delegator import DelegatorActor, get_staked
from localnet.simulator.actors.operator import OperatorActor
from localnet.simulator.actors.provider import ProviderActor, SentDelivery
from localnet.simulator.actors.sponsor import SponsorActor
from localnet.simulator.actors.validator import ValidatorActor
from localnet.simulator.behaviours import Filler, HonestChallenger, HonestProvider, HonestValidator
from localnet.simulator.chain import LiveChain
from localnet.simulator.clock import Clock
from localnet.simulator.memory_chain import GENESIS_TIME, cons_address, cons_key, make_genesis
from localnet.simulator.network import Network
from localnet.simulator.training import Job
from localnet.simulator.watch import Watch
from validator.decide.upkeep import CERTIFY_SECONDS

BOND = 10**9
"""The first bond of each party (uassay)."""
OUTSIDER = "mallory"
SPAM_GAS = tx_gas_max(NodeParams())
PROPOSE_MS = 1_000
"""How long a block is waited for that does not come."""


@dataclass(frozen=True)
class ProviderPlan:
    """A provider; ``joins`` is when its daemon starts (ms)."""

    address: str
    validator: str
    speed: int = 10**8
    behaviour: HonestProvider = field(default_factory=HonestProvider)
    joins: int = 0
    stops: int | None = None
    bond: int = BOND
    auto_bond: bool = True
    crashes: tuple[int, ...] = ()


@dataclass(frozen=True)
class ValidatorPlan:
    """A validator; ``crashes`` are moments (ms) from which on it crashes in its next look, somewhere."""

    name: str
    bid: MsgPlaceBid | None = None
    behaviour: HonestValidator = field(default_factory=HonestValidator)
    crashes: tuple[int, ...] = ()


@dataclass(frozen=True)
class ChallengerPlan:
    """A challenger: a validator or a consumer."""

    name: str
    behaviour: HonestChallenger = field(default_factory=HonestChallenger)


@dataclass(frozen=True)
class Outage:
    """Validators that are away for some time (ms). While a third of them is away, no block is made.

    If ``misses_votes``, their absence counts as that of validators: they may be jailed, and free themselves later.
    """

    at: int
    lasts: int
    names: tuple[str, ...]
    misses_votes: bool = False


@dataclass(frozen=True)
class Setup:
    """Everything that makes a run."""

    seed: int
    params: Params
    validators: tuple[ValidatorPlan, ...]
    providers: tuple[ProviderPlan, ...]
    orders: tuple[OrderPlan, ...]
    stake: int = 10**10
    coins: int = 10**12
    block_ms: tuple[int, int] = (700, 1_300)
    loss: int = 5  # of a thousand messages
    lag: int = 10  # a validator does not see the newest block so many times of a hundred
    failing: int = 2  # of a hundred proposals
    checked: bool = True
    rules: Rulebook = RULEBOOK
    spam: int = 0  # transactions of an outsider before each block, each a tenth of it
    filler: Filler | None = None
    challengers: tuple[ChallengerPlan, ...] = ()
    delegators: tuple[str, ...] = ()
    assembly: tuple[str, ...] = ()  # accounts that make proposals
    sponsors: tuple[str, ...] = ()  # accounts that pay fees of consumers
    outages: tuple[Outage, ...] = ()
    delay: int = 80  # ms, the longest of a message
    twice: int = 0  # of a thousand calls arrive a second time
    held: tuple[StateRef, ...] = ()  # states of earlier legs that every validator has


@dataclass
class Pending:
    """A transaction in the mempool."""

    messages: tuple[Message, ...]
    result: Callable[[TxResult], None]
    surely: bool = False
    in_lane: bool = False
    is_spam: bool = False


class Unending(AssertionError):
    """An order does not end."""


class World:
    """Plays a setup."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.random = Random(setup.seed)
        self.clock = Clock()
        self.network = Network(self.clock, self.random, most=setup.delay, loss=setup.loss, twice=setup.twice)
        names = tuple(plan.name for plan in setup.validators)
        consumers = sorted({plan.message.consumer for plan in setup.orders})
        members = tuple(plan.address for plan in setup.providers)
        outsiders = (OUTSIDER,) if setup.spam or setup.filler is not None else ()
        others = (*outsiders, *setup.delegators, *setup.assembly, *setup.sponsors)
        challengers = sorted({plan.name for plan in setup.challengers}.difference(consumers, names, members))
        genesis = make_genesis(
            (*consumers, *members, *others, *challengers), names, setup.params, coins=setup.coins, stake=setup.stake
        )
        self.chain = LiveChain(genesis, checked=setup.checked, rulebook=setup.rules)
        self.jobs: dict[bytes, Job] = {}
        self._replicas: dict[bytes, tuple[bytes, ...]] = {}
        self.crashes = self.refusals = 0
        self.refused: list[str] = []
        # States that validators encrypted for consumers.
        self.sealed: dict[RoundKey, list[Sealed]] = {}
        # Deliveries that providers encrypted, by the hash of the ciphertext.
        self.deliveries: dict[bytes, SentDelivery] = {}
        self._pool: list[Pending] = []
        self._orders: dict[bytes, OrderResponse] = {}
        self._turn = 0
        # Right results of rounds, by those who computed them; who trained a share; what was deposited on the way.
        self.aggregated: dict[tuple[bytes, int], set[str]] = {}
        self.trainers: dict[ShareKey, str] = {}
        self.deposits: dict[str, int] = {}
        self._told: set[RoundKey] = set()
        self.absent: set[str] = set()  # validators that an outage took away
        self.signed_twice: set[str] = set()  # validators of which a block proved that
        self._away: dict[str, int] = {}
        self.chain_clock = 0
        self.validators = {p.name: ValidatorActor(self, p.name, p.behaviour) for p in setup.validators}
        self.providers = {
            p.address: ProviderActor(self, p.address, p.validator, p.speed, p.behaviour, auto_bond=p.auto_bond)
            for p in setup.providers
        }
        self.challengers = {p.name: ChallengerActor(self, p.name, p.behaviour) for p in setup.challengers}
        self.delegators = {name: DelegatorActor(self, name) for name in setup.delegators}
        self.assembly = AssemblyActor(self, setup.assembly) if setup.assembly else None
        self.sponsors = [SponsorActor(self, name, tuple(consumers)) for name in setup.sponsors]
        missing = [name for outage in setup.outages if outage.misses_votes for name in outage.names]
        self.operators = [OperatorActor(self, name) for name in dict.fromkeys(missing)]
        self.watch = Watch(self)
        self._open()
        self.orders = [OrderActor(self, plan) for plan in setup.orders]
        self.living = len(self.orders)
        self._plan_lives()
        self._next_block()

    def _open(self) -> None:
        """Begin as a market does that has been there for a while: bonds, clusters, bids."""
        setup = self.setup
        owners = [(p.name, BOND) for p in setup.validators]
        owners += [(p.address, p.bond) for p in setup.providers if p.bond]
        bonds: list[Message] = [MsgDepositBond(name, amount) for name, amount in owners]
        here = [p for p in setup.providers if not p.joins]
        bonds += [MsgRegisterProvider(p.address, p.validator) for p in here]
        known: list[Message] = []
        for plan in here:
            known.append(MsgAdmitProvider(plan.validator, plan.address))
            known.append(_certificate(plan))
        bids = [p.bid for p in setup.validators if p.bid is not None]
        for batch in (bonds, known, bids):
            for result in self._block([Pending((message,), lambda _: None) for message in batch], self._proposer()):
                assert not result.code, result.log

    def _plan_lives(self) -> None:
        for plan in self.setup.providers:
            actor = self.providers[plan.address]
            self.clock.at(plan.joins + self.dice(500), actor.wake)
            for at in plan.crashes:
                self.clock.at(at, actor.break_down)
            if plan.stops is not None:
                self.clock.at(plan.stops, actor.leave)
        for other in self.setup.validators:
            for at in other.crashes:
                self.clock.at(at, self.validators[other.name].break_down)
        for outage in self.setup.outages:
            self.clock.at(outage.at, partial(self._begin_outage, outage))

    def _begin_outage(self, outage: Outage) -> None:
        self.absent.update(outage.names)
        for name in outage.names:
            self._away[name] = max(self._away.get(name, 0), self.clock.now + outage.lasts)
            self.validators[name].crash(outage.lasts // 1000)
        if outage.misses_votes:
            self.chain.away.update(outage.names)
            self.clock.after(outage.lasts, lambda: self.chain.away.difference_update(outage.names))

    def _is_away(self, name: str) -> bool:
        return self.clock.now < self._away.get(name, 0)

    def _is_stuck(self) -> bool:
        """Return whether too few validators are there to make blocks."""
        return bool(self._away) and 3 * sum(map(self._is_away, self._away)) >= len(self.validators)

    def add_replicas(self, plan: OrderPlan, ids: tuple[bytes, ...]) -> None:
        """Let a consumer see to the replicas of its order after the first one, each as an order of its own."""
        self._replicas.update(dict.fromkeys(ids, ids))
        for order_id in ids[1:]:
            self.jobs[order_id] = plan.job
            actor = OrderActor(self, plan, order_id)
            self.orders.append(actor)
            self.living += 1
            actor.wake(0)

    # Queries of all actors

    def dice(self, sides: int) -> int:
        return self.random.randrange(sides)

    def lags(self) -> bool:
        return self.setup.lag > 0 and self.dice(100) < self.setup.lag

    def job(self, order_id: bytes) -> Job:
        return self.jobs[order_id]

    def ask(self, request: Any) -> Any:
        """Answer a query from the last block."""
        return self.chain.ask(request)

    def order(self, order_id: bytes) -> OrderResponse:
        """Return an order with all that belongs to it, read again when something of it or its replicas has changed."""
        if order_id not in self._orders:
            self._orders[order_id] = self.chain.ask(OrderRequest(order_id))
        return self._orders[order_id]

    def worth(self, name: str) -> int:
        """Return all that a party has: balance, bond account, delegations and coins that leave them."""
        account = self.chain.ask(AccountRequest(name))
        bonds = account.bond.free + sum(w.amount for w in account.bond.withdrawals)
        return int(account.balance + bonds + get_staked(self.chain.overlay(), name))

    def waits_for(self, names: frozenset[str]) -> bool:
        """Return whether lots are to be drawn about an order of one of these validators."""
        store = self.chain.overlay()
        legs = (LEGS.must(store, key.order_id, key.leg) for key in get_drawn_rounds(store))
        return any(leg.validator in names for leg in legs)

    def registered(self, address: str, validator: str) -> bool:
        known = PROVIDERS.get(self.chain.overlay(), address)
        return known is not None and known.validator == validator

    def deposited(self, owner: str) -> int:
        """Return the deposits of a party into its bond account."""
        if owner in self.validators:
            return BOND + self.deposits.get(owner, 0)
        plan = next((p for p in self.setup.providers if p.address == owner), None)
        return (plan.bond + self.providers[owner].deposited) if plan else self.deposits.get(owner, 0)

    def trainer_of(self, key: ShareKey) -> str:
        """Return the provider that trained a share."""
        return self.trainers.get(key, "")

    def habit_of(self, claim: ShareClaim) -> str:
        """Return how a share came about."""
        return self.providers[claim.provider].habits[claim.key]

    # Blocks

    def submit(
        self,
        messages: tuple[Message, ...],
        result: Callable[[TxResult], None],
        *,
        surely: bool = False,
        in_lane: bool = False,
    ) -> None:
        """Send a transaction to a node, which has it in the next block; its result comes back, or is lost."""
        pending = Pending(messages=messages, result=result, surely=surely, in_lane=in_lane)
        self.clock.after(self.network.delay(), lambda: self._pool.append(pending))

    def flood(self, name: str, count: int) -> None:
        """Send payments of a party to itself, each as large as a transaction may be; what has no room is dropped."""
        message = MsgSend(name, name, (Coin(DENOM, 1),))
        self._pool += [Pending((message,), lambda _: None, is_spam=True)] * count

    def _next_block(self) -> None:
        delay = self.random.randint(*self.setup.block_ms)
        while True:
            proposer = self._proposer()
            fails = self.dice(100) < self.setup.failing
            fails |= self._is_away(proposer)
            if not fails and not self.validators[proposer].behaviour.withholds(self, proposer):
                break
            delay += PROPOSE_MS
        self.clock.after(delay, lambda: self._make(proposer))

    def _tell_challengers(self) -> None:
        """Let challengers hear of the rounds that the last block closed."""
        store = self.chain.overlay()
        for order_id, leg, round in self.chain.changed_in(ROUNDS):
            closed = ROUNDS.must(store, order_id, number_of(leg), number_of(round))
            if closed.key not in self._told and not (closed.void or closed.verified):
                self._told.add(closed.key)
                for challenger in self.challengers.values():
                    challenger.hear(closed.key)

    def _proposer(self) -> str:
        _, upcoming, _ = self.chain.sets
        names = [name for name in self.chain.operators if cons_key(name) in upcoming]
        self._turn += 1
        return names[self._turn % len(names)]

    def _make(self, proposer: str) -> None:
        """Make a block of what is in the pool, as far as its gas goes, and let everybody see it."""
        if self._is_stuck():
            self.clock.after(PROPOSE_MS, partial(self._make, proposer))
            return
        pool, self._pool = self._pool, []
        self._block(pool, proposer)
        if self.challengers:
            self._tell_challengers()
        for daemon in self.validators.values():
            daemon.wake(self.network.delay())
        for provider in self.providers.values():
            if provider.shares.works:
                provider.wake(self.network.delay())
        for order in self.orders:
            if order.order_id and not order.over:
                order.wake(self.network.delay())
        self._next_block()

    def _block(self, pool: list[Pending], proposer: str) -> list[TxResult]:
        """Make a block of what its proposer chooses, as a real node does; the rest waits."""
        waiting: dict[bytes, tuple[Tx, Pending]] = {}
        used: dict[str, int] = {}
        overlay = Overlay(self.chain.store)
        rules, _ = self.setup.rules.enter(overlay, self.chain.height + 1)
        lane = Lane(overlay, rules, has_bounds=False)
        for pending in (*pool, *self._spam()):
            address = _signer(pending.messages[0])
            sequence = used.get(address, self.chain.sequence(address))
            tx = self._sign(pending, sequence)
            if pending.in_lane and lane.find(tx) is None and not lane.pays(tx, False):
                # A former duty leaves a mempool at its next recheck; later ones of its sender go on.
                continue
            used[address] = sequence + 1
            waiting[tx.hash] = (tx, pending)
        chosen = choose(list(waiting), lambda raw: waiting[raw][0], overlay, rules, BLOCK_BYTES_MAX)
        txs, taken = [waiting[raw][0] for raw in chosen], [waiting.pop(raw)[1] for raw in chosen]
        self._pool = [pending for _, pending in waiting.values() if not pending.is_spam] + self._pool
        self.chain.time_ns = GENESIS_TIME + self.clock.now * (NS // 1000)
        value = b"\x02" + sha256(f"{self.setup.seed} {proposer} {self.chain.beacon.hex()}".encode()).digest()
        misbehaviours = self._misbehaviours()
        result = self.chain.block(*txs, seconds=0, proposer=proposer, value=value, misbehaviours=misbehaviours)
        first = (parts[0] for table in (PUBLISHED, DIFFERENCES) for parts in self.chain.changed_in(table))
        for order_id in (*self.chain.touched, *first):
            for name in self._replicas.get(order_id, (order_id,)):
                self._orders.pop(name, None)
        self.chain_clock = HEAD.must(Overlay(self.chain.store)).clock_ns // NS
        for pending, outcome in zip(taken, result.tx_results, strict=True):
            if outcome.code:
                self.refused.append(f"{type(pending.messages[0]).__name__}: {outcome.log}")
            if pending.surely or not self.network.lost():
                self._tell(pending, outcome)
        self.watch.after_block(result)
        return list(result.tx_results)

    def _misbehaviours(self) -> tuple[Misbehaviour, ...]:
        """Return the evidence that the next block has."""
        height = self.chain.height
        names = [
            name for name, actor in self.validators.items() if height > 1 and actor.behaviour.signs_twice(self, name)
        ]
        self.signed_twice.update(names)
        return tuple(
            Misbehaviour(
                kind=MisbehaviourKind.DUPLICATE_VOTE,
                validator=cons_address(name),
                height=height,
                time_ns=self.chain.time_ns,
                power=self.chain.sets[0].get(cons_key(name), 0),
            )
            for name in names
        )

    def _granter(self, messages: tuple[Message, ...]) -> str:
        """Return the sponsor that pays the fee of a transaction; empty if there is none."""
        signer = _signer(messages[0])
        return next((one.name for one in self.sponsors if one.pays_for(signer, messages)), "")

    def _spam(self) -> list[Pending]:
        """Return what an outsider sends to fill the next block, as long as it can pay."""
        cost = SPAM_GAS * 2 * self.gas_price // 10**6
        wanted = self.setup.filler.count(self) if self.setup.filler is not None else self.setup.spam
        if not wanted:
            return []
        count = min(wanted, self.chain.balance(OUTSIDER) // cost)
        message = MsgSend(OUTSIDER, self.setup.validators[0].name, (Coin(DENOM, 1),))
        return [Pending((message,), lambda _: None, is_spam=True)] * count

    def _sign(self, pending: Pending, sequence: int) -> Tx:
        """Return a transaction: duties offer the lowest price, others a quarter more, spam twice the gas price."""
        granter = self._granter(pending.messages)
        tx = self.chain.tx(*pending.messages, sequence=sequence, granter=granter)
        gas, price = tx.gas_limit, self.gas_price * 5 // 4
        if pending.is_spam:
            gas, price = SPAM_GAS, 2 * self.gas_price
        elif pending.in_lane:
            price = self.setup.params.of(LedgerParams).min_gas_price_millionths
        fee = -(-gas * price // 10**6)
        return self.chain.tx(*pending.messages, sequence=sequence, gas_limit=gas, fee=fee, granter=granter)

    @property
    def gas_price(self) -> int:
        """The gas price of the next block."""
        return get_gas_price(Overlay(self.chain.store))

    def _tell(self, pending: Pending, outcome: TxResult) -> None:
        self.clock.after(self.network.delay(), lambda: pending.result(outcome))

    # Running

    def run(self, limit: int = 3_600) -> None:
        """Play until every order is closed and every vote on a slash is over, at most so many seconds."""
        with _no_collector():
            while self.living or any(self.chain.has_vote(o.order_id) for o in self.orders if o.order_id):
                self.clock.step()
                if self.clock.now > 1000 * limit:
                    ids = [order.order_id.hex()[:8] for order in self.orders if not order.over]
                    raise Unending(f"orders that do not end: {', '.join(ids)}")
            self.watch.at_end()


@contextmanager
def _no_collector() -> Iterator[None]:
    """Stop the collector of cycles: records have none, and to look for some takes a sixth of a run."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _certificate(plan: ProviderPlan) -> MsgCertifyProvider:
    """Return what was measured of a provider that has been there for a while."""
    return MsgCertifyProvider(
        validator=plan.validator,
        provider=plan.address,
        device_class="cpu",
        speed=plan.speed,
        memory=10**9,
        bandwidth=10**8,
        valid_for=CERTIFY_SECONDS,
    )


def _signer(message: Message) -> str:
    return str(getattr(message, message.SIGNER))
