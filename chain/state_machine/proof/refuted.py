"""Places that a panel found wrong, and the providers whose own traces they refute."""

from chain.state_machine.context import Context
from chain.state_machine.proof.tables import SHARES
from domain.proof.records import AnswerKind, AuditKind, Panel, PanelPlace, Ruling


def get_wrong(panel: Panel) -> list[PanelPlace]:
    """Return the places that a panel found wrong."""
    return [place for place in panel.places if place.ruling is Ruling.WRONG]


def is_unserved(place: PanelPlace) -> bool:
    """Return whether a wrong place was not served, or not found."""
    return place.finding is None or place.finding.kind is AnswerKind.UNAVAILABLE


def get_refuted_providers(ctx: Context, panel: Panel) -> tuple[str, ...]:
    """Return the providers whose own traces a panel refuted, each once, in the order of places.

    The root that was found wrong is in a trace that the provider signed. So it does not matter whether the validator
    should have noticed, and is therefore liable.
    """
    providers = []
    for place in get_wrong(panel):
        where = place.place
        is_of_trace = where.kind in (AuditKind.SEGMENT, AuditKind.UPDATE)
        if is_of_trace and not is_unserved(place) and (place.stops or place.claim):
            providers.append(SHARES.must(ctx.store, *panel.round_key.share(where.slot, where.issue)).claim.provider)
    return tuple(dict.fromkeys(providers))
