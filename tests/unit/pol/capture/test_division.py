"""What a job's author need not say: how long rounds and segments are."""

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from domain.limits import SHARE_SEGMENTS_MAX
from pol.capture.author.measures import cross_entropy
from pol.capture.author.spec import JobSpec
from pol.capture.division import Rounds, divide_rounds, divide_segments, segment_own_work


def spec(**fields: Any) -> JobSpec:
    return JobSpec(
        name="some",
        model=nn.Linear(1, 1),
        loss=cross_entropy(),
        train={},
        holdout={},
        batch=8,
        **fields,
    )


STEPS, SLOTS = st.integers(1, 20_000), st.integers(1, 8)


@given(STEPS, SLOTS)
def test_a_job_has_several_rounds_and_hardly_more_steps(steps: int, slots: int) -> None:
    rounds = divide_rounds(spec(steps=steps, slots=slots), 1)
    least = min(4, steps) if slots == 1 else max(min(4, steps), -(-steps // 500))
    assert least <= rounds.count <= 5 * least
    assert steps <= rounds.steps < steps + least
    if slots > 1:
        assert rounds.steps_each <= 500


@given(STEPS, SLOTS, st.integers(1, 300))
def test_rounds_that_are_given_are_filled(steps: int, slots: int, each: int) -> None:
    rounds = divide_rounds(spec(steps=steps, slots=slots, round_steps=each), 1)
    assert rounds.steps_each == each
    assert steps <= rounds.steps < steps + each


@given(STEPS, st.integers(1, 300))
def test_rounds_have_whole_segments_of_what_is_given(steps: int, segment: int) -> None:
    job = spec(steps=steps, segment_steps=segment)
    rounds = divide_rounds(job, 1)
    assert rounds.steps_each % segment == 0
    assert rounds.steps >= steps
    assert divide_segments(job, rounds, 1, 10**9) == segment


def test_steps_with_good_divisors_are_kept() -> None:
    assert divide_rounds(spec(steps=1_000), 1) == Rounds(5, 200)
    assert divide_rounds(spec(steps=320), 1) == Rounds(4, 80)
    assert divide_rounds(spec(steps=97), 1) == Rounds(7, 14)
    assert divide_rounds(spec(steps=1), 1) == Rounds(1, 1)


def test_epochs_are_of_all_slots_together() -> None:
    assert spec(epochs=3).steps_for(1_000) == 375
    assert spec(epochs=3, slots=4).steps_for(1_000) == 94
    assert spec(epochs=0.5).steps_for(1_000) == 63
    assert spec(epochs=1).steps_for(3) == 1
    assert divide_rounds(spec(epochs=1, slots=2, round_steps=10), 1_600) == Rounds(10, 10)


def test_epochs_may_be_a_little_more_for_rounds_that_divide_well() -> None:
    assert divide_rounds(spec(steps=319), 1) == Rounds(11, 29)
    assert divide_rounds(spec(epochs=319), 8) == Rounds(4, 80)


@given(st.integers(1, 50), st.integers(1, 100_000), SLOTS, *[st.integers(1, 10**9)] * 2)
def test_segments_divide_a_round_and_there_are_enough_of_them(
    count: int, each: int, slots: int, step_work: int, own_work: int
) -> None:
    rounds = Rounds(count, each)
    segment = divide_segments(spec(steps=1, slots=slots), rounds, step_work, own_work)
    assert each % segment == 0
    assert each // segment <= SHARE_SEGMENTS_MAX or segment == each
    if count * slots * each >= 40 and each <= SHARE_SEGMENTS_MAX:
        assert count * slots * (each // segment) >= 40


@given(st.integers(40, 100), SLOTS, *[st.integers(1, 10**9)] * 2)
def test_what_a_segment_takes_costs_a_few_percent_where_rounds_are_long_enough(
    count: int, slots: int, step_work: int, own_work: int
) -> None:
    rounds = Rounds(count, 1_024)
    assume(20 * own_work <= 1_024 * step_work)
    segment = divide_segments(spec(steps=1, slots=slots), rounds, step_work, own_work)
    assert own_work <= segment * step_work // 20
    shorter = segment // 2
    assert segment == 4 or shorter * step_work < 20 * own_work


def test_a_prime_number_of_steps_has_segments_all_the_same() -> None:
    assert divide_segments(spec(steps=1), Rounds(4, 101), 10**6, 10**6) == 1
    assert divide_segments(spec(steps=1), Rounds(40, 101), 10**6, 10**6) == 101


def test_the_order_of_many_rows_is_made_for_many_steps() -> None:
    """Two epochs of 60,000 rows: with short segments half of the price would be for their order."""
    rounds, own_work = Rounds(5, 375), segment_own_work(600_000, 60_000)
    segment = divide_segments(spec(steps=1_875), rounds, 107_000_000, own_work)
    assert segment == 25
    assert own_work < segment * 107_000_000 // 8
    # of as few steps as hashing alone allows
    assert divide_segments(spec(steps=1_875), rounds, 107_000_000, 600_000) == 3
