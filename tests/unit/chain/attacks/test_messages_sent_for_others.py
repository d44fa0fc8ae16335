"""A grantee does for its granter what it was allowed, once for each coin of a limit, and for nobody else."""

from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.authz.tables import AUTHORIZATION_ENDS, AUTHORIZATIONS, AUTHORIZATIONS_BY
from chain.state_machine.gas import gas_of
from chain.state_machine.lane import Lane
from chain.state_machine.rules import RULES
from domain.authz.messages import GenericAuthorization, Grant, MsgExec, MsgGrant, MsgRevoke, SendAuthorization
from domain.errors import (
    AUTHORIZATION_EXPIRED,
    AUTHORIZATION_NOT_FOUND,
    GRANTEE_IS_GRANTER,
    INSUFFICIENT_FUNDS,
    INVALID_COINS,
    INVALID_EXPIRATION,
    INVALID_REQUEST,
    OUT_OF_GAS,
    UNAUTHORIZED,
    UNKNOWN_REQUEST,
)
from domain.feegrant.messages import MsgGrantAllowance
from domain.hashing import message_id
from domain.ledger.messages import MsgDepositBond, MsgSend
from domain.ledger.records import Coin
from domain.legs.messages import MsgAcceptOrder
from domain.market.messages import MsgSubmitOrder
from domain.messages import Message
from domain.staking.moves import STAKES_POT
from domain.times import Timestamp
from tests.support.chain_harness import CHAIN_ID, COINS, Chain, prove_key
from tests.support.chain_market import CONSUMER, Market, bid, submit
from tests.support.fee_grants import after, coins, give, make_chain, only, paid, send
from wire.results import tx_data

BIG = 9_000_000


@pytest.fixture
def chain() -> Chain:
    return make_chain()


def allow(
    what: Any = MsgSend.URL, granter: str = "alice", grantee: str = "bob", ends: Timestamp | None = None
) -> MsgGrant:
    authorization = GenericAuthorization(what) if isinstance(what, str) else what
    return MsgGrant(granter, grantee, Grant(authorization, ends))


def some(limit: int, *to: str) -> SendAuthorization:
    return SendAuthorization(coins(limit), to)


def do(*messages: Message, grantee: str = "bob") -> MsgExec:
    return MsgExec(grantee, messages or (send("alice", "carol", 5),))


def left(chain: Chain) -> int | None:
    grant = AUTHORIZATIONS.get(chain.overlay(), "bob", "alice", MsgSend.URL)
    return None if grant is None else grant.spend_limit


# --- what is allowed -----------------------------------------------------------------------------


def test_a_grantee_sends_for_its_granter(chain: Chain) -> None:
    chain.ok(allow())
    before = chain.balance("alice")
    (result,) = chain.ok(do()).tx_results
    assert chain.balance("alice") == before - 5
    assert chain.sequence("alice") == 1
    actions = [event for event in result.events if event.type == "message"]
    assert [event.get("action") for event in actions] == [MsgExec.URL, MsgSend.URL]
    assert [event.get("sender") for event in actions] == ["bob", "alice"]
    assert actions[1].get("authz_msg_index") == "0"


def test_an_account_needs_no_authorization_of_its_own(chain: Chain) -> None:
    chain.ok(do(send("bob", "carol", 3)))


@pytest.mark.parametrize(
    "message",
    [
        do(),
        do(send("alice", "bob"), grantee="carol"),
        do(MsgDepositBond("alice", 5)),
        do(send("carol", "bob")),
        do(allow("/cosmos.bank.v1beta1.MsgSend", "alice", "carol")),
        do(send("bob", "carol"), send("carol", "bob")),
    ],
)
def test_what_nobody_allowed(chain: Chain, message: MsgExec) -> None:
    """Neither without an authorization, nor by that of another type, of another account, or for another account."""
    if message != do():
        chain.ok(allow())
    before = [chain.balance(name) for name in ("alice", "carol")]
    chain.refused(AUTHORIZATION_NOT_FOUND, message, field="msgs")
    after_it = [chain.balance(name) for name in ("alice", "carol")]
    assert before[0] == after_it[0]
    assert before[1] - after_it[1] == chain.fees.get("carol", 0)


def test_all_messages_or_none(chain: Chain) -> None:
    chain.ok(allow(some(100)))
    before = chain.balance("alice")
    chain.refused(INSUFFICIENT_FUNDS, do(send("alice", "carol", 60), send("alice", "carol", 41)))
    assert (chain.balance("alice"), left(chain)) == (before, 100)
    chain.refused(INSUFFICIENT_FUNDS, do(send("alice", "carol", 60), send("bob", "carol", COINS)))
    assert (chain.balance("alice"), left(chain)) == (before, 100)


def test_a_limit_shrinks_and_ends_with_its_last_coin(chain: Chain) -> None:
    chain.ok(allow(some(100, "carol")))
    chain.refused(UNAUTHORIZED, do(send("alice", "bob", 1)), field="msgs.to_address")
    chain.ok(do(send("alice", "carol", 60)))
    assert left(chain) == 40
    chain.ok(do(send("alice", "carol", 30), send("alice", "carol", 10)))
    chain.refused(AUTHORIZATION_NOT_FOUND, do())
    for table in (AUTHORIZATIONS, AUTHORIZATIONS_BY, AUTHORIZATION_ENDS):
        assert not list(table.keys(chain.overlay()))


def test_the_time_of_an_authorization(chain: Chain) -> None:
    chain.ok(allow(ends=after(chain, 11)))
    chain.ok(do(), seconds=10)
    chain.refused(AUTHORIZATION_EXPIRED, do())
    chain.refused(AUTHORIZATION_NOT_FOUND, do())
    assert chain.seen("authz.ended")


def test_a_revoked_authorization(chain: Chain) -> None:
    chain.ok(allow(ends=after(chain, 500)))
    revoke = MsgRevoke("alice", "bob", MsgSend.URL)
    assert [result.code for result in chain.block(revoke, do()).tx_results] == [0, AUTHORIZATION_NOT_FOUND.number]
    chain.refused(AUTHORIZATION_NOT_FOUND, revoke)
    assert not list(AUTHORIZATION_ENDS.keys(chain.overlay()))


def test_a_new_authorization_replaces_the_old_one(chain: Chain) -> None:
    chain.ok(allow(some(100), ends=after(chain, 5)))
    chain.ok(allow(some(7)))
    assert left(chain) == 7
    chain.block(seconds=50)
    assert left(chain) == 7


@pytest.mark.parametrize(
    ("message", "code", "field"),
    [
        (allow(grantee="alice"), GRANTEE_IS_GRANTER, "grantee"),
        (allow(grantee=STAKES_POT.address), UNAUTHORIZED, "grantee"),
        (allow(some(0)), INVALID_COINS, "grant.authorization.spend_limit"),
        (allow(some(1, "carol", "carol")), INVALID_REQUEST, "grant.authorization.allow_list"),
        (allow(SendAuthorization((Coin("ufoo", 1),), ())), INVALID_COINS, "grant.authorization.spend_limit.denom"),
        (allow("/cosmos.bank.v1beta1.MsgOther"), UNKNOWN_REQUEST, "grant.authorization.msg"),
        (allow(MsgExec.URL), INVALID_REQUEST, "grant.authorization.msg"),
        (allow(ends=Timestamp(5)), INVALID_EXPIRATION, "grant.expiration"),
        (do(do(send("bob", "carol"))), INVALID_REQUEST, "msgs"),
    ],
)
def test_what_is_refused(chain: Chain, message: Message, code: Any, field: str) -> None:
    chain.refused(code, message, field=field)


def test_a_flood_of_ends(chain: Chain) -> None:
    ends = after(chain, 100)
    chain.ok(*(allow(grantee=f"new{number:02}", ends=ends) for number in range(40)))
    chain.block(seconds=101)
    assert len(AUTHORIZATIONS.scan(chain.overlay())) == 8


# --- gas, fees and the lane ----------------------------------------------------------------------


def test_messages_inside_cost_what_they_cost_outside(chain: Chain) -> None:
    one, both = chain.tx(do()), chain.tx(do(send("alice", "carol"), send("alice", "carol")))
    assert gas_of(both) - gas_of(one) == 20_000
    assert gas_of(one) - gas_of(chain.tx(send("bob", "carol"))) == 20_000
    chain.ok(allow())
    assert chain.check(chain.tx(do(), gas_limit=gas_of(one) - 1)).code == OUT_OF_GAS.number


def test_a_stateless_fault_inside_costs_no_fee(chain: Chain) -> None:
    before = chain.balance("bob")
    tx = chain.tx(do(send("alice", "carol", 0)))
    assert chain.check(tx).code == INVALID_COINS.number
    chain.refused(INVALID_COINS, tx)
    assert chain.balance("bob") == before


def test_a_fee_grant_can_pay_for_it(chain: Chain) -> None:
    """Bob acts for alice with alice's coins, without any of his own."""
    chain.ok(allow(), give(only(MsgExec.URL)))
    bob = chain.balance("bob")
    chain.ok(paid(chain, do()))
    assert chain.balance("bob") == bob


def test_a_grantee_cannot_let_its_granter_pay_fees(chain: Chain) -> None:
    """Who may send a granter's coins may not give them away as fees: that is another type of message."""
    chain.ok(allow())
    chain.refused(AUTHORIZATION_NOT_FOUND, do(MsgGrantAllowance("alice", "bob", give().allowance)))


def test_no_duty_is_done_for_others_in_the_lane() -> None:
    market = Market(bidders=(), checked=False)
    market.chain.ok(bid("v0", slots=8))
    order_id = market.submit(submit(price_limit=10**12))
    chain, leg = market.chain, market.leg(order_id)
    duty = MsgAcceptOrder(leg.validator, order_id, leg.number)
    lane = Lane(chain.overlay(), RULES)
    assert lane.find(chain.tx(duty)) is not None
    assert lane.find(chain.tx(MsgExec(leg.validator, (duty,)))) is None


# --- orders --------------------------------------------------------------------------------------


def orders(consumer: str, grantee: str, sequence: int, count: int) -> tuple[MsgSubmitOrder, ...]:
    """Return orders of ``consumer`` whose ids are those of a transaction of ``grantee``."""
    made = []
    for number in range(count):
        message = replace(submit(price_limit=10**12), consumer=grantee)
        proven = prove_key(message, sequence, 16 * (number + 1))
        assert isinstance(proven, MsgSubmitOrder)
        made.append(replace(proven, consumer=consumer))
    return tuple(made)


def test_somebody_else_pays_for_an_order() -> None:
    """Carol lets mallory order with her coins. Each order has an id of its own, and none gets a fee back."""
    market = Market(consumers=(CONSUMER, "mallory"), checked=False)
    chain = market.chain
    chain.ok(allow(MsgSubmitOrder.URL, CONSUMER, "mallory"))
    sequence = chain.sequence("mallory")
    message = MsgExec("mallory", orders(CONSUMER, "mallory", sequence, 2))
    before = chain.balance(CONSUMER)
    tx = chain.tx(message, gas_limit=BIG)
    (result,) = chain.ok(tx).tx_results
    ids = [value for name, value in result.responses if name == "order_id"]
    assert ids == [message_id("order", CHAIN_ID, "mallory", sequence, place) for place in (16, 32)]
    assert [market.order(order_id).consumer for order_id in ids] == [CONSUMER] * 2
    assert chain.balance(CONSUMER) == before - sum(order.deposit for order in orders(CONSUMER, "mallory", 0, 2))
    assert [market.order_fee(order_id) for order_id in ids] == [0, 0]
    data = tx_data([message, send("a", "b")], result)
    assert all(order_id in data for order_id in ids)


def test_one_fee_is_not_given_back_for_several_orders() -> None:
    """A consumer that orders for itself inside a MsgExec paid one fee for all of them."""
    market = Market(consumers=(CONSUMER,), checked=False)
    chain = market.chain
    message = MsgExec(CONSUMER, orders(CONSUMER, CONSUMER, chain.sequence(CONSUMER), 2))
    (result,) = chain.ok(chain.tx(message, gas_limit=BIG)).tx_results
    ids = [value for name, value in result.responses if name == "order_id"]
    assert [market.order_fee(order_id) for order_id in ids] == [0, 0]
