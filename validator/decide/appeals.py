"""The appeals of a validator: rulings against its own rounds that a few seats gave, and that it knows to be wrong."""

from domain.disputes.messages import MsgAppeal
from domain.legs.records import Leg
from domain.proof.queries import OrderResponse
from domain.proof.records import AuditKind, Panel, Ruling
from validator.decide.actions import Action, SendTx
from validator.decide.records import LocalOrder, LocalRound
from validator.decide.view import View


def is_ruled_against(on_chain: OrderResponse, leg: Leg) -> bool:
    """Return whether a round of a leg may become void by a ruling that can be appealed, or is appealed.

    The daemon gives out no work of the leg until then, because the work could be void as well. No deadline passes in
    this time.
    """
    return any(panel.leg == leg.number and is_in_doubt(panel) for panel in on_chain.panels)


def is_in_doubt(panel: Panel) -> bool:
    """Return whether the ruling of a panel can be appealed, or an appeal of it is not decided yet."""
    return panel.awaits_appeal or (panel.appellant != "" and bool(panel.undecided) and not panel.is_settled)


def appeals(local: LocalOrder, view: View, leg: Leg, prefix: str) -> list[Action]:
    """Return the appeals of rulings about places that this daemon has computed or replayed itself.

    An appeal is at the risk of its bond. So a ruling about a segment that only its provider has computed is left to
    that provider.
    """
    actions: list[Action] = []
    for panel in view.on_chain.panels:
        known = local.find(panel.round)
        if panel.leg != leg.number or known is None or not panel.awaits_appeal or view.clock >= panel.appeal_until:
            continue
        wrong = [place.place for place in panel.places if place.ruling is Ruling.WRONG]
        if not all(
            place.kind is not AuditKind.SEGMENT or _has_replayed(known, place.slot, place.issue, place.segment)
            for place in wrong
        ):
            continue
        message = MsgAppeal(
            appellant=view.me, order_id=panel.order_id, leg=panel.leg, round=panel.round, dispute=panel.dispute
        )
        name = f"{prefix}/appeal/{panel.round}/{panel.dispute}"
        actions.append(SendTx(name, (message,), panel.appeal_until))
    return actions


def _has_replayed(known: LocalRound, slot: int, issue: int, segment: int) -> bool:
    """Return whether this daemon has replayed a segment of a share, and found that it ends in the share's states."""
    work = known.find(slot, issue)
    return work is not None and any(done.segment == segment and not done.reason for done in work.checked)
