"""Handlers of the ledger: sending coins, and asking for a bond back."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.ledger import balances
from chain.state_machine.ledger.balances import is_module
from chain.state_machine.ledger.tables import BOND_ACCOUNTS, WITHDRAWAL_DUE, get_bond_account
from chain.state_machine.queue import schedule
from domain.amount import in_assay
from domain.errors import INSUFFICIENT_BOND, INVALID_COINS, LIMIT_REACHED, UNAUTHORIZED, Refusal
from domain.ledger.events import BondWithdrawing
from domain.ledger.messages import MsgSend, MsgWithdrawBond
from domain.ledger.params import LedgerParams
from domain.ledger.records import BondAccount, Withdrawal
from domain.limits import WITHDRAWALS_MAX

# --- MsgSend: move coins between accounts --------------------------------------------------------


def check_send_fields(message: MsgSend) -> None:
    """A positive amount, and a recipient that has a key."""
    if not message.amount[0].amount:
        raise Refusal(INVALID_COINS, "amount", "is not a positive amount", "send at least 1")
    if is_module(message.to_address):
        reason = "is a module's and takes no plain transfers"
        raise Refusal(UNAUTHORIZED, "to_address", reason, "send to a person")


def check_send(ctx: Context, message: MsgSend) -> int:
    """The chain's own coins, and enough of them; returns the amount."""
    coin = message.amount[0]
    if coin.denom != ctx.block.denom:
        reason = f"{coin.denom} is not a coin of this chain"
        raise Refusal(INVALID_COINS, "amount.denom", reason, f"send {ctx.block.denom}")
    balances.check_funds(ctx, message.from_address, coin.amount)
    return coin.amount


def apply_send(ctx: Context, message: MsgSend, amount: int) -> None:
    """Move the coins."""
    balances.transfer(ctx, message.from_address, message.to_address, amount)


# --- MsgWithdrawBond: ask for free bond coins back; they arrive after ``bond_wait`` --------------


def check_withdraw_bond(ctx: Context, message: MsgWithdrawBond) -> BondAccount:
    """That much is free, and not too many withdrawals wait; returns the bond account."""
    account = get_bond_account(ctx.store, message.owner)
    if account.free < message.amount:
        reason = f"only {in_assay(account.free)} of the bond is free"
        raise Refusal(INSUFFICIENT_BOND, "amount", reason, "wait until bonds have returned")
    if len(account.withdrawals) >= WITHDRAWALS_MAX:
        reason = f"{WITHDRAWALS_MAX} withdrawals wait already"
        raise Refusal(LIMIT_REACHED, "owner", reason, "wait for the first")
    return account


def apply_withdraw_bond(ctx: Context, message: MsgWithdrawBond, account: BondAccount) -> None:
    """Set the coins aside until their release."""
    release_at = ctx.clock + ctx.block.params.of(LedgerParams).bond_wait
    withdrawals = (*account.withdrawals, Withdrawal(message.amount, release_at))
    changed = replace(account, free=account.free - message.amount, withdrawals=withdrawals)
    BOND_ACCOUNTS.put(ctx.store, changed)
    schedule(ctx, release_at, WITHDRAWAL_DUE, message.owner)
    ctx.emit(BondWithdrawing(message.owner, message.amount, release_at))


HANDLERS = (
    Handler(message=MsgSend, check_state=check_send, apply=apply_send, check_fields=check_send_fields),
    Handler(MsgWithdrawBond, check_withdraw_bond, apply_withdraw_bond),
)
