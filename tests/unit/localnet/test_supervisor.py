"""Asking the process that keeps a network running."""

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from domain.errors import Exit
from localnet.create import create
from localnet.layout import NetworkError, NetworkKind
from localnet.network import Network
from localnet.supervisor import (
    NetworkBusy,
    _ended_processes,
    _serve_requests,
    ask_for_end,
    ask_for_fault,
    held,
    supervisor_of,
)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """A network that is supervised by this process."""
    made = Network(create(tmp_path, validators=1, providers=0, kind=NetworkKind.SOLO))
    with held(tmp_path):
        yield made


def answered(network: Network, what: str, name: str) -> "Future[None]":
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask_for_fault, network.layout.path, what, name)
        while not asked.done():
            _serve_requests(network)
        return asked


def test_a_fault_is_carried_out(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(network, "pause", done.append)
    assert answered(network, "pause", "val0.node").exception() is None
    assert done == ["val0.node"]
    assert not list((network.layout.path / "requests").iterdir())


def test_what_cannot_be_done_is_said(network: Network) -> None:
    refused = answered(network, "kill", "val9.node").exception()
    assert isinstance(refused, NetworkError)
    assert "no process val9.node was started; choose one of val0.node" in str(refused)


def test_a_supervisor_that_does_not_answer(network: Network) -> None:
    with pytest.raises(NetworkBusy) as raised:
        ask_for_fault(network.layout.path, "kill", "val0.node", seconds=0.01)
    assert raised.value.exit_code == Exit.TIMED_OUT


def test_one_process_keeps_a_network(tmp_path: Path) -> None:
    with held(tmp_path):
        assert supervisor_of(tmp_path) == os.getpid()
        with pytest.raises(NetworkError, match=f"process {os.getpid()} runs"), held(tmp_path):
            pass
        assert supervisor_of(tmp_path) == os.getpid(), "it is left as it was"
    assert supervisor_of(tmp_path) == 0


def test_an_id_that_another_process_got_is_no_supervisor(tmp_path: Path) -> None:
    """As after a crash of the machine: the file is there, and its number is somebody else's."""
    (tmp_path / "supervisor.pid").write_text(str(os.getppid()))
    assert supervisor_of(tmp_path) == 0
    with held(tmp_path):
        assert supervisor_of(tmp_path) == os.getpid()


def test_without_a_supervisor(tmp_path: Path) -> None:
    assert supervisor_of(tmp_path) == 0
    (tmp_path / "supervisor.pid").write_text("no number")
    assert supervisor_of(tmp_path) == 0
    with pytest.raises(NetworkError, match="no network runs in"):
        ask_for_end(tmp_path)
    with pytest.raises(NetworkError, match="no network runs in"):
        ask_for_fault(tmp_path, "kill", "val0.node")


def test_who_ends_by_itself_is_told_with_what_starts_it_again(network: Network) -> None:
    """A network with a node less may stand, and only its supervisor sees why."""
    directory = network.layout.path
    network.start_one("val0.node")
    before = network.states()
    assert list(_ended_processes(before, before, directory)) == []
    network.kill("val0.node")
    (text,) = _ended_processes(before, network.states(), directory)
    assert text.startswith(f"val0.node has ended, see {network.log_path('val0.node')}; ")
    assert text.endswith(f"assay localnet fault restart val0.node --dir {directory}")
    assert list(_ended_processes(network.states(), network.states(), directory)) == []
