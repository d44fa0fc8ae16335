"""A validator that cannot fetch the states of a failed leg asks a panel, and only a panel says that they are lost."""

from domain.errors import WRONG_STATE
from domain.ledger.queries import AccountRequest
from domain.legs.messages import MsgAcceptOrder, MsgDeclineOrder
from domain.legs.reasons import LegEnd, PartEnd
from domain.legs.records import LegState
from domain.market.records import OrderState
from domain.proof.records import Ruling
from tests.support.chain_market import Market
from tests.support.lost_states import fetched, lack, missing, panel_of, say, seats_of, stopped, wait_match, wait_open


def paid(market: Market, order_id: bytes, kind: str) -> int:
    return sum(payment.amount for payment in market.all_of(order_id).payments if payment.kind == kind)


def wealth(market: Market, order_id: bytes, name: str) -> int:
    """Return what a validator has, with its bonds."""
    bonds = market.all_of(order_id).escrow.bonds
    locked = sum(bond.amount for bond in bonds if bond.owner == name)
    free: int = market.chain.ask(AccountRequest(name)).bond.free
    return market.chain.worth(name) + free + locked


def ends(market: Market) -> list[PartEnd]:
    return [PartEnd(int(event.get("end"))) for event in market.chain.seen("part.ended")]


def test_an_honest_validator_loses_nothing_if_no_one_has_the_states() -> None:
    market, order_id = stopped()
    leg = market.leg(order_id)
    part = market.all_of(order_id).legs[0].part
    before = wealth(market, order_id, leg.validator)
    panel = say(market, lack(market, order_id), missing)
    assert panel.places[0].ruling is Ruling.WRONG
    assert wealth(market, order_id, leg.validator) == before
    assert paid(market, order_id, "decline_fee") == 0
    assert part > 0
    assert ends(market) == [PartEnd.UNAVAILABLE]
    assert paid(market, order_id, "validator") == 0
    assert leg.validator not in market.order(order_id).excluded
    assert paid(market, order_id, "auditor") > 0


def test_the_order_starts_again_if_its_deposit_pays_and_ends_otherwise() -> None:
    market, order_id = stopped()
    say(market, lack(market, order_id), missing)
    leg = wait_match(market, order_id)
    assert (leg.first_round, leg.rounds, leg.from_leg) == (0, 3, 0)
    assert leg.initial_root == market.order(order_id).terms.global_root
    market.accept(order_id)
    market.settle(order_id)
    market.pass_stands(order_id)
    assert market.order(order_id).state is OrderState.CLOSED
    assert market.all_of(order_id).legs[-1].state is LegState.DONE
    market, order_id = stopped(deposit=3 * 180_000, done=2)
    say(market, lack(market, order_id), missing)
    market.chain.block()
    order = market.order(order_id)
    assert order.state is OrderState.CLOSED
    assert order.next_round == 2


def test_a_validator_that_lies_pays_the_seats_and_gets_the_states_from_them() -> None:
    market, order_id = stopped()
    leg = market.leg(order_id)
    before = wealth(market, order_id, leg.validator)
    # It has waited for the states until its time to accept was almost over.
    market.chain.pass_until(leg.accept_deadline - 5)
    panel = say(market, lack(market, order_id), fetched)
    assert panel.places[0].ruling is Ruling.RIGHT
    seats = seats_of(market, panel)
    price = market.order(order_id).params.answer_fee
    assert before - wealth(market, order_id, leg.validator) >= len(seats) * price > 0
    after = market.leg(order_id)
    assert after.state is LegState.MATCHED
    # Its time to accept begins again, so that it can fetch the states from the seats.
    assert after.accept_deadline - market.chain.clock > leg.accept_deadline - leg.matched_at - 10
    assert market.order(order_id).deadline > 100_000
    market.accept(order_id)
    assert market.leg(order_id).state is LegState.RUNNING


def test_states_that_were_found_twice_are_no_reason_to_decline_and_a_choice_has_its_fee() -> None:
    """The first panel may be captured by friends of the failed validator. The second one has all validators."""
    market, order_id = stopped()
    say(market, lack(market, order_id), fetched)
    panel = wait_open(market, lack(market, order_id).key, 1)
    assert panel.is_last
    assert len(seats_of(market, panel)) == 5
    say(market, panel, fetched)
    leg = market.leg(order_id)
    decline = MsgDeclineOrder(leg.validator, order_id, leg.number, int(LegEnd.STATE_UNAVAILABLE))
    market.chain.refused(WRONG_STATE, decline)
    assert paid(market, order_id, "decline_fee") == 0
    market.chain.ok(MsgDeclineOrder(leg.validator, order_id, leg.number, int(LegEnd.DECLINED_BY_CHOICE)))
    assert paid(market, order_id, "decline_fee") > 0


def test_an_accomplice_of_the_failed_validator_and_its_cluster_get_no_seat() -> None:
    market, order_id = stopped()
    failed, asker = (leg.validator for leg in market.all_of(order_id).legs)
    panel = wait_open(market, lack(market, order_id).key, 1)
    assert not {failed, asker} & {seat.validator for seat in seats_of(market, panel)}


def test_while_the_panel_runs_no_deadline_passes_and_the_part_is_not_paid() -> None:
    market, order_id = stopped()
    leg = market.leg(order_id)
    source = market.all_of(order_id).legs[0]
    panel = lack(market, order_id)
    market.chain.refused(WRONG_STATE, MsgAcceptOrder(leg.validator, order_id, leg.number))
    market.chain.refused(
        WRONG_STATE, MsgDeclineOrder(leg.validator, order_id, leg.number, int(LegEnd.DECLINED_BY_CHOICE))
    )
    # No seat answers: the stages take their longest times.
    for _ in range(3):
        market.chain.pass_time(60)
    assert market.chain.clock > max(source.part_until, leg.accept_deadline)
    assert market.leg(order_id).state is LegState.MATCHED
    assert market.all_of(order_id).legs[0].part == source.part
    assert panel_of(market, order_id).key == panel.key


def test_a_panel_that_cannot_decide_costs_no_one_and_the_order_opens_again() -> None:
    market, order_id = stopped()
    leg = market.leg(order_id)
    before = wealth(market, order_id, leg.validator)
    lack(market, order_id)
    for _ in range(60):
        market.chain.pass_time(60)
        if market.order(order_id).legs > leg.number or market.leg(order_id).state is LegState.FAILED:
            break
    assert wealth(market, order_id, leg.validator) == before
    assert leg.validator in market.order(order_id).excluded
    assert not ends(market) or PartEnd.UNAVAILABLE not in ends(market)
