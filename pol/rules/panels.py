"""Panels: what is recomputed of a closed round, by whom, in what time, for how much (protocol section 5).

Always drawn are the aggregation, the update of one share and ``audit_segments`` segments; more segments as far as the
fee and the time go. Everything here is a function of the order's terms and parameters, and of what validators promise.
Times of auditors are milliseconds; the chain's are seconds. Which of it a tier uses, and what answers decide, is the
tier's (:mod:`pol.rules.tiers`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from domain.amount import BPS, PFLOP, ceil_div, price_ceil, price_floor
from domain.hashing import hash_fields
from domain.market.records import JobTerms
from domain.order_params import OrderParams
from domain.proof.records import AuditKind, Place
from pol.rules.lots import draw
from pol.rules.schedule import boundary_work, share_segments
from pol.rules.stops import AGGREGATION

STAGES = 4
"""Stages of a panel at most; the last seats everybody who is left."""
WINDOW_TIMES = 20
"""How often the places that are always drawn fit into a round's window."""
STAGE_TIMES = 6
"""How often the places of a seat fit into its time to commit."""

# --- places, their work and their cost -----------------------------------------------------------


def replay_work(terms: JobTerms) -> int:
    """Return the FLOPs of recomputing a segment: its steps, with a state root for each, which the digest covers."""
    return terms.segment_steps * (terms.step_work + boundary_work(terms))


def update_work(terms: JobTerms) -> int:
    """Return the FLOPs of recomputing an update: both boundary states are read and hashed."""
    return 2 * boundary_work(terms)


def place_work(terms: JobTerms, kind: AuditKind) -> int:
    """Return the FLOPs of recomputing a place."""
    match kind:
        case AuditKind.SEGMENT:
            return replay_work(terms)
        case AuditKind.UPDATE:
            return update_work(terms)
        case AuditKind.AGGREGATION:
            return terms.outer_work


def place_cost(terms: JobTerms, kind: AuditKind, price_limit: int) -> int:
    """Return what a seat gets for a place (``uassay``), rounded down."""
    return price_floor(place_work(terms, kind), price_limit)


def least_segments(terms: JobTerms, params: OrderParams) -> int:
    """Return how many segments are always drawn: all where a round has fewer."""
    return min(params.audit_segments, terms.slots * share_segments(terms))


def least_work(terms: JobTerms, params: OrderParams) -> int:
    """Return the FLOPs of the places that are always drawn."""
    segments = least_segments(terms, params) * replay_work(terms)
    return terms.outer_work + update_work(terms) + segments


def least_bytes(terms: JobTerms, params: OrderParams) -> int:
    """Return the bytes that the places take which are always drawn.

    All that the consumer delivered; the opening of each segment; both boundaries of an update; and of an aggregation
    every slot's update and the state before.
    """
    state = terms.global_bytes + terms.local_bytes
    states = (least_segments(terms, params) + 2) * state
    aggregation = terms.slots * terms.update_bytes + terms.global_bytes
    return terms.delivered_bytes + states + aggregation


def audit_floor(terms: JobTerms, price_limit: int, params: OrderParams) -> int:
    """Return the least audit fee of a round (``uassay``), rounded up: what one stage's seats get at the price limit."""
    return params.auditors * (price_ceil(least_work(terms, params), price_limit) + params.answer_fee)


def segment_count(terms: JobTerms, params: OrderParams, price_limit: int, fee: int, audit_ms: int) -> int:
    """Return how many segments a panel draws: those that always are, and further ones as far as fee and time go.

    Whoever recomputes what is always drawn in ``audit_ms`` takes at most its part of that for each further segment. So
    the time to commit is enough for every eligible validator, whatever it promises.
    """
    least = least_segments(terms, params)
    segments = terms.slots * share_segments(terms)
    further = min(segments, params.audit_places_max - 2) - least
    if params.auditors and price_limit:
        paid = max(0, fee // params.auditors - params.answer_fee) * PFLOP // price_limit
        further = min(further, (paid - least_work(terms, params)) // replay_work(terms))
    if audit_ms:
        spare = 1_000 * commit_seconds(params, audit_ms) - STAGE_TIMES * audit_ms
        further = min(further, least * spare // (STAGE_TIMES * audit_ms))
    return least + max(0, further)


@dataclass(frozen=True, slots=True)
class ShareExtent:
    """How far an accepted share goes: its whole segments, and where the job stops behind them, if it does."""

    slot: int
    issue: int
    segments: int
    stop: Place | None = None

    def begun(self, stopped: Place | None) -> int:
        """Return how many segments it has, with the one that does not end, unless that is drawn anyway."""
        ends_inside = self.stop is not None and self.stop.kind is AuditKind.SEGMENT
        return self.segments + (ends_inside and self.stop != stopped)


def draw_places(
    seed: bytes, shares: Sequence[ShareExtent], segments: int, stopped: Place | None = None
) -> tuple[Place, ...]:
    """Draw the places of a panel: the aggregation, the update of one share, and so many different segments.

    ``shares`` are the accepted ones in slot order. Every share's update is equally likely, and every segment of the
    round. Where the job ``stopped``, that place is always drawn, in the stead of one of its kind: so the places of a
    panel never take longer than those of others. Of what was begun and has no end in other shares as much is drawn as
    of what has one.
    """
    named = stopped or AGGREGATION
    places = [named]
    ends = [extent for extent in shares if _has_update(extent)]
    if named.kind is not AuditKind.UPDATE and ends:
        (updated,) = draw(hash_fields("assay/panel/update", seed), len(ends), 1)
        end = ends[updated]
        places.append(Place(kind=AuditKind.UPDATE, slot=end.slot, issue=end.issue, segment=end.segments))
    population = sum(extent.begun(stopped) for extent in shares)
    count = segments - (named.kind is AuditKind.SEGMENT)
    numbers = draw(hash_fields("assay/panel/segments", seed), population, count)
    return (*places, *(_segment(shares, number, stopped) for number in numbers))


def _has_update(extent: ShareExtent) -> bool:
    """Tell whether all segments of a share are whole: then its update was begun, too."""
    return extent.stop is None or extent.stop.kind is AuditKind.UPDATE


def _segment(shares: Sequence[ShareExtent], number: int, stopped: Place | None) -> Place:
    for extent in shares:
        if number < extent.begun(stopped):
            return Place(kind=AuditKind.SEGMENT, slot=extent.slot, issue=extent.issue, segment=number)
        number -= extent.begun(stopped)
    raise ValueError("no share has this segment")


# --- who may sit, and how long it takes ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Promised:
    """A validator of the set, with its stake and what it promises as an auditor (FLOP/s and bytes/s)."""

    operator: str
    stake: int
    speed: int
    rate: int


def promised_ms(terms: JobTerms, params: OrderParams, speed: int, rate: int) -> int:
    """Return the milliseconds in which such a validator fetches and recomputes the places that are always drawn."""
    fetch = ceil_div(1_000 * least_bytes(terms, params), rate)
    return fetch + ceil_div(1_000 * least_work(terms, params), speed)


def compute_audit_ms(terms: JobTerms, params: OrderParams, validators: Iterable[Promised]) -> int:
    """Return the audit time T of an order (milliseconds); 0 for a chain without auditors.

    The least in which validators with ``eligible_bps`` of the stake, and at least twice as many as ``auditors`` or all,
    do the places that are always drawn. So who promises the highest speed is never the only one to sit.
    """
    times = sorted((promised_ms(terms, params, found.speed, found.rate), found.stake) for found in validators)
    if not params.auditors or not times:
        return 0
    needed = sum(stake for _, stake in times) * params.eligible_bps
    count, stake = 0, 0
    for time, part in times:
        count, stake = count + 1, stake + part
        if stake * BPS >= needed and count >= min(2 * params.auditors, len(times)):
            return time
    return times[-1][0]


def is_eligible(terms: JobTerms, params: OrderParams, audit_ms: int, speed: int, rate: int) -> bool:
    """Tell whether a validator that promises so much may sit in panels of an order with this audit time."""
    return promised_ms(terms, params, speed, rate) <= audit_ms


def compute_window(params: OrderParams, audit_ms: int) -> int:
    """Return the window of an order (seconds): never shorter than 20 times its audit time."""
    return max(params.round_window, ceil_div(WINDOW_TIMES * audit_ms, 1_000))


def largest_segment(terms: JobTerms, params: OrderParams, validators: Sequence[Promised]) -> int:
    """Return the most steps that a segment may have so that the window stays within ``window_max``; 0 for none."""
    low, high = 0, terms.segment_steps
    while low < high:
        steps = (low + high + 1) // 2
        # As many segments as ever: of longer ones a round may have fewer.
        tried = replace(terms, segment_steps=steps, round_steps=steps * params.audit_segments)
        if compute_window(params, compute_audit_ms(tried, params, validators)) > params.window_max:
            high = steps - 1
        else:
            low = steps
    return low


def commit_seconds(params: OrderParams, audit_ms: int) -> int:
    """Return how long the seats of a stage have to commit, at most: it ends when all of them have.

    The window has no part in it: a round whose window is over waits for its stages.
    """
    return params.stage_base + ceil_div(STAGE_TIMES * audit_ms, 1_000)


def reveal_seconds(params: OrderParams) -> int:
    """Return how long they have to reveal, at most: it ends when all who committed have."""
    return params.stage_base


def stage_seconds(params: OrderParams, audit_ms: int) -> int:
    """Return the longest that a stage lasts once its seats are drawn."""
    return commit_seconds(params, audit_ms) + reveal_seconds(params)


def panel_load(terms: JobTerms, params: OrderParams, segments: int, seats: int, audit_ms: int) -> int:
    """Return the audit room that seats take (ten-thousandths of a validator): their time, over that to commit.

    Each further segment beyond those that are always drawn takes at most its part of ``audit_ms``.
    """
    least = max(1, least_segments(terms, params))
    given = 1_000 * commit_seconds(params, audit_ms)
    return ceil_div(BPS * seats * audit_ms * segments, least * given)


def verify_seconds(params: OrderParams, audit_ms: int, window: int) -> int:
    """Return the longest that a round waits for its verification: its window, or every stage of its panel."""
    if not params.auditors:
        return window
    return max(window, STAGES * (params.lot_wait + stage_seconds(params, audit_ms)))


def batch_seconds(params: OrderParams, audit_ms: int, window: int) -> int:
    """Return how long rounds that are as far ahead as may be hold up the next one: a window, or one slow stage."""
    return max(window, stage_seconds(params, audit_ms)) if params.auditors else window


def next_seats(seats: int, silent: int, *, answers_differ: bool) -> int:
    """Return how many seats the next stage wants: twice those so far if answers differ, else one for each silent."""
    return 2 * seats if answers_differ else max(1, silent)
