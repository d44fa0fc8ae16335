"""Audits of closed rounds: draws of seats, silence, and when a round's audit is done (protocol section 5).

Three draws at most. The first draws ``auditors`` seats and the places, which are the same for all. Whoever is silent
to the end of a draw loses a cut of its stake; the second draw fills the silent seats with validators who had none. The
third seats every validator who is no party and has not answered, and one answer is enough. A round whose third draw
ends without any answer from anybody is void: never verified and never paid.
"""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.gas import SEAT_GAS, VALIDATOR_GAS
from chain.state_machine.market.tables import ASSIGNMENTS, ORDERS
from chain.state_machine.proof.lots import get_parties, open_lot
from chain.state_machine.proof.rounds import (
    get_active_seats,
    get_auditors,
    get_next_round,
    mark_void,
    stop_audit,
)
from chain.state_machine.proof.settlement import advance
from chain.state_machine.proof.tables import (
    AUDIT_POTS,
    AUDITS,
    DUTIES,
    ROUNDS,
    AuditSubject,
)
from chain.state_machine.queue import Due, Entry, schedule
from chain.state_machine.registry.members import cut_stake, is_active
from chain.state_machine.registry.tables import VALIDATORS
from domain.events import AuditDrawn, AuditMissed
from domain.records import Assignment, Audit, Order, Place, Round, RoundKey, Seat, Validator
from escrow.settle import audit_fee
from pol.rules.lots import audit_place_count, audit_places, draw_weighted, seed
from pol.rules.schedule import segment_work, share_segments

ALL = 3


def open_audit(ctx: Context, order: Order, assignment: Assignment, closed: Round) -> None:
    """Open the audit of a round that was just closed, or void it behind a void one.

    Without auditors (a genesis choice) there is no audit.
    """
    if order.params.auditors == 0:
        return
    key = closed.key
    before = replace(key, round=key.round - 1)
    if key.round > 0 and ROUNDS.must(ctx.store, *before).void:
        mark_void(ctx, closed)
        return
    AUDITS.put(ctx.store, Audit(key.order_id, key.attempt, key.round, 0, (), (), 0, agreed=False))
    _open_draw(ctx, order, assignment, key)


def draw_seats(ctx: Context, subject: AuditSubject, beacon: bytes) -> None:
    """Draw the seats of the next draw, and at the first one the places."""
    key = subject.round
    audit = AUDITS.must(ctx.store, *key)
    order = ORDERS.must(ctx.store, key.order_id)
    assignment = ASSIGNMENTS.must(ctx.store, key.order_id, key.attempt)
    able = _get_able(ctx, order, assignment)
    places = audit.places
    if audit.draw == 0:
        places = _draw_places(ctx, subject, beacon, order, assignment)
    draw = audit.draw + 1
    seats = _draw(subject, beacon, audit, able, draw, order.params.auditors)
    # A set this small has nobody else: everybody at once.
    if not seats and draw < ALL:
        draw = ALL
        seats = _draw(subject, beacon, audit, able, draw, order.params.auditors)
    ends = ctx.clock + max(1, order.params.round_window // 2)
    audit = AUDITS.update(
        ctx.store,
        *key,
        places=places,
        draw=draw,
        seats=(*audit.seats, *(Seat(name, (), 0, missed=False) for name in seats)),
        draw_ends=ends,
    )
    ctx.emit(AuditDrawn(key, draw, seats))
    for name in seats:
        DUTIES.mark(ctx.store, name, *key)
    if seats:
        schedule(ctx, ends, Due.AUDIT_DRAW, *key)
    else:
        # Nobody is left to ask.
        _end_last_draw(ctx, audit)


def on_audit_draw(ctx: Context, entry: Entry) -> None:
    """End a draw: silent seats are cut, and the next draw begins."""
    key = entry.round_key
    audit = AUDITS.must(ctx.store, *key)
    silent = get_active_seats(audit)
    if audit.agreed or not silent or ctx.clock < audit.draw_ends:
        return
    order = ORDERS.must(ctx.store, key.order_id)
    pending = get_next_round(ctx, order)
    if pending is not None and pending.void and pending.attempt == key.attempt:
        return  # it is voided next
    assignment = ASSIGNMENTS.must(ctx.store, key.order_id, key.attempt)
    for seat in silent:
        cut = 0 if audit.draw == ALL else _cut_silent(ctx, order, assignment, audit, seat)
        DUTIES.delete(ctx.store, seat.validator, *key)
        ctx.emit(AuditMissed(key, seat.validator, cut))
    seats = tuple(replace(seat, missed=True) if seat in silent else seat for seat in audit.seats)
    audit = AUDITS.update(ctx.store, *key, seats=seats)
    if audit.draw == ALL:
        _end_last_draw(ctx, audit)
    else:
        _open_draw(ctx, order, assignment, key)


def is_done(audit: Audit) -> bool:
    """Tell whether enough seats have answered, now that one did: all of the draw, or one in the last draw."""
    return audit.draw == ALL or not get_active_seats(audit)


def finish_audit(ctx: Context, audit: Audit) -> None:
    """Close an audit that agrees with the chain, and settle what can be settled."""
    AUDITS.update(ctx.store, *audit.key, agreed=True)
    stop_audit(ctx, audit.key, right=get_auditors(audit))
    advance(ctx, audit.order_id)


def void_round(ctx: Context, key: RoundKey) -> None:
    """Mark a round that will never be verified; every round after it follows, one step of the queue each.

    Nobody has to audit what can never be paid.
    """
    closed = ROUNDS.get(ctx.store, *key)
    if closed is None or closed.void:
        advance(ctx, key.order_id)
        return
    mark_void(ctx, closed)
    schedule(ctx, ctx.clock, Due.VOID, *replace(key, round=key.round + 1))


def on_void(ctx: Context, entry: Entry) -> None:
    """Go on with voiding, or with the order behind the last round."""
    void_round(ctx, entry.round_key)


def weigh_void(ctx: Context, entry: Entry) -> int:
    """Return the gas of one step: the seats of the round's audit."""
    return _weigh_audit(ctx, entry.round_key)


def weigh_audit_draw(ctx: Context, entry: Entry) -> int:
    """Return the gas of the end of a draw: its seats."""
    return _weigh_audit(ctx, entry.round_key)


def weigh_seats(ctx: Context, subject: AuditSubject) -> int:
    """Return the gas of a draw: the validators who are looked at, of whom each may get a seat."""
    audit = AUDITS.must(ctx.store, *subject.round)
    validators = sum(1 for _ in VALIDATORS.keys(ctx.store))
    auditors = ORDERS.must(ctx.store, subject.round.order_id).params.auditors
    seats = validators if audit.draw + 1 >= ALL else min(validators, auditors)
    shares = len(ROUNDS.must(ctx.store, *subject.round).shares) if audit.draw == 0 else 0
    return VALIDATOR_GAS * (validators + shares) + SEAT_GAS * seats


def _weigh_audit(ctx: Context, key: RoundKey) -> int:
    audit = AUDITS.get(ctx.store, *key)
    return 0 if audit is None else SEAT_GAS * len(audit.seats)


def _open_draw(ctx: Context, order: Order, assignment: Assignment, key: RoundKey) -> None:
    parties = get_parties(ctx, order, assignment)
    open_lot(ctx, AuditSubject(key), parties, order.params.lot_wait)


def _get_able(ctx: Context, order: Order, assignment: Assignment) -> list[Validator]:
    """Return the validators who may have a seat, by operator."""
    parties = get_parties(ctx, order, assignment)
    return [
        validator
        for validator in VALIDATORS.scan(ctx.store)
        if validator.operator not in parties and is_active(validator)
    ]


def _draw(
    subject: AuditSubject,
    beacon: bytes,
    audit: Audit,
    able: list[Validator],
    draw: int,
    auditors: int,
) -> tuple[str, ...]:
    """Return the operators of a draw's new seats."""
    if draw == ALL:
        answered = get_auditors(audit)
        return tuple(v.operator for v in able if v.operator not in answered)
    seated = {seat.validator for seat in audit.seats}
    count = auditors if draw == 1 else sum(seat.missed for seat in audit.seats)
    able = [validator for validator in able if validator.operator not in seated]
    drawn = draw_weighted(
        seed(f"audit/seats/{draw}", subject.id, beacon), [v.stake for v in able], count
    )
    return tuple(able[index].operator for index in drawn)


def _draw_places(
    ctx: Context,
    subject: AuditSubject,
    beacon: bytes,
    order: Order,
    assignment: Assignment,
) -> tuple[Place, ...]:
    closed = ROUNDS.must(ctx.store, *subject.round)
    segments = share_segments(order.terms)
    count = audit_place_count(
        audit_fee(closed.work, assignment.price, order.params.audit_bps),
        segment_work(order.terms),
        assignment.price,
        order.params.audit_places_max,
    )
    numbered = [(ref.slot, ref.issue, segments) for ref in closed.shares]
    return audit_places(seed("audit/places", subject.id, beacon), numbered, count)


def _cut_silent(
    ctx: Context, order: Order, assignment: Assignment, audit: Audit, seat: Seat
) -> int:
    """Cut a silent seat's stake by twice its share of the audit fee; the coins wait for the round's end."""
    closed = ROUNDS.must(ctx.store, *audit.key)
    fee = audit_fee(closed.work, assignment.price, order.params.audit_bps)
    validator = VALIDATORS.must(ctx.store, seat.validator)
    # In the second draw the first one was full, or there would be nobody to draw.
    first_seats = min(order.params.auditors, len(audit.seats))
    cut = min(validator.stake, 2 * (fee // first_seats))
    VALIDATORS.update(ctx.store, seat.validator, audits_missed=validator.audits_missed + 1)
    cut_stake(ctx, seat.validator, cut)
    AUDIT_POTS.set(ctx.store, AUDIT_POTS.get(ctx.store, *audit.key) + cut, *audit.key)
    return cut


def _end_last_draw(ctx: Context, audit: Audit) -> None:
    """After the last draw the answers that there are decide; without any, the round is void."""
    if get_auditors(audit):
        finish_audit(ctx, audit)
    else:
        void_round(ctx, audit.key)
