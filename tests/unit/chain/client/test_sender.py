"""Sending: each transaction is included, refused or expired; sequences repair themselves; nothing happens twice."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from chain.client.client import BroadcastResult, ChainClient
from chain.client.errors import ChainError, ChainTimeout, ErrorKind, TxExpired, TxRefused
from chain.client.sender import TxSender
from chain.types.errors import Refusal
from chain.types.messages import MsgCancelOrder, MsgDepositBond, MsgSend
from chain.types.queries import AccountResponse
from chain.types.records import Coin
from chain.wire.tx import build_tx, decode_tx
from tests.support.solo_node import (
    ALICE,
    BOB,
    CHAIN_ID,
    RICH,
    STRANGER,
    SoloNode,
    making_blocks,
)
from tests.support.waiting import wait_until


def send_to_bob(amount: int) -> MsgSend:
    return MsgSend(ALICE.address, BOB.address, (Coin("uassay", amount),))


def test_included_with_gas_fee_and_events(client: ChainClient, node: SoloNode) -> None:
    with making_blocks(node.engine):
        receipt = TxSender(client, ALICE).send(send_to_bob(5), send_to_bob(6), memo="two")
    assert (receipt.code, receipt.log) == (0, "")
    assert receipt.gas_used <= receipt.gas_wanted <= 2 * receipt.gas_used
    assert client.account(BOB.address).balance == RICH + 11
    fee = -(-receipt.gas_wanted * 1_000 // 10**6)
    assert client.account(ALICE.address).balance == RICH - 11 - fee
    paid = [event.get("amount") for event in receipt.events if event.type == "transfer"]
    assert paid[1:] == ["5uassay", "6uassay"]
    stored = node.app.tx_by_hash(receipt.hash)
    assert stored is not None
    assert decode_tx(stored.raw).timeout_height > 0
    assert client.tx(receipt.hash) == receipt


def test_many_threads_share_a_sender(client: ChainClient, node: SoloNode) -> None:
    sender = TxSender(client, ALICE)
    with making_blocks(node.engine), ThreadPoolExecutor(4) as pool:
        receipts = list(pool.map(lambda _: sender.send(send_to_bob(1)), range(8)))
    assert len({receipt.hash for receipt in receipts}) == 8
    account = client.account(ALICE.address).account
    assert account.sequence == 8
    assert client.account(BOB.address).balance == RICH + 8


def test_the_account_is_read_once_and_the_sequence_counted(
    client: ChainClient, node: SoloNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, read = client.account, list[str]()

    def account(address: str) -> AccountResponse:
        read.append(address)
        return real(address)

    monkeypatch.setattr(client, "account", account)
    sender = TxSender(client, ALICE)
    with making_blocks(node.engine):
        for _ in range(3):
            sender.send(send_to_bob(1))
    assert read == [ALICE.address]


def test_a_refusal_in_simulation_costs_nothing(client: ChainClient, node: SoloNode) -> None:
    with making_blocks(node.engine), pytest.raises(TxRefused) as refused:
        TxSender(client, ALICE).send(send_to_bob(2 * RICH))
    assert (refused.value.name, refused.value.height) == ("insufficient_funds", 0)
    assert refused.value.remedy
    assert client.account(ALICE.address).balance == RICH


def test_a_refusal_in_a_block_has_its_height_and_the_next_one_goes_through(
    client: ChainClient, node: SoloNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = TxSender(client, ALICE)
    with making_blocks(node.engine):
        monkeypatch.setattr(client, "simulate", lambda raw: 300_000)
        with pytest.raises(TxRefused) as refused:
            sender.send(MsgCancelOrder(ALICE.address, bytes(32)))
        assert refused.value.name == "not_found"
        assert refused.value.height > 1
        assert len(refused.value.hash) == 32
        assert sender.send(send_to_bob(1)).code == 0
    assert client.account(ALICE.address).account.sequence == 2


def test_an_account_that_does_not_exist_is_told_what_to_do(client: ChainClient) -> None:
    with pytest.raises(TxRefused, match=r"unknown_address.*send coins to it first"):
        TxSender(client, STRANGER).send(MsgDepositBond(STRANGER.address, 1))


def test_somebody_elses_message_is_not_even_sent(client: ChainClient) -> None:
    with pytest.raises(Refusal, match="from_address"):
        TxSender(client, BOB).send(send_to_bob(1))


def test_a_sequence_that_somebody_else_used_is_read_again(
    client: ChainClient, node: SoloNode
) -> None:
    sender = TxSender(client, ALICE)
    with making_blocks(node.engine):
        sender.send(send_to_bob(1))
        TxSender(client, ALICE).send(send_to_bob(1))  # another program with the same key
        assert sender.send(send_to_bob(1)).code == 0
    assert client.account(ALICE.address).account.sequence == 3


def test_a_transaction_that_no_block_takes_expires(
    client: ChainClient, node: SoloNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(raw: bytes) -> BroadcastResult:
        return BroadcastResult(decode_tx(raw).hash, 0, "", "")

    sender = TxSender(client, ALICE, timeout_blocks=3)
    with monkeypatch.context() as patch, making_blocks(node.engine):
        patch.setattr(client, "broadcast", lost)
        with pytest.raises(TxExpired, match="send it again") as expired:
            sender.send(send_to_bob(1))
    assert expired.value.timeout_height >= 4
    assert client.status().height >= expired.value.timeout_height
    with making_blocks(node.engine):
        assert sender.send(send_to_bob(1)).code == 0


def test_a_chain_that_stands_still_ends_the_wait(client: ChainClient) -> None:
    with pytest.raises(ChainTimeout, match="no new block for 0"):
        TxSender(client, ALICE, patience=0.3).send(send_to_bob(1))


def test_closing_the_client_ends_the_wait(client: ChainClient, node: SoloNode) -> None:
    """Whoever is told to stop closes its client, and does not wait for a node that may be gone."""
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(TxSender(client, ALICE).send, send_to_bob(1))
        wait_until(lambda: node.engine.waiting, "the transaction in the mempool")
        client.close()
        with pytest.raises(ChainError) as failed:
            sending.result(timeout=10)
    # A call under way is cancelled, one that comes later finds the client closed: neither is waited for.
    assert failed.value.kind in (ErrorKind.CLOSED, ErrorKind.REFUSED)


def test_a_lost_answer_sends_the_same_bytes_again_and_happens_once(
    client: ChainClient, node: SoloNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, sent = client.broadcast, []

    def answer_gets_lost(raw: bytes) -> BroadcastResult:
        sent.append(raw)
        result = real(raw)
        if len(sent) == 1:
            raise ChainTimeout("no answer", "")
        return result

    monkeypatch.setattr(client, "broadcast", answer_gets_lost)
    with making_blocks(node.engine):
        assert TxSender(client, ALICE).send(send_to_bob(9)).code == 0
    assert len(sent) == 2
    assert sent[0] == sent[1]
    assert client.account(BOB.address).balance == RICH + 9


def test_a_gas_price_below_the_minimum_is_refused(client: ChainClient) -> None:
    with pytest.raises(TxRefused, match="raise the gas price") as refused:
        TxSender(client, ALICE, gas_price_millionths=1).send(send_to_bob(1))
    assert refused.value.name == "insufficient_fee"


def test_the_chain_goes_on_without_the_client(node: SoloNode) -> None:
    with ChainClient("127.0.0.1:1", timeout=0.5) as away, pytest.raises(ChainError):
        TxSender(away, ALICE).send(send_to_bob(1))
    raw = build_tx(
        [send_to_bob(1)],
        ALICE,
        chain_id=CHAIN_ID,
        account_number=0,
        sequence=0,
        fee=(Coin("uassay", 1_000),),
        gas_limit=200_000,
    )
    assert node.engine.broadcast_sync(raw).code == 0
