"""Looking ahead: every transaction once, and never a wrong verdict."""

import logging

import pytest

from chain.app.ahead import Ahead
from chain.state_machine.ledger.tables import ACCOUNTS
from chain.state_machine.store import MemoryStore, Overlay
from domain.errors import TX_DECODE, Refusal
from domain.messages import MsgSend
from domain.records import Account, Coin
from domain.tx import Tx
from wire.keys import Key, SignatureVerifier
from wire.tx import TxDecoder, build_tx

RAWS = [b"%d" % number for number in range(100)]
NOTHING = MemoryStore()


@pytest.mark.parametrize("count", [0, 1, 100])
def test_each_is_looked_at_once(count: int) -> None:
    """They are no transactions, so that nobody's signature can hold."""
    seen: list[bytes] = []

    def decode(raw: bytes) -> Tx | Refusal:
        seen.append(raw)
        return Refusal(TX_DECODE, "tx", "is none")

    ahead = Ahead(decode, SignatureVerifier())
    ahead.fetch(NOTHING, "chain", RAWS[:count])
    assert seen == RAWS[:count]
    assert not any(ahead.take(raw) for raw in RAWS)


def test_a_bug_in_a_look_is_logged_and_costs_only_the_look(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def decode(raw: bytes) -> Tx | Refusal:
        raise ZeroDivisionError(raw)

    ahead = Ahead(decode, SignatureVerifier())
    with caplog.at_level(logging.ERROR):
        ahead.fetch(NOTHING, "chain", RAWS)
    assert "CheckTx goes on without it" in caplog.text
    assert not ahead.take(RAWS[0])


@pytest.mark.parametrize("count", [3, 20])
def test_only_a_signature_that_holds_is_said_to_hold_and_once(count: int) -> None:
    """CheckTx does not look at it again: a wrong yes would let anybody send another's coins."""
    key = Key(bytes(31) + b"\x01")
    state = Overlay(NOTHING)
    ACCOUNTS.put(state, Account(key.address, 3, 0, key.pub_key))
    send = MsgSend(key.address, key.address, (Coin("uassay", 1),))

    def signed(chain_id: str, number: int, sequence: int) -> bytes:
        return build_tx(
            [send],
            key,
            chain_id=chain_id,
            account_number=number,
            sequence=sequence,
            gas_limit=100_000,
        )

    good = [signed("chain", 3, n) for n in range(count)]
    bad = [signed("other", 3, n) for n in range(count)] + [signed("chain", 4, 0)]
    ahead = Ahead(TxDecoder(), SignatureVerifier())
    ahead.fetch(state, "chain", [*good, *bad])
    assert not any(ahead.take(raw) for raw in bad)
    assert all(ahead.take(raw) for raw in good)
    assert not any(ahead.take(raw) for raw in good)
    ahead.fetch(state, "chain", good)
    ahead.forget()
    assert not any(ahead.take(raw) for raw in good)
