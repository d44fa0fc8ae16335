"""Panels: what is recomputed of a closed round, by whom, in what time, for how much; and rulings (protocol section 5).

Always drawn are the aggregation, the update of one share and ``audit_segments`` segments; more segments as far as the
fee and the time go. Everything here is a function of the order's terms and parameters, of what validators promise, and
of what seats answered. Times of auditors are milliseconds; the chain's are seconds.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from hashlib import sha256

from domain.amount import BPS, PFLOP, ceil_div, price_ceil, price_floor
from domain.hashing import encode_fields, hash_fields, u32, u64
from domain.keys import RoundKey
from domain.market.records import JobTerms
from domain.params import OrderParams
from domain.proof.records import AnswerKind, AuditKind, Finding, Place, Ruling, SeatAnswer
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
    return params.auditors * (
        price_ceil(least_work(terms, params), price_limit) + params.answer_fee
    )


def segment_count(
    terms: JobTerms, params: OrderParams, price_limit: int, fee: int, audit_ms: int
) -> int:
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
class Extent:
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
    seed: bytes, shares: Sequence[Extent], segments: int, stopped: Place | None = None
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
        places.append(Place(AuditKind.UPDATE, end.slot, end.issue, end.segments))
    population = sum(extent.begun(stopped) for extent in shares)
    count = segments - (named.kind is AuditKind.SEGMENT)
    numbers = draw(hash_fields("assay/panel/segments", seed), population, count)
    return (*places, *(_segment(shares, number, stopped) for number in numbers))


def _has_update(extent: Extent) -> bool:
    """Tell whether all segments of a share are whole: then its update was begun, too."""
    return extent.stop is None or extent.stop.kind is AuditKind.UPDATE


def _segment(shares: Sequence[Extent], number: int, stopped: Place | None) -> Place:
    for extent in shares:
        if number < extent.begun(stopped):
            return Place(AuditKind.SEGMENT, extent.slot, extent.issue, number)
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
    times = sorted(
        (promised_ms(terms, params, found.speed, found.rate), found.stake) for found in validators
    )
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


def panel_load(
    terms: JobTerms, params: OrderParams, segments: int, seats: int, audit_ms: int
) -> int:
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


# --- answers -------------------------------------------------------------------------------------


def answer_digest(
    seed: bytes, inner_roots: Iterable[bytes], state: Iterable[bytes | memoryview]
) -> bytes:
    """Return the digest of an answer: of the stage's seed, the roots inside the place, and what was recomputed.

    ``inner_roots`` are the boundary roots behind each inner step of a segment; none for an update or aggregation.
    ``state`` are the bytes of the recomputed state, in any pieces: of a segment the canonical global and then local
    state behind it, of an update the update and then the local state, of an aggregation the next global state. Of
    ``STOPPED`` the state before the step that stopped. Nobody knows it before the draw, and no trace has it.
    """
    digest = sha256(encode_fields("assay/panel/digest", seed, b"".join(inner_roots)))
    for piece in state:
        digest.update(piece)
    return digest.digest()


def answer_commitment(
    chain_id: str,
    key: RoundKey,
    stage: int,
    auditor: str,
    salt: bytes,
    answers: Iterable[SeatAnswer],
) -> bytes:
    """Return the hash by which a seat commits to its answers; another seat's cannot be copied."""
    order_id, leg, round = key.order_id, key.leg, key.round
    parts = [
        encode_fields(
            "assay/panel/answer",
            u32(answer.place),
            u32(int(answer.kind)),
            answer.root,
            answer.digest,
            u64(answer.step),
        )
        for answer in answers
    ]
    return hash_fields(
        "assay/panel/commitment",
        chain_id,
        order_id,
        u32(leg),
        u32(round),
        u32(stage),
        auditor,
        salt,
        *parts,
    )


# --- rulings -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Vote:
    """What a seat of a stage said of a place, None where it was silent; ``stake`` is the seat's."""

    stage: int
    stake: int
    answer: SeatAnswer | None


class Verdict(Enum):
    """What the ruling of a place makes of a seat's answer."""

    RIGHT = 1
    DIFFERENT = 2
    UNKNOWN = 3  # the ruling's root, and nobody can tell whether the seat computed it
    SILENT = 4


def finding_of(answer: SeatAnswer) -> Finding:
    """Return what an answer says; which blob was unavailable makes no difference."""
    root = answer.root if answer.kind is AnswerKind.FINISHED else b""
    return Finding(answer.kind, root, answer.step)


def decide(
    votes: Sequence[Vote], *, auditors: int, eligible: int, stake: int, is_last: bool
) -> Finding | None:
    """Return what is decided of a place at the end of a stage, None where nothing is.

    More than two thirds of all seats that revealed on it so far, and at least ``auditors`` of them, or all ``eligible``
    where these are fewer, gave the same answer: root and digest together, where seats of one stage are concerned. In
    the last stage: seats with more than half of the ``stake`` of all eligible did, the silent counted.
    """
    if is_last:
        stakes = _count(votes, by_stake=True)
        return next((found for found, part in stakes.items() if 2 * part > stake), None)
    revealed = sum(vote.answer is not None for vote in votes)
    needed = max(1, min(auditors, eligible))
    counts = _count(votes, by_stake=False)
    return next(
        (found for found, count in counts.items() if 3 * count > 2 * revealed and count >= needed),
        None,
    )


def judge(votes: Sequence[Vote], found: Finding) -> tuple[Verdict, ...]:
    """Return what a ruling makes of each seat's answer.

    Of seats of one stage that gave the ruling's root those are right whose digest more than two thirds of them share:
    a root can be read from a trace, a digest cannot.
    """
    digests: dict[int, Counter[bytes]] = {}
    for vote in votes:
        if vote.answer is not None and finding_of(vote.answer) == found:
            digests.setdefault(vote.stage, Counter())[vote.answer.digest] += 1
    right = {
        (stage, digest)
        for stage, counts in digests.items()
        for digest, count in counts.items()
        if 3 * count > 2 * counts.total()
    }
    settled = {stage for stage, _ in right}
    return tuple(_verdict(vote, found, right, settled) for vote in votes)


def _verdict(
    vote: Vote, found: Finding, right: set[tuple[int, bytes]], settled: set[int]
) -> Verdict:
    if vote.answer is None:
        return Verdict.SILENT
    if finding_of(vote.answer) != found:
        return Verdict.DIFFERENT
    if (vote.stage, vote.answer.digest) in right:
        return Verdict.RIGHT
    return Verdict.DIFFERENT if vote.stage in settled else Verdict.UNKNOWN


def differ(votes: Sequence[Vote]) -> bool:
    """Tell whether seats that revealed on a place said different things."""
    said = [(vote.stage, vote.answer) for vote in votes if vote.answer is not None]
    digests = {(stage, finding_of(answer), answer.digest) for stage, answer in said}
    findings = {finding_of(answer) for _, answer in said}
    return len(findings) > 1 or len(digests) > len({stage for stage, *_ in digests})


def ruling_of(found: Finding | None, claim: bytes, *, stops: bool = False) -> Ruling:
    """Return the ruling that a finding makes of what the chain claims; an empty claim was never shown.

    Where the chain has it that the job ``stops``, that it does is all there is to find.
    """
    if found is None:
        return Ruling.UNDECIDED
    if stops:
        return Ruling.RIGHT if found.kind is AnswerKind.STOPPED else Ruling.WRONG
    same = found.kind is AnswerKind.FINISHED and claim != b"" and found.root == claim
    return Ruling.RIGHT if same else Ruling.WRONG


def next_seats(seats: int, silent: int, *, answers_differ: bool) -> int:
    """Return how many seats the next stage wants: twice those so far if answers differ, else one for each silent."""
    return 2 * seats if answers_differ else max(1, silent)


def _count(votes: Sequence[Vote], *, by_stake: bool) -> dict[Finding, int]:
    """Return how many seats, or what stake, gave each answer; of a stage those who share the commonest digest."""
    groups: dict[tuple[Finding, int], dict[bytes, int]] = {}
    for vote in votes:
        if vote.answer is not None:
            group = groups.setdefault((finding_of(vote.answer), vote.stage), {})
            digest = vote.answer.digest
            group[digest] = group.get(digest, 0) + (vote.stake if by_stake else 1)
    counts: dict[Finding, int] = {}
    for (found, _), group in groups.items():
        counts[found] = counts.get(found, 0) + max(group.values())
    return counts
