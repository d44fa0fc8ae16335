"""What a validator owes, by kind and with the time that is left."""

from dataclasses import replace

import pytest

from domain.legs.records import LegState
from domain.proof.queries import PanelDuty
from tests.unit.validator.support import ME, ORDER_ID, leg
from validator.decide.deadlines import DutyKind, OpenDuty, open_duties

CLOCK = 50
SEAT = PanelDuty(b"\x01" * 32, 1, 0, 1, bytes(32), (), CLOCK + 7, CLOCK + 20, b"")


@pytest.mark.parametrize(
    ("state", "deadlines", "kind", "left"),
    [
        (LegState.MATCHED, {"accept_deadline": CLOCK + 3}, DutyKind.ACCEPT, 3),
        (LegState.RUNNING, {"progress_deadline": CLOCK - 4}, DutyKind.TRAIN, -4),
        (LegState.PROVEN, {}, DutyKind.WINDOW, None),
    ],
)
def test_an_order_that_it_won_is_a_duty_until_it_is_over(
    state: LegState, deadlines: dict[str, int], kind: DutyKind, left: int | None
) -> None:
    won = leg(state=state, **deadlines)
    assert list(open_duties([won], [], CLOCK, ME)) == [OpenDuty(kind, ORDER_ID, left)]
    assert list(open_duties([won], [], CLOCK, "somebody")) == []
    over = replace(won, state=LegState.FAILED)
    assert list(open_duties([over], [], CLOCK, ME)) == []


def test_a_seat_is_to_commit_and_then_to_reveal() -> None:
    committed = replace(SEAT, commitment=b"\x02" * 32)
    assert list(open_duties([], [SEAT, committed], CLOCK, ME)) == [
        OpenDuty(DutyKind.COMMIT, SEAT.order_id, 7),
        OpenDuty(DutyKind.REVEAL, SEAT.order_id, 20),
    ]
