"""Slots are planned by what shares took, and a certificate that they do not fit is in doubt."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.proof.reasons import ShareReason
from pol.rules.schedule import share_work
from tests.unit.validator.support import TERMS, chain, state, view, works
from tests.unit.validator.test_decide import planned, with_packets
from validator.decide.pace import (
    DOUBT_SECONDS,
    FIT,
    FIT_SECONDS,
    OVERHEAD_SECONDS,
    Pace,
    doubted,
    note_handed_in,
    paced,
    paces,
    unshown,
)
from validator.decide.plan import SPREAD, FreeProvider, plan_slots, spread_slots
from validator.decide.records import LocalOrder
from validator.decide.view import Member

WORK = share_work(TERMS)
NAMES = ("fast", "slow")


def trained(*spans: int, verdict: int = ShareReason.NONE, held: bool = True) -> LocalOrder:
    """Return an order whose first round is over: each slot's provider took so long for it, from second 100 on."""
    local = with_packets(planned())
    (current,) = local.rounds
    done = tuple(
        replace(work, provider=name, given_at=100, handed_at=100 + span, verdict=verdict)
        for work, name, span in zip(current.works, NAMES, spans, strict=True)
    )
    return local.put(replace(current, works=done, next_global=state("next") if held else None))


# --- what shares took ----------------------------------------------------------------------------


def test_what_is_handed_in_is_written_down_once() -> None:
    work = next(iter(works(with_packets(planned()))))
    seen = note_handed_in(work, view(chain(), 17))
    assert seen.handed_at == 17
    assert note_handed_in(seen, view(chain(), 18)) == seen
    assert note_handed_in(replace(work, signed=None), view(chain())).handed_at == 0


def test_a_provider_trains_one_share_after_the_other() -> None:
    local = trained(30, 50)
    (current,) = local.rounds
    both = tuple(replace(work, provider="fast") for work in current.works)
    assert {name: pace.each for name, pace in paces(trained(30, 50)).items()} == {"fast": 30, "slow": 50}
    assert paces(local.put(replace(current, works=both))) == {"fast": Pace(20, 1, 1)}


@pytest.mark.parametrize(("said", "shown"), [(1, Pace(20, 1, 1)), (2, Pace(50, 2, 2)), (64, Pace(50, 2, 64))])
def test_a_provider_trains_no_more_shares_at_once_than_it_shows(said: int, shown: Pace) -> None:
    """A provider that claims many slots counts as fast as its shares show, and no faster."""
    local = trained(30, 50)
    (current,) = local.rounds
    both = tuple(replace(work, provider="fast", at_once=said) for work in current.works)
    local = local.put(replace(current, works=both))
    assert paces(local) == {"fast": shown}
    (worker,) = paced([FreeProvider("fast", 10**12, slots=said)], local, TERMS)
    assert worker.slots == shown.shares
    assert worker.speed == WORK * shown.shares // (shown.seconds + OVERHEAD_SECONDS)


def test_a_certificate_is_that_of_all_slots() -> None:
    """One share on one of two nodes takes twice as long as the certified speed of both says."""
    local = trained(400, 1)
    (current,) = local.rounds
    one = tuple(replace(work, at_once=2) for work in current.works)
    member = Member(WORK // 200, due=False, newcomer=False, measured_at=0)
    assert "fast" not in doubted(local.put(replace(current, works=one)), TERMS, {"fast": member}, 10_000)
    late = tuple(replace(work, handed_at=100 + FIT * 400 + FIT_SECONDS + 1) for work in one)
    assert "fast" in doubted(local.put(replace(current, works=late)), TERMS, {"fast": member}, 10_000)


@pytest.mark.parametrize("local", [trained(1, 1, verdict=ShareReason.UPDATE_MISMATCH), trained(1, 1, held=False)])
def test_what_did_not_hold_shows_nothing(local: LocalOrder) -> None:
    """A share that is made up quickly makes nobody fast."""
    assert paces(local) == {}
    assert unshown([FreeProvider("fast", 1)], local) == {"fast"}


def test_results_count_for_more_than_a_certificate() -> None:
    local = trained(20, 20)
    said = [FreeProvider("fast", 10**12), FreeProvider("slow", 1), FreeProvider("new", 10**12), FreeProvider("weak", 1)]
    shown = WORK // (20 + OVERHEAD_SECONDS)
    assert [worker.speed for worker in paced(said, local, TERMS)] == [shown, shown, shown, 1]
    assert paced(said, trained(1, 1, held=False), TERMS) == said


# --- a certificate in doubt ----------------------------------------------------------------------


def in_doubt(span: int, expected: int, measured_at: int = 0, clock: int = 10_000) -> bool:
    member = Member(WORK // expected, due=False, newcomer=False, measured_at=measured_at)
    return "fast" in doubted(trained(span, 1), TERMS, {"fast": member}, clock)


def test_results_that_do_not_fit_put_a_certificate_in_doubt() -> None:
    longest = FIT * 10 + FIT_SECONDS
    assert not in_doubt(longest, 10)
    assert in_doubt(longest + 1, 10)
    # Or the machine is faster than it was found to be.
    shortest = -(-1_000 // FIT) - FIT_SECONDS
    assert not in_doubt(shortest, 1_000)
    assert in_doubt(shortest - 1, 1_000)


def test_nobody_makes_a_validator_measure_without_end() -> None:
    """Neither before the certificate has stood for a while, nor for a share from before it."""
    assert in_doubt(1_000, 1, measured_at=100, clock=100 + DOUBT_SECONDS)
    assert not in_doubt(1_000, 1, measured_at=100, clock=99 + DOUBT_SECONDS)
    assert not in_doubt(1_000, 1, measured_at=101, clock=10**6)
    assert doubted(trained(1_000, 1), TERMS, {}, 10**6) == set()


# --- idle providers ------------------------------------------------------------------------------

crowds = st.lists(
    st.builds(FreeProvider, st.sampled_from([*"abcdefgh"]), st.integers(1, 60)),
    min_size=1,
    max_size=6,
    unique_by=lambda worker: worker.address,
)


def test_a_lucky_probe_does_not_win_all_slots_of_a_round() -> None:
    """Four providers of one machine, one of which was measured while the others were idle."""
    crowd = [FreeProvider("a", 56), FreeProvider("b", 9), FreeProvider("c", 7), FreeProvider("d", 5)]
    plan = plan_slots(range(4), crowd, {}, {})
    assert set(plan.values()) == {"a"}
    names = {worker.address for worker in crowd}
    assert set(spread_slots(plan, crowd, {}, names).values()) == names
    # Its results have shown it: then it is as fast as that.
    assert spread_slots(plan, crowd, {}, names - {"a"}) == plan


@given(crowds, st.integers(0, 9), st.sets(st.sampled_from([*"abcdefgh"])))
def test_who_is_idle_has_a_slot_and_the_round_takes_a_bounded_time(
    crowd: list[FreeProvider], slots: int, unshown: set[str]
) -> None:
    plan = plan_slots(range(slots), crowd, {}, {})
    spread = spread_slots(plan, crowd, {}, unshown)
    before, after = Counter(plan.values()), Counter(spread.values())
    assert list(spread) == list(plan)
    speeds = {worker.address: worker.speed for worker in crowd}
    longest = max((count / speeds[name] for name, count in before.items()), default=0)
    assert all(count / speeds[name] <= max(longest, SPREAD * longest) + 1e-9 for name, count in after.items())
    # None gives its last one, and none is given a second.
    assert all(after[name] >= 1 for name in before)
    assert all(after[name] == 1 for name in after if not before[name])
    idle = [name for name in speeds if not after[name] and 1 / speeds[name] <= SPREAD * longest]
    assert not idle or not any(after[name] > 1 for name in after if name in unshown)


def test_who_has_no_room_or_other_work_is_given_nothing() -> None:
    crowd = [FreeProvider("a", 50), FreeProvider("b", 10)]
    plan = plan_slots(range(3), crowd, {}, {})
    assert spread_slots(plan, crowd, {}, {"a"}, {"b": 0}) == plan
    assert spread_slots(plan, crowd, {"b": 1}, {"a"}) == plan
    assert spread_slots({}, crowd, {}, {"a"}) == {}
