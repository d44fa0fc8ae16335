"""The page of one share: its trace from boundary to boundary, who recomputed which parts, and their results."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from console import words
from console.index.writing import EventIndex
from console.story import LegStory, OrderStory, PlaceStory, RoundStory, SeatStory, ShareStory
from console.traces import Replayed, ShareTrace, first_difference
from domain.keys import ShareKey
from domain.market.records import JobTerms
from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind, AuditKind, Ruling, ShareState
from pol.rules.inclusion import issue_name
from pol.rules.lots import duty_segments
from pol.rules.schedule import first_step, share_segments
from pol.rules.tiers.table import tier_named

ROWS_SHOWN: Final = 64
"""Maximum number of segments that are listed. If a trace is longer, only the segments that were checked are listed."""


@dataclass(frozen=True, slots=True)
class ShareView:
    """A share with its order, leg and round; ``story`` is None while the share is being trained."""

    key: ShareKey
    order: OrderStory
    leg: LegStory
    round: RoundStory | None
    story: ShareStory | None
    # The share's trace in records on this machine, and the trace of the share accepted in its place, if there is one.
    trace: ShareTrace
    accepted: ShareTrace | None
    names: Mapping[str, str]

    @property
    def terms(self) -> JobTerms:
        """The terms of the share's order."""
        return self.order.order.terms

    @property
    def segments(self) -> int:
        """Number of the share's segments."""
        if self.story is not None and self.story.state is ShareState.ACCEPTED:
            return self.story.segments
        return len(self.trace.boundaries) if self.trace.claimed else share_segments(self.terms)

    @property
    def drawn(self) -> tuple[int, ...]:
        """The segments that were drawn by lot."""
        return self.story.drawn if self.story is not None else ()

    def steps(self, segment: int) -> tuple[int, int]:
        """Return the first and the last step of a segment, as numbers of the job's steps from 0 on."""
        first = first_step(self.terms, self.key.round) + segment * self.terms.segment_steps
        return first, first + self.terms.segment_steps - 1

    def places(self) -> dict[int, tuple[int, PlaceStory]]:
        """Return the panel's places in this share by segment, each with its number in the panel.

        The place of the update has the number after the last segment as its key.
        """
        by_segment: dict[int, tuple[int, PlaceStory]] = {}
        for number, place in enumerate(self.round.places if self.round else ()):
            where = place.place
            if where.kind is AuditKind.AGGREGATION:
                continue
            if (where.slot, where.issue) == (self.key.slot, self.key.issue):
                is_end = where.kind is AuditKind.UPDATE
                by_segment[self.segments if is_end else where.segment] = number, place
        return by_segment

    def answers(self, number: int) -> list[tuple[SeatStory, int, bytes]]:
        """Return the revealed answers on the panel's place ``number``, each as a seat, an ``AnswerKind`` and a root."""
        seats = self.round.seats if self.round else ()
        return [(seat, *seat.answers[number]) for seat in seats if number in seat.answers]


def find_share(
    story: OrderStory, key: ShareKey, traces: Mapping[ShareKey, ShareTrace], names: Mapping[str, str]
) -> ShareView | None:
    """Return the view of a share; None if neither the chain nor a record on this machine has it."""
    leg = story.legs.get(key.leg)
    if leg is None:
        return None
    round = leg.rounds.get(key.round)
    share = round.shares.get((key.slot, key.issue)) if round else None
    trace = traces.get(key, ShareTrace())
    if share is None and not trace.boundaries:
        return None
    accepted = None
    for other in round.issues(key.slot) if round else ():
        if other.state is ShareState.ACCEPTED and other.issue != key.issue:
            other_key = ShareKey(
                order_id=key.order_id,
                leg=key.leg,
                round=key.round,
                slot=key.slot,
                issue=other.issue,
            )
            accepted = traces.get(other_key)
    return ShareView(
        key=key,
        order=story,
        leg=leg,
        round=round,
        story=share,
        trace=trace,
        accepted=accepted,
        names=names,
    )


def show_share(index: EventIndex, share: ShareView) -> dict[str, Any]:
    """Return the data of a share's page."""
    story, key, count = share.story, share.key, share.segments
    rows = [_row(share, segment) for segment in range(count)]
    end = _row(share, count) if story is not None and not story.skipped else None
    listed = [row for row in rows if row["looked"]] if count > ROWS_SHOWN else rows
    last = share.trace.boundaries[-1] if share.trace.boundaries else None
    return {
        "id": key.order_id.hex(),
        "leg": key.leg,
        "round": key.round,
        "rounds": share.terms.rounds,
        "slot": key.slot,
        "issue": key.issue,
        "issue_name": story.issue_name if story else issue_name(key.issue),
        "provider": story.provider if story else "",
        "validator": share.leg.validator,
        "state": state_of(story) if story else "training",
        "reason": story.reason if story else 0,
        "told": describe_share(story, share.round) if story and share.round else "",
        "difference": describe_difference(share),
        "job": share.terms.job_id.hex(),
        "segments": count,
        "reached": len(share.trace.boundaries),
        "segment_steps": share.terms.segment_steps,
        "first_step": share.steps(0)[0],
        "last_step": share.steps(count - 1)[1] if count else 0,
        "drawn": list(share.drawn),
        "loss": (story.metrics[0] if story and story.metrics else None)
        or (last.metrics[0] if last and last.metrics else None),
        "bond": story.bond if story else 0,
        "cover": story.cover if story else 0,
        "burnt": story.burnt if story else 0,
        "paid": story.paid if story else 0,
        "committed_ns": index.block_time(story.height) if story else 0,
        "commitment": story.commitment.hex() if story else "",
        "trace_root": story.trace_root.hex() if story else "",
        "known": bool(share.trace.boundaries),
        "claimed": share.trace.claimed,
        "strip": rows,
        "rows": listed[:ROWS_SHOWN],
        "left_out": count - len(listed[:ROWS_SHOWN]),
        "end": end,
        "issues": [
            {
                "issue": other.issue,
                "issue_name": other.issue_name,
                "state": state_of(other),
                "provider": other.provider,
            }
            for other in (share.round.issues(key.slot) if share.round else ())
        ],
        "curve": curve(share.trace),
    }


def state_of(share: ShareStory) -> str:
    """Return the state of a share as a word: skipped, committed, accepted, rejected, right or wrong."""
    if share.skipped:
        return "skipped"
    return "wrong" if share.found_wrong else share.state.name.lower()


def curve(trace: ShareTrace) -> list[tuple[int, float]]:
    """Return the losses of a trace as pairs: the number of the job's steps before a boundary, and the loss there."""
    return [(b.step, b.metrics[0]) for b in trace.boundaries if b.metrics]


def _row(share: ShareView, segment: int) -> dict[str, Any]:
    """Return the row of a segment; if ``segment`` is the number after the last segment, the row of the update."""
    is_end = segment == share.segments
    reached = share.trace.boundary(segment + 1)
    replayed = share.trace.replay(segment)
    number, place = share.places().get(segment, (-1, None))
    answers = share.answers(number)
    duty = share.story is not None and segment in duty_segments(share.segments, share.drawn)
    is_open_or_accepted = share.story is not None and share.story.state in (
        ShareState.COMMITTED,
        ShareState.ACCEPTED,
    )
    claim = reached.root if reached and not is_end else b""
    if place is not None and place.claim:
        claim = place.claim
    first, last = share.steps(segment)
    return {
        "segment": segment,
        "is_end": is_end,
        "first_step": 0 if is_end else first,
        "last_step": 0 if is_end else last,
        "claim": claim.hex(),
        "loss": reached.metrics[0] if reached and reached.metrics and not is_end else None,
        "drawn": segment in share.drawn,
        "duty": duty,
        "picked": segment in share.trace.picks or (replayed is not None and not duty),
        "replayed": _replayed(replayed) if replayed else None,
        "ruling": place.ruling.name.lower() if place else "",
        "stage": place.stage if place else 0,
        "first_stage": place.first_stage if place else 0,
        "stops": place.stops if place else False,
        "answers": [
            {
                "validator": seat.validator,
                "stage": seat.stage,
                "kind": AnswerKind(kind).name.lower(),
                "root": root.hex(),
                "differs": bool(claim and root and root != claim),
            }
            for seat, kind, root in answers
        ],
        "state": _state(replayed, place, duty=duty and is_open_or_accepted),
        "looked": bool(duty or replayed or place),
    }


def _replayed(replay: Replayed) -> dict[str, Any]:
    return {"reason": replay.reason, "root": replay.root.hex()}


def _state(replayed: Replayed | None, place: PlaceStory | None, *, duty: bool) -> str:
    """Return the state of the checks of a segment as a word, which is also the CSS class of its cell in the strip."""
    if (place is not None and place.is_wrong) or (replayed and replayed.reason):
        return "wrong"
    if place is not None and place.ruling is Ruling.RIGHT:
        return "right"
    if place is not None:
        return "asked"
    if replayed is not None:
        return "held"
    return "duty" if duty else ""


def describe_share(share: ShareStory, round: RoundStory) -> str:
    """Return a text that describes the state of a share, from the chain's data."""
    text = _describe_state(share, round)
    if share.witnesses:
        text += f" Its provider asked for witnesses: its delivery arrived at {share.witnessed} of {share.witnesses}."
    return text


def _describe_state(share: ShareStory, round: RoundStory) -> str:
    """Return a sentence that describes the state of a share."""
    if share.skipped:
        return f"It could not be committed: {words.share_reason(share.reason)}."
    if share.found_wrong:
        return "Its validator accepted it, and auditors later found a segment of it wrong."
    if share.state is ShareState.COMMITTED:
        if not share.is_drawn:
            return "Its provider has committed to it; its segments are not drawn yet."
        return "Its provider has committed to it, and its validator is checking it."
    if share.state is ShareState.TAKEN:
        return "Its round became void, and the next leg took it over: it need not be trained again."
    if share.void_paid:
        paid = words.assay(share.void_paid)
        return f"Another provider made its round void. Its provider stood for it, and bonds paid {paid} for it."
    if share.state is ShareState.ACCEPTED:
        return _describe_accepted(share, round)
    drawn = ", ".join(map(str, share.drawn))
    segments = "segment" if len(share.drawn) == 1 else "segments"
    lots = f" (drawn: {segments} {drawn})" if drawn else ""
    text = f"Its validator rejected it: {words.share_reason(share.reason)}{lots}."
    if share.reason == ShareReason.INCLUDED and share.state is ShareState.REJECTED:
        return "Its provider put it on chain itself. It will be compared with the accepted share of its slot."
    if share.reason == ShareReason.INCLUDED:
        text = "Its provider put it on chain itself."
    if share.reason == ShareReason.LEG_ENDED:
        text = "The leg ended before its round was closed, and its bond was returned."
        if share.paid:
            text += f" Its provider stood for it, and received {words.assay(share.paid)}."
    elif share.state is ShareState.WRONG:
        text += " Auditors confirmed the accepted share of this slot. This share differs from it, and is not paid."
    elif share.state is ShareState.RIGHT:
        text += " But auditors got the same result as this share, so it was right"
        text += f", and its provider received {words.assay(share.paid)} for it." if share.paid else "."
    elif share.committed_at and not round.verified_height:
        text += " Auditors will check the rejection when they recompute the round."
    return text


def _describe_accepted(share: ShareStory, round: RoundStory) -> str:
    audited = [
        place
        for place in round.places
        if place.place.kind is not AuditKind.AGGREGATION
        and (place.place.slot, place.place.issue) == (share.slot, share.issue)
    ]
    right = sum(place.ruling is Ruling.RIGHT for place in audited)
    text = "Its validator accepted it"
    if share.taken_from:
        text += f" in leg {share.taken_from}, from which it was taken over"
    if not round.closed_height:
        return f"{text}; auditors may recompute it when the round is closed."
    if not audited:
        return f"{text}; auditors were not asked about it{'' if round.panel_over else ' yet'}."
    places = "one place" if len(audited) == 1 else f"{len(audited)} places"
    if right == len(audited):
        return f"{text}, and auditors who recomputed {places} of it got the same results."
    return f"{text}; auditors recompute {places} of it, of which {right} are confirmed so far."


def describe_difference(share: ShareView) -> str:
    """Return a text that describes where a share first differs from correct training; empty if no error is known."""
    story, trace = share.story, share.trace
    if story is None or story.skipped:
        return ""
    for segment, (number, place) in sorted(share.places().items()):
        if place.is_wrong:
            return _difference_by_auditors(share, segment, number, place)
    if story.state not in (ShareState.REJECTED, ShareState.WRONG):
        return ""
    tier = tier_named(share.leg.tier)
    part = first_difference(trace, share.accepted, tier) if share.accepted is not None else 0
    failed = next((replay for replay in trace.replayed if replay.reason), None)
    if part:
        return _difference_by_other_share(share, part, failed)
    if failed is not None:
        return _difference_by_validator(share, failed)
    if story.reason not in (ShareReason.SEGMENT_MISMATCH, ShareReason.UPDATE_MISMATCH):
        return ""
    if story.reason == ShareReason.UPDATE_MISMATCH:
        return "It differs at its end: the update does not follow from its first and last state."
    duty = duty_segments(share.segments, share.drawn)[:-1]
    drawn = f"{_list(duty)} of {share.segments}, or " if duty else ""
    return (
        f"It differs in one of the segments that its validator trained again: {drawn}"
        "segments of its own choice. The chain does not have the segment's number; the validator's records do."
    )


def _difference_by_other_share(share: ShareView, part: int, failed: Replayed | None) -> str:
    first, last = share.steps(part - 1)
    mine = share.trace.boundary(part)
    theirs = share.accepted and share.accepted.boundary(part)
    if mine is None or not theirs:
        return ""
    text = (
        f"Up to step {first - 1:,} its states are those of the accepted share. "
        if part > 1
        else "It starts from the same state as the accepted share. "
    )
    text += (
        f"It first differs in segment {part - 1} (steps {first:,} to {last:,}): "
        f"training leads to state {_hex(theirs.root)}, but it claims {_hex(mine.root)}"
    )
    if mine.metrics and theirs.metrics and mine.metrics[0] != theirs.metrics[0]:
        text += f", with a loss of {mine.metrics[0]:.4g} instead of {theirs.metrics[0]:.4g}"
    text += "."
    if failed is not None:
        text += f" This was noticed when its validator trained {_part(share, failed.segment)} again."
    return text


def _difference_by_validator(share: ShareView, failed: Replayed) -> str:
    if failed.segment >= share.segments:
        return "It differs at its end: the update does not follow from its first and last state" + (
            f", which give {_hex(failed.root)}." if failed.root else "."
        )
    mine = share.trace.boundary(failed.segment + 1)
    text = f"Its validator trained {_part(share, failed.segment)} again from the state that the provider showed"
    if failed.root and mine:
        return f"{text}: training leads to {_hex(failed.root)}, but the trace claims {_hex(mine.root)}."
    return f"{text}: {words.share_reason(failed.reason)}."


def _difference_by_auditors(share: ShareView, segment: int, number: int, place: PlaceStory) -> str:
    where = _part(share, segment) if segment < share.segments else "its update"
    tier = tier_named(share.leg.tier)
    stage, found = (place.first_stage, place.first_root) if place.first_stage else (place.stage, place.root)
    same = sum(tier.agree(root, found) for _, _, root in share.answers(number))
    text = f"Auditors recomputed {where} in stage {stage}"
    if place.stops:
        return f"{text}: the job does not stop there, although its validator reported that it does."
    if not found:
        return f"{text}: training has no next state there, or the data was not available."
    claim = f", but it claims {_hex(place.claim)}" if place.claim else ""
    return f"{text}: {same} of them got {_hex(found)}{claim}."


def _part(share: ShareView, segment: int) -> str:
    first, last = share.steps(segment)
    return f"segment {segment} (steps {first:,} to {last:,})"


def _list(numbers: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, numbers[:12]))
    return f"{shown} …" if len(numbers) > 12 else shown


def _hex(root: bytes) -> str:
    return root.hex()[:12]
