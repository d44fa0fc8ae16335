"""Sending: each transaction is included, refused or expired; sequences repair themselves; nothing happens twice."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import chain.client.sender
from chain.client.client import ChainClient, TxReceipt
from chain.client.errors import ChainError, ChainTimeout, ErrorKind, TxExpired, TxRefused
from chain.client.sender import TxSender
from domain import errors
from domain.block import BroadcastResult
from domain.errors import WRONG_SEQUENCE, Refusal
from domain.ledger.messages import MsgDepositBond, MsgSend
from domain.ledger.records import Coin
from domain.market.messages import MsgCancelOrder
from domain.node.queries import ParamsRequest
from tests.support.solo_node import (
    ALICE,
    BOB,
    CHAIN_ID,
    RICH,
    STRANGER,
    SoloNode,
    making_blocks,
    running,
)
from tests.support.waiting import wait_until
from wire.keys import HedgedKey, verify
from wire.tx import build_tx, decode_tx


def send_to_bob(amount: int) -> MsgSend:
    return MsgSend(ALICE.address, BOB.address, (Coin("uassay", amount),))


def test_included_with_gas_fee_and_events(client: ChainClient, node: SoloNode) -> None:
    with making_blocks(node.engine):
        receipt = TxSender(client, ALICE).send(send_to_bob(5), send_to_bob(6), memo="two")
    assert (receipt.code, receipt.log) == (0, "")
    assert receipt.gas_used <= receipt.gas_wanted <= 2 * receipt.gas_used
    assert client.account(BOB.address).balance == RICH + 11
    fee = -(-receipt.gas_wanted * 1_250 // 10**6)  # a quarter more than the gas price
    assert client.account(ALICE.address).balance == RICH - 11 - fee
    paid = [event.get("amount") for event in receipt.events if event.type == "transfer"]
    assert paid[1:] == ["5uassay", "6uassay"]
    stored = node.app.tx_by_hash(receipt.hash)
    assert stored is not None
    assert decode_tx(stored.raw).timeout_height > 0
    assert client.tx(receipt.hash) == receipt


def test_a_receipt_is_told_no_sooner_than_queries_see_what_was_done(
    client: ChainClient, node: SoloNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, real, early = node.app, node.app._storage.snapshot, list[object]()

    def snapshot() -> Any:
        """In the middle of a commit: the store has the block, queries are at the one before."""
        pending = app._pending
        assert pending is not None
        early.append(app.block(pending.head.block.height))
        early.extend(app.tx_by_hash(stored.hash) for stored in pending.txs)
        return real()

    monkeypatch.setattr(app._storage, "snapshot", snapshot)
    with making_blocks(node.engine):
        receipt = TxSender(client, ALICE).send(send_to_bob(1))
    assert len(early) >= 2
    assert set(early) == {None}
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
    real, read = client.query, list[object]()

    def query(request: Any) -> Any:
        read.append(request)
        return real(request)

    monkeypatch.setattr(client, "query", query)
    sender = TxSender(client, ALICE)
    with making_blocks(node.engine):
        for _ in range(3):
            sender.send(send_to_bob(1))
    assert read.count(ParamsRequest()) == 1
    assert client.account(ALICE.address).account.sequence == 3


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
    with pytest.raises(TxRefused) as refused:
        TxSender(client, STRANGER).send(MsgDepositBond(STRANGER.address, 1))
    assert refused.value.word == "unknown_address"
    assert str(refused.value) == f"{STRANGER.address} has no account; send coins to it first"


def test_a_wait_for_a_block_is_said_once(client: ChainClient, node: SoloNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain.client.sender, "_LONG_SECONDS", 0.05)
    told: list[str] = []
    with pytest.raises(ChainTimeout, match="no new block"):
        TxSender(client, ALICE, patience=0.3, note=told.append).send(send_to_bob(1))
    (line,) = told
    assert line.startswith("waiting for a block: none has come for 0.05 s (the node has the transaction)")


@pytest.mark.parametrize(
    ("log", "text", "field"),
    [
        (
            "order_id: the order is closed; no further action is possible",
            "the order is closed; no further action is possible",
            "order_id",
        ),
        (
            "terms.slots: is not 1 to 4096; give 1",
            "terms.slots: is not 1 to 4096; give 1",
            "terms.slots",
        ),
        ("no such thing", "no such thing", ""),
    ],
)
def test_a_refusal_is_a_sentence_and_its_code_is_for_programs(log: str, text: str, field: str) -> None:
    refused = TxRefused(errors.WRONG_STATE, log)
    assert (str(refused), refused.field, refused.word) == (text, field, "wrong_state")


def test_somebody_elses_message_is_not_even_sent(client: ChainClient) -> None:
    with pytest.raises(Refusal, match="from_address"):
        TxSender(client, BOB).send(send_to_bob(1))


def test_a_sequence_that_somebody_else_used_is_read_again(client: ChainClient, node: SoloNode) -> None:
    sender = TxSender(client, ALICE)
    with making_blocks(node.engine):
        sender.send(send_to_bob(1))
        TxSender(client, ALICE).send(send_to_bob(1))  # another program with the same key
        assert sender.send(send_to_bob(1)).code == 0
    assert client.account(ALICE.address).account.sequence == 3


def test_two_programs_with_one_key_at_the_same_time_both_get_all_done(node: SoloNode) -> None:
    """Each has a connection, a sender and no word of the other: a daemon and somebody at the CLI."""

    def program(amounts: range) -> list[TxReceipt]:
        with ChainClient(node.address) as client:
            sender = TxSender(client, ALICE)
            return [sender.send(send_to_bob(amount)) for amount in amounts]

    with making_blocks(node.engine), ThreadPoolExecutor(2) as pool:
        halves = pool.map(program, (range(1, 11), range(11, 21)))
        receipts = [receipt for half in halves for receipt in half]
    assert len({receipt.hash for receipt in receipts}) == 20
    assert {receipt.code for receipt in receipts} == {0}
    with ChainClient(node.address) as client:
        assert client.account(ALICE.address).account.sequence == 20
        assert client.account(BOB.address).balance == RICH + sum(range(1, 21))


def test_two_programs_that_say_the_same_are_two_transactions(node: SoloNode) -> None:
    """The same bytes would be taken once, and both would hear that theirs is in a block."""

    def program(_: int) -> list[bytes]:
        with ChainClient(node.address) as client:
            sender = TxSender(client, ALICE, timeout_blocks=10**6)
            return [sender.send(send_to_bob(1)).hash for _ in range(5)]

    with making_blocks(node.engine), ThreadPoolExecutor(3) as pool:
        hashes = [each for some in pool.map(program, range(3)) for each in some]
    assert len(set(hashes)) == 15
    with ChainClient(node.address) as client:
        assert client.account(BOB.address).balance == RICH + 15


def test_signatures_of_the_same_bytes_differ_and_hold() -> None:
    signatures = {HedgedKey(ALICE.secret).sign(b"message") for _ in range(20)}
    assert len(signatures) == 20
    assert all(verify(ALICE.pub_key, b"message", signature) for signature in signatures)
    assert ALICE.sign(b"message") not in signatures


def test_while_anothers_transaction_waits_for_a_block_this_one_waits_too(client: ChainClient, node: SoloNode) -> None:
    """The account's sequence moves with the block, however often it is read before."""
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(TxSender(client, ALICE).send, send_to_bob(1))
        wait_until(lambda: node.engine.waiting, "the first one in the mempool")
        refused = count_refusals(client)
        second = pool.submit(TxSender(client, ALICE).send, send_to_bob(2))
        wait_until(lambda: len(refused) >= 3, "the second one refused again and again")
        with making_blocks(node.engine):
            assert (first.result(30).code, second.result(30).code) == (0, 0)
    assert client.account(BOB.address).balance == RICH + 3


def count_refusals(client: ChainClient) -> list[BroadcastResult]:
    """Watch what the mempool says through this client from now on."""
    real, refused = client.broadcast, list[BroadcastResult]()

    def broadcast(raw: bytes) -> BroadcastResult:
        result = real(raw)
        if result.code:
            refused.append(result)
        return result

    client.broadcast = broadcast  # type: ignore[method-assign]
    return refused


def test_a_key_that_others_keep_busy_is_waited_for_only_so_long(client: ChainClient, node: SoloNode) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(TxSender(client, ALICE, patience=1.0).send, send_to_bob(1))
        wait_until(lambda: node.engine.waiting, "the first one in the mempool")
        with pytest.raises(TxRefused, match="use a key of its own") as refused:
            TxSender(client, ALICE, patience=0.3).send(send_to_bob(2))
        assert (refused.value.name, refused.value.height) == ("wrong_sequence", 0)
        with pytest.raises(ChainTimeout, match="waits"):
            waiting.result(30)


def test_a_transaction_that_anothers_pushed_out_is_signed_again(
    client: ChainClient, node: SoloNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nodes may each take a transaction of the same sequence; a block has one of them."""
    swallowed: list[bytes] = []
    real = client.broadcast

    def only_here(raw: bytes) -> BroadcastResult:
        if swallowed:
            return real(raw)
        swallowed.append(raw)
        return BroadcastResult(decode_tx(raw).hash, 0, "", "")

    monkeypatch.setattr(client, "broadcast", only_here)
    sender = TxSender(client, ALICE, timeout_blocks=10**6)
    with ThreadPoolExecutor(1) as pool, making_blocks(node.engine):
        pushed_out = pool.submit(sender.send, send_to_bob(5))
        wait_until(lambda: swallowed, "the first transaction")
        with ChainClient(node.address) as other:
            TxSender(other, ALICE).send(send_to_bob(100))
        receipt = pushed_out.result(30)
    assert receipt.hash != decode_tx(swallowed[0]).hash
    assert client.account(BOB.address).balance == RICH + 105


def test_a_sequence_that_this_very_transaction_used_is_no_reason_to_repeat_it(
    client: ChainClient, node: SoloNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something on the way repeats a call whose answer it lost, after the block was made."""
    real = client.broadcast

    def repeated_on_the_way(raw: bytes) -> BroadcastResult:
        assert real(raw).code == 0
        node.engine.make_block()
        again = real(raw)
        assert again.code == WRONG_SEQUENCE.number
        return again

    monkeypatch.setattr(client, "broadcast", repeated_on_the_way)
    assert TxSender(client, ALICE).send(send_to_bob(7)).code == 0
    assert client.account(BOB.address).balance == RICH + 7


def test_a_node_that_answers_nonsense_while_a_transaction_is_out_changes_nothing(
    client: ChainClient, node: SoloNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To give up would tell the caller that nothing happened, and it would be sent once more."""
    real, asked = client.tx, list[bytes]()

    def tx(tx_hash: bytes) -> TxReceipt | None:
        asked.append(tx_hash)
        if len(asked) < 3:
            raise ChainError(ErrorKind.BAD_RESPONSE, "nonsense", "")
        return real(tx_hash)

    monkeypatch.setattr(client, "tx", tx)
    with making_blocks(node.engine):
        assert TxSender(client, ALICE).send(send_to_bob(7)).code == 0
    assert client.account(BOB.address).balance == RICH + 7


def test_a_block_that_refuses_the_sequence_is_not_the_end(
    client: ChainClient, node: SoloNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, changed = client.tx, list[TxReceipt]()

    def tx(tx_hash: bytes) -> TxReceipt | None:
        receipt = real(tx_hash)
        if receipt is None or (changed and changed[0].hash != receipt.hash):
            return receipt
        changed.append(receipt)
        return replace(receipt, code=WRONG_SEQUENCE.number, codespace=WRONG_SEQUENCE.space)

    monkeypatch.setattr(client, "tx", tx)
    with making_blocks(node.engine):
        receipt = TxSender(client, ALICE).send(send_to_bob(1))
    assert receipt.hash != changed[0].hash


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
    assert failed.value.kind is ErrorKind.CLOSED


def test_a_lost_answer_sends_the_same_bytes_again_and_happens_once(
    client: ChainClient, node: SoloNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, sent = client.broadcast, []

    def answer_gets_lost(raw: bytes) -> BroadcastResult:
        sent.append(raw)
        result = real(raw)
        if len(sent) == 1:
            raise ChainTimeout("no answer", "")
        node.engine.make_block()
        return result

    monkeypatch.setattr(client, "broadcast", answer_gets_lost)
    assert TxSender(client, ALICE).send(send_to_bob(9)).code == 0
    assert len(sent) == 2
    assert sent[0] == sent[1]
    assert client.account(BOB.address).balance == RICH + 9


def test_a_transaction_that_a_killed_node_forgot_is_offered_again(tmp_path: Path) -> None:
    """A mempool is not on disk; nobody else holds what a lone node had taken."""
    with running(tmp_path) as node:
        address = node.address
        node.engine.make_block()
        client = ChainClient(address)
        pool = ThreadPoolExecutor(1)
        sending = pool.submit(TxSender(client, ALICE).send, send_to_bob(3))
        wait_until(lambda: node.engine.waiting, "the transaction in the mempool")
    with client, pool, running(tmp_path, address) as again, making_blocks(again.engine):
        assert sending.result(timeout=30).code == 0
        assert client.account(BOB.address).balance == RICH + 3


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


def test_duties_offer_the_lowest_price_and_others_more_than_the_price_of_the_block(
    client: ChainClient, node: SoloNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered: list[int] = []
    real = client.broadcast

    def broadcast(raw: bytes) -> BroadcastResult:
        tx = decode_tx(raw)
        offered.append(tx.fee[0].amount * 10**6 // tx.gas_limit)
        return real(raw)

    monkeypatch.setattr(client, "broadcast", broadcast)
    status = client.status()
    monkeypatch.setattr(client, "status", lambda: replace(status, gas_price_millionths=80_000, height=client_height()))

    def client_height() -> int:
        return node.app.head.block.height

    sender = TxSender(client, ALICE)
    with making_blocks(node.engine):
        sender.send(send_to_bob(1))
        sender.send(send_to_bob(1), in_lane=True)
    assert [price // 1_000 for price in offered] == [100, 1]


def test_a_transaction_may_expire_sooner_than_others(client: ChainClient, node: SoloNode) -> None:
    height = node.app.head.block.height
    with making_blocks(node.engine):
        receipt = TxSender(client, ALICE).send(send_to_bob(1), timeout_blocks=4)
    stored = node.app.tx_by_hash(receipt.hash)
    assert stored is not None
    assert height + 4 <= decode_tx(stored.raw).timeout_height < height + 20


def test_what_expires_because_the_price_rose_is_signed_again(
    client: ChainClient, node: SoloNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = TxSender(client, ALICE)
    real, status, fees = sender._deliver, client.status, list[int]()

    def deliver(raw: bytes, sequence: int, timeout_height: int) -> TxReceipt | None:
        fees.append(decode_tx(raw).fee[0].amount)
        if len(fees) == 1:
            dear = replace(status(), gas_price_millionths=2_000)
            monkeypatch.setattr(client, "status", lambda: replace(dear, height=status().height))
            raise TxExpired(bytes(32), timeout_height)
        return real(raw, sequence, timeout_height)

    monkeypatch.setattr(sender, "_deliver", deliver)
    with making_blocks(node.engine):
        assert sender.send(send_to_bob(1)).code == 0
    assert fees[1] == 2 * fees[0]
    monkeypatch.setattr(client, "status", status)
    fees.clear()
    with making_blocks(node.engine), pytest.raises(TxExpired):
        sender.send(send_to_bob(1), in_lane=True)
