"""MsgAcceptOrder: accept a matched order; from here the validator answers for payload and data."""

from dataclasses import replace

from chain.state_machine.checks import get_assigned
from chain.state_machine.context import Context
from chain.state_machine.market.progress import restart_progress
from chain.state_machine.queue import Due, cancel
from chain.state_machine.tables import ORDERS
from domain.messages import MsgAcceptOrder
from domain.records import Assignment, AssignmentState, Order, OrderState


def check_state(ctx: Context, message: MsgAcceptOrder) -> tuple[Order, Assignment]:
    """The signer is matched, in time."""
    return get_assigned(
        ctx, message.order_id, message.attempt, message.validator, AssignmentState.MATCHED
    )


def apply(ctx: Context, message: MsgAcceptOrder, found: tuple[Order, Assignment]) -> None:
    """Start the attempt: the first round is open, and progress is due."""
    order, assignment = found
    cancel(ctx, assignment.accept_deadline, Due.ACCEPT, order.id, assignment.attempt)
    ORDERS.put(ctx.store, replace(order, state=OrderState.RUNNING))
    restart_progress(ctx, order, replace(assignment, state=AssignmentState.RUNNING))
    ctx.emit(
        "order.accepted",
        ("order", order.id),
        ("attempt", assignment.attempt),
        ("validator", assignment.validator),
    )
