"""A consumer that was never served a result asks a panel. It gets no time for free, and no one else's coins."""

import pytest

from domain.errors import ALREADY_EXISTS, INSUFFICIENT_BOND, LIMIT_REACHED, NOT_FOUND, NOT_YOURS, WRONG_STATE
from domain.ledger.messages import MsgDepositBond
from domain.ledger.queries import AccountRequest
from domain.ledger.records import BondKind
from domain.legs.messages import MsgStopOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.params import Params, local_params
from domain.proof.messages import MsgNeverServed
from domain.proof.records import AnswerKind, Panel, Ruling, SeatAnswer
from pol.rules.orders import handover_seconds
from pol.rules.states import FIRST_RESULT
from tests.support.chain_harness import COINS
from tests.support.chain_market import CONSUMER, Market, make_terms, submit
from tests.support.lost_states import Said, fetched, missing, say, seats_of, wait_open

PARAMS = local_params().replace(round_window=20)
BOND = COINS // 10


def served(
    params: Params = PARAMS, rounds: int = 2, done: int = 2, validators: int = 7, bond: int = BOND
) -> tuple[Market, bytes]:
    """Return an order with ``done`` verified rounds of ``rounds``, whose consumer has a bond account."""
    names = tuple(f"v{number}" for number in range(validators))
    market = Market(params, validators=validators, bidders=names)
    terms = make_terms(rounds=rounds)
    order_id = market.run(submit(terms=terms, deposit=2 * rounds * 180_000, deadline=100_000))
    if bond:
        market.chain.ok(MsgDepositBond(CONSUMER, bond))
    for round in range(done):
        market.train_round(order_id)
        market.answer_all(order_id, round)
    market.chain.pass_time(market.order(order_id).window + 2)
    assert market.leg(order_id).verified == done
    return market, order_id


def never(market: Market, order_id: bytes, round: int = 1) -> MsgNeverServed:
    return MsgNeverServed(CONSUMER, order_id, market.leg(order_id).number, round)


def ask(market: Market, order_id: bytes, round: int = 1) -> Panel:
    """Let the consumer ask; return the panel."""
    market.chain.ok(never(market, order_id, round))
    return next(panel for panel in market.all_of(order_id).panels if panel.asker and not panel.is_settled)


def left(market: Market) -> int:
    """Return what is in the consumer's bond account."""
    free: int = market.chain.ask(AccountRequest(CONSUMER)).bond.free
    return free


def bonds(market: Market, order_id: bytes, kind: BondKind) -> int:
    return sum(row.amount for row in market.all_of(order_id).escrow.bonds if row.kind is kind)


def guess(_: Market, panel: Panel) -> SeatAnswer:
    """Return the answer of a seat that claims to have another result."""
    return SeatAnswer(0, AnswerKind.FINISHED, bytes(32), bytes(32), 0, (bytes(32),) * (panel.stage - 1))


def test_the_consumer_pays_the_seats_that_fetch_the_result_and_the_validator_loses_nothing() -> None:
    market, order_id = served()
    leg = market.leg(order_id)
    job_bond = bonds(market, order_id, BondKind.JOB)
    before = left(market)
    panel = say(market, ask(market, order_id), fetched)
    assert panel.places[0].ruling is Ruling.RIGHT
    fee = market.order(order_id).params.answer_fee
    assert before - left(market) >= len(seats_of(market, panel)) * fee > 0
    assert bonds(market, order_id, BondKind.RESULT) == 0
    assert bonds(market, order_id, BondKind.JOB) == job_bond
    assert market.leg(order_id).state is LegState.PROVEN
    market.chain.pass_until(market.leg(order_id).settles_at + 2)
    market.pass_stands(order_id)
    assert market.order(order_id).close_reason == CloseReason.SETTLED
    assert market.leg(order_id).state is LegState.DONE
    assert leg.job_bond > 0


def test_the_settlement_waits_for_the_panel_and_then_for_the_consumer() -> None:
    market, order_id = served()
    settles_at = market.leg(order_id).settles_at
    market.chain.pass_until(settles_at - 4)
    panel = ask(market, order_id)
    market.chain.pass_until(settles_at + 2)
    assert market.order(order_id).state is OrderState.PROVEN
    say(market, panel, fetched)
    order = market.order(order_id)
    # The seats serve the result, so the consumer needs its whole time.
    wait = handover_seconds(order.terms, order.params, order.window)
    assert market.leg(order_id).settles_at >= market.chain.clock + wait - 10


def test_an_unavailable_result_costs_the_validator_its_job_bond_and_its_part() -> None:
    market, order_id = served()
    leg = market.leg(order_id)
    before, coins = left(market), market.chain.worth(CONSUMER)
    withheld = market.all_of(order_id).escrow.withheld
    panel = say(market, ask(market, order_id), missing)
    assert panel.is_last
    assert panel.places[0].ruling is Ruling.WRONG
    for _ in range(3):
        market.chain.block()
    failed = market.leg(order_id)
    assert (failed.state, failed.end_reason) == (LegState.FAILED, LegEnd.WRONG_HANDOVER)
    assert leg.validator in market.order(order_id).excluded
    assert bonds(market, order_id, BondKind.JOB) == 0
    assert bonds(market, order_id, BondKind.RESULT) == 0
    # The bond returns; the deposit gets the validator's part back, and the job bond pays the loss beside the seats.
    assert withheld > 0
    assert market.all_of(order_id).escrow.withheld == 0
    assert left(market) == before
    market.pass_stands(order_id)
    assert market.chain.worth(CONSUMER) > coins
    kinds = {payment.kind for payment in market.all_of(order_id).payments}
    assert "validator" not in kinds
    assert "compensation" in kinds
    # What providers did is verified, and stays paid.
    assert "provider" in kinds
    stake = market.chain.seen("validator.slashed")
    assert not stake


def test_a_panel_that_cannot_decide_costs_no_party() -> None:
    market, order_id = served()
    before = left(market)
    job_bond = bonds(market, order_id, BondKind.JOB)
    panel = say(market, ask(market, order_id), guess)
    assert panel.places[0].ruling is not Ruling.RIGHT
    assert left(market) == before
    assert bonds(market, order_id, BondKind.JOB) == job_bond
    assert market.leg(order_id).state is LegState.PROVEN


def test_a_consumer_that_lies_delays_the_settlement_twice_at_most_and_pays_each_time() -> None:
    market, order_id = served()
    before = left(market)
    say(market, ask(market, order_id), fetched)
    first = before - left(market)
    panel = wait_open(market, ask(market, order_id).key, 1)
    assert panel.is_last
    say(market, panel, fetched)
    assert before - left(market) > 2 * first
    market.chain.refused(LIMIT_REACHED, never(market, order_id))
    market.chain.pass_until(market.leg(order_id).settles_at + 2)
    market.pass_stands(order_id)
    assert market.order(order_id).close_reason == CloseReason.SETTLED


def test_friends_of_the_validator_that_fill_a_first_stage_are_outvoted() -> None:
    """They say that they have the result, and serve it to no one. The second panel has all eligible validators."""
    market, order_id = served()
    say(market, ask(market, order_id), fetched)
    panel = say(market, ask(market, order_id), missing)
    assert panel.places[0].ruling is Ruling.WRONG
    market.chain.block()
    assert market.leg(order_id).end_reason == LegEnd.WRONG_HANDOVER


def test_parties_of_the_order_get_no_seat() -> None:
    market, order_id = served()
    panel = wait_open(market, ask(market, order_id).key, 1)
    assert panel.key.dispute == FIRST_RESULT
    assert market.leg(order_id).validator not in {seat.validator for seat in seats_of(market, panel)}


def test_only_the_consumer_asks_and_only_about_the_newest_verified_hand_over_round() -> None:
    market, order_id = served()
    good = never(market, order_id)
    market.chain.refused(NOT_FOUND, never(market, order_id, 0))
    market.chain.refused(NOT_FOUND, never(market, order_id, 7))
    market.chain.refused(NOT_YOURS, MsgNeverServed(market.leg(order_id).validator, order_id, 1, 1))
    market.chain.ok(good)
    market.chain.refused(ALREADY_EXISTS, good)
    market, order_id = served(bond=0)
    market.chain.refused(INSUFFICIENT_BOND, never(market, order_id))


def test_rounds_that_are_not_handed_over_or_not_verified_have_no_panel() -> None:
    market, order_id = served(PARAMS.replace(handover_every=2), rounds=4, done=3)
    market.chain.refused(NOT_FOUND, never(market, order_id, 2))
    assert ask(market, order_id, 1).round == 1
    market, order_id = served(rounds=3, done=1)
    market.train_round(order_id)
    market.chain.refused(NOT_FOUND, never(market, order_id, 1))


@pytest.mark.parametrize("said", [fetched, missing])
def test_a_validator_that_stops_during_the_panel_does_not_escape_its_ruling(said: Said) -> None:
    market, order_id = served(rounds=3, done=1)
    panel = ask(market, order_id, 0)
    leg = market.leg(order_id)
    market.chain.ok(MsgStopOrder(leg.validator, order_id, leg.number))
    assert market.order(order_id).state is OrderState.RUNNING
    say(market, panel, said)
    for _ in range(4):
        market.chain.block()
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.STOPPED_BY_VALIDATOR
    waits = market.all_of(order_id).legs[0].part
    assert (waits > 0) == (said is fetched)
    market.chain.refused(WRONG_STATE, MsgNeverServed(CONSUMER, order_id, leg.number, 0))


def test_a_running_order_is_held_during_the_panel_and_goes_on_afterwards() -> None:
    market, order_id = served(rounds=3, done=1)
    panel = ask(market, order_id, 0)
    leg = market.leg(order_id)
    deadline = leg.progress_deadline
    panel = say(market, panel, fetched)
    assert market.leg(order_id).progress_deadline > deadline
    assert market.leg(order_id).settles_at == 0
    market.settle(order_id)
    market.pass_stands(order_id)
    assert market.order(order_id).close_reason == CloseReason.SETTLED
