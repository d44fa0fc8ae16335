"""The metrics of a validator's daemon: what it owes and by when, and what becomes of what it does."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from chain.client.errors import ChainError, ErrorKind
from domain.ledger.queries import AccountResponse
from domain.registry.queries import ValidatorsRequest, ValidatorsResponse
from domain.registry.records import Validator
from host.lanes import Outcome
from host.metrics import Meters
from tests.support.scraped import values
from validator import metrics
from validator.decide.actions import Lane
from validator.decide.view import ChainView
from validator.work.outbox import TxOutcome

VALIDATOR = Validator("me", "", b"", b"", 1, False, "", b"", 0, 0, 0, 0)
AWAY = ChainError(ErrorKind.UNAVAILABLE, "is away", "wait")


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


class Chain:
    """A node that answers about one validator."""

    def __init__(self) -> None:
        self.jailed: tuple[str, ...] = ()
        self.away = False

    def query(self, request: Any) -> ValidatorsResponse:
        assert isinstance(request, ValidatorsRequest)
        if self.away:
            raise AWAY
        return ValidatorsResponse((), self.jailed)

    def account(self, address: str) -> AccountResponse:
        raise AWAY


def test_the_jail_of_the_consensus_is_shown_beside_that_of_panels(tmp_path: Path) -> None:
    """A validator with stake is in the set; for another one, the chain says whether it is jailed."""
    chain = Chain()
    lanes: Any = SimpleNamespace(counts=dict, failures=dict)
    store: Any = SimpleNamespace(total=lambda: 0)
    service: Any = SimpleNamespace(presence=SimpleNamespace(live=dict), view=ChainView(5, {}, {}, {}))
    health = metrics.ValidatorHealth(
        me=VALIDATOR.operator,
        node="",
        home=tmp_path,
        meters=Meters(metrics.METRICS),
        client=chain,  # type: ignore[arg-type]
        blobs=store,
        lanes=lanes,
        pools={},
        service=service,
        looked=1.0,
        away=False,
    )

    def shown(*, stake: int) -> tuple[float, float]:
        own = replace(VALIDATOR, stake=stake)
        service.view = replace(service.view, validators={own.operator: own})
        health.look()
        found = values(health.meters.text())
        return found["assay_validator_consensus_jailed",], found["assay_validator_jailed",]

    chain.jailed = (VALIDATOR.operator,)
    assert shown(stake=5) == (0, 0)
    assert shown(stake=0) == (1, 0)
    chain.jailed = ("another",)
    assert shown(stake=0) == (0, 0)
    chain.away = True
    assert shown(stake=0) == (0, 0)
