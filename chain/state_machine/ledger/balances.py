"""The ledger: the only module that changes balances, bond accounts and the counts of pots.

Each pot has records and, separately, a count of its coins. Every move changes both. A count below zero stops the block.
After every block the counts must add up to the supply, so each coin is counted twice, in two independent ways. No one
has a key for the address of a pot. The address appears in events, and plain transfers to it are refused.
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
    """An error for a move of coins that the rules forbid. It is a bug, and stops the block."""


def ensure_account(store: Overlay, address: str) -> Account:
    """Return the account of ``address``; make one with the next number if there is none."""
    account = ACCOUNTS.get(store, address)
    if account is None:
        number = NEXT_ACCOUNT.get(store)
        NEXT_ACCOUNT.set(store, number + 1)
        account = Account(address=address, number=number, sequence=0, pub_key=b"")
        ACCOUNTS.put(store, account)
    return account


def check_funds(ctx: Context, address: str, amount: int) -> None:
    """Refuse the message if ``address`` has less than ``amount``.

    The reason ends with the words that Cosmos clients expect.
    """
    denom = ctx.block.denom
    balance = BALANCES.get(ctx.store, address, denom)
    if balance < amount:
        raise Refusal(
            INSUFFICIENT_FUNDS,
            "amount",
            f"the account has {_coins(balance, denom)}, but {_coins(amount, denom)} are needed: insufficient funds",
            "use a smaller amount, or send coins to the account first",
        )


def _coins(amount: int, denom: str) -> str:
    return in_assay(amount) if denom == DENOM else f"{amount}{denom}"


def transfer(ctx: Context, sender: str, recipient: str, amount: int) -> None:
    """Move coins between accounts. No pot's count changes, because both accounts are in the pot of accounts."""
    store = ctx.store
    denom = ctx.block.denom
    ensure_account(store, recipient)
    _add(store, BALANCES, -amount, sender, denom)
    _add(store, BALANCES, amount, recipient, denom)
    _note_coins(ctx, sender, recipient, amount)


def apply_transfer(ctx: Context, transfer: Transfer) -> None:
    """Move coins from one pot to another; do nothing for an amount of 0."""
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
    """Take a transaction's fee from an account, whose ``balance`` must be at least the fee."""
    # In the overlay of the mempool no one reads the counts.
    if ctx.is_check:
        BALANCES.set(ctx.store, balance - fee, address, ctx.block.denom)
    else:
        apply_transfer(ctx, Transfer(move=FEE, source=address, target="", amount=fee))


def on_withdrawal(ctx: Context, entry: QueueEntry) -> None:
    """Pay out the withdrawals of a bond account whose waiting time is over."""
    owner = entry.text(0)
    account = get_bond_account(ctx.store, owner)
    ready = sum(w.amount for w in account.withdrawals if w.release_at <= ctx.clock)
    waiting = tuple(w for w in account.withdrawals if w.release_at > ctx.clock)
    if ready == 0:
        return
    BOND_ACCOUNTS.update(ctx.store, owner, free=account.free + ready, withdrawals=waiting)
    apply_transfer(ctx, Transfer(move=BOND_RELEASE, source=owner, target=owner, amount=ready))
    ctx.emit(BondReleased(owner, ready))


def add_coins(store: Overlay, pot: Pot, amount: int) -> None:
    """Add new coins, of the genesis or minted, to two counts: the count of ``pot``, and the supply."""
    _add(store, POTS, amount, pot.name)
    _add(store, SUPPLY, amount)


def _change(ctx: Context, pot: Pot, owner: str, amount: int) -> None:
    """Add ``amount`` to the record of ``owner`` in ``pot``, if the ledger has that record.

    The caller changes any other record.
    """
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
        raise LedgerBroken(f"the {numbers.name} of {parts} would become {value}")
    store.put(key, value)


def _note_coins(ctx: Context, sender: str, recipient: str, amount: int) -> None:
    coins = f"{amount}{ctx.block.denom}"
    ctx.note("coin_spent", ("spender", sender), ("amount", coins))
    ctx.note("coin_received", ("receiver", recipient), ("amount", coins))
    ctx.note("transfer", ("recipient", recipient), ("sender", sender), ("amount", coins))


_POT_ADDRESSES = frozenset(pot.address for pot in ALL_POTS.values() if pot.address)


def is_module(address: str) -> bool:
    """Return whether ``address`` is the address of a pot, to which plain transfers are refused."""
    return address in _POT_ADDRESSES
