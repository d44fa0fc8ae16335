"""The progress of a leg: when a round is closed, the next one opens, until all rounds of the leg are closed."""

from typing import Any

from chain.state_machine.context import Context
from chain.state_machine.legs.checks import is_far_ahead
from chain.state_machine.legs.tables import ACCEPT_DUE, LEGS, PROGRESS_DUE
from chain.state_machine.market.holds import get_held_seconds
from chain.state_machine.market.tables import ORDER_PARTIES, ORDERS
from chain.state_machine.queue import cancel, schedule
from domain.keys import RoundKey
from domain.legs.events import LegDeadlinesMoved, OrderAccepted, OrderProven, ProgressRestarted
from domain.legs.records import Leg, LegState
from domain.legs.transitions import LEG_STEPS, LegStep
from domain.market.records import Order
from domain.market.transitions import ORDER_STEPS, OrderStep
from pol.rules.schedule import progress_seconds, served_terms


def restart_progress(ctx: Context, order: Order, leg: Leg, **changes: Any) -> Leg:
    """Change fields of a running leg, and set a new progress deadline for its open round."""
    cancel(ctx, leg.progress_deadline, PROGRESS_DUE, order.id, leg.number)
    seconds = progress_seconds(
        served_terms(order.terms, leg),
        order.params.progress_base,
        leg.slot_speed,
        leg.slots_at_once,
    )
    # If the order is held, the end of the pause adds its length to the deadline. So the pause is subtracted here.
    deadline = ctx.clock + seconds - get_held_seconds(ctx, order.id)
    schedule(ctx, deadline, PROGRESS_DUE, order.id, leg.number)
    ctx.emit(ProgressRestarted(order.id, leg.number, deadline))
    key = (order.id, leg.number)
    return LEGS.update(ctx.store, *key, progress_deadline=deadline, **changes)


def move_deadlines(ctx: Context, order: Order, seconds: int) -> None:
    """Move the deadline of an order's live leg by ``seconds``, the time for which the order was held."""
    leg = LEGS.get(ctx.store, order.id, order.legs) if order.legs else None
    if leg is None or not leg.is_live:
        return
    accept = leg.accept_deadline
    progress = leg.progress_deadline
    if leg.state is LegState.MATCHED:
        cancel(ctx, accept, ACCEPT_DUE, order.id, leg.number)
        accept += seconds
        schedule(ctx, accept, ACCEPT_DUE, order.id, leg.number)
    else:
        cancel(ctx, progress, PROGRESS_DUE, order.id, leg.number)
        progress += seconds
        schedule(ctx, progress, PROGRESS_DUE, order.id, leg.number)
    LEGS.update(ctx.store, order.id, leg.number, accept_deadline=accept, progress_deadline=progress)
    ctx.emit(LegDeadlinesMoved(order=order.id, leg=leg.number, accept_deadline=accept, progress_deadline=progress))


def renew_accept(ctx: Context, leg: Leg, seconds: int) -> None:
    """Let the time to accept a matched leg begin again, with this length (seconds)."""
    cancel(ctx, leg.accept_deadline, ACCEPT_DUE, leg.order_id, leg.number)
    # If the order is held, the end of the pause adds its length to the deadline. So the pause is subtracted here.
    deadline = ctx.clock + seconds - get_held_seconds(ctx, leg.order_id)
    leg = LEGS.update(ctx.store, leg.order_id, leg.number, accept_deadline=deadline)
    schedule(ctx, deadline, ACCEPT_DUE, leg.order_id, leg.number)
    ctx.emit(
        LegDeadlinesMoved(
            order=leg.order_id,
            leg=leg.number,
            accept_deadline=leg.accept_deadline,
            progress_deadline=leg.progress_deadline,
        )
    )


def start_leg(ctx: Context, order: Order, leg: Leg) -> None:
    """Start a matched leg: open its first round, and set its progress deadline."""
    cancel(ctx, leg.accept_deadline, ACCEPT_DUE, order.id, leg.number)
    ORDERS.update(ctx.store, order.id, state=ORDER_STEPS.after(OrderStep.ACCEPT, order.state))
    ORDER_PARTIES.mark(ctx.store, order.id, leg.validator)
    restart_progress(ctx, order, leg, state=LEG_STEPS.after(LegStep.ACCEPT, leg.state))
    ctx.emit(OrderAccepted(order.id, leg.number, leg.validator))


def open_next_round(ctx: Context, order: Order, leg: Leg, global_in: bytes, *, stops: bool) -> Leg:
    """Open the next round after a round was closed; ``global_in`` is the root of the closed round's last global state.

    No round opens after the last round of the leg, or after a round in which the job ``stops``. The leg is then proven.
    """
    changes = {"round": leg.round + 1, "global_in": global_in}
    if stops or leg.round + 1 == leg.end_round:
        return _prove(ctx, order, leg, **changes)
    return restart_progress(ctx, order, leg, **changes)


def _prove(ctx: Context, order: Order, leg: Leg, **changes: Any) -> Leg:
    """Record that every round of the leg is closed; the leg then waits for its rounds to be verified."""
    cancel(ctx, leg.progress_deadline, PROGRESS_DUE, order.id, leg.number)
    ORDERS.update(ctx.store, order.id, state=ORDER_STEPS.after(OrderStep.PROVE, order.state))
    ctx.emit(OrderProven(order.id, leg.number))
    state = LEG_STEPS.after(LegStep.PROVE, leg.state)
    return LEGS.update(ctx.store, order.id, leg.number, state=state, **changes)


def count_verified(ctx: Context, order: Order, leg: Leg, root: bytes) -> Leg:
    """Add one to the verified rounds of the leg; ``root`` is the root of the global state at the end of the round.

    ``root`` is empty if the job stopped in the round. No round of the order is then left.
    """
    counted = LEGS.update(ctx.store, leg.order_id, leg.number, verified=leg.verified + 1, verified_root=root)
    ORDERS.update(ctx.store, order.id, next_round=counted.next_round if root else order.terms.rounds)
    return counted


def count_cleared(ctx: Context, order: Order, leg: Leg) -> Leg:
    """Add one to the rounds of the leg that wait only for challenges.

    If no further round could close before, set a new progress deadline.
    """
    was_far_ahead = is_far_ahead(order, leg)
    cleared = max(leg.cleared, leg.verified) + 1
    leg = LEGS.update(ctx.store, leg.order_id, leg.number, cleared=cleared)
    if leg.state is LegState.RUNNING and was_far_ahead:
        leg = restart_progress(ctx, order, leg)
    return leg


def count_void(ctx: Context, key: RoundKey) -> Leg:
    """Add one to the void rounds of the round's leg."""
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    return LEGS.update(ctx.store, leg.order_id, leg.number, void=leg.void + 1)
