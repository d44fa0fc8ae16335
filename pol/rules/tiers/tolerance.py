"""The tier ``tolerance``: segments in hardware arithmetic, whose end states agree within the job's thresholds.

Two honest machines have different bits, so a root says nothing about a segment. A seat first commits to the root of the
end state that it computed itself. Only then may it fetch the end state that the provider committed to, and it answers
whether that is within the thresholds of its own. No digest can show that a seat has computed. Instead a seat has to
serve its own end state to the seats of later stages. After each stage a lot may draw a seat that asks for it
(:mod:`pol.rules.tiers.remarks`). All other places are exact, as in ``exact``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256

from domain.hashing import encode_fields, hash_fields, u32
from domain.keys import PanelKey
from domain.legs.records import Leg
from domain.market.records import JobTerms, Order
from domain.order_params import OrderParams
from domain.proof.records import AnswerKind, AuditKind, AuditPlace, Finding, Ruling, SeatAnswer
from escrow.settle import audit_fee
from pol.rules.lots import draw
from pol.rules.panels import ShareExtent, audit_floor, draw_places, segment_at
from pol.rules.schedule import served_terms
from pol.rules.tiers import votes as counting
from pol.rules.tiers.answers import answer_commitment
from pol.rules.tiers.exact import EXACT, ROOTS
from pol.rules.tiers.remarks import COMPARED, Standing, accuses_wrongly, review
from pol.rules.tiers.tier import AnswerVerdict, Description, Quorum, Tier, Vote
from pol.rules.tolerance import TIER_NAME

REVIEW_RATE = 2_500
"""The chance (bps) of a review after a stage. A seat that only pretends to compute earns less than it loses: a refuted
seat loses at least three times its pay.
"""
COMPARE_PART = 2
_TRIES = 8
"""Draws for each segment of a panel until one has no neighbour in the panel."""


# --- places --------------------------------------------------------------------------------------


def draw_apart(
    seed: bytes, shares: Sequence[ShareExtent], segments: int, stopped: AuditPlace | None = None
) -> tuple[AuditPlace, ...]:
    """Draw the places of a panel as in ``exact``, but if possible no two that follow each other.

    The states before a place are served at once, so they would show a seat the end of the place before it.
    """
    plain = draw_places(seed, shares, segments, stopped)
    fixed = [place for place in plain if place.kind is not AuditKind.SEGMENT or place == stopped]
    drawn = list(fixed)
    population = sum(extent.begun(stopped) for extent in shares)
    for number in range(_TRIES * segments if population else 0):
        if len(drawn) == len(plain):
            break
        (at,) = draw(hash_fields("assay/panel/apart", seed, u32(number)), population, 1)
        place = segment_at(shares, at, stopped)
        if place not in drawn and not any(_follow(place, other) for other in drawn):
            drawn.append(place)
    left = [place for place in plain if place not in drawn]
    return (*drawn, *left[: len(plain) - len(drawn)])


def _follow(one: AuditPlace, other: AuditPlace) -> bool:
    """Return whether one of two places of a share begins where the other ends."""
    kinds = (AuditKind.SEGMENT, AuditKind.UPDATE)
    same = (one.slot, one.issue) == (other.slot, other.issue)
    return same and other.kind in kinds and abs(one.segment - other.segment) == 1


# --- answers -------------------------------------------------------------------------------------


def may_answer(place: AuditKind, kind: AnswerKind) -> bool:
    """Return whether an answer about a kind of place may have this kind. Only segments are compared."""
    if place is AuditKind.SEGMENT:
        return kind in COMPARED or kind is AnswerKind.UNAVAILABLE
    return kind in ROOTS


def own_commitment(
    chain_id: str, key: PanelKey, stage: int, auditor: str, salt: bytes, answers: Iterable[SeatAnswer]
) -> bytes:
    """Return the hash with which a seat commits to its answers, as in ``exact``.

    Of a segment it covers the root of the seat's own end state, and not the comparison, which comes later.
    """
    return answer_commitment(chain_id, key, stage, auditor, salt, map(_committed, answers))


def _committed(answer: SeatAnswer) -> SeatAnswer:
    compares = answer.kind in COMPARED or (answer.kind is AnswerKind.UNAVAILABLE and answer.digest)
    if not compares:
        return answer
    own = sha256(encode_fields("assay/panel/own", answer.digest)).digest()
    return SeatAnswer(place=answer.place, kind=AnswerKind.OUTSIDE, root=b"", digest=own, step=0)


# --- rulings -------------------------------------------------------------------------------------


def _as_result(finding: Finding) -> Finding:
    """Return a finding that a claim is within the thresholds as the claim itself."""
    if finding.kind is not AnswerKind.WITHIN:
        return finding
    kind = AnswerKind.FINISHED if finding.root else AnswerKind.STOPPED
    return Finding(kind, finding.root, finding.step)


def _of_exact_places(answer: SeatAnswer, digest: bytes) -> bytes:
    return b"" if answer.kind in COMPARED else digest


COUNTED = counting.Counted(_as_result, _of_exact_places)
"""Parts of an answer that are compared in this tier: the finding, and the digest of a place that is exact."""


def decide(votes: Sequence[Vote], quorum: Quorum) -> Finding | None:
    """Return the finding that is decided for a place, as in ``exact``, but without the answers of bad seats.

    Before the last stage, nothing is decided while it is unclear whether a seat has computed its state.
    """
    reviewed = review(votes)
    if not quorum.is_last and any(each.standing is Standing.UNCLEAR for each in reviewed):
        return None
    return counting.decide(COUNTED, _kept(votes), quorum)


def count_wanted(votes: Sequence[Vote], quorum: Quorum) -> int:
    """Return the number of new seats that an undecided place needs, as in ``exact``.

    If one seat says that another one's state is outside the thresholds, the number is at least twice the number of
    seats so far. If a state was not served, two more seats ask for it.
    """
    wanted = counting.count_wanted(COUNTED, _kept(votes), quorum)
    unclear = [each for each in review(votes) if each.standing is Standing.UNCLEAR]
    if any(each.is_outside for each in unclear):
        return max(wanted, 2 * len(votes))
    return max(wanted, 2 if unclear else 0)


def judge(votes: Sequence[Vote], decided: Finding | None, is_last: bool) -> tuple[AnswerVerdict, ...]:
    """Return the verdict on each seat's answer, as in ``exact``.

    A bad seat is refuted, and so is one that calls the state of a good seat outside the thresholds. A seat whose
    standing stayed unclear gets no pay for its work.
    """
    verdicts = list(counting.judge(COUNTED, votes, decided, is_last))
    if decided is None or decided.kind is AnswerKind.UNAVAILABLE:
        return tuple(verdicts)
    reviewed = review(votes)
    for at, (vote, found) in enumerate(zip(votes, reviewed, strict=True)):
        if verdicts[at] is not AnswerVerdict.RIGHT:
            continue
        if found.standing is Standing.BAD or accuses_wrongly(votes, vote, reviewed):
            verdicts[at] = AnswerVerdict.REFUTED
        elif found.standing is Standing.UNCLEAR:
            verdicts[at] = AnswerVerdict.UNKNOWN
    return tuple(verdicts)


def _kept(votes: Sequence[Vote]) -> list[Vote]:
    reviewed = zip(votes, review(votes), strict=True)
    return [vote for vote, found in reviewed if found.standing is not Standing.BAD]


def rule(decided: Finding | None, claim: bytes, stop: int | None) -> Ruling:
    """Return the ruling on the root that the chain has, as in ``exact``."""
    return counting.rule(COUNTED, decided, claim, stop)


# --- money ---------------------------------------------------------------------------------------


def with_reviewer(params: OrderParams) -> OrderParams:
    """Return the parameters with one more seat in each group, which a review may draw."""
    return replace(params, auditors=params.auditors + 1) if params.auditors else params


def least_fee(terms: JobTerms, price: int, params: OrderParams) -> int:
    """Return the least audit fee of a round (``uassay``), which also pays a reviewer."""
    return audit_floor(terms, price, with_reviewer(params))


def panel_fee(order: Order, leg: Leg, work: int) -> int:
    """Return the audit fee of a round of ``work`` FLOPs, as in ``exact``."""
    floor = least_fee(served_terms(order.terms, leg), leg.price, order.params)
    return max(floor, audit_fee(work, leg.price, order.params.audit_bps))


TOLERANCE: Tier = replace(
    EXACT,
    name=TIER_NAME,
    description=Description(
        arithmetic="that of the machine (FP32, TF32 or BF16), as the job says; updates are exact",
        recomputed="a panel for every round",
        agreement="if their end states are within the job's thresholds",
        promise="every round is recomputed in part by strangers, and each segment is right within the thresholds",
        against="the same parties as exact, but not against small changes in every segment",
        cost="the audit fee of every round with one more seat, and all states of each share are sent",
    ),
    draw_places=draw_apart,
    may_answer=may_answer,
    commitment=own_commitment,
    decide=decide,
    judge=judge,
    count_wanted=count_wanted,
    rule=rule,
    floor=least_fee,
    fee=panel_fee,
    paid=with_reviewer,
    hardware=True,
    compare_part=COMPARE_PART,
    review_rate=REVIEW_RATE,
)
