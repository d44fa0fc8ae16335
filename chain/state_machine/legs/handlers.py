"""Handlers of legs: a validator accepts, declines or stops an order that it won."""

from chain.state_machine.context import Context
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.legs.checks import find_duty, get_assigned
from chain.state_machine.legs.ends import BLAMES_JOB, decline_leg, fail_leg
from chain.state_machine.legs.progress import restart_progress
from chain.state_machine.legs.tables import ACCEPT_DUE
from chain.state_machine.market.holds import check_not_held
from chain.state_machine.market.tables import ORDER_PARTIES, ORDERS
from chain.state_machine.queue import cancel
from chain.state_machine.store import Overlay
from domain.errors import BAD_FIELD, Refusal
from domain.legs.events import OrderAccepted
from domain.legs.messages import MsgAcceptOrder, MsgDeclineOrder, MsgStopOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import Leg, LegState
from domain.legs.transitions import LEG_STEPS, LegStep
from domain.market.records import Order
from domain.market.transitions import ORDER_STEPS, OrderStep

# --- MsgAcceptOrder: accept a matched order; from now on the validator is liable for payload and data


def check_accept_order(ctx: Context, message: MsgAcceptOrder) -> tuple[Order, Leg]:
    """Return the order and the leg.

    Refuse the message if the signer was not matched to the order, or if the time to accept is over.
    """
    return get_assigned(ctx, message.order_id, message.leg, message.validator, LegState.MATCHED)


def apply_accept_order(ctx: Context, message: MsgAcceptOrder, assigned: tuple[Order, Leg]) -> None:
    """Start the leg: open its first round, and set its progress deadline."""
    order, leg = assigned
    cancel(ctx, leg.accept_deadline, ACCEPT_DUE, order.id, leg.number)
    ORDERS.update(ctx.store, order.id, state=ORDER_STEPS.after(OrderStep.ACCEPT, order.state))
    ORDER_PARTIES.mark(ctx.store, order.id, leg.validator)
    restart_progress(ctx, order, leg, state=LEG_STEPS.after(LegStep.ACCEPT, leg.state))
    ctx.emit(OrderAccepted(order.id, leg.number, leg.validator))


# --- MsgDeclineOrder: decline a matched order with a reason --------------------------------------


DECLINE_REASONS = (
    *sorted(BLAMES_JOB),
    LegEnd.DECLINED_NO_CAPACITY,
    LegEnd.DECLINED_BY_CHOICE,
)


def check_decline_order_fields(message: MsgDeclineOrder) -> None:
    """Check that the reason is one that a validator may use."""
    if message.reason not in DECLINE_REASONS:
        known = [int(reason) for reason in DECLINE_REASONS]
        raise Refusal(BAD_FIELD, "reason", f"{message.reason} is not a reason to decline", f"use one of {known}")


def check_decline_order(ctx: Context, message: MsgDeclineOrder) -> tuple[Order, Leg]:
    """Return the order and the leg; refuse if the signer was not matched to it, is too late, or the order is held."""
    assigned = get_assigned(ctx, message.order_id, message.leg, message.validator, LegState.MATCHED)
    check_not_held(ctx, message.order_id)
    return assigned


def apply_decline_order(ctx: Context, message: MsgDeclineOrder, assigned: tuple[Order, Leg]) -> None:
    """End the match; the order opens again, and can no longer be matched with this validator."""
    order, leg = assigned
    decline_leg(ctx, order, leg, LegEnd(message.reason))


# --- MsgStopOrder: the validator gives up a running order ----------------------------------------


def check_stop_order(ctx: Context, message: MsgStopOrder) -> tuple[Order, Leg]:
    """Return the order and the leg; refuse if the signer does not run the leg."""
    return get_assigned(ctx, message.order_id, message.leg, message.validator, LegState.RUNNING)


def apply_stop_order(ctx: Context, message: MsgStopOrder, assigned: tuple[Order, Leg]) -> None:
    """Fail the leg at once, with the same effects as a missed progress deadline."""
    order, leg = assigned
    fail_leg(ctx, order, leg, LegEnd.STOPPED_BY_VALIDATOR)


def find_matched_duty(store: Overlay, message: MsgAcceptOrder | MsgDeclineOrder) -> Duty | None:
    """Return the duty to accept or decline, or None if the message does not name a matched leg of the signer."""
    return find_duty(store, message.order_id, message.leg, message.validator, LegState.MATCHED)


def find_stop_duty(store: Overlay, message: MsgStopOrder) -> Duty | None:
    """Return the duty to continue or stop, or None if the message does not name a running leg of the signer."""
    return find_duty(store, message.order_id, message.leg, message.validator, LegState.RUNNING)


HANDLERS = (
    Handler(MsgAcceptOrder, check_accept_order, apply_accept_order, duty=find_matched_duty),
    Handler(
        message=MsgDeclineOrder,
        check_state=check_decline_order,
        apply=apply_decline_order,
        check_fields=check_decline_order_fields,
        duty=find_matched_duty,
    ),
    Handler(MsgStopOrder, check_stop_order, apply_stop_order, duty=find_stop_duty),
)
