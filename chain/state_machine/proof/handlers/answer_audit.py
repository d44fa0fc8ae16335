"""MsgAnswerAudit: a seated auditor answers all places of a round's audit."""

from dataclasses import dataclass, replace

from chain.state_machine import keys
from chain.state_machine.checks import check_before
from chain.state_machine.context import Context
from chain.state_machine.proof.audit_seats import get_active_seats
from chain.state_machine.proof.audits import finish_audit, is_done, void_round
from chain.state_machine.tables import AUDITS, ORDERS, ROUNDS, SHARES, VALIDATORS
from domain.errors import BAD_FIELD, NOT_YOURS, WRONG_STATE, Refusal
from domain.messages import MsgAnswerAudit
from domain.records import Audit, AuditAnswer, AuditKind, Order, Place, Round
from pol.rules.commitment import check_leaf, update_claim


@dataclass(frozen=True, slots=True)
class Found:
    """What the check found."""

    order: Order
    closed: Round
    audit: Audit


def check_stateless(message: MsgAnswerAudit) -> None:
    """A root comes with its digest; no root means unavailable."""
    for at, answer in enumerate(message.answers):
        if answer.root and not answer.digest:
            raise Refusal(BAD_FIELD, f"answers[{at}].digest", "is empty", "send that of the root")


def check_state(ctx: Context, message: MsgAnswerAudit) -> Found:
    """The signer has a seat that waits for its answer, in time, and answers every place."""
    audit = AUDITS.need(ctx.store, message.order_id, message.attempt, message.round)
    order = ORDERS.must(ctx.store, message.order_id)
    closed = ROUNDS.must(ctx.store, message.order_id, message.attempt, message.round)
    seats = [seat for seat in audit.seats if seat.validator == message.auditor]
    if not seats:
        raise Refusal(NOT_YOURS, "auditor", "has no seat in this audit", "leave it")
    duty = keys.duty(message.auditor, message.order_id, message.attempt, message.round)
    if ctx.store.get(duty) is None:
        reason = "the seat has answered, was silent too long, or is not needed any more"
        raise Refusal(WRONG_STATE, "auditor", reason, "leave it")
    check_before(ctx, "draw's end", audit.draw_ends)
    if len(message.answers) != len(audit.places):
        reason = f"has {len(message.answers)} answers for {len(audit.places)} places"
        raise Refusal(BAD_FIELD, "answers", reason, "answer each place, in their order")
    return Found(order, closed, audit)


def apply(ctx: Context, message: MsgAnswerAudit, found: Found) -> None:
    """Book the answer; a round that one answer disagrees with is void."""
    order, closed, audit = found.order, found.closed, found.audit
    active = get_active_seats(audit)
    # The leaves are needed once, below; in the state they would be most of a round's records for ever.
    kept = tuple(replace(answer, leaf=None) for answer in message.answers)
    answered = replace(
        audit,
        seats=tuple(
            replace(seat, answers=kept, answered_at=ctx.clock)
            if seat in active and seat.validator == message.auditor
            else seat
            for seat in audit.seats
        ),
    )
    AUDITS.put(ctx.store, answered)
    ctx.store.delete(keys.duty(message.auditor, order.id, audit.attempt, audit.round))
    validator = VALIDATORS.must(ctx.store, message.auditor)
    VALIDATORS.put(ctx.store, replace(validator, audits_answered=validator.audits_answered + 1))
    agrees = all(
        agrees_with_chain(ctx, closed, place, answer)
        for place, answer in zip(audit.places, message.answers, strict=True)
    )
    ctx.emit(
        "audit.answered",
        ("order", order.id),
        ("attempt", audit.attempt),
        ("round", audit.round),
        ("auditor", message.auditor),
        ("agrees", "true" if agrees else "false"),
    )
    if not agrees:
        void_round(ctx, order, audit.attempt, audit.round)
    elif is_done(answered):
        finish_audit(ctx, order, answered)


def agrees_with_chain(ctx: Context, closed: Round, place: Place, answer: AuditAnswer) -> bool:
    """Tell whether an answer is what the chain has for the place.

    For a segment the chain has only the trace root, so the answer brings the share's leaf of the boundary behind it.
    A root without the right leaf is no agreement, and neither is ``unavailable``.
    """
    if place.kind is AuditKind.AGGREGATION:
        return answer.root == closed.next_root
    claim = SHARES.must(ctx.store, *closed.key.share(place.slot, place.issue)).claim
    if place.kind is AuditKind.UPDATE:
        return answer.root == update_claim(claim.update_root, claim.local_out)
    leaf = answer.leaf
    return (
        leaf is not None
        and leaf.index == place.segment + 1
        and leaf.boundary_root == answer.root
        and check_leaf(ctx.block.chain_id, claim, leaf)
    )
