"""The tier ``exact``.

Results are the same bits on every machine, every round has a panel, and only equal roots agree.
"""

from functools import partial

from domain.amount import BPS
from domain.legs.records import Leg
from domain.market.records import ChallengeTerms, JobTerms, Order
from domain.order_params import OrderParams
from domain.proof.records import AnswerKind, AuditKind, Finding, SeatAnswer
from escrow.settle import audit_fee
from pol.rules.lots import draw_duty_segments
from pol.rules.panels import audit_floor, draw_places, is_eligible, place_cost
from pol.rules.schedule import served_terms, share_segments
from pol.rules.tiers.answers import answer_commitment, answer_digests
from pol.rules.tiers.tier import Description, Tier
from pol.rules.tiers.votes import Counted, count_wanted, decide, judge, rule


def _whole(finding: Finding) -> Finding:
    return finding


def _every_byte(_: SeatAnswer, digest: bytes) -> bytes:
    return digest


COUNTED = Counted(_whole, _every_byte)
"""Parts of an answer that are compared in this tier: every field of the finding and every byte of the digest."""


def always(_: JobTerms, __: int, ___: int, ____: OrderParams) -> int:
    """Return the chance that a round gets a panel, in basis points: 100 %, because every round gets a panel."""
    return BPS


def draw_duty(seed: bytes, terms: JobTerms, is_new: bool, params: OrderParams) -> tuple[int, ...]:
    """Draw the segments of a share that its own validator must replay.

    ``terms`` are the terms of the leg. If the provider ``is_new``, at least one such segment is drawn.
    """
    return draw_duty_segments(seed, terms.slots, share_segments(terms), params.duty_segments, at_least=int(is_new))


def may_sit(order: Order, speed: int, rate: int) -> bool:
    """Return whether a validator promises enough speed and rate to audit the order within its audit time."""
    return is_eligible(order.terms, order.params, order.audit_ms, speed, rate)


ROOTS = frozenset((AnswerKind.FINISHED, AnswerKind.STOPPED, AnswerKind.UNAVAILABLE))
"""The kinds of answers that say what was recomputed, as a root."""


def may_answer(_: AuditKind, kind: AnswerKind) -> bool:
    """Return whether an answer may have this kind: any that gives a root, or says why there is none."""
    return kind in ROOTS


def as_ordered(params: OrderParams) -> OrderParams:
    """Return the parameters with the number of seats that a fee pays in each group: ``auditors``."""
    return params


def panel_fee(order: Order, leg: Leg, work: int) -> int:
    """Return the audit fee of a round of ``work`` FLOPs.

    It is ``audit_bps`` of the round's price, and at least the least audit fee.
    """
    floor = audit_floor(served_terms(order.terms, leg), leg.price, order.params)
    return max(floor, audit_fee(work, leg.price, order.params.audit_bps))


def is_same_share(rejected: bytes, accepted: bytes) -> bool:
    """Return whether a rejected share has the accepted roots, that is, whether its commitment equals the commitment to
    these roots.
    """
    return rejected == accepted


def price_of_share(_: JobTerms, __: int, ___: int, ____: OrderParams) -> int:
    """Return the least bond of a share, as a multiple of the price of its work: the price itself."""
    return 1


def as_asked(asked: ChallengeTerms, _: OrderParams) -> ChallengeTerms:
    """Return the rules about challenges: those that the order asked for."""
    return asked


EXACT = Tier(
    name="exact",
    description=Description(
        arithmetic="exact: the same bits on every machine",
        recomputed="a panel for every round",
        agreement="if their roots are equal",
        promise="every round is recomputed in part by strangers before it is paid",
        against="any validator, provider and consumer, and coalitions with less than a third of the stake",
        cost="the audit fee of every round",
    ),
    rate=always,
    draws_doubtful=True,
    draw_places=draw_places,
    draw_duty=draw_duty,
    may_sit=may_sit,
    may_answer=may_answer,
    digests=answer_digests,
    commitment=answer_commitment,
    decide=partial(decide, COUNTED),
    judge=partial(judge, COUNTED),
    count_wanted=partial(count_wanted, COUNTED),
    rule=partial(rule, COUNTED),
    is_same_share=is_same_share,
    floor=audit_floor,
    fee=panel_fee,
    paid=as_ordered,
    cost=place_cost,
    penalty=3,
    least_multiple=price_of_share,
    challenges=as_asked,
)
