"""The metrics of a validator's daemon: what it owes and by when, and what becomes of what it does."""

from dataclasses import replace

import pytest

from domain.queries import PanelDuty
from domain.records import AssignmentState
from host.lanes import Outcome
from host.metrics import Meters
from tests.support.scraped import values
from tests.unit.validator.support import ME, chain
from validator import metrics
from validator.decide.actions import Lane
from validator.decide.records import seat_key
from validator.decide.view import ChainView
from validator.work.outbox import TxOutcome

CLOCK = 50
SEAT = PanelDuty(b"\x01" * 32, 1, 0, 1, bytes(32), (), CLOCK + 7, CLOCK + 20, b"")


def view(state: AssignmentState, *duties: PanelDuty, **assigned: object) -> ChainView:
    on_chain = chain(assigned={"state": state, **assigned})
    orders = {on_chain.order.id: on_chain}
    return ChainView(CLOCK, orders, {}, {}, duties={seat_key(duty): duty for duty in duties})


@pytest.mark.parametrize(
    ("seen", "kind", "left"),
    [
        (view(AssignmentState.MATCHED, accept_deadline=CLOCK + 3), "accept", 3),
        (view(AssignmentState.RUNNING, progress_deadline=CLOCK - 4), "train", -4),
        (view(AssignmentState.PROVEN), "window", None),
        (view(AssignmentState.FAILED, SEAT), "commit", 7),
        (view(AssignmentState.FAILED, replace(SEAT, commitment=b"\x02" * 32)), "reveal", 20),
    ],
)
def test_every_duty_has_its_kind_and_its_deadline(
    seen: ChainView, kind: str, left: int | None
) -> None:
    found = metrics.deadlines(seen, ME)
    assert {name: seconds for name, seconds in found.items() if seconds} == {kind: [left]}


def test_the_orders_of_others_are_no_duty() -> None:
    assert not any(metrics.deadlines(view(AssignmentState.RUNNING), "somebody").values())


def test_what_is_done_is_counted_by_its_outcome() -> None:
    meters = Meters(metrics.METRICS)
    counts = metrics.Counts(meters)
    counts.ended(Lane.AUDIT, Outcome.FAILED)
    counts.sent(TxOutcome.REFUSED)
    counts.replays("seats")(2.5, None)
    counts.replays("seats")(1.0, TimeoutError())
    verify = counts.verifying(lambda key, message, signature: signature == b"good")
    assert verify(b"", b"", b"good")
    assert not verify(b"", b"", b"bad")
    found = values(meters.text())
    assert found["assay_validator_actions_total", "audit", "failed"] == 1
    assert found["assay_validator_txs_total", "refused"] == 1
    assert found["assay_validator_replay_seconds_sum", "done", "seats"] == 2.5
    assert found["assay_validator_replay_seconds_count", "failed", "seats"] == 1
    assert found["assay_validator_signatures_total", "right"] == 1
    assert found["assay_validator_signatures_total", "wrong"] == 1
