"""Gains of parties that work together against the others: their coins, beside those of the same parties being honest.

Each seed is played twice, with everybody honest and with the coalition. A single run may gain, because lots miss and
the market goes another way; on average over seeds none should. A consumer that gets no work keeps its coins, and has
gained nothing by that: to its coins counts what it paid for verified work.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, stdev
from types import MappingProxyType

from domain.market.messages import MsgPlaceBid
from localnet.simulator.behaviours import (
    Accomplice,
    Cheat,
    ConsumerHabits,
    HonestProvider,
    HonestValidator,
    Rejecter,
)
from localnet.simulator.setups import Kind, Shape, make_setup
from localnet.simulator.world import Setup, World

SHAPE = Shape(orders=14, spread=40, providers=21)
"""All coalitions but the largest play in markets of this shape, so one honest run is enough for all of them."""
CHEAPEST = "v0"
"""Asks less than everybody else, and takes whatever is ordered: so a coalition around it has something to do."""
BOUGHT = frozenset(("provider", "validator", "auditor", "protocol"))
"""Payments for verified work."""
DEVIATIONS = 1.96
"""Of the mean, to each side: an interval that holds it with 95 %."""


@dataclass(frozen=True)
class Coalition:
    """Parties that work together, and what they do instead of being honest."""

    about: str
    members: tuple[str, ...]
    turn: Callable[[Setup], Setup]
    shape: Shape = SHAPE


def with_validators(setup: Setup, changed: Mapping[str, HonestValidator]) -> Setup:
    """Return a setup in which these validators behave so."""
    plans = (replace(plan, behaviour=changed.get(plan.name, plan.behaviour)) for plan in setup.validators)
    return replace(setup, validators=tuple(plans))


def with_providers(setup: Setup, changed: Mapping[str, HonestProvider]) -> Setup:
    """Return a setup in which these providers behave so."""
    plans = (replace(plan, behaviour=changed.get(plan.address, plan.behaviour)) for plan in setup.providers)
    return replace(setup, providers=tuple(plans))


def with_consumer(setup: Setup, consumer: str, habits: ConsumerHabits) -> Setup:
    """Return a setup in which a consumer treats its orders so."""
    plans = (
        replace(plan, habits=habits, honest=False) if plan.message.consumer == consumer else plan
        for plan in setup.orders
    )
    return replace(setup, orders=tuple(plans))


def _provider_and_validator(setup: Setup) -> Setup:
    friends = frozenset({"v0", "v0p0"})
    setup = with_providers(setup, {"v0p0": Cheat("v0p0", ("middle", "first", "update"), 100)})
    return with_validators(setup, {"v0": Accomplice(friends)})


def _consumer_and_provider(setup: Setup) -> Setup:
    setup = with_providers(setup, {"v0p0": Cheat("v0p0", ("hidden", "silent", "late"), 100)})
    return with_consumer(setup, "carol", ConsumerHabits(deliver=(False, True)))


def _two_providers(setup: Setup) -> Setup:
    """One of two commits to what both have, and shows nothing; the other one may be given its slot."""
    return with_providers(setup, {"v0p0": Cheat("v0p0", ("hidden",), 100)})


def _validators(names: tuple[str, ...]) -> Callable[[Setup], Setup]:
    """The first forges, the others say that it is right, and all of them hold back blocks about it."""
    friends = frozenset(names)

    def turn(setup: Setup) -> Setup:
        rest = {name: Accomplice(friends, withholding=True) for name in names[1:]}
        first = Accomplice(friends, forges=True, withholding=True)
        return with_validators(setup, {names[0]: first, **rest})

    return turn


def _rejecter(setup: Setup) -> Setup:
    return with_validators(setup, {"v0": Rejecter()})


COALITIONS: Mapping[str, Coalition] = MappingProxyType(
    {
        "provider and validator": Coalition(
            "a provider lies, and its validator accepts it",
            ("v0", "v0p0"),
            _provider_and_validator,
        ),
        "consumer and provider": Coalition(
            "a consumer delivers late, and a provider keeps an honest validator waiting",
            ("carol", "v0p0"),
            _consumer_and_provider,
        ),
        "two providers": Coalition(
            "one commits and shows nothing, the other one is given its slot",
            ("v0p0", "v0p1"),
            _two_providers,
        ),
        "two of seven validators": Coalition(
            "one aggregates wrongly, the other one vouches for it, both hold back blocks",
            ("v0", "v1"),
            _validators(("v0", "v1")),
        ),
        "a third of the stake": Coalition(
            "three of nine do the same",
            ("v0", "v1", "v2"),
            _validators(("v0", "v1", "v2")),
            replace(SHAPE, validators=9, providers=27),
        ),
        "a validator alone": Coalition("rejects every third right share", ("v0",), _rejecter),
    }
)


@dataclass(frozen=True)
class Gain:
    """Gain of a coalition over honest work, in uassay per run: the mean over seeds, and its interval of 95 %."""

    name: str
    runs: int
    mean: float
    low: float
    high: float
    honest: float  # what the same people earn by honest work

    @property
    def holds(self) -> bool:
        """True unless it is clear that cheating pays."""
        return self.low <= 0


Pair = tuple[int, int]
"""What a coalition earned more than by honest work, and what honest work earned its members."""


def gains_of(seed: int) -> dict[str, Pair]:
    """Play a seed with each coalition, and once for each shape with everybody honest."""
    honest: dict[Shape, dict[str, int]] = {}
    gains = {}
    for name, coalition in COALITIONS.items():
        setup = make_market(seed, coalition.shape)
        if coalition.shape not in honest:
            honest[coalition.shape] = _earned(setup)
        earned = _earned(coalition.turn(setup))
        own = sum(honest[coalition.shape][member] for member in coalition.members)
        gains[name] = sum(earned[member] for member in coalition.members) - own, own
    return gains


def make_market(seed: int, shape: Shape) -> Setup:
    """Return the setup of a seed, in which everybody is honest and one validator asks for a little less than others."""
    setup = make_setup(seed, Kind.HONEST, shape)
    least = min(plan.bid.offer.price for plan in setup.validators if plan.bid is not None)
    plans = tuple(
        replace(plan, bid=_cheapest(plan.bid, least - 1)) if plan.bid is not None and plan.name == CHEAPEST else plan
        for plan in setup.validators
    )
    return replace(setup, validators=plans)


def _cheapest(bid: MsgPlaceBid, price: int) -> MsgPlaceBid:
    return replace(bid, offer=replace(bid.offer, price=price, regions=(), memory=10**9))


def _earned(setup: Setup) -> dict[str, int]:
    """Return what everybody has more behind a run than before; what a consumer bought is worth its price."""
    world = World(setup)
    people = (*world.validators, *world.providers, *{o.message.consumer for o in setup.orders})
    before = {name: world.worth(name) for name in people}
    world.run()
    earned = {name: world.worth(name) - before[name] for name in people}
    for order in world.orders:
        payments = world.order(order.order_id).payments if order.order_id else ()
        bought = sum(payment.amount for payment in payments if payment.kind in BOUGHT)
        earned[order.plan.message.consumer] += bought
    return earned


def summarise(name: str, found: Sequence[Pair]) -> Gain:
    """Return the mean of gains with its interval."""
    values = [gain for gain, _ in found]
    half = DEVIATIONS * stdev(values) / sqrt(len(values)) if len(values) > 1 else float("inf")
    mean = fmean(values)
    return Gain(name, len(values), mean, mean - half, mean + half, fmean(own for _, own in found))
