"""Deposits of an order: locked, paid, refunded, each depositor in a row, first in, first out."""

from dataclasses import replace

from domain.amount import PFLOP, money
from domain.records import Depositor, Escrow
from escrow.moves import Move, Transfer


def open_escrow(order_id: bytes, depositor: str, amount: int) -> tuple[Escrow, Transfer]:
    """Return the escrow of a new order and the move of its deposit."""
    row = Depositor(depositor, money(amount), 0, 0)
    deposit = Transfer(Move.DEPOSIT, depositor, order_id.hex(), amount)
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


def refund(escrow: Escrow) -> tuple[Escrow, tuple[Transfer, ...]]:
    """Return the empty escrow and the moves of what is locked back to its depositors."""
    source = escrow.order_id.hex()
    moves = tuple(
        Transfer(Move.REFUND, source, row.address, row.locked)
        for row in escrow.depositors
        if row.locked
    )
    rows = tuple(
        replace(row, locked=0, refunded=row.refunded + row.locked) for row in escrow.depositors
    )
    return replace(escrow, depositors=rows), moves


def affordable_price(escrow: Escrow, work: int, price_limit: int) -> int:
    """Return the highest price per PFLOP, up to the limit, at which the rest of the escrow pays ``work``.

    Rounded down, so that the price times the work, rounded up, is never more than what is locked.
    """
    return min(price_limit, locked(escrow) * PFLOP // work)
