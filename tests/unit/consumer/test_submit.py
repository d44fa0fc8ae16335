"""The secret of an order is found again from the account's key, however old the order is."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chain.client.client import ChainClient
from consumer.errors import ConsumerError
from consumer.submit import SEQUENCES_TRIED, recover_secret
from domain.queries import AccountRequest
from domain.records import Order
from link.handover import order_secret, public_point
from wire.keys import Key

CHAIN_ID, JOB_ID = "assay-local-1", b"\x0b" * 32
KEY = Key(b"\x01" * 32)


@dataclass
class AccountAt:
    """A chain on which the account is at a sequence, and nothing else is known."""

    sequence: int

    def query(self, request: object) -> Any:
        assert request == AccountRequest(KEY.address)
        return SimpleNamespace(account=SimpleNamespace(sequence=self.sequence))

    def status(self) -> Any:
        return SimpleNamespace(chain_id=CHAIN_ID)


def recover(now: int, made: int, key: Key = KEY) -> bytes:
    """Recover the secret of an order that was made at a sequence, with the account at another one."""
    point = public_point(order_secret(KEY.secret, CHAIN_ID, JOB_ID, made))
    order = SimpleNamespace(order_key=point, terms=SimpleNamespace(job_id=JOB_ID))
    return recover_secret(cast(ChainClient, AccountAt(now)), key, cast(Order, order))


@pytest.mark.parametrize(
    ("now", "made"),
    [(1, 0), (0, 0), (2, 0), (8, 7), (7, 7), (1_000, 3)],
    ids=["first order", "before its block", "one later", "newest", "not included yet", "old"],
)
def test_the_secret_is_found_again(now: int, made: int) -> None:
    assert recover(now, made) == order_secret(KEY.secret, CHAIN_ID, JOB_ID, made)


def test_the_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumer.submit.SEQUENCES_TRIED", 50)
    assert SEQUENCES_TRIED > 50
    assert recover(now=60, made=11)
    with pytest.raises(ConsumerError, match="use the key that ordered"):
        recover(now=60, made=10)
