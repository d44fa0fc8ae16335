"""The places of a closed round: which of them exist, which one to recompute, and the root that the chain has there."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from domain.keys import RoundKey
from domain.legs.records import Leg
from domain.market.records import JobTerms
from domain.proof.queries import OrderResponse
from domain.proof.records import AnswerKind, AuditKind, AuditPlace, Finding, Panel, Round, Ruling, Share
from link.types import AuditOpening
from pol.rules.commitment import update_claim
from pol.rules.lots import draw
from pol.rules.panels import ShareExtent
from pol.rules.schedule import served_terms, share_segments
from pol.rules.stops import AGGREGATION, stop_of, stop_step
from pol.rules.tiers.table import tier_named, tier_of
from validator.decide.records import Recomputed
from validator.decide.seats import shares_of
from validator.decide.showing import shows_earlier_result, shows_result


def accepted_shares(on_chain: OrderResponse, closed: Round) -> tuple[Share, ...]:
    """Return the accepted shares of a closed round, in slot order."""
    shares = (on_chain.share(key) for key in closed.share_keys)
    return tuple(share for share in shares if share is not None)


def get_extents(on_chain: OrderResponse, closed: Round) -> list[ShareExtent]:
    """Return the extents of the accepted shares of a closed round, in slot order."""
    leg = on_chain.leg(closed.leg)
    if leg is None:
        raise LookupError("a closed round has no leg")
    terms = served_terms(on_chain.order.terms, leg)
    return [_extent(terms, share) for share in accepted_shares(on_chain, closed)]


def _extent(terms: JobTerms, share: Share) -> ShareExtent:
    slot, issue = share.key.slot, share.key.issue
    if share.roots is None:
        return ShareExtent(slot, issue, share_segments(terms))
    stop = stop_of(terms, slot, issue, share.roots)
    return ShareExtent(slot=slot, issue=issue, segments=share.roots.segments, stop=stop)


def list_places(extents: Sequence[ShareExtent], stopped: AuditPlace | None) -> list[AuditPlace]:
    """Return all places of a round: segments and updates by slot, then the aggregation, or the place of the stop."""
    places = []
    for extent in extents:
        places += [
            AuditPlace(kind=AuditKind.SEGMENT, slot=extent.slot, issue=extent.issue, segment=segment)
            for segment in range(extent.begun(None))
        ]
        if extent.stop is None or extent.stop.kind is AuditKind.UPDATE:
            places.append(
                AuditPlace(kind=AuditKind.UPDATE, slot=extent.slot, issue=extent.issue, segment=extent.segments)
            )
    if stopped is None or stopped.kind is AuditKind.AGGREGATION:
        places.append(AGGREGATION)
    return places


def choose_place(on_chain: OrderResponse, closed: Round, seed: bytes) -> AuditPlace | None:
    """Return a random place that no panel has drawn, chosen by a secret ``seed``; None if there is none."""
    drawn = {place.place for panel in on_chain.panels if panel.round_key == closed.key for place in panel.places}
    places = [place for place in list_places(get_extents(on_chain, closed), closed.stopped) if place not in drawn]
    if not places:
        return None
    (index,) = draw(seed, len(places), 1)
    return places[index]


def get_claim(closed: Round, shares: tuple[Share, ...], place: AuditPlace, opening: AuditOpening) -> bytes:
    """Return the root that the chain has for a place; empty if the job stopped there, according to the chain.

    The chain has only the root of a trace. The leaf after a segment is taken from the opening, which was checked
    before.
    """
    if place.kind is AuditKind.AGGREGATION:
        return closed.next_root
    (share,) = shares_of(shares, place)
    if share.roots is None:
        return b""
    if place.kind is AuditKind.UPDATE:
        roots = share.roots
        return update_claim(roots.update_root, roots.local_out, roots.metrics) if roots.is_whole else b""
    behind = (leaf for leaf in opening.leaves if leaf.index == place.segment + 1)
    return next((leaf.boundary_root for leaf in behind), b"")


def shows_open_result(panels: Iterable[Panel], key: RoundKey, asked: AuditPlace, *, with_end: bool = False) -> bool:
    """Return whether the data of a place contain the result of a place that a panel recomputes or may still draw.

    ``panels`` are those of the leg's rounds. A seat could otherwise fetch what it has to recompute. If ``with_end``,
    the data contain the end states of the place, too, which are those before the next place.
    """
    places = (asked, replace(asked, segment=asked.segment + 1)) if with_end else (asked,)
    for panel in panels:
        if (panel.order_id, panel.leg) != (key.order_id, key.leg):
            continue
        shows = {key.round: shows_result, key.round - 1: shows_earlier_result}.get(panel.round)
        if shows is None:
            continue
        if panel.stage == 0 and not panel.places:
            return True
        open_places = [panel.places[number].place for number in panel.undecided]
        if any(shows(place, drawn) for place in places for drawn in open_places):
            return True
    return False


def to_finding(found: Recomputed) -> Finding:
    """Return the result of a recomputation in the form of a seat's answer, but without the digest."""
    if found.fault:
        return Finding(AnswerKind.UNAVAILABLE, b"", 0)
    return Finding(found.kind, found.root if found.kind is AnswerKind.FINISHED else b"", found.step)


def find_stop(on_chain: OrderResponse, closed: Round, shares: tuple[Share, ...], place: AuditPlace) -> int | None:
    """Return the step at which the job stops in a place, according to the chain; None if it does not stop there.

    The step is 0 for an update and an aggregation.
    """
    stops = {extent.stop for extent in get_extents(on_chain, closed)} | {closed.stopped}
    if place not in stops:
        return None
    share = next(iter(shares_of(shares, place)), None)
    return stop_step(on_chain.order.terms, closed.round, place, share.roots if share is not None else None)


def compares_ends(leg: Leg, place: AuditPlace) -> bool:
    """Return whether who recomputes a place compares its end states with the provider's, and so needs both."""
    return tier_of(leg).hardware and place.kind is AuditKind.SEGMENT


def found_within(claim: bytes, stop: int | None) -> Finding:
    """Return the finding of who finds the end states of a segment within the thresholds of its own."""
    return Finding(AnswerKind.WITHIN, claim, stop or 0)


def agrees(tier: str, found: Finding, claim: bytes, stop: int | None) -> bool:
    """Return whether a finding agrees with the chain: with the root ``claim``, or with a ``stop`` at this step."""
    return tier_named(tier).rule(found, claim, stop) is Ruling.RIGHT
