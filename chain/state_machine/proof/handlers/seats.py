"""Handlers of seats: MsgCommitAnswer and MsgRevealAnswer (protocol section 5.2)."""

from dataclasses import dataclass

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.orders import check_before
from chain.state_machine.proof.seats import apply_commit, apply_reveal
from chain.state_machine.proof.tables import PANEL_DUTIES, PANELS, SEATS, SHARES
from domain.errors import (
    ALREADY_EXISTS,
    BAD_FIELD,
    BAD_PROOF,
    NOT_YET,
    NOT_YOURS,
    WRONG_STATE,
    Refusal,
)
from domain.keys import RoundKey
from domain.proof.messages import MsgCommitAnswer, MsgRevealAnswer
from domain.proof.records import AnswerKind, AuditKind, Panel, PanelSeat, SeatAnswer, ShownLeaf
from pol.rules.commitment import check_leaf
from pol.rules.tiers.table import tier_of


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """What the check found: the panel, the signer's seat of its stage, and what leaves show of places."""

    panel: Panel
    seat: PanelSeat
    shown: tuple[tuple[int, bytes], ...] = ()


def _get_seat(ctx: Context, message: MsgCommitAnswer | MsgRevealAnswer) -> CheckedAnswer:
    """Return the panel and the signer's seat, which has something to do in the open stage."""
    key = RoundKey(message.order_id, message.leg, message.round)
    panel = PANELS.need(ctx.store, *key)
    number = PANEL_DUTIES.get(ctx.store, message.auditor, *key)
    if not number:
        reason = "has no seat that waits for this: not drawn, done, too late, or not needed any more"
        raise Refusal(NOT_YOURS, "auditor", reason, "leave it")
    if not panel.is_open or message.stage != panel.stage:
        reason = f"the panel is in stage {panel.stage}"
        raise Refusal(WRONG_STATE, "stage", reason, "read your duties again")
    return CheckedAnswer(panel, SEATS.must(ctx.store, *key, number - 1))


# --- MsgCommitAnswer: the hash of what a seat found ------------------------------------------------


def check_commit_answer(ctx: Context, message: MsgCommitAnswer) -> CheckedAnswer:
    """The signer has a seat in the open stage that has not committed, in time."""
    found = _get_seat(ctx, message)
    if found.seat.commitment:
        reason = "the seat has committed"
        raise Refusal(ALREADY_EXISTS, "commitment", reason, "reveal when all have, or the time is over")
    check_before(ctx, "end of commitments", found.panel.commits_end)
    return found


def apply_commit_answer(ctx: Context, message: MsgCommitAnswer, found: CheckedAnswer) -> None:
    """Keep the commitment; when all seats have committed, they reveal."""
    apply_commit(ctx, found.panel, found.seat, message.commitment)


# --- MsgRevealAnswer: what a seat found ------------------------------------------------------------


def check_reveal_answer_fields(message: MsgRevealAnswer) -> None:
    """Answers by place, each with what its kind has; leaves by place."""
    for name, places in (
        ("answers", [answer.place for answer in message.answers]),
        ("leaves", [shown.place for shown in message.leaves]),
    ):
        if places != sorted(set(places)):
            raise Refusal(BAD_FIELD, name, "are not in order of places", "one each, ascending")
    for at, answer in enumerate(message.answers):
        _check_answer(f"answers[{at}]", answer)


def _check_answer(field: str, answer: SeatAnswer) -> None:
    """Refuse an answer that has what its kind has not, so that one finding has one form."""
    finished = answer.kind is AnswerKind.FINISHED
    unavailable = answer.kind is AnswerKind.UNAVAILABLE
    stopped = answer.kind is AnswerKind.STOPPED
    if bool(answer.digest) is unavailable:
        remedy = "leave it out" if unavailable else "send that of what you recomputed"
        raise Refusal(BAD_FIELD, f"{field}.digest", "does not go with the kind", remedy)
    if (finished and not answer.root) or (stopped and answer.root):
        remedy = "send it" if finished else "leave it out"
        raise Refusal(BAD_FIELD, f"{field}.root", "does not go with the kind", remedy)
    if answer.step and not stopped:
        raise Refusal(BAD_FIELD, f"{field}.step", "is for what stopped", "leave it out")


def check_reveal_answer(ctx: Context, message: MsgRevealAnswer) -> CheckedAnswer:
    """The answers are those that the seat committed to, in time, of its places; leaves are in the accepted traces."""
    found = _get_seat(ctx, message)
    panel, seat = found.panel, found.seat
    if not seat.commitment:
        reason = "the seat committed to nothing"
        raise Refusal(WRONG_STATE, "auditor", reason, "commit in the first part of a stage")
    if ctx.clock < panel.commits_end:
        reason = f"others may commit until {panel.commits_end} (now {ctx.clock})"
        raise Refusal(NOT_YET, "stage", reason, "wait until then")
    check_before(ctx, "stage's end", panel.reveals_end)
    leg = LEGS.must(ctx.store, panel.order_id, panel.leg)
    made = tier_of(leg).commitment(
        ctx.block.chain_id, panel.key, panel.stage, message.auditor, message.salt, message.answers
    )
    if made != seat.commitment:
        reason = "do not hash to the commitment"
        raise Refusal(BAD_PROOF, "answers", reason, "send what you committed to, with its salt")
    asked = set(seat.places)
    if any(answer.place not in asked for answer in message.answers):
        reason = "name a place that the seat is not asked about"
        raise Refusal(BAD_FIELD, "answers", reason, "answer those of your duty")
    shown = tuple((leaf.place, leaf.leaf.boundary_root) for leaf in message.leaves if _check_shown(ctx, panel, leaf))
    return CheckedAnswer(panel, seat, shown)


def _check_shown(ctx: Context, panel: Panel, shown: ShownLeaf) -> bool:
    """Refuse a leaf that is not the accepted trace's behind the segment; tell whether it is news."""
    number = shown.place
    if number >= len(panel.places):
        raise Refusal(BAD_FIELD, "leaves", f"there is no place {number}", "name one of the panel's")
    place = panel.places[number].place
    if place.kind is not AuditKind.SEGMENT:
        raise Refusal(BAD_FIELD, "leaves", f"place {number} is no segment", "leave it out")
    if panel.places[number].stops:
        raise Refusal(BAD_FIELD, "leaves", f"nothing is behind place {number}", "leave it out")
    if panel.places[number].claim:
        return False
    roots = SHARES.must(ctx.store, *panel.key.share(place.slot, place.issue)).roots
    if roots is None:
        raise LookupError("an accepted share has no roots")
    right = shown.leaf.index == place.segment + 1
    if not (right and check_leaf(roots.trace_root, roots.segments, shown.leaf)):
        reason = f"that of place {number} is not the one behind its segment in the accepted trace"
        raise Refusal(BAD_PROOF, "leaves", reason, "leave it out")
    return True


def apply_reveal_answer(ctx: Context, message: MsgRevealAnswer, found: CheckedAnswer) -> None:
    """Keep the answers, and what leaves show; when all who committed have revealed, the stage ends."""
    apply_reveal(ctx, found.panel, found.seat, message.answers, found.shown)


HANDLERS = (
    Handler(MsgCommitAnswer, check_commit_answer, apply_commit_answer),
    Handler(
        message=MsgRevealAnswer,
        check_state=check_reveal_answer,
        apply=apply_reveal_answer,
        check_fields=check_reveal_answer_fields,
    ),
)
