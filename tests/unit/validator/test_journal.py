"""What the operator reads in the log while an order runs."""

from dataclasses import replace

from domain.proof.reasons import ShareReason
from tests.unit.validator.support import chain, loaded, view
from tests.unit.validator.test_decide import planned, with_packets
from validator.decide.journal import tell
from validator.decide.orders import decide_order as decide
from validator.decide.records import CheckedSegment, new_order


def test_a_share_is_told_from_its_range_to_its_verdict() -> None:
    before = loaded()
    fresh = new_order(before.order_id, before.leg)
    start = f"order {before.order_id.hex()[:12]} leg 1"
    assert list(tell(fresh, before)) == [f"{start}: payload loaded"]
    local = planned()
    assert list(tell(before, local)) == [
        f"{start} round 0 slot {slot} issue 1: assigned to p{slot}, until chain second {work.answer_by}"
        for slot, work in enumerate(local.rounds[0].works)
    ]
    held = with_packets(local)
    assert [line.partition("issue 1: ")[2] for line in tell(local, held)] == [
        line
        for w in held.rounds[0].works
        if w.packet
        for line in (
            "commitment arrived",
            f"trace of {len(w.packet.boundaries)} segments arrived",
        )
    ]
    first, second = held.rounds[0].works
    wrong = int(ShareReason.SEGMENT_MISMATCH)
    judged = replace(first, checked=(CheckedSegment(0, 0, b""), CheckedSegment(1, wrong, b"")), verdict=wrong)
    current = replace(held.rounds[0], works=(judged, second))
    after = replace(held, rounds=(current,))
    assert [line.partition("issue 1: ")[2] for line in tell(held, after)] == [
        "segment 0: correct",
        "segment 1: segment_mismatch",
        "rejected: segment_mismatch",
    ]
    done = replace(current, next_global=current.global_in)
    assert list(tell(after, replace(after, rounds=(done,)))) == [f"{start} round 0: aggregated"]


def test_what_did_not_change_is_not_told_again() -> None:
    local = with_packets(planned())
    assert list(tell(local, local)) == []
    again, _ = decide(local, view(chain()))
    assert list(tell(local, again)) == []
