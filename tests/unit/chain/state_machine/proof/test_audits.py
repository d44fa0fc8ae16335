"""Draws of auditors, silence, redraws, and what silence costs."""

from dataclasses import replace

import pytest

from chain.state_machine.ledger.tables import POTS, SUPPLY
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.store import Overlay
from domain import queries as q
from domain.errors import WRONG_STATE
from domain.messages import MsgRegisterProvider
from domain.params import local_params
from domain.reasons import CloseReason
from domain.records import OrderState
from tests.support.chain_harness import COINS
from tests.support.chain_market import BOND, Market, make_terms, submit

STAKE = 10**10
CUT = 2 * 1_200  # twice a seat's share of the audit fee of 2,400


def closed_round(market: Market) -> bytes:
    """An order with one closed round and its first seats drawn."""
    order_id = market.run()
    market.train_round(order_id)
    market.wait_seats(order_id, 0)
    return order_id


def stake(market: Market, name: str) -> int:
    return VALIDATORS.must(market.chain.overlay(), name).stake


def answer(market: Market, order_id: bytes, *names: str) -> None:
    market.chain.ok(*[market.answer_message(order_id, 0, name) for name in names])


def seated(market: Market, order_id: bytes) -> list[str]:
    return [seat.validator for seat in market.audit(order_id, 0).seats]


def test_seats_are_drawn_from_later_blocks_among_those_who_are_no_party() -> None:
    market = Market(validators=6)
    market.chain.ok(MsgRegisterProvider("v1", "v0"))
    order_id = market.run(submit("v2"))
    market.train_round(order_id)
    assert market.audit(order_id, 0).draw == 0
    audit = market.wait_seats(order_id, 0)
    assert len(audit.seats) == 2
    assert set(seated(market, order_id)) <= {"v3", "v4", "v5"}
    assert audit.draw_ends == market.chain.clock + 5
    assert market.chain.seen("audit.drawn")[-1].get("seats") == ",".join(seated(market, order_id))


def test_jailed_validators_have_no_seat() -> None:
    market = Market()
    jailed = replace(VALIDATORS.must(market.chain.overlay(), "v2"), jailed=True)
    market.chain.change(lambda overlay: VALIDATORS.put(overlay, jailed))
    order_id = closed_round(market)
    assert sorted(seated(market, order_id)) == ["v1", "v3"]


def test_who_left_the_validator_set_has_no_seat() -> None:
    market = Market(stake=10**6)

    def cut(overlay: Overlay) -> None:
        for name in ("v1", "v3"):
            VALIDATORS.put(overlay, replace(VALIDATORS.must(overlay, name), stake=10**6 - 1))

    market.chain.checked = False
    market.chain.change(cut)
    order_id = closed_round(market)
    assert seated(market, order_id) == ["v2"]


def test_rounds_behind_a_void_one_are_void_and_nobody_audits_them() -> None:
    market = Market(replace(local_params(), round_window=40))
    chain = market.chain
    order_id = market.run(submit(terms=make_terms(rounds=3), deposit=240_000))
    market.train_round(order_id)
    market.train_round(order_id)
    seats = market.wait_seats(order_id, 1).seats
    wrong = market.answer_message(order_id, 0, seated(market, order_id)[0])
    empty = tuple(replace(answer, root=b"", leaf=None) for answer in wrong.answers)
    chain.ok(replace(wrong, answers=empty))
    assert market.round(order_id, 0).void
    assert market.round(order_id, 1).void
    chain.refused(WRONG_STATE, market.answer_message(order_id, 1, seats[0].validator))
    market.train_round(order_id)
    assert market.round(order_id, 2).void
    assert [audit.round for audit in market.all_of(order_id).audits] == [0, 1]
    assert [event.get("round") for event in chain.seen("round.void")] == ["0", "1", "2"]
    stakes = [stake(market, name) for name in market.validators]
    chain.pass_time(25)
    assert [stake(market, name) for name in market.validators] == stakes


def test_a_draw_that_ends_with_the_one_that_voids_its_round_cuts_nobody() -> None:
    """Both ends are due in one block: the first takes the second out of the queue, so it must not happen."""
    params = replace(local_params(), clock_step_max=60, progress_base=1_000)
    market = Market(params, validators=2)
    order_id = closed_round(market)
    market.chain.block(seconds=6)
    market.wait_seats(order_id, 0, draw=3)
    market.train_round(order_id)
    market.wait_seats(order_id, 1)
    before = stake(market, "v1")
    market.chain.block(seconds=60)
    assert market.round(order_id, 1).void
    missed = [event.get("round") for event in market.chain.seen("audit.missed")]
    assert missed == ["0", "0"]
    assert stake(market, "v1") == before


def test_duties_show_what_is_to_do_and_nothing_else() -> None:
    market = Market()
    order_id = closed_round(market)
    first, second = seated(market, order_id)
    audit = market.audit(order_id, 0)
    (duty,) = market.chain.ask(q.DutiesRequest(first)).audits
    assert (duty.order_id, duty.round, duty.places, duty.draw_ends) == (
        order_id,
        0,
        audit.places,
        audit.draw_ends,
    )
    answer(market, order_id, first)
    assert market.chain.ask(q.DutiesRequest(first)).audits == ()
    assert len(market.chain.ask(q.DutiesRequest(second)).audits) == 1
    (assignment,) = market.chain.ask(q.DutiesRequest("v0")).assignments
    assert assignment == market.assignment(order_id)


def test_a_silent_seat_is_cut_and_somebody_else_is_drawn() -> None:
    market = Market()
    order_id = closed_round(market)
    first, silent = seated(market, order_id)
    (third,) = {"v1", "v2", "v3"} - {first, silent}
    answer(market, order_id, first)
    market.chain.pass_until(market.audit(order_id, 0).draw_ends - 1)
    assert stake(market, silent) == STAKE
    market.chain.block()
    assert stake(market, silent) == STAKE - CUT
    missed = market.chain.seen("audit.missed")[-1]
    assert (missed.get("auditor"), missed.get("cut")) == (silent, str(CUT))
    audit = market.wait_seats(order_id, 0, draw=2)
    assert [seat.validator for seat in audit.seats] == [first, silent, third]
    earned = {name: market.chain.worth(name) for name in (first, silent, third)}
    answer(market, order_id, third)
    # The window is over by now, so the round is verified: what was cut goes to those who answered, like the fee.
    assert market.order(order_id).work_verified == 80_000_000
    for name in (first, third):
        assert market.chain.worth(name) == earned[name] + CUT // 2 + 1_200
    assert market.chain.worth(silent) == earned[silent]


def test_in_the_last_draw_everybody_is_asked_and_one_answer_is_enough() -> None:
    market = Market(validators=6)
    order_id = closed_round(market)
    early = seated(market, order_id)
    market.wait_seats(order_id, 0, draw=2)
    second = [name for name in seated(market, order_id) if name not in early]
    assert len(second) == 2
    audit = market.wait_seats(order_id, 0, draw=3)
    everybody = [seat.validator for seat in audit.seats[4:]]
    assert everybody == ["v1", "v2", "v3", "v4", "v5"]
    answer(market, order_id, early[0])
    assert market.audit(order_id, 0).agreed
    assert market.chain.ask(q.DutiesRequest("v5")).audits == ()
    market.chain.pass_time(12)
    assert market.order(order_id).work_verified == 80_000_000
    # Whoever was silent once was cut; nobody is cut for not being needed.
    assert [stake(market, name) for name in (*early, *second)] == [STAKE - CUT] * 4
    paid = [p for p in market.all_of(order_id).payments if p.kind == "auditor"]
    assert [(p.to, p.amount) for p in paid] == [(early[0], 2_400)]


def test_without_any_answer_a_round_is_void_and_what_was_cut_is_burnt() -> None:
    market = Market()
    order_id = closed_round(market)
    market.wait_seats(order_id, 0, draw=3)
    market.chain.pass_time(6)
    assert market.round(order_id, 0).void
    cuts = sum(STAKE - stake(market, name) for name in ("v1", "v2", "v3"))
    assert cuts == 3 * CUT

    assert POTS.get(market.chain.overlay(), "burnt") == cuts


def test_one_answer_in_the_first_draw_is_enough_when_nobody_else_ever_answers() -> None:
    market = Market()
    order_id = closed_round(market)
    answer(market, order_id, seated(market, order_id)[0])
    market.wait_seats(order_id, 0, draw=3)
    assert not market.audit(order_id, 0).agreed
    market.chain.pass_time(6)
    assert market.audit(order_id, 0).agreed
    assert market.order(order_id).work_verified == 80_000_000


def test_in_a_set_of_two_the_only_other_validator_audits() -> None:
    market = Market(validators=2)
    order_id = closed_round(market)
    assert seated(market, order_id) == ["v1"]
    answer(market, order_id, "v1")
    assert market.audit(order_id, 0).agreed


def test_in_a_set_of_two_silence_leads_to_the_last_draw_at_once() -> None:
    market = Market(validators=2)
    order_id = closed_round(market)
    audit = market.wait_seats(order_id, 0, draw=3)
    assert [seat.validator for seat in audit.seats] == ["v1", "v1"]
    assert stake(market, "v1") == STAKE - 2 * 2_400  # the whole fee was its share
    answer(market, order_id, "v1")
    assert market.audit(order_id, 0).agreed


def test_without_anybody_who_could_audit_a_round_is_void() -> None:
    market = Market(validators=1)
    order_id = market.run()
    market.train_round(order_id)
    market.chain.block()
    assert market.round(order_id, 0).void


def test_without_auditors_the_window_alone_verifies() -> None:
    market = Market(replace(local_params(), auditors=0))
    order_id = market.run()
    market.train_round(order_id)
    ends = market.round(order_id, 0).window_ends
    market.chain.pass_until(ends - 1)
    assert not market.round(order_id, 0).verified
    market.chain.block()
    assert market.round(order_id, 0).verified
    assert market.all_of(order_id).audits == ()


def test_a_round_waits_for_its_window_its_audit_and_the_round_before() -> None:
    market = Market()
    order_id = market.run()
    market.train_round(order_id)
    market.wait_seats(order_id, 0)
    market.train_round(order_id)
    market.answer_all(order_id, 1)
    market.chain.pass_until(market.round(order_id, 1).window_ends)
    assert not market.round(order_id, 1).verified  # the first has no answer yet
    audit = market.wait_seats(order_id, 0, draw=3)
    assert not market.round(order_id, 1).verified
    answer(market, order_id, audit.seats[-1].validator)
    assert market.round(order_id, 0).verified
    assert market.round(order_id, 1).verified
    numbers = [event.get("round") for event in market.chain.seen("round.verified")]
    assert numbers == ["0", "1"]


def test_a_stake_that_is_gone_is_cut_no_further() -> None:
    market = Market(stake=10**6)
    # Orders are bounded by the stake, so a small one: 80,000 a round for 160,000 in all.
    order_id = closed_round(market)
    silent = seated(market, order_id)[0]
    poor = replace(VALIDATORS.must(market.chain.overlay(), silent), stake=100)
    from chain.state_machine.store import Overlay

    def impoverish(overlay: Overlay) -> None:
        VALIDATORS.put(overlay, poor)
        POTS.set(overlay, POTS.get(overlay, "stakes") - (10**6 - 100), "stakes")
        SUPPLY.set(overlay, SUPPLY.get(overlay) - (10**6 - 100))

    market.chain.change(impoverish)  # behind the machine's back
    market.wait_seats(order_id, 0, draw=2)
    assert stake(market, silent) == 0


@pytest.mark.parametrize("answered", [True, False])
def test_a_void_round_ends_the_audits_of_a_proven_order_at_once(answered: bool) -> None:
    """What is not verified is not paid, everything returns, and cuts go to who answered."""
    market = Market(replace(local_params(), progress_base=300, round_window=200))
    order_id = market.run()
    market.train_round(order_id)
    market.train_round(order_id)
    market.wait_seats(order_id, 0)
    market.wait_seats(order_id, 1)
    first, second = seated(market, order_id)
    if answered:
        answer(market, order_id, first)
    wrong = market.answer_message(order_id, 0, second)
    empty = tuple(replace(found, root=b"", leaf=None) for found in wrong.answers)
    market.chain.ok(replace(wrong, answers=empty))
    order = market.order(order_id)
    assert (order.state, order.close_reason) == (OrderState.CLOSED, CloseReason.UNVERIFIED)
    assert market.chain.worth("carol") == COINS
    assert market.chain.bond("v0") == market.chain.bond("v0p0") == BOND
    assert market.chain.ask(q.DutiesRequest("v1")).audits == ()
    market.chain.pass_time(50)
