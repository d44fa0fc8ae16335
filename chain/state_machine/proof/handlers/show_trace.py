"""MsgShowTrace: a validator shows the leaves of a trace in which replicas of the order differ.

The chain has only the root of a trace. From the leaves of all replicas it finds the first place at which they depart
from each other (:mod:`chain.state_machine.proof.replicas`).
"""

from dataclasses import dataclass

from chain.state_machine.context import Context
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.orders import check_before
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.places import get_roots
from chain.state_machine.proof.replicas import find_wanted, get_issue, schedule_review
from chain.state_machine.proof.tables import ROUNDS, SHOWN_TRACES, Difference
from chain.state_machine.store import Overlay
from domain.errors import BAD_PROOF, NOT_FOUND, NOT_YOURS, Refusal
from domain.hashing import merkle_root
from domain.market.records import Order
from domain.proof.events import TraceShown
from domain.proof.messages import MsgShowTrace
from domain.proof.records import Round


@dataclass(frozen=True, slots=True)
class CheckedTrace:
    """The records of a checked message: the order, its closed round, and the difference in which it takes part."""

    order: Order
    closed: Round
    difference: Difference


def check_state(ctx: Context, message: MsgShowTrace) -> CheckedTrace:
    """Return the records; refuse a trace that is not wanted, that is late, or that has another root than the share."""
    order = ORDERS.need(ctx.store, message.order_id)
    leg = LEGS.need(ctx.store, message.order_id, message.leg)
    if leg.validator != message.validator:
        raise Refusal(NOT_YOURS, "validator", "another validator serves this leg", "use an order that you won")
    closed = ROUNDS.need(ctx.store, message.order_id, message.leg, message.round)
    difference = find_wanted(ctx.store, closed, order)
    if difference is None:
        reason = "has no difference of replicas for which its trace is still to be shown"
        raise Refusal(NOT_FOUND, "round", reason, "show a trace after the event trace.wanted, once")
    check_before(ctx, "time to show the trace", difference.until)
    roots = get_roots(ctx, closed.key.share(difference.slot, get_issue(closed, difference.slot)))
    if len(message.leaves) != roots.segments:
        reason = f"are {len(message.leaves)}, but the share of slot {difference.slot} has {roots.segments}"
        raise Refusal(BAD_PROOF, "leaves", reason, "send the hashes of all leaves, in the order of the boundaries")
    if message.leaves and merkle_root(message.leaves) != roots.trace_root:
        reason = f"do not hash to the trace root of the share of slot {difference.slot}"
        raise Refusal(BAD_PROOF, "leaves", reason, "send the hashes of all leaves, in the order of the boundaries")
    return CheckedTrace(order, closed, difference)


def apply(ctx: Context, message: MsgShowTrace, checked: CheckedTrace) -> None:
    """Store the leaves until all replicas have shown theirs."""
    SHOWN_TRACES.set(ctx.store, b"\x01" + b"".join(message.leaves), *checked.closed.key)
    ctx.emit(TraceShown(round=checked.closed.key, slot=checked.difference.slot))
    schedule_review(ctx, checked.order)


def find_duty(store: Overlay, message: MsgShowTrace) -> Duty | None:
    """Return the duty to show a trace, or None if the signer has no such duty."""
    leg = LEGS.get(store, message.order_id, message.leg)
    closed = ROUNDS.get(store, message.order_id, message.leg, message.round)
    if leg is None or closed is None or leg.validator != message.validator:
        return None
    difference = find_wanted(store, closed, ORDERS.must(store, message.order_id))
    return Duty(difference.until) if difference is not None else None


HANDLER = Handler(message=MsgShowTrace, check_state=check_state, apply=apply, duty=find_duty)
