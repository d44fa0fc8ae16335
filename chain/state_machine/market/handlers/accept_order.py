"""MsgAcceptOrder: accept a matched order; from here the validator answers for payload and data."""

from chain.state_machine.checks import get_assigned
from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.market.attempts import restart_progress
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.queue import Due, cancel
from domain.events import OrderAccepted
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
    ORDERS.update(ctx.store, order.id, state=OrderState.RUNNING)
    restart_progress(ctx, order, assignment, state=AssignmentState.RUNNING)
    ctx.emit(OrderAccepted(order.id, assignment.attempt, assignment.validator))


HANDLER = Handler(MsgAcceptOrder, check_state, apply)
