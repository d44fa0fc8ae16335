"""Where coins can be, and the table of all moves between these places.

A move that is not in the table does not happen: the ledger of the state machine checks each one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from domain.amount import PFLOP, money
from domain.ledger.records import Depositor, Escrow


class Pot(StrEnum):
    """A part of the state that holds coins. The sum over all of them is the supply."""

    ACCOUNTS = "accounts"  # owner: address
    BONDS = "bonds"  # bond accounts, waiting withdrawals included; owner: address
    ESCROWS = "escrows"  # deposits and bonds of orders; owner: order id in hex
    STAKES = "stakes"  # owner: operator
    AUDITS = "audits"  # cut from seats that were silent or differed, until their round ends; owner: the round
    FEES = "fees"
    COMMUNITY = "community"
    BURNT = "burnt"  # a sink that nothing leaves


class Move(StrEnum):
    """Why coins move."""

    SEND = "send"
    FEE = "fee"
    BOND_DEPOSIT = "bond_deposit"
    BOND_RELEASE = "bond_release"
    DEPOSIT = "deposit"
    JOB_BOND = "job_bond"
    SHARE_BOND = "share_bond"
    # out of an order's deposits
    PROVIDER = "provider"
    VALIDATOR = "validator"
    AUDITOR = "auditor"
    PROTOCOL = "protocol"
    REFUND = "refund"
    DEPOSIT_BURN = "deposit_burn"
    # of these, what is withheld from a validator who rejected what was right
    HELD_COMPENSATION = "held_compensation"
    HELD_BURN = "held_burn"
    # out of the bonds in an order's escrow
    BOND_RETURN = "bond_return"
    COMPENSATION = "compensation"
    DECLINE_FEE = "decline_fee"
    BURN = "burn"
    # out of the stake of a validator who rejected what was right
    STAKE_COMPENSATION = "stake_compensation"
    STAKE_BURN = "stake_burn"
    # seats of panels
    CUT = "cut"
    CUT_SHARE = "cut_share"
    CUT_BURN = "cut_burn"
    POOL_SHARE = "pool_share"


MOVES: Mapping[Move, tuple[Pot, Pot]] = MappingProxyType(
    {
        Move.SEND: (Pot.ACCOUNTS, Pot.ACCOUNTS),
        Move.FEE: (Pot.ACCOUNTS, Pot.FEES),
        Move.BOND_DEPOSIT: (Pot.ACCOUNTS, Pot.BONDS),
        Move.BOND_RELEASE: (Pot.BONDS, Pot.ACCOUNTS),
        Move.DEPOSIT: (Pot.ACCOUNTS, Pot.ESCROWS),
        Move.JOB_BOND: (Pot.BONDS, Pot.ESCROWS),
        Move.SHARE_BOND: (Pot.BONDS, Pot.ESCROWS),
        Move.PROVIDER: (Pot.ESCROWS, Pot.ACCOUNTS),
        Move.VALIDATOR: (Pot.ESCROWS, Pot.ACCOUNTS),
        Move.AUDITOR: (Pot.ESCROWS, Pot.ACCOUNTS),
        Move.PROTOCOL: (Pot.ESCROWS, Pot.COMMUNITY),
        Move.REFUND: (Pot.ESCROWS, Pot.ACCOUNTS),
        Move.DEPOSIT_BURN: (Pot.ESCROWS, Pot.BURNT),
        Move.HELD_COMPENSATION: (Pot.ESCROWS, Pot.ACCOUNTS),
        Move.HELD_BURN: (Pot.ESCROWS, Pot.BURNT),
        Move.BOND_RETURN: (Pot.ESCROWS, Pot.BONDS),
        Move.COMPENSATION: (Pot.ESCROWS, Pot.ACCOUNTS),
        Move.DECLINE_FEE: (Pot.ESCROWS, Pot.COMMUNITY),
        Move.BURN: (Pot.ESCROWS, Pot.BURNT),
        Move.STAKE_COMPENSATION: (Pot.STAKES, Pot.ACCOUNTS),
        Move.STAKE_BURN: (Pot.STAKES, Pot.BURNT),
        Move.CUT: (Pot.STAKES, Pot.AUDITS),
        Move.CUT_SHARE: (Pot.AUDITS, Pot.ACCOUNTS),
        Move.CUT_BURN: (Pot.AUDITS, Pot.BURNT),
        Move.POOL_SHARE: (Pot.COMMUNITY, Pot.ACCOUNTS),
    }
)

FROM_WITHHELD = frozenset({Move.VALIDATOR, Move.HELD_COMPENSATION, Move.HELD_BURN})
"""Moves that use up what an order withholds from its validator, which is part of the deposit."""

FROM_DEPOSITS = FROM_WITHHELD | {
    Move.PROVIDER,
    Move.AUDITOR,
    Move.PROTOCOL,
    Move.REFUND,
    Move.DEPOSIT_BURN,
}
"""Moves that use up a deposit; the other moves out of an escrow come from bonds."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Coins that move for a reason; the reason says from which pot to which."""

    move: Move
    source: str  # owner in the pot that the move takes from
    target: str  # owner in the pot that it goes to
    amount: int  # uassay


# --- deposits of an order: locked, paid, refunded, each depositor in a row, first in, first out --


def open_escrow(order_id: bytes, depositor: str, amount: int) -> tuple[Escrow, Transfer]:
    """Return the escrow of a new order and the move of its deposit."""
    row = Depositor(address=depositor, locked=money(amount), paid=0, refunded=0)
    deposit = Transfer(move=Move.DEPOSIT, source=depositor, target=order_id.hex(), amount=amount)
    return Escrow(order_id, (row,), ()), deposit


def locked(escrow: Escrow) -> int:
    """Return what all depositors together have locked."""
    return sum(row.locked for row in escrow.depositors)


def use(escrow: Escrow, amount: int) -> Escrow:
    """Return the escrow after ``amount`` of the deposits was paid, first in, first out.

    ValueError where that much is not locked: sums are made so that it cannot happen.
    """
    rows = []
    left = money(amount)
    for row in escrow.depositors:
        part = min(left, row.locked)
        rows.append(replace(row, locked=row.locked - part, paid=row.paid + part))
        left -= part
    if left:
        raise ValueError(f"an escrow lacks {left} of {amount} uassay")
    return replace(escrow, depositors=tuple(rows))


def withhold(escrow: Escrow, amount: int) -> Escrow:
    """Return the escrow with ``amount`` more of its deposits kept for the validator; below 0 it is less.

    ValueError where that is more than is locked, or less than nothing.
    """
    withheld = escrow.withheld + amount
    if not 0 <= withheld <= locked(escrow):
        raise ValueError(f"an escrow cannot withhold {withheld} of {locked(escrow)} uassay")
    return replace(escrow, withheld=withheld)


def refund(escrow: Escrow) -> tuple[Escrow, tuple[Transfer, ...]]:
    """Return the empty escrow and the moves of what is locked back to its depositors."""
    source = escrow.order_id.hex()
    moves = tuple(
        Transfer(move=Move.REFUND, source=source, target=row.address, amount=row.locked)
        for row in escrow.depositors
        if row.locked
    )
    rows = tuple(
        replace(row, locked=0, refunded=row.refunded + row.locked) for row in escrow.depositors
    )
    return replace(escrow, depositors=rows), moves


def affordable_price(escrow: Escrow, work: int, price_limit: int, reserved: int = 0) -> int:
    """Return the highest price per PFLOP, up to the limit, at which the escrow pays ``work`` beside what is reserved.

    Rounded down, so that the price times the work, rounded up, is never more than what is left.
    """
    return min(price_limit, max(0, locked(escrow) - reserved) * PFLOP // work)
