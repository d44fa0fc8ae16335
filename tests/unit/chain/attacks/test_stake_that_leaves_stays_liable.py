"""Stake that leaves while its validator serves orders: it pays for faults from before, and waits while it may have to.

Validators from outside: they join by one message of any wallet, and harm no beacon, panel or waiver.
"""

from dataclasses import replace

from chain.state_machine.ledger.tables import POTS
from chain.state_machine.market.book import get_backing
from chain.state_machine.market.tables import get_load
from chain.state_machine.staking.tables import UNBONDINGS
from domain.amount import ASSAY
from domain.disputes.messages import MsgWaive
from domain.errors import NOT_YOURS, WRONG_STATE
from domain.ledger.moves import BURNT_POT
from domain.legs.messages import MsgStopOrder
from domain.market.records import ChallengeTerms
from domain.params import Params, local_params
from domain.proof.records import AuditKind, SeatAnswer
from tests.support.chain_harness import COINS, STAKE
from tests.support.chain_market import Market, digest, submit
from tests.support.stakes import (
    create,
    delegate,
    leaving,
    redelegate,
    stake_of,
    undelegate,
    worth,
)

PRICE_OF_LEG = 160_000
UNBONDING = 64


def make_market(**changes: int) -> Market:
    params: Params = local_params().replace(**{"unbonding_time": UNBONDING, "progress_base": 5_000, **changes})
    return Market(params, consumers=("carol", "dave"))


def find_wrong_aggregation(market: Market, order_id: bytes) -> tuple[SeatAnswer, ...]:
    places = market.panel(order_id, 0).places
    return tuple(
        replace(answer, root=digest("another root"))
        if places[answer.place].place.kind is AuditKind.AGGREGATION
        else answer
        for answer in market.answers(order_id, 0)
    )


def test_stake_that_left_before_the_fault_was_found_pays_its_part() -> None:
    market = make_market(unbonding_time=6_400)
    market.chain.ok(delegate("dave", "v0", STAKE))
    order_id = market.run(submit(deposit=900_000, rematch=False))
    market.train_round(order_id)
    market.chain.ok(undelegate("dave", "v0", STAKE))
    burnt = POTS.get(market.chain.overlay(), BURNT_POT.name)
    market.say_all(order_id, lambda: find_wrong_aggregation(market, order_id))
    assert market.panel(order_id, 0).slash == PRICE_OF_LEG
    assert leaving(market.chain, "dave", "v0") == STAKE - PRICE_OF_LEG // 2
    assert stake_of(market.chain, "v0").tokens == STAKE - PRICE_OF_LEG // 2
    assert POTS.get(market.chain.overlay(), BURNT_POT.name) > burnt


def test_stake_that_left_before_the_order_pays_nothing() -> None:
    market = make_market(unbonding_time=6_400)
    market.chain.ok(delegate("dave", "v0", STAKE))
    market.chain.ok(undelegate("dave", "v0", STAKE))
    order_id = market.run(submit(deposit=900_000, rematch=False))
    market.train_round(order_id)
    market.say_all(order_id, lambda: find_wrong_aggregation(market, order_id))
    assert market.panel(order_id, 0).slash == PRICE_OF_LEG
    assert leaving(market.chain, "dave", "v0") == STAKE


def test_sold_stake_does_not_leave_before_the_leg_is_over() -> None:
    """The validator sells stake, undelegates all of it, and waits: its coins wait longer."""
    market = make_market()
    order_id = market.run(submit(deposit=900_000, rematch=False))
    assert get_load(market.chain.overlay(), "v0").value == PRICE_OF_LEG
    before = market.chain.worth("v0")
    market.chain.ok(undelegate("v0", "v0", STAKE - PRICE_OF_LEG + 1))
    assert get_backing(market.chain.overlay(), "v0")[0], "it gets no more matches"
    assert get_backing(market.chain.overlay(), "v0")[2] == 0
    market.chain.pass_time(3 * UNBONDING)
    assert market.chain.worth("v0") == before
    assert len(UNBONDINGS.scan(market.chain.overlay(), "v0")) == 1
    market.chain.ok(MsgStopOrder("v0", order_id, 1))
    market.chain.pass_time(market.order(order_id).window + UNBONDING)
    assert get_load(market.chain.overlay(), "v0").value == 0
    market.chain.pass_time(2)
    assert UNBONDINGS.scan(market.chain.overlay(), "v0") == []
    assert market.chain.worth("v0") >= before + STAKE - PRICE_OF_LEG + 1


def test_stake_that_no_order_needs_leaves_in_time() -> None:
    market = make_market()
    market.run(submit(deposit=900_000, rematch=False))
    before = market.chain.worth("v0")
    market.chain.ok(undelegate("v0", "v0", STAKE - PRICE_OF_LEG))
    market.chain.pass_time(UNBONDING)
    assert market.chain.worth("v0") == before + STAKE - PRICE_OF_LEG


def test_sold_stake_is_not_redelegated() -> None:
    market = make_market()
    market.run(submit(deposit=900_000, rematch=False))
    too_much = redelegate("v0", "v0", "v1", STAKE - PRICE_OF_LEG + 1)
    market.chain.refused(WRONG_STATE, too_much, field="amount")
    market.chain.ok(redelegate("v0", "v0", "v1", STAKE - PRICE_OF_LEG))
    assert worth(market.chain, "v0", "v0") == PRICE_OF_LEG


def test_capacity_falls_and_rises_with_delegations_at_once() -> None:
    market = make_market()

    def free() -> int:
        return get_backing(market.chain.overlay(), "v0")[2]

    market.chain.ok(delegate("dave", "v0", STAKE))
    assert free() == 2 * STAKE
    market.chain.ok(undelegate("dave", "v0", STAKE // 2))
    assert free() == 3 * STAKE // 2
    market.chain.ok(redelegate("dave", "v0", "v1", STAKE // 2))
    assert free() == STAKE
    assert get_backing(market.chain.overlay(), "v1")[2] == 3 * STAKE // 2


def test_validators_of_any_wallet_stop_no_beacon_and_get_no_seats() -> None:
    """Half of the stake joins without a key, a daemon or a promise."""
    market = make_market()
    market.chain.ok(create("dave", COINS // 2))
    order_id = market.run(submit(deposit=900_000, rematch=False))
    market.train_round(order_id)
    market.wait_stage(order_id)
    assert "dave" not in market.seated(order_id, 0, 1)
    market.answer_all(order_id, 0)
    market.chain.pass_time(market.order(order_id).window + 2)
    assert market.order(order_id).next_round == 1


def test_a_validator_outside_the_set_may_not_challenge_and_need_not_waive() -> None:
    market = make_market()
    wait = 5_000
    wanted = submit(deposit=900_000, rematch=False, challenges=ChallengeTerms(wait=wait))
    order_id = market.run(replace(wanted, deadline=10**6))
    market.chain.ok(create("dave", ASSAY))
    market.train_round(order_id)
    market.answer_all(order_id, 0)
    market.chain.refused(NOT_YOURS, MsgWaive("dave", order_id, 1, 0), field="sender")
    for name in ("carol", *market.validators):
        market.chain.ok(MsgWaive(name, order_id, 1, 0))
    market.chain.pass_time(market.order(order_id).window + 2)
    assert market.order(order_id).next_round == 1
