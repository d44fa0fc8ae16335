"""Places that a panel found wrong, and the providers whose own traces they refute."""

from collections.abc import Iterable

from chain.state_machine.context import Context
from chain.state_machine.proof.tables import SHARES
from domain.proof.records import AnswerKind, AuditKind, Panel, PanelPlace, Ruling


def get_wrong(panel: Panel) -> list[PanelPlace]:
    """Return the places that a panel found wrong."""
    return [place for place in panel.places if place.ruling is Ruling.WRONG]


def is_unserved(place: PanelPlace) -> bool:
    """Return whether a wrong place was not served, or not found."""
    return place.finding is None or place.finding.kind is AnswerKind.UNAVAILABLE


def is_compared(place: PanelPlace) -> bool:
    """Return whether a wrong place was found by a comparison of states, and not by its root."""
    return place.finding is not None and place.finding.kind is AnswerKind.OUTSIDE


def get_refuted_providers(ctx: Context, panel: Panel) -> tuple[str, ...]:
    """Return the providers whose own traces a panel refuted, each once, in the order of places.

    The root that was found wrong is in a trace that the provider signed. So it does not matter whether the validator
    should have noticed, and is therefore liable.
    """
    return _name_providers(ctx, panel, [place for place in get_wrong(panel) if not is_unserved(place)])


def get_disproved_providers(ctx: Context, panel: Panel) -> tuple[str, ...]:
    """Return the refuted providers whose traces have a wrong root, each once.

    A comparison of states disproves no one: a machine that no profile has may be outside the thresholds, too.
    """
    wrong = (place for place in get_wrong(panel) if not (is_unserved(place) or is_compared(place)))
    return _name_providers(ctx, panel, wrong)


def _name_providers(ctx: Context, panel: Panel, wrong: Iterable[PanelPlace]) -> tuple[str, ...]:
    providers = []
    for place in wrong:
        where = place.place
        is_of_trace = where.kind in (AuditKind.SEGMENT, AuditKind.UPDATE)
        if is_of_trace and (place.stops or place.claim):
            providers.append(SHARES.must(ctx.store, *panel.round_key.share(where.slot, where.issue)).claim.provider)
    return tuple(dict.fromkeys(providers))
