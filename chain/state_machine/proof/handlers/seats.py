"""Handlers of seats: MsgCommitAnswer and MsgRevealAnswer (protocol section 5.2)."""

from dataclasses import dataclass

from chain.state_machine.context import Context
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.orders import check_before
from chain.state_machine.proof.seats import apply_commit, apply_reveal
from chain.state_machine.proof.tables import PANEL_DUTIES, PANELS, SEATS, SHARES
from chain.state_machine.store import Overlay
from domain.errors import (
    ALREADY_EXISTS,
    BAD_FIELD,
    BAD_PROOF,
    NOT_YET,
    NOT_YOURS,
    WRONG_STATE,
    Refusal,
)
from domain.keys import PanelKey, RoundKey
from domain.proof.messages import MsgCommitAnswer, MsgRevealAnswer
from domain.proof.records import AnswerKind, AuditKind, Panel, PanelSeat, SeatAnswer, ShownLeaf
from pol.rules.commitment import check_leaf
from pol.rules.tiers.table import tier_of
from pol.rules.tiers.tier import Tier


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """The records of a checked message: the panel, the signer's seat in the panel's stage, and the roots that the
    message shows for places.
    """

    panel: Panel
    seat: PanelSeat
    # Pairs of a place's number and the root that the accepted trace has for the place.
    shown: tuple[tuple[int, bytes], ...] = ()


def _key(message: MsgCommitAnswer | MsgRevealAnswer) -> PanelKey:
    return RoundKey(message.order_id, message.leg, message.round).panel(message.dispute)


def _get_seat(ctx: Context, message: MsgCommitAnswer | MsgRevealAnswer) -> CheckedAnswer:
    """Return the panel and the signer's seat; refuse the message if the seat has no duty in the open stage."""
    key = _key(message)
    panel = PANELS.need(ctx.store, *key)
    number = PANEL_DUTIES.get(ctx.store, message.auditor, *key)
    if not number:
        reason = "has no open duty in this panel: it was not drawn, has answered or is too late, or the panel has ended"
        raise Refusal(NOT_YOURS, "auditor", reason, "no further action is needed")
    if not panel.is_open or message.stage != panel.stage:
        reason = f"the panel is in stage {panel.stage}" if panel.is_open else "the stage has ended"
        raise Refusal(WRONG_STATE, "stage", reason, "read the duties of the auditor again")
    return CheckedAnswer(panel, SEATS.must(ctx.store, *key, number - 1))


# --- MsgCommitAnswer: the hash of a seat's answers -------------------------------------------------


def check_commit_answer(ctx: Context, message: MsgCommitAnswer) -> CheckedAnswer:
    """Return the panel and the seat; refuse a signer that has no seat in the open stage, has committed, or is late."""
    checked = _get_seat(ctx, message)
    if checked.seat.commitment:
        reason = "the seat has already committed"
        remedy = "reveal when all seats have committed or the time to commit is over"
        raise Refusal(ALREADY_EXISTS, "commitment", reason, remedy)
    check_before(ctx, "end of commitments", checked.panel.commits_end)
    return checked


def apply_commit_answer(ctx: Context, message: MsgCommitAnswer, checked: CheckedAnswer) -> None:
    """Store the commitment; when all seats have committed, they can reveal."""
    apply_commit(ctx, checked.panel, checked.seat, message.commitment)


# --- MsgRevealAnswer: a seat's answers -------------------------------------------------------------


def check_reveal_answer_fields(message: MsgRevealAnswer) -> None:
    """Check that answers and leaves are sorted by place, and that each answer has the fields of its kind."""
    for name, places in (
        ("answers", [answer.place for answer in message.answers]),
        ("leaves", [shown.place for shown in message.leaves]),
    ):
        if places != sorted(set(places)):
            reason = "are not sorted by place"
            raise Refusal(BAD_FIELD, name, reason, "give one entry for each place, with the lowest place first")
    for at, answer in enumerate(message.answers):
        _check_answer(f"answers[{at}]", answer)


def _check_answer(field: str, answer: SeatAnswer) -> None:
    """Refuse an answer with fields that its kind does not have, so that each finding has exactly one form."""
    finished = answer.kind is AnswerKind.FINISHED
    unavailable = answer.kind is AnswerKind.UNAVAILABLE
    without_root = answer.kind in (AnswerKind.STOPPED, AnswerKind.OUTSIDE)
    # A state within the thresholds is named by its root, or by the step at which the job stopped.
    has_step = answer.kind is AnswerKind.STOPPED or (answer.kind is AnswerKind.WITHIN and not answer.root)
    kind = answer.kind.name.lower()
    if not (answer.digest or unavailable):
        reason = f"is empty, but the answer's kind is {kind}"
        raise Refusal(BAD_FIELD, f"{field}.digest", reason, "send the digest of what you recomputed")
    if unavailable and answer.earlier:
        raise Refusal(BAD_FIELD, f"{field}.earlier", f"is set, but the answer's kind is {kind}", "leave it out")
    if (finished and not answer.root) or (without_root and answer.root):
        reason = f"{'is empty' if finished else 'is set'}, but the answer's kind is {kind}"
        remedy = "send the root that you recomputed" if finished else "leave it out"
        raise Refusal(BAD_FIELD, f"{field}.root", reason, remedy)
    if answer.step and not has_step:
        raise Refusal(BAD_FIELD, f"{field}.step", f"is set, but the answer's kind is {kind}", "leave it out")


def check_reveal_answer(ctx: Context, message: MsgRevealAnswer) -> CheckedAnswer:
    """Return the panel, the seat, and the roots that the leaves in the message show.

    Refuse the message if the seat has not committed to exactly these answers, or if it is too early or too late to
    reveal. Also refuse answers for places outside the seat's duty, and leaves that are not in the accepted trace.
    """
    checked = _get_seat(ctx, message)
    panel = checked.panel
    seat = checked.seat
    if not seat.commitment:
        reason = "the seat has not committed to an answer"
        raise Refusal(WRONG_STATE, "auditor", reason, "commit in the first part of a stage")
    if ctx.clock < panel.commits_end:
        reason = f"other seats may commit until {panel.commits_end} (now {ctx.clock})"
        raise Refusal(NOT_YET, "stage", reason, "reveal after that time")
    check_before(ctx, "end of the stage", panel.reveals_end)
    leg = LEGS.must(ctx.store, panel.order_id, panel.leg)
    commitment = tier_of(leg).commitment(
        ctx.block.chain_id, panel.key, panel.stage, message.auditor, message.salt, message.answers
    )
    if commitment != seat.commitment:
        reason = "do not hash to the commitment"
        raise Refusal(BAD_PROOF, "answers", reason, "send the committed answers, with their salt")
    asked = set(seat.places)
    if any(answer.place not in asked for answer in message.answers):
        reason = "include a place that is not in the duty of the seat"
        raise Refusal(BAD_FIELD, "answers", reason, "answer only the places of your duty")
    before = len(panel.earlier_seeds)
    for at, answer in enumerate(message.answers):
        _check_tier(tier_of(leg), f"answers[{at}]", panel.places[answer.place].place.kind, answer)
        if answer.kind is not AnswerKind.UNAVAILABLE and len(answer.earlier) != before:
            reason = f"has {len(answer.earlier)} digests, but the panel had {before} stages before"
            raise Refusal(BAD_FIELD, f"answers[{at}].earlier", reason, "send a digest with the seed of each of them")
    shown = tuple((leaf.place, leaf.leaf.boundary_root) for leaf in message.leaves if _check_shown(ctx, panel, leaf))
    return CheckedAnswer(panel, seat, shown)


def _check_tier(tier: Tier, field: str, place: AuditKind, answer: SeatAnswer) -> None:
    """Refuse an answer whose kind the tier does not have for such a place.

    Only a seat that compares states has a digest of its own for a place that was not served.
    """
    kind = answer.kind.name.lower()
    if not tier.may_answer(place, answer.kind):
        reason = f"is {kind}, which the tier {tier.name} does not have for this place"
        raise Refusal(BAD_FIELD, f"{field}.kind", reason, "recompute the place by the rules of the leg's tier")
    compares = tier.hardware and place is AuditKind.SEGMENT
    if answer.digest and answer.kind is AnswerKind.UNAVAILABLE and not compares:
        raise Refusal(BAD_FIELD, f"{field}.digest", f"is set, but the answer's kind is {kind}", "leave it out")


def _check_shown(ctx: Context, panel: Panel, shown: ShownLeaf) -> bool:
    """Return whether a leaf is the first one for its place.

    Refuse a leaf that is not the accepted trace's leaf at the end of the segment.
    """
    number = shown.place
    if number >= len(panel.places):
        reason = f"include place {number}, but the panel has {len(panel.places)} places"
        raise Refusal(BAD_FIELD, "leaves", reason, f"use places 0 to {len(panel.places) - 1}")
    place = panel.places[number].place
    if place.kind is not AuditKind.SEGMENT:
        raise Refusal(BAD_FIELD, "leaves", f"place {number} is not a segment", "leave out its leaf")
    if panel.places[number].stops:
        raise Refusal(BAD_FIELD, "leaves", f"place {number} has no leaf, because the job stopped there", "leave it out")
    if panel.places[number].claim:
        return False
    roots = SHARES.must(ctx.store, *panel.round_key.share(place.slot, place.issue)).roots
    if roots is None:
        raise LookupError("an accepted share has no roots")
    right = shown.leaf.index == place.segment + 1
    if not (right and check_leaf(roots.trace_root, roots.segments, shown.leaf)):
        reason = f"the leaf of place {number} is not the leaf that the accepted trace has at the end of its segment"
        raise Refusal(BAD_PROOF, "leaves", reason, "leave it out")
    return True


def apply_reveal_answer(ctx: Context, message: MsgRevealAnswer, checked: CheckedAnswer) -> None:
    """Store the answers and the shown roots. When all seats that committed have revealed, the stage ends."""
    apply_reveal(ctx, checked.panel, checked.seat, message.answers, checked.shown)


# --- the duty of a seat --------------------------------------------------------------------------


def find_commit_duty(store: Overlay, message: MsgCommitAnswer) -> Duty | None:
    """Return the duty to commit, or None if the signer has no seat in the open stage or has committed."""
    found = _find_seat(store, message)
    if found is None or found[1].commitment:
        return None
    return Duty(found[0].commits_end, found[0].key)


def find_reveal_duty(store: Overlay, message: MsgRevealAnswer) -> Duty | None:
    """Return the duty to reveal, or None if the signer has no seat with a commitment in the open stage.

    A message with more answers than the seat has places is not a duty. So the seat's work bounds the gas of a duty.
    """
    found = _find_seat(store, message)
    if found is None or not found[1].commitment:
        return None
    panel, seat = found
    fits = len(message.answers) <= len(seat.places) and len(message.leaves) <= len(panel.places)
    return Duty(panel.reveals_end, panel.key) if fits else None


def _find_seat(store: Overlay, message: MsgCommitAnswer | MsgRevealAnswer) -> tuple[Panel, PanelSeat] | None:
    key = _key(message)
    number = PANEL_DUTIES.get(store, message.auditor, *key)
    panel = PANELS.get(store, *key) if number else None
    if panel is None or not panel.is_open or message.stage != panel.stage:
        return None
    return panel, SEATS.must(store, *key, number - 1)


HANDLERS = (
    Handler(MsgCommitAnswer, check_commit_answer, apply_commit_answer, duty=find_commit_duty),
    Handler(
        message=MsgRevealAnswer,
        check_state=check_reveal_answer,
        apply=apply_reveal_answer,
        check_fields=check_reveal_answer_fields,
        duty=find_reveal_duty,
    ),
)
