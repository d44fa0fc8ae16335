"""Slashes for wrong rounds, the votes that decide about them, and the jail: who can use them against whom."""

from dataclasses import replace

import pytest

from chain.state_machine.ledger.tables import POTS
from chain.state_machine.market.book import get_backing
from chain.state_machine.registry.members import is_active
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.staking.tables import VALIDATOR_STAKES
from chain.state_machine.store import Overlay
from consumer.panels import describe_panel, panel_rows
from domain.ledger.moves import BURNT_POT
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.market.records import OrderState
from domain.params import Params, local_params
from domain.proof.records import AuditKind, Panel, Ruling, SeatAnswer
from domain.registry.records import Validator
from tests.support.chain_market import Market, bid, digest, make_terms, submit
from tests.support.rewards import from_orders

STAKE = 10**10
PRICE_OF_LEG = 160_000
AGGREGATION, FEE = 4_000, 100
COST = 2 * 20_000 + 2_000 + AGGREGATION


def make_market(validators: int = 14, **changes: int) -> Market:
    params: Params = local_params().replace(**{"auditors": 3, **changes})
    return Market(params, validators=validators)


def run_round(market: Market, rounds: int = 1) -> bytes:
    """Return an order that is not matched again, with closed rounds."""
    order_id = market.run(submit(deposit=900_000, rematch=False))
    for _ in range(rounds):
        market.train_round(order_id)
    return order_id


def validator(market: Market, name: str = "v0") -> Validator:
    return VALIDATORS.must(market.chain.overlay(), name)


def free_stake(market: Market, name: str = "v0") -> int:
    return get_backing(market.chain.overlay(), name)[2]


def pot(market: Market, name: str) -> int:
    return POTS.get(market.chain.overlay(), name)


def find(market: Market, order_id: bytes, *kinds: AuditKind, round: int = 0) -> tuple[SeatAnswer, ...]:
    """Return answers with another root at the places of some kinds."""
    places = market.panel(order_id, round).places
    return tuple(
        replace(answer, root=digest("another root")) if places[answer.place].place.kind in kinds else answer
        for answer in market.answers(order_id, round)
    )


def find_wrong(market: Market, order_id: bytes, *kinds: AuditKind, round: int = 0) -> Panel:
    """Let all seats of two stages find that the places of some kinds are wrong."""
    for stage in (1, 2):
        market.wait_stage(order_id, round, stage)
        found = find(market, order_id, *(kinds or (AuditKind.AGGREGATION,)), round=round)
        market.say(order_id, dict.fromkeys(market.seated(order_id, round, stage), found), round)
    assert not market.round(order_id, round).void
    market.let_stand(order_id, round)
    assert market.round(order_id, round).void
    return market.panel(order_id, round)


def vote(market: Market, order_id: bytes, answers: tuple[SeatAnswer, ...] | None = None, round: int = 0) -> list[str]:
    """Let all seats of the vote give the same answers; return them."""
    market.wait_stage(order_id, round, 3)
    seats = market.seated(order_id, round, 3)
    found = find(market, order_id, AuditKind.AGGREGATION, round=round) if answers is None else answers
    market.say(order_id, dict.fromkeys(seats, found), round)
    return seats


# --- who is slashed --------------------------------------------------------------------------------


def test_the_last_stage_slashes_who_closed_a_wrong_round() -> None:
    market = Market()
    order_id = run_round(market)
    burnt = pot(market, BURNT_POT.name)
    market.say_all(order_id, lambda: find(market, order_id, AuditKind.AGGREGATION))
    panel = market.panel(order_id, 0)
    assert panel.is_last
    assert not panel.for_slash
    assert panel.is_settled
    assert panel.slash == PRICE_OF_LEG
    assert validator(market).stake == STAKE - PRICE_OF_LEG
    assert len(validator(market).faults) == 1
    # The slash pays what the job bond did not pay of the seats, and the rest is burnt.
    told = market.chain.seen("panel.paid")
    assert {int(event.get("paid")) for event in told} <= {COST + FEE, AGGREGATION + FEE}
    from_slash = sum(int(event.get("from_pot")) for event in told)
    assert from_slash > 0
    assert pot(market, BURNT_POT.name) - burnt == PRICE_OF_LEG - from_slash


def test_after_two_stages_a_vote_of_all_slashes_and_pays_its_seats() -> None:
    market = make_market()
    order_id = run_round(market)
    panel = find_wrong(market, order_id)
    assert panel.votes_on_slash
    assert panel.slash == PRICE_OF_LEG
    assert validator(market).stake == STAKE
    burnt = pot(market, BURNT_POT.name)
    before = {name: market.chain.balance(name) for name in market.validators}
    seats = vote(market, order_id)
    panel = market.panel(order_id, 0)
    assert panel.is_last
    assert panel.is_settled
    assert not panel.votes_on_slash
    assert validator(market).stake == STAKE - PRICE_OF_LEG
    paid = {name: market.chain.balance(name) - before[name] for name in market.validators}
    earned = {name for name in seats if paid[name] > 0}
    assert earned == set(seats)
    assert len(seats) == 4
    told = market.chain.seen("panel.paid")[-len(seats) :]
    assert {int(event.get("paid")) for event in told} == {AGGREGATION + FEE}
    assert pot(market, BURNT_POT.name) - burnt == PRICE_OF_LEG - len(seats) * (AGGREGATION + FEE)


def test_the_order_does_not_wait_for_the_vote() -> None:
    market = make_market()
    order_id = run_round(market)
    find_wrong(market, order_id)
    market.wait_stage(order_id, 0, 3)
    market.pass_stands(order_id)
    assert market.order(order_id).state is OrderState.CLOSED
    assert market.panel(order_id, 0).votes_on_slash
    again = make_market()
    order_id = again.run(submit(deposit=900_000))
    again.chain.ok(bid("v1"))
    again.train_round(order_id)
    find_wrong(again, order_id)
    again.chain.block()
    assert again.order(order_id).legs == 2


# --- who is not ------------------------------------------------------------------------------------


def test_a_coalition_that_drags_an_honest_validator_to_the_vote_pays_for_it() -> None:
    """Nine seats of two stages void a right round; the others then keep the stake of its validator, and are paid."""
    market = make_market(validators=30)
    order_id = run_round(market)
    find_wrong(market, order_id)
    liars = market.seated(order_id)
    community = from_orders(market.chain)
    market.wait_stage(order_id, 0, 3)
    seats = vote(market, order_id, market.answers(order_id))
    assert len(liars) == 9
    assert len(seats) == 20
    assert validator(market).stake == STAKE
    assert validator(market).faults == ()
    assert free_stake(market) == STAKE
    cuts = {name: STAKE - validator(market, name).stake for name in liars}
    # Three times what they earned, and at least a third of the price of the round.
    assert set(cuts.values()) == {80_000 // 3}
    told = market.chain.seen("panel.paid")[-len(seats) :]
    assert {int(event.get("paid")) for event in told} == {AGGREGATION + FEE}
    assert {int(event.get("from_pot")) for event in told} == {AGGREGATION + FEE}
    assert from_orders(market.chain) == community


@pytest.mark.parametrize("liars", [0, 10])
def test_a_vote_on_a_slash_does_not_replace_the_ruling_that_made_the_round_void(liars: int) -> None:
    """The money of the round follows the first ruling, so the record keeps it beside what the vote finds."""
    market = make_market(validators=30)
    order_id = run_round(market)
    find_wrong(market, order_id)
    market.wait_stage(order_id, 0, 3)
    first = market.panel(order_id, 0).places[0]
    assert (first.ruling, first.stage, first.first_stage) == (Ruling.OPEN, 0, 2)
    seats = market.seated(order_id, 0, 3)
    right, wrong = market.answers(order_id), find(market, order_id, AuditKind.AGGREGATION)
    third = tuple(replace(answer, root=digest("third")) for answer in right)
    market.say(order_id, {name: third if at < liars else right for at, name in enumerate(seats)})
    place = market.panel(order_id, 0).places[0]
    assert market.panel(order_id, 0).is_settled
    assert (place.ruling, place.stage) == (Ruling.UNDECIDED if liars else Ruling.RIGHT, 3)
    assert place.first_stage == 2
    assert place.first_finding is not None
    assert place.first_finding.root == wrong[0].root
    assert validator(market).stake == STAKE
    assert f"was found wrong in stage {place.first_stage}" in " ".join(describe_panel(market.panel(order_id, 0), 0))
    assert "(stage 2: wrong)" in str(panel_rows(market.all_of(order_id), [])[0])


def test_a_round_that_was_not_served_slashes_no_one() -> None:
    market = Market()
    order_id = run_round(market)
    market.fault_round(order_id)
    assert market.round(order_id, 0).void
    assert market.leg(order_id).end_reason == LegEnd.WRONG_ROUND
    assert validator(market).stake == STAKE
    assert validator(market).faults == ()
    assert not market.chain.seen("panel.slash_vote")


def test_leaves_that_no_one_has_shown_slash_no_one() -> None:
    """The trace has leaves, but an outage may have kept them from the seats."""
    market = Market()
    order_id = run_round(market)
    market.say_all(order_id, lambda: market.answers(order_id), leaves=lambda: ())
    assert market.round(order_id, 0).void
    assert market.panel(order_id, 0).is_last
    assert market.leg(order_id).end_reason == LegEnd.WRONG_ROUND
    assert validator(market).stake == STAKE


def test_an_outage_during_the_vote_slashes_no_one() -> None:
    """Two stages were right about the round, but the validator does not serve all others: that may be an outage."""
    market = make_market(validators=30)
    order_id = run_round(market)
    find_wrong(market, order_id)
    market.wait_stage(order_id, 0, 3)
    vote(market, order_id, market.unavailable(order_id))
    panel = market.panel(order_id, 0)
    assert panel.is_settled
    assert panel.slash == 0
    assert validator(market).stake == STAKE
    assert free_stake(market) == STAKE


def test_a_vote_without_a_majority_slashes_no_one_and_cuts_who_was_silent() -> None:
    market = make_market(validators=30)
    order_id = run_round(market)
    find_wrong(market, order_id)
    market.wait_stage(order_id, 0, 3)
    seats = market.seated(order_id, 0, 3)
    market.say(order_id, {})
    market.chain.pass_until(market.panel(order_id, 0).reveals_end)
    market.chain.block()
    panel = market.panel(order_id, 0)
    assert panel.is_settled
    assert Ruling.UNDECIDED in {place.ruling for place in panel.places}
    assert validator(market).stake == STAKE
    assert {STAKE - validator(market, name).stake for name in seats} == {AGGREGATION + FEE}


def test_a_wrong_segment_outside_the_duty_is_its_providers_fault_alone() -> None:
    market = Market(local_params().replace(duty_segments=1, audit_segments=6))
    terms = make_terms(round_steps=16, slots=1)
    order_id = market.run(submit(terms=terms, deposit=3_000_000, rematch=False))
    market.train_round(order_id)
    (share,) = market.shares(order_id)

    def found() -> tuple[SeatAnswer, ...]:
        places = market.panel(order_id, 0).places
        duty = set(share.drawn)
        return tuple(
            replace(answer, root=digest("another root"))
            if places[answer.place].place.kind is AuditKind.SEGMENT and places[answer.place].place.segment not in duty
            else answer
            for answer in market.answers(order_id)
        )

    market.say_all(order_id, found)
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.WRONG_SHARE
    assert validator(market).stake == STAKE
    assert validator(market).faults == ()


# --- what is reserved and paid ---------------------------------------------------------------------


def test_the_stake_that_a_vote_may_take_backs_no_other_order() -> None:
    market = make_market()
    order_id = run_round(market)
    find_wrong(market, order_id)
    market.wait_stage(order_id, 0, 3)
    market.pass_stands(order_id)
    assert market.order(order_id).state is OrderState.CLOSED
    assert free_stake(market) == STAKE - PRICE_OF_LEG
    vote(market, order_id)
    assert free_stake(market) == STAKE - PRICE_OF_LEG == validator(market).stake


def test_a_vote_that_the_slash_cannot_pay_is_not_held() -> None:
    """Otherwise a consumer and a validator could make all others work for nothing, with an order of small value."""
    market = make_market(validators=60)
    order_id = run_round(market)
    panel = find_wrong(market, order_id)
    assert panel.eligible * (AGGREGATION + FEE) > PRICE_OF_LEG
    assert panel.is_settled
    assert not panel.for_slash
    assert market.leg(order_id).state is LegState.FAILED


def test_the_slash_is_bounded_by_the_stake() -> None:
    market = Market(local_params().replace(slash_bps=1))
    order_id = run_round(market)

    def shrink(overlay: Overlay) -> None:
        VALIDATORS.update(overlay, "v0", stake=10**8)
        VALIDATOR_STAKES.update(overlay, "v0", tokens=10**8)

    market.chain.checked = False
    market.chain.change(shrink)
    market.say_all(order_id, lambda: find(market, order_id, AuditKind.AGGREGATION))
    assert validator(market).stake == 10**8 - 10**4


# --- faults and the jail ---------------------------------------------------------------------------


def test_two_faults_in_one_round_are_one_slash_and_one_fault() -> None:
    market = Market()
    order_id = run_round(market)
    market.say_all(order_id, lambda: find(market, order_id, AuditKind.AGGREGATION, AuditKind.UPDATE))
    assert [place.ruling for place in market.panel(order_id, 0).places].count(Ruling.WRONG) == 2
    assert validator(market).stake == STAKE - PRICE_OF_LEG
    assert len(validator(market).faults) == 1


def test_two_wrong_rounds_of_a_leg_are_one_fault_and_cost_the_price_of_the_leg() -> None:
    """The order in which panels end is luck; a later round that is void before it is judged would not count either."""
    market = Market()
    order_id = run_round(market, rounds=2)
    market.say_all(order_id, lambda: find(market, order_id, AuditKind.AGGREGATION, round=1), 1)
    market.say_all(order_id, lambda: find(market, order_id, AuditKind.AGGREGATION))
    assert market.round(order_id, 0).void
    assert market.round(order_id, 1).void
    assert validator(market).stake == STAKE - PRICE_OF_LEG
    assert len(validator(market).faults) == 1
    assert len(market.chain.seen("panel.slashed")) == 2


def fail(market: Market) -> None:
    """Let v0 serve a wrong round."""
    order_id = run_round(market)
    market.say_all(order_id, lambda: find(market, order_id, AuditKind.AGGREGATION))
    market.chain.block()
    assert market.leg(order_id).validator == "v0"


def test_three_faults_jail_a_validator_for_a_time() -> None:
    """It gets no matches and no seats; its power in the consensus stays."""
    market = Market(validators=6)
    for _ in range(2):
        fail(market)
        assert not validator(market).jailed
    fail(market)
    jailed = validator(market)
    assert jailed.jailed
    assert jailed.faults == ()
    assert is_active(jailed)
    with pytest.raises(AssertionError, match="is jailed"):
        market.chain.ok(bid("v0"))
    market.chain.ok(bid("v1"))
    order_id = run_round(market)
    assert market.leg(order_id).validator == "v1"
    market.say_all(order_id, lambda: market.unavailable(order_id), leaves=lambda: ())
    assert sorted(market.seated(order_id)) == ["v2", "v3", "v4", "v5"]


def test_after_the_jail_a_waiting_order_takes_the_bid_that_stood() -> None:
    market = Market(validators=5)
    for _ in range(3):
        fail(market)
    waiting = market.submit(submit(time_to_live=2_000, deadline=9_000))
    assert market.order(waiting).state is OrderState.OPEN
    market.chain.pass_until(validator(market).jailed_until)
    assert not validator(market).jailed
    assert validator(market).jailed_until == 0
    assert market.chain.seen("validator.released")
    market.chain.block()
    assert market.leg(waiting).validator == "v0"


def test_the_jail_leaves_four_validators() -> None:
    market = Market(validators=4)
    for _ in range(4):
        fail(market)
    assert not validator(market).jailed
    assert len(validator(market).faults) == 2


def test_old_faults_do_not_count() -> None:
    market = Market(local_params().replace(fault_period=100), validators=5)
    for _ in range(4):
        fail(market)
        market.chain.pass_time(101)
    assert not validator(market).jailed
