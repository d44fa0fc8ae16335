"""The metrics of a validator's daemon: what it owes and by when, and what becomes of what it does."""

from host.lanes import Outcome
from host.metrics import Meters
from tests.support.scraped import values
from validator import metrics
from validator.decide.actions import Lane
from validator.work.outbox import TxOutcome


def test_what_is_done_is_counted_by_its_outcome() -> None:
    meters = Meters(metrics.METRICS)
    counts = metrics.ValidatorCounts(meters)
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
