"""Random setups: a market of seven validators and twenty providers, and what people order there."""

from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any

from domain.market.messages import MsgPlaceBid, MsgSubmitOrder
from domain.market.records import Conditions, JobTerms, Offer
from domain.params import Params, local_params
from localnet.simulator.actors.consumer import OrderPlan
from localnet.simulator.behaviours import (
    HABITS,
    VALIDATOR_CHEATS,
    Cheat,
    ConsumerHabits,
    Deed,
    FalseChallenger,
    HonestProvider,
    HonestValidator,
    SignsTwice,
)
from localnet.simulator.memory_chain import UNPROVEN, digest
from localnet.simulator.training import ORDER_KEY, Job
from localnet.simulator.world import ChallengerPlan, Outage, ProviderPlan, Setup, ValidatorPlan
from pol.rules.orders import least_deposit
from pol.rules.replicas import REPLICAS
from pol.rules.tiers.exact import EXACT
from pol.rules.tiers.replicated import REPLICATED
from pol.rules.tiers.sampled import SAMPLED
from pol.rules.tiers.table import is_replicating
from pol.rules.tiers.tolerance import TOLERANCE

Tiers = tuple[tuple[str, ...], ...]
HONEST_ORDERS: Tiers = ((), (EXACT.name,), (EXACT.name,), (REPLICATED.name,), (TOLERANCE.name,))
ORDERS: Tiers = (
    (),
    (EXACT.name,),
    (EXACT.name, SAMPLED.name),
    (SAMPLED.name, EXACT.name),
    (REPLICATED.name,),
    (TOLERANCE.name, EXACT.name),
)
"""Lists of tiers that an order may allow. In an honest market no round is sampled, so that no cheat would be."""
HONEST_BIDS: Tiers = ((EXACT.name, REPLICATED.name, TOLERANCE.name),)
BIDS: Tiers = (
    (EXACT.name,),
    (EXACT.name, SAMPLED.name),
    (EXACT.name, REPLICATED.name, TOLERANCE.name),
    (SAMPLED.name, EXACT.name, REPLICATED.name),
    (TOLERANCE.name, EXACT.name),
    (REPLICATED.name,),
)
"""Lists of tiers that a bid may offer."""
PRICE = 10**12
"""uassay per PFLOP that bids and orders are about."""
VALIDATORS, PROVIDERS = 7, 20
CONSUMERS = ("carol", "charles", "chris")
SPONSORS = ("gina", "gerd")
REGIONS = ("eu", "us")
SOLD_SECONDS, SOLD_ORDERS = 24, 8
"""How long a cluster trains for what its validator sells at once, and how many orders that is at most: no more than
progress deadlines leave time for."""


class Kind(StrEnum):
    """Parties in a run."""

    HONEST = "honest"
    MIXED = "mixed"
    ROUGH = "rough"  # mixed, and the network and the machines are bad, too


def params() -> Params:
    """Return the parameters of a local network, with windows and stages so short that honest seats just answer in time.

    A seat that crashes for 3 s still commits if a winner serves nothing: that is in the last fifth of its time.
    """
    return local_params().replace(stage_base=24)


@dataclass(frozen=True)
class Shape:
    """Size of a run."""

    orders: int = 50
    spread: int = 120  # seconds in which they are submitted
    validators: int = VALIDATORS
    providers: int = PROVIDERS


def make_job(random: Random, name: object, **changes: Any) -> Job:
    """Return a small job: 1 to 4 rounds of 1 to 4 slots of 1 to 5 segments."""
    steps, segments = random.randint(1, 3), random.randint(1, 5)
    rounds, slots = random.randint(1, 4), random.randint(1, 4)
    # As large as a cluster does in a few seconds, and no segment is more than auditors take.
    work = min(random.randrange(5 * 10**8, 4 * 10**9), 4 * 10**8 * rounds * slots * segments)
    terms = JobTerms(
        job_id=digest("job", name),
        payload_bytes=500_000,
        data_bytes=random.randrange(10_000, 3_000_000),
        global_root=digest("global", name),
        local_root=digest("local", name),
        data_root=digest("data", name),
        rounds=rounds,
        slots=slots,
        round_steps=steps * segments,
        batch=2,
        segment_steps=steps,
        step_work=work // (rounds * slots * segments * steps),
        outer_work=random.randrange(1, 20_000_000),
        global_bytes=200_000,
        local_bytes=100_000,
        update_bytes=150_000,
        global_chunks=1,
        local_chunks=2,
        executor_version=1,
    )
    return Job(replace(terms, **changes))


def make_order(
    random: Random, number: object, at: int, used: Params, *, allowed: Tiers = HONEST_ORDERS, **changes: Any
) -> OrderPlan:
    """Return an order that an honest consumer submits. It allows one of the lists of tiers in ``allowed``."""
    job = make_job(random, number)
    limit = random.choice((3 * PRICE // 4, PRICE, 2 * PRICE, 3 * PRICE))
    conditions = Conditions(
        regions=random.choice(((), (), (), (REGIONS[0],), REGIONS)),
        memory=random.choice((0, 10**8, 10**9)),
        tiers=random.choice(allowed),
    )
    deadline, replicas = random.randint(290, 590), _count_replicas(conditions, number, at)
    if replicas:
        # Two or three bids have to fit, so most of such orders would expire.
        limit, conditions, deadline = 3 * PRICE, Conditions(tiers=conditions.tiers), 2 * deadline
    deposit = least_deposit(job.terms, limit, used, conditions.tiers) + random.randrange(10_000)
    message = MsgSubmitOrder(
        consumer=random.choice(CONSUMERS),
        order_key=ORDER_KEY,
        key_proof=UNPROVEN,
        terms=job.terms,
        conditions=conditions,
        price_limit=limit,
        deposit=deposit,
        time_to_live=random.randint(60, 200),
        deadline=deadline,
        rematch=random.randrange(10) > 0,
        replicas=replicas,
    )
    cancel = random.randrange(500, 30_000) if random.randrange(10) == 0 else None
    early = Random(f"early {number} {at}").randrange(4) == 0
    return OrderPlan(
        at=at, message=replace(message, **changes), job=job, habits=ConsumerHabits(cancel_after=cancel, early=early)
    )


def _count_replicas(conditions: Conditions, number: object, at: int) -> int:
    """Return the number of validators that each train an order: 2 or 3 in a tier that replicates, otherwise 0."""
    if not any(map(is_replicating, conditions.tiers)):
        return 0
    return REPLICAS + (Random(f"replicas {number} {at}").randrange(6) == 0)


def make_setup(seed: int, kind: Kind = Kind.MIXED, shape: Shape | None = None) -> Setup:
    """Return the setup of a seed."""
    shape, random, used = shape or Shape(), Random(f"{kind} {seed}"), params()
    names = tuple(f"v{number}" for number in range(shape.validators))
    cheats = kind is not Kind.HONEST
    # Less than a third of the stake; each cluster has a provider that trains.
    wicked = set(random.sample(names, random.randint(0, 2))) if cheats else set()
    providers = _providers(random, names, shape, cheats=cheats)
    validators = tuple(_validator(random, name, providers, wicked=name in wicked, is_mixed=cheats) for name in names)
    orders = tuple(_order(random, number, shape, used, cheats=cheats) for number in range(shape.orders))
    setup = Setup(seed=seed, params=used, validators=validators, providers=providers, orders=orders)
    setup = replace(setup, challengers=_challengers(Random(f"challengers {kind} {seed}"), names, cheats=cheats))
    if kind is Kind.ROUGH:
        setup = _with_faults(setup, Random(f"faults {seed}"))
    return _with_staking(setup, Random(f"staking {kind} {seed}"), wicked) if cheats else setup


def _with_staking(setup: Setup, random: Random, wicked: set[str]) -> Setup:
    """Return a setup with a validator that signs twice, one that stays away and comes back, or accounts that pay fees.

    Each has one chance in three. A validator is jailed for an absence of some seconds. The one that signs twice is one
    of the wicked, or the only wicked one.
    """
    names = [plan.name for plan in setup.validators]
    if random.randrange(3) == 0:
        name = random.choice(sorted(wicked) or names)
        twice = SignsTwice(random.randrange(10_000, 120_000))
        plans = [replace(plan, behaviour=twice) if plan.name == name else plan for plan in setup.validators]
        setup = replace(setup, validators=tuple(plans))
    if random.randrange(3) == 0:
        used = setup.params.replace(signed_blocks_window=10, downtime_jail_duration=random.choice((1, 10, 60)))
        name = random.choice([name for name in names if name not in wicked])
        outage = Outage(
            at=random.randrange(10_000, 120_000),
            lasts=random.choice((5_000, 15_000, 60_000)),
            names=(name,),
            misses_votes=True,
        )
        setup = replace(setup, params=used, outages=(*setup.outages, outage))
    if random.randrange(3) == 0:
        setup = replace(setup, sponsors=SPONSORS[: random.randint(1, 2)])
    return setup


def _challengers(random: Random, names: tuple[str, ...], *, cheats: bool) -> tuple[ChallengerPlan, ...]:
    """Return the challengers: at most two who look, and sometimes one who lies or wastes others' time."""
    chosen = random.sample((*names, *CONSUMERS), 3)
    plans = [ChallengerPlan(name) for name in chosen[: random.randint(0, 2)]]
    if cheats and random.randrange(2):
        deed = random.choice((Deed.LIES, Deed.OPENS_NOTHING, Deed.SAYS_UNSERVED, Deed.ASKS_AGAIN))
        plans.append(ChallengerPlan(chosen[2], FalseChallenger(deed, random.choice((5, 20, 60)))))
    return tuple(plans)


def _with_faults(setup: Setup, random: Random) -> Setup:
    """Return a setup with a bad network, full blocks, or machines that are away: each with one chance in three."""
    names = tuple(plan.name for plan in setup.validators)
    changes: dict[str, Any] = {}
    if random.randrange(3) == 0:
        changes |= {"loss": random.choice((20, 60, 150)), "twice": random.choice((0, 50))}
    if random.randrange(3) == 0:
        changes |= {"delay": random.choice((300, 800)), "lag": random.choice((20, 40))}
    if random.randrange(3) == 0:
        changes |= {"failing": random.choice((10, 30))}
    if random.randrange(3) == 0:
        changes |= {"spam": random.choice((6, 12))}
    if random.randrange(3) == 0:
        count = random.choice((1, 2, (len(names) + 1) // 2))
        lasts = 1_000 * random.choice((1, 10, 100))
        outage = Outage(random.randrange(20_000, 120_000), lasts, tuple(sorted(random.sample(names, count))))
        changes |= {"outages": (outage,)}
    return replace(setup, **changes)


def _providers(random: Random, names: tuple[str, ...], shape: Shape, *, cheats: bool) -> tuple[ProviderPlan, ...]:
    plans = []
    for number in range(shape.providers):
        cluster, rank = names[number % len(names)], number // len(names)
        address = f"{cluster}p{rank}"
        behaviour: HonestProvider = HonestProvider()
        # The first of each cluster is there from the beginning, stays, and is honest.
        if cheats and rank and random.randrange(3) == 0:
            habits = tuple(random.sample(HABITS, random.randint(1, 3)))
            behaviour = Cheat(address, habits, random.choice((20, 50, 100)))
        later = rank > 0 and random.randrange(4) == 0
        stops = rank > 1 and cheats and random.randrange(4) == 0
        plans.append(
            ProviderPlan(
                address,
                cluster,
                speed=random.choice((60, 100, 150, 250)) * 10**6,
                behaviour=behaviour,
                joins=random.randrange(1_000, 60_000) if later else 0,
                stops=random.randrange(20_000, 120_000) if stops else None,
                auto_bond=not (cheats and rank and random.randrange(8) == 0),
                bond=random.choice((0, 10**9)),
                crashes=_moments(random, 2 if cheats else 1),
            )
        )
    return tuple(plans)


def _validator(
    random: Random, name: str, providers: tuple[ProviderPlan, ...], *, wicked: bool, is_mixed: bool
) -> ValidatorPlan:
    speeds = [p.speed for p in providers if p.validator == name and not p.joins]
    sold = SOLD_SECONDS * min(speeds) * len(speeds)
    offer = Offer(
        price=PRICE * random.randint(70, 140) // 100,
        slot_speed=min(speeds),
        slots=len(speeds),
        device_class="cpu",
        tiers=random.choice(BIDS if is_mixed else HONEST_BIDS),
        min_work=sold // SOLD_ORDERS,
        regions=random.choice(((), REGIONS[:1], REGIONS[1:])),
        memory=random.choice((10**8, 10**9)),
        providers_bps=random.randint(5_000, 8_000),
    )
    behaviour = random.choice(VALIDATOR_CHEATS)() if wicked else HonestValidator()
    bid = MsgPlaceBid(name, offer, capacity=sold, duration=100_000)
    return ValidatorPlan(name=name, bid=bid, behaviour=behaviour, crashes=_moments(random, 2))


def _moments(random: Random, most: int) -> tuple[int, ...]:
    return tuple(sorted(random.randrange(5_000, 150_000) for _ in range(random.randint(0, most))))


def _order(random: Random, number: int, shape: Shape, used: Params, *, cheats: bool) -> OrderPlan:
    at = random.randrange(1_000 * shape.spread)
    plan = make_order(random, number, at, used, allowed=ORDERS if cheats else HONEST_ORDERS)
    if not cheats or random.randrange(8):
        return plan
    if random.randrange(2):
        deliver = random.choice(((False,), (False, True), (True, False)))
        return replace(plan, habits=replace(plan.habits, deliver=deliver), honest=False)
    rounds = plan.job.terms.rounds
    return replace(plan, job=replace(plan.job, breaks_in=random.randrange(rounds)), honest=False)
