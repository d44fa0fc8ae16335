"""Steps, slots, segments and work of a job, and the terms that are refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain import limits
from domain.amount import WORK_MAX
from domain.errors import BAD_FIELD, Refusal
from domain.market.records import JobTerms
from pol.rules import schedule

# In each round 4 slots, and 60 steps of each in 12 segments.
TERMS = JobTerms(
    job_id=bytes(32),
    payload_bytes=1,
    data_bytes=1,
    global_root=bytes(32),
    local_root=bytes(32),
    data_root=bytes(32),
    rounds=3,
    slots=4,
    round_steps=60,
    batch=4,
    segment_steps=5,
    step_work=7,
    outer_work=1_000,
    global_bytes=30,
    local_bytes=12,
    update_bytes=20,
    global_chunks=3,
    local_chunks=2,
    executor_version=1,
)


def test_each_nth_round_hands_over_and_the_last() -> None:
    terms = replace(TERMS, rounds=8)
    for every, handed in ((1, list(range(8))), (3, [2, 5, 7]), (8, [7]), (100, [7])):
        assert [r for r in range(8) if schedule.is_handover(terms, every, r)] == handed


def test_what_is_handed_over_is_the_global_state_and_each_slots_local_one() -> None:
    assert (TERMS.result_bytes, TERMS.result_chunks) == (30 + 4 * 12, 3 + 4 * 2)


def test_work_of_a_job_as_an_example() -> None:
    assert schedule.share_segments(TERMS) == 12
    assert schedule.boundary_work(TERMS) == 42
    assert schedule.segment_work(TERMS) == 5 * 7 + 42
    assert schedule.share_work(TERMS) == 60 * 7 + 12 * 42
    assert schedule.round_work(TERMS) == 4 * (60 * 7 + 12 * 42) + 1_000
    assert schedule.total_work(TERMS) == 3 * (4 * (60 * 7 + 12 * 42) + 1_000)


small = st.integers(1, 6)
TERMS_OF = st.builds(
    lambda segments, **fields: replace(TERMS, round_steps=segments * fields["segment_steps"], **fields),
    small,
    rounds=small,
    slots=small,
    segment_steps=small,
    batch=small,
    step_work=st.integers(1, 100),
    outer_work=st.integers(0, 100),
)


@given(TERMS_OF)
def test_the_work_is_what_is_counted_step_by_step(terms: JobTerms) -> None:
    work = 0
    for _ in range(terms.rounds):
        for _ in range(terms.slots):
            for step in range(1, terms.round_steps + 1):
                work += terms.step_work
                if step % terms.segment_steps == 0:
                    work += terms.global_bytes + terms.local_bytes
        work += terms.outer_work
    assert schedule.total_work(terms) == work


@given(TERMS_OF)
def test_slots_together_take_every_batch_once_and_in_the_order_of_one_machine(
    terms: JobTerms,
) -> None:
    taken = []
    for round in range(terms.rounds):
        first = schedule.first_step(terms, round)
        for step in range(first, first + terms.round_steps):
            taken += [schedule.batch_number(terms.slots, step, k) for k in range(terms.slots)]
    assert taken == list(range(terms.rounds * terms.round_steps * terms.slots))


@given(TERMS_OF, st.integers(1, 1_000), st.integers(1, 8))
def test_a_round_takes_no_less_than_its_work_at_the_speed_of_all_slots_at_once(
    terms: JobTerms, speed: int, slots: int
) -> None:
    seconds = schedule.round_seconds(terms, speed, slots)
    at_once = min(slots, terms.slots)
    assert seconds * speed * at_once >= terms.slots * schedule.share_work(terms)
    assert seconds <= schedule.round_seconds(terms, speed, max(1, slots - 1))
    # turns of whole shares one after another, then the aggregation
    turns = sum(1 for slot in range(terms.slots) if slot % slots == 0)
    work = turns * schedule.share_work(terms) + terms.outer_work
    assert (seconds - 1) * speed < work <= seconds * speed


def test_more_slots_at_once_than_the_job_has_are_of_no_use() -> None:
    assert schedule.round_seconds(TERMS, 10, 4) == schedule.round_seconds(TERMS, 10, 1_000)
    assert schedule.round_seconds(TERMS, 10, 3) == schedule.round_seconds(TERMS, 10, 2)


def test_good_terms_pass() -> None:
    schedule.check_terms(TERMS)


SHORT = {"rounds": 1, "slots": 1, "segment_steps": 1, "round_steps": 1}
LONG = {"round_steps": limits.SAMPLES_MAX // 4, "segment_steps": limits.SAMPLES_MAX // 4}
REST = 4 * 12 * 42 + 1_000
"""Work of a round of TERMS beside its 240 steps."""


@pytest.mark.parametrize(
    "change",
    [
        {"payload_bytes": limits.PAYLOAD_BYTES_MAX, "data_bytes": limits.PAYLOAD_BYTES_MAX},
        {"global_bytes": limits.PAYLOAD_BYTES_MAX, "local_bytes": limits.PAYLOAD_BYTES_MAX},
        {"global_chunks": limits.RESULT_CHUNKS_MAX - 8, "executor_version": 2**32 - 1},
        {"local_chunks": (limits.RESULT_CHUNKS_MAX - 3) // 4},
        {"rounds": limits.ROUNDS_MAX, "slots": limits.SLOTS_MAX},
        {"segment_steps": 1, "round_steps": limits.SHARE_SEGMENTS_MAX},
        {"rounds": 1, "step_work": (WORK_MAX - REST) // 240},
        {**SHORT, "batch": limits.SAMPLES_MAX},
        {**SHORT, **LONG},
        {**LONG, "rounds": 1, "slots": 1},
        {"outer_work": 0},
    ],
)
def test_terms_at_the_bounds_pass(change: dict[str, int]) -> None:
    schedule.check_terms(replace(TERMS, **change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("job_id", {"job_id": bytes(31)}),
        ("global_root", {"global_root": b""}),
        ("local_root", {"local_root": bytes(33)}),
        ("data_root", {"data_root": bytes(20)}),
        ("payload_bytes", {"payload_bytes": 0}),
        ("payload_bytes", {"payload_bytes": limits.PAYLOAD_BYTES_MAX + 1}),
        ("data_bytes", {"data_bytes": 0}),
        ("rounds", {"rounds": 0}),
        ("rounds", {"rounds": limits.ROUNDS_MAX + 1}),
        ("slots", {"slots": 0}),
        ("slots", {"slots": limits.SLOTS_MAX + 1}),
        ("round_steps", {"round_steps": 0}),
        ("round_steps", {"round_steps": limits.SAMPLES_MAX + 1}),
        ("segment_steps", {"round_steps": 58}),  # not whole segments
        ("segment_steps", {"round_steps": 4}),  # less than one segment
        ("segment_steps", {"segment_steps": 0}),
        ("segment_steps", {"segment_steps": 1, "round_steps": limits.SHARE_SEGMENTS_MAX + 1}),
        ("batch", {"batch": 0}),
        ("batch", {"batch": -4}),
        ("step_work", {"step_work": 0}),
        ("step_work", {"step_work": WORK_MAX + 1}),
        ("step_work", {"rounds": 1, "step_work": (WORK_MAX - REST) // 240 + 1}),
        ("outer_work", {"outer_work": -1}),
        ("global_bytes", {"global_bytes": 0}),
        ("local_bytes", {"local_bytes": 0}),
        ("update_bytes", {"update_bytes": 0}),
        ("update_bytes", {"update_bytes": TERMS.global_bytes + 1}),
        ("global_chunks", {"global_chunks": 0}),
        ("global_chunks", {"global_chunks": limits.RESULT_CHUNKS_MAX + 1}),
        ("local_chunks", {"local_chunks": 0}),
        ("local_chunks", {"local_chunks": limits.RESULT_CHUNKS_MAX + 1}),
        # All states together are more chunks than have a number.
        ("local_chunks", {"global_chunks": limits.RESULT_CHUNKS_MAX - 7}),
        ("local_chunks", {"local_chunks": (limits.RESULT_CHUNKS_MAX - 3) // 4 + 1}),
        ("executor_version", {"executor_version": 0}),
        ("executor_version", {"executor_version": 2**32}),
        ("rounds", {**LONG, "rounds": 2, "slots": 1}),  # more samples than a job may have
        ("rounds", {**LONG, "rounds": 1, "slots": 2}),
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
