"""Handlers of assignments: what a validator does about an order that it won."""

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.market.orders import get_assigned, restart_progress
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.attempts import (
    BLAMES_JOB,
    decline_attempt,
    fail_attempt,
)
from chain.state_machine.proof.shares import weigh_open_round
from chain.state_machine.queue import Due, cancel
from domain.errors import BAD_FIELD, Refusal
from domain.legs.events import OrderAccepted
from domain.legs.messages import MsgAcceptOrder, MsgDeclineOrder, MsgStopOrder
from domain.legs.reasons import AttemptEnd
from domain.legs.records import Assignment, AssignmentState
from domain.market.records import Order, OrderState

# --- MsgAcceptOrder: accept a matched order; from here the validator answers for payload and data


def check_accept_order(ctx: Context, message: MsgAcceptOrder) -> tuple[Order, Assignment]:
    """The signer is matched, in time."""
    return get_assigned(
        ctx, message.order_id, message.attempt, message.validator, AssignmentState.MATCHED
    )


def apply_accept_order(
    ctx: Context, message: MsgAcceptOrder, found: tuple[Order, Assignment]
) -> None:
    """Start the attempt: the first round is open, and progress is due."""
    order, assignment = found
    cancel(ctx, assignment.accept_deadline, Due.ACCEPT, order.id, assignment.attempt)
    ORDERS.update(ctx.store, order.id, state=OrderState.RUNNING)
    restart_progress(ctx, order, assignment, state=AssignmentState.RUNNING)
    ctx.emit(OrderAccepted(order.id, assignment.attempt, assignment.validator))


# --- MsgDeclineOrder: decline a matched order with a reason --------------------------------------


DECLINE_REASONS = (
    *sorted(BLAMES_JOB),
    AttemptEnd.DECLINED_NO_CAPACITY,
    AttemptEnd.DECLINED_BY_CHOICE,
)


def check_decline_order_fields(message: MsgDeclineOrder) -> None:
    """A reason that a validator may give."""
    if message.reason not in DECLINE_REASONS:
        known = [int(reason) for reason in DECLINE_REASONS]
        raise Refusal(BAD_FIELD, "reason", f"{message.reason} is none", f"one of {known}")


def check_decline_order(ctx: Context, message: MsgDeclineOrder) -> tuple[Order, Assignment]:
    """The signer is matched, in time."""
    return get_assigned(
        ctx, message.order_id, message.attempt, message.validator, AssignmentState.MATCHED
    )


def apply_decline_order(
    ctx: Context, message: MsgDeclineOrder, found: tuple[Order, Assignment]
) -> None:
    """End the match; the order opens again without this validator."""
    order, assignment = found
    decline_attempt(ctx, order, assignment, AttemptEnd(message.reason))


# --- MsgStopOrder: the validator gives up a running order ----------------------------------------


def check_stop_order(ctx: Context, message: MsgStopOrder) -> tuple[Order, Assignment]:
    """The signer runs the order."""
    return get_assigned(
        ctx, message.order_id, message.attempt, message.validator, AssignmentState.RUNNING
    )


def apply_stop_order(ctx: Context, message: MsgStopOrder, found: tuple[Order, Assignment]) -> None:
    """Fail the attempt at once, as its progress deadline would."""
    order, assignment = found
    fail_attempt(ctx, order, assignment, AttemptEnd.STOPPED_BY_VALIDATOR)


def weigh_stop_order(ctx: Context, _: MsgStopOrder, found: tuple[Order, Assignment]) -> int:
    """Return the gas of dropping the shares that stand in the open round."""
    return weigh_open_round(ctx, found[1].open_round)


HANDLERS = (
    Handler(MsgAcceptOrder, check_accept_order, apply_accept_order),
    Handler(MsgDeclineOrder, check_decline_order, apply_decline_order, check_decline_order_fields),
    Handler(MsgStopOrder, check_stop_order, apply_stop_order, weight=weigh_stop_order),
)
