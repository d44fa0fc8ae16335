"""Audits of closed rounds: draws of seats, silence, and when a round's audit is done (protocol section 5).

Three draws at most. The first draws ``auditors`` seats and the places, which are the same for all. Whoever is silent
to the end of a draw loses a cut of its stake; the second draw fills the silent seats with validators who had none. The
third seats every validator who is no party and has not answered, and one answer is enough. A round whose third draw
ends without any answer from anybody is void: never verified and never paid.
"""

from dataclasses import replace

from chain.state_machine import keys
from chain.state_machine.context import Context
from chain.state_machine.ledger import balances
from chain.state_machine.proof import settlement
from chain.state_machine.proof.audit_seats import (
    AUDIT_LOT,
    audit_lot_id,
    get_active_seats,
    get_auditors,
    stop_audit,
)
from chain.state_machine.proof.lots import get_hashes, get_parties, open_lot
from chain.state_machine.queue import Due, schedule
from chain.state_machine.registry.powers import is_active
from chain.state_machine.tables import (
    ASSIGNMENTS,
    AUDITS,
    ORDERS,
    ROUNDS,
    SHARES,
    VALIDATORS,
    get_number,
    get_validators,
    mark,
    number_of,
)
from domain.records import Assignment, Audit, Lot, Order, Place, Round, Seat, Share, Validator
from escrow.moves import Move, Transfer
from escrow.settle import audit_fee
from pol.rules.lots import audit_place_count, audit_places, draw_weighted, seed
from pol.rules.schedule import segment_samples, share_work

ALL = 3


def open_audit(ctx: Context, order: Order, assignment: Assignment, closed: Round) -> None:
    """Open the audit of a round that was just closed, or void it behind a void one.

    Without auditors (a genesis choice) there is no audit.
    """
    if order.params.auditors == 0:
        return
    before = closed.number - 1
    if before >= 0 and ROUNDS.must(ctx.store, order.id, closed.attempt, before).void:
        mark_void(ctx, closed)
        return
    AUDITS.put(
        ctx.store, Audit(order.id, closed.attempt, closed.number, 0, (), (), 0, agreed=False)
    )
    _open_draw(ctx, order, assignment, closed.number)


def draw_seats(ctx: Context, lot: Lot) -> None:
    """Draw the seats of the next draw, and at the first one the places."""
    order_id = lot.id[:-16]
    attempt, number = number_of(lot.id[-16:-8]), number_of(lot.id[-8:])
    audit = AUDITS.must(ctx.store, order_id, attempt, number)
    order = ORDERS.must(ctx.store, order_id)
    assignment = ASSIGNMENTS.must(ctx.store, order_id, attempt)
    able = _get_able(ctx, order, assignment)
    if audit.draw == 0:
        audit = replace(audit, places=_draw_places(ctx, lot, order, assignment, number))
    draw = audit.draw + 1
    seats = _draw(lot, audit, able, draw, order.params.auditors)
    if not seats and draw < ALL:  # a set this small has nobody else: everybody at once
        draw = ALL
        seats = _draw(lot, audit, able, draw, order.params.auditors)
    ends = ctx.clock + max(1, order.params.round_window // 2)
    audit = replace(
        audit,
        draw=draw,
        seats=(*audit.seats, *(Seat(name, (), 0, missed=False) for name in seats)),
        draw_ends=ends,
    )
    AUDITS.put(ctx.store, audit)
    ctx.emit(
        "audit.drawn",
        ("order", order_id),
        ("attempt", attempt),
        ("round", number),
        ("draw", draw),
        ("seats", ",".join(seats)),
    )
    for name in seats:
        mark(ctx.store, keys.duty(name, order_id, attempt, number))
    if seats:
        schedule(ctx, ends, Due.AUDIT_DRAW, order_id, attempt, number)
    else:  # nobody is left to ask
        _end_last_draw(ctx, order, audit)


def apply_draw_end(ctx: Context, order_id: bytes, attempt: int, number: int) -> None:
    """End a draw: silent seats are cut, and the next draw begins."""
    audit = AUDITS.must(ctx.store, order_id, attempt, number)
    silent = get_active_seats(audit)
    if audit.agreed or not silent or ctx.clock < audit.draw_ends:
        return
    order = ORDERS.must(ctx.store, order_id)
    assignment = ASSIGNMENTS.must(ctx.store, order_id, attempt)
    for seat in silent:
        cut = 0 if audit.draw == ALL else _cut_silent(ctx, order, assignment, audit, seat)
        ctx.store.delete(keys.duty(seat.validator, order_id, attempt, number))
        ctx.emit(
            "audit.missed",
            ("order", order_id),
            ("attempt", attempt),
            ("round", number),
            ("auditor", seat.validator),
            ("cut", cut),
        )
    seats = tuple(replace(seat, missed=True) if seat in silent else seat for seat in audit.seats)
    audit = replace(audit, seats=seats)
    AUDITS.put(ctx.store, audit)
    if audit.draw == ALL:
        _end_last_draw(ctx, order, audit)
    else:
        _open_draw(ctx, order, assignment, number)


def is_done(audit: Audit) -> bool:
    """Tell whether enough seats have answered, now that one did: all of the draw, or one in the last draw."""
    return audit.draw == ALL or not get_active_seats(audit)


def finish_audit(ctx: Context, order: Order, audit: Audit) -> None:
    """Close an audit that agrees with the chain, and settle what can be settled."""
    AUDITS.put(ctx.store, replace(audit, agreed=True))
    stop_audit(ctx, order.id, audit.attempt, audit.round, right=get_auditors(audit))
    settlement.advance(ctx, order.id)


def void_round(ctx: Context, order: Order, attempt: int, number: int) -> None:
    """Mark a round that will never be verified, and every round after it with it.

    Nobody has to audit what can never be paid.
    """
    closed = ROUNDS.get(ctx.store, order.id, attempt, number)
    while closed is not None and not closed.void:
        mark_void(ctx, closed)
        closed = ROUNDS.get(ctx.store, order.id, attempt, closed.number + 1)
    settlement.advance(ctx, order.id)


def mark_void(ctx: Context, closed: Round) -> None:
    """Mark one round as void, and end its audit."""
    ROUNDS.put(ctx.store, replace(closed, void=True))
    stop_audit(ctx, closed.order_id, closed.attempt, closed.number, right=())
    names = (("order", closed.order_id), ("attempt", closed.attempt), ("round", closed.number))
    ctx.emit("round.void", *names)


def _open_draw(ctx: Context, order: Order, assignment: Assignment, number: int) -> None:
    open_lot(
        ctx,
        AUDIT_LOT,
        audit_lot_id(order.id, assignment.attempt, number),
        get_parties(ctx, order, assignment),
        order.params.lot_wait,
    )


def _get_able(ctx: Context, order: Order, assignment: Assignment) -> list[Validator]:
    """Return the validators who may have a seat, by operator."""
    parties = get_parties(ctx, order, assignment)
    return [
        validator
        for validator in get_validators(ctx.store)
        if validator.operator not in parties and is_active(validator)
    ]


def _draw(
    lot: Lot, audit: Audit, able: list[Validator], draw: int, auditors: int
) -> tuple[str, ...]:
    """Return the operators of a draw's new seats."""
    if draw == ALL:
        answered = get_auditors(audit)
        return tuple(v.operator for v in able if v.operator not in answered)
    seated = {seat.validator for seat in audit.seats}
    count = auditors if draw == 1 else sum(seat.missed for seat in audit.seats)
    able = [validator for validator in able if validator.operator not in seated]
    drawn = draw_weighted(
        seed(f"audit/seats/{draw}", lot.id, get_hashes(lot)), [v.stake for v in able], count
    )
    return tuple(able[index].operator for index in drawn)


def _draw_places(
    ctx: Context, lot: Lot, order: Order, assignment: Assignment, number: int
) -> tuple[Place, ...]:
    closed = ROUNDS.must(ctx.store, order.id, assignment.attempt, number)
    shares = [SHARES.must(ctx.store, *key) for key in closed.share_keys]
    terms = order.terms
    count = audit_place_count(
        audit_fee(closed.work, assignment.price, order.params.audit_bps),
        share_work(terms, segment_samples(terms)),
        assignment.price,
        order.params.audit_places_max,
    )
    numbered = [_numbered(share) for share in shares]
    return audit_places(seed("audit/places", lot.id, get_hashes(lot)), numbered, count)


def _numbered(share: Share) -> tuple[int, int, int]:
    return share.claim.slot, share.claim.issue, share.claim.segments


def _cut_silent(
    ctx: Context, order: Order, assignment: Assignment, audit: Audit, seat: Seat
) -> int:
    """Cut a silent seat's stake by twice its share of the audit fee; the coins wait for the round's end."""
    closed = ROUNDS.must(ctx.store, order.id, audit.attempt, audit.round)
    fee = audit_fee(closed.work, assignment.price, order.params.audit_bps)
    validator = VALIDATORS.must(ctx.store, seat.validator)
    # In the second draw the first one was full, or there would be nobody to draw.
    first_seats = min(order.params.auditors, len(audit.seats))
    cut = min(validator.stake, 2 * (fee // first_seats))
    VALIDATORS.put(ctx.store, replace(validator, audits_missed=validator.audits_missed + 1))
    balances.apply_transfer(ctx, Transfer(Move.CUT, seat.validator, "", cut))
    pot_key = keys.audit_pot(order.id, audit.attempt, audit.round)
    ctx.store.put(pot_key, get_number(ctx.store, pot_key) + cut)
    return cut


def _end_last_draw(ctx: Context, order: Order, audit: Audit) -> None:
    """After the last draw the answers that there are decide; without any, the round is void."""
    if get_auditors(audit):
        finish_audit(ctx, order, audit)
    else:
        void_round(ctx, order, audit.attempt, audit.round)
