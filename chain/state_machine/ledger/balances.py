"""The ledger: the only place that changes balances, bond accounts and the count of a pot, and it only moves coins.

Beside the records, each pot has a count of its own that every move changes. A count below zero stops the block, and
the counts must add up to the supply after every block: a second, independent count of every coin. Nobody has a key for
the address of a pot: events show it, and plain transfers must not use it.
"""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.tables import (
    ACCOUNTS,
    BALANCES,
    BOND_ACCOUNTS,
    NEXT_ACCOUNT,
    POTS,
    SUPPLY,
    get_bond_account,
)
from chain.state_machine.queue import QueueEntry
from chain.state_machine.store import Overlay
from chain.state_machine.tables import Numbers
from domain.amount import in_assay
from domain.errors import INSUFFICIENT_FUNDS, Refusal
from domain.genesis import DENOM
from domain.ledger.events import BondReleased
from domain.ledger.moves import (
    ACCOUNTS_POT,
    BOND_RELEASE,
    BONDS_POT,
    FEE,
    SEND,
)
from domain.ledger.records import Account
from domain.moves import Pot, Transfer
from domain.vocabulary import MOVES
from domain.vocabulary import POTS as ALL_POTS


class LedgerBroken(Exception):
    """A move that the rules exclude: a bug, which stops the block."""


def ensure_account(store: Overlay, address: str) -> Account:
    """Return the account of ``address``, which is made with the next number where there is none."""
    account = ACCOUNTS.get(store, address)
    if account is None:
        number = NEXT_ACCOUNT.get(store)
        NEXT_ACCOUNT.set(store, number + 1)
        account = Account(address=address, number=number, sequence=0, pub_key=b"")
        ACCOUNTS.put(store, account)
    return account


def check_funds(ctx: Context, address: str, amount: int) -> None:
    """Refuse where ``address`` has less than ``amount``; the text ends as Cosmos clients know it."""
    denom = ctx.block.denom
    balance = BALANCES.get(ctx.store, address, denom)
    if balance < amount:
        raise Refusal(
            INSUFFICIENT_FUNDS,
            "amount",
            f"the account has {_coins(balance, denom)}, and this takes {_coins(amount, denom)}: insufficient funds",
            "send less, or add coins first",
        )


def _coins(amount: int, denom: str) -> str:
    return in_assay(amount) if denom == DENOM else f"{amount}{denom}"


def transfer(ctx: Context, sender: str, recipient: str, amount: int) -> None:
    """Move coins between accounts. Both counts are the same pot, so nothing else changes."""
    store, denom = ctx.store, ctx.block.denom
    ensure_account(store, recipient)
    _add(store, BALANCES, -amount, sender, denom)
    _add(store, BALANCES, amount, recipient, denom)
    _note_coins(ctx, sender, recipient, amount)


def apply_transfer(ctx: Context, transfer: Transfer) -> None:
    """Move coins from one pot to another; nothing happens for an amount of 0."""
    amount = transfer.amount
    if amount == 0:
        return
    move = transfer.move
    if amount < 0 or MOVES.get(move.name) is not move or move is SEND:
        raise LedgerBroken(f"no such move: {transfer}")
    source, target = move.source, move.target
    _change(ctx, source, transfer.source, -amount)
    _change(ctx, target, transfer.target, amount)
    _add(ctx.store, POTS, -amount, source.name)
    _add(ctx.store, POTS, amount, target.name)
    if source is ACCOUNTS_POT or target is ACCOUNTS_POT:
        _note_coins(
            ctx,
            source.address or transfer.source,
            target.address or transfer.target,
            amount,
        )


def charge_fee(ctx: Context, address: str, balance: int, fee: int) -> None:
    """Move a fee out of an account that has ``balance``, which is enough."""
    # The counts of a mempool's overlay are never read.
    if ctx.is_check:
        BALANCES.set(ctx.store, balance - fee, address, ctx.block.denom)
    else:
        apply_transfer(ctx, Transfer(move=FEE, source=address, target="", amount=fee))


def on_withdrawal(ctx: Context, entry: QueueEntry) -> None:
    """Pay out what waited long enough of a bond account's withdrawals."""
    owner = entry.text(0)
    account = get_bond_account(ctx.store, owner)
    ready = sum(w.amount for w in account.withdrawals if w.release_at <= ctx.clock)
    waiting = tuple(w for w in account.withdrawals if w.release_at > ctx.clock)
    if ready == 0:
        return
    BOND_ACCOUNTS.update(ctx.store, owner, free=account.free + ready, withdrawals=waiting)
    apply_transfer(ctx, Transfer(move=BOND_RELEASE, source=owner, target=owner, amount=ready))
    ctx.emit(BondReleased(owner, ready))


def mint_genesis(store: Overlay, pot: Pot, amount: int) -> None:
    """Count coins of the genesis in their pot and in the supply."""
    _add(store, POTS, amount, pot.name)
    _add(store, SUPPLY, amount)


def _change(ctx: Context, pot: Pot, owner: str, amount: int) -> None:
    """Change the record of ``owner`` in ``pot``. Those of other components are changed by who makes the move."""
    store = ctx.store
    if pot is ACCOUNTS_POT:
        if amount > 0:
            ensure_account(store, owner)
        _add(store, BALANCES, amount, owner, ctx.block.denom)
    elif pot is BONDS_POT:
        account = get_bond_account(store, owner)
        if account.free + amount < 0:
            raise LedgerBroken(f"the bond account of {owner} lacks {-account.free - amount}")
        BOND_ACCOUNTS.put(store, replace(account, free=account.free + amount))


def _add(store: Overlay, numbers: Numbers, amount: int, *parts: str) -> None:
    key = numbers.key(*parts)
    value = (store.record(int, key) or 0) + amount
    if value < 0:
        raise LedgerBroken(f"the {numbers.name} of {parts} went to {value}")
    store.put(key, value)


def _note_coins(ctx: Context, sender: str, recipient: str, amount: int) -> None:
    coins = f"{amount}{ctx.block.denom}"
    ctx.note("coin_spent", ("spender", sender), ("amount", coins))
    ctx.note("coin_received", ("receiver", recipient), ("amount", coins))
    ctx.note("transfer", ("recipient", recipient), ("sender", sender), ("amount", coins))


_TAKEN = frozenset(pot.address for pot in ALL_POTS.values() if pot.address)


def is_module(address: str) -> bool:
    """Tell whether plain transfers to ``address`` are refused."""
    return address in _TAKEN
