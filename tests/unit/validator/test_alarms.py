"""Alarms: signs that a share may be made up, which make its validator replay more of it."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.keys import ShareKey
from domain.proof.records import ShareRoots
from link.types import ShareDelivery, ShareSubmission, TraceBoundary
from pol.rules.schedule import share_segments
from tests.support.chain_market import digest
from tests.unit.validator.support import ORDER_ID, TERMS, chain, claim_of, leg, loaded, share_of, state, view
from tests.unit.validator.test_records import work
from validator.decide.alarms import Alarm, find_alarms, ordered
from validator.decide.assign import new_work
from validator.decide.records import LocalOrder, LocalRound, SlotWork, new_order
from validator.decide.rounds import duty_of

SEGMENTS = 4
SLOTS = 5


def bits(number: float) -> int:
    (found,) = struct.unpack(">I", struct.pack(">f", number))
    return int(found)


def delivery(slot: int, round: int = 0, *, loss: float = 0.5, **changes: object) -> ShareDelivery:
    """Return an honest delivery; all of its roots differ from those of others."""
    metrics = (bits(loss),)
    boundaries = tuple(TraceBoundary(at, digest("boundary", round, slot, at), metrics) for at in range(1, SEGMENTS + 1))
    update = digest("update", round, slot)
    roots = ShareRoots(digest("trace", round, slot), update, digest("local", round, slot), metrics, SEGMENTS)
    blob = state("update").blob
    made = ShareDelivery(ShareKey(ORDER_ID, 1, round, slot, 1), roots, boundaries, blob, blob)
    return replace(made, **changes)  # type: ignore[arg-type]


def delivered(slot: int, round: int = 0, loss: float = 0.5) -> SlotWork:
    return replace(work(slot, 1), packet=delivery(slot, round, loss=loss), given_at=100, handed_at=140, expected=40)


def record(*losses: float) -> LocalOrder:
    """Return the record of a leg: a whole round 0, and a round 1 whose shares have these losses, but for slot 0."""
    rounds = []
    for round, works in (
        (0, tuple(delivered(slot) for slot in range(SLOTS))),
        (1, (work(0, 1), *(delivered(slot, 1, loss) for slot, loss in enumerate(losses, 1)))),
    ):
        rounds.append(LocalRound(round, state("global"), works, None, (), 0, None))
    return replace(new_order(ORDER_ID, 1), rounds=tuple(rounds))


def rung(packet: ShareDelivery, own: SlotWork | None = None, *losses: float) -> tuple[Alarm, ...]:
    local = record(*(losses or (0.4, 0.5, 0.55, 0.6)))
    made = own or replace(delivered(0, 1), packet=None)
    return find_alarms(local, local.rounds[1], made, packet)


def test_an_honest_share_has_no_alarm() -> None:
    assert rung(delivery(0, 1)) == ()
    assert rung(delivery(0, 1, loss=0.95)) == ()  # not twice as large as the others


def test_a_share_that_took_no_time_is_too_quick() -> None:
    own = replace(delivered(0, 1), packet=None)
    assert rung(delivery(0, 1), replace(own, handed_at=113)) == (Alarm.QUICK,)
    assert rung(delivery(0, 1), replace(own, handed_at=114)) == ()
    assert rung(delivery(0, 1), replace(own, handed_at=100, expected=9)) == ()  # too short to tell
    assert rung(delivery(0, 1), replace(own, handed_at=100, expected=0)) == ()  # of a provider without a speed


def test_a_segment_that_changes_nothing_is_still() -> None:
    boundaries = delivery(0, 1).boundaries
    same = (*boundaries[:2], replace(boundaries[1], step=3), boundaries[3])
    assert rung(delivery(0, 1, boundaries=same)) == (Alarm.STILL,)


@pytest.mark.parametrize(("round", "slot"), [(0, 0), (0, 3), (1, 2)])
def test_an_update_of_another_slot_or_round_is_repeated(round: int, slot: int) -> None:
    roots = replace(delivery(0, 1).roots, update_root=digest("update", round, slot))
    assert rung(delivery(0, 1, roots=roots)) == (Alarm.REPEATED,)


def test_the_same_slot_may_be_trained_again() -> None:
    local = record(0.5, 0.5, 0.5)
    (first, *others) = local.rounds[1].works
    again = replace(local.rounds[1], works=(replace(first, packet=delivery(0, 1)), *others, work(0, 2)))
    local = replace(local, rounds=(local.rounds[0], again))
    assert find_alarms(local, again, replace(delivered(0, 1), issue=2), delivery(0, 1)) == ()


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), -float("inf"), 50.0, 0.001, -0.5])
def test_a_metric_far_from_the_others_is_odd(loss: float) -> None:
    assert rung(delivery(0, 1, loss=loss)) == (Alarm.METRIC,)


def test_a_metric_is_compared_with_enough_others() -> None:
    assert rung(delivery(0, 1, loss=50.0), None, 0.5, 0.5) == ()
    assert rung(delivery(0, 1, loss=50.0), None, 0.5, 0.5, 0.5) == (Alarm.METRIC,)
    # Where the others differ much, so may this one.
    assert rung(delivery(0, 1, loss=8.0), None, 0.1, 0.5, 2.0, 4.0) == ()


def test_a_share_that_stopped_has_neither_update_nor_metrics() -> None:
    roots = ShareRoots(digest("trace"), b"", b"", (), 2)
    assert rung(delivery(0, 1, roots=roots, boundaries=delivery(0, 1).boundaries[:2], update=None)) == ()


@given(st.floats(width=32, allow_nan=False), st.floats(width=32, allow_nan=False))
def test_the_order_of_bits_is_that_of_numbers(one: float, other: float) -> None:
    assert (one < other) == (ordered(bits(one)) < ordered(bits(other)))


def test_more_of_a_share_with_an_alarm_is_replayed() -> None:
    own = replace(delivered(0), picks=(0,), spare=(2, 3, SEGMENTS + 1))
    share = share_of(ShareSubmission(claim_of(record(0.5), own, own.packet), bytes(64)))
    assert duty_of(own, share) == (0, 1, SEGMENTS)
    assert duty_of(replace(own, alarms=("quick",)), share) == (0, 1, 2, 3, SEGMENTS)


def test_any_segment_may_be_the_one_that_is_always_replayed() -> None:
    """Otherwise a provider knows which segments it need not train."""
    own = leg()
    made = {new_work(loaded(), view(chain(), secret=digest(at)), own, 0, "p0", 0).picks for at in range(60)}
    assert made == {(segment,) for segment in range(share_segments(TERMS))}
