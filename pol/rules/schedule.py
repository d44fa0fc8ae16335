"""The division of a job into rounds, slots, segments and steps, and its work in FLOPs.

The job fixes the division: in each round, every slot runs ``round_steps`` inner steps, in segments of ``segment_steps``
steps. All slots have the same inner steps; at step i, slot k takes batch number i x slots + k of the job's stream of
samples. Every division here is exact for terms that passed :func:`check_terms`.
"""

from dataclasses import replace
from typing import Protocol

from domain.amount import WORK_MAX, ceil_div, critical_work
from domain.bounds import check, inside
from domain.errors import BAD_FIELD, Refusal
from domain.limits import RESULT_CHUNKS_MAX, SAMPLES_MAX, SHARE_SEGMENTS_MAX
from domain.market.records import JobTerms

PROGRESS_SLACK = 3
"""Longest time of a round, as a multiple of its time at the bid's slot speed and slots."""


class Served(Protocol):
    """A part of an order, which has its own number of rounds and its own number of slots."""

    @property
    def rounds(self) -> int:
        """The number of rounds."""

    @property
    def slots(self) -> int:
        """The number of slots in each round."""


def served_terms(terms: JobTerms, part: Served) -> JobTerms:
    """Return the terms of an order, with the numbers of rounds and slots of one of its parts.

    Work, times and money are computed from these terms. Batches and hand-over rounds follow from the terms of the whole
    order instead.
    """
    if (terms.rounds, terms.slots) == (part.rounds, part.slots):
        return terms
    return replace(terms, rounds=part.rounds, slots=part.slots)


def rest_terms(terms: JobTerms, next_round: int) -> JobTerms:
    """Return the terms of the part of an order that is left if ``next_round`` is the first round to train.

    At least one round must be left.
    """
    return replace(terms, rounds=terms.rounds - next_round) if next_round else terms


def boundary_work(terms: JobTerms) -> int:
    """Return the FLOPs of a boundary: one FLOP per byte of the global and the local state."""
    return terms.global_bytes + terms.local_bytes


def segment_work(terms: JobTerms) -> int:
    """Return the FLOPs of a segment and the boundary at its end."""
    return terms.segment_steps * terms.step_work + boundary_work(terms)


def share_segments(terms: JobTerms) -> int:
    """Return the number of segments in a share, which is the work of one slot in one round."""
    return terms.round_steps // terms.segment_steps


def share_work(terms: JobTerms) -> int:
    """Return the FLOPs of a share: the steps of one slot in one round, its boundaries, and the coding of its update."""
    return share_segments(terms) * segment_work(terms) + terms.close_work


def round_work(terms: JobTerms) -> int:
    """Return the FLOPs of one round: all its shares, and one aggregation."""
    return terms.slots * share_work(terms) + terms.outer_work


def total_work(terms: JobTerms) -> int:
    """Return the FLOPs of the whole job."""
    return terms.rounds * round_work(terms)


def round_seconds(terms: JobTerms, slot_speed: int, slots: int) -> int:
    """Return the seconds that a round takes, rounded up.

    ``slots`` slots train at once, each at ``slot_speed`` FLOP/s.
    """
    work = critical_work(terms.slots, slots, share_work(terms), terms.outer_work)
    return ceil_div(work, slot_speed)


def progress_seconds(terms: JobTerms, base: int, slot_speed: int, slots: int) -> int:
    """Return the seconds within which a round must close.

    The result is ``base`` plus three times the round's time at the bid's speed.
    """
    return base + PROGRESS_SLACK * round_seconds(terms, slot_speed, slots)


def trial_work(terms: JobTerms) -> int:
    """Return the FLOPs of the trial that runs before an order is accepted.

    The trial runs two segments, two updates, two aggregations, and one step of every slot.
    """
    return 2 * (segment_work(terms) + terms.close_work + terms.outer_work) + terms.slots * terms.step_work


def is_handover(terms: JobTerms, every: int, round: int) -> bool:
    """Return whether the consumer can fetch the states at the end of a round.

    The states can be fetched after each ``every``-th round and after the last round.
    """
    return (round + 1) % every == 0 or round + 1 == terms.rounds


def first_step(terms: JobTerms, round: int) -> int:
    """Return the number of the job's first inner step in a round."""
    return round * terms.round_steps


def batch_number(slots: int, step: int, slot: int) -> int:
    """Return the number of the batch that a slot takes from the stream of samples.

    ``step`` is an inner step of the job, and ``slots`` the number of slots.
    """
    return step * slots + slot


def check_terms(terms: JobTerms) -> None:
    """Check the terms of an order without reference to a chain. Refusal(BAD_FIELD) names the field.

    Every field must be within its bounds, and segments must divide the steps of a round. A share may have at most
    SHARE_SEGMENTS_MAX segments, and all samples together may not exceed SAMPLES_MAX. Two conditions are checked
    elsewhere: the chain must run the executor version, and auditors must be able to audit the job in time.
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
        f"gives more than {SHARE_SEGMENTS_MAX} segments per share",
        "use more steps per segment, or fewer steps per round",
    )
    _check(
        terms.rounds * terms.round_steps * terms.slots * terms.batch <= SAMPLES_MAX,
        "rounds",
        f"gives more than {SAMPLES_MAX} samples in all rounds together",
    )
    _check(
        terms.result_chunks <= RESULT_CHUNKS_MAX,
        "local_chunks",
        f"gives more than {RESULT_CHUNKS_MAX} chunks for the states of all slots together",
    )
    _check(
        terms.update_bytes <= terms.global_bytes,
        "update_bytes",
        f"is more than the {terms.global_bytes} bytes of the global state",
        "use an update of at most the bytes of the global state",
    )
    _check(total_work(terms) <= WORK_MAX, "step_work", f"gives more than {WORK_MAX} FLOPs")


def _check(holds: bool, field: str, reason: str, remedy: str = "") -> None:
    if not holds:
        raise Refusal(BAD_FIELD, f"terms.{field}", reason, remedy)
