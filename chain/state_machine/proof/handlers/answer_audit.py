"""MsgAnswerAudit: a seated auditor answers all places of a round's audit."""

from dataclasses import dataclass, replace

from chain.state_machine.context import Context
from chain.state_machine.gas import KEPT_ANSWER_GAS
from chain.state_machine.handler import Handler
from chain.state_machine.market.orders import check_before
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.audits import finish_audit, is_done, void_round
from chain.state_machine.proof.rounds import get_active_seats
from chain.state_machine.proof.tables import AUDITS, DUTIES, ROUNDS, SHARES
from chain.state_machine.registry.tables import VALIDATORS
from domain.errors import BAD_FIELD, NOT_YOURS, WRONG_STATE, Refusal
from domain.events import AuditAnswered
from domain.messages import MsgAnswerAudit
from domain.records import Audit, AuditAnswer, AuditKind, Place, Round, RoundKey
from pol.rules.commitment import check_leaf, update_claim
from pol.rules.schedule import share_segments


@dataclass(frozen=True, slots=True)
class Found:
    """What the check found."""

    closed: Round
    audit: Audit


def check_stateless(message: MsgAnswerAudit) -> None:
    """A root comes with its digest; no root means unavailable."""
    for at, answer in enumerate(message.answers):
        if answer.root and not answer.digest:
            raise Refusal(BAD_FIELD, f"answers[{at}].digest", "is empty", "send that of the root")


def check_state(ctx: Context, message: MsgAnswerAudit) -> Found:
    """The signer has a seat that waits for its answer, in time, and answers every place."""
    key = RoundKey(message.order_id, message.attempt, message.round)
    audit = AUDITS.need(ctx.store, *key)
    closed = ROUNDS.must(ctx.store, *key)
    seats = [seat for seat in audit.seats if seat.validator == message.auditor]
    if not seats:
        raise Refusal(NOT_YOURS, "auditor", "has no seat in this audit", "leave it")
    if not DUTIES.has(ctx.store, message.auditor, *key):
        reason = "the seat has answered, was silent too long, or is not needed any more"
        raise Refusal(WRONG_STATE, "auditor", reason, "leave it")
    check_before(ctx, "draw's end", audit.draw_ends)
    if len(message.answers) != len(audit.places):
        reason = f"has {len(message.answers)} answers for {len(audit.places)} places"
        raise Refusal(BAD_FIELD, "answers", reason, "answer each place, in their order")
    return Found(closed, audit)


def apply(ctx: Context, message: MsgAnswerAudit, found: Found) -> None:
    """Book the answer; a round that one answer disagrees with is void."""
    closed, audit = found.closed, found.audit
    active = get_active_seats(audit)
    # The leaves are needed once, below; in the state they would be most of a round's records for ever.
    kept = tuple(replace(answer, leaf=None) for answer in message.answers)
    seats = tuple(
        replace(seat, answers=kept, answered_at=ctx.clock)
        if seat in active and seat.validator == message.auditor
        else seat
        for seat in audit.seats
    )
    audit = AUDITS.update(ctx.store, *audit.key, seats=seats)
    DUTIES.delete(ctx.store, message.auditor, *audit.key)
    answered = VALIDATORS.must(ctx.store, message.auditor).audits_answered
    VALIDATORS.update(ctx.store, message.auditor, audits_answered=answered + 1)
    agrees = all(
        agrees_with_chain(ctx, closed, place, answer)
        for place, answer in zip(audit.places, message.answers, strict=True)
    )
    ctx.emit(AuditAnswered(audit.key, message.auditor, agrees))
    if not agrees:
        void_round(ctx, audit.key)
    elif is_done(audit):
        finish_audit(ctx, audit)


def agrees_with_chain(ctx: Context, closed: Round, place: Place, answer: AuditAnswer) -> bool:
    """Tell whether an answer is what the chain has for the place.

    For a segment the chain has only the trace root, so the answer brings the share's leaf of the boundary behind it.
    A root without the right leaf is no agreement, and neither is ``unavailable``.
    """
    if place.kind is AuditKind.AGGREGATION:
        return answer.root == closed.next_root
    roots = SHARES.must(ctx.store, *closed.key.share(place.slot, place.issue)).roots
    if roots is None:
        raise LookupError("an accepted share has no roots")
    if place.kind is AuditKind.UPDATE:
        return answer.root == update_claim(roots.update_root, roots.local_out)
    leaf = answer.leaf
    segments = share_segments(ORDERS.must(ctx.store, closed.order_id).terms)
    return (
        leaf is not None
        and leaf.index == place.segment + 1
        and leaf.boundary_root == answer.root
        and check_leaf(roots.trace_root, segments, leaf)
    )


def weigh(_: Context, __: MsgAnswerAudit, found: Found) -> int:
    """Return the gas of storing the audit: all answers that its seats may give lie in one record."""
    return KEPT_ANSWER_GAS * len(found.audit.seats) * len(found.audit.places)


HANDLER = Handler(MsgAnswerAudit, check_state, apply, check_stateless, weigh)
