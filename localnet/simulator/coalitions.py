"""Coalitions: parties who work together against the others, and what they gain over honest work.

Each draw of a market is played twice, with everyone honest and with the coalition. A single run may gain, because lots
miss and the market goes another way; on average over draws no coalition should.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from statistics import fmean, stdev
from types import MappingProxyType

from domain.market.messages import MsgPlaceBid
from domain.market.records import Conditions
from domain.params import Params
from localnet.simulator.actors.consumer import OrderPlan
from localnet.simulator.behaviours import HonestProvider, HonestValidator, Tempted
from localnet.simulator.schemers import (
    SchemingChallenger,
    SchemingFiller,
    SchemingProvider,
    SchemingValidator,
    scheme_habits,
    scheme_job,
)
from localnet.simulator.setups import CONSUMERS, PRICE, SOLD_SECONDS, Kind, Shape, make_setup
from localnet.simulator.strategies import Mind, Role, Strategy, decisions_of
from localnet.simulator.world import OUTSIDER, ChallengerPlan, ProviderPlan, Setup, ValidatorPlan
from pol.rules.orders import least_deposit
from pol.rules.replicas import REPLICAS
from pol.rules.tiers.table import is_replicating, tier_names

SHAPE = Shape(orders=10, spread=30, providers=21)
"""All coalitions but the largest play in markets of this shape, so one honest run is enough for all of them."""
CHEAPEST, SECOND = "v0", "v1"
"""They ask less than all others, and take whatever is ordered: so coalitions around them have something to do. The
second one serves replicas of what the first one serves.
"""
SPEED = 250 * 10**6
"""FLOP/s of each of their providers."""
TEMPTED = "v0p3"
"""A stranger in that cluster that makes up shares as long as its validator lets it."""
DEVIATIONS = 1.96
"""Of the mean, to each side: an interval that holds it with 95 %."""


def roles_of(name: str) -> frozenset[Role]:
    """Return the roles of a party with this name."""
    if name == OUTSIDER:
        return frozenset((Role.FILLER,))
    if re.fullmatch(r"v\d+p\d+", name):
        return frozenset((Role.PROVIDER,))
    kind = Role.VALIDATOR if re.fullmatch(r"v\d+", name) else Role.CONSUMER
    return frozenset((kind, Role.CHALLENGER))


@dataclass(frozen=True)
class Coalition:
    """A coalition: its members, and the attacks of theirs that are known."""

    about: str
    members: tuple[str, ...]
    known: tuple[Strategy, ...]
    shape: Shape = SHAPE

    @cached_property
    def decisions(self) -> tuple[str, ...]:
        """The keys of its strategies."""
        return decisions_of({member: roles_of(member) for member in self.members})


def with_validators(setup: Setup, changed: Mapping[str, HonestValidator]) -> Setup:
    """Return a setup in which these validators behave so."""
    plans = (replace(plan, behaviour=changed.get(plan.name, plan.behaviour)) for plan in setup.validators)
    return replace(setup, validators=tuple(plans))


def with_providers(setup: Setup, changed: Mapping[str, HonestProvider]) -> Setup:
    """Return a setup in which these providers behave so."""
    plans = (replace(plan, behaviour=changed.get(plan.address, plan.behaviour)) for plan in setup.providers)
    return replace(setup, providers=tuple(plans))


def scheme(setup: Setup, coalition: Coalition, strategy: Strategy) -> Setup:
    """Return a setup in which a coalition follows a strategy."""
    friends = frozenset(coalition.members)
    minds = {name: Mind(me=name, strategy=strategy, seed=setup.seed, friends=friends) for name in coalition.members}
    setup = with_validators(setup, {n: SchemingValidator(m) for n, m in minds.items() if Role.VALIDATOR in roles_of(n)})
    setup = with_providers(setup, {n: SchemingProvider(m) for n, m in minds.items() if Role.PROVIDER in roles_of(n)})
    plans = []
    for number, plan in enumerate(setup.orders):
        mind = minds.get(plan.message.consumer)
        if mind is None:
            plans.append(plan)
            continue
        habits, job = scheme_habits(mind, number, plan.habits), scheme_job(mind, number, plan.job)
        plans.append(replace(plan, habits=habits, job=job, honest=False))
    challengers = [
        ChallengerPlan(name, SchemingChallenger(mind))
        for name, mind in minds.items()
        if Role.CHALLENGER in roles_of(name) and any("challenger" in key for key in strategy)
    ]
    filler = SchemingFiller(minds[OUTSIDER]) if OUTSIDER in minds else setup.filler
    return replace(setup, orders=tuple(plans), challengers=(*setup.challengers, *challengers), filler=filler)


COALITIONS: Mapping[str, Coalition] = MappingProxyType(
    {
        "provider and validator": Coalition(
            "a provider lies, and its validator accepts it",
            ("v0", "v0p0"),
            (
                {
                    "provider makes first": ("first", "middle", "update"),
                    "provider makes later": ("first", "middle", "update"),
                    "validator judges friends": ("accept",),
                    "seat speaks of friends": ("vouch",),
                },
                {
                    "provider makes first": ("idle",),
                    "provider makes later": ("idle",),
                    "validator judges friends": ("accept",),
                },
            ),
        ),
        "consumer and provider": Coalition(
            "a consumer delivers late, and a provider keeps an honest validator waiting",
            ("carol", "v0p0"),
            (
                {
                    "consumer delivers": ("not to the first",),
                    "provider hands in": ("late", "send", "silent"),
                    "provider delivers": ("hidden",),
                },
                {"consumer takes early": ("yes",), "provider opens to panels": ("nothing",)},
            ),
        ),
        "consumer and validator": Coalition(
            "a consumer has the result from its validator, which sees to it that rounds become void",
            ("carol", "v0"),
            (
                {"consumer takes early": ("yes",), "validator serves strangers": ("nothing",)},
                {"validator closes": ("never",)},
                {"validator goes on": ("stops",)},
                {"consumer takes early": ("yes",), "validator aggregates": ("wrong",)},
            ),
        ),
        "consumer, validator and cluster": Coalition(
            "a consumer pays its own validator and providers for work that no one does",
            ("carol", "v0", "v0p0", "v0p1", "v0p2"),
            (
                {
                    "provider makes first": ("idle",),
                    "provider makes later": ("idle",),
                    "validator judges friends": ("accept",),
                },
            ),
        ),
        "two providers": Coalition(
            "one commits and shows nothing, and the other one is given its slot",
            ("v0p0", "v0p1"),
            ({"v0p0: provider delivers": ("hidden",)}, {"v0p0: provider hands in": ("silent",)}),
        ),
        "two seats and a provider": Coalition(
            "a provider lies, and two of the seats in panels say that it is right",
            ("v1", "v2", "v0p0"),
            (
                {
                    "provider makes first": ("middle",),
                    "provider makes later": ("middle",),
                    "seat speaks of strangers": ("vouch",),
                },
                {"seat speaks of strangers": ("unavailable",)},
            ),
        ),
        "two of seven validators": Coalition(
            "one aggregates wrongly, the other one vouches for it, and both hold back blocks",
            ("v0", "v1"),
            (
                {
                    "v0: validator aggregates": ("wrong",),
                    "seat speaks of friends": ("vouch",),
                    "proposer": ("makes", "withholds while friends wait"),
                },
                {"seat speaks of strangers": ("unavailable",)},
            ),
        ),
        "the validators of all replicas": Coalition(
            "both make up the same round, so that their replicas confirm it",
            ("v0", "v1", *(f"{name}p{rank}" for name in ("v0", "v1") for rank in range(3))),
            (
                {
                    "provider makes first": ("agreed",),
                    "provider makes later": ("agreed",),
                    "validator gives work": ("friends",),
                    "validator judges friends": ("accept",),
                },
                {"validator aggregates": ("agreed",)},
            ),
        ),
        "a third of the stake": Coalition(
            about="three of nine do the same",
            members=("v0", "v1", "v2"),
            known=(
                {
                    "v0: validator aggregates": ("wrong",),
                    "seat speaks of friends": ("vouch",),
                    "proposer": ("makes", "withholds while friends wait"),
                },
                {"seat speaks of strangers": ("slander",)},
            ),
            shape=replace(SHAPE, validators=9, providers=27),
        ),
        "a validator alone": Coalition(
            "rejects every third right share",
            ("v0",),
            (
                {"validator judges strangers": ("honest", "honest", "segment")},
                {"validator judges strangers": ("silent",)},
                {"validator hands over": ("global noise",)},
            ),
        ),
        "a filler of blocks and a consumer": Coalition(
            "blocks are full while rounds of its orders wait, and the consumer takes its results early",
            (OUTSIDER, "carol"),
            ({"filler": ("always",), "consumer takes early": ("yes",)},),
        ),
        "a challenger and a provider": Coalition(
            "a provider lies, and its friend earns the reward for a challenge of it",
            ("v1", "v0p0"),
            (
                {
                    "provider makes first": ("idle",),
                    "provider makes later": ("idle",),
                    "challenger of strangers": ("looks",),
                },
                {"challenger of strangers": ("lies",)},
                {"challenger of strangers": ("opens nothing",)},
            ),
        ),
    }
)


@dataclass(frozen=True)
class Gain:
    """The gain of a coalition over honest work, in uassay a run: the mean over draws, and its interval of 95 %."""

    name: str
    runs: int
    mean: float
    low: float
    high: float
    honest: float  # what the same people earn by honest work

    @property
    def holds(self) -> bool:
        """True if it is not clear that cheating pays."""
        return self.low <= 0


GainAndIncome = tuple[int, int]
"""The gain of a coalition over honest work, and the income of its members from honest work (uassay)."""


def make_market(draw: int, shape: Shape) -> Setup:
    """Return a market in which two validators ask for a little less than the others.

    Their clusters are fast, all bids fit all orders, and two consumers order in turn, in each of the tiers: so
    coalitions have something to do.
    Everyone is honest but one provider, which lies as long as no one looks. If no stranger ever lied, it would always
    pay to accept their work unseen.
    """
    setup = make_setup(draw, Kind.HONEST, shape)
    tempted = ProviderPlan(TEMPTED, CHEAPEST, behaviour=Tempted())
    least = min(plan.bid.offer.price for plan in setup.validators if plan.bid is not None)
    prices = {CHEAPEST: least - 2, SECOND: least - 1}
    providers = tuple(
        replace(plan, speed=SPEED, joins=0) if plan.validator in prices else plan
        for plan in (*setup.providers, tempted)
    )
    counts = Counter(plan.validator for plan in providers)
    validators = tuple(replace(plan, bid=_make_bid(plan, prices, counts[plan.name])) for plan in setup.validators)
    orders = tuple(_fit(plan, number, setup.params) for number, plan in enumerate(setup.orders))
    return replace(setup, validators=validators, providers=providers, orders=orders, challengers=())


def _make_bid(plan: ValidatorPlan, prices: Mapping[str, int], slots: int) -> MsgPlaceBid | None:
    """Return the bid of a validator, which offers all tiers. Those that have a price sell whatever is ordered."""
    if plan.bid is None:
        return None
    offer = replace(plan.bid.offer, tiers=tier_names())
    if plan.name not in prices:
        return replace(plan.bid, offer=offer)
    price, sold = prices[plan.name], SOLD_SECONDS * SPEED * slots
    offer = replace(offer, price=price, regions=(), memory=10**9, min_work=0, slots=slots, slot_speed=SPEED)
    return replace(plan.bid, offer=offer, capacity=sold)


def _fit(plan: OrderPlan, number: int, used: Params) -> OrderPlan:
    """Return an order that every bid fits, in one of the tiers in turn."""
    tier = tier_names()[number % len(tier_names())]
    message = replace(
        plan.message,
        consumer=CONSUMERS[number % 2],
        conditions=Conditions(tiers=(tier,)),
        replicas=REPLICAS if is_replicating(tier) else 0,
        price_limit=2 * PRICE,
        deposit=least_deposit(plan.job.terms, 2 * PRICE, used, (tier,)),
    )
    return replace(plan, message=message, habits=replace(plan.habits, cancel_after=None))


def summarise(name: str, found: Sequence[GainAndIncome]) -> Gain:
    """Return the mean of gains with its interval."""
    values = [gain for gain, _ in found]
    half = DEVIATIONS * stdev(values) / sqrt(len(values)) if len(values) > 1 else float("inf")
    mean = fmean(values)
    return Gain(
        name=name, runs=len(values), mean=mean, low=mean - half, high=mean + half, honest=fmean(own for _, own in found)
    )
