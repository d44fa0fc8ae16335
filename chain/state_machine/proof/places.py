"""Places of panels: which places a round or a share has, which of them are drawn, and what the chain has for them."""

from chain.state_machine.context import Context
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.proof.gas import READ_GAS, VALIDATOR_GAS
from chain.state_machine.proof.left import must_find_round
from chain.state_machine.proof.stands import get_standing
from chain.state_machine.proof.tables import DEPARTURES, PANELS, ROUNDS, SHARES, PanelSubject
from chain.state_machine.tables import number_of
from domain.keys import PanelKey, ShareKey
from domain.legs.records import Leg
from domain.market.records import JobTerms, Order
from domain.proof.events import PlaceDrawn
from domain.proof.records import AuditKind, AuditPlace, Panel, PanelPlace, Round, Ruling, ShareRoots
from pol.rules.commitment import update_claim
from pol.rules.handover import chunk_layout
from pol.rules.lots import seed
from pol.rules.panels import ShareExtent, draw_chunk, group_places, is_place, least_segments, segment_count
from pol.rules.replicas import put_departures
from pol.rules.schedule import served_terms, share_segments
from pol.rules.stands import draw_stand_places
from pol.rules.stops import stop_of, stop_step
from pol.rules.tiers.table import tier_of


def has_place(ctx: Context, order: Order, closed: Round, place: AuditPlace) -> bool:
    """Return whether a closed round has this place, so that a panel can recompute it."""
    leg = LEGS.must(ctx.store, closed.order_id, closed.leg)
    return is_place(place, get_extents(ctx, closed, served_terms(order.terms, leg)), closed.stopped)


def draw_round_places(
    ctx: Context, subject: PanelSubject, beacon: bytes, order: Order, leg: Leg
) -> tuple[PanelPlace, ...]:
    """Draw the places of a round, in their groups."""
    closed = ROUNDS.must(ctx.store, *subject.panel.round_key)
    terms = served_terms(order.terms, leg)
    panel = PANELS.must(ctx.store, *subject.panel)
    segments = segment_count(terms, order.params, len(panel.wanted))
    shares = get_extents(ctx, closed, terms)
    lot = seed("panel/places", subject.id, beacon)
    stops = get_stops(closed, shares)
    places = tier_of(leg).draw_places(lot, shares, segments, closed.stopped)
    places = put_departures(places, _take_departures(ctx, closed), closed.stopped)
    if closed.ciphertext_root:
        chunk = draw_chunk(lot, chunk_layout(terms, len(closed.shares)))
        places = (*places, chunk) if chunk is not None else places
    groups = group_places(places, least_segments(terms, order.params))
    drawn = tuple(make_place(ctx, closed, place, stops, group) for place, group in zip(places, groups, strict=True))
    for number, place in enumerate(drawn):
        emit_place(ctx, panel.key, number, place)
    return drawn


def _take_departures(ctx: Context, closed: Round) -> list[AuditPlace]:
    """Return the places at which other replicas depart from a round, and forget them."""
    places = []
    for parts in list(DEPARTURES.keys(ctx.store, *closed.key)):
        kind, slot, issue, segment = map(number_of, parts[3:])
        places.append(AuditPlace(kind=AuditKind(kind), slot=slot, issue=issue, segment=segment))
        DEPARTURES.delete(ctx.store, *parts)
    return places


def draw_share_places(
    ctx: Context, subject: PanelSubject, beacon: bytes, order: Order, panel: Panel
) -> tuple[PanelPlace, ...]:
    """Draw the places of a share whose provider stands for it."""
    closed = must_find_round(ctx.store, panel.round_key)
    share = get_standing(ctx, panel)
    key = share.key
    roots = get_roots(ctx, key)
    lot = seed("panel/places", subject.id, beacon)
    count = order.params.stand_segments
    stop = stop_of(order.terms, key.slot, key.issue, roots)
    places = draw_stand_places(lot, order.terms, share, roots, count)
    drawn = tuple(make_place(ctx, closed, place, {stop} if stop is not None else set()) for place in places)
    for number, place in enumerate(drawn):
        emit_place(ctx, panel.key, number, place)
    return drawn


def weigh_places(ctx: Context, panel: Panel) -> int:
    """Return the gas of drawing a panel's places.

    It depends on the shares of the round, and on whether the job stopped.
    """
    if panel.stage or panel.dispute:
        return 0
    closed = ROUNDS.must(ctx.store, *panel.round_key)
    return len(closed.shares) * (VALIDATOR_GAS if closed.stopped is None else READ_GAS)


def make_place(ctx: Context, closed: Round, place: AuditPlace, stops: set[AuditPlace], group: int = 0) -> PanelPlace:
    """Return a place of a panel, without a ruling, and with the root that the chain has for it."""
    return PanelPlace(
        place=place,
        claim=_get_claim(ctx, closed, place, stops),
        ruling=Ruling.OPEN,
        stage=0,
        finding=None,
        stops=place in stops,
        group=group,
    )


def emit_place(ctx: Context, key: PanelKey, number: int, place: PanelPlace) -> None:
    """Emit the event of a drawn place."""
    where = place.place
    ctx.emit(
        PlaceDrawn(
            panel=key,
            place=number,
            kind=int(where.kind),
            slot=where.slot,
            issue=where.issue,
            segment=where.segment,
            stops=place.stops,
            claim=place.claim,
            group=place.group,
            chunk=where.chunk,
        )
    )


def get_stops(closed: Round, shares: list[ShareExtent]) -> set[AuditPlace]:
    """Return the places at which, according to the chain, the job stopped in a round."""
    stops = {share.stop for share in shares if share.stop is not None}
    if closed.stopped is not None:
        stops.add(closed.stopped)
    return stops


def get_stop_step(ctx: Context, order: Order, panel: Panel, place: PanelPlace) -> int:
    """Return the number of the step at which the job stops in a place, according to the chain; 0 outside segments."""
    where = place.place
    if where.kind is not AuditKind.SEGMENT:
        return 0
    roots = get_roots(ctx, panel.round_key.share(where.slot, where.issue))
    return stop_step(order.terms, panel.round, where, roots)


def get_extents(ctx: Context, closed: Round, terms: JobTerms) -> list[ShareExtent]:
    """Return the extents of a round's accepted shares. The shares themselves are read only if the job stopped."""
    if closed.stopped is None:
        return [ShareExtent(ref.slot, ref.issue, share_segments(terms)) for ref in closed.shares]
    extents = []
    for key in closed.share_keys:
        roots = get_roots(ctx, key)
        stop = stop_of(terms, key.slot, key.issue, roots)
        extents.append(ShareExtent(slot=key.slot, issue=key.issue, segments=roots.segments, stop=stop))
    return extents


def get_roots(ctx: Context, key: ShareKey) -> ShareRoots:
    """Return the roots of an accepted share."""
    roots = SHARES.must(ctx.store, *key).roots
    if roots is None:
        raise LookupError("an accepted share has no roots")
    return roots


def _get_claim(ctx: Context, closed: Round, place: AuditPlace, stops: set[AuditPlace]) -> bytes:
    """Return the root that the chain has for a place; empty for segments and for places at which the job stopped."""
    if place in stops:
        return b""
    match place.kind:
        case AuditKind.AGGREGATION:
            return closed.next_root
        case AuditKind.UPDATE:
            roots = get_roots(ctx, closed.key.share(place.slot, place.issue))
            return update_claim(roots.update_root, roots.local_out, roots.metrics)
        case AuditKind.HANDOVER | AuditKind.RESULT:
            return closed.ciphertext_root
        case AuditKind.SEGMENT | AuditKind.STATES:
            return b""
