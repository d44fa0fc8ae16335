"""How a job divides into rounds, ranges, segments and steps, and what it weighs in FLOPs.

A step takes one batch; a segment has ``segment_length`` steps; ranges of samples start and end
between segments, so every division here is exact for terms that passed :func:`check_terms` and
ranges that pass :func:`range_fits`. A step's number is the job's global batch number (conventions,
"Work and steps").
"""

from collections.abc import Sequence

from domain.amount import WORK_MAX
from domain.bounds import check, inside
from domain.errors import BAD_FIELD, Refusal
from domain.limits import (
    SAMPLES_MAX,
    SEGMENTS_MAX,
)
from domain.records import JobTerms


def total_work(terms: JobTerms) -> int:
    """Return the FLOPs of the whole job: rounds x (samples per round / batch) x work per step."""
    return terms.rounds * round_work(terms)


def round_work(terms: JobTerms) -> int:
    """Return the FLOPs of one round."""
    return share_work(terms, terms.samples_per_round)


def share_work(terms: JobTerms, count: int) -> int:
    """Return the FLOPs of a range of ``count`` samples."""
    return count // terms.batch * terms.work_per_step


def segment_samples(terms: JobTerms) -> int:
    """Return the samples of one segment: batch x segment length, of which ranges are multiples."""
    return terms.batch * terms.segment_length


def segments_of(terms: JobTerms, count: int) -> int:
    """Return the number of segments n of a range of ``count`` samples."""
    return count // segment_samples(terms)


def first_step(terms: JobTerms, round: int, first: int) -> int:
    """Return the number of the step that starts at sample ``first`` of a round (from 0)."""
    return (round * terms.samples_per_round + first) // terms.batch


def check_terms(terms: JobTerms) -> None:
    """Check an order's terms by themselves; Refusal(BAD_FIELD) names the field.

    Each field is within its bounds. All samples of the job together stay within
    SAMPLES_MAX, and a round within SEGMENTS_MAX segments, because one provider may take all of it.
    Whether this chain runs the executor version, and whether auditors could keep up, is the state
    machine's to say.
    """
    try:
        check(terms)
    except Refusal as refusal:
        raise inside("terms", refusal) from None
    unit = segment_samples(terms)
    _check(
        terms.samples_per_round % unit == 0,
        "samples_per_round",
        f"must be a multiple of batch x segment_length = {unit}",
    )
    _check(
        segments_of(terms, terms.samples_per_round) <= SEGMENTS_MAX,
        "segment_length",
        f"makes more than {SEGMENTS_MAX} segments a round",
        "make segments longer",
    )
    _check(
        terms.rounds * terms.samples_per_round <= SAMPLES_MAX,
        "rounds",
        f"makes more than {SAMPLES_MAX} samples in all rounds together",
    )
    _check(total_work(terms) <= WORK_MAX, "work_per_step", f"makes more than {WORK_MAX} FLOPs")


def _check(holds: bool, field: str, reason: str, remedy: str = "") -> None:
    if not holds:
        raise Refusal(BAD_FIELD, f"terms.{field}", reason, remedy)


def range_fits(terms: JobTerms, first: int, count: int) -> bool:
    """Tell whether samples first..first+count-1 are whole segments inside a round, at least one."""
    unit = segment_samples(terms)
    whole = first % unit == 0 and count % unit == 0
    return whole and first >= 0 and count > 0 and first + count <= terms.samples_per_round


def covers(ranges: Sequence[tuple[int, int]], samples: int) -> bool:
    """Tell whether each sample of 0..samples-1 is in a range (first, count); any order."""
    covered = 0
    for first, count in sorted(ranges):
        if first > covered:
            break  # a gap
        covered = max(covered, first + count)
    return covered >= samples


def disjoint(ranges: Sequence[tuple[int, int]]) -> bool:
    """Tell whether no sample is in two of the ranges (first, count); any order."""
    taken = 0
    for first, count in sorted(ranges):
        if first < taken:
            return False
        taken = first + count
    return True
