"""Deposits of an order: locked, paid, refunded, each depositor in a row, first in, first out."""

from dataclasses import replace

from domain.amount import PFLOP, money
from domain.ledger.moves import DEPOSIT, REFUND
from domain.ledger.records import Depositor, Escrow
from domain.moves import Transfer


def open_escrow(order_id: bytes, depositor: str, amount: int) -> tuple[Escrow, Transfer]:
    """Return the escrow of a new order and the move of its deposit."""
    row = Depositor(address=depositor, locked=money(amount), paid=0, refunded=0)
    deposit = Transfer(move=DEPOSIT, source=depositor, target=order_id.hex(), amount=amount)
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
        Transfer(move=REFUND, source=source, target=row.address, amount=row.locked)
        for row in escrow.depositors
        if row.locked
    )
    rows = tuple(replace(row, locked=0, refunded=row.refunded + row.locked) for row in escrow.depositors)
    return replace(escrow, depositors=rows), moves


def affordable_price(escrow: Escrow, work: int, price_limit: int, reserved: int = 0) -> int:
    """Return the highest price per PFLOP, up to the limit, at which the escrow pays ``work`` beside what is reserved.

    Rounded down, so that the price times the work, rounded up, is never more than what is left.
    """
    return min(price_limit, max(0, locked(escrow) - reserved) * PFLOP // work)
