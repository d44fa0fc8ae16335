"""A provider's appeals: rulings of a few seats against a segment of its own share, which it recomputes first."""

from compute_provider.decide.claims import price
from compute_provider.decide.records import Contest
from domain.disputes.params import DisputesParams
from domain.keys import ShareKey
from domain.params import Params
from domain.proof.queries import OrderResponse
from domain.proof.records import AnswerKind, AuditKind, Panel, PanelPlace, Ruling, ShareClaim
from pol.rules.cover import earned_by_share
from pol.rules.disputes import appeal_bond
from pol.rules.lots import duty_segments
from pol.rules.panels import audit_price
from pol.rules.schedule import share_work
from pol.rules.tiers.table import tier_named

APPEAL_SECONDS = 3
"""Seconds of the chain clock that are left for an appeal to get into a block."""
STAKE_TIMES = 10
"""An appeal pays if its bond is at most so many times what the provider would lose. Such a bond is lost only if the
provider is wrong, or if more than half of all stake is."""


def find_contest(order: OrderResponse, claim: ShareClaim, clock: int) -> Contest | None:
    """Return the ruling against a share that its provider may appeal now; None if there is none.

    All places that the panel found wrong must be segments of this share: the provider knows nothing of other places,
    and one of them would cost it the bond. If the validator is liable for one of them, the provider has only its
    credential to lose.
    """
    key = order.held(claim.key, claim.provider)
    share = order.share(key)
    if share is None or share.claim != claim:
        return None
    for panel in order.panels:
        is_about = (panel.leg, panel.round) == (key.leg, key.round)
        if not is_about or not panel.awaits_appeal or clock >= panel.appeal_until - APPEAL_SECONDS:
            continue
        wrong = [place for place in panel.places if place.ruling is Ruling.WRONG]
        if wrong and share.roots is not None and all(_is_refuted(place, key) for place in wrong):
            segments = tuple(sorted(place.place.segment for place in wrong))
            duty = duty_segments(share.roots.segments, share.drawn)
            is_liable = not any(segment in duty for segment in segments)
            # A comparison of states costs no credential.
            if is_liable or not any(_is_compared(place) for place in wrong):
                return Contest(panel.dispute, segments, is_liable=is_liable)
    return None


def _is_refuted(place: PanelPlace, key: ShareKey) -> bool:
    """Return whether a wrong place is a segment of a share, so that its provider loses its credentials."""
    where = place.place
    if where.kind is not AuditKind.SEGMENT or (where.slot, where.issue) != (key.slot, key.issue):
        return False
    if place.stops or not place.claim or place.finding is None:
        return False
    return place.finding.kind is not AnswerKind.UNAVAILABLE


def _is_compared(place: PanelPlace) -> bool:
    return place.finding is not None and place.finding.kind is AnswerKind.OUTSIDE


def contested_panel(order: OrderResponse, task: ShareKey, provider: str, contest: Contest) -> Panel | None:
    """Return the panel whose ruling a provider contests, as long as it can be appealed; otherwise None."""
    key = order.held(task, provider)
    found = (p for p in order.panels if (p.leg, p.round, p.dispute) == (key.leg, key.round, contest.dispute))
    return next((panel for panel in found if panel.awaits_appeal), None)


def compute_bond(order: OrderResponse, panel: Panel, validators: int, params: Params) -> int:
    """Return the most (uassay) that the appeal of a ruling can need on a chain with so many validators."""
    leg = order.leg(panel.leg)
    if leg is None:
        raise LookupError("a panel has no leg")
    rules = order.order.params
    paid, cost = audit_price(rules, leg.price), tier_named(leg.tier).cost
    asked = (place.place.kind for place in panel.places if place.ruling in (Ruling.WRONG, Ruling.OPEN))
    costs = (cost(order.order.terms, kind, paid) for kind in asked)
    return appeal_bond(costs, rules.answer_fee, validators, params.of(DisputesParams).challenge_min)


def pays(order: OrderResponse, panel: Panel, multiple: int, bond: int) -> bool:
    """Return whether an appeal with this bond pays, if the share is right.

    The provider would lose the bond of the share, which is ``multiple`` times its price, and what the share earns.
    """
    leg = order.leg(panel.leg)
    if leg is None:
        return False
    terms = order.order.terms
    at_stake = multiple * price(terms, leg) + earned_by_share(order.order, leg, share_work(terms))
    return bond <= STAKE_TIMES * at_stake
