"""Challenges of places that the lots missed, and everything that can be wrong with a challenge."""

from dataclasses import replace

import pytest

from chain.state_machine.ledger.tables import BOND_ACCOUNTS
from chain.state_machine.market.tables import HOLDS
from domain.disputes.messages import MsgChallenge, MsgOpenChallenge
from domain.disputes.queries import DisputesRequest
from domain.disputes.records import Dispute, DisputeState
from domain.errors import BAD_PROOF, INSUFFICIENT_BOND, NOT_FOUND, NOT_YOURS, WRONG_STATE
from domain.ledger.messages import MsgDepositBond
from domain.legs.reasons import LegEnd
from domain.limits import DISPUTES_MAX
from domain.market.records import ChallengeTerms
from domain.params import Params, local_params
from domain.proof.records import AnswerKind, AuditKind, AuditPlace, Finding, Ruling, SeatAnswer, Share
from pol.rules.disputes import challenge_commitment
from tests.support.chain_harness import CHAIN_ID
from tests.support.chain_market import BOND, CONSUMER, Market, digest, make_terms, submit

SALT = digest("salt of a challenge")
RIGHT_ROOT = digest("what it should be")


def params(**changes: int) -> Params:
    return local_params().replace(
        **{"auditors": 2, "audit_places_max": 4, "round_window": 200, "duty_segments": 1, **changes}
    )


def closed_round(*, validators: int = 9, **changes: int) -> tuple[Market, bytes]:
    """An order with a closed round that has many more segments than its panel draws."""
    market = Market(params(**changes), validators=validators)
    terms = make_terms(round_steps=64, slots=1, rounds=1)
    anyone = ChallengeTerms(anyone=True)
    order_id = market.run(submit(terms=terms, deposit=2_000_000, challenges=anyone))
    market.chain.ok(MsgDepositBond(CONSUMER, BOND))
    market.train_round(order_id)
    return market, order_id


def verified_by_lot(market: Market, order_id: bytes) -> None:
    """Let the round's own panel find everything right."""
    market.answer_all(order_id, 0)
    assert all(place.ruling is Ruling.RIGHT for place in market.panel(order_id, 0).places)


def missed(market: Market, order_id: bytes) -> AuditPlace:
    """Return a segment that neither the round's panel nor the duty of its validator has."""
    (share,) = market.shares(order_id)
    drawn = {place.place for place in market.wait_stage(order_id).places}
    for segment in range(1, 31):
        place = AuditPlace(AuditKind.SEGMENT, 0, share.claim.issue, segment)
        if place not in drawn and segment not in share.drawn:
            return place
    raise AssertionError("the lots missed nothing")


def drawn_segment(market: Market, order_id: bytes) -> AuditPlace:
    places = (place.place for place in market.wait_stage(order_id).places)
    return next(place for place in places if place.kind is AuditKind.SEGMENT)


def claim(root: bytes = RIGHT_ROOT) -> Finding:
    return Finding(AnswerKind.FINISHED, root, 0)


def commitment(market: Market, order_id: bytes, place: AuditPlace, what: Finding, name: str) -> bytes:
    return challenge_commitment(CHAIN_ID, market.round(order_id, 0).key, place, what, SALT, name)


def commit(
    market: Market,
    order_id: bytes,
    place: AuditPlace,
    what: Finding | None = None,
    name: str = CONSUMER,
    bond: int = 10_000_000,
) -> MsgChallenge:
    made = commitment(market, order_id, place, what or claim(), name)
    return MsgChallenge(name, order_id, 1, 0, made, bond)


def opening(
    order_id: bytes, place: AuditPlace, what: Finding | None = None, name: str = CONSUMER, number: int = 1
) -> MsgOpenChallenge:
    return MsgOpenChallenge(name, order_id, 1, 0, number, place, what or claim(), SALT)


def dispute(market: Market, order_id: bytes, number: int = 1) -> Dispute:
    found: tuple[Dispute, ...] = market.chain.ask(DisputesRequest(order_id)).disputes
    return found[number - 1]


def free(market: Market, name: str) -> int:
    return BOND_ACCOUNTS.must(market.chain.overlay(), name).free


def found_wrong(market: Market, order_id: bytes) -> tuple[SeatAnswer, ...]:
    return tuple(replace(answer, root=RIGHT_ROOT) for answer in market.answers(order_id))


def test_a_made_up_segment_that_the_lots_missed_is_found_by_a_challenge() -> None:
    market, order_id = closed_round()
    place = missed(market, order_id)
    verified_by_lot(market, order_id)
    before = free(market, CONSUMER)
    coins = market.chain.balance("v0p0")
    market.chain.ok(commit(market, order_id, place))
    assert free(market, CONSUMER) == before - 10_000_000
    market.chain.ok(opening(order_id, place))
    market.about = 1
    market.say_all(order_id, lambda: found_wrong(market, order_id))
    closed = market.round_of(order_id, 1, 0)
    assert closed.void
    market.chain.pass_time(5)
    after = dispute(market, order_id)
    assert after.state is DisputeState.UPHELD
    assert free(market, CONSUMER) == before
    (share,) = market.all_of(order_id).shares
    # A fifth of the share's bond, out of what would have been burnt.
    assert 0 < after.reward <= share.bond // 5
    assert [event.get("reward") for event in market.chain.seen("challenge.rewarded")] == [str(after.reward)]
    leg = market.all_of(order_id).legs[0]
    assert leg.end_reason == LegEnd.WRONG_SHARE
    paid = {event.get("auditor") for event in market.chain.seen("panel.paid")}
    assert set(market.chain.seen("panel.stage")[-1].get("seats").split(",")) <= paid
    assert market.chain.balance("v0p0") == coins


def test_a_false_challenge_pays_the_seats_and_the_accused_and_the_rest_is_burnt() -> None:
    market, order_id = closed_round()
    place = missed(market, order_id)
    verified_by_lot(market, order_id)
    before, coins = free(market, CONSUMER), market.chain.balance("v0")
    market.chain.ok(commit(market, order_id, place))
    market.chain.ok(opening(order_id, place))
    market.about = 1
    market.say_all(order_id, lambda: market.answers(order_id))
    market.chain.pass_time(3)
    after = dispute(market, order_id)
    assert after.state is DisputeState.FAILED
    fee = market.order(order_id).params.answer_fee
    seats = sum(int(event.get("paid")) for event in market.chain.seen("panel.paid") if event.get("dispute") == "1")
    assert seats > 0
    assert after.burnt == 10_000_000 - seats - fee
    assert market.chain.balance("v0") - coins == fee
    assert free(market, CONSUMER) == before - 10_000_000
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    market.chain.pass_time(2)
    assert market.round(order_id, 0).verified


def test_an_open_challenge_holds_its_round_and_moves_the_deadlines() -> None:
    market, order_id = closed_round()
    place = missed(market, order_id)
    verified_by_lot(market, order_id)
    deadline = market.order(order_id).deadline
    market.chain.pass_until(market.round(order_id, 0).window_ends - 4)
    market.chain.ok(commit(market, order_id, place))
    market.chain.ok(opening(order_id, place))
    market.about = 1
    market.wait_stage(order_id)
    market.chain.pass_until(market.round(order_id, 0).window_ends + 5)
    assert not market.round(order_id, 0).verified
    market.say_all(order_id, lambda: market.answers(order_id))
    market.chain.pass_time(3)
    assert market.round(order_id, 0).verified
    assert market.order(order_id).deadline > deadline


def test_a_challenge_that_is_not_opened_holds_nothing_and_loses_the_least_bond() -> None:
    market, order_id = closed_round(challenge_min=5_000)
    place = missed(market, order_id)
    verified_by_lot(market, order_id)
    before = free(market, CONSUMER)
    market.chain.ok(commit(market, order_id, place))
    assert not HOLDS.scan(market.chain.overlay(), order_id)
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    market.chain.pass_time(3)
    assert dispute(market, order_id).state is DisputeState.EXPIRED
    assert free(market, CONSUMER) == before - 5_000
    assert market.round(order_id, 0).verified


def test_a_copied_commitment_cannot_be_opened() -> None:
    market, order_id = closed_round()
    place = missed(market, order_id)
    mine = commit(market, order_id, place)
    market.chain.ok(mine, replace(mine, challenger="v8"))
    market.chain.refused(BAD_PROOF, opening(order_id, place, name="v8", number=2), field="place")
    market.chain.refused(NOT_YOURS, opening(order_id, place, name="v8"), field="challenger")
    market.chain.ok(opening(order_id, place))


def test_the_first_commitment_has_the_reward_even_if_it_is_opened_later() -> None:
    market, order_id = closed_round()
    place = missed(market, order_id)
    verified_by_lot(market, order_id)
    before = free(market, "v8p1")
    market.chain.ok(commit(market, order_id, place), commit(market, order_id, place, name="v8p1"))
    market.chain.ok(opening(order_id, place, name="v8p1", number=2))
    market.chain.ok(opening(order_id, place))
    market.about = 2
    market.say_all(order_id, lambda: found_wrong(market, order_id))
    market.chain.pass_time(5)
    first, second = dispute(market, order_id), dispute(market, order_id, 2)
    assert (first.state, first.joins, second.joined) == (DisputeState.UPHELD, 2, (1,))
    assert first.reward > 0
    assert second.reward == 0
    assert free(market, "v8p1") == before


def test_a_challenger_who_only_guesses_gets_no_reward() -> None:
    market, order_id = closed_round()
    place = missed(market, order_id)
    verified_by_lot(market, order_id)
    guess = claim(digest("a guess"))
    market.chain.ok(commit(market, order_id, place, guess))
    market.chain.ok(opening(order_id, place, guess))
    market.about = 1
    market.say_all(order_id, lambda: found_wrong(market, order_id))
    market.chain.pass_time(5)
    after = dispute(market, order_id)
    assert (after.state, after.reward) == (DisputeState.UPHELD, 0)


def test_a_place_that_is_not_served_brings_no_reward() -> None:
    # The job bond is so large that the seats and the consumer leave a part of it.
    market, order_id = closed_round(job_bond_bps=5_000)
    place = missed(market, order_id)
    verified_by_lot(market, order_id)
    before = free(market, CONSUMER)
    unserved = Finding(AnswerKind.UNAVAILABLE, b"", 0)
    market.chain.ok(commit(market, order_id, place, unserved))
    market.chain.ok(opening(order_id, place, unserved))
    market.about = 1
    market.fault_round(order_id)
    market.chain.pass_time(5)
    after = dispute(market, order_id)
    assert (after.state, after.reward) == (DisputeState.UPHELD, 0)
    assert free(market, CONSUMER) == before
    found = market.all_of(order_id)
    assert found.legs[0].end_reason == LegEnd.WRONG_ROUND
    assert any(payment.kind == "burn" and payment.amount > 10_000 for payment in found.payments)


def second_round(wait: int, *, in_duty: bool) -> tuple[Market, bytes, Share, AuditPlace | None]:
    """Return a market whose first round is paid, and a segment of the second that no panel has drawn, if there is one.

    The lots depend on the heights, so on the number of blocks to ``wait`` before the order.
    """
    market = Market(params(job_bond_bps=4_000), validators=9)
    for _ in range(wait):
        market.chain.block(seconds=0)
    terms = make_terms(round_steps=64, slots=1, rounds=2)
    order_id = market.run(submit(terms=terms, deposit=4_000_000))
    market.chain.ok(MsgDepositBond(CONSUMER, BOND))
    market.train_round(order_id)
    verified_by_lot(market, order_id)
    market.train_round(order_id)
    market.answer_all(order_id, 1)
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified
    share = next(share for share in market.shares(order_id) if share.claim.round == 1)
    drawn = {each.place for each in market.panel(order_id, 1).places}
    places = (AuditPlace(AuditKind.SEGMENT, 0, 1, segment) for segment in range(1, 31))
    place = next((p for p in places if p not in drawn and (p.segment in share.drawn) == in_duty), None)
    return market, order_id, share, place


def challenged_second_round(*, in_duty: bool) -> tuple[Market, bytes, Share]:
    """Return a market in which a challenger found a segment of the second round wrong; the first one is paid."""
    worlds = (second_round(wait, in_duty=in_duty) for wait in range(20))
    market, order_id, share, place = next(world for world in worlds if world[3] is not None)
    assert place is not None
    made = challenge_commitment(CHAIN_ID, market.round(order_id, 1).key, place, claim(), SALT, CONSUMER)
    market.chain.ok(MsgChallenge(CONSUMER, order_id, 1, 1, made, 10_000_000))
    market.chain.ok(MsgOpenChallenge(CONSUMER, order_id, 1, 1, 1, place, claim(), SALT))
    market.about = 1
    market.say_all(order_id, lambda: tuple(replace(a, root=RIGHT_ROOT) for a in market.answers(order_id, 1)), 1)
    market.chain.pass_time(5)
    return market, order_id, share


def test_the_reward_for_a_wrong_share_comes_out_of_the_half_of_its_bond_that_is_burnt() -> None:
    market, order_id, share = challenged_second_round(in_duty=False)
    after = dispute(market, order_id)
    # The seats and the consumer get the other half.
    assert (after.state, after.reward) == (DisputeState.UPHELD, share.bond // 5)


def test_the_consumer_is_compensated_before_the_challenger_of_a_validators_fault_is_rewarded() -> None:
    market, order_id, _ = challenged_second_round(in_duty=True)
    after = dispute(market, order_id)
    # What the consumer paid for the first round is more than what is left of the job bond.
    assert (after.state, after.reward) == (DisputeState.UPHELD, 0)


def test_a_decided_place_needs_a_bond_that_pays_all_listed_auditors() -> None:
    market, order_id = closed_round(challenge_min=1)
    market.wait_stage(order_id)
    place = drawn_segment(market, order_id)
    verified_by_lot(market, order_id)
    seat = 20_000 + market.order(order_id).params.answer_fee
    # Enough for the seats of two stages, but not for one of each of the nine validators.
    market.chain.ok(commit(market, order_id, place, bond=9 * seat - 1))
    market.chain.ok(opening(order_id, place))
    assert dispute(market, order_id).state is DisputeState.EXPIRED
    market.chain.ok(commit(market, order_id, place, bond=9 * seat))
    market.chain.ok(opening(order_id, place, number=2))
    assert dispute(market, order_id, 2).state is DisputeState.OPEN


def test_a_bond_that_does_not_pay_the_panel_counts_as_not_opened() -> None:
    market, order_id = closed_round(challenge_min=1)
    place = missed(market, order_id)
    before = free(market, CONSUMER)
    market.chain.ok(commit(market, order_id, place, bond=100))
    market.chain.ok(opening(order_id, place))
    assert dispute(market, order_id).state is DisputeState.EXPIRED
    assert free(market, CONSUMER) == before - 1


def test_each_open_challenge_of_a_round_doubles_the_bond_of_the_next_one() -> None:
    market, order_id = closed_round()
    (share,) = market.shares(order_id)
    drawn = {place.place for place in market.wait_stage(order_id).places}
    places = [AuditPlace(AuditKind.SEGMENT, 0, share.claim.issue, number) for number in range(8)]
    free_places = [place for place in places if place not in drawn]
    needed = 3 * 2 * (37 + market.order(order_id).params.answer_fee) + 100_000
    states = []
    for number, place in enumerate(free_places[:4], 1):
        market.chain.ok(commit(market, order_id, place, bond=4 * needed))
        market.chain.ok(opening(order_id, place, number=number))
        states.append(dispute(market, order_id, number).state)
    assert states[0] is DisputeState.OPEN
    assert states[-1] is DisputeState.EXPIRED


def test_taking_all_challenges_of_a_round_is_dear() -> None:
    market, order_id = closed_round(challenge_min=1_000)
    place = missed(market, order_id)
    cost = 0
    for price in range(DISPUTES_MAX // 4):
        least = 1_000 << price
        if 4 * least > BOND - cost:
            break
        whats = [claim(digest(price, number)) for number in range(4)]
        short = commit(market, order_id, place, whats[0], bond=least - 1)
        market.chain.refused(INSUFFICIENT_BOND, short, field="bond")
        market.chain.ok(*(commit(market, order_id, place, what, bond=least) for what in whats))
        cost += 4 * least
    assert cost > 250_000 * 1_000


def test_a_decided_place_is_decided_again_by_all_validators_that_are_left() -> None:
    market, order_id = closed_round()
    market.wait_stage(order_id)
    place = drawn_segment(market, order_id)
    first = set(market.seated(order_id))
    verified_by_lot(market, order_id)
    market.chain.ok(commit(market, order_id, place))
    market.chain.ok(opening(order_id, place))
    market.about = 1
    panel = market.wait_stage(order_id)
    assert panel.is_last
    assert first < set(market.seated(order_id))
    market.say_all(order_id, lambda: found_wrong(market, order_id))
    market.chain.pass_time(5)
    after = dispute(market, order_id)
    assert (after.state, after.again, after.reward) == (DisputeState.UPHELD, True, 0)
    assert market.round_of(order_id, 1, 0).void


def test_a_second_decision_that_fails_leaves_the_first_ruling() -> None:
    market, order_id = closed_round()
    market.wait_stage(order_id)
    place = drawn_segment(market, order_id)
    verified_by_lot(market, order_id)
    before = free(market, CONSUMER)
    market.chain.ok(commit(market, order_id, place))
    market.chain.ok(opening(order_id, place))
    market.about = 1
    market.wait_stage(order_id)
    market.say(order_id, {})
    market.chain.pass_time(5)
    assert dispute(market, order_id).state is DisputeState.UNDECIDED
    assert free(market, CONSUMER) == before
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    market.chain.pass_time(2)
    assert market.round(order_id, 0).verified


def test_a_place_that_the_panel_recomputes_now_needs_no_challenge() -> None:
    market, order_id = closed_round()
    place = drawn_segment(market, order_id)
    before = free(market, CONSUMER)
    market.chain.ok(commit(market, order_id, place))
    market.chain.ok(opening(order_id, place))
    assert dispute(market, order_id).state is DisputeState.DROPPED
    assert free(market, CONSUMER) == before


def test_challenges_of_a_round_that_becomes_void_anyway_are_dropped() -> None:
    market, order_id = closed_round()
    place = missed(market, order_id)
    before = free(market, CONSUMER), free(market, "v8p1")
    market.chain.ok(commit(market, order_id, place), commit(market, order_id, place, name="v8p1"))
    market.chain.ok(opening(order_id, place))
    market.fault_round(order_id)
    market.chain.pass_time(5)
    assert [dispute(market, order_id, number).state for number in (1, 2)] == [DisputeState.DROPPED] * 2
    assert (free(market, CONSUMER), free(market, "v8p1")) == before


def test_the_challengers_validator_does_not_sit_in_its_panel() -> None:
    market, order_id = closed_round(validators=5)
    place = missed(market, order_id)
    market.chain.ok(commit(market, order_id, place, name="v3"))
    market.chain.ok(opening(order_id, place, name="v3"))
    market.about = 1
    market.wait_stage(order_id)
    one, other = market.seated(order_id)
    lie = tuple(replace(answer, root=digest("lie")) for answer in market.answers(order_id))
    market.say(order_id, {one: lie, other: market.answers(order_id)})
    assert market.wait_stage(order_id, stage=2).is_last
    assert sorted(market.seated(order_id)) == ["v1", "v2", "v4"]


@pytest.mark.parametrize("what", ["late", "foreign place", "unknown round", "twice"])
def test_refused_challenges(what: str) -> None:
    market, order_id = closed_round()
    place = missed(market, order_id)
    if what == "late":
        verified_by_lot(market, order_id)
        market.chain.pass_until(market.round(order_id, 0).window_ends + 1)
        market.chain.refused(NOT_FOUND, commit(market, order_id, place), field="round")
    elif what == "foreign place":
        other = replace(place, issue=place.issue + 1)
        market.chain.ok(commit(market, order_id, other))
        market.chain.refused(NOT_FOUND, opening(order_id, other), field="place")
    elif what == "unknown round":
        market.chain.refused(NOT_FOUND, replace(commit(market, order_id, place), round=1), field="round")
    else:
        market.chain.ok(commit(market, order_id, place))
        market.chain.ok(opening(order_id, place))
        market.chain.refused(WRONG_STATE, opening(order_id, place), field="number")
