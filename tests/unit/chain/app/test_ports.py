"""Ports of a node, before it starts: each serves once, and whoever cannot have one learns which setting to change."""

import socket
from pathlib import Path

import pytest

from chain.app import ports
from chain.app.comet_files import HomeError, Ports
from chain.app.homes import init_node
from chain.app.ports import Port, check_ports, comet_ports, own_ports, rest_port
from host.addresses import bare
from tests.support.node_process import free_ports

HERE = "127.0.0.1"


def test_what_is_free_is_fine(tmp_path: Path) -> None:
    free = free_ports()
    init_node(tmp_path, "alpha", free)
    check_ports(own_ports(tmp_path, HERE, free.grpc, 0) | comet_ports(tmp_path))


def test_every_port_of_a_node_is_looked_at_and_has_a_setting(tmp_path: Path) -> None:
    init_node(tmp_path, "alpha", Ports(p2p=1001, rpc=1002, grpc=1003))
    found = own_ports(tmp_path, HERE, 1003, 1004) | comet_ports(tmp_path)
    assert {name: port.number for name, port in found.items()} == {
        "gRPC": 1003,
        "metrics": 1004,
        "CometBFT's rpc": 1002,
        "CometBFT's p2p": 1001,
    }
    assert found["metrics"].setting == "--metrics-port"


def test_a_taken_port_names_what_it_is_for_and_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_SECONDS", 0.0)
    with socket.create_server((HERE, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(HomeError, match=f"port {port} on {HERE}, for gRPC, is taken") as error:
            check_ports({"gRPC": Port(HERE, port, "node.grpc_port")})
    assert error.value.remedy == "end that program, or change node.grpc_port"


@pytest.mark.parametrize("host", [HERE, "::1", "[::1]", "::"])
def test_all_taken_ports_are_named_at_once(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_SECONDS", 0.0)
    family = socket.AF_INET if host == HERE else socket.AF_INET6
    with (
        socket.create_server((bare(host), 0), family=family) as one,
        socket.create_server((bare(host), 0), family=family) as two,
    ):
        first, second = (each.getsockname()[1] for each in (one, two))
        with pytest.raises(HomeError, match=f"port {first} on .*, for gRPC, and port {second}") as error:
            check_ports({"gRPC": Port(host, first, "node.grpc_port"), "metrics": Port(host, second, "-m")})
    assert "node.grpc_port; -m; `assay node init MONIKER`" in error.value.remedy


def test_the_port_of_the_gateway_names_its_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_SECONDS", 0.0)
    with (
        socket.create_server((HERE, 0)) as other,
        pytest.raises(HomeError, match="for REST, is taken") as error,
    ):
        check_ports({"REST": rest_port(tmp_path, HERE, other.getsockname()[1])})
    assert "--rest-port, or node.rest_port in" in error.value.remedy


def test_one_port_cannot_serve_twice() -> None:
    twice = {"gRPC": Port(HERE, 9090, "one"), "metrics": Port(HERE, 9090, "--metrics-port")}
    with pytest.raises(HomeError, match="port 9090 is set for gRPC and for metrics") as error:
        check_ports(twice)
    assert error.value.remedy == "change --metrics-port"


def test_an_address_of_another_machine_is_not_called_taken() -> None:
    with pytest.raises(HomeError, match=r"192\.0\.2\.1, for gRPC, cannot be used"):
        check_ports({"gRPC": Port("192.0.2.1", 9090, "node.grpc_host")})
