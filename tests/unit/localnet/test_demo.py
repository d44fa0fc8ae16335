"""What the demo says where the machine is too busy for it."""

import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

import localnet.demo
from consumer.watch import Delivery
from domain.market.records import OrderState
from domain.proof.queries import OrderResponse
from localnet.create import create
from localnet.demo import Demo
from localnet.layout import NetworkError, NetworkKind
from localnet.network import Network
from tests.unit.compute_provider import support as s
from tests.unit.consumer.test_watch import Node, at
from wire.keys import Key


def test_a_job_that_is_not_built_in_time_ends_the_demo_with_what_to_do(tmp_path: Path) -> None:
    network = Network(create(tmp_path / "network", kind=NetworkKind.SOLO))
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    with Popen(command, stdout=PIPE, stderr=PIPE) as build:
        try:
            with pytest.raises(NetworkError) as caught:
                Demo(tmp_path, lambda moment: None)._finish(network, build, "building the job", 0.0)
        finally:
            build.kill()
    assert caught.value.reason == "building the job took more than 0 s"
    assert "run the demo again" in caught.value.remedy


@pytest.fixture
def patiently(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., OrderResponse]:
    """Wait for the end of an order of which the chain says one thing at each look, without any patience."""
    monkeypatch.setattr(localnet.demo, "PATIENCE", 0.0)

    def wait(*answers: OrderResponse) -> OrderResponse:
        node, job = Node(*answers), None
        delivery = Delivery(node, Key(b"\x01" * 32), s.ORDER_ID, tmp_path, job)  # type: ignore[arg-type]
        demo = Demo(tmp_path, lambda moment: None)
        return demo._patiently(node, delivery, OrderState.CLOSED, lambda on_chain: None)

    return wait


def test_a_demo_goes_on_as_long_as_its_order_moves(patiently: Callable[..., OrderResponse]) -> None:
    moves = [at(state) for state in (OrderState.OPEN, OrderState.RUNNING, OrderState.PROVEN)]
    assert patiently(*moves, at(OrderState.CLOSED)).order.state is OrderState.CLOSED


def test_a_demo_whose_order_stands_still_says_what_it_waits_for(
    patiently: Callable[..., OrderResponse],
) -> None:
    with pytest.raises(NetworkError) as caught:
        patiently(at(OrderState.OPEN), at(OrderState.RUNNING))
    assert "nothing about the order has changed for 0 s: it waits for round 0 to close" in str(caught.value)
    assert "run the demo again" in caught.value.remedy
