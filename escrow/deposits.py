"""Deposits of an order: amounts locked, paid and refunded, one row per depositor, used first in, first out."""

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
    """Return the amount (uassay) that all depositors together have locked."""
    return sum(row.locked for row in escrow.depositors)


def use(escrow: Escrow, amount: int) -> Escrow:
    """Return the escrow after ``amount`` (uassay) of the deposits was paid, first in, first out.

    Raise ValueError if less than ``amount`` is locked, which only a bug of the caller can cause.
    """
    rows = []
    unpaid = money(amount)
    for row in escrow.depositors:
        part = min(unpaid, row.locked)
        rows.append(replace(row, locked=row.locked - part, paid=row.paid + part))
        unpaid -= part
    if unpaid:
        raise ValueError(f"an escrow cannot pay {amount} uassay: {unpaid} uassay are missing")
    return replace(escrow, depositors=tuple(rows))


def withhold(escrow: Escrow, amount: int) -> Escrow:
    """Return the escrow with ``amount`` (uassay) more withheld for the validator; a negative amount releases a part.

    Raise ValueError if the withheld sum would be negative or above the locked sum.
    """
    withheld = escrow.withheld + amount
    if not 0 <= withheld <= locked(escrow):
        raise ValueError(f"an escrow cannot withhold {withheld} uassay: only {locked(escrow)} uassay are left in it")
    return replace(escrow, withheld=withheld)


def refund(escrow: Escrow) -> tuple[Escrow, tuple[Transfer, ...]]:
    """Return the escrow in which only the withheld sum is left, and the moves that return the rest to the depositors.

    The withheld sum stays locked in the first rows, because these rows would pay it.
    """
    source = escrow.order_id.hex()
    unpaid = escrow.withheld
    rows = []
    moves = []
    for row in escrow.depositors:
        stays = min(unpaid, row.locked)
        unpaid -= stays
        back = row.locked - stays
        rows.append(replace(row, locked=stays, refunded=row.refunded + back))
        if back:
            moves.append(Transfer(move=REFUND, source=source, target=row.address, amount=back))
    return replace(escrow, depositors=tuple(rows)), tuple(moves)


def affordable_price(escrow: Escrow, work: int, price_limit: int, reserved: int = 0) -> int:
    """Return the highest price (uassay per PFLOP) up to ``price_limit`` at which the escrow can pay ``work`` FLOPs.

    ``reserved`` is the part (uassay) of the locked deposits that cannot be used. The price is rounded down. So the cost
    of the work at this price, rounded up, is never more than the locked deposits less ``reserved``.
    """
    return min(price_limit, max(0, locked(escrow) - reserved) * PFLOP // work)
