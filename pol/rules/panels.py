"""Panels: the places of a closed round that auditors recompute, their time and their fees (protocol section 5).

These places are always drawn: the aggregation, the update of one share, ``audit_segments`` segments and, in a hand-over
round, one encrypted chunk. They are the first group of places. If the fee and the number of validators allow it,
further groups of segments are drawn. Other seats recompute these groups at the same time. Every result here depends
only on the order's terms and parameters, and on the speeds that validators promise. Times of auditors are in
milliseconds; times of the chain are in seconds. A tier (:mod:`pol.rules.tiers`) determines which of these rules apply,
and how answers decide a place.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from domain.amount import BPS, ceil_div, price_ceil, price_floor
from domain.hashing import hash_fields
from domain.market.records import JobTerms
from domain.order_params import OrderParams
from domain.proof.records import AuditKind, AuditPlace
from pol.rules.handover import ChunkLayout
from pol.rules.lots import draw
from pol.rules.schedule import boundary_work, share_segments
from pol.rules.stops import AGGREGATION

STAGES = 4
"""Largest number of stages of a panel; the last stage gives a seat to every remaining eligible validator."""
WINDOW_TIMES = 20
"""Least length of a round's window, as a multiple of the audit time."""
STAGE_TIMES = 6
"""Time that a seat has to commit, in addition to ``stage_base``, as a multiple of the audit time."""
SILENCE = 1
"""Loss of a silent seat, as a multiple of the pay that it would have earned."""
GROUP_SEGMENTS = 2
"""Number of segments in each group of places after the first group."""
FIXED_PLACES = 3
"""Largest number of places of a panel that are not segments: the aggregation, one update and, in a hand-over round, one
encrypted chunk.
"""
GROUP_SEATS = 3
"""The first stage of a panel seats at most one of every ``GROUP_SEATS`` eligible validators, unless the panel has only
one group of places.
"""

# --- places, their work and their cost -----------------------------------------------------------


def replay_work(terms: JobTerms) -> int:
    """Return the FLOPs of recomputing a segment: its steps, and a state root after each step.

    The digest covers these roots.
    """
    return terms.segment_steps * (terms.step_work + boundary_work(terms))


def update_work(terms: JobTerms) -> int:
    """Return the FLOPs of recomputing an update.

    The auditor reads and hashes both boundary states for it, and runs the program ``close`` if the job has one.
    """
    return 2 * boundary_work(terms) + terms.close_work


def place_work(terms: JobTerms, kind: AuditKind) -> int:
    """Return the FLOPs of recomputing a place of the given kind.

    States are hashed: one FLOP per byte. An encrypted chunk counts as no work: it has at most 64 KiB, and the answer
    fee covers it.
    """
    match kind:
        case AuditKind.SEGMENT:
            return replay_work(terms)
        case AuditKind.UPDATE:
            return update_work(terms)
        case AuditKind.AGGREGATION:
            return terms.outer_work
        case AuditKind.HANDOVER:
            return 0
        case AuditKind.STATES | AuditKind.RESULT:
            return terms.result_bytes


def audit_price(params: OrderParams, price: int) -> int:
    """Return the price of the auditors' work (``uassay`` per PFLOP).

    It is the price of the order's work, but at least ``audit_price_min``.
    """
    return max(price, params.audit_price_min)


def place_cost(terms: JobTerms, kind: AuditKind, price: int) -> int:
    """Return the pay of one seat for recomputing one place of the given kind (``uassay``), rounded down.

    ``price`` is the price of the auditors' work.
    """
    return price_floor(place_work(terms, kind), price)


def seat_cut(params: OrderParams, pay: int, times: int, least: int = 0) -> int:
    """Return the loss of a seat (``uassay``): its ``pay`` plus the answer fee, multiplied by ``times``, and at least
    ``least``.
    """
    return max(times * (pay + params.answer_fee), least)


def seat_cut_max(params: OrderParams, stake: int) -> int:
    """Return the most (``uassay``) that a validator with this stake can lose as a seat of one panel."""
    return stake * params.seat_cut_max_bps // BPS


def least_segments(terms: JobTerms, params: OrderParams) -> int:
    """Return the number of segments that every panel draws.

    It is ``audit_segments``, or all of the round's segments if it has fewer.
    """
    return min(params.audit_segments, terms.slots * share_segments(terms))


def least_work(terms: JobTerms, params: OrderParams) -> int:
    """Return the FLOPs of the places that every panel draws.

    They are the aggregation, one update, and the least number of segments.
    """
    segments = least_segments(terms, params) * replay_work(terms)
    return terms.outer_work + update_work(terms) + segments


def least_bytes(terms: JobTerms, params: OrderParams) -> int:
    """Return the number of bytes that an auditor fetches for the places that every panel draws.

    They are the consumer's payload, the initial state of each segment, both boundary states of the update, and, for the
    aggregation, every slot's update and the global state before it.
    """
    state = terms.global_bytes + terms.local_bytes
    states = (least_segments(terms, params) + 2) * state
    aggregation = terms.slots * terms.update_bytes + terms.global_bytes
    return terms.delivered_bytes + states + aggregation


def audit_floor(terms: JobTerms, price: int, params: OrderParams) -> int:
    """Return the least audit fee of a round (``uassay``), rounded up.

    The fee pays all seats of one stage for the places that are always drawn. ``price`` is the price of the order's
    work. The order's deposit covers the fee at the price limit.
    """
    return params.auditors * (price_ceil(least_work(terms, params), audit_price(params, price)) + params.answer_fee)


def group_fee(terms: JobTerms, price: int, params: OrderParams) -> int:
    """Return the part of an audit fee (``uassay``) for one further group of segments, rounded up.

    It pays all seats of the group in one stage. ``price`` is the price of the order's work.
    """
    pay = price_ceil(GROUP_SEGMENTS * replay_work(terms), audit_price(params, price))
    return params.auditors * (pay + params.answer_fee)


def count_groups(terms: JobTerms, params: OrderParams, price: int, fee: int, seats: int) -> int:
    """Return the number of groups of places that a panel draws: at least one, and more if ``fee`` pays for them.

    The first group has the places that are always drawn, and each other group has ``GROUP_SEGMENTS`` segments. A
    further group needs as many seats as the first group. ``seats`` is the number of seats that are available for all
    groups together.
    """
    left = terms.slots * share_segments(terms) - least_segments(terms, params)
    room = params.audit_places_max - FIXED_PLACES - least_segments(terms, params)
    further = min(max(0, room), left) // GROUP_SEGMENTS
    further = min(further, seats // max(1, params.auditors) - 1)
    spare = fee - audit_floor(terms, price, params)
    cost = group_fee(terms, price, params)
    if cost:
        further = min(further, spare // cost)
    return 1 + max(0, further)


def panel_fee(terms: JobTerms, params: OrderParams, price: int, groups: int) -> int:
    """Return the audit fee (``uassay``) of a panel with this number of groups."""
    return audit_floor(terms, price, params) + (groups - 1) * group_fee(terms, price, params)


def segment_count(terms: JobTerms, params: OrderParams, groups: int) -> int:
    """Return the number of segments that a panel with this number of groups draws."""
    return least_segments(terms, params) + (groups - 1) * GROUP_SEGMENTS


def group_places(places: Sequence[AuditPlace], least: int) -> tuple[int, ...]:
    """Return the group of each place of a panel, in the order of ``places``.

    The first ``least`` segments belong to the first group, as do an aggregation, an update and an encrypted chunk.
    """
    groups = []
    segments = 0
    for place in places:
        further = place.kind is AuditKind.SEGMENT and segments >= least
        groups.append(1 + (segments - least) // GROUP_SEGMENTS if further else 0)
        segments += place.kind is AuditKind.SEGMENT
    return tuple(groups)


@dataclass(frozen=True, slots=True)
class ShareExtent:
    """The extent of an accepted share: its number of whole segments, and the place at which it stopped, if any."""

    slot: int
    issue: int
    segments: int
    stop: AuditPlace | None = None

    def begun(self, stopped: AuditPlace | None) -> int:
        """Return the number of segments that the share began.

        If the share stopped in a segment, that segment does not count, because the panel has this place in any case.
        """
        ends_inside = self.stop is not None and self.stop.kind is AuditKind.SEGMENT
        if ends_inside and self.stop != stopped:
            return self.segments + 1
        return self.segments


def draw_places(
    seed: bytes, shares: Sequence[ShareExtent], segments: int, stopped: AuditPlace | None = None
) -> tuple[AuditPlace, ...]:
    """Draw the places of a panel: the aggregation, the update of one share, and ``segments`` different segments.

    ``shares`` are the accepted shares in slot order. All updates are equally likely, and so are all segments of the
    round. If the job ``stopped`` at a segment or an update, that place replaces the aggregation and one place of its
    own kind. So the panel does not take longer than other panels. A segment that another share began but did not end is
    as likely to be drawn as a whole segment.
    """
    fixed = stopped or AGGREGATION
    places = [fixed]
    ends = [extent for extent in shares if _has_update(extent)]
    if fixed.kind is not AuditKind.UPDATE and ends:
        (index,) = draw(hash_fields("assay/panel/update", seed), len(ends), 1)
        end = ends[index]
        places.append(AuditPlace(kind=AuditKind.UPDATE, slot=end.slot, issue=end.issue, segment=end.segments))
    population = sum(extent.begun(stopped) for extent in shares)
    count = segments - 1 if fixed.kind is AuditKind.SEGMENT else segments
    numbers = draw(hash_fields("assay/panel/segments", seed), population, count)
    return (*places, *(segment_at(shares, number, stopped) for number in numbers))


def draw_chunk(seed: bytes, layout: ChunkLayout) -> AuditPlace | None:
    """Draw the encrypted chunk of a hand-over round that its panel audits; all chunks of tensors are equally likely.

    A state's first chunk is its header. Anyone who has the job can write the header without the validator, so this
    chunk is never drawn. Return None if the states have no other chunks.
    """
    of_global = layout.global_chunks - 1
    of_slot = layout.local_chunks - 1
    count = of_global + layout.slots * of_slot
    if not count:
        return None
    (number,) = draw(hash_fields("assay/panel/chunk", seed), count, 1)
    state = 0 if number < of_global else 1 + (number - of_global) // of_slot
    index = number if state == 0 else (number - of_global) % of_slot
    chunk = layout.first_chunk(state) + 1 + index
    return AuditPlace(kind=AuditKind.HANDOVER, slot=0, issue=0, segment=0, chunk=chunk)


def is_place(place: AuditPlace, shares: Sequence[ShareExtent], stopped: AuditPlace | None) -> bool:
    """Return whether a panel can recompute a place of a round, drawn or not.

    ``shares`` are the accepted shares in slot order, and ``stopped`` is the place at which the job stopped, if any.
    """
    if place == stopped:
        return True
    if place.kind is AuditKind.AGGREGATION:
        return stopped is None and place == AGGREGATION
    if place.kind not in (AuditKind.SEGMENT, AuditKind.UPDATE):
        return False
    share = next((share for share in shares if (share.slot, share.issue) == (place.slot, place.issue)), None)
    if share is None:
        return False
    if place.kind is AuditKind.UPDATE:
        return _has_update(share) and place.segment == share.segments
    return place.segment < share.begun(stopped)


def _has_update(extent: ShareExtent) -> bool:
    """Return whether the share completed all its segments. It then has an update, or stopped at its update."""
    return extent.stop is None or extent.stop.kind is AuditKind.UPDATE


def segment_at(shares: Sequence[ShareExtent], number: int, stopped: AuditPlace | None) -> AuditPlace:
    """Return the segment with a number among those that the shares began, without the place of the stop."""
    for extent in shares:
        if number < extent.begun(stopped):
            return AuditPlace(kind=AuditKind.SEGMENT, slot=extent.slot, issue=extent.issue, segment=number)
        number -= extent.begun(stopped)
    raise ValueError("no share has this segment")


# --- who may sit, and how long it takes ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Promised:
    """A validator of the set: its stake, and the speed (FLOP/s) and rate (bytes/s) that it promises as an auditor."""

    operator: str
    stake: int
    speed: int
    rate: int


def promised_ms(terms: JobTerms, params: OrderParams, speed: int, rate: int) -> int:
    """Return the milliseconds in which a validator of this speed and rate audits the places that every panel draws."""
    fetch = ceil_div(1_000 * least_bytes(terms, params), rate)
    return fetch + ceil_div(1_000 * least_work(terms, params), speed)


def compute_audit_ms(terms: JobTerms, params: OrderParams, validators: Iterable[Promised]) -> int:
    """Return the audit time T of an order in milliseconds. It is 0 for a chain without auditors.

    T is the least time in which enough validators can audit the places that are always drawn. A group of validators is
    enough if it has ``eligible_bps`` of the stake, and has at least twice as many members as ``auditors`` or consists
    of all validators. The validator that promises the highest speed is therefore never the only eligible one.
    """
    times = sorted((promised_ms(terms, params, each.speed, each.rate), each.stake) for each in validators)
    if not params.auditors or not times:
        return 0
    needed = sum(stake for _, stake in times) * params.eligible_bps
    stake = 0
    for count, (time, own_stake) in enumerate(times, 1):
        stake += own_stake
        if stake * BPS >= needed and count >= min(2 * params.auditors, len(times)):
            return time
    return times[-1][0]


def is_eligible(terms: JobTerms, params: OrderParams, audit_ms: int, speed: int, rate: int) -> bool:
    """Return whether a validator is fast enough for a seat in the panels of an order.

    It must audit the places that are always drawn within ``audit_ms``.
    """
    return promised_ms(terms, params, speed, rate) <= audit_ms


def compute_window(params: OrderParams, audit_ms: int) -> int:
    """Return the window of an order in seconds.

    It is at least ``round_window``, and at least 20 times the audit time.
    """
    return max(params.round_window, ceil_div(WINDOW_TIMES * audit_ms, 1_000))


def largest_segment(terms: JobTerms, params: OrderParams, validators: Sequence[Promised]) -> int:
    """Return the largest number of steps per segment for which the window is at most ``window_max``; 0 if none is."""
    low, high = 0, terms.segment_steps
    while low < high:
        steps = (low + high + 1) // 2
        # This round has enough segments for a panel. With longer segments, a round may have fewer of them.
        trial = replace(terms, segment_steps=steps, round_steps=steps * params.audit_segments)
        if compute_window(params, compute_audit_ms(trial, params, validators)) > params.window_max:
            high = steps - 1
        else:
            low = steps
    return low


def commit_seconds(params: OrderParams, audit_ms: int) -> int:
    """Return the longest time that the seats of a stage have to commit (seconds).

    The time ends early once all seats have committed. It does not depend on the window, because a round waits for its
    stages even after its window.
    """
    return params.stage_base + ceil_div(STAGE_TIMES * audit_ms, 1_000)


def reveal_seconds(params: OrderParams) -> int:
    """Return the longest time that the seats of a stage have to reveal (seconds).

    The time ends early once all seats that committed have revealed.
    """
    return params.stage_base


def stage_seconds(params: OrderParams, audit_ms: int) -> int:
    """Return the longest time from the draw of a stage's seats to its end (seconds)."""
    return commit_seconds(params, audit_ms) + reveal_seconds(params)


def verify_seconds(params: OrderParams, audit_ms: int, window: int) -> int:
    """Return the longest time until a round is verified (seconds).

    It is the window, or the time of all stages of a panel if that is longer.
    """
    if not params.auditors:
        return window
    # One stage may be repeated.
    return max(window, (STAGES + 1) * (params.lot_wait + stage_seconds(params, audit_ms)))


def batch_seconds(params: OrderParams, audit_ms: int, window: int) -> int:
    """Return the longest time for which unverified rounds delay the next round (seconds).

    It is the window, or the time of one stage if that is longer.
    """
    return max(window, stage_seconds(params, audit_ms)) if params.auditors else window
