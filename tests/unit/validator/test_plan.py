from collections import Counter
from fractions import Fraction
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from domain.limits import SLOTS_MAX
from validator.decide.plan import FreeProvider, plan_slots

NAMES = [f"assay1{letter}" for letter in "abcdefgh"]
workers = st.lists(
    st.builds(FreeProvider, st.sampled_from(NAMES), st.integers(0, 12)),
    min_size=1,
    max_size=4,
    unique_by=lambda worker: worker.address,
)
waiting = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3))
last = st.dictionaries(st.integers(0, 5), st.sampled_from(NAMES))


def longest(chosen: list[FreeProvider], counts: Counter[str]) -> Fraction:
    """Return when the last share ends, in units of a share's work."""
    ends = (Fraction(counts[w.address], max(1, w.speed)) for w in chosen if counts[w.address])
    return max(ends, default=Fraction(0))


@given(workers, st.integers(0, 5), last)
def test_no_other_plan_ends_earlier(chosen: list[FreeProvider], slots: int, known: dict[int, str]) -> None:
    plan = plan_slots(range(slots), chosen, {}, known)
    assert list(plan) == list(range(slots))
    every = (Counter(names) for names in product([w.address for w in chosen], repeat=slots))
    assert longest(chosen, Counter(plan.values())) == min(longest(chosen, c) for c in every)


@given(workers, st.integers(0, 6), waiting, last)
def test_each_slot_goes_to_who_is_done_with_it_first(
    chosen: list[FreeProvider], slots: int, before: dict[str, int], known: dict[int, str]
) -> None:
    """The rule once more, slowly; of equals to who served the slot last, then by address."""
    queues = Counter(before)

    def rank(worker: FreeProvider, slot: int) -> tuple[Fraction, bool, str]:
        end = Fraction(queues[worker.address] + 1, max(1, worker.speed))
        return end, known.get(slot) != worker.address, worker.address

    plan = plan_slots(range(slots), chosen, before, known)
    for slot in range(slots):
        best = min(chosen, key=lambda worker: rank(worker, slot))
        assert plan[slot] == best.address
        queues[best.address] += 1


def test_a_faster_provider_serves_more_slots_and_a_slow_one_perhaps_none() -> None:
    two = [FreeProvider("a", 300), FreeProvider("b", 100)]
    assert Counter(plan_slots(range(4), two, {}, {}).values()) == {"a": 3, "b": 1}
    assert Counter(plan_slots(range(4), [*two, FreeProvider("c", 1)], {}, {}).values())["c"] == 0


def test_a_slot_stays_with_who_holds_its_local_state() -> None:
    three = [FreeProvider(name, 5) for name in "abc"]
    assert plan_slots(range(3), three, {}, {0: "c", 1: "a", 2: "b"}) == {0: "c", 1: "a", 2: "b"}
    # Unless somebody else is done earlier.
    assert plan_slots(range(2), three, {"c": 1}, {0: "c"}) == {0: "a", 1: "b"}


def test_a_cluster_trains_as_many_shares_at_once_as_it_has_slots() -> None:
    """Two nodes of speed 50 finish two shares when a machine of speed 50 has finished one."""
    two = [FreeProvider("a", 100, slots=2), FreeProvider("b", 50)]
    assert Counter(plan_slots(range(3), two, {}, {}).values()) == {"a": 2, "b": 1}
    assert [two[0].seconds(shares) for shares in (1, 2, 3)] == [two[1].seconds(shares) for shares in (1, 1, 2)]


@given(st.integers(1, 64), st.integers(1, 10**12), st.integers(0, 9))
def test_who_says_that_it_has_slots_is_planned_no_earlier(slots: int, speed: int, before: int) -> None:
    """A claim of more slots never makes a share earlier. So no provider gets a share by a claim."""
    assert FreeProvider("a", speed, slots=slots).seconds(before + 1) >= FreeProvider("a", speed).seconds(before + 1)


def test_as_many_slots_as_there_may_be_are_planned_among_a_crowd_at_once() -> None:
    crowd = [FreeProvider(f"p{number:04}", 1 + number % 7) for number in range(2 * SLOTS_MAX)]
    assert len(plan_slots(range(SLOTS_MAX), crowd, {}, {})) == SLOTS_MAX


def test_nobody_there_plans_nothing() -> None:
    assert plan_slots(range(3), [], {}, {}) == {}


@given(
    workers,
    st.integers(0, 6),
    waiting,
    last,
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3)),
)
def test_nobody_gets_more_than_there_is_room_for(
    chosen: list[FreeProvider],
    slots: int,
    before: dict[str, int],
    known: dict[int, str],
    room: dict[str, int],
) -> None:
    plan = plan_slots(range(slots), chosen, before, known, room)
    counts = Counter(plan.values())
    assert all(counts[name] <= most for name, most in room.items())
    places = [room.get(worker.address, slots) for worker in chosen]
    assert len(plan) == min(slots, sum(places))  # a slot is left out only where nobody has room
    assert list(plan) == list(range(len(plan)))
