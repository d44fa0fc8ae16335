"""MsgWithdrawBond: ask for free bond coins back; they arrive after ``bond_wait``."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.ledger.tables import BOND_ACCOUNTS, get_bond_account
from chain.state_machine.queue import Due, schedule
from domain.errors import INSUFFICIENT_BOND, LIMIT_REACHED, Refusal
from domain.events import BondWithdrawing
from domain.limits import WITHDRAWALS_MAX
from domain.messages import MsgWithdrawBond
from domain.records import BondAccount, Withdrawal


def check_state(ctx: Context, message: MsgWithdrawBond) -> BondAccount:
    """That much is free, and not too many withdrawals wait; returns the bond account."""
    account = get_bond_account(ctx.store, message.owner)
    if account.free < message.amount:
        reason = f"only {account.free} is free"
        raise Refusal(INSUFFICIENT_BOND, "amount", reason, "wait until bonds have returned")
    if len(account.withdrawals) >= WITHDRAWALS_MAX:
        reason = f"{WITHDRAWALS_MAX} withdrawals wait already"
        raise Refusal(LIMIT_REACHED, "owner", reason, "wait for the first")
    return account


def apply(ctx: Context, message: MsgWithdrawBond, account: BondAccount) -> None:
    """Set the coins aside until their release."""
    release_at = ctx.clock + ctx.block.params.bond_wait
    withdrawals = (*account.withdrawals, Withdrawal(message.amount, release_at))
    changed = replace(account, free=account.free - message.amount, withdrawals=withdrawals)
    BOND_ACCOUNTS.put(ctx.store, changed)
    schedule(ctx, release_at, Due.WITHDRAWAL, message.owner)
    ctx.emit(BondWithdrawing(message.owner, message.amount))


HANDLER = Handler(MsgWithdrawBond, check_state, apply)
