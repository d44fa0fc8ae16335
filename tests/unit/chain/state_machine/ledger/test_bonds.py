"""Depositing and withdrawing bonds."""

import pytest

from domain.errors import BAD_FIELD, INSUFFICIENT_BOND, INSUFFICIENT_FUNDS, LIMIT_REACHED
from domain.ledger.messages import MsgDepositBond, MsgWithdrawBond
from domain.ledger.queries import AccountRequest
from domain.limits import WITHDRAWALS_MAX
from tests.support.chain_harness import COINS, Chain, make_genesis

WAIT = 60  # bond_wait of a local network


@pytest.fixture
def chain() -> Chain:
    chain = Chain(make_genesis(("alice",), ("v0",)))
    chain.ok(MsgDepositBond("alice", 1_000))
    return chain


def test_a_deposit_moves_coins(chain: Chain) -> None:
    assert chain.bond("alice") == 1_000
    assert chain.worth("alice") == COINS - 1_000


@pytest.mark.parametrize("amount", [0, -5, 2**63])
def test_amounts_are_bounded(chain: Chain, amount: int) -> None:
    chain.refused(BAD_FIELD, MsgDepositBond("alice", amount))
    chain.refused(BAD_FIELD, MsgWithdrawBond("alice", amount))


def test_more_than_there_is_cannot_be_moved(chain: Chain) -> None:
    chain.refused(INSUFFICIENT_FUNDS, MsgDepositBond("alice", COINS))
    chain.refused(INSUFFICIENT_BOND, MsgWithdrawBond("alice", 1_001))
    chain.refused(INSUFFICIENT_BOND, MsgWithdrawBond("v0", 1))


def test_a_withdrawal_arrives_after_its_wait_and_not_before(chain: Chain) -> None:
    chain.ok(MsgWithdrawBond("alice", 300))
    release = chain.clock + WAIT
    assert chain.bond("alice") == 700
    chain.pass_until(release - 1)
    assert chain.worth("alice") == COINS - 1_000
    chain.block()
    assert chain.clock == release
    assert chain.worth("alice") == COINS - 700
    assert chain.ask(AccountRequest("alice")).bond.withdrawals == ()
    assert chain.seen("bond.released")[-1].get("amount") == "300"


def test_withdrawals_of_one_moment_arrive_together(chain: Chain) -> None:
    chain.ok(MsgWithdrawBond("alice", 300), MsgWithdrawBond("alice", 200))
    chain.pass_time(WAIT)
    assert chain.worth("alice") == COINS - 500


def test_withdrawals_that_wait_are_counted(chain: Chain) -> None:
    chain.ok(*[MsgWithdrawBond("alice", 1)] * WITHDRAWALS_MAX)
    chain.refused(LIMIT_REACHED, MsgWithdrawBond("alice", 1))
