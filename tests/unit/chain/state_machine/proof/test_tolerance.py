"""Orders in the tier ``tolerance``: own states of seats, reviews that a lot draws, and the money of both."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from chain.state_machine.proof.tables import PanelSubject
from chain.state_machine.registry.tables import VALIDATORS
from domain.amount import BPS
from domain.errors import BAD_FIELD, BAD_PROOF, Code
from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.market.records import Conditions
from domain.proof.records import AnswerKind, AuditKind, PanelState, Review, Ruling, SeatAnswer
from pol.rules.lots import draw, seed
from pol.rules.panels import stage_seconds
from pol.rules.tiers.exact import EXACT
from pol.rules.tiers.remarks import COMPARED, write_remarks
from pol.rules.tiers.tolerance import REVIEW_RATE, TOLERANCE
from tests.support.chain_market import Market, bid, digest, make_terms, submit

STAKE = 10**10
NAME = TOLERANCE.name
TIERED = submit(conditions=Conditions(tiers=(NAME,)), rematch=False, deposit=10**6)
NOTHING = write_remarks((), ())
Remarks = Mapping[int, bytes]
"""Remarks about the seats of a stage, by the number of the stage."""


def make_market(validators: int = 8) -> Market:
    market = Market(validators=validators, bidders=())
    market.chain.ok(bid("v0", tiers=(NAME,)))
    return market


def compared(
    market: Market, order_id: bytes, name: str, remarks: Remarks | None = None, kind: AnswerKind = AnswerKind.WITHIN
) -> tuple[SeatAnswer, ...]:
    """The answers of a seat that has an end state of its own for each segment."""
    panel = market.panel(order_id, 0)
    said = []
    for answer in market.answers(order_id):
        if panel.places[answer.place].place.kind is not AuditKind.SEGMENT:
            said.append(answer)
            continue
        earlier = tuple((remarks or {}).get(stage, NOTHING) for stage in range(1, len(panel.earlier_seeds) + 1))
        root = answer.root if kind is AnswerKind.WITHIN else b""
        own = digest("own", name, answer.place)
        said.append(replace(answer, kind=kind, root=root, digest=own, earlier=earlier))
    return tuple(said)


def say(
    market: Market, order_id: bytes, remarks: Remarks | None = None, *, kind: AnswerKind = AnswerKind.WITHIN
) -> None:
    """Let every seat of the open stage compare, with the same remarks and the same result."""
    stage = market.panel(order_id, 0).stage
    names = [seat.validator for seat in market.seats(order_id, 0, stage)]
    market.say(order_id, {name: compared(market, order_id, name, remarks, kind) for name in names})


def closed_round(market: Market) -> bytes:
    order_id = market.run(TIERED)
    assert market.leg(order_id).tier == NAME
    market.train_round(order_id)
    market.wait_stage(order_id)
    return order_id


def draw_review(market: Market, order_id: bytes, *, drawn: bool) -> None:
    """Make blocks until the seed of the next stage has drawn a review, or none."""
    panel = market.panel(order_id, 0)
    assert panel.review is Review.WAITS
    subject = PanelSubject(panel.key, panel.stage + 1)

    def fits(beacon: bytes) -> bool:
        (number,) = draw(seed("panel/review", subject.id, beacon), BPS, 1)
        return (number < REVIEW_RATE) is drawn

    for _ in range(40):
        now = market.panel(order_id, 0)
        if now.stage > panel.stage or now.review is not Review.WAITS:
            assert (now.stage > panel.stage) is drawn
            market.chain.block()
            return
        market.chain.block(value=market.chain.value_for(fits))
    raise AssertionError("nothing was drawn")


def lost(market: Market, name: str) -> int:
    return STAKE - VALIDATORS.must(market.chain.overlay(), name).stake


def segments_of(market: Market, order_id: bytes) -> list[Ruling]:
    places = market.panel(order_id, 0).places
    return [place.ruling for place in places if place.place.kind is AuditKind.SEGMENT]


# --- a stage without and with a review -----------------------------------------------------------


def test_a_stage_that_is_not_reviewed_is_ruled_and_paid() -> None:
    market = make_market()
    order_id = closed_round(market)
    say(market, order_id)
    panel = market.panel(order_id, 0)
    assert panel.state is PanelState.DRAWING
    assert set(segments_of(market, order_id)) == {Ruling.OPEN}
    assert {place.ruling for place in panel.places if place.place.kind is not AuditKind.SEGMENT} == {Ruling.RIGHT}
    draw_review(market, order_id, drawn=False)
    assert set(segments_of(market, order_id)) == {Ruling.RIGHT}
    market.chain.pass_time(market.order(order_id).window + 2)
    assert market.round(order_id, 0).verified
    assert all(lost(market, name) == 0 for name in market.seated(order_id))
    market.chain.check_books()


def test_a_review_has_one_seat_for_each_group_and_is_paid_from_the_fee() -> None:
    market = make_market()
    order_id = closed_round(market)
    say(market, order_id)
    draw_review(market, order_id, drawn=True)
    panel = market.panel(order_id, 0)
    reviewers = market.seats(order_id, 0, 2)
    assert len(reviewers) == len(panel.wanted) == 1
    assert {panel.places[number].place.kind for number in reviewers[0].places} == {AuditKind.SEGMENT}
    say(market, order_id)
    draw_review(market, order_id, drawn=False)
    market.chain.pass_time(market.order(order_id).window + 2)
    assert market.round(order_id, 0).verified
    paid = market.chain.seen("panel.paid")
    assert {event.get("auditor") for event in paid} == {*market.seated(order_id), reviewers[0].validator}
    assert all(int(event.get("from_pool")) == 0 for event in paid)
    market.chain.check_books()


def test_a_review_may_be_reviewed_and_the_last_stages_are_not() -> None:
    market = make_market(validators=12)
    order_id = closed_round(market)
    say(market, order_id)
    draw_review(market, order_id, drawn=True)
    say(market, order_id)
    draw_review(market, order_id, drawn=True)
    say(market, order_id)
    # The fourth stage would be that of all validators.
    assert market.panel(order_id, 0).review is Review.NONE
    assert set(segments_of(market, order_id)) == {Ruling.RIGHT}


def test_a_whole_order_settles() -> None:
    market = make_market()
    order_id = market.run(TIERED)
    for round in range(2):
        market.train_round(order_id)
        market.wait_stage(order_id, round)
        panel = market.panel(order_id, round)
        right = {
            name: tuple(
                _own(panel.places[answer.place].place.kind, answer, name) for answer in market.answers(order_id, round)
            )
            for name in market.seated(order_id, round)
        }
        market.say(order_id, right, round)
        market.chain.pass_time(20)
        while market.panel(order_id, round).undecided:
            stage = market.panel(order_id, round).stage
            names = [seat.validator for seat in market.seats(order_id, round, stage)]
            again = {
                name: tuple(
                    replace(_own(AuditKind.SEGMENT, answer, name), earlier=(NOTHING,) * (stage - 1))
                    for answer in market.answers(order_id, round)
                )
                for name in names
            }
            market.say(order_id, again, round)
            market.chain.pass_time(20)
    market.chain.pass_time(market.order(order_id).window + 2)
    market.pass_handover(order_id)
    assert market.order(order_id).close_reason == CloseReason.SETTLED
    market.chain.check_books()


def _own(kind: AuditKind, answer: SeatAnswer, name: str) -> SeatAnswer:
    if kind is not AuditKind.SEGMENT:
        return answer
    return replace(answer, kind=AnswerKind.WITHIN, digest=digest("own", name, answer.place))


# --- cheats --------------------------------------------------------------------------------------


def test_a_claim_outside_makes_the_round_void_at_the_cost_of_its_provider() -> None:
    market = make_market()
    order_id = closed_round(market)
    say(market, order_id, kind=AnswerKind.OUTSIDE)
    market.wait_stage(order_id, 0, 2)
    say(market, order_id, kind=AnswerKind.OUTSIDE)
    panel = market.panel(order_id, 0)
    assert set(segments_of(market, order_id)) == {Ruling.WRONG}
    market.chain.pass_until(panel.appeal_until)
    assert market.round(order_id, 0).void
    assert market.leg(order_id).end_reason in (LegEnd.WRONG_SHARE, LegEnd.WRONG_ROUND)
    market.chain.check_books()


def test_a_segment_of_the_duty_that_is_outside_costs_the_job_bond_and_no_slash() -> None:
    """A machine that no profile has may be outside the thresholds without a lie."""
    market = make_market()
    order_id = closed_round(market)
    for stage in (1, 2):
        market.wait_stage(order_id, 0, stage)
        say(market, order_id, kind=AnswerKind.OUTSIDE)
    panel = market.panel(order_id, 0)
    shares = {(share.key.slot, share.key.issue): share for share in market.shares(order_id)}
    wrong = [place.place for place in panel.places if place.ruling is Ruling.WRONG]
    assert any(place.segment in shares[place.slot, place.issue].drawn for place in wrong)
    market.chain.pass_until(panel.appeal_until)
    market.chain.pass_time(market.order(order_id).window + 2)
    assert market.round(order_id, 0).void
    assert market.leg(order_id).end_reason == LegEnd.WRONG_ROUND
    assert not market.panel(order_id, 0).for_slash
    assert lost(market, "v0") == 0


def _reviewed(market: Market, order_id: bytes, first: Remarks, then: Remarks) -> list[str]:
    """Let a review be drawn whose seat says ``first``, and a further stage whose seats say ``then``."""
    say(market, order_id)
    draw_review(market, order_id, drawn=True)
    say(market, order_id, first)
    market.wait_stage(order_id, 0, 3)
    say(market, order_id, then)
    if market.panel(order_id, 0).review is Review.WAITS:
        draw_review(market, order_id, drawn=False)
    market.chain.pass_time(market.order(order_id).window + 2)
    assert market.round(order_id, 0).verified
    market.chain.check_books()
    return [seat.validator for seat in market.seats(order_id, 0)]


def test_a_seat_that_did_not_compute_is_refuted_when_two_stages_find_it() -> None:
    market = make_market(validators=12)
    order_id = closed_round(market)
    bad = write_remarks((0,), ())
    lazy, *others = _reviewed(market, order_id, {1: bad}, {1: bad})
    assert lost(market, lazy) > 0
    assert all(lost(market, name) == 0 for name in others)
    paid = {event.get("auditor"): int(event.get("paid")) for event in market.chain.seen("panel.paid")}
    # It is paid for the places that are exact, like its neighbour, but neither for segments nor the answer fee.
    assert 0 < paid[lazy] < paid[others[0]]


def test_a_reviewer_that_accuses_wrongly_is_refuted() -> None:
    market = make_market(validators=12)
    order_id = closed_round(market)
    names = _reviewed(market, order_id, {1: write_remarks((0,), ())}, {})
    assert [lost(market, name) > 0 for name in names] == [False, False, True, *[False] * (len(names) - 3)]


def test_a_reviewer_that_one_seat_did_not_serve_loses_nothing() -> None:
    market = make_market(validators=12)
    order_id = closed_round(market)
    names = _reviewed(market, order_id, {1: write_remarks((), (0,))}, {})
    assert all(lost(market, name) == 0 for name in names)


def test_a_silent_reviewer_pays_and_the_others_are_paid() -> None:
    market = make_market()
    order_id = closed_round(market)
    say(market, order_id)
    draw_review(market, order_id, drawn=True)
    (reviewer,) = market.seats(order_id, 0, 2)
    market.chain.pass_time(stage_seconds(market.order(order_id).params, market.order(order_id).audit_ms) + 5)
    assert lost(market, reviewer.validator) > 0
    if market.panel(order_id, 0).review is Review.WAITS:
        draw_review(market, order_id, drawn=False)
    market.chain.pass_time(market.order(order_id).window + 2)
    assert market.round(order_id, 0).verified


# --- messages ------------------------------------------------------------------------------------


def _change(change: Callable[[SeatAnswer], SeatAnswer]) -> Callable[[tuple[SeatAnswer, ...]], tuple[SeatAnswer, ...]]:
    return lambda said: tuple(change(each) if each.kind in COMPARED else each for each in said)


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        (_change(lambda each: replace(each, kind=AnswerKind.FINISHED)), BAD_PROOF, "answers"),
        (_change(lambda each: replace(each, digest=digest("another"))), BAD_PROOF, "answers"),
        (_change(lambda each: replace(each, digest=b"")), BAD_FIELD, "answers[2].digest"),
        (_change(lambda each: replace(each, kind=AnswerKind.OUTSIDE)), BAD_FIELD, "answers[2].root"),
        (_change(lambda each: replace(each, step=1)), BAD_FIELD, "answers[2].step"),
        (_change(lambda each: replace(each, earlier=(NOTHING,))), BAD_FIELD, "answers[2].earlier"),
    ],
)
def test_an_answer_keeps_its_own_state_and_its_form(
    change: Callable[[tuple[SeatAnswer, ...]], tuple[SeatAnswer, ...]], code: Code, field: str
) -> None:
    market = make_market()
    order_id = closed_round(market)
    names = market.seated(order_id)
    for name in names:
        market.chain.ok(market.commit_answer(order_id, 0, name, compared(market, order_id, name)))
    said = change(compared(market, order_id, names[0]))
    market.chain.refused(code, market.reveal_answer(order_id, 0, names[0], said), field=field)


def test_a_seat_may_change_its_mind_after_it_has_seen_the_claim_but_not_its_state() -> None:
    market = make_market()
    order_id = closed_round(market)
    names = market.seated(order_id)
    for name in names:
        market.chain.ok(market.commit_answer(order_id, 0, name, compared(market, order_id, name)))
    other = compared(market, order_id, names[0], kind=AnswerKind.OUTSIDE)
    market.chain.ok(market.reveal_answer(order_id, 0, names[0], other))


def test_an_exact_leg_has_no_answers_that_compare() -> None:
    market = Market(validators=6)
    order_id = market.run(submit(rematch=False))
    market.train_round(order_id)
    market.wait_stage(order_id)
    names = market.seated(order_id)
    said = {name: compared(market, order_id, name) for name in names}
    for name in names:
        market.chain.ok(market.commit_answer(order_id, 0, name, said[name]))
    market.chain.refused(
        BAD_FIELD, market.reveal_answer(order_id, 0, names[0], said[names[0]]), field="answers[2].kind"
    )


def test_seats_have_a_part_of_their_time_to_compare() -> None:
    market = make_market()
    order_id = closed_round(market)
    order, panel = market.order(order_id), market.panel(order_id, 0)
    assert panel.reveals_end - market.chain.clock <= stage_seconds(order.params, order.audit_ms)
    exact = Market(validators=8)
    other = exact.run(submit(rematch=False))
    exact.train_round(other)
    exact.wait_stage(other)
    usual = exact.panel(other, 0)
    assert usual.reveals_end - usual.commits_end <= panel.reveals_end - panel.commits_end


def test_an_order_that_names_no_tier_is_never_served_in_hardware_arithmetic() -> None:
    market = make_market()
    order_id = market.submit(submit(rematch=False))
    market.auction()
    assert not market.all_of(order_id).legs


def test_the_fee_pays_one_seat_more() -> None:
    terms = make_terms()
    params = make_market().chain.genesis.params.for_order()
    assert TOLERANCE.paid(params).auditors == params.auditors + 1
    least = TOLERANCE.floor(terms, 10**6, params)
    assert least * params.auditors == EXACT.floor(terms, 10**6, params) * (params.auditors + 1)
