"""Watching an order: through a node that goes away, through deliveries that fail, and through a second match."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import consumer.watch
from chain.client.client import ChainClient
from chain.client.errors import ChainError, ChainTimeout, ErrorKind
from consumer.deliver import deliver, payload
from consumer.errors import ConsumerError, StillWaiting
from consumer.jobs import read_job
from consumer.watch import Delivery, follow, wait_for, wait_for_result, waits_for
from domain.errors import BAD_FIELD
from domain.legs.records import LegState
from domain.market.records import OrderState
from domain.proof.queries import OrderResponse
from link.errors import ClusterError, ClusterErrorKind
from link.types import PayloadState
from pol.rules.replicas import replica_id
from tests.unit.compute_provider import support as s
from tests.unit.pol.mlp import write_mlp_job
from wire.keys import Key

AWAY = ChainError(ErrorKind.UNAVAILABLE, "no node answers at here", "")


def at(state: OrderState, leg: int = 1) -> OrderResponse:
    matched = s.with_leg(s.order(), state=LegState.MATCHED, number=leg)
    return s.with_order(matched, state=state, legs=leg)


class Node(ChainClient):
    """Answers what a test says, the last thing again and again."""

    def __init__(self, *answers: Any) -> None:
        super().__init__("127.0.0.1:1")
        self.answers = list(answers)

    def query(self, request: object) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer.watch, "POLL_SECONDS", 0.001)


def states(node: Node, seconds: float = 30.0, said: list[str] | None = None) -> list[str]:
    note = (said if said is not None else []).append
    found = follow(node, s.ORDER_ID, Event(), seconds, note)
    return [chain.order.state.name for chain in found]


def test_a_watch_outlives_a_restart_of_the_node() -> None:
    said = list[str]()
    slow = ChainTimeout("slow", "")
    node = Node(at(OrderState.OPEN), AWAY, slow, AWAY, at(OrderState.RUNNING), AWAY, at(OrderState.CLOSED))
    assert states(node, said=said) == ["OPEN", "RUNNING", "CLOSED"]
    lost, back = (
        "waiting for the node at 127.0.0.1:1: no node answers at here",
        "the node at 127.0.0.1:1 answers",
    )
    assert said == [lost, back] * 2


def test_a_watch_of_a_node_that_was_never_there_ends_at_once() -> None:
    with pytest.raises(ChainError, match="no node answers"):
        states(Node(AWAY))


def test_a_watch_ends_with_its_time_though_the_node_is_away() -> None:
    with pytest.raises(StillWaiting, match="keep waiting with assay order watch"):
        states(Node(at(OrderState.OPEN), AWAY), seconds=0.05)


def test_what_the_node_refuses_ends_the_watch() -> None:
    no = ChainError(ErrorKind.REFUSED, "no such thing", "", BAD_FIELD)
    with pytest.raises(ChainError, match="no such thing"):
        states(Node(at(OrderState.OPEN), no))


def test_a_node_that_fails_without_a_verdict_is_waited_for() -> None:
    failing = ChainError(ErrorKind.REFUSED, "internal error", "see the node's log")
    node = Node(at(OrderState.OPEN), failing, at(OrderState.CLOSED))
    assert states(node) == ["OPEN", "CLOSED"]


def deliver_with(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> tuple[Callable[[Node], Delivery], list[str]]:
    left, said = list(answers), list[str]()

    def stub(*_: object) -> PayloadState:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return PayloadState(answer, answer, "")

    monkeypatch.setattr(consumer.watch, "deliver", stub)
    job: Any = None
    return lambda node: Delivery(
        node,
        Key(b"\x01" * 32),
        s.ORDER_ID,
        Path(),
        job,
        None,
        said.append,
    ), said


def test_a_delivery_that_fails_is_tried_again_while_nothing_else_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = ClusterError(ClusterErrorKind.UNREACHABLE, "no connection", "")
    late = ClusterError(ClusterErrorKind.NOT_FOUND, "no such order", "")
    make, said = deliver_with(monkeypatch, late, gone, gone, gone, False, True, True)
    matched, again = at(OrderState.MATCHED), at(OrderState.MATCHED, leg=2)
    node = Node(*[matched] * 7, again, at(OrderState.CLOSED, 2))
    delivery = make(node)
    for chain in follow(node, s.ORDER_ID, Event(), 30.0):
        delivery.step(chain)
    assert [line.partition(" to ")[0] for line in said] == [
        "delivery",  # once, and not of what is over at the next try
        "delivered the payload",
        "delivered the payload",  # the second leg's validator gets it, too
    ]


def test_the_payload_goes_to_the_validators_of_all_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait ends when each of them has accepted the job, or has ended."""
    second = replica_id(s.ORDER_ID, 1)

    def replica(state: OrderState, order_id: bytes = s.ORDER_ID) -> OrderResponse:
        found = at(state)
        order = replace(found.order, id=order_id, replicas=2, first_replica=s.ORDER_ID)
        return replace(found, order=order)

    make, said = deliver_with(monkeypatch, True, True)
    matched, running = replica(OrderState.MATCHED), replica(OrderState.RUNNING)
    node = Node(
        *(matched, replica(OrderState.MATCHED, second)),
        *(running, replica(OrderState.MATCHED, second)),
        *(running, replica(OrderState.RUNNING, second)),
    )
    found = wait_for(node, s.ORDER_ID, OrderState.RUNNING, make(node), Event(), 30.0)
    assert found == running
    assert [line.partition(" to ")[0] for line in said] == ["delivered the payload"] * 2
    assert len(node.answers) == 1


def test_waiting_after_an_order_outlives_a_restart_of_the_node() -> None:
    node = Node(AWAY, at(OrderState.MATCHED), AWAY, at(OrderState.RUNNING))
    chain = wait_for(node, s.ORDER_ID, OrderState.RUNNING, None, Event(), 30.0)
    assert chain.order.state is OrderState.RUNNING
    with pytest.raises(StillWaiting, match="no node answers"):
        wait_for(Node(AWAY), s.ORDER_ID, OrderState.RUNNING, None, Event(), 0.05)


def test_a_result_is_there_when_its_last_round_is_verified() -> None:
    """Proven is not enough: until then the validator serves nothing that costs nothing."""
    proven = s.with_leg(at(OrderState.PROVEN), state=LegState.PROVEN)
    verified = s.with_leg(proven, settles_at=60)
    node = Node(at(OrderState.MATCHED), proven, proven, verified, at(OrderState.CLOSED))
    assert wait_for_result(node, s.ORDER_ID, None, Event(), 30.0) == verified
    closed = at(OrderState.CLOSED)
    assert wait_for_result(Node(proven, closed), s.ORDER_ID, None, Event(), 30.0) == closed
    with pytest.raises(StillWaiting, match="the order is still proven"):
        wait_for_result(Node(proven), s.ORDER_ID, None, Event(), 0.05)


def test_a_payload_that_is_not_the_jobs_any_more_is_said(tmp_path: Path) -> None:
    write_mlp_job(tmp_path)
    job = read_job(tmp_path)
    files = payload(tmp_path, job)
    assert {file.path: file.blob.size for file in files} == {f.path: f.size for f in job.payload}
    state = tmp_path / "global.state"
    whole = state.read_bytes()
    state.write_bytes(whole[:-1])
    with pytest.raises(ConsumerError, match="was changed since the job was built"):
        payload(tmp_path, job)
    state.write_bytes(whole)
    shard = next(path for path in files.values() if path.parent.name == "data")
    shard.write_bytes(bytes(shard.stat().st_size))
    with pytest.raises(ConsumerError, match="was changed since the job was built"):
        payload(tmp_path, job)
    shard.unlink()
    with pytest.raises(ConsumerError, match="cannot be read"):
        payload(tmp_path, job)


def test_another_job_than_the_ordered_one_is_not_delivered(tmp_path: Path) -> None:
    write_mlp_job(tmp_path)
    job = replace(read_job(tmp_path), id=bytes(32))
    with pytest.raises(ConsumerError, match="this job is not the ordered one"):
        deliver(
            Node(at(OrderState.MATCHED)),
            Key(b"\x01" * 32),
            s.ORDER_ID,
            tmp_path,
            job,
        )


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (OrderState.OPEN, "waits for a bid"),
        (OrderState.MATCHED, "waits for its validator to accept it"),
        (OrderState.RUNNING, "waits for round 0 to close"),
        (OrderState.PROVEN, "waits for its settlement"),
        (OrderState.CLOSED, "is over"),
    ],
)
def test_what_an_order_waits_for_is_said_in_a_few_words(state: OrderState, text: str) -> None:
    assert waits_for(at(state)) == text
