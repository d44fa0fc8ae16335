"""Checks of messages about legs: the leg's number, validator, state and deadlines."""

from chain.state_machine.context import Context
from chain.state_machine.handler import Duty
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.holds import get_held_seconds
from chain.state_machine.market.orders import check_before, get_waited, is_ending
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.store import Overlay
from domain.errors import NOT_YOURS, WRONG_STATE, Refusal
from domain.legs.records import Leg, LegState
from domain.market.records import Order


def get_assigned(ctx: Context, order_id: bytes, number: int, validator: str, state: LegState) -> tuple[Order, Leg]:
    """Return an order and its current leg.

    Refuse if ``number`` is not the current leg, or if this leg is served by another validator, is not in ``state``, or
    has missed one of its deadlines.
    """
    order = ORDERS.need(ctx.store, order_id)
    if number != order.legs or number == 0:
        reason = f"the current leg is {order.legs}" if order.legs else "the order has no leg yet"
        raise Refusal(WRONG_STATE, "leg", reason, "read the order again and use its current leg")
    leg = LEGS.must(ctx.store, order_id, number)
    if leg.validator != validator:
        reason = "another validator serves this leg"
        raise Refusal(NOT_YOURS, "validator", reason, "use an order that you won")
    if leg.state is not state:
        reason = f"the order's current leg is {leg.state.name.lower()}"
        raise Refusal(WRONG_STATE, "order_id", reason, f"send this message only while the leg is {state.name.lower()}")
    if is_ending(ctx, order):
        raise Refusal(WRONG_STATE, "order_id", "the order is ending", "no further action is possible")
    matched = state is LegState.MATCHED
    check_before(
        ctx,
        "accept deadline" if matched else "progress deadline",
        (leg.accept_deadline if matched else leg.progress_deadline) + get_held_seconds(ctx, order_id),
    )
    check_before(ctx, "order's deadline", order.deadline + get_waited(ctx, order))
    return order, leg


def find_duty(store: Overlay, order_id: bytes, number: int, validator: str, state: LegState) -> Duty | None:
    """Return the validator's duty in a leg, with the leg's accept or progress deadline.

    The result is None if the leg is not in ``state``, or if another validator serves it.
    """
    leg = LEGS.get(store, order_id, number)
    if leg is None or leg.validator != validator or leg.state is not state:
        return None
    return Duty(leg.accept_deadline if state is LegState.MATCHED else leg.progress_deadline)


def find_round_duty(store: Overlay, order_id: bytes, number: int, round: int, validator: str) -> Duty | None:
    """Return the validator's duty in the open round of a leg, with the leg's progress deadline.

    The result is None if the leg is not running, another validator serves it, or ``round`` is not its open round.
    """
    leg = LEGS.get(store, order_id, number)
    if leg is None or leg.round != round:
        return None
    return find_duty(store, order_id, number, validator, LegState.RUNNING)


def check_open_round(leg: Leg, round: int) -> None:
    """Refuse a round that is not the open round of the leg."""
    if round != leg.round or round >= leg.end_round:
        last = leg.end_round - 1
        reason = f"the open round is {leg.round}, and the leg serves rounds {leg.first_round} to {last}"
        raise Refusal(WRONG_STATE, "round", reason, "read the order again and use its open round")


def is_far_ahead(order: Order, leg: Leg) -> bool:
    """Return whether ``rounds_ahead`` rounds of a leg are closed but not verified, so that no other may close yet.

    Rounds that wait only for challenges do not count.
    """
    return leg.uncleared >= order.params.rounds_ahead
