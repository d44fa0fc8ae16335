"""Closed rounds and their audits: whether a round can be verified, and how everything about it stops."""

from chain.state_machine.context import Context
from chain.state_machine.ledger.balances import apply_transfer
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.proof.lots import drop_lot
from chain.state_machine.proof.tables import (
    AUDIT_POTS,
    AUDITS,
    DUTIES,
    ROUNDS,
    AuditSubject,
)
from chain.state_machine.queue import Due, cancel
from domain.errors import WRONG_STATE, Refusal
from domain.events import RoundVoid
from domain.records import Assignment, Audit, Order, Round, RoundKey, Seat
from escrow.moves import Move, Transfer
from escrow.settle import split_cut


def check_open_round(order: Order, assignment: Assignment, round: int) -> None:
    """Refuse for a round that is not the open one."""
    if round != assignment.round or round >= order.terms.rounds:
        reason = f"the open round is {assignment.round} of {order.terms.rounds}"
        raise Refusal(WRONG_STATE, "round", reason, "read the order again")


def get_next_round(ctx: Context, order: Order) -> Round | None:
    """Return the first closed round of the current attempt that is not verified."""
    verified = TALLIES.must(ctx.store, order.id).verified
    return ROUNDS.get(ctx.store, order.id, order.attempt, verified)


def is_verifiable(ctx: Context, closed: Round) -> bool:
    """Tell whether a round may be verified, given that the round before it is."""
    audit = AUDITS.get(ctx.store, *closed.key)
    answered = audit is None or audit.agreed
    return not closed.void and ctx.clock >= closed.window_ends and answered


def get_active_seats(audit: Audit) -> list[Seat]:
    """Return the seats of the current draw that may still answer."""
    return [seat for seat in audit.seats if not seat.answers and not seat.missed]


def get_auditors(audit: Audit | None) -> tuple[str, ...]:
    """Return who answered, in the order of the seats."""
    return () if audit is None else tuple(s.validator for s in audit.seats if s.answers)


def stop_audit(ctx: Context, key: RoundKey, right: tuple[str, ...]) -> None:
    """End an audit's duties, queue entries and lot; what was cut goes to those who were ``right``, else is burnt."""
    audit = AUDITS.get(ctx.store, *key)
    if audit is None:
        return
    for seat in audit.seats:
        DUTIES.delete(ctx.store, seat.validator, *key)
    cancel(ctx, audit.draw_ends, Due.AUDIT_DRAW, *key)
    drop_lot(ctx, AuditSubject(key))
    pot = AUDIT_POTS.get(ctx.store, *key)
    AUDIT_POTS.delete(ctx.store, *key)
    if pot == 0:
        return
    parts, burnt = split_cut(pot, right)
    for auditor, amount in parts:
        apply_transfer(ctx, Transfer(Move.CUT_SHARE, "", auditor, amount))
    apply_transfer(ctx, Transfer(Move.CUT_BURN, "", "", burnt))


def mark_void(ctx: Context, closed: Round) -> None:
    """Mark one round as void, and end its audit."""
    ROUNDS.update(ctx.store, *closed.key, void=True)
    stop_audit(ctx, closed.key, right=())
    ctx.emit(RoundVoid(closed.key))
