"""The comparison of replicas: which results confirm each other, and where traces depart from each other."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.keys import ShareRef
from domain.proof.records import AuditKind, AuditPlace, Round, ShareRoots
from pol.rules.replicas import (
    Result,
    confirm,
    find_departures,
    find_slot,
    put_departures,
    replica_id,
)
from pol.rules.schedule import share_segments
from tests.support.chain_market import digest, make_terms

TERMS = make_terms(round_steps=12)
SEGMENTS = share_segments(TERMS)


def make_roots(name: str = "right", segments: int = SEGMENTS, **changes: Any) -> ShareRoots:
    made = ShareRoots(
        trace_root=digest("trace", name),
        update_root=digest("update", name),
        local_out=digest("local", name),
        metrics=(1,),
        segments=segments,
    )
    return replace(made, **changes)


def make_result(*names: str, issue: int = 1, local_in: str = "local", **changes: Any) -> Result:
    closed = Round(
        order_id=digest("order"),
        leg=1,
        round=0,
        global_in=digest("global"),
        next_root=digest("next"),
        ciphertext_root=b"",
        shares=tuple(ShareRef(slot, issue) for slot in range(len(names))),
        work=1,
        closed_at=1,
        closed_height=1,
        window_ends=1,
        verified=False,
        void=False,
    )
    roots = tuple(make_roots(f"{name}/{slot}") for slot, name in enumerate(names))
    return Result(replace(closed, **changes), (digest(local_in),) * len(names), roots)


RIGHT = make_result("right", "right")


@pytest.mark.parametrize(
    ("other", "confirmed"),
    [
        (make_result("right", "right", issue=7, ciphertext_root=b"c" * 32), True),
        (make_result("right", "wrong"), False),
        (make_result("right", "right", next_root=digest("other")), False),
        (make_result("right", "right", next_root=b"", stopped=AuditPlace(AuditKind.AGGREGATION, 0, 0, 0)), False),
        (make_result("right", "right", late=True), None),
        (make_result("right", "right", global_in=digest("elsewhere")), None),
        (make_result("right", "right", local_in="elsewhere"), None),
    ],
)
def test_what_confirms_a_round(other: Result, confirmed: bool | None) -> None:
    assert confirm(RIGHT, [other]) is confirmed


def test_one_contradiction_is_enough_and_a_late_round_has_none() -> None:
    assert confirm(RIGHT, [RIGHT, make_result("wrong", "right")]) is False
    assert confirm(make_result("right", "right", late=True), [RIGHT]) is None
    assert confirm(RIGHT, []) is None


def test_the_first_slot_that_differs_is_named() -> None:
    assert find_slot([RIGHT, make_result("right", "wrong")]) == 1
    assert find_slot([RIGHT, RIGHT, make_result("wrong", "wrong")]) == 0
    assert find_slot([RIGHT, make_result("right", "right", next_root=digest("other"))]) is None


def test_replicas_have_ids_of_their_own() -> None:
    first = digest("first")
    names = [replica_id(first, number) for number in range(4)]
    assert names[0] == first
    assert len(set(names)) == 4


LEAVES = st.lists(st.sampled_from([b"a" * 32, b"b" * 32]), min_size=SEGMENTS, max_size=SEGMENTS)


@given(st.lists(LEAVES, min_size=2, max_size=4))
def test_the_places_are_those_behind_the_last_equal_leaf(traces: list[list[bytes]]) -> None:
    shown = {bytes([number]): (number + 1, make_roots(repr(leaves)), leaves) for number, leaves in enumerate(traces)}
    found = find_departures(TERMS, 3, shown)
    for name, (issue, roots, leaves) in shown.items():
        expected = set()
        for other, (_, theirs, their_leaves) in shown.items():
            if other != name and theirs != roots:
                at = next(n for n in range(SEGMENTS) if leaves[n] != their_leaves[n])
                assert leaves[:at] == their_leaves[:at]
                expected.add(AuditPlace(kind=AuditKind.SEGMENT, slot=3, issue=issue, segment=at))
        assert found[name] == expected


@pytest.mark.parametrize(
    ("own", "theirs", "place"),
    [
        # The traces are equal, so they differ in the update.
        ((SEGMENTS, {}), (SEGMENTS, {"update_root": b"u" * 32}), (AuditKind.UPDATE, SEGMENTS)),
        # One of them stopped, or both did in different steps.
        ((SEGMENTS, {}), (2, {"update_root": b"", "local_out": b""}), (AuditKind.SEGMENT, 2)),
        ((2, {"steps": 1}), (2, {"steps": 0}), (AuditKind.SEGMENT, 2)),
        ((SEGMENTS, {}), (SEGMENTS, {"update_root": b"", "local_out": b""}), (AuditKind.UPDATE, SEGMENTS)),
    ],
)
def test_departures_behind_equal_leaves(
    own: tuple[int, dict[str, Any]], theirs: tuple[int, dict[str, Any]], place: tuple[AuditKind, int]
) -> None:
    leaves = [bytes([number]) * 32 for number in range(SEGMENTS)]
    shown = {
        name: (1, make_roots(segments=segments, **changes), leaves[:segments])
        for name, (segments, changes) in ((b"own", own), (b"theirs", theirs))
    }
    for places in find_departures(TERMS, 0, shown).values():
        assert [(found.kind, found.segment) for found in places] == [place]


def segment(number: int, slot: int = 0) -> AuditPlace:
    return AuditPlace(kind=AuditKind.SEGMENT, slot=slot, issue=1, segment=number)


AGGREGATION = AuditPlace(kind=AuditKind.AGGREGATION, slot=0, issue=0, segment=0)
DRAWN = (AGGREGATION, AuditPlace(kind=AuditKind.UPDATE, slot=1, issue=1, segment=4), segment(0), segment(3))


def test_departures_take_the_place_of_drawn_ones_of_their_kind() -> None:
    assert put_departures(DRAWN, [segment(5)], None) == (*DRAWN[:3], segment(5))
    assert put_departures(DRAWN, [segment(3)], None) == DRAWN
    update = AuditPlace(kind=AuditKind.UPDATE, slot=0, issue=1, segment=4)
    assert put_departures(DRAWN, [update], None) == (AGGREGATION, *DRAWN[2:], update)
    # The place of the stop, and other departures, stay.
    assert put_departures(DRAWN, [segment(0), segment(5)], segment(3)) == (*DRAWN, segment(5))
