"""Fee grants: made, used, spent, renewed with each period, revoked and removed; what each refuses."""

from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.feegrant.tables import FEE_GRANT_ENDS, FEE_GRANTS, FEE_GRANTS_BY
from chain.state_machine.gas import GRANTER_GAS, gas_of
from domain.errors import (
    FEE_ALLOWANCE_EXPIRED,
    FEE_LIMIT_EXCEEDED,
    GRANT_NOT_FOUND,
    INSUFFICIENT_FUNDS,
    INVALID_ADDRESS,
    INVALID_COINS,
    INVALID_DURATION,
    INVALID_REQUEST,
    MESSAGE_NOT_ALLOWED,
    NO_ALLOWED_MESSAGES,
    UNAUTHORIZED,
)
from domain.feegrant.messages import BasicAllowance, MsgPruneAllowances
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.staking.moves import STAKES_POT
from domain.times import NS, TimeSpan, Timestamp
from tests.support.chain_harness import COINS, Chain
from tests.support.fee_grants import (
    DAY,
    FEE,
    after,
    basic,
    give,
    left,
    make_chain,
    only,
    paid,
    periodic,
    send,
    take,
)


@pytest.fixture
def chain() -> Chain:
    return make_chain()


def spent(chain: Chain) -> int:
    """Return what alice paid for others."""
    return COINS - chain.worth("alice") + chain.fees.get("alice", 0)


def limit_of(chain: Chain) -> int | None:
    grant = left(chain)
    assert grant is not None
    return grant.spend_limit


# --- use -----------------------------------------------------------------------------------------


def test_the_granter_pays(chain: Chain) -> None:
    chain.ok(give())
    before = {name: chain.balance(name) for name in ("alice", "bob")}
    (result,) = chain.ok(paid(chain)).tx_results
    assert chain.balance("alice") == before["alice"] - FEE
    assert chain.balance("bob") == before["bob"] - 1
    assert chain.sequence("bob") == 1
    kinds = [event.type for event in result.events]
    assert "use_feegrant" in kinds
    (tx,) = [event for event in result.events if event.type == "tx" and event.get("fee")]
    assert (tx.get("fee"), tx.get("fee_payer")) == (f"{FEE}uassay", "alice")
    assert limit_of(chain) is None


def test_an_account_without_coins_can_act(chain: Chain) -> None:
    chain.ok(give(grantee="new"))
    tx = paid(chain, MsgPruneAllowances("new"))
    assert chain.check(tx).code == 0
    chain.ok(tx)
    assert chain.balance("new") == 0


def test_who_names_itself_as_granter_pays_for_itself(chain: Chain) -> None:
    before = chain.balance("bob")
    chain.ok(paid(chain, granter="bob"))
    assert chain.balance("bob") == before - FEE - 1


def test_a_granter_needs_the_coins(chain: Chain) -> None:
    chain.ok(give())
    chain.refused(INSUFFICIENT_FUNDS, paid(chain, fee=COINS + 1))
    assert chain.check(paid(chain, fee=COINS + 1)).code == INSUFFICIENT_FUNDS.number


def test_a_limit_shrinks_and_ends_with_its_last_coin(chain: Chain) -> None:
    chain.ok(give(basic(2 * FEE)))
    chain.ok(paid(chain))
    assert limit_of(chain) == FEE
    chain.refused(FEE_LIMIT_EXCEEDED, paid(chain, fee=FEE + 1), field="fee.granter")
    assert limit_of(chain) == FEE
    chain.ok(paid(chain))
    assert left(chain) is None
    assert [event.type for event in chain.events if event.type.startswith("feegrant.")] == [
        "feegrant.granted",
        "feegrant.used",
        "feegrant.used",
        "feegrant.ended",
    ]
    chain.refused(GRANT_NOT_FOUND, paid(chain))


def test_a_failed_message_uses_the_grant_all_the_same(chain: Chain) -> None:
    chain.ok(give(basic(2 * FEE)))
    chain.refused(INSUFFICIENT_FUNDS, paid(chain, send(amount=COINS + 1)))
    assert limit_of(chain) == FEE


def test_the_time_of_a_grant(chain: Chain) -> None:
    """A grant can be used at its last nanosecond, and not after it."""
    chain.ok(give(basic(ends=after(chain, 11))))
    chain.ok(paid(chain), seconds=10)
    tx = paid(chain)
    assert left(chain) is not None
    chain.refused(FEE_ALLOWANCE_EXPIRED, tx, seconds=1)
    assert left(chain) is None
    for table in (FEE_GRANTS, FEE_GRANTS_BY, FEE_GRANT_ENDS):
        assert not list(table.keys(chain.overlay())), table.name
    assert chain.seen("feegrant.ended")


def test_a_grant_at_its_last_moment(chain: Chain) -> None:
    chain.ok(give(basic(ends=after(chain, 11))))
    chain.ok(paid(chain), seconds=10)


def test_messages_that_are_allowed(chain: Chain) -> None:
    chain.ok(give(only(MsgSend.URL)))
    chain.ok(paid(chain, send(), send()))
    chain.refused(MESSAGE_NOT_ALLOWED, paid(chain, send(), take("bob", "carol")), field="fee.granter")


def test_a_grant_is_not_shared(chain: Chain) -> None:
    chain.ok(give(), give(granter="carol", grantee="alice"))
    chain.refused(GRANT_NOT_FOUND, paid(chain, send("carol", "bob")))
    chain.refused(GRANT_NOT_FOUND, paid(chain, granter="carol"))


def test_gas_of_a_granter(chain: Chain) -> None:
    with_one = paid(chain)
    assert gas_of(with_one) == gas_of(replace(with_one, fee_granter="")) + GRANTER_GAS


def test_a_simulation_asks_for_the_grant(chain: Chain) -> None:
    tx = replace(paid(chain), fee=(), gas_limit=0)
    assert chain.simulate(tx).code == GRANT_NOT_FOUND.number
    chain.ok(give(basic(1)))
    assert chain.simulate(tx).code == 0
    assert limit_of(chain) == 1


# --- periods -------------------------------------------------------------------------------------


def test_a_period_bounds_what_is_spent_in_it(chain: Chain) -> None:
    chain.ok(give(periodic(FEE)))
    chain.ok(paid(chain))
    chain.refused(FEE_LIMIT_EXCEEDED, paid(chain), field="fee.granter")
    chain.ok(paid(chain), seconds=DAY - 1)
    chain.refused(FEE_LIMIT_EXCEEDED, paid(chain))


def test_a_new_period_has_no_more_than_is_left_in_all(chain: Chain) -> None:
    chain.ok(give(periodic(2 * FEE, limit=3 * FEE)))
    chain.ok(paid(chain, fee=2 * FEE))
    chain.refused(FEE_LIMIT_EXCEEDED, paid(chain, fee=FEE + 1), seconds=DAY)
    chain.ok(paid(chain))
    assert left(chain) is None


def test_a_period_never_shows_more_than_is_left(chain: Chain) -> None:
    chain.ok(give(periodic(3 * FEE, limit=4 * FEE)))
    chain.ok(paid(chain, fee=3 * FEE))
    chain.refused(INSUFFICIENT_FUNDS, paid(chain, send(amount=COINS + 1), fee=FEE - 100), seconds=DAY)
    grant = left(chain)
    assert grant is not None
    assert grant.period is not None
    assert (grant.spend_limit, grant.period.left) == (100, 100)


def test_the_first_period_may_have_less(chain: Chain) -> None:
    reset = after(chain, 10)
    chain.ok(give(periodic(2 * FEE, first=FEE, period_reset=reset)))
    chain.refused(FEE_LIMIT_EXCEEDED, paid(chain, fee=FEE + 1))
    chain.ok(paid(chain))
    chain.refused(FEE_LIMIT_EXCEEDED, paid(chain, fee=100))
    chain.ok(paid(chain, fee=2 * FEE), seconds=7)
    grant = left(chain)
    assert grant is not None
    assert grant.period is not None
    assert grant.period.resets_ns == reset.ns + DAY * NS


def test_a_period_after_a_pause_begins_with_its_use(chain: Chain) -> None:
    chain.ok(give(periodic(FEE, length=10, period_reset=after(chain, 5))))
    chain.ok(paid(chain), seconds=100)
    grant = left(chain)
    assert grant is not None
    assert grant.period is not None
    assert grant.period.resets_ns == chain.time_ns + 10 * NS


# --- making and revoking -------------------------------------------------------------------------


def test_what_a_grant_stores(chain: Chain) -> None:
    ends = after(chain, 100)
    chain.ok(give(only(MsgSend.URL, inner=periodic(5, length=7, first=3, basic=basic(9, ends))), grantee="new"))
    grant = left(chain, grantee="new")
    assert grant is not None
    assert (grant.spend_limit, grant.expires_ns, grant.allowed) == (9, ends.ns, (MsgSend.URL,))
    assert grant.period is not None
    assert (grant.period.limit, grant.period.left, grant.period.length_ns) == (5, 3, 7 * NS)
    account = chain.account("new")
    assert account is not None
    assert account.sequence == 0


@pytest.mark.parametrize(
    ("message", "code", "field"),
    [
        (give(grantee="alice"), INVALID_ADDRESS, "grantee"),
        (give(grantee=STAKES_POT.address), UNAUTHORIZED, "grantee"),
        (give(basic(0)), INVALID_COINS, "allowance.spend_limit"),
        (give(BasicAllowance((Coin("ufoo", 1),), None)), INVALID_COINS, "allowance.spend_limit.denom"),
        (give(basic(ends=Timestamp(-1))), INVALID_REQUEST, "allowance.expiration"),
        (give(basic(ends=Timestamp(5))), INVALID_REQUEST, "allowance.expiration"),
        (give(periodic(0)), INVALID_COINS, "allowance.period_spend_limit"),
        (give(periodic(1, limit=0)), INVALID_COINS, "allowance.spend_limit"),
        (give(periodic(1, period_spend_limit=())), INVALID_COINS, "allowance.period_spend_limit"),
        (
            give(periodic(1, period_can_spend=(Coin("ufoo", 1),))),
            INVALID_COINS,
            "allowance.period_can_spend.denom",
        ),
        (give(periodic(1, period=TimeSpan(0))), INVALID_DURATION, "allowance.period"),
        (give(only()), NO_ALLOWED_MESSAGES, "allowance.allowed_messages"),
        (take(), GRANT_NOT_FOUND, "grantee"),
    ],
)
def test_what_is_refused(chain: Chain, message: Any, code: Any, field: str) -> None:
    chain.refused(code, message, field=field)


def test_a_second_grant_needs_the_end_of_the_first(chain: Chain) -> None:
    chain.ok(give(basic(5)))
    chain.refused(INVALID_REQUEST, give(), field="grantee")
    chain.ok(take())
    assert left(chain) is None
    chain.ok(give(basic(6, after(chain, 5))))
    chain.ok(give(basic(7)), seconds=50)  # in the block that would remove it
    assert limit_of(chain) == 7
    chain.block(seconds=50)
    assert limit_of(chain) == 7


def test_a_revoked_grant_pays_no_more(chain: Chain) -> None:
    chain.ok(give(basic(5_000, after(chain, 500))))
    chain.ok(take())
    chain.refused(GRANT_NOT_FOUND, paid(chain))
    assert not list(FEE_GRANT_ENDS.keys(chain.overlay()))


# --- removal -------------------------------------------------------------------------------------


def many(chain: Chain, count: int) -> None:
    """Make fee grants that all end at the same time."""
    ends = after(chain, 100)
    chain.ok(*(give(basic(1, ends), grantee=f"new{number:03}") for number in range(count)))


def test_each_block_removes_some(chain: Chain) -> None:
    many(chain, 40)
    chain.block(seconds=101)
    assert len(FEE_GRANTS.scan(chain.overlay())) == 8
    chain.block()
    assert not FEE_GRANTS.scan(chain.overlay())


def test_anyone_can_remove_more(chain: Chain) -> None:
    many(chain, 120)
    (result,) = chain.ok(chain.tx(MsgPruneAllowances("bob"), gas_limit=9_000_000), seconds=101).tx_results
    assert len(FEE_GRANTS.scan(chain.overlay())) == 120 - 75 - 32
    assert result.gas_used > 75 * 20_000
    chain.pass_time(5)
    chain.ok(MsgPruneAllowances("bob"))
