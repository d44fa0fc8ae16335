"""Panels: places, the time and money that they take, and who may sit."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from domain.hashing import hash_fields
from domain.order_params import OrderParams
from domain.params import Params
from domain.proof.records import AuditKind, AuditPlace
from pol.rules import panels
from pol.rules.handover import ChunkLayout
from pol.rules.panels import Promised, ShareExtent
from pol.rules.schedule import boundary_work, segment_work
from pol.rules.stops import AGGREGATION
from tests.support.chain_market import digest, make_terms

TERMS = make_terms()
"""2 slots of 2 segments of 2 steps; 9 M a step, 4 M an aggregation, 1 MB of state."""
SEED = digest("seed")
LIMIT = 10**12


def params(**changes: Any) -> OrderParams:
    return replace(Params().for_order(), **changes)


def promised(name: str, speed: int, stake: int = 1, rate: int = 10**12) -> Promised:
    return Promised(name, stake, speed, rate)


# --- places --------------------------------------------------------------------------------------


def test_the_aggregation_and_an_update_are_always_drawn_and_every_segment_is_as_likely() -> None:
    shares = [ShareExtent(0, 1, 5), ShareExtent(1, 3, 3)]
    seen: dict[Any, int] = {}
    for number in range(600):
        places = panels.draw_places(digest(number), shares, 2)
        assert [place.kind for place in places] == [
            AuditKind.AGGREGATION,
            AuditKind.UPDATE,
            AuditKind.SEGMENT,
            AuditKind.SEGMENT,
        ]
        assert len(set(places)) == 4
        for place in places[1:]:
            seen[place] = seen.get(place, 0) + 1
    updates = {place: count for place, count in seen.items() if place.kind is AuditKind.UPDATE}
    assert {(place.slot, place.issue, place.segment) for place in updates} == {(0, 1, 5), (1, 3, 3)}
    assert all(240 < count < 360 for count in updates.values())
    segments = [count for place, count in seen.items() if place.kind is AuditKind.SEGMENT]
    assert len(segments) == 8
    assert all(110 < count < 190 for count in segments)  # 150 each


def stop(slot: int, segment: int, kind: AuditKind = AuditKind.SEGMENT) -> AuditPlace:
    return AuditPlace(kind, slot, 1, segment)


def drawn(named: AuditPlace, *shares: ShareExtent, segments: int = 2) -> set[tuple[AuditPlace, ...]]:
    """Return what is drawn of a stopped round, by many seeds."""
    return {panels.draw_places(digest(number), shares, segments, named) for number in range(300)}


def test_where_the_job_stopped_is_always_drawn_in_the_stead_of_a_segment() -> None:
    """So a panel about it takes no longer than another, and nobody is late by it."""
    named = stop(1, 3)
    seen = drawn(named, ShareExtent(0, 1, 5), ShareExtent(1, 1, 3, named))
    assert {places[0] for places in seen} == {named}
    assert {places[1] for places in seen} == {AuditPlace(AuditKind.UPDATE, 0, 1, 5)}
    assert {len(places) for places in seen} == {3}
    further = {places[2] for places in seen}
    assert further == {stop(0, n) for n in range(5)} | {stop(1, n) for n in range(3)}


def test_of_other_shares_what_has_no_end_is_drawn_like_what_has_one() -> None:
    """Who ends a share early beside one that really stops is found as one is who bent a segment."""
    named, other = stop(0, 0), stop(1, 2)
    seen = drawn(named, ShareExtent(0, 1, 0, named), ShareExtent(1, 1, 2, other))
    assert {places[1:] for places in seen} == {(stop(1, 0),), (stop(1, 1),), (other,)}


def test_a_round_that_stopped_at_once_has_one_place() -> None:
    named = stop(0, 0)
    assert drawn(named, ShareExtent(0, 1, 0, named), segments=7) == {(named,)}


def test_an_update_or_an_aggregation_without_an_end_stands_for_its_kind() -> None:
    named = stop(0, 4, AuditKind.UPDATE)
    shares = (ShareExtent(0, 1, 4, named), ShareExtent(1, 1, 4))
    for places in drawn(named, *shares):
        assert [place.kind for place in places] == [AuditKind.UPDATE, *[AuditKind.SEGMENT] * 2]
        assert places[0] == named
    whole = (ShareExtent(0, 1, 4), ShareExtent(1, 1, 4))
    seeds = [digest(number) for number in range(20)]
    for seed in seeds:
        usual = panels.draw_places(seed, whole, 2)
        assert panels.draw_places(seed, whole, 2, AGGREGATION) == usual


def test_what_is_always_drawn_costs_its_work_with_a_state_root_for_each_step() -> None:
    state = boundary_work(TERMS)
    assert panels.replay_work(TERMS) == 2 * (9_000_000 + state) > segment_work(TERMS)
    assert panels.least_work(TERMS, params()) == 4_000_000 + 2 * state + 2 * 20_000_000
    assert panels.place_cost(TERMS, AuditKind.SEGMENT, LIMIT) == 20_000
    assert panels.audit_floor(TERMS, LIMIT, params(auditors=3, answer_fee=7)) == 3 * (46_000 + 7)
    assert panels.audit_floor(TERMS, LIMIT, params(auditors=0)) == 0


def test_every_chunk_of_a_tensor_is_as_likely_and_no_header_is_drawn() -> None:
    layout = ChunkLayout(global_chunks=4, local_chunks=3, slots=2)
    seen = Counter(panels.draw_chunk(hash_fields("chunk", str(at)), layout) for at in range(7_000))
    assert {place.chunk for place in seen if place} == {1, 2, 3, 5, 6, 8, 9}
    assert all(900 < count < 1_100 for count in seen.values())
    headers = [at for at in range(layout.count) if (place := layout.locate(at)) and place.is_header]
    assert headers == [0, 4, 7]


def test_states_without_tensors_have_no_chunk_to_draw() -> None:
    assert panels.draw_chunk(SEED, ChunkLayout(1, 1, 5)) is None
    (place,) = {panels.draw_chunk(hash_fields("chunk", str(at)), ChunkLayout(2, 1, 5)) for at in range(50)}
    assert place == AuditPlace(AuditKind.HANDOVER, 0, 0, 0, 1)


def test_a_round_of_few_segments_has_them_all() -> None:
    small = make_terms(slots=1, round_steps=2)
    assert panels.least_segments(small, params(audit_segments=4)) == 1
    assert panels.count_groups(small, params(audit_segments=4), LIMIT, 10**18, 100) == 1
    assert panels.segment_count(small, params(audit_segments=4), 1) == 1


def test_further_groups_are_drawn_as_far_as_the_fee_pays_every_seat() -> None:
    """Two of 6,400 segments used to be drawn, while the fee paid for fourteen."""
    terms = make_terms(slots=64)
    asked = params(auditors=3, answer_fee=10, audit_places_max=51)
    floor = panels.audit_floor(terms, LIMIT, asked)
    each = 3 * (2 * 20_000 + 10)
    assert panels.group_fee(terms, LIMIT, asked) == each
    fees = (-(10**9), 0, each - 1, each, 2 * each, 10**12)
    counts = [panels.count_groups(terms, asked, LIMIT, floor + more, 1_000) for more in fees]
    assert counts == [1, 1, 1, 2, 3, 24]
    assert [panels.segment_count(terms, asked, count) for count in counts] == [2, 2, 2, 4, 6, 48]
    for count, more in zip(counts[1:], fees[1:], strict=True):
        assert panels.panel_fee(terms, asked, LIMIT, count) <= floor + more


@pytest.mark.parametrize(("seats", "groups"), [(0, 1), (2, 1), (3, 1), (5, 1), (6, 2), (9, 3), (30, 10)])
def test_further_groups_are_drawn_as_far_as_there_are_seats(seats: int, groups: int) -> None:
    terms = make_terms(slots=64)
    asked = params(auditors=3, audit_places_max=50)
    assert panels.count_groups(terms, asked, LIMIT, 10**18, seats) == groups


def test_a_group_after_the_first_takes_no_longer_than_what_is_always_drawn() -> None:
    """So a window and a stage do not grow with the groups."""
    terms = make_terms(slots=64)
    assert panels.GROUP_SEGMENTS * panels.replay_work(terms) <= panels.least_work(terms, params())


@pytest.mark.parametrize("named", [None, stop(0, 3), stop(0, 4, AuditKind.UPDATE)])
def test_the_places_that_are_always_drawn_are_one_group_and_each_two_further_segments_another(
    named: AuditPlace | None,
) -> None:
    shares = (ShareExtent(0, 1, 3 if named == stop(0, 3) else 4, named), ShareExtent(1, 1, 9))
    places = panels.draw_places(SEED, shares, 7, named)
    groups = panels.group_places(places, 2)
    kinds = [place.kind for place in places]
    assert [group for group, kind in zip(groups, kinds, strict=True) if kind is AuditKind.SEGMENT] == [
        0,
        0,
        1,
        1,
        2,
        2,
        3,
    ]
    assert {group for group, kind in zip(groups, kinds, strict=True) if kind is not AuditKind.SEGMENT} <= {0}


def test_an_aggregation_takes_the_update_of_each_slot_and_one_state() -> None:
    terms = make_terms(slots=64)
    small = replace(terms, update_bytes=1_000)
    spared = 64 * (terms.update_bytes - 1_000)
    assert panels.least_bytes(terms, params()) - panels.least_bytes(small, params()) == spared


# --- time ----------------------------------------------------------------------------------------


def test_the_audit_time_is_that_of_three_quarters_of_the_stake_and_of_twice_the_auditors() -> None:
    asked = params(auditors=1, eligible_bps=7_500)
    fast = [promised(str(number), 10**9) for number in range(3)]
    slow = promised("slow", 10**6)
    ms = panels.compute_audit_ms(TERMS, asked, [*fast, slow])
    assert ms == panels.promised_ms(TERMS, asked, 10**9, 10**12) < 100
    # Of less than three quarters the next one has to be able to keep up, and so has the fourth of twice two.
    assert panels.compute_audit_ms(TERMS, asked, [*fast[:2], slow]) > 1_000
    assert panels.compute_audit_ms(TERMS, replace(asked, auditors=2), [*fast, slow]) > 1_000
    rich = replace(slow, stake=2)
    assert panels.compute_audit_ms(TERMS, asked, [*fast, rich]) > 1_000


def test_nobody_is_alone_by_promising_most() -> None:
    asked = params(auditors=1)
    liar = promised("liar", 10**15, stake=60)
    others = [promised(str(number), 10**9, stake=10) for number in range(4)]
    ms = panels.compute_audit_ms(TERMS, asked, [liar, *others])
    eligible = [
        found.operator for found in (liar, *others) if panels.is_eligible(TERMS, asked, ms, found.speed, found.rate)
    ]
    assert eligible == ["liar", "0", "1", "2", "3"]


def test_without_auditors_an_audit_takes_no_time() -> None:
    assert panels.compute_audit_ms(TERMS, params(auditors=0), [promised("a", 1)]) == 0
    assert panels.compute_window(params(auditors=0, round_window=7), 0) == 7
    assert panels.verify_seconds(params(auditors=0), 0, 7) == 7
    assert panels.batch_seconds(params(auditors=0), 0, 7) == 7


def test_a_window_holds_an_audit_twenty_times() -> None:
    asked = params(round_window=300)
    assert [panels.compute_window(asked, ms) for ms in (0, 15_000, 15_001, 60_000)] == [
        300,
        300,
        301,
        1_200,
    ]


@pytest.mark.parametrize("window_max", [300, 1_000, 5_000])
def test_the_largest_segment_is_one_that_would_do(window_max: int) -> None:
    asked = params(round_window=10, window_max=window_max)
    validators = [promised("a", 10**7), promised("b", 10**8)]
    terms = make_terms(round_steps=2_000, segment_steps=2_000)
    steps = panels.largest_segment(terms, asked, validators)

    def window(count: int) -> int:
        tried = replace(terms, segment_steps=count, round_steps=2 * count)
        return panels.compute_window(asked, panels.compute_audit_ms(tried, asked, validators))

    assert window(steps) <= window_max < window(steps + 1)
    assert panels.largest_segment(terms, replace(asked, window_max=1), validators) == 0


@pytest.mark.parametrize(("audit_ms", "commits"), [(0, 20), (1, 21), (1_000, 26), (60_000, 380)])
def test_a_stage_has_a_length_of_its_own_and_holds_the_places_six_times(audit_ms: int, commits: int) -> None:
    asked = params(stage_base=20, lot_wait=5)
    assert panels.commit_seconds(asked, audit_ms) == commits
    assert panels.reveal_seconds(asked) == 20
    assert panels.stage_seconds(asked, audit_ms) == commits + 20


def test_a_round_waits_for_its_window_and_for_its_stages() -> None:
    """A window may be as short as it likes, and one that is longer than all stages is waited for."""
    asked = params(stage_base=20, lot_wait=5)
    for window in (1, 30, 200):
        assert panels.verify_seconds(asked, 1_000, window) == max(window, 5 * (5 + 26 + 20))
    assert panels.verify_seconds(asked, 1_000, 300) == 300
    assert [panels.batch_seconds(asked, 1_000, window) for window in (1, 60)] == [46, 60]


def test_the_loss_of_a_seat_is_bounded_by_its_stake() -> None:
    asked = params(answer_fee=10, seat_cut_max_bps=10)
    assert panels.seat_cut(asked, 1_000, 1) == 1_010
    assert panels.seat_cut(asked, 1_000, 3) == 3_030
    assert panels.seat_cut(asked, 1_000, 3, least=5_000) == 5_000
    assert panels.seat_cut_max(asked, 10**10) == 10**7


def test_auditors_work_has_a_least_price() -> None:
    """An order with a price limit of 1 used to keep every auditor busy for nothing."""
    asked = params(auditors=3, answer_fee=0, audit_price_min=1_000_000_000_000)
    assert panels.audit_price(asked, 1) == 10**12
    assert panels.audit_floor(TERMS, 1, asked) == panels.audit_floor(TERMS, 10**12, asked) == 3 * 46_000
