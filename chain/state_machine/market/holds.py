"""Holds on orders and rounds. A hold keeps an order from settling, or a round from being verified.

A later component puts a hold on an order or a round, with its own reason, and removes the hold again. The code of
settlement and verification only calls :func:`is_held`. While an order or one of its rounds is held, the order is
paused: the deadlines of the order and of its live leg move by the time of the pause. Overlapping holds count once.

No hold lasts forever. Each hold has an end. If its owner has not removed the hold by then, the queue removes it. An
order is held for at most ``HELD_SECONDS_MAX`` in all, so the owner of a hold must decide within that time.
"""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.market.hooks import PAUSE_ENDED, RELEASED
from chain.state_machine.market.tables import (
    HELD_TIMES,
    HOLD_DUE,
    HOLDS,
    ORDER_DUE,
    ORDERS,
    TIME_TO_LIVE_DUE,
    HeldTime,
    Hold,
)
from chain.state_machine.queue import QueueEntry, cancel, schedule
from domain.errors import LIMIT_REACHED, WRONG_STATE, Refusal
from domain.keys import RoundKey
from domain.market.events import DeadlineMoved, OrderHeld, OrderReleased
from domain.market.records import Order, OrderState

HOLDS_MAX = 64
"""Most holds at one time for an order and its rounds together."""
HELD_SECONDS_MAX = 90 * 86_400
"""Most seconds that an order may be held in all; overlapping holds count once."""

Subject = bytes | RoundKey
"""An order, by its id, or a round."""


def is_held(ctx: Context, subject: Subject) -> bool:
    """Return whether an order or a round is held. A hold of an order does not hold its rounds."""
    return any(True for _ in HOLDS.keys(ctx.store, *_key(subject)))


def get_held_seconds(ctx: Context, order_id: bytes) -> int:
    """Return the seconds since the start of an order's current pause.

    Return 0 if neither the order nor any of its rounds is held.
    """
    time = HELD_TIMES.get(ctx.store, order_id)
    return ctx.clock - time.since if time is not None and time.holds else 0


def is_paused(ctx: Context, order_id: bytes) -> bool:
    """Return whether an order's deadlines are paused, because it or one of its rounds is held."""
    time = HELD_TIMES.get(ctx.store, order_id)
    return time is not None and time.holds > 0


def check_not_held(ctx: Context, order_id: bytes) -> None:
    """Refuse the message if the order is paused. An order and its match must not end while the order is held."""
    if is_paused(ctx, order_id):
        reason = "the order is held"
        raise Refusal(WRONG_STATE, "order_id", reason, "wait until the hold is removed")


def check_hold(ctx: Context, subject: Subject, reason: str) -> None:
    """Refuse a hold on an order that has ended or is ending, that has too many holds, or that was held for too long."""
    order_id, *_ = _key(subject)
    if _has_ended(ctx, ORDERS.need(ctx.store, order_id)):
        raise Refusal(WRONG_STATE, "order_id", "the order has ended", "hold only orders that have not ended")
    time = _get_time(ctx, order_id)
    if HOLDS.has(ctx.store, *_key(subject), reason):
        return
    if time.holds >= HOLDS_MAX:
        reason = f"the order already has {HOLDS_MAX} holds"
        raise Refusal(LIMIT_REACHED, "order_id", reason, "wait until one of them ends")
    if _get_left(ctx, time) <= 0:
        days = HELD_SECONDS_MAX // 86_400
        raise Refusal(LIMIT_REACHED, "order_id", f"was held for {days} days, the longest time", "decide without a hold")


def may_hold(ctx: Context, order: Order) -> bool:
    """Return whether one more hold may be put on an order now."""
    time = _get_time(ctx, order.id)
    return not _has_ended(ctx, order) and time.holds < HOLDS_MAX and _get_left(ctx, time) > 0


def _has_ended(ctx: Context, order: Order) -> bool:
    return order.state is OrderState.CLOSED or TALLIES.must(ctx.store, order.id).ending != 0


def hold(ctx: Context, subject: Subject, reason: str, until: int) -> None:
    """Hold an order or a round until a time of the chain clock; if it is held for this reason already, change the end.

    The end is limited so that the order is held for at most ``HELD_SECONDS_MAX`` in all. The caller must call
    :func:`check_hold` first.
    """
    order_id, leg, round = _key(subject)
    before = HOLDS.get(ctx.store, order_id, leg, round, reason)
    time = _get_time(ctx, order_id)
    if before is None:
        since = time.since if time.holds else ctx.clock
        time = replace(time, holds=time.holds + 1, since=since)
        HELD_TIMES.put(ctx.store, time)
    else:
        cancel(ctx, before.until, HOLD_DUE, *before.key)
    end = min(until, ctx.clock + max(0, _get_left(ctx, time)))
    placed = Hold(
        order_id=order_id,
        leg=leg,
        round=round,
        reason=reason,
        since=before.since if before else ctx.clock,
        until=end,
    )
    HOLDS.put(ctx.store, placed)
    schedule(ctx, end, HOLD_DUE, *placed.key)
    ctx.emit(OrderHeld(order=order_id, leg=leg, round=round, reason=reason, until=end))


def release(ctx: Context, subject: Subject, reason: str) -> None:
    """Remove a hold if it exists. When an order's last hold is removed, move its deadlines by the time of the pause."""
    old = HOLDS.get(ctx.store, *_key(subject), reason)
    if old is None:
        return
    HOLDS.delete(ctx.store, *old.key)
    cancel(ctx, old.until, HOLD_DUE, *old.key)
    time = _get_time(ctx, old.order_id)
    HELD_TIMES.put(ctx.store, replace(time, holds=time.holds - 1))
    ctx.emit(OrderReleased(order=old.order_id, leg=old.leg, round=old.round, reason=old.reason))
    if time.holds == 1:
        HELD_TIMES.put(ctx.store, replace(time, holds=0, total=time.total + ctx.clock - time.since))
        move_deadlines(ctx, ORDERS.must(ctx.store, old.order_id), time.since)
    RELEASED(ctx, old.order_id)


def drop_holds(ctx: Context, order_id: bytes) -> None:
    """Remove all holds of an order that ends; there are at most ``HOLDS_MAX``."""
    time = HELD_TIMES.get(ctx.store, order_id)
    if time is None:
        return
    for old in HOLDS.scan(ctx.store, order_id):
        HOLDS.delete(ctx.store, *old.key)
        cancel(ctx, old.until, HOLD_DUE, *old.key)
        ctx.emit(OrderReleased(order=old.order_id, leg=old.leg, round=old.round, reason=old.reason))
    HELD_TIMES.delete(ctx.store, order_id)


def on_hold(ctx: Context, entry: QueueEntry) -> None:
    """Remove a hold whose end has come."""
    key = entry.round_key
    due = HOLDS.get(ctx.store, *key, entry.text(3))
    if due is not None and ctx.clock >= due.until:
        release(ctx, key if key.leg else key.order_id, due.reason)


def move_deadlines(ctx: Context, order: Order, since: int) -> None:
    """Move the deadlines of an order and of its live leg by the time of the pause, which began at ``since``.

    Entries for deadlines that passed during the pause are scheduled again. If panels of the order waited for audit room
    during the pause, the end of their wait also moves the order's deadline. So the time that belongs to both the pause
    and the wait is left out here.
    """
    held = ctx.clock - since
    tally = TALLIES.must(ctx.store, order.id)
    overlap = ctx.clock - max(since, tally.waits_since) if tally.waiting else 0
    cancel(ctx, order.deadline, ORDER_DUE, order.id)
    moved = ORDERS.update(ctx.store, order.id, deadline=order.deadline + held - overlap)
    schedule(ctx, moved.deadline, ORDER_DUE, order.id)
    if order.state is OrderState.OPEN:
        schedule(ctx, max(order.expires_at, ctx.clock), TIME_TO_LIVE_DUE, order.id)
    ctx.emit(DeadlineMoved(order.id, moved.deadline))
    PAUSE_ENDED(ctx, order, held)


def extend_deadline(ctx: Context, order: Order, least: int) -> None:
    """Move the deadline of an order to the time ``least`` of the chain clock, if it is earlier.

    If the order is held, the end of the pause adds its length to the deadline. So the pause is subtracted here.
    """
    deadline = least - get_held_seconds(ctx, order.id)
    if deadline <= order.deadline:
        return
    cancel(ctx, order.deadline, ORDER_DUE, order.id)
    ORDERS.update(ctx.store, order.id, deadline=deadline)
    schedule(ctx, deadline, ORDER_DUE, order.id)
    ctx.emit(DeadlineMoved(order.id, deadline))


def _key(subject: Subject) -> tuple[bytes, int, int]:
    """Return the key of an order or a round. Legs are numbered from 1, so a round never has the key of an order."""
    if isinstance(subject, bytes):
        return subject, 0, 0
    return subject.order_id, subject.leg, subject.round


def _get_time(ctx: Context, order_id: bytes) -> HeldTime:
    return HELD_TIMES.get(ctx.store, order_id) or HeldTime(order_id)


def _get_left(ctx: Context, time: HeldTime) -> int:
    """Return the number of seconds for which an order may be held from now on."""
    held = ctx.clock - time.since if time.holds else 0
    return HELD_SECONDS_MAX - time.total - held
