"""Debts and slashes: who bears them, and what they reach."""

import pytest

from chain.state_machine.ledger.balances import LedgerBroken
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.staking.cuts import get_liable, get_payable, get_slashable_stake
from chain.state_machine.staking.shares import divide, shares_for, shares_to_sell, worth_of
from chain.state_machine.staking.tables import UNBONDING_POOLS
from domain.amount import ASSAY
from domain.staking.records import ONE
from tests.support.chain_harness import COINS, STAKE, Chain
from tests.support.stakes import (
    UNBONDING,
    context,
    create,
    cut,
    delegate,
    leaving,
    make_chain,
    redelegate,
    slash,
    stake_of,
    undelegate,
    worth,
)

POOL = UNBONDING // 64


@pytest.fixture
def chain() -> Chain:
    chain = make_chain()
    chain.ok(delegate("alice", "v0", STAKE), delegate("bob", "v0", STAKE))
    return chain


def backing(chain: Chain, operator: str) -> int:
    return VALIDATORS.must(chain.overlay(), operator).stake


def test_a_debt_is_paid_by_the_tokens_first(chain: Chain) -> None:
    chain.ok(undelegate("alice", "v0", STAKE))
    cut(chain, "v0", STAKE)
    assert leaving(chain, "alice", "v0") == STAKE
    assert backing(chain, "v0") == STAKE == stake_of(chain, "v0").tokens
    assert worth(chain, "bob", "v0") == STAKE // 2
    cut(chain, "v0", STAKE + 5)
    assert leaving(chain, "alice", "v0") == STAKE - 5
    chain.block()


def test_a_debt_reaches_the_newest_pool_first_and_no_pool_from_before(chain: Chain) -> None:
    chain.ok(undelegate("alice", "v0", STAKE))
    old = chain.clock
    chain.pass_time(POOL)
    chain.ok(undelegate("bob", "v0", STAKE))
    store = chain.overlay()
    assert get_liable(store, "v0", old) == 3 * STAKE
    assert get_liable(store, "v0", old + 1) == 2 * STAKE
    assert get_payable(store, "v0", STAKE, old + 1) == STAKE
    assert get_payable(store, "v0", 9 * STAKE, old + 1) == 2 * STAKE
    cut(chain, "v0", STAKE + 7, since=old)
    assert (leaving(chain, "alice", "v0"), leaving(chain, "bob", "v0")) == (STAKE, STAKE - 7)
    with pytest.raises(LedgerBroken, match="the stake of v0 lacks 1"):
        cut(chain, "v0", STAKE - 7 + 1, since=old + 1)


def test_a_slash_takes_the_same_part_of_all_that_were_there(chain: Chain) -> None:
    chain.ok(undelegate("alice", "v0", STAKE // 2), redelegate("bob", "v0", "v1", STAKE // 2))
    assert get_slashable_stake(chain.overlay(), "v0", 0) == 3 * STAKE
    slash(chain, "v0", 3 * STAKE // 10)
    assert leaving(chain, "alice", "v0") == 9 * STAKE // 20
    assert worth(chain, "bob", "v1") == 9 * STAKE // 20
    assert worth(chain, "v1", "v1") == STAKE
    for name, part in (("alice", 2), ("bob", 2), ("v0", 1)):
        assert worth(chain, name, "v0") == 9 * STAKE // 10 // part
    chain.block()
    chain.pass_time(UNBONDING)
    assert chain.worth("alice") == COINS - STAKE + 9 * STAKE // 20


def test_a_slash_reaches_nothing_that_left_before_the_fault(chain: Chain) -> None:
    chain.ok(undelegate("alice", "v0", STAKE), redelegate("bob", "v0", "v1", STAKE))
    fault = chain.clock + 1
    assert get_slashable_stake(chain.overlay(), "v0", fault) == STAKE
    slash(chain, "v0", STAKE, since=fault)
    assert leaving(chain, "alice", "v0") == STAKE
    assert worth(chain, "bob", "v1") == STAKE
    assert stake_of(chain, "v0").tokens == 0
    chain.block()


def test_a_pool_takes_coins_for_a_part_of_the_time(chain: Chain) -> None:
    chain.ok(undelegate("alice", "v0", 1))
    chain.pass_time(POOL - 1)
    chain.ok(undelegate("bob", "v0", 1), seconds=0)
    chain.pass_time(1)
    chain.ok(undelegate("bob", "v0", 1), seconds=0)
    assert [pool.tokens for pool in UNBONDING_POOLS.scan(chain.overlay(), "v0")] == [2, 1]


def test_a_pool_that_lost_all_takes_no_more_coins(chain: Chain) -> None:
    chain.ok(undelegate("alice", "v0", 5))
    slash(chain, "v0", 3 * STAKE)
    chain.ok(delegate("v1", "v1", 1))
    assert leaving(chain, "alice", "v0") == 0
    chain.pass_time(UNBONDING)
    assert chain.worth("alice") == COINS - STAKE


def test_a_slash_reaches_what_was_redelegated_to_a_validator_outside_the_set(chain: Chain) -> None:
    chain.ok(create("new", 5 * ASSAY))
    chain.ok(redelegate("alice", "v0", "new", STAKE))
    slash(chain, "v0", 3 * STAKE)
    assert worth(chain, "alice", "new") == 0
    assert stake_of(chain, "new").tokens == 5 * ASSAY
    chain.block()
    chain.pass_time(UNBONDING)


def test_no_stake_is_left_over_when_rounding_leaves_nothing_else() -> None:
    """One unit of two redelegated ones, and no tokens: the unit comes from one of the two."""
    chain = make_chain()
    chain.ok(delegate("alice", "v0", ASSAY), delegate("bob", "v0", ASSAY))
    chain.ok(redelegate("alice", "v0", "v1", ASSAY), redelegate("bob", "v0", "v1", ASSAY))
    slash(chain, "v0", STAKE + 2 * ASSAY - 1)
    assert (stake_of(chain, "v0").tokens, worth(chain, "alice", "v1") + worth(chain, "bob", "v1")) in [(0, 1), (1, 0)]
    chain.block()


def test_more_than_the_stake_is_no_slash(chain: Chain) -> None:
    with pytest.raises(LedgerBroken, match="the stake of v0 lacks 1"):
        slash(chain, "v0", 3 * STAKE + 1)
    chain.change(lambda store: context(chain, store))


@pytest.mark.parametrize(
    ("amount", "parts"), [(0, []), (0, [0]), (1, [1, 1]), (5, [3, 0, 3]), (6, [3, 3]), (1, [0, 1])]
)
def test_a_division_gives_all_and_no_part_more_than_it_is(amount: int, parts: list[int]) -> None:
    divided = divide(amount, parts)
    assert sum(divided) == amount
    assert all(0 <= part <= most for part, most in zip(divided, parts, strict=True))


def test_shares_round_for_those_who_stay() -> None:
    assert shares_for(7, 0, 0) == 7 * ONE
    assert shares_for(7, 0, 5) == 0
    assert shares_for(7, 3, 10) == 23
    assert worth_of(23, 10, 33) == 6
    assert worth_of(1, 0, 0) == 0
    assert shares_to_sell(1, 9, 3, 10) == 4
    # The rest would be worth nothing.
    assert shares_to_sell(2, 9, 3, 10) == 9
    assert shares_to_sell(1, 8, 3, 10) == 4
