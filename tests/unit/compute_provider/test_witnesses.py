"""What a provider sends to the chain and to witnesses if its validator signs no receipt."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from compute_provider.decide import actions as do
from compute_provider.decide.records import Shares, ShareWork, Stage
from compute_provider.interfaces import Honest
from compute_provider.perform import Performer
from compute_provider.store import Store
from domain.proof.messages import MsgAskReceipt
from domain.proof.queries import OrderResponse
from domain.proof.records import ReceiptAsk, ShareRoots
from link import types as t
from link.errors import ClusterError, ClusterErrorKind
from tests.unit.compute_provider import support as s
from tests.unit.compute_provider.decide.test_asking import COMMITTED, MANIFEST, asked
from tests.unit.compute_provider.decide.test_including import CLAIM, KEY, TASK, with_shares

ROOTS = ShareRoots(bytes(32), bytes(32), bytes(32), (), 1)


class Node:
    """A node that knows one order, and takes what a provider sends."""

    def __init__(self) -> None:
        self.known: OrderResponse = with_shares(COMMITTED)
        self.sent: list[tuple[Any, bool]] = []

    def order(self, _: bytes) -> OrderResponse:
        return self.known

    def send(self, message: object, *, in_lane: bool = False) -> None:
        self.sent.append((message, in_lane))

    def ask(self, ask: ReceiptAsk) -> None:
        self.known = replace(self.known, asks=(ask,))


class Links:
    """Connections to other validators: those that are ``away`` refuse."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.taken: list[str] = []

    def __call__(self, operator: str) -> SimpleNamespace:
        def call(_: object, offer: t.DeliveryOffer) -> t.ReceiptReply:
            if operator in self.away:
                raise ClusterError(ClusterErrorKind.UNREACHABLE, "is away")
            assert offer.manifest == MANIFEST
            self.taken.append(operator)
            return t.ReceiptReply(accepted=True)

        client = SimpleNamespace(call=call, put_blob=lambda path: t.BlobRef(bytes(32), path.stat().st_size))
        return SimpleNamespace(client=lambda: client)


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Performer, Node, Links]]:
    node, links, store = Node(), Links(), Store(tmp_path)
    shares = Shares((ShareWork(TASK, Stage.REFUSED),))
    chain: Any = node
    made = Performer(
        s.config(tmp_path), s.CHAIN, chain, chain, store=store, behaviour=Honest(), shares=lambda: shares, stop=Event()
    )
    file = tmp_path / "delivery"
    file.write_bytes(b"ciphertext")
    monkeypatch.setattr(made, "_signed", lambda work: (CLAIM, ROOTS))
    monkeypatch.setattr(made, "_sealed", lambda work: (MANIFEST, file))
    monkeypatch.setattr(made, "_seat_link", links)
    yield made, node, links
    made.close()
    made.blobs.close()
    store.close()


def test_a_provider_asks_with_its_task_and_its_manifest(parts: tuple[Performer, Node, Links]) -> None:
    performer, node, _ = parts
    changes = performer.perform(do.Ask(KEY)).changes
    ((message, in_lane),) = node.sent
    assert isinstance(message, MsgAskReceipt)
    assert in_lane
    assert (message.manifest, message.commitment) == (MANIFEST, CLAIM.commitment)
    assert (message.every, message.deadline, message.task_signature) == (TASK.every, TASK.deadline, TASK.signature)
    shares = Shares((ShareWork(TASK, Stage.REFUSED, to_ask=True),))
    for change in changes:
        shares = change(shares)
    (work,) = shares.works
    assert (work.to_ask, work.is_witnessed) == (False, True)


def test_a_provider_sends_its_delivery_to_each_witness_until_it_has_signed(
    parts: tuple[Performer, Node, Links],
) -> None:
    """A witness whose daemon was restarted has forgotten what it took."""
    performer, node, links = parts
    assert performer.perform(do.SendToWitnesses(KEY)).pause
    assert links.taken == []
    node.ask(asked(until=10**6, witnesses=("v1", "v2", "v3"), signed=("v2",)))
    links.away = {"v3"}
    performer.perform(do.SendToWitnesses(KEY))
    assert links.taken == ["v1"]
    links.away = set()
    performer.perform(do.SendToWitnesses(KEY))
    assert links.taken == ["v1", "v1", "v3"]
    node.ask(asked(until=10**6, witnesses=("v1", "v2", "v3"), signed=("v1", "v2")))
    performer.perform(do.SendToWitnesses(KEY))
    assert links.taken == ["v1", "v1", "v3", "v3"]
