"""MsgCancelOrder: cancel an order that is not matched."""

from chain.state_machine.checks import check_before
from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.market.orders import end_order, is_ending
from chain.state_machine.market.tables import ORDERS
from domain.errors import NOT_YOURS, WRONG_STATE, Refusal
from domain.messages import MsgCancelOrder
from domain.reasons import CloseReason
from domain.records import Order, OrderState


def check_state(ctx: Context, message: MsgCancelOrder) -> Order:
    """The order is the signer's and open."""
    order = ORDERS.need(ctx.store, message.order_id)
    if order.consumer != message.consumer:
        raise Refusal(NOT_YOURS, "order_id", "is somebody else's order", "name one of yours")
    if order.state is not OrderState.OPEN or is_ending(ctx, order):
        reason = f"the order is {order.state.name.lower()}"
        raise Refusal(WRONG_STATE, "order_id", reason, "only an open order can be cancelled")
    check_before(ctx, "time to live", order.expires_at)
    return order


def apply(ctx: Context, message: MsgCancelOrder, order: Order) -> None:
    """Close it; what is locked returns."""
    end_order(ctx, order, CloseReason.CANCELLED)


HANDLER = Handler(MsgCancelOrder, check_state, apply)
