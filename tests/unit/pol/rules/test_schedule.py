"""Ranges, steps and work of a job, and the terms that are refused."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import limits
from domain.amount import WORK_MAX
from domain.errors import BAD_FIELD, Refusal
from domain.records import JobTerms
from pol.rules import schedule

# 60 steps, 12 segments of 20 samples a round.
TERMS = JobTerms(
    job_id=bytes(32),
    payload_bytes=1,
    global_root=bytes(32),
    local_root=bytes(32),
    data_root=bytes(32),
    rounds=3,
    samples_per_round=240,
    batch=4,
    segment_length=5,
    work_per_step=7,
    result_chunks=1,
    executor_version=1,
)


def test_work_and_segments() -> None:
    assert schedule.share_work(TERMS, 40) == 10 * 7
    assert schedule.round_work(TERMS) == 60 * 7
    assert schedule.total_work(TERMS) == 3 * 60 * 7
    assert schedule.segment_samples(TERMS) == 20
    assert schedule.segments_of(TERMS, 40) == 2


def test_first_step_counts_batches_of_the_whole_job() -> None:
    assert schedule.first_step(TERMS, 0, 0) == 0
    assert schedule.first_step(TERMS, 0, 40) == 10
    assert schedule.first_step(TERMS, 2, 20) == 2 * 60 + 5


def test_shares_of_a_round_add_up_to_its_work() -> None:
    parts = [20, 100, 40, 80]
    assert sum(schedule.share_work(TERMS, part) for part in parts) == schedule.round_work(TERMS)
    assert sum(schedule.segments_of(TERMS, part) for part in parts) == 12


def test_good_terms_pass() -> None:
    schedule.check_terms(TERMS)


LARGEST = replace(
    TERMS,
    payload_bytes=limits.PAYLOAD_BYTES_MAX,
    rounds=1,
    samples_per_round=limits.SEGMENTS_MAX * 20,
    result_chunks=limits.RESULT_CHUNKS_MAX,
    executor_version=2**32 - 1,
)


@pytest.mark.parametrize(
    "terms",
    [
        LARGEST,
        replace(TERMS, rounds=limits.ROUNDS_MAX),
        replace(TERMS, rounds=1, work_per_step=WORK_MAX // 60),
        replace(
            TERMS, rounds=1, samples_per_round=limits.SAMPLES_MAX, batch=2**20, segment_length=2**28
        ),
        replace(
            TERMS,
            rounds=4,
            samples_per_round=limits.SAMPLES_MAX // 4,
            batch=2**40,
            segment_length=1,
        ),
    ],
)
def test_terms_at_the_bounds_pass(terms: JobTerms) -> None:
    schedule.check_terms(terms)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("job_id", {"job_id": bytes(31)}),
        ("global_root", {"global_root": b""}),
        ("local_root", {"local_root": bytes(33)}),
        ("data_root", {"data_root": bytes(20)}),
        ("payload_bytes", {"payload_bytes": 0}),
        ("payload_bytes", {"payload_bytes": limits.PAYLOAD_BYTES_MAX + 1}),
        ("rounds", {"rounds": 0}),
        ("rounds", {"rounds": limits.ROUNDS_MAX + 1}),
        ("samples_per_round", {"samples_per_round": 0}),
        ("samples_per_round", {"samples_per_round": limits.SAMPLES_MAX + 1}),
        ("samples_per_round", {"samples_per_round": 230}),  # not whole segments
        ("samples_per_round", {"samples_per_round": 10}),  # less than one segment
        ("batch", {"batch": 0}),
        ("batch", {"batch": -4}),
        ("segment_length", {"segment_length": 0}),
        ("segment_length", {"samples_per_round": (limits.SEGMENTS_MAX + 1) * 20, "rounds": 1}),
        ("work_per_step", {"work_per_step": 0}),
        ("work_per_step", {"work_per_step": WORK_MAX + 1}),
        ("work_per_step", {"rounds": 1, "work_per_step": WORK_MAX // 60 + 1}),
        ("result_chunks", {"result_chunks": 0}),
        ("result_chunks", {"result_chunks": limits.RESULT_CHUNKS_MAX + 1}),
        ("executor_version", {"executor_version": 0}),
        ("executor_version", {"executor_version": 2**32}),
        (
            "rounds",
            {
                "rounds": 5,
                "samples_per_round": limits.SAMPLES_MAX // 4,
                "batch": 2**40,
                "segment_length": 1,
            },
        ),
    ],
)
def test_terms_out_of_bounds_are_refused_by_field(field: str, change: dict[str, object]) -> None:
    with pytest.raises(Refusal) as refused:
        schedule.check_terms(replace(TERMS, **change))  # type: ignore[arg-type]
    assert refused.value.code is BAD_FIELD
    assert refused.value.field == f"terms.{field}"
    assert refused.value.reason


def test_steps_of_accepted_terms_fit_the_width_that_leaves_give_them() -> None:
    """Leaves carry the step in eight bytes: samples of all rounds are bounded below that."""
    assert limits.SAMPLES_MAX < 2**64


@pytest.mark.parametrize(
    ("first", "count", "fits"),
    [
        (0, 240, True),
        (0, 20, True),
        (220, 20, True),
        (20, 40, True),
        (240, 20, False),  # behind the round
        (220, 40, False),
        (0, 260, False),
        (0, 0, False),
        (0, -20, False),
        (-20, 40, False),
        (10, 20, False),  # inside a segment
        (4, 20, False),
        (0, 30, False),
        (0, 4, False),
    ],
)
def test_range_fits(first: int, count: int, fits: bool) -> None:
    assert schedule.range_fits(TERMS, first, count) is fits


RANGES = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), max_size=6)


@settings(deadline=None)
@given(RANGES, st.integers(1, 14))
def test_covers_as_counted_sample_by_sample(ranges: list[tuple[int, int]], samples: int) -> None:
    every = [sample for first, count in ranges for sample in range(first, first + count)]
    assert schedule.covers(ranges, samples) == (set(range(samples)) <= set(every))


@settings(deadline=None)
@given(RANGES)
def test_disjoint_as_counted_sample_by_sample(ranges: list[tuple[int, int]]) -> None:
    every = [sample for first, count in ranges for sample in range(first, first + count)]
    assert schedule.disjoint(ranges) == (len(every) == len(set(every)))


def test_covers_and_disjoint_at_the_edges() -> None:
    assert schedule.covers([(20, 220), (0, 20)], 240)
    assert not schedule.covers([(0, 20), (21, 219)], 240)
    assert not schedule.covers([(0, 239)], 240)
    assert not schedule.covers([], 1)
    assert schedule.disjoint([])
    assert schedule.disjoint([(20, 20), (0, 20)])
    assert not schedule.disjoint([(0, 21), (20, 20)])
    assert not schedule.disjoint([(0, 20), (0, 20)])
