"""An order in a tier with other rules than the one that ships, which lives in the tests: no line of the chain knows it.

Four bytes of a root count, and half of the rounds get a panel.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.proof.tables import LOTS, PANELS, PanelSubject
from chain.state_machine.registry.tables import VALIDATORS
from domain.amount import BPS
from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.market.records import Conditions, OrderState
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, Ruling, SeatAnswer, ShareState
from pol.rules.lots import draw, seed
from tests.support.chain_harness import COINS
from tests.support.chain_market import BOND, Market, bid, digest, make_terms, sign_share, submit
from tests.support.four_bytes import FOUR_BYTES, registered, within

STAKE = 10**10
NAME = FOUR_BYTES.name
SEGMENT = 20_000
FEE = 100
TIERED = submit(conditions=Conditions(tiers=(NAME,)), rematch=False)


@pytest.fixture(autouse=True)
def _tier() -> Iterator[None]:
    with registered():
        yield


def make_market() -> Market:
    market = Market(validators=6, bidders=())
    market.chain.ok(bid("v0", tiers=(NAME,)))
    return market


def draw_audit(market: Market, order_id: bytes, round: int, *, audited: bool) -> None:
    """Make blocks whose reveals draw a panel for a closed round, or none."""
    lot = PanelSubject(market.round(order_id, round).key.panel(), 0)

    def fits(beacon: bytes) -> bool:
        (number,) = draw(seed("panel/audit", lot.id, beacon), BPS, 1)
        return (number < BPS // 2) is audited

    for _ in range(30):
        panel = PANELS.get(market.chain.overlay(), *lot.panel)
        if panel is None or panel.load:
            assert (panel is not None) is audited
            return
        market.chain.block(value=market.chain.value_for(fits))
    raise AssertionError("nothing was drawn")


def closed_round(market: Market) -> bytes:
    """An order with one closed round and the seats of its panel drawn."""
    order_id = market.run(TIERED)
    market.train_round(order_id)
    draw_audit(market, order_id, 0, audited=True)
    market.wait_stage(order_id)
    return order_id


def others(answers: tuple[SeatAnswer, ...]) -> tuple[SeatAnswer, ...]:
    """The answers of a seat whose states differ beyond what counts."""
    return tuple(replace(answer, root=within(answer.root), digest=digest("other", answer.digest)) for answer in answers)


def wrong(answers: tuple[SeatAnswer, ...], number: int) -> tuple[SeatAnswer, ...]:
    """Answers with a root at one place whose first four bytes differ."""
    return tuple(replace(answer, root=digest("wrong")) if answer.place == number else answer for answer in answers)


def lost(market: Market, name: str) -> int:
    return STAKE - VALIDATORS.must(market.chain.overlay(), name).stake


def number_of(market: Market, order_id: bytes, kind: AuditKind) -> int:
    places = market.panel(order_id, 0).places
    return next(at for at, place in enumerate(places) if place.place.kind is kind)


# --- whole orders --------------------------------------------------------------------------------


@pytest.mark.parametrize("audited", [(True, True), (False, False), (True, False), (False, True)])
def test_an_order_settles_whatever_is_drawn(audited: tuple[bool, bool]) -> None:
    market = make_market()
    order_id = market.run(TIERED)
    assert market.leg(order_id).tier == NAME
    for round, is_audited in enumerate(audited):
        market.train_round(order_id)
        draw_audit(market, order_id, round, audited=is_audited)
        if is_audited:
            market.answer_all(order_id, round)
    market.chain.pass_time(market.order(order_id).window + 2)
    market.pass_handover(order_id)
    assert market.order(order_id).close_reason == CloseReason.SETTLED
    rounds = [market.round(order_id, round) for round in range(2)]
    assert all(closed.verified for closed in rounds)
    panels = {panel.round for panel in market.all_of(order_id).panels}
    assert panels == {round for round, drawn in enumerate(audited) if drawn}
    skipped = market.chain.seen("panel.skipped")
    assert len(skipped) == audited.count(False)
    fees = [int(event.get("audit_fee")) for event in market.chain.seen("round.verified")]
    assert [fee > 0 for fee in fees] == list(audited)
    market.chain.check_books()


def test_a_round_that_is_not_drawn_costs_its_work_and_no_audit() -> None:
    market = make_market()
    order_id = market.run(submit(conditions=Conditions(tiers=(NAME,)), terms=make_terms(rounds=1)))
    market.train_round(order_id)
    draw_audit(market, order_id, 0, audited=False)
    market.chain.pass_time(market.order(order_id).window + 2)
    market.pass_handover(order_id)
    assert market.order(order_id).state is OrderState.CLOSED
    assert market.chain.worth("carol") == COINS - 80_000


def test_a_round_waits_for_its_draw_and_then_for_its_window() -> None:
    market = make_market()
    order_id = market.run(TIERED)
    market.train_round(order_id)
    window = market.round(order_id, 0).window_ends
    key = market.round(order_id, 0).key.panel()
    # Blocks without a reveal complete no lot: the window ends before the draw.
    while market.chain.clock <= window:
        market.chain.block(reveals=False)
    assert not market.round(order_id, 0).verified
    assert PANELS.has(market.chain.overlay(), *key)
    draw_audit(market, order_id, 0, audited=False)
    market.chain.block()
    assert market.round(order_id, 0).verified


def test_half_of_many_rounds_are_drawn() -> None:
    terms = make_terms(rounds=40)
    market = make_market()
    message = submit(conditions=Conditions(tiers=(NAME,)), terms=terms, deposit=8 * 10**6, deadline=10**5)
    order_id = market.run(message)
    audited = 0
    for round in range(terms.rounds):
        market.train_round(order_id)
        for _ in range(60):
            panel = market.all_of(order_id).panel(1, round)
            if panel is None or panel.stage:
                break
            market.chain.block()
        if panel is not None:
            audited += 1
            market.answer_all(order_id, round)
        market.chain.pass_until(market.round(order_id, round).window_ends + 2)
    assert 10 <= audited <= 30
    assert all(closed.verified for closed in market.all_of(order_id).rounds)
    market.chain.check_books()


# --- agreement -----------------------------------------------------------------------------------


def test_a_difference_within_what_counts_is_none() -> None:
    market = make_market()
    order_id = closed_round(market)
    first, second = market.seated(order_id)
    right = market.answers(order_id)
    market.say(order_id, {first: others(right), second: right})
    panel = market.panel(order_id, 0)
    assert [place.ruling for place in panel.places] == [Ruling.RIGHT] * 5
    assert panel.stage == 1
    market.chain.pass_time(market.order(order_id).window + 2)
    assert market.round(order_id, 0).verified
    assert lost(market, first) == lost(market, second) == 0
    paid = {event.get("auditor"): event.get("paid") for event in market.chain.seen("panel.paid")}
    assert paid[first] == paid[second]


def test_a_lie_beyond_it_is_void_and_its_provider_pays() -> None:
    market = make_market()
    order_id = closed_round(market)
    number = number_of(market, order_id, AuditKind.SEGMENT)
    market.say_all(order_id, lambda: wrong(market.answers(order_id), number))
    assert market.panel(order_id, 0).places[number].ruling is Ruling.WRONG
    assert market.round(order_id, 0).void
    assert market.leg(order_id).end_reason in (LegEnd.WRONG_SHARE, LegEnd.WRONG_ROUND)


def test_who_differs_loses_what_the_tier_says() -> None:
    market = make_market()
    order_id = closed_round(market)
    number = number_of(market, order_id, AuditKind.SEGMENT)
    liar, honest = market.seated(order_id)
    right = market.answers(order_id)
    market.say(order_id, {liar: wrong(right, number), honest: others(right)})
    market.wait_stage(order_id, stage=2)
    later = market.seated(order_id, stage=2)
    market.say(order_id, dict.fromkeys(later, market.answers(order_id)))
    market.chain.pass_time(market.order(order_id).window + 20)
    assert market.round(order_id, 0).verified
    assert lost(market, liar) == FOUR_BYTES.penalty * (SEGMENT + FEE)
    assert all(lost(market, name) == 0 for name in (honest, *later))


def test_silence_costs_what_an_answer_would_have_earned() -> None:
    market = make_market()
    order_id = closed_round(market)
    silent, honest = market.seated(order_id)
    costs = [
        FOUR_BYTES.cost(market.order(order_id).terms, place.place.kind, 10**12)
        for place in market.panel(order_id, 0).places
    ]
    market.say(order_id, {honest: market.answers(order_id)})
    market.chain.pass_time(10)
    assert lost(market, silent) == sum(costs) + FEE


# --- rejections ----------------------------------------------------------------------------------


@pytest.mark.parametrize("agrees", [True, False])
@pytest.mark.parametrize("audited", [True, False])
def test_a_rejected_share_is_compared_as_the_tier_says(agrees: bool, audited: bool) -> None:
    market = make_market()
    order_id = market.run(TIERED)
    right = market.trace(order_id, 0, provider="v0p0")
    committed = within(right.claim.commitment) if agrees else digest("something else")
    first = replace(right, signed=sign_share(replace(right.claim, commitment=committed)))
    again = market.trace(order_id, 0, issue=2, provider="v0p1")
    market.commit(order_id, first, market.trace(order_id, 1, provider="v0p1"))
    market.commit(order_id, again, reject=[(first.ref, int(ShareReason.SEGMENT_MISMATCH))])
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    draw_audit(market, order_id, 0, audited=audited)
    if audited:
        market.answer_all(order_id, 0)
    market.chain.pass_time(market.order(order_id).window + 2)
    assert market.round(order_id, 0).verified
    share = next(s for s in market.shares(order_id) if s.claim == first.claim)
    assert share.state is (ShareState.RIGHT if agrees else ShareState.WRONG)
    market.chain.pass_until(market.round(order_id, 0).closed_at + 60)  # its provider does not stand for it
    assert market.chain.bond("v0p0") == BOND - (0 if agrees else share.bond)
    (told,) = market.chain.seen("share.compared")
    assert (int(told.get("paid")) > 0) is agrees


# --- what ends meanwhile -------------------------------------------------------------------------


def test_a_round_behind_a_void_one_is_not_drawn_any_more() -> None:
    market = make_market()
    order_id = closed_round(market)
    market.commit(order_id, *market.traces_of_round(order_id))
    market.wait_drawn(order_id)
    market.say(order_id, dict.fromkeys(market.seated(order_id), market.unavailable(order_id)), leaves=())
    # The second round closes in the block in which all validators say that nothing was served of the first.
    assert market.wait_stage(order_id, stage=2).is_last
    nothing = market.unavailable(order_id)
    seats = market.seated(order_id, stage=2)
    market.chain.ok(*(market.commit_answer(order_id, 0, name, nothing) for name in seats))
    reveals = [market.reveal_answer(order_id, 0, name, nothing, ()) for name in seats]
    market.chain.ok(*market.close_messages(order_id), *reveals)
    market.chain.block(seconds=0)
    assert [closed.void for closed in market.all_of(order_id).rounds] == [True, True]
    assert not LOTS.scan(market.chain.overlay())
    market.chain.pass_time(200)
    assert market.order(order_id).state is OrderState.CLOSED
    market.chain.check_books()


@pytest.mark.parametrize("audited", [True, False])
def test_a_consumer_whose_leg_fails_gets_back_what_it_paid(audited: bool) -> None:
    """No audit was paid for a round that was not drawn, so none is made good."""
    market = make_market()
    # So many rounds that the job bond is more than what one of them costs.
    order_id = market.run(replace(TIERED, terms=make_terms(rounds=40), deposit=8 * 10**6, rematch=False))
    ordering_fee = TALLIES.must(market.chain.overlay(), order_id).fee
    market.train_round(order_id)
    draw_audit(market, order_id, 0, audited=audited)
    if audited:
        market.answer_all(order_id, 0)
    market.chain.pass_time(market.order(order_id).window + 2)
    assert market.round(order_id, 0).verified
    tally = TALLIES.must(market.chain.overlay(), order_id)
    (paid,) = market.chain.seen("round.verified")
    assert tally.paid == int(paid.get("price")) + int(paid.get("audit_fee"))
    assert (int(paid.get("audit_fee")) > 0) == audited
    part = int(paid.get("withheld"))
    market.chain.pass_until(market.leg(order_id).progress_deadline + 2)
    market.pass_handover(order_id)
    assert market.order(order_id).state is OrderState.CLOSED
    assert market.chain.worth("carol") == COINS + ordering_fee - part
