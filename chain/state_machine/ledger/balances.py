"""The ledger: the only place that changes balances, bond accounts and stakes, and it only moves coins.

Beside the records, each pot has a count of its own that every move changes. A count below zero stops the block, and
the counts must add up to the supply after every block: a second, independent count of every coin.
"""

from dataclasses import replace

from chain.state_machine import keys
from chain.state_machine.context import Context
from chain.state_machine.ledger.pots import MODULE_ADDRESSES
from chain.state_machine.store import Overlay
from chain.state_machine.tables import (
    ACCOUNTS,
    BOND_ACCOUNTS,
    VALIDATORS,
    get_balance,
    get_bond_account,
    get_number,
)
from domain.errors import INSUFFICIENT_FUNDS, Refusal
from domain.records import Account
from escrow.moves import MOVES, Move, Pot, Transfer


class LedgerBroken(Exception):
    """A move that the rules exclude: a bug, which stops the block."""


def ensure_account(store: Overlay, address: str) -> Account:
    """Return the account of ``address``, which is made with the next number where there is none."""
    account = ACCOUNTS.get(store, address)
    if account is None:
        number = get_number(store, keys.next_account())
        store.put(keys.next_account(), number + 1)
        account = Account(address, number, 0, b"")
        ACCOUNTS.put(store, account)
    return account


def check_funds(ctx: Context, address: str, amount: int) -> None:
    """Refuse where ``address`` has less than ``amount``; the text is the one that Cosmos clients know."""
    denom = ctx.block.denom
    balance = get_balance(ctx.store, address, denom)
    if balance < amount:
        raise Refusal(
            INSUFFICIENT_FUNDS,
            "amount",
            f"spendable balance {balance}{denom} is smaller than {amount}{denom}: insufficient funds",
            "send less, or add coins first",
        )


def transfer(ctx: Context, sender: str, recipient: str, amount: int) -> None:
    """Move coins between accounts. Both counts are the same pot, so nothing else changes."""
    store, denom = ctx.store, ctx.block.denom
    ensure_account(store, recipient)
    _add(store, keys.balance(sender, denom), -amount)
    _add(store, keys.balance(recipient, denom), amount)
    _note_coins(ctx, sender, recipient, amount)


def apply_transfer(ctx: Context, transfer: Transfer) -> None:
    """Move coins from one pot to another; nothing happens for an amount of 0."""
    amount = transfer.amount
    if amount == 0:
        return
    if amount < 0 or transfer.move not in MOVES or transfer.move is Move.SEND:
        raise LedgerBroken(f"no such move: {transfer}")
    source, target = MOVES[transfer.move]
    _change(ctx, source, transfer.source, -amount)
    _change(ctx, target, transfer.target, amount)
    _add(ctx.store, keys.component(source), -amount)
    _add(ctx.store, keys.component(target), amount)
    if source is Pot.ACCOUNTS or target is Pot.ACCOUNTS:
        _note_coins(
            ctx,
            MODULE_ADDRESSES.get(source, transfer.source),
            MODULE_ADDRESSES.get(target, transfer.target),
            amount,
        )


def charge_fee(ctx: Context, address: str, balance: int, fee: int) -> None:
    """Move a fee out of an account that has ``balance``, which is enough."""
    if ctx.is_check:  # the counts of a mempool's overlay are never read
        ctx.store.put(keys.balance(address, ctx.block.denom), balance - fee)
    else:
        apply_transfer(ctx, Transfer(Move.FEE, address, "", fee))


def mint_genesis(store: Overlay, pot: Pot, amount: int) -> None:
    """Count coins of the genesis in their pot and in the supply."""
    _add(store, keys.component(pot), amount)
    _add(store, keys.supply(), amount)


def _change(ctx: Context, pot: Pot, owner: str, amount: int) -> None:
    """Change the record of ``owner`` in ``pot``. Escrows and audit pots are changed by who makes the move."""
    store = ctx.store
    if pot is Pot.ACCOUNTS:
        if amount > 0:
            ensure_account(store, owner)
        _add(store, keys.balance(owner, ctx.block.denom), amount)
    elif pot is Pot.BONDS:
        account = get_bond_account(store, owner)
        if account.free + amount < 0:
            raise LedgerBroken(f"the bond account of {owner} lacks {-account.free - amount}")
        BOND_ACCOUNTS.put(store, replace(account, free=account.free + amount))
    elif pot is Pot.STAKES:
        validator = VALIDATORS.must(store, owner)
        if validator.stake + amount < 0:
            raise LedgerBroken(f"the stake of {owner} lacks {-validator.stake - amount}")
        VALIDATORS.put(store, replace(validator, stake=validator.stake + amount))
        changed = keys.power_changed(owner)
        if store.get(changed) is None:  # the stake before the block's first change
            store.put(changed, validator.stake)


def _add(store: Overlay, key: bytes, amount: int) -> None:
    value = (store.record(int, key) or 0) + amount
    if value < 0:
        raise LedgerBroken(f"a count at {key.hex()} went to {value}")
    store.put(key, value)


def _note_coins(ctx: Context, sender: str, recipient: str, amount: int) -> None:
    coins = f"{amount}{ctx.block.denom}"
    ctx.note("coin_spent", ("spender", sender), ("amount", coins))
    ctx.note("coin_received", ("receiver", recipient), ("amount", coins))
    ctx.note("transfer", ("recipient", recipient), ("sender", sender), ("amount", coins))
