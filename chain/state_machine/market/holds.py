"""Holds: reasons for which an order does not settle, or a round is not verified, though everything else is ready.

A component above puts a hold on an order or on a round under a reason of its own, and takes it off again; settlement
and verification ask :func:`is_held` and know nothing else. While an order or one of its rounds is held, the deadlines
of the order and of its live leg stand still: they move by the time that was held, and holds that overlap count once.

Nothing is held for ever. Every hold names its end, at which the queue takes it off if its owner has not, and an order
is held for at most ``HELD_SECONDS_MAX`` in all. A component that wants more has to decide before.
"""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.market.hooks import RELEASED, STOOD_STILL
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
"""Holds of one order and its rounds at a time."""
HELD_SECONDS_MAX = 90 * 86_400
"""Seconds that an order is held in all, overlapping holds counted once."""

Subject = bytes | RoundKey
"""An order, by its id, or a round."""


def is_held(ctx: Context, subject: Subject) -> bool:
    """Tell whether an order, or a round, is held for any reason; a hold of one is not a hold of the other."""
    return any(True for _ in HOLDS.keys(ctx.store, *_key(subject)))


def get_held_seconds(ctx: Context, order_id: bytes) -> int:
    """Return how long an order or rounds of it have been held by now without a break; 0 if nothing holds it."""
    time = HELD_TIMES.get(ctx.store, order_id)
    return ctx.clock - time.since if time is not None and time.holds else 0


def stands_still(ctx: Context, order_id: bytes) -> bool:
    """Tell whether deadlines of an order stand still, because it or one of its rounds is held."""
    time = HELD_TIMES.get(ctx.store, order_id)
    return time is not None and time.holds > 0


def check_not_held(ctx: Context, order_id: bytes) -> None:
    """Refuse what would end a match or an order that is held."""
    if stands_still(ctx, order_id):
        reason = "the order is held"
        raise Refusal(WRONG_STATE, "order_id", reason, "wait until it is released")


def check_hold(ctx: Context, subject: Subject, reason: str) -> None:
    """Refuse a hold that cannot be: the order has ended or is ending, or it was held for too long or too often."""
    order_id, *_ = _key(subject)
    order = ORDERS.need(ctx.store, order_id)
    if order.state is OrderState.CLOSED or TALLIES.must(ctx.store, order_id).ending:
        raise Refusal(WRONG_STATE, "order_id", "the order has ended", "name one that has not")
    time = _get_time(ctx, order_id)
    if HOLDS.has(ctx.store, *_key(subject), reason):
        return
    if time.holds >= HOLDS_MAX:
        reason = f"{HOLDS_MAX} holds wait already"
        raise Refusal(LIMIT_REACHED, "order_id", reason, "wait until one has ended")
    if _get_left(ctx, time) <= 0:
        days = HELD_SECONDS_MAX // 86_400
        raise Refusal(LIMIT_REACHED, "order_id", f"was held for {days} days", "settle without it")


def hold(ctx: Context, subject: Subject, reason: str, until: int) -> None:
    """Put a hold on an order or a round until a time on the chain clock, or give one of the same reason a new end.

    The end is cut to what is left of ``HELD_SECONDS_MAX``. :func:`check_hold` has to come before.
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
    """Take a hold off, if it is there; with the last of an order its deadlines go on, moved by the time it took."""
    found = HOLDS.get(ctx.store, *_key(subject), reason)
    if found is None:
        return
    HOLDS.delete(ctx.store, *found.key)
    cancel(ctx, found.until, HOLD_DUE, *found.key)
    time = _get_time(ctx, found.order_id)
    HELD_TIMES.put(ctx.store, replace(time, holds=time.holds - 1))
    ctx.emit(OrderReleased(order=found.order_id, leg=found.leg, round=found.round, reason=found.reason))
    if time.holds == 1:
        HELD_TIMES.put(ctx.store, replace(time, holds=0, total=time.total + ctx.clock - time.since))
        move_deadlines(ctx, ORDERS.must(ctx.store, found.order_id), time.since)
    RELEASED(ctx, found.order_id)


def drop_holds(ctx: Context, order_id: bytes) -> None:
    """Forget the holds of an order that ends; there are at most ``HOLDS_MAX``."""
    time = HELD_TIMES.get(ctx.store, order_id)
    if time is None:
        return
    for found in HOLDS.scan(ctx.store, order_id):
        HOLDS.delete(ctx.store, *found.key)
        cancel(ctx, found.until, HOLD_DUE, *found.key)
        ctx.emit(OrderReleased(order=found.order_id, leg=found.leg, round=found.round, reason=found.reason))
    HELD_TIMES.delete(ctx.store, order_id)


def on_hold(ctx: Context, entry: QueueEntry) -> None:
    """Take off a hold whose end has come."""
    key = entry.round_key
    found = HOLDS.get(ctx.store, *key, entry.text(3))
    if found is not None and ctx.clock >= found.until:
        release(ctx, key if key.leg else key.order_id, found.reason)


def move_deadlines(ctx: Context, order: Order, since: int) -> None:
    """Move the deadlines of an order and of what serves it by the time since when they stood still.

    What passed meanwhile is due again. Time in which panels of the order also waited for room is added to the order's
    deadline when that wait ends, so that it counts once.
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
    STOOD_STILL(ctx, order, held)


def _key(subject: Subject) -> tuple[bytes, int, int]:
    """Return the parts of a subject's key; legs are numbered from 1, so no round has the key of an order."""
    if isinstance(subject, bytes):
        return subject, 0, 0
    return subject.order_id, subject.leg, subject.round


def _get_time(ctx: Context, order_id: bytes) -> HeldTime:
    return HELD_TIMES.get(ctx.store, order_id) or HeldTime(order_id)


def _get_left(ctx: Context, time: HeldTime) -> int:
    """Return how many seconds an order may still be held."""
    held = ctx.clock - time.since if time.holds else 0
    return HELD_SECONDS_MAX - time.total - held
