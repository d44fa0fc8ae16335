"""Looking ahead: every transaction once, on two threads where there are many, and never a verdict."""

import logging
from threading import get_ident

import pytest

from chain.app.ahead import Ahead
from chain.state_machine.store import MemoryStore
from domain.errors import TX_DECODE, Refusal
from domain.tx import Tx

RAWS = [b"%d" % number for number in range(100)]
NOTHING = MemoryStore()


def ahead_of(seen: list[bytes], threads: set[int]) -> Ahead:
    """Look at bytes that are no transactions, so that nobody's signature can hold."""

    def decode(raw: bytes) -> Tx | Refusal:
        seen.append(raw)
        threads.add(get_ident())
        return Refusal(TX_DECODE, "tx", "is none")

    return Ahead(decode, lambda *_: True)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 99, 100])
def test_each_is_looked_at_once(count: int) -> None:
    seen: list[bytes] = []
    threads: set[int] = set()
    ahead = ahead_of(seen, threads)
    ahead.fetch(NOTHING, "chain", RAWS[:count])
    assert sorted(seen) == sorted(RAWS[:count])
    assert len(threads) == min(count, 1) or count >= 8
    assert not any(ahead.take(raw) for raw in RAWS)


def test_a_bug_in_a_look_is_logged_and_costs_only_the_look(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def decode(raw: bytes) -> Tx | Refusal:
        raise ZeroDivisionError(raw)

    ahead = Ahead(decode, lambda *_: True)
    with caplog.at_level(logging.ERROR):
        ahead.fetch(NOTHING, "chain", RAWS)
    assert "CheckTx goes on without it" in caplog.text
    assert not ahead.take(RAWS[0])
