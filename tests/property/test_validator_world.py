"""Whatever providers do and wherever validators crash: an order ends, its coins add up, and honest work is paid.

``tests.support.chain_harness`` runs all invariants of the chain after each block.
"""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.messages import MsgWithdrawBond
from domain.params import local_params
from domain.queries import OrderResponse
from domain.reasons import AttemptEnd, CloseReason, ShareReason
from domain.records import AssignmentState, Ruling, Share, ShareState
from pol.rules.panels import finding_of
from tests.property.validator_world import HABITS, Plan, World, result_roots
from tests.support.chain_market import BOND, make_terms, submit

# Seats have 24 s to commit; nobody runs out of time for cheats alone.
PARAMS = replace(
    local_params(),
    clock_step_max=10,
    round_window=80,
    progress_base=400,
    accept_base=30,
)
# Three slots for one to three providers, some of which are twice as fast as others; shares of six segments.
TERMS = make_terms(rounds=2, slots=3, round_steps=12, batch=2, segment_steps=2)
REASONS = {
    "first": ShareReason.SEGMENT_MISMATCH,
    "middle": ShareReason.SEGMENT_MISMATCH,
    "last": ShareReason.SEGMENT_MISMATCH,
    "update": ShareReason.UPDATE_MISMATCH,
    "metrics": ShareReason.SEGMENT_MISMATCH,
    "copied": ShareReason.NO_ANSWER,
    "garbage": ShareReason.NO_ANSWER,
    "closed": ShareReason.NO_ANSWER,
    "junk": ShareReason.NO_ANSWER,
}
"""Why a share of each kind falls, once it is on chain; others never get there, or never fall."""

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
)


def play(plan: Plan) -> tuple[World, list[bytes]]:
    world = World(plan, TERMS, PARAMS)
    if plan.poor:
        poor = [cluster[0] for cluster in world.market.clusters.values()]
        world.chain.ok(*(MsgWithdrawBond(name, BOND) for name in poor))
    message = submit(terms=TERMS, deposit=10**9, deadline=1_500, rematch=plan.rematch)
    order_ids = [world.market.submit(message) for _ in range(plan.orders)]
    world.run(order_ids, limit=1_500)
    return world, order_ids


def check_share(world: World, share: Share) -> bool:
    """Check what became of a share; tell whether it was accepted although it is wrong (nobody drew the place)."""
    habit = world.habit_of(share.claim)
    if share.state == ShareState.ACCEPTED:
        assert habit not in REASONS or habit == "middle", habit
        return habit == "middle"
    if share.reason != ShareReason.ATTEMPT_ENDED:
        assert share.reason == REASONS.get(habit), (habit, ShareReason(share.reason).name)
    return False


def check_seats(world: World, on_chain: OrderResponse) -> None:
    """Check that nobody's stake was cut for silence who meant to answer, whatever crashed and whoever was away.

    Nor for another answer than the ruling: who is honest finds what the others find.
    """
    for panel in on_chain.panels:
        for seat in world.seats(panel.key):
            if seat.stage == panel.stage and panel.is_open:
                continue
            if all(panel.places[number].ruling is Ruling.OPEN for number in seat.places):
                continue  # a round that became void ended its panel
            silent = {n for n in seat.places if seat.answer(n) is None}
            assert not silent or world.is_silent(seat.validator), seat
            for answer in seat.answers:
                found = panel.places[answer.place].found
                assert found is None or finding_of(answer) == found


def check_results(on_chain: OrderResponse) -> None:
    """Check that each round ended in what the job alone gives, whoever trained, failed, cheated or crashed."""
    right = result_roots(TERMS)
    for closed in on_chain.rounds:
        assert closed.next_root == right[closed.round]


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(plans)
def test_every_order_ends_and_honest_work_is_paid(plan: Plan) -> None:
    world, order_ids = play(plan)
    for order_id in order_ids:
        on_chain = world.order(order_id)
        missed = [check_share(world, share) for share in on_chain.shares]
        reason = CloseReason(on_chain.order.close_reason)
        check_seats(world, on_chain)
        if not any(missed):
            check_results(on_chain)
        # A decline closes the bid, so that two orders may use up both.
        delivered = plan.deliver[0] or (plan.deliver[1] and plan.orders == 1)
        able = delivered and bool(plan.habits or not plan.poor)
        if able and not any(missed):
            assert reason is CloseReason.SETTLED, (reason, world.refused[-3:])
        for assignment in on_chain.assignments:
            # A validator that does its part never loses more than the fee for a payload that did not come.
            if assignment.state is AssignmentState.FAILED and able and not any(missed):
                assert not plan.deliver[min(assignment.attempt, 2) - 1]


@pytest.mark.parametrize("habit", sorted({*HABITS} - {"middle"}))
def test_each_cheat_ends_in_its_own_reason_and_others_finish(habit: str) -> None:
    world, (order_id,) = play(Plan(7, ((habit,),), bidders=("v0",), orders=1))
    on_chain = world.order(order_id)
    assert on_chain.order.close_reason == CloseReason.SETTLED
    fell = [share for share in on_chain.shares if share.state is not ShareState.ACCEPTED]
    assert [ShareReason(share.reason) for share in fell] == (
        [REASONS[habit]] if habit in REASONS else []
    )
    # What was committed to rightly, and not shown, is right all the same.
    wrong = habit in ("first", "last", "update", "metrics", "copied")
    assert {share.state for share in fell} <= {ShareState.WRONG if wrong else ShareState.RIGHT}


def test_a_wrong_share_outside_what_was_drawn_is_never_paid() -> None:
    """The validator's own replays miss it, strangers who draw the place do not: the round is void, the bond is cut."""
    for seed in range(100, 220):
        world, (order_id,) = play(Plan(seed, (("middle",),), bidders=("v0",), rematch=False))
        on_chain = world.order(order_id)
        if any(closed.void for closed in on_chain.rounds):
            break
    else:
        raise AssertionError("no seed lets the cheat through to a panel")
    assert on_chain.order.work_verified == 0
    (attempt,) = on_chain.assignments
    assert attempt.end_reason == AttemptEnd.WRONG_SHARE
    (cheat,) = (s for s in on_chain.shares if world.habit_of(s.claim) == "middle")
    sums: dict[str, int] = {}
    for payment in on_chain.payments:
        sums[payment.kind] = sums.get(payment.kind, 0) + payment.amount
    # Its bond pays those who found it; what they do not get is burnt, and nobody else has lost or earned anything.
    assert sums.pop("compensation", 0) + sums.pop("burn", 0) == cheat.bond
    assert sums.keys() <= {"refund", "bond_return"}
    check_seats(world, on_chain)


def test_the_same_dice_give_the_same_run() -> None:
    plan = Plan(3, (("first", "late"), ("junk",)), crashes=(4, 9, 15))
    runs = [play(plan) for _ in range(2)]
    assert len({world.blocks for world, _ in runs}) == 1
    assert runs[0][0].chain.store.get(b"") == runs[1][0].chain.store.get(b"")
