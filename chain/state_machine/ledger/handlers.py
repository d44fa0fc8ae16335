"""Handlers of the ledger: sending coins, and withdrawing free bond coins."""

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
    """Check that the amount is positive and the recipient is not a pot."""
    if not message.amount[0].amount:
        raise Refusal(INVALID_COINS, "amount", "is not a positive amount", "send at least 1")
    if is_module(message.to_address):
        reason = "is a module's address, which cannot receive plain transfers"
        raise Refusal(UNAUTHORIZED, "to_address", reason, "send to the address of a key")


def check_send(ctx: Context, message: MsgSend) -> int:
    """Return the amount to send; refuse a coin of another denomination, and an amount above the sender's balance."""
    coin = message.amount[0]
    if coin.denom != ctx.block.denom:
        reason = f"{coin.denom} is not the coin of this chain"
        raise Refusal(INVALID_COINS, "amount.denom", reason, f"send {ctx.block.denom}")
    balances.check_funds(ctx, message.from_address, coin.amount)
    return coin.amount


def apply_send(ctx: Context, message: MsgSend, amount: int) -> None:
    """Move the coins."""
    balances.transfer(ctx, message.from_address, message.to_address, amount)


# --- MsgWithdrawBond: withdraw free bond coins; they arrive after ``bond_wait`` ------------------


def check_withdraw_bond(ctx: Context, message: MsgWithdrawBond) -> BondAccount:
    """Return the owner's bond account.

    Refuse an amount above the free part of the account. Also refuse a withdrawal if too many earlier ones still wait.
    """
    account = get_bond_account(ctx.store, message.owner)
    if account.free < message.amount:
        reason = f"only {in_assay(account.free)} of the bond is free"
        raise Refusal(INSUFFICIENT_BOND, "amount", reason, "withdraw less, or wait until locked bonds are returned")
    if len(account.withdrawals) >= WITHDRAWALS_MAX:
        reason = f"already has {WITHDRAWALS_MAX} withdrawals that are not paid out yet"
        raise Refusal(LIMIT_REACHED, "owner", reason, "wait until the first is paid out")
    return account


def apply_withdraw_bond(ctx: Context, message: MsgWithdrawBond, account: BondAccount) -> None:
    """Take the coins out of the free part of the bond account, and schedule their payment."""
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
