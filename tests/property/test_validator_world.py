"""Whatever providers do and wherever validators crash: an order ends, its coins add up, and honest work is paid.

Small plans of a simulated market, which Hypothesis makes smaller where one breaks something. What must always hold is
looked at by the simulator itself, after every block and at the end.
"""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from chain.state_machine.legs.creation import LegExtent
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.market.reasons import CloseReason
from domain.params import local_params
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import Share, ShareState
from link.types import StateRef
from localnet.simulator.actors.consumer import OrderPlan
from localnet.simulator.behaviours import (
    HABITS,
    ConsumerHabits,
    HonestValidator,
    Listed,
    SilentAuditor,
)
from localnet.simulator.training import ORDER_KEY, Job
from localnet.simulator.world import BOND, ProviderPlan, Setup, ValidatorPlan, World
from tests.support.chain_market import bid, make_terms, submit
from tests.support.partial_legs import partial_rules
from validator.decide import orders
from validator.decide.records import LegKey

# Nobody runs out of time for cheats alone.
PARAMS = local_params().replace(
    clock_step_max=10,
    progress_base=400,
    accept_base=30,
)
# Three slots for one to three providers, some of which are twice as fast as others; shares of six segments.
JOB = Job(make_terms(rounds=2, slots=3, round_steps=12, batch=2, segment_steps=2))
VALIDATORS = ("v0", "v1", "v2", "v3", "v4", "v5")
REASONS = {
    "first": ShareReason.SEGMENT_MISMATCH,
    "middle": ShareReason.SEGMENT_MISMATCH,
    "last": ShareReason.SEGMENT_MISMATCH,
    "idle": ShareReason.SEGMENT_MISMATCH,
    "update": ShareReason.UPDATE_MISMATCH,
    "metrics": ShareReason.SEGMENT_MISMATCH,
    "quits": ShareReason.NOT_STOPPED,
    "copied": ShareReason.NO_ANSWER,
    "garbage": ShareReason.NO_ANSWER,
    "hidden": ShareReason.NO_ANSWER,
    "noise": ShareReason.NO_ANSWER,
    "keyless": ShareReason.NO_ANSWER,
}
"""Why a share of each kind falls, once it is on chain; others never get there, or never fall."""


@dataclass(frozen=True)
class Plan:
    """The dice of one run."""

    seed: int
    habits: tuple[tuple[str, ...], ...]  # of the providers of every cluster; the last one is honest
    bidders: tuple[str, ...] = ("v0", "v1")
    poor: bool = False  # the first provider has no bond
    deliver: tuple[bool, ...] = (True, True)  # whether the payload reaches the n-th leg
    crashes: tuple[int, ...] = ()  # seconds after which a bidder crashes
    silent_seats: int = 0
    absent: bool = False  # accepted providers are gone when their states are audited
    orders: int = 1
    rematch: bool = True
    loss: int = 0


habits = st.lists(st.sampled_from(HABITS), max_size=4).map(tuple)
plans = st.builds(
    Plan,
    seed=st.integers(0, 2**32),
    habits=st.lists(habits, max_size=2).map(tuple),
    poor=st.booleans(),
    deliver=st.tuples(st.booleans(), st.booleans()),
    crashes=st.lists(st.integers(1, 120), max_size=6, unique=True).map(tuple),
    silent_seats=st.integers(0, 2),
    absent=st.booleans(),
    orders=st.integers(1, 2),
    loss=st.sampled_from((0, 0, 20)),
)


def make_setup(plan: Plan) -> Setup:
    """Return the market of a plan."""
    validators = []
    for number, name in enumerate(VALIDATORS):
        silent = number >= len(VALIDATORS) - plan.silent_seats
        behaviour = SilentAuditor() if silent else HonestValidator()
        bids = name in plan.bidders
        crashes = tuple(1_000 * at for at in plan.crashes if bids)
        validators.append(ValidatorPlan(name, bid(name) if bids else None, behaviour, crashes))
    providers = [
        ProviderPlan(
            f"{name}p{rank}",
            name,
            speed=10**8 * (1 + (plan.seed + rank) % 2),
            behaviour=Listed(list(listed), absent=plan.absent),
            bond=0 if plan.poor and not rank else BOND,
            auto_bond=not (plan.poor and not rank),
        )
        for name in plan.bidders
        for rank, listed in enumerate((*plan.habits, ()))
    ]
    message = submit(order_key=ORDER_KEY, terms=JOB.terms, deposit=10**9, deadline=1_500, rematch=plan.rematch)
    order = OrderPlan(0, message, JOB, ConsumerHabits(plan.deliver), honest=all(plan.deliver))
    orders = (order,) * plan.orders
    return Setup(plan.seed, PARAMS, tuple(validators), tuple(providers), orders, lag=25, loss=plan.loss)


def play(plan: Plan, **changes: Any) -> tuple[World, list[OrderResponse]]:
    world = World(replace(make_setup(plan), **changes))
    world.run()
    return world, [world.order(order.order_id) for order in world.orders]


def check_share(world: World, share: Share, *, lossless: bool) -> bool:
    """Check what became of a share; tell whether it was accepted although it is wrong (nobody drew the place)."""
    habit = world.habit_of(share.claim)
    if share.state == ShareState.ACCEPTED:
        assert habit not in REASONS or habit == "middle" or not lossless, habit
        return habit == "middle"
    if share.reason != ShareReason.LEG_ENDED and lossless:
        assert share.reason == REASONS.get(habit), (habit, ShareReason(share.reason).name)
    return False


def check_results(on_chain: OrderResponse) -> None:
    """Check that each round ended in what the job alone gives, whoever trained, failed, cheated or crashed."""
    right = JOB.result_roots()
    for closed in on_chain.rounds:
        assert closed.next_root == right[closed.round]


@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(plans)
def test_every_order_ends_and_honest_work_is_paid(plan: Plan) -> None:
    world, orders = play(plan)
    for on_chain in orders:
        missed = [check_share(world, s, lossless=not plan.loss) for s in on_chain.shares]
        reason = CloseReason(on_chain.order.close_reason)
        if not any(missed):
            check_results(on_chain)
        able = any(plan.deliver) and bool(plan.habits or not plan.poor)
        if able and not any(missed):
            assert reason is CloseReason.SETTLED, (reason, world.refused[-3:])
        for leg in on_chain.legs:
            # A validator that does its part never loses more than the fee for a payload that did not come.
            if leg.state is LegState.FAILED and able and not any(missed):
                assert not plan.deliver[min(leg.number, 2) - 1]


# Legs that serve a part of their order


LEFT, LOCALS = JOB.left()[0]
"""What round 0 leaves."""
LATER = LegExtent(1, 1, 0, 3, LEFT, dict(enumerate(LOCALS)))
"""The last of two rounds, from the states that the first one leaves."""
SLICE = LegExtent(0, 2, 1, 2, JOB.terms.global_root)
"""All rounds of two of three slots."""
STATES = (JOB.state(LEFT), *(StateRef(root, JOB.local_blob(root)) for root in LOCALS))
NO_SHRINK = (Phase.explicit, Phase.reuse, Phase.generate)
parts = st.builds(
    Plan,
    seed=st.integers(0, 2**32),
    habits=st.lists(habits, max_size=1).map(tuple),
    crashes=st.lists(st.integers(1, 120), max_size=4, unique=True).map(tuple),
)


@settings(max_examples=4, deadline=None, phases=NO_SHRINK, suppress_health_check=[HealthCheck.too_slow])
@given(parts)
def test_a_leg_that_begins_later_ends_as_the_whole_job_would(plan: Plan) -> None:
    """Whatever its providers do and wherever it crashes, it goes on from what an earlier leg left."""
    rules = partial_rules(lambda _: LATER)
    world, (on_chain,) = play(plan, rules=rules, held=STATES)
    missed = [check_share(world, s, lossless=not plan.loss) for s in on_chain.shares]
    if not any(missed):
        assert on_chain.order.close_reason == CloseReason.SETTLED, world.refused[-3:]
        check_results(on_chain)
        assert [closed.round for closed in on_chain.rounds] == [1]


def test_a_leg_that_begins_later_is_declined_if_its_states_are_not_held() -> None:
    for held in ((), STATES[:-1]):
        world, (on_chain,) = play(Plan(3, ()), rules=partial_rules(lambda _: LATER), held=held)
        assert {leg.validator for leg in on_chain.legs} == {"v0", "v1"}
        for leg in on_chain.legs:
            assert leg.end_reason == LegEnd.DECLINED_BY_CHOICE
            record = world.validators[leg.validator].leg(LegKey(leg.order_id, leg.number))
            assert record is not None
            assert "starts from round 1" in record.payload.text


@settings(max_examples=4, deadline=None, phases=NO_SHRINK, suppress_health_check=[HealthCheck.too_slow])
@given(parts)
def test_a_leg_with_some_of_the_slots_trains_these_alone(plan: Plan) -> None:
    """As it will be once legs exchange updates: here those of its own slots make its next state."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orders, "refusal", lambda *_: "")
        patch.setattr(Job, "result_roots", lambda job: [left for left, _ in job.left(1, 2)])
        world, (on_chain,) = play(plan, rules=partial_rules(lambda _: SLICE))
    missed = [check_share(world, s, lossless=not plan.loss) for s in on_chain.shares]
    assert {share.claim.slot for share in on_chain.shares} == {1, 2}
    if not any(missed):
        assert on_chain.order.close_reason == CloseReason.SETTLED, world.refused[-3:]
        right = [left for left, _ in JOB.left(1, 2)]
        assert [closed.next_root for closed in on_chain.rounds] == right


@pytest.mark.parametrize("habit", sorted({*HABITS} - {"middle"}))
def test_each_cheat_ends_in_its_own_reason_and_others_finish(habit: str) -> None:
    _, (on_chain,) = play(Plan(7, ((habit,),), bidders=("v0",)))
    assert on_chain.order.close_reason == CloseReason.SETTLED
    fell = [share for share in on_chain.shares if share.state is not ShareState.ACCEPTED]
    assert [ShareReason(share.reason) for share in fell] == ([REASONS[habit]] if habit in REASONS else [])
    # What was committed to rightly, and not shown, is right all the same.
    wrong = habit in ("first", "last", "idle", "update", "metrics", "quits", "copied")
    assert {share.state for share in fell} <= {ShareState.WRONG if wrong else ShareState.RIGHT}


def test_a_wrong_share_outside_what_was_drawn_is_never_paid() -> None:
    """The validator's own replays miss it, strangers who draw the place do not: the round is void, the bond is cut.

    The validator continues, and the order ends as if nothing had been.
    """
    few = PARAMS.replace(duty_segments=2)
    # The first seed is one that lets it through; after a change of the rules, another one may be the first.
    for seed in range(118, 220):
        world, (on_chain,) = play(Plan(seed, (("middle",),), bidders=("v0",), rematch=False), params=few)
        if any(closed.void for closed in on_chain.rounds):
            break
    else:
        raise AssertionError("no seed lets the cheat through to a panel")
    first, second = on_chain.legs
    assert first.end_reason == LegEnd.WRONG_SHARE
    assert (second.validator, on_chain.order.close_reason) == (first.validator, CloseReason.SETTLED)
    verified = [closed.next_root for closed in on_chain.rounds if closed.verified]
    assert verified == world.job(on_chain.order.id).result_roots()
    (cheat,) = (s for s in on_chain.shares if world.habit_of(s.claim) == "middle")
    sums: dict[str, int] = {}
    for payment in on_chain.payments:
        sums[payment.kind] = sums.get(payment.kind, 0) + payment.amount
    # Half of its bond is burnt. The rest pays those who found it, and what they do not get is burnt.
    providers = {share.claim.provider for share in on_chain.shares}
    paid = sum(p.amount for p in on_chain.payments if p.kind == "compensation" and p.to in providers)
    assert sums.pop("compensation", 0) - paid + sums["burn"] == cheat.bond
    assert sums.pop("burn") >= cheat.bond // 2
    # The validator closes no second round behind a newcomer's share: no other round is void, and the cover pays no one.
    assert not [share for share in on_chain.shares if share.stand and share.claim.leg == first.number]
    assert paid == 0
    assert sums.keys() <= {"refund", "bond_return", "provider", "validator", "auditor", "protocol"}
