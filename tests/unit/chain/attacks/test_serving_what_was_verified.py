"""Who gets and who loses the part of a failed leg: no party gains by a lie about its states, and none by their loss."""

from domain.legs.messages import MsgAckState, MsgDeclineOrder, MsgStopOrder
from domain.legs.reasons import LegEnd, PartEnd
from domain.legs.records import Leg
from domain.market.records import OrderState
from domain.params import local_params
from tests.support.chain_market import Market, make_terms, submit

ROUNDS = 20
DONE = 18
PARAMS = local_params().replace(auditors=0, round_window=60)


def stopped(validators: int = 6) -> tuple[Market, bytes]:
    """Return an order whose validator stops shortly before the end, with nearly all of its part earned."""
    names = tuple(f"v{number}" for number in range(6))
    market = Market(PARAMS, validators=validators, bidders=names)
    terms = make_terms(rounds=ROUNDS)
    order_id = market.run(submit(terms=terms, deposit=ROUNDS * 180_000, deadline=100_000))
    for _ in range(DONE):
        market.train_round(order_id)
        market.chain.pass_time(8)
    market.chain.pass_time(market.order(order_id).window)
    assert market.leg(order_id).verified == DONE
    market.chain.ok(MsgStopOrder(market.leg(order_id).validator, order_id, 1))
    wait_match(market, order_id)
    return market, order_id


def wait_match(market: Market, order_id: bytes) -> Leg:
    for _ in range(6):
        if market.order(order_id).state is OrderState.MATCHED:
            return market.leg(order_id)
        market.chain.block()
    raise AssertionError("the order found no match")


def paid(market: Market, order_id: bytes, kind: str) -> int:
    return sum(payment.amount for payment in market.all_of(order_id).payments if payment.kind == kind)


def last_end(market: Market) -> PartEnd:
    return PartEnd(int(market.chain.seen("part.ended")[-1].get("end")))


def test_an_accomplice_that_accepts_without_the_states_frees_no_part() -> None:
    """It would cost the job bond of two rounds, and pay the part of eighteen for a model that no one else has."""
    market, order_id = stopped()
    part = market.all_of(order_id).legs[0].part
    market.accept(order_id)
    accomplice = market.leg(order_id)
    assert accomplice.job_bond < part
    assert paid(market, order_id, "validator") == 0
    market.chain.ok(MsgStopOrder(accomplice.validator, order_id, accomplice.number))
    market.chain.ok(MsgAckState("carol", order_id, 1, received=False))
    assert paid(market, order_id, "validator") == 0
    assert paid(market, order_id, "part_burn") == part


def test_a_consumer_that_lies_gains_nothing() -> None:
    """Alone or with the next validator: what it denies is burnt, and the deposit pays as much as for an honest word."""
    worths = []
    for received in (True, False):
        market, order_id = stopped()
        market.accept(order_id)
        market.chain.ok(MsgAckState("carol", order_id, 1, received=received))
        worths.append(market.chain.worth("carol") + sum(r.locked for r in market.all_of(order_id).escrow.depositors))
    assert worths[0] == worths[1]


def test_a_consumer_that_never_answers_keeps_nothing() -> None:
    market, order_id = stopped()
    leg = market.all_of(order_id).legs[0]
    market.accept(order_id)
    market.chain.pass_until(leg.part_until)
    assert last_end(market) is PartEnd.TIME
    assert paid(market, order_id, "validator") == leg.part


def test_a_few_validators_with_little_stake_cannot_return_the_part_to_their_consumer() -> None:
    """Three that hold less than a tenth say that the states are gone: the order ends, and the part is paid in time."""
    market, order_id = stopped(validators=40)
    leg = market.all_of(order_id).legs[0]
    for _ in range(PARAMS.for_order().max_attempts):
        decline(market, order_id)
    assert market.all_of(order_id).legs[0].part == leg.part
    market.chain.pass_until(leg.part_until + 2)
    assert last_end(market) is PartEnd.TIME
    assert market.order(order_id).state is OrderState.CLOSED


def test_validators_with_a_tenth_of_the_stake_return_it() -> None:
    market, order_id = stopped()
    for _ in range(PARAMS.for_order().max_attempts):
        decline(market, order_id)
    assert last_end(market) is PartEnd.UNAVAILABLE
    market.chain.block()
    assert market.order(order_id).state is OrderState.CLOSED
    assert paid(market, order_id, "validator") == 0


def decline(market: Market, order_id: bytes) -> None:
    leg = wait_match(market, order_id)
    market.chain.ok(MsgDeclineOrder(leg.validator, order_id, leg.number, int(LegEnd.STATE_UNAVAILABLE)))


def test_one_validator_that_says_so_costs_no_more_than_its_fee() -> None:
    market, order_id = stopped()
    decline(market, order_id)
    wait_match(market, order_id)
    market.accept(order_id)
    market.chain.pass_until(market.all_of(order_id).legs[0].part_until)
    assert last_end(market) is PartEnd.TIME


def test_who_accepted_an_earlier_leg_is_no_stranger_in_the_auction() -> None:
    """With three validators, the third leg would have no auditor: its winner and both earlier ones are parties."""
    names = ("v0", "v1", "v2")
    market = Market(local_params().replace(round_window=20), validators=3, bidders=names)
    order_id = market.run(submit(terms=make_terms(rounds=3), deposit=3 * 180_000, deadline=10_000))
    for _ in range(2):
        leg = market.leg(order_id)
        market.chain.ok(MsgStopOrder(leg.validator, order_id, leg.number))
        for _ in range(4):
            market.chain.block()
        if market.order(order_id).state is OrderState.MATCHED:
            market.accept(order_id)
    order = market.order(order_id)
    assert (order.state, order.legs) == (OrderState.OPEN, 2)
    assert set(order.excluded) == set(names)
