"""How the record changes when something arrives, and what is wrong with a share on its face."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from domain.keys import ShareRef
from domain.legs.reasons import LegEnd
from domain.proof.events import ShareSkipped
from domain.proof.reasons import MISMATCHES, ShareReason
from link.types import ShareDelivery, ShareSubmission
from pol.rules.commitment import check_leaf, compute_trace_root
from tests.support.chain_market import make_terms
from tests.unit.validator.support import (
    CHAIN_ID,
    FILES,
    ORDER_ID,
    TERMS,
    WORKERS,
    chain,
    claim_of,
    ended,
    loaded,
    packet_of,
    share_key,
    share_of,
    signed_of,
    view,
    works,
)
from validator.decide.orders import decide_order as decide
from validator.decide.receive import (
    delivery_opened,
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
from validator.decide.traces import leaf_with_path, leaves_of
from validator.store import ValidatorStore


def planned() -> tuple[LocalOrder, SlotWork]:
    local, _ = decide(loaded(), view(chain()))
    return local, next(works(local))


def test_a_job_that_does_not_load_or_differs_is_declined_with_its_reason() -> None:
    local = payload_complete(payload_offered(new_order(ORDER_ID, 1), FILES))
    bad = job_loaded(local, TERMS, None, "job.json: It is not JSON.").payload
    assert (bad.stage, bad.decline) == (PayloadStage.BAD, LegEnd.DECLINED_BAD_JOB)
    assert "JSON" in bad.text
    other = job_loaded(local, TERMS, make_terms(rounds=7), "").payload
    assert (other.stage, other.decline) == (PayloadStage.BAD, LegEnd.DECLINED_WORK_MISMATCH)
    assert "rounds" in other.text


def test_a_commitment_that_went_out_twice_does_not_end_what_stands() -> None:
    local, work = planned()
    packet = signed_of(local, work)
    taken = ShareSkipped(packet.claim.key, packet.claim.provider, int(ShareReason.SLOT_TAKEN), 0)
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
        # Its validator recomputes what was sent wrongly.
        (ShareReason.OPENING_MISMATCH, []),
        (ShareReason.SEGMENT_MISMATCH, [True]),
        (ShareReason.NONE, [True]),
    ):
        checked = CheckedSegment(2, reason, b"")
        after = next(works(segment_checked(local, share_key(work.slot, work.issue), checked)))
        assert [o.verified for o in after.openings] == verified
        assert after.alone == (() if verified else (2,))
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
    packet = signed_of(local, work)
    assert mark_late(local, packet) == local
    never = replace(local.rounds[0], works=(replace(work, verdict=ShareReason.NO_ANSWER),))
    late = mark_late(replace(local, rounds=(never,)), packet)
    assert next(works(late)).verdict == ShareReason.LATE


def bound(packet: ShareDelivery) -> ShareDelivery:
    """Return the packet with the trace root of its boundaries."""
    root = compute_trace_root(leaves_of(packet))
    return replace(packet, roots=replace(packet.roots, trace_root=root))


def boundary(packet: ShareDelivery, at: int, **changes: Any) -> ShareDelivery:
    boundaries = [*packet.boundaries]
    boundaries[at] = replace(boundaries[at], **changes)
    return bound(replace(packet, boundaries=tuple(boundaries)))


def signed(local: LocalOrder, work: SlotWork, packet: ShareDelivery) -> LocalOrder:
    """Record a commitment to ``packet``."""
    submission = ShareSubmission(claim_of(local, work, packet), bytes(64))
    after, reason = share_received(local, submission, lambda: True)
    assert reason is ShareReason.NONE
    return after


def test_what_a_commitment_binds_is_right_or_a_mismatch() -> None:
    """All pieces of the delivery have their hashes by then, so the commitment binds what is wrong."""
    local, work = planned()
    packet, infinite = packet_of(local, work), (0xFF800000,)
    forged = replace(packet.roots, metrics=infinite)
    endless = boundary(replace(packet, roots=forged), -1, metrics=infinite)
    for verdict, committed in (
        (ShareReason.NONE, packet),
        # The metrics stand in the last leaf.
        (ShareReason.NOT_FINITE, endless),
        (ShareReason.SEGMENT_MISMATCH, boundary(packet, 1, step=99)),
        (ShareReason.SEGMENT_MISMATCH, boundary(packet, 1, metrics=infinite)),
        (ShareReason.UPDATE_MISMATCH, replace(packet, update=packet.local_out)),
    ):
        after = delivery_opened(signed(local, work, committed), TERMS, CHAIN_ID, committed, ())
        ended = next(works(after))
        assert (ended.verdict, ended.packet) == (verdict, None if verdict else packet)
        assert not ended.settled  # the chain holds its commitment
    leaf = leaf_with_path(packet, 2)
    assert check_leaf(packet.roots.trace_root, 4, leaf)


def test_an_alarm_of_a_delivery_is_kept(tmp_path: Path) -> None:
    local, work = planned()
    packet = packet_of(local, work)
    still = boundary(packet, 1, boundary_root=packet.boundaries[0].boundary_root)
    made = signed(local, work, still)
    after = delivery_opened(made, TERMS, CHAIN_ID, still, ())
    assert next(works(after)).alarms == ("still",)
    store = ValidatorStore(tmp_path / "validator.db")
    store.save(after)
    store.close()
    store = ValidatorStore(tmp_path / "validator.db")
    assert store.load(after.order_id, after.leg) == after
    store.close()


def test_a_share_for_work_that_nobody_gave_out_changes_nothing() -> None:
    local, work = planned()
    right = signed_of(local, work)
    for changes in ({"round": 1}, {"slot": 7}, {"slot": 1}, {"issue": 2}, {"provider": "p1"}):
        odd = replace(right, claim=replace(right.claim, **changes))
        after, reason = share_received(local, odd, lambda: True)
        assert (after, reason) == (local, ShareReason.MALFORMED)
    packet = packet_of(local, work)
    # Nothing is taken that nobody is committed to.
    assert delivery_opened(local, TERMS, CHAIN_ID, packet, ()) == local


def test_a_share_that_is_refused_ends_nothing() -> None:
    """Until the deadline of the task, its provider can put the right one on chain itself and be paid."""
    local, work = planned()
    right = signed_of(local, work)
    for claim in (replace(right.claim, multiple=2), replace(right.claim, cover=1)):
        odd = replace(right, claim=claim)
        assert share_received(local, odd, lambda: True) == (local, ShareReason.MALFORMED)
    assert share_received(local, right, lambda: False) == (local, ShareReason.BAD_SIGNATURE)


def test_every_place_of_a_suspect_share_is_replayed() -> None:
    local, _ = decide(loaded(), view(chain(), workers=WORKERS[:1]))
    (current,) = local.rounds
    work = current.works[0]
    share = share_of(signed_of(local, work))
    work = replace(work, packet=packet_of(local, work))
    duty = segments_to_check(current, work, share)
    assert {1, 4} <= set(duty)
    assert len(duty) <= 3
    suspect = replace(current, suspects=(ShareRef(0, 1),))
    assert segments_to_check(suspect, work, share) == tuple(range(5))


def delivered(packet: ShareDelivery) -> tuple[LocalOrder, ShareReason]:
    """Return what becomes of a delivery to which its provider committed."""
    local, work = planned()
    signed = ShareSubmission(claim_of(local, work, packet), bytes(64))
    local, reason = share_received(local, signed, lambda: True)
    assert reason == ShareReason.NONE
    after = delivery_opened(local, TERMS, CHAIN_ID, packet, ())
    return after, ShareReason(next(works(after)).verdict)


@pytest.mark.parametrize("segments", [0, 1, 3, 4])
def test_a_share_that_ends_where_the_job_stops_is_taken(segments: int) -> None:
    local, work = planned()
    packet = ended(packet_of(local, work), segments)
    after, reason = delivered(packet)
    assert reason == ShareReason.NONE
    assert next(works(after)).packet == packet


def test_what_is_neither_whole_nor_ended_is_not_taken() -> None:
    local, work = planned()
    whole = packet_of(local, work)
    short = ended(whole, 2)
    roots = short.roots
    for odd in (
        replace(whole, update=None),
        replace(whole, local_out=None),
        replace(whole, boundaries=whole.boundaries[:2]),
        replace(short, update=whole.update, local_out=whole.local_out),
        replace(short, boundaries=whole.boundaries),
        replace(short, roots=replace(roots, segments=3)),
        replace(short, roots=replace(roots, segments=0)),
        replace(short, roots=replace(roots, local_out=whole.roots.local_out)),
        replace(short, roots=replace(roots, metrics=())),
    ):
        after, reason = delivered(odd)
        assert reason in MISMATCHES
        assert next(works(after)).packet is None
