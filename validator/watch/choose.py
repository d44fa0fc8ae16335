"""The decisions of a watchtower: which places of running orders it recomputes, and what a challenge could bring.

All functions are pure. The secret of the watchtower chooses among the places, so that no provider knows which of its
segments are recomputed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from domain.amount import BPS
from domain.hashing import hash_fields, u64
from domain.keys import RoundKey
from domain.legs.records import Leg
from domain.proof.queries import OrderResponse
from domain.proof.records import AuditKind, AuditPlace, Round
from pol.rules.disputes import may_challenge
from pol.rules.lots import draw, duty_segments
from pol.rules.panels import place_work
from pol.rules.tiers.table import challenges_of
from validator.decide.seats import shares_of
from validator.watch.places import accepted_shares, get_extents, list_places, shows_open_result

HOUR = 3_600
"""Seconds over which the budget of work is counted."""


@dataclass(frozen=True, slots=True)
class Watch:
    """The rules and the knowledge of a watchtower, from which it chooses the next place.

    ``validators`` are the operators of all validators, and ``spare`` is the work (FLOPs) that it may still do now, or
    None without a limit. ``margin`` is the least time (chain seconds) that must be left before a round's window ends.
    ``checked`` has the places of each round that it has recomputed. It does not look at rounds in ``postponed``, nor at
    a leg's rounds from the one in ``accused`` on, because a challenge of that round is under way. Rounds in
    ``doubtful`` have a place that it could not find right.
    """

    me: str
    secret: bytes
    validators: frozenset[str]
    margin: int
    spare: int | None = None
    checked: Mapping[RoundKey, Collection[AuditPlace]] = field(default_factory=dict)
    postponed: Collection[RoundKey] = ()
    accused: Mapping[tuple[bytes, int], int] = field(default_factory=dict)
    doubtful: Collection[RoundKey] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """A place that a watchtower recomputes next, with its work (FLOPs) and the largest reward for it (uassay)."""

    on_chain: OrderResponse
    closed: Round
    place: AuditPlace
    work: int
    reward: int


def may_watch(on_chain: OrderResponse, leg: Leg, watch: Watch) -> bool:
    """Return whether a watchtower may challenge rounds of a leg, and so fetch their places; it leaves out its own."""
    order = on_chain.order
    parties = {order.consumer, *(row.address for row in on_chain.escrow.depositors)}
    admitted = may_challenge(challenges_of(order, leg), parties, watch.me, is_operator=watch.me in watch.validators)
    return admitted and leg.validator != watch.me


def list_rounds(on_chain: OrderResponse, clock: int, watch: Watch) -> Iterator[Round]:
    """Yield the rounds of an order that can still be challenged, and whose places have been drawn."""
    if not on_chain.order.params.auditors:
        return
    for closed in on_chain.rounds:
        leg = on_chain.leg(closed.leg)
        if leg is None or closed.void or closed.verified or not may_watch(on_chain, leg, watch):
            continue
        accused = watch.accused.get((closed.order_id, closed.leg))
        if closed.challenges_end - clock <= watch.margin or (accused is not None and closed.round >= accused):
            continue
        panel = on_chain.panel(closed.leg, closed.round)
        if panel is None or panel.places:
            yield closed


def choose_target(orders: Sequence[OrderResponse], clock: int, watch: Watch) -> Target | None:
    """Return the next place to recompute, or None.

    It is a place of the round of which the fewest places were recomputed. Among these rounds, the one whose window ends
    first is chosen. Places that a panel has drawn bring no reward.
    """
    rounds = [
        (len(watch.checked.get(closed.key, ())), closed.challenges_end, closed.key, on_chain, closed)
        for on_chain in orders
        for closed in list_rounds(on_chain, clock, watch)
        if closed.key not in watch.postponed
    ]
    for _, __, ___, on_chain, closed in sorted(rounds, key=lambda each: each[:3]):
        target = choose_in_round(on_chain, closed, watch)
        if target is not None:
            return target
    return None


def find_waiver(on_chain: OrderResponse, clock: int, watch: Watch) -> int | None:
    """Return the last round of an order's current leg that a watchtower will not challenge; None if there is none.

    It has found every place of these rounds right, or a panel has drawn it. A watchtower waives only if that can
    shorten a wait.
    """
    leg = on_chain.current
    if leg is None or not leg.is_live:
        return None
    terms = challenges_of(on_chain.order, leg)
    if terms.anyone or not terms.wait or not may_watch(on_chain, leg, watch):
        return None
    last = None
    for closed in on_chain.rounds_of(leg.number):
        panel = on_chain.panel(closed.leg, closed.round)
        is_open = not closed.verified and clock < closed.challenges_end
        if closed.void or closed.key in watch.doubtful or (panel is not None and not panel.places):
            break
        if is_open and find_places(on_chain, closed, watch):
            break
        last = closed.round
    return last


def find_places(on_chain: OrderResponse, closed: Round, watch: Watch) -> list[AuditPlace]:
    """Return the places of a round that no panel has drawn and that were not recomputed yet."""
    checked = watch.checked.get(closed.key, ())
    panels = (panel for panel in on_chain.panels if panel.round_key == closed.key)
    drawn = {drawn.place for panel in panels for drawn in panel.places}
    places = list_places(get_extents(on_chain, closed), closed.stopped)
    return [place for place in places if place not in drawn and place not in checked]


def choose_in_round(on_chain: OrderResponse, closed: Round, watch: Watch) -> Target | None:
    """Return a random place of a round that can bring a reward and is served now; None if there is none."""
    checked = watch.checked.get(closed.key, ())
    panels = [panel for panel in on_chain.panels if panel.leg == closed.leg]
    places = find_places(on_chain, closed, watch)
    terms = on_chain.order.terms
    places = [place for place in places if watch.spare is None or place_work(terms, place.kind) <= watch.spare]
    places = [place for place in places if not shows_open_result(panels, closed.key, place)]
    if not places:
        return None
    seed = hash_fields("assay/watchtower", watch.secret, *map(str, closed.key), u64(len(checked)))
    (index,) = draw(seed, len(places), 1)
    place = places[index]
    return Target(
        on_chain=on_chain,
        closed=closed,
        place=place,
        work=place_work(terms, place.kind),
        reward=largest_reward(on_chain, closed, place),
    )


def largest_reward(on_chain: OrderResponse, closed: Round, place: AuditPlace) -> int:
    """Return the largest reward (uassay) for finding a place wrong.

    It is a part of the share's bond if the provider is at fault, and otherwise of the job bond. The seats of the panel
    and the consumer are paid from that bond before the reward.
    """
    leg = on_chain.leg(closed.leg)
    bond = leg.job_bond if leg is not None else 0
    if place.kind is AuditKind.SEGMENT:
        (share,) = shares_of(accepted_shares(on_chain, closed), place)
        segments = share.roots.segments if share.roots is not None else 0
        if place.segment not in duty_segments(segments, share.drawn):
            bond = share.bond
    return bond * on_chain.order.params.challenge_reward_bps // BPS


def spare_work(limit: int, done: Iterable[tuple[int, int]], clock: int) -> int | None:
    """Return the work (FLOPs) that may still be done now; None if ``limit`` is 0, which means no limit.

    ``done`` has the chain clock and the work of each place. The work of the last hour counts.
    """
    if not limit:
        return None
    return max(0, limit - sum(work for at, work in done if clock - at < HOUR))
