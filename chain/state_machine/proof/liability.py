"""Liability for the places that a panel found wrong: whose fault each of them is, and whose bonds pay for it."""

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import get_job_bond, get_share_bond
from chain.state_machine.proof.places import get_roots
from chain.state_machine.proof.refuted import get_wrong, is_compared, is_unserved
from chain.state_machine.proof.tables import SHARES
from domain.ledger.records import BondRow
from domain.legs.records import Leg
from domain.proof.records import AuditKind, Panel, PanelPlace, Ruling, Share
from pol.rules.lots import duty_segments


def get_losers(ctx: Context, panel: Panel) -> tuple[BondRow, ...]:
    """Return the rest of the bonds of the parties that are at fault according to the rulings of a panel."""
    bonds = [get_share_bond(ctx, share.key) for share in get_wrong_shares(ctx, panel)]
    if is_by_validator(ctx, panel):
        bonds.insert(0, get_job_bond(ctx, panel.order_id, panel.leg))
    return tuple(bond for bond in bonds if bond is not None)


def count_bonds(ctx: Context, leg: Leg, panel: Panel) -> int:
    """Return the sum (uassay) of the bonds that were locked by the parties at fault."""
    shares = sum(share.bond for share in get_wrong_shares(ctx, panel))
    return shares + (leg.job_bond if is_by_validator(ctx, panel) else 0)


def is_by_validator(ctx: Context, panel: Panel) -> bool:
    """Return whether some place is wrong and the validator is at fault for it."""
    return any(_get_wrong_share(ctx, panel, place) is None for place in get_wrong(panel))


def get_slashable(ctx: Context, panel: Panel) -> tuple[int, ...]:
    """Return the numbers of the places for which the stage that just ended would slash the validator.

    The ruling must name the right result of the place. If a place was not served, or if no one has shown its leaf, the
    cause may be an outage. If end states are outside the thresholds of other machines, the cause may be a machine that
    no profile has. Such a place costs the job bond, but never a slash.
    """
    return tuple(
        number
        for number, place in enumerate(panel.places)
        if place.ruling is Ruling.WRONG
        and place.stage == panel.stage
        and not (is_unserved(place) or is_compared(place))
        and (place.stops or place.claim != b"")
        and _get_wrong_share(ctx, panel, place) is None
    )


def get_wrong_shares(ctx: Context, panel: Panel) -> list[Share]:
    """Return the shares whose providers are liable for a wrong place, each once."""
    found = (_get_wrong_share(ctx, panel, place) for place in get_wrong(panel))
    return list({share.key: share for share in found if share is not None}.values())


def _get_wrong_share(ctx: Context, panel: Panel, place: PanelPlace) -> Share | None:
    """Return the share whose provider is liable for a wrong place; None if the validator is liable.

    The provider is liable for a segment that is outside the validator's duty and whose leaf a seat has shown. The
    validator is liable if it did not serve data: if the place was unavailable, or if no seat got the leaf. It is also
    liable for every place at which it claims that the job stopped.
    """
    where = place.place
    if place.stops:
        return None
    unserved = is_unserved(place)
    if where.kind is not AuditKind.SEGMENT or unserved or not place.claim:
        return None
    share = SHARES.must(ctx.store, *panel.round_key.share(where.slot, where.issue))
    duty = duty_segments(get_roots(ctx, share.key).segments, share.drawn)
    return None if where.segment in duty else share
