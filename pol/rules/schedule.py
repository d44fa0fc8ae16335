"""How a job divides into rounds, slots, segments and steps, and what it weighs in FLOPs.

The job fixes the division (conventions, "Work and steps"): in each round every slot runs ``round_steps`` inner steps,
a segment is ``segment_steps`` of them. Inner step i of the job is the same for all slots; slot k takes batch number
i x slots + k of the job's stream of samples. Every division here is exact for terms that passed :func:`check_terms`.
"""

from dataclasses import replace
from typing import Protocol

from domain.amount import WORK_MAX, ceil_div, critical_work
from domain.bounds import check, inside
from domain.errors import BAD_FIELD, Refusal
from domain.limits import RESULT_CHUNKS_MAX, SAMPLES_MAX, SHARE_SEGMENTS_MAX
from domain.market.records import JobTerms

PROGRESS_SLACK = 3
"""How often a round may take what it takes at the bid's slot speed and slots."""


class Served(Protocol):
    """A part of an order, as much of it as its rounds and slots count."""

    @property
    def rounds(self) -> int:
        """The number of rounds."""

    @property
    def slots(self) -> int:
        """The number of slots in each of them."""


def served_terms(terms: JobTerms, part: Served) -> JobTerms:
    """Return the terms of an order as one part of it has them: with its own number of rounds and slots.

    They are for work, times and money. Batches and hand-over rounds are those of the whole order.
    """
    if (terms.rounds, terms.slots) == (part.rounds, part.slots):
        return terms
    return replace(terms, rounds=part.rounds, slots=part.slots)


def boundary_work(terms: JobTerms) -> int:
    """Return the FLOPs that a boundary counts for: one for each byte of global and local state."""
    return terms.global_bytes + terms.local_bytes


def segment_work(terms: JobTerms) -> int:
    """Return the FLOPs of a segment and the boundary that ends it."""
    return terms.segment_steps * terms.step_work + boundary_work(terms)


def share_segments(terms: JobTerms) -> int:
    """Return the number of segments n of a share: those of one slot in one round."""
    return terms.round_steps // terms.segment_steps


def share_work(terms: JobTerms) -> int:
    """Return the FLOPs of a share: the steps of one slot in one round, and its boundaries."""
    return share_segments(terms) * segment_work(terms)


def round_work(terms: JobTerms) -> int:
    """Return the FLOPs of one round: all its shares, and one aggregation."""
    return terms.slots * share_work(terms) + terms.outer_work


def total_work(terms: JobTerms) -> int:
    """Return the FLOPs of the whole job."""
    return terms.rounds * round_work(terms)


def round_seconds(terms: JobTerms, slot_speed: int, slots: int) -> int:
    """Return the seconds of a round, rounded up, where ``slots`` slots train at once at ``slot_speed`` FLOP/s."""
    work = critical_work(terms.slots, slots, share_work(terms), terms.outer_work)
    return ceil_div(work, slot_speed)


def progress_seconds(terms: JobTerms, base: int, slot_speed: int, slots: int) -> int:
    """Return the seconds in which a round has to be closed: ``base``, and thrice what it takes at the bid's speed."""
    return base + PROGRESS_SLACK * round_seconds(terms, slot_speed, slots)


def trial_work(terms: JobTerms) -> int:
    """Return the FLOPs of the trial before an order is accepted: twice a segment and an aggregation."""
    return 2 * (segment_work(terms) + terms.outer_work)


def is_handover(terms: JobTerms, every: int, round: int) -> bool:
    """Tell whether a round is one after which the consumer can have the states: each ``every``-th one, and the last."""
    return (round + 1) % every == 0 or round + 1 == terms.rounds


def first_step(terms: JobTerms, round: int) -> int:
    """Return the number of a round's first inner step."""
    return round * terms.round_steps


def batch_number(slots: int, step: int, slot: int) -> int:
    """Return the number of the batch that a slot takes at an inner step of the job, in the stream of samples."""
    return step * slots + slot


def check_terms(terms: JobTerms) -> None:
    """Check an order's terms by themselves; Refusal(BAD_FIELD) names the field.

    Each field is within its bounds, segments divide the steps of a round, a share has at most SHARE_SEGMENTS_MAX of
    them, and all samples of the job together stay within SAMPLES_MAX. Whether this chain runs the executor version,
    and whether auditors could keep up, is the state machine's to say.
    """
    try:
        check(terms)
    except Refusal as refusal:
        raise inside("terms", refusal) from None
    _check(
        terms.round_steps % terms.segment_steps == 0,
        "segment_steps",
        f"does not divide the {terms.round_steps} steps of a round",
        "use a divisor of round_steps",
    )
    _check(
        share_segments(terms) <= SHARE_SEGMENTS_MAX,
        "segment_steps",
        f"makes more than {SHARE_SEGMENTS_MAX} segments a share",
        "make segments longer, or rounds shorter",
    )
    _check(
        terms.rounds * terms.round_steps * terms.slots * terms.batch <= SAMPLES_MAX,
        "rounds",
        f"makes more than {SAMPLES_MAX} samples in all rounds together",
    )
    _check(
        terms.result_chunks <= RESULT_CHUNKS_MAX,
        "local_chunks",
        f"makes more than {RESULT_CHUNKS_MAX} chunks of the states of all slots together",
    )
    _check(
        terms.update_bytes <= terms.global_bytes,
        "update_bytes",
        f"is more than the {terms.global_bytes} bytes of the global state, whose tensors an update holds",
        "give the bytes of the tensors that a step changes",
    )
    _check(total_work(terms) <= WORK_MAX, "step_work", f"makes more than {WORK_MAX} FLOPs")


def _check(holds: bool, field: str, reason: str, remedy: str = "") -> None:
    if not holds:
        raise Refusal(BAD_FIELD, f"terms.{field}", reason, remedy)
