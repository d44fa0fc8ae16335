"""Handlers of legs: a validator accepts, declines or stops an order that it won."""

from chain.state_machine.context import Context
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.legs.checks import find_duty, get_assigned
from chain.state_machine.legs.ends import BLAMES_JOB, decline_leg, fail_leg
from chain.state_machine.legs.hooks import STATES_ASKED
from chain.state_machine.legs.parts import end_part, is_continued
from chain.state_machine.legs.progress import start_leg
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.holds import check_not_held, may_hold
from chain.state_machine.market.orders import check_before
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.store import Overlay
from domain.errors import BAD_FIELD, NOT_YOURS, WRONG_STATE, Refusal
from domain.legs.events import StatesLacked
from domain.legs.messages import MsgAcceptOrder, MsgAckState, MsgDeclineOrder, MsgStopOrder
from domain.legs.reasons import LegEnd, PartEnd
from domain.legs.records import Leg, LegState
from domain.market.records import Order
from pol.rules.states import ASKS_MAX, is_asking, may_ask

# --- MsgAcceptOrder: accept a matched order; from now on the validator is liable for payload and data


def check_accept_order(ctx: Context, message: MsgAcceptOrder) -> tuple[Order, Leg]:
    """Return the order and the leg.

    Refuse the message if the signer was not matched to the order, or if the time to accept is over.
    """
    order, leg = get_assigned(ctx, message.order_id, message.leg, message.validator, LegState.MATCHED)
    if is_asking(leg):
        reason = "a panel about the states of the leg is not over"
        raise Refusal(WRONG_STATE, "leg", reason, "accept the order when the panel has found the states")
    return order, leg


def apply_accept_order(ctx: Context, message: MsgAcceptOrder, assigned: tuple[Order, Leg]) -> None:
    """Start the leg: open its first round, and set its progress deadline."""
    start_leg(ctx, *assigned)


# --- MsgDeclineOrder: decline a matched order with a reason --------------------------------------


DECLINE_REASONS = (
    *sorted(BLAMES_JOB),
    LegEnd.DECLINED_NO_CAPACITY,
    LegEnd.STATE_UNAVAILABLE,
    LegEnd.DECLINED_BY_CHOICE,
)


def check_decline_order_fields(message: MsgDeclineOrder) -> None:
    """Check that the reason is one that a validator may use."""
    if message.reason not in DECLINE_REASONS:
        known = [int(reason) for reason in DECLINE_REASONS]
        raise Refusal(BAD_FIELD, "reason", f"{message.reason} is not a reason to decline", f"use one of {known}")


def check_decline_order(ctx: Context, message: MsgDeclineOrder) -> tuple[Order, Leg]:
    """Return the order and the leg; refuse if the signer was not matched to it, is too late, or the order is held."""
    order, leg = get_assigned(ctx, message.order_id, message.leg, message.validator, LegState.MATCHED)
    check_not_held(ctx, message.order_id)
    if message.reason == LegEnd.STATE_UNAVAILABLE and order.params.auditors and leg.from_leg and not may_ask(leg):
        reason = f"panels about the states of this leg found {ASKS_MAX} times that they can be fetched"
        raise Refusal(WRONG_STATE, "reason", reason, f"decline by choice ({int(LegEnd.DECLINED_BY_CHOICE)})")
    if message.reason == LegEnd.STATE_UNAVAILABLE and not leg.from_leg:
        reason = "the leg starts from the payload, not from states of an earlier leg"
        raise Refusal(BAD_FIELD, "reason", reason, "give the reason for which the payload cannot be trained")
    return order, leg


def apply_decline_order(ctx: Context, message: MsgDeclineOrder, assigned: tuple[Order, Leg]) -> None:
    """End the match; the order opens again, and can no longer be matched with this validator.

    If the validator could not fetch the states from which the leg starts, the leg does not end: a panel tries to fetch
    them. This is so as long as the order may still be held.
    """
    order, leg = assigned
    if message.reason == LegEnd.STATE_UNAVAILABLE and order.params.auditors and may_hold(ctx, order):
        leg = LEGS.update(ctx.store, order.id, leg.number, asked=leg.asked + 1)
        ctx.emit(StatesLacked(order=order.id, leg=leg.number, validator=leg.validator, asked=leg.asked))
        STATES_ASKED(ctx, order, leg)
        return
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


# --- MsgAckState: the consumer received, or did not receive, the states of a failed leg -----------


def check_ack_state(ctx: Context, message: MsgAckState) -> Leg:
    """Return the leg; refuse if the order is another consumer's, or if no part of the leg waits."""
    order = ORDERS.need(ctx.store, message.order_id)
    if order.consumer != message.consumer:
        raise Refusal(NOT_YOURS, "consumer", "another account placed the order", "name an order of your own")
    leg = LEGS.need(ctx.store, message.order_id, message.leg)
    if not leg.part:
        reason = "nothing is withheld for the states of this leg, or its time is over"
        raise Refusal(WRONG_STATE, "leg", reason, "name a failed leg whose part waits (assay order show)")
    if not message.received and is_continued(ctx, leg):
        reason = "the leg's validator continues the order from these states"
        raise Refusal(WRONG_STATE, "received", reason, "wait for the result of the current leg")
    check_before(ctx, "time to acknowledge the states", leg.part_until)
    return leg


def apply_ack_state(ctx: Context, message: MsgAckState, leg: Leg) -> None:
    """Pay or burn the part that waits."""
    end_part(ctx, leg, PartEnd.ACKNOWLEDGED if message.received else PartEnd.DENIED)


def find_ack_duty(store: Overlay, message: MsgAckState) -> Duty | None:
    """Return the right to answer while a part waits, or None if the message names no such leg of the signer."""
    order = ORDERS.get(store, message.order_id)
    leg = LEGS.get(store, message.order_id, message.leg)
    if order is None or leg is None or order.consumer != message.consumer or not leg.part:
        return None
    return Duty(leg.part_until)


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
    Handler(MsgAckState, check_ack_state, apply_ack_state, duty=find_ack_duty),
)
