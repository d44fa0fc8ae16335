"""Which rulings a validator's daemon appeals, and what waits until they are decided."""

from dataclasses import replace

import pytest

from domain.disputes.messages import MsgAppeal
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, AuditPlace, Panel, PanelPlace, Ruling
from pol.rules.stops import AGGREGATION
from tests.support.chain_market import digest
from tests.unit.validator.support import ORDER_ID, chain, loaded, panel, view
from validator.decide.appeals import appeals, is_ruled_against
from validator.decide.orders import decide_order
from validator.decide.records import CheckedSegment, LocalOrder

UNTIL = 80
SEGMENT = AuditPlace(AuditKind.SEGMENT, 0, 1, 1)


def ruled(place: AuditPlace = AGGREGATION, **changes: object) -> Panel:
    """Return a panel that found a place of round 0 wrong in its second stage."""
    wrong = PanelPlace(place, b"", Ruling.WRONG, 2, None)
    return replace(panel(place), places=(wrong,), stage=2, is_open=False, appeal_until=UNTIL, **changes)  # type: ignore[arg-type]


def on_chain(found: Panel) -> OrderResponse:
    return chain(panels=(found,))


def planned() -> LocalOrder:
    return decide_order(loaded(), view(chain()))[0]


def sent(local: LocalOrder, found: Panel, clock: int = 10) -> list[object]:
    seen = on_chain(found)
    return [m for action in appeals(local, view(seen, clock), seen.legs[0], "x") for m in action.messages]  # type: ignore[union-attr]


def test_what_it_computed_itself_is_appealed_in_time() -> None:
    local = planned()
    assert sent(local, ruled()) == [MsgAppeal("v0", ORDER_ID, 1, 0, 0)]
    assert sent(local, ruled(dispute=3)) == [MsgAppeal("v0", ORDER_ID, 1, 0, 3)]
    assert not sent(local, ruled(), UNTIL)
    assert not sent(local, ruled(appellant="carol"))
    assert not sent(local, ruled(is_settled=True))
    assert not sent(local, ruled(round=1))


@pytest.mark.parametrize(("segment", "reason", "is_appealed"), [(1, 0, True), (0, 0, False), (1, 10105, False)])
def test_a_segment_is_appealed_only_if_it_was_replayed_and_is_right(
    segment: int, reason: int, is_appealed: bool
) -> None:
    local = planned()
    (current,) = local.rounds
    done = CheckedSegment(segment, ShareReason(reason), digest("end"))
    works = tuple(replace(work, checked=(done,)) for work in current.works)
    local = local.put(replace(current, works=works))
    assert bool(sent(local, ruled(SEGMENT))) is is_appealed


def test_no_work_is_given_out_while_a_ruling_is_in_doubt() -> None:
    for found in (ruled(), replace(ruled(appellant="carol"), places=panel(AGGREGATION).places)):
        seen = on_chain(found)
        assert is_ruled_against(seen, seen.legs[0])
        local, _ = decide_order(loaded(), view(seen))
        assert not [work for current in local.rounds for work in current.works]
    assert [work for current in planned().rounds for work in current.works]
    over = on_chain(ruled(appellant="carol", is_settled=True))
    assert not is_ruled_against(over, over.legs[0])
