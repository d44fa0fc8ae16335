"""Jobs that stop: a round is closed with the place that has no result, and what was done before is paid."""

from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.ledger.tables import BOND_ACCOUNTS
from chain.state_machine.proof.tables import ROUNDS
from chain.state_machine.registry.tables import VALIDATORS
from domain.errors import BAD_FIELD, BAD_PROOF, SLOT_MISSING, WRONG_STATE
from domain.legs.messages import MsgStopOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.params import Params, local_params
from domain.proof.reasons import ShareReason
from domain.proof.records import (
    AnswerKind,
    AuditKind,
    AuditPlace,
    Ruling,
    SeatAnswer,
    ShareState,
    ShownLeaf,
)
from pol.rules.schedule import segment_work
from pol.rules.stops import AGGREGATION
from tests.support.chain_market import BOND, Market, digest, make_terms, submit

SEGMENT_WORK = segment_work(make_terms())
"""Of the default job: 2 rounds of 2 slots of 2 segments, each 19 M FLOPs, at 10^12 uassay per PFLOP."""


@pytest.fixture
def market() -> Market:
    return Market()


def stopped_order(market: Market, *stops: int | None, **changes: Any) -> bytes:
    """Return an order whose first round was closed where the job stops, with its first seats drawn."""
    order_id = market.run(submit(**changes))
    market.stop_round(order_id, *stops)
    market.wait_stage(order_id)
    return order_id


def finish(market: Market, order_id: bytes) -> None:
    """Let every seat find what the chain has, and all times pass."""
    last = market.leg(order_id).round - 1
    market.answer_all(order_id, last)
    market.chain.pass_time(market.order(order_id).window + 2)
    market.pass_handover(order_id)


def paid(market: Market, order_id: bytes, *kinds: str) -> int:
    return sum(p.amount for p in market.all_of(order_id).payments if p.kind in kinds)


def free(market: Market, name: str) -> int:
    return BOND_ACCOUNTS.must(market.chain.overlay(), name).free


# --- closing -------------------------------------------------------------------------------------


def test_a_round_is_closed_with_the_place_at_which_the_job_stops(market: Market) -> None:
    order_id = market.run()
    market.stop_round(order_id, None, 1)
    leg, closed = market.leg(order_id), market.round(order_id, 0)
    assert market.order(order_id).state is OrderState.PROVEN
    assert (leg.state, leg.round) == (LegState.PROVEN, 1)
    assert closed.stopped == AuditPlace(AuditKind.SEGMENT, 1, 1, 1)
    assert (closed.next_root, closed.ciphertext_root) == (b"", b"")
    # Three whole segments; neither what stopped nor an aggregation is anybody's work.
    assert closed.work == 3 * SEGMENT_WORK
    assert [share.work for share in market.shares(order_id)] == [2 * SEGMENT_WORK, SEGMENT_WORK]
    told = market.chain.seen("round.stopped")[-1]
    assert [told.get(name) for name in ("kind", "slot", "issue", "segment")] == ["1", "1", "1", "1"]
    assert market.chain.seen("share.accepted")[-1].get("segments") == "1"


def test_nothing_goes_on_behind_a_stop(market: Market) -> None:
    order_id = stopped_order(market, 1, 1)
    trace = market.trace(order_id)
    market.chain.refused(WRONG_STATE, market.commit_message(order_id, trace))
    market.chain.refused(WRONG_STATE, MsgStopOrder("v0", order_id, 1))
    market.chain.pass_time(2_000)
    assert market.order(order_id).close_reason != CloseReason.DEADLINE


@pytest.mark.parametrize(
    ("stops", "wrong"),
    [
        ((None, 1), AuditPlace(AuditKind.SEGMENT, 1, 1, 0)),
        ((None, 1), AuditPlace(AuditKind.SEGMENT, 0, 1, 1)),
        ((None, 1), AuditPlace(AuditKind.UPDATE, 1, 1, 1)),
        ((None, 1), AGGREGATION),
        ((1, 0), AuditPlace(AuditKind.SEGMENT, 1, 1, 0)),
        ((None, None), AuditPlace(AuditKind.SEGMENT, 0, 1, 1)),
        ((None, 2), AuditPlace(AuditKind.SEGMENT, 1, 1, 2)),
    ],
)
def test_the_place_is_the_first_that_has_no_result_by_the_shares(
    market: Market, stops: tuple[int | None, ...], wrong: AuditPlace
) -> None:
    order_id = market.run()
    market.commit(order_id, *(market.trace(order_id, at, stop=n) for at, n in enumerate(stops)))
    market.wait_drawn(order_id)
    accept, close = market.stop_messages(order_id)
    market.chain.refused(BAD_FIELD, market.chain.tx(accept, replace(close, stopped=wrong)), field="stopped")
    market.chain.ok(accept, close)


def test_the_first_stop_is_found_whatever_is_accepted_first(market: Market) -> None:
    """The place is that of the lowest slot, in whatever messages and order the shares are accepted."""
    order_id = market.run(submit(terms=make_terms(slots=3), deposit=600_000))
    market.commit(order_id, *(market.trace(order_id, slot, stop=n) for slot, n in enumerate((None, 1, 0))))
    market.wait_drawn(order_id)
    accept, close = market.stop_messages(order_id)
    assert close.stopped == AuditPlace(AuditKind.SEGMENT, 1, 1, 1)
    for share in reversed(accept.shares):
        market.chain.ok(replace(accept, shares=(share,)))
    market.chain.refused(BAD_FIELD, replace(close, stopped=AuditPlace(AuditKind.SEGMENT, 2, 1, 0)), field="stopped")
    market.chain.ok(close)
    assert market.round(order_id, 0).work == 3 * SEGMENT_WORK


def test_a_share_that_ends_early_leads_to_no_next_state(market: Market) -> None:
    order_id = market.run()
    market.commit(order_id, market.trace(order_id, 0), market.trace(order_id, 1, stop=1))
    market.wait_drawn(order_id)
    message, stop = market.close_message(order_id), market.stop_message(order_id)
    market.chain.ok(market.accept_message(order_id))
    market.chain.refused(BAD_FIELD, message, field="stopped")
    for both in (replace(stop, next_root=digest("next")), replace(message, next_root=b"")):
        market.chain.refused(BAD_FIELD, both, field="stopped")
    sealed = replace(stop, ciphertext_root=digest("sealed"))
    market.chain.refused(BAD_FIELD, sealed, field="ciphertext_root")


def test_every_slot_has_a_share_all_the_same(market: Market) -> None:
    """Else a validator would leave out who trained, and keep the work."""
    order_id = market.run()
    market.commit(order_id, market.trace(order_id, 0, stop=0), market.trace(order_id, 1))
    market.wait_drawn(order_id)
    accept, close = market.stop_messages(order_id)
    market.chain.refused(SLOT_MISSING, market.chain.tx(replace(accept, shares=accept.shares[:1]), close))


def test_a_validator_cannot_shorten_what_was_committed(market: Market) -> None:
    """A whole share is not paid as half of one, nor half of one as a whole."""
    order_id = market.run()
    market.commit(order_id, market.trace(order_id, 0), market.trace(order_id, 1, stop=1))
    market.wait_drawn(order_id)
    message = market.accept_message(order_id)
    first = message.shares[0]
    cut = replace(first.roots, update_root=b"", local_out=b"", segments=1)
    market.chain.refused(BAD_PROOF, replace(message, shares=(replace(first, roots=cut), message.shares[1])))
    odd = replace(message.shares[1].roots, segments=2, trace_root=b"")
    bent = replace(message, shares=(first, replace(message.shares[1], roots=odd)))
    market.chain.refused(BAD_FIELD, bent, field="shares")


# --- what is paid --------------------------------------------------------------------------------


def test_a_stop_that_strangers_find_ends_the_order_with_the_consumers_reason(
    market: Market,
) -> None:
    """Whole segments are paid, to slots before and behind the place alike; nobody loses a bond."""
    before = {name: free(market, name) for name in ("v0", *market.clusters["v0"])}
    order_id = stopped_order(market, 1, None)
    panel = market.panel(order_id, 0)
    assert panel.places[0].place == AuditPlace(AuditKind.SEGMENT, 0, 1, 1)
    assert [place.stops for place in panel.places] == [True, *[False] * (len(panel.places) - 1)]
    finish(market, order_id)
    order, leg = market.order(order_id), market.leg(order_id)
    assert (order.state, order.close_reason) == (OrderState.CLOSED, CloseReason.STOPPED_BY_JOB)
    assert leg.state is LegState.DONE
    assert leg.end_reason == LegEnd.STOPPED_BY_JOB
    assert order.work_verified == 3 * SEGMENT_WORK
    # 57,000 for three segments: 1 % and 3 % taken, 70 % of the rest for those who trained.
    total = 57_000
    rest = total - total // 100 - total * 3 // 100
    pool = rest * 7_000 // 10_000
    assert paid(market, order_id, "provider") == pool * 2 // 3 + pool // 3
    assert paid(market, order_id, "validator") == rest - paid(market, order_id, "provider")
    assert paid(market, order_id, "burn", "deposit_burn", "compensation") == 0
    assert {name: free(market, name) for name in before} == before
    assert VALIDATORS.must(market.chain.overlay(), "v0").orders_settled == 1
    found = market.panel(order_id, 0).places[0].finding
    assert found is not None
    assert (found.kind, found.step) == (AnswerKind.STOPPED, 2)


def test_a_job_that_stops_at_once_in_its_only_slot_pays_nobody_for_work() -> None:
    market = Market()
    order_id = stopped_order(market, 0, terms=make_terms(slots=1))
    assert len(market.panel(order_id, 0).places) == 1
    finish(market, order_id)
    assert market.order(order_id).close_reason == CloseReason.STOPPED_BY_JOB
    assert paid(market, order_id, "provider", "validator") == 0
    assert paid(market, order_id, "auditor") > 0


def test_rounds_before_are_paid_and_their_result_can_be_fetched() -> None:
    """The order waits for the hand-over of what an earlier round left; without one there is nothing to wait for."""
    for every, waits in ((1, True), (2, False)):
        market = Market(local_params().replace(handover_every=every))
        order_id = market.run()
        market.train_round(order_id)
        market.answer_all(order_id, 0)
        market.stop_round(order_id, 0, 1)
        market.answer_all(order_id, 1)
        market.chain.pass_until(market.round(order_id, 1).window_ends)
        market.chain.block()
        closed = market.order(order_id).state is OrderState.CLOSED
        assert closed != waits
        market.pass_handover(order_id)
        assert market.order(order_id).close_reason == CloseReason.STOPPED_BY_JOB
        assert market.order(order_id).work_verified == 80_000_000 + SEGMENT_WORK


@pytest.mark.parametrize("stop", [2, None])
def test_an_update_or_an_aggregation_without_an_end_stops_a_job_too(market: Market, stop: int | None) -> None:
    order_id = stopped_order(market, stop, None)
    kind = AuditKind.AGGREGATION if stop is None else AuditKind.UPDATE
    named = market.panel(order_id, 0).places[0]
    assert (named.place.kind, named.stops, named.claim) == (kind, True, b"")
    finish(market, order_id)
    assert market.order(order_id).close_reason == CloseReason.STOPPED_BY_JOB
    assert market.order(order_id).work_verified == 4 * SEGMENT_WORK


def test_a_right_share_that_was_rejected_is_worth_what_it_had(market: Market) -> None:
    order_id = market.run()
    first = market.trace(order_id, 0, stop=1, provider="v0p0")
    market.commit(order_id, first, market.trace(order_id, 1))
    again = market.trace(order_id, 0, stop=1, provider="v0p1", issue=2)
    reason = int(ShareReason.NOT_STOPPED)
    market.commit(order_id, again, reject=[(first.ref, reason)])
    market.wait_drawn(order_id)
    market.chain.ok(*market.stop_messages(order_id))
    market.wait_stage(order_id)
    finish(market, order_id)
    compared = market.chain.seen("share.compared")[-1]
    assert (compared.get("right"), compared.get("paid")) == ("true", "19000")
    states = {s.claim.issue: s.state for s in market.shares(order_id) if s.claim.slot == 0}
    assert states == {1: ShareState.RIGHT, 2: ShareState.ACCEPTED}


def test_a_provider_who_went_on_where_the_job_stops_is_not_paid(market: Market) -> None:
    """And neither is one who stopped where it goes on: by what was accepted and strangers have recomputed."""
    order_id = market.run()
    wrong = market.trace(order_id, 0, provider="v0p0")
    market.commit(order_id, wrong, market.trace(order_id, 1))
    again = market.trace(order_id, 0, stop=1, provider="v0p1", issue=2)
    market.commit(order_id, again, reject=[(wrong.ref, int(ShareReason.NOT_FINITE))])
    market.wait_drawn(order_id)
    market.chain.ok(*market.stop_messages(order_id))
    market.wait_stage(order_id)
    finish(market, order_id)
    compared = market.chain.seen("share.compared")[-1]
    assert (compared.get("right"), compared.get("burnt")) == ("false", "0")


# --- what is wrong -------------------------------------------------------------------------------


def found_at(
    market: Market, order_id: bytes, number: int, kind: AnswerKind, root: bytes = b""
) -> tuple[SeatAnswer, ...]:
    """Return right answers, but for one place."""
    return tuple(
        replace(answer, kind=kind, root=root, step=0) if answer.place == number else answer
        for answer in market.answers(order_id)
    )


@pytest.mark.parametrize("stops", [(1, None), (0, 0), (2, None), (None, None)])
def test_a_stop_where_the_job_goes_on_costs_as_a_wrong_aggregation_does(
    market: Market, stops: tuple[int | None, ...]
) -> None:
    """A validator who would get out of an order, with or without an accomplice; the place is always drawn."""
    order_id = stopped_order(market, *stops)
    market.say_all(order_id, lambda: found_at(market, order_id, 0, AnswerKind.FINISHED, digest("it goes on")))
    assert market.panel(order_id, 0).places[0].ruling is Ruling.WRONG
    leg = market.all_of(order_id).legs[0]
    assert leg.end_reason == LegEnd.WRONG_ROUND
    assert paid(market, order_id, "provider", "validator") == 0
    assert paid(market, order_id, "burn") + paid(market, order_id, "compensation") > 0
    assert market.order(order_id).excluded == ("v0",)
    # Whoever trained keeps its bond: that the job stops is the validator's word.
    assert free(market, "v0p0") == free(market, "v0p1") == BOND


def test_a_stop_of_which_nothing_is_served_is_the_validators_fault(market: Market) -> None:
    order_id = stopped_order(market, 1, None)
    market.fault_round(order_id)
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.WRONG_ROUND


def test_a_stop_that_is_hidden_is_found_where_it_is(market: Market) -> None:
    """Who closes a round with a state that the job does not reach: strangers find that it stops."""
    order_id = market.run(submit(rematch=False))
    market.train_round(order_id)
    market.wait_stage(order_id)
    panel = market.panel(order_id, 0)
    assert not any(place.stops for place in panel.places)
    market.say_all(order_id, lambda: found_at(market, order_id, 0, AnswerKind.STOPPED))
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.WRONG_ROUND


def test_a_false_end_beside_a_true_stop_is_the_validators_word_too() -> None:
    """An accomplice who ends a share at its first step, so that nobody who trains it is paid."""
    params: Params = local_params().replace(audit_segments=4, audit_places_max=8)
    market = Market(params)
    order_id = stopped_order(market, 0, 0, deposit=10**6)
    places = market.panel(order_id, 0).places
    assert [place.place for place in places] == [
        AuditPlace(AuditKind.SEGMENT, 0, 1, 0),
        AuditPlace(AuditKind.SEGMENT, 1, 1, 0),
    ]
    assert all(place.stops for place in places)
    market.say_all(order_id, lambda: found_at(market, order_id, 1, AnswerKind.FINISHED, digest("it goes on")))
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.WRONG_ROUND


def test_a_wrong_segment_before_a_true_stop_is_its_providers_fault() -> None:
    params = local_params().replace(duty_segments=1, audit_segments=8, audit_places_max=12)
    market = Market(params)
    order_id = stopped_order(market, 4, terms=make_terms(slots=1, round_steps=10), deposit=10**6)
    (share,) = market.shares(order_id)
    # The stop is the validator's duty, and what was drawn.
    segment = next(iter({1, 2} - set(share.drawn)))
    places = [place.place for place in market.panel(order_id, 0).places]
    number = places.index(AuditPlace(AuditKind.SEGMENT, 0, 1, segment))
    market.say_all(order_id, lambda: found_at(market, order_id, number, AnswerKind.FINISHED, digest("another state")))
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.WRONG_SHARE


def test_what_the_validator_has_to_replay_before_a_stop_is_its_fault() -> None:
    params = local_params().replace(duty_segments=3, audit_segments=8, audit_places_max=12)
    market = Market(params)
    order_id = stopped_order(market, 4, terms=make_terms(slots=1, round_steps=10), deposit=10**6)
    (share,) = market.shares(order_id)
    segment = min(share.drawn)
    assert segment < 4
    places = [place.place for place in market.panel(order_id, 0).places]
    number = places.index(AuditPlace(AuditKind.SEGMENT, 0, 1, segment))
    market.say_all(order_id, lambda: found_at(market, order_id, number, AnswerKind.FINISHED, digest("another state")))
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.WRONG_ROUND


def test_nobody_shows_a_leaf_behind_a_stop() -> None:
    market = Market(local_params().replace(round_window=40))
    order_id = stopped_order(market, 1, None)
    first, second = market.seated(order_id)
    right = market.answers(order_id)
    market.chain.ok(*(market.commit_answer(order_id, 0, name, right) for name in (first, second)))
    leaf = market.traces[order_id, 1, 0, market.shares(order_id)[0].claim.key.ref].leaves[0]
    wrong = market.reveal_answer(order_id, 0, first, right, (ShownLeaf(0, leaf),))
    market.chain.refused(BAD_FIELD, wrong, field="leaves")
    market.chain.ok(market.reveal_answer(order_id, 0, first, right))


def test_without_auditors_a_stop_is_the_operators_word() -> None:
    market = Market(local_params().replace(auditors=0))
    order_id = market.run()
    market.stop_round(order_id, 1, 1)
    market.chain.pass_time(market.order(order_id).window + 2)
    market.pass_handover(order_id)
    assert market.order(order_id).close_reason == CloseReason.STOPPED_BY_JOB
    assert ROUNDS.must(market.chain.overlay(), order_id, 1, 0).verified
