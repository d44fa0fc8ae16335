"""Small markets for scenarios: one validator is the cheapest, and all are honest unless a scenario says otherwise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from domain.market.messages import MsgPlaceBid, MsgSubmitOrder
from domain.market.records import Conditions as OrderConditions
from domain.market.records import JobTerms, Offer
from localnet.simulator.actors.consumer import OrderPlan
from localnet.simulator.behaviours import ConsumerHabits, HonestProvider, HonestValidator
from localnet.simulator.memory_chain import UNPROVEN, digest
from localnet.simulator.setups import PRICE, params
from localnet.simulator.training import ORDER_KEY, Job
from localnet.simulator.world import ProviderPlan, Setup, ValidatorPlan, World
from pol.rules.orders import least_deposit
from pol.rules.replicas import REPLICAS
from pol.rules.tiers.exact import EXACT
from pol.rules.tiers.table import is_replicating

CONSUMER = "carol"
WINNER = "v0"
"""The cheapest validator, which wins every order at first."""
SPEED = 10**8
"""FLOP/s of every provider."""
SEGMENT_WORK = 4 * 10**7


@dataclass(frozen=True)
class Market:
    """A market of a scenario: sizes, the parties that are not honest, and changes of the chain's parameters.

    ``begin`` is called when the market begins, and may let something happen later.
    """

    validators: int = 7
    providers: int = 3  # in each cluster
    orders: int = 1
    rounds: int = 3
    slots: int = 2
    segments: int = 3
    swaps: Mapping[str, Callable[[], HonestProvider | HonestValidator]] = field(default_factory=dict)
    make_job: Callable[[JobTerms], Job] = Job
    habits: ConsumerHabits = field(default_factory=ConsumerHabits)
    honest_consumer: bool = True
    params: Mapping[str, int] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)  # fields of the setup
    begin: Callable[[World], None] = lambda _: None
    tier: str = EXACT.name

    @property
    def replicas(self) -> int:
        """The number of validators that each train an order; 0 if one does."""
        return REPLICAS if is_replicating(self.tier) else 0


def make_world(market: Market, seed: int) -> World:
    """Return the world of a market, in which nothing has happened yet."""
    world = World(describe_market(market, seed))
    market.begin(world)
    return world


def describe_market(market: Market, seed: int) -> Setup:
    """Return the setup of a market's world."""
    used = params().replace(**market.params)
    names = [f"v{number}" for number in range(market.validators)]
    swaps = {name: make() for name, make in market.swaps.items()}
    validators = tuple(_validator(name, number, market, swaps) for number, name in enumerate(names))
    providers = tuple(
        _provider(f"{name}p{rank}", name, swaps.get(f"{name}p{rank}"))
        for name in names
        for rank in range(market.providers)
    )
    orders = tuple(_order(market, seed, number, used) for number in range(market.orders))
    setup = Setup(
        seed=seed,
        params=used,
        validators=validators,
        providers=providers,
        orders=orders,
        loss=0,
        lag=0,
        failing=0,
    )
    return replace(setup, **market.plan)


def _validator(
    name: str, number: int, market: Market, swaps: Mapping[str, HonestProvider | HonestValidator]
) -> ValidatorPlan:
    offer = Offer(
        price=PRICE * (80 + 5 * number) // 100,
        slot_speed=SPEED,
        slots=market.providers,
        device_class="cpu",
        memory=10**9,
        tiers=(market.tier,),
        providers_bps=7_000,
    )
    behaviour = swaps.get(name, HonestValidator())
    assert isinstance(behaviour, HonestValidator)
    return ValidatorPlan(name, MsgPlaceBid(name, offer, capacity=10**13, duration=100_000), behaviour)


def _provider(address: str, validator: str, behaviour: object) -> ProviderPlan:
    swapped = behaviour if isinstance(behaviour, HonestProvider) else HonestProvider()
    return ProviderPlan(address, validator, speed=SPEED, behaviour=swapped)


def _order(market: Market, seed: int, number: int, used: Any) -> OrderPlan:
    name = (seed, number)
    terms = JobTerms(
        job_id=digest("job", name),
        payload_bytes=500_000,
        data_bytes=100_000,
        global_root=digest("global", name),
        local_root=digest("local", name),
        data_root=digest("data", name),
        rounds=market.rounds,
        slots=market.slots,
        round_steps=2 * market.segments,
        batch=2,
        segment_steps=2,
        step_work=SEGMENT_WORK // 2,
        outer_work=1_000_000,
        global_bytes=200_000,
        local_bytes=100_000,
        update_bytes=150_000,
        global_chunks=1,
        local_chunks=2,
        executor_version=1,
    )
    limit = 2 * PRICE
    message = MsgSubmitOrder(
        consumer=CONSUMER,
        order_key=ORDER_KEY,
        key_proof=UNPROVEN,
        terms=terms,
        conditions=OrderConditions(tiers=(market.tier,)),
        price_limit=limit,
        deposit=least_deposit(terms, limit, used, (market.tier,)) + 10_000,
        time_to_live=300,
        deadline=1_500,
        rematch=True,
        replicas=market.replicas,
    )
    job = market.make_job(terms)
    return OrderPlan(
        at=200 + 300 * number, message=message, job=job, habits=market.habits, honest=market.honest_consumer
    )


def crash_for(names: Sequence[str], at: int, seconds: int) -> Callable[[World], None]:
    """Return a function that stops the daemons of some validators at a moment (ms), for some seconds."""

    def begin(world: World) -> None:
        for name in names:
            world.clock.at(at, partial(world.validators[name].crash, seconds))

    return begin
