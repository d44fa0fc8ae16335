"""The outbox on a real node: what is wanted together is in one block, and one message that fails harms no other."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from chain.client.client import ChainClient, TxReceipt
from chain.client.errors import ChainError, TxRefused
from chain.client.sender import TxSender
from domain.errors import OUT_OF_GAS
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.market.messages import MsgCancelOrder
from domain.messages import Message
from tests.support.solo_node import ALICE, BOB, RICH, SoloNode, making_blocks, running
from tests.support.waiting import wait_until
from validator.decide.actions import NEVER, SendNotice, SendTx
from validator.decide.outgoing import Outgo
from validator.work.outbox import Outbox, TxOutcome


class Sending:
    """An outbox over a node that makes blocks, and what came of it."""

    def __init__(self, client: ChainClient) -> None:
        self.client = client
        self.sender = TxSender(client, ALICE)
        self.arrived: dict[str, TxReceipt] = {}
        self.ended: list[TxOutcome] = []
        self.outbox = Outbox(self.sender, self._sent, Event(), Event(), (ChainError,), ended=self.ended.append)

    def _sent(self, action: Outgo, receipt: TxReceipt) -> None:
        assert action.key not in self.arrived
        self.arrived[action.key] = receipt

    def want(self, *actions: Outgo) -> None:
        self.outbox.want(actions, monotonic(), whole=True)

    def wait(self, *keys: str) -> None:
        wait_until(lambda: set(keys) <= self.arrived.keys(), f"{keys} in a block")

    def blocks(self) -> set[int]:
        return {receipt.height for receipt in self.arrived.values()}

    def bob(self) -> int:
        return self.client.account(BOB.address).balance - RICH


@pytest.fixture
def sending(tmp_path: Path) -> Iterator[Sending]:
    with running(tmp_path) as node, ChainClient(node.address) as client:
        made = Sending(client)
        with making_blocks(node.engine):
            yield made
            client.close()
            made.outbox.close()


def pay(amount: int) -> SendTx:
    return SendTx(f"pay {amount}", (_pay(amount),), 100)


def _pay(amount: int) -> Message:
    return MsgSend(ALICE.address, BOB.address, (Coin("uassay", amount),))


def wrong(name: str = "wrong") -> SendTx:
    return SendTx(name, (MsgCancelOrder(ALICE.address, bytes(32)),), 1)


def test_all_that_a_look_wants_is_in_one_block(sending: Sending) -> None:
    sending.want(*map(pay, range(1, 11)))
    sending.wait(*(f"pay {amount}" for amount in range(1, 11)))
    assert len(sending.blocks()) == 1
    assert sending.bob() == 55


def test_one_that_fails_takes_nobody_with_it(sending: Sending, caplog: pytest.LogCaptureFixture) -> None:
    sending.want(wrong(), *map(pay, range(1, 6)))
    sending.wait(*(f"pay {amount}" for amount in range(1, 6)))
    assert (len(sending.blocks()), sending.bob()) == (1, 15)
    (line,) = (r.message for r in caplog.records if r.levelno == logging.WARNING)
    assert line.startswith("wrong: ")
    assert "there is no such order" in line


def test_one_that_fails_in_a_block_takes_nobody_with_it(sending: Sending, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state may change between a simulation and the block: the fee is gone, and the next transaction is right."""
    real, missed = sending.client.simulate, list[bytes]()

    def simulate(raw: bytes) -> int:
        if not missed:
            missed.append(raw)
            return 3_000_000
        return real(raw)

    monkeypatch.setattr(sending.client, "simulate", simulate)
    sending.want(wrong(), *map(pay, range(1, 6)))
    sending.wait(*(f"pay {amount}" for amount in range(1, 6)))
    assert (len(sending.blocks()), sending.bob()) == (1, 15)
    assert sending.client.account(ALICE.address).account.sequence == 2


def test_what_nobody_can_explain_goes_in_smaller_transactions(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sending.sender.send

    def send(*messages: Message, in_lane: bool = False, timeout_blocks: int | None = None) -> TxReceipt:
        if len(messages) > 3:
            raise TxRefused(OUT_OF_GAS, "so says this block")
        return real(*messages, in_lane=in_lane, timeout_blocks=timeout_blocks)

    monkeypatch.setattr(sending.sender, "send", send)
    sending.want(*map(pay, range(1, 9)))
    sending.wait(*(f"pay {amount}" for amount in range(1, 9)))
    assert sending.bob() == 36
    assert 1 < len(sending.blocks()) < 8
    assert set(sending.ended) == {TxOutcome.ARRIVED, TxOutcome.REFUSED}


def test_a_notice_goes_alone_and_last(sending: Sending) -> None:
    notice = SendNotice("notice", (_pay(100), _pay(200)))
    assert notice.by == NEVER
    sending.want(notice, pay(1), pay(2))
    sending.wait("notice", "pay 1", "pay 2")
    heights = [sending.arrived[key].height for key in ("pay 1", "pay 2", "notice")]
    assert heights[0] == heights[1] < heights[2]


def test_a_bug_behind_a_transaction_does_not_end_the_outbox(
    sending: Sending, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_action: Outgo, _receipt: TxReceipt) -> None:
        raise ValueError("a bug")

    real: Callable[[Outgo, TxReceipt], None] = sending.outbox._sent
    monkeypatch.setattr(sending.outbox, "_sent", broken)
    sending.want(pay(1))
    wait_until(lambda: "bug in pay 1" in caplog.text, "the bug in the log")
    monkeypatch.setattr(sending.outbox, "_sent", real)
    sending.want(pay(2))
    sending.wait("pay 2")


def test_it_closes_while_nothing_goes_on(tmp_path: Path) -> None:
    with running(tmp_path) as node, ChainClient(node.address) as client:
        made = Sending(client)
        made.outbox.close()
        assert made.outbox.busy() == []
        assert isinstance(node, SoloNode)
