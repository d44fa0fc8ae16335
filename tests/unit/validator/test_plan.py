from hypothesis import given
from hypothesis import strategies as st

from domain.limits import SLOTS_MAX
from validator.decide.plan import Worker, pick_worker, split_round

workers = st.lists(
    st.builds(
        Worker,
        st.sampled_from([f"assay1{letter}" for letter in "abcdefgh"]),
        st.integers(0, 10**12),
        st.just(4),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda worker: worker.address,
)


@given(workers, st.integers(1, 200), st.integers(1, 64), st.integers(1, 200))
def test_parts_cover_the_round_once_in_whole_units(
    chosen: list[Worker], total: int, unit: int, units_max: int
) -> None:
    parts = split_round(total * unit, unit, units_max, chosen)
    position = 0
    for slot, part in enumerate(parts):
        assert (part.slot, part.first) == (slot, position)
        assert part.count % unit == 0
        assert 0 < part.count <= units_max * unit
        position += part.count
    assert position == total * unit


@given(workers, st.integers(1, 200), st.integers(1, 64), st.integers(1, 20))
def test_there_are_never_more_parts_than_slots(
    chosen: list[Worker], total: int, units_max: int, slots_max: int
) -> None:
    """The chain takes no others, so that their round could never be closed."""
    parts = split_round(total, 1, units_max, chosen, slots_max)
    assert len(parts) <= slots_max
    possible = total <= units_max * slots_max
    assert sum(part.count for part in parts) == (total if possible else 0)


def test_a_crowd_does_not_get_more_slots_than_there_are() -> None:
    crowd = [Worker(f"p{number:04}", 1, 1) for number in range(2 * SLOTS_MAX)]
    assert len(split_round(10**6, 1, 10**4, crowd)) <= SLOTS_MAX


def test_units_follow_speed() -> None:
    parts = split_round(120, 10, 100, [Worker("a", 300, 1), Worker("b", 100, 1)])
    assert [(part.provider, part.count) for part in parts] == [("a", 90), ("b", 30)]


def test_a_slow_worker_still_gets_a_unit() -> None:
    parts = split_round(40, 10, 100, [Worker("a", 10**12, 1), Worker("b", 1, 1)])
    assert [part.provider for part in parts] == ["a", "b"]


def test_more_workers_than_units_leaves_some_out() -> None:
    parts = split_round(20, 10, 100, [Worker(name, 1, 1) for name in "abc"])
    assert [part.provider for part in parts] == ["a", "b"]


def test_nobody_there_plans_nothing() -> None:
    assert split_round(20, 10, 100, []) == ()
    assert pick_worker([], {}, {}) == ""


def test_the_successor_failed_least_then_has_least_to_do_then_is_fastest() -> None:
    three = [Worker("a", 1, 1), Worker("b", 5, 1), Worker("c", 9, 1)]
    assert pick_worker(three, {}, {}) == "c"
    assert pick_worker(three, {"c": 1}, {}) == "b"
    assert pick_worker(three, {"b": 1, "a": 0}, {"c": 1}) == "a"
