"""The seats of an audit, and how an audit stops, whoever stops it."""

from chain.state_machine import keys
from chain.state_machine.context import Context
from chain.state_machine.ledger import balances
from chain.state_machine.proof.lots import drop_lot
from chain.state_machine.queue import Due, cancel
from chain.state_machine.tables import AUDITS, get_number
from domain.hashing import u64
from domain.records import Audit, Seat
from escrow.moves import Move, Transfer
from escrow.settle import split_cut

AUDIT_LOT = "audit"


def get_active_seats(audit: Audit) -> list[Seat]:
    """Return the seats of the current draw that may still answer."""
    return [seat for seat in audit.seats if not seat.answers and not seat.missed]


def get_auditors(audit: Audit | None) -> tuple[str, ...]:
    """Return who answered, in the order of the seats."""
    return () if audit is None else tuple(s.validator for s in audit.seats if s.answers)


def stop_audit(
    ctx: Context, order_id: bytes, attempt: int, number: int, right: tuple[str, ...]
) -> None:
    """End an audit's duties, queue entries and lot; what was cut goes to those who were ``right``, else is burnt."""
    audit = AUDITS.get(ctx.store, order_id, attempt, number)
    if audit is None:
        return
    for seat in audit.seats:
        ctx.store.delete(keys.duty(seat.validator, order_id, attempt, number))
    cancel(ctx, audit.draw_ends, Due.AUDIT_DRAW, order_id, attempt, number)
    drop_lot(ctx, AUDIT_LOT, audit_lot_id(order_id, attempt, number))
    pot_key = keys.audit_pot(order_id, attempt, number)
    pot = get_number(ctx.store, pot_key)
    ctx.store.delete(pot_key)
    if pot == 0:
        return
    parts, burnt = split_cut(pot, right)
    for auditor, amount in parts:
        balances.apply_transfer(ctx, Transfer(Move.CUT_SHARE, "", auditor, amount))
    balances.apply_transfer(ctx, Transfer(Move.CUT_BURN, "", "", burnt))


def audit_lot_id(order_id: bytes, attempt: int, number: int) -> bytes:
    """Return the id of the lot of an audit's next draw: its parts, so that they can be read."""
    return order_id + u64(attempt) + u64(number)
