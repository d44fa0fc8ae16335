"""How the record changes when something arrives, and what is wrong with a share on its face."""

from dataclasses import replace
from typing import Any

import pytest

from domain.events import ShareSkipped
from domain.hashing import merkle_root
from domain.params import OrderParams
from domain.reasons import AttemptEnd, ShareReason
from domain.records import ShareRef
from link.types import LEAVES_MAX, ShareSubmission
from pol.rules.commitment import check_leaf
from tests.support.chain_market import digest, make_terms
from tests.unit.validator.support import (
    CHAIN_ID,
    FILES,
    ORDER_ID,
    PARAMS,
    TERMS,
    WORKERS,
    chain,
    loaded,
    packet_of,
    share_key,
    share_of,
    view,
    works,
)
from validator.decide.orders import decide_order as decide
from validator.decide.receive import (
    job_loaded,
    mark_late,
    payload_complete,
    payload_offered,
    segment_checked,
    share_received,
    share_skipped,
    state_recomputed,
)
from validator.decide.records import (
    CheckedSegment,
    LocalOrder,
    Opening,
    PayloadStage,
    SlotWork,
    new_order,
)
from validator.decide.rounds import segments_to_check
from validator.decide.traces import leaf_hashes, trace_leaf_of


def planned() -> tuple[LocalOrder, SlotWork]:
    local, _ = decide(loaded(), view(chain()))
    return local, next(works(local))


def test_a_job_that_does_not_load_or_differs_is_declined_with_its_reason() -> None:
    local = payload_complete(payload_offered(new_order(ORDER_ID, 1), FILES))
    bad = job_loaded(local, TERMS, None, "job.json: It is not JSON.").payload
    assert (bad.stage, bad.decline) == (PayloadStage.BAD, AttemptEnd.DECLINED_BAD_JOB)
    assert "JSON" in bad.text
    other = job_loaded(local, TERMS, make_terms(rounds=7), "").payload
    assert (other.stage, other.decline) == (PayloadStage.BAD, AttemptEnd.DECLINED_WORK_MISMATCH)
    assert "rounds" in other.text


def test_a_commitment_that_went_out_twice_does_not_end_what_stands() -> None:
    local, work = planned()
    packet = packet_of(local, work)
    taken = ShareSkipped(packet.claim.key, packet.claim.provider, int(ShareReason.SLOT_TAKEN))
    assert share_skipped(local, chain(shares=(share_of(packet),)), taken) == local
    ended = next(works(share_skipped(local, chain(), taken)))
    assert (ended.verdict, ended.settled) == (ShareReason.SLOT_TAKEN, True)
    other = replace(taken, share=replace(taken.share, slot=9))
    assert share_skipped(local, chain(), other) == local


def test_only_states_that_hash_to_their_leaf_are_handed_on() -> None:
    local, work = planned()
    opening = Opening(2, FILES[1].blob, FILES[2].blob, verified=False)
    (current,) = local.rounds
    held = replace(work, openings=(opening,))
    local = replace(local, rounds=(replace(current, works=(held, *current.works[1:])),))
    for reason, verified in (
        (ShareReason.OPENING_MISMATCH, False),
        (ShareReason.SEGMENT_MISMATCH, True),
        (ShareReason.NONE, True),
    ):
        checked = CheckedSegment(2, reason, b"")
        after = next(works(segment_checked(local, share_key(work.slot, work.issue), checked)))
        assert [o.verified for o in after.openings] == [verified]
    states = (FILES[2].blob, FILES[2].blob)  # what was recomputed takes the place of what was sent
    after = next(works(state_recomputed(local, share_key(work.slot, work.issue), 2, states)))
    assert after.openings == (Opening(2, *states, verified=True),)


def test_a_replay_that_comes_twice_counts_once() -> None:
    local, work = planned()
    first, second = (CheckedSegment(0, reason, b"") for reason in (0, 1))
    key = share_key(work.slot, work.issue)
    once = segment_checked(local, key, first)
    assert segment_checked(once, key, second) == once
    assert segment_checked(local, replace(key, round=5), first) == local


def test_late_is_only_what_had_no_answer() -> None:
    local, work = planned()
    packet = packet_of(local, work)
    assert mark_late(local, packet) == local
    never = replace(local.rounds[0], works=(replace(work, verdict=ShareReason.NO_ANSWER),))
    late = mark_late(replace(local, rounds=(never,)), packet)
    assert next(works(late)).verdict == ShareReason.LATE


def bound(packet: ShareSubmission) -> ShareSubmission:
    """Return the packet with the trace root of its leaves."""
    root = merkle_root(leaf_hashes(CHAIN_ID, packet))
    return replace(packet, claim=replace(packet.claim, trace_root=root))


def leaf(packet: ShareSubmission, at: int, **changes: Any) -> ShareSubmission:
    leaves = [*packet.leaves]
    leaves[at] = replace(leaves[at], **changes)
    return bound(replace(packet, leaves=tuple(leaves)))


def test_a_packet_is_checked_leaf_by_leaf() -> None:
    local, work = planned()
    packet = packet_of(local, work)
    claim = packet.claim
    for reason, wrong in (
        (ShareReason.NONE, packet),
        (ShareReason.TRACE_NOT_BOUND, leaf(packet, 0, boundary_root=digest("another opening"))),
        (ShareReason.TRACE_NOT_BOUND, replace(packet, claim=replace(claim, trace_root=bytes(32)))),
        (ShareReason.MALFORMED, leaf(packet, 1, step=99)),
        (ShareReason.MALFORMED, leaf(packet, 1, index=2)),
        (ShareReason.NOT_FINITE, leaf(packet, 1, metrics=(0xFF800000,))),
        (ShareReason.MALFORMED, replace(packet, claim=replace(claim, segments=5))),
        (ShareReason.MALFORMED, replace(packet, claim=replace(claim, executor_version=2))),
        (ShareReason.MALFORMED, replace(packet, claim=replace(claim, global_in=bytes(32)))),
        (ShareReason.MALFORMED, replace(packet, claim=replace(claim, update_root=b"short"))),
    ):
        _, found = share_received(local, TERMS, CHAIN_ID, wrong, lambda: True)
        assert found is reason
    boundary = trace_leaf_of(packet, 2, CHAIN_ID)
    assert check_leaf(CHAIN_ID, claim, boundary)
    assert not check_leaf("another-chain", claim, boundary)


def test_a_share_for_work_that_nobody_gave_out_changes_nothing() -> None:
    local, work = planned()
    for changes in ({"round": 1}, {"slot": 7}, {"issue": 2}, {"provider": "p1"}):
        packet = packet_of(local, work)
        odd = replace(packet, claim=replace(packet.claim, **changes))
        after, reason = share_received(local, TERMS, CHAIN_ID, odd, lambda: True)
        assert (after, reason) == (local, ShareReason.MALFORMED)


@pytest.mark.parametrize("speed", [10**9, 10**15])
def test_no_share_is_larger_than_auditors_and_the_link_can_bear(speed: int) -> None:
    terms = make_terms(samples_per_round=4 * 40_000, batch=2, segment_length=2, work_per_step=10**6)
    params: OrderParams = replace(PARAMS, reference_speed=speed)
    local = loaded()
    now = chain(ordered={"terms": terms, "params": params})
    after, _ = decide(local, view(now, workers=WORKERS[:1]))
    segments = [work.count // 4 for work in works(after)]
    assert sum(segments) == 40_000
    assert max(segments) <= min(LEAVES_MAX - 1, params.range_work_max // (2 * 10**6))


def test_every_place_of_a_suspect_share_is_replayed() -> None:
    local, _ = decide(loaded(), view(chain(), workers=WORKERS[:1]))
    (current,) = local.rounds
    (work,) = current.works
    share = share_of(packet_of(local, work))
    duty = segments_to_check(current, work, share)
    assert {0, 1, 7, 8} <= set(duty)
    assert len(duty) <= 5
    suspect = replace(current, suspects=(ShareRef(0, 1),))
    assert segments_to_check(suspect, work, share) == tuple(range(9))
