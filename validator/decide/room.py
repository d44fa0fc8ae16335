"""The decision whether a round may close now: how many rounds may wait for their panels, and how long.

The chain lets ``rounds_ahead`` rounds be closed and not yet verified (protocol 4.6). A validator waits earlier if one
of these rounds has a share of a newcomer: a wrong share makes all closed rounds void, and a newcomer has the least to
lose.
"""

from domain.legs.records import Leg
from domain.proof.records import ShareState
from pol.rules.panels import batch_seconds, verify_seconds
from pol.rules.schedule import progress_seconds, round_seconds, served_terms
from pol.rules.tiers.table import challenges_of
from validator.decide.records import LocalOrder
from validator.decide.view import View

PRESSED_PART = 4
"""Divisor for the progress time. In the last ``1 / PRESSED_PART`` of this time, a round closes even if not all its
suspects are replayed, or a newcomer's share is not verified.
"""
TRAINING_SLACK = 2
"""Time that the rounds that are left may need, as a multiple of their time at the bid's speed."""


def is_pressed(view: View, leg: Leg) -> bool:
    """Return whether the round must close now, because the leg would fail otherwise."""
    order = view.on_chain.order
    progress = progress_seconds(
        served_terms(order.terms, leg),
        order.params.progress_base,
        leg.slot_speed,
        leg.slots_at_once,
    )
    ends = min(leg.progress_deadline, order.deadline)
    return view.clock >= ends - progress // PRESSED_PART


def has_room(local: LocalOrder, view: View) -> bool:
    """Return whether another round may close. Rounds that wait only for challenges do not count.

    This validator waits for a round with a newcomer's share only as long as its leg does not need the time.
    """
    leg = view.on_chain.leg(local.leg)
    if leg is None or leg.uncleared >= view.on_chain.order.params.rounds_ahead:
        return False
    if leg.uncleared < view.newcomer_rounds or not _has_newcomer(view, leg):
        return True
    return is_pressed(view, leg) or not _has_time(view, leg)


def _has_newcomer(view: View, leg: Leg) -> bool:
    """Return whether a closed round that waits for its panel has a share of a provider without a verified share.

    A provider that is not in the cluster counts as such a provider, because it could have left for that reason.
    """
    waiting = range(leg.round - leg.uncleared, leg.round)
    return any(
        share.state is ShareState.ACCEPTED and share.claim.provider not in view.verified_providers
        for round in waiting
        for share in view.on_chain.shares_of(leg.number, round).values()
    )


def _has_time(view: View, leg: Leg) -> bool:
    """Return whether the rounds that are left would still be in time if this round closed a little later."""
    order = view.on_chain.order
    params, left = order.params, leg.end_round - leg.round - 1
    seconds = round_seconds(served_terms(order.terms, leg), leg.slot_speed, leg.slots_at_once)
    needed = (
        TRAINING_SLACK * left * seconds
        + left // params.rounds_ahead * batch_seconds(params, order.audit_ms, order.window)
        + verify_seconds(params, order.audit_ms, order.window)
        + challenges_of(order, leg).wait
    )
    return view.clock + needed < order.deadline
