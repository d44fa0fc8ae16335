"""The check of a node's ports before the node starts. If a port is taken, the error names the setting to change."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chain.app.comet_files import HomeError, read_addresses
from chain.app.homes import comet_home
from host.ports import wait_until_free

_SECONDS = 10.0
"""Longest wait for a taken port: CometBFT ends within a few seconds after its node was killed."""


@dataclass(frozen=True, slots=True)
class Port:
    """A port on a host, and the name of the setting that changes it."""

    host: str
    number: int
    setting: str

    def __str__(self) -> str:
        """Return the port and host as text."""
        return f"port {self.number} on {self.host or 'all addresses'}"


def own_ports(home: Path, grpc_host: str, grpc_port: int, metrics_port: int) -> dict[str, Port]:
    """Return the ports that the node itself uses, keyed by their use. The port of the metrics is left out if it is
    0.
    """
    setting = f"node.grpc_port (with node_address) in {home / 'config.toml'}"
    ports = {"gRPC": Port(grpc_host, grpc_port, setting)}
    if metrics_port:
        ports["metrics"] = Port("127.0.0.1", metrics_port, "--metrics-port")
    return ports


def rest_port(home: Path, host: str, number: int) -> Port:
    """Return the port of the node's REST gateway."""
    return Port(host, number, f"--rest-port, or node.rest_port in {home / 'config.toml'}")


def comet_ports(home: Path) -> dict[str, Port]:
    """Return the ports that the CometBFT of a home uses, keyed by their use."""
    comet_config = comet_home(home) / "config" / "config.toml"
    settings = {
        "rpc": f"node.rpc_port in {home / 'config.toml'}",
        "p2p": f"p2p.laddr in {comet_config} (and at its peers)",
        "metrics": "--comet-metrics-port",
    }
    return {
        f"CometBFT's {name}": Port(host, number, settings[name])
        for name, (host, number) in read_addresses(comet_home(home)).items()
    }


def check_ports(ports: Mapping[str, Port]) -> None:
    """Raise HomeError if two uses share a port, or if ports are taken; one error names all taken ports.

    The function waits for the ports of a node that was just killed.
    """
    first: dict[tuple[str, int], str] = {}
    for name, port in ports.items():
        other = first.setdefault((port.host, port.number), name)
        if other != name:
            raise HomeError(f"port {port.number} is set for {other} and for {name}", f"change {port.setting}")
    ends = time.monotonic() + _SECONDS
    taken: dict[str, Port] = {}
    for name, port in ports.items():
        try:
            if not wait_until_free(port.host, port.number, max(0.0, ends - time.monotonic())):
                taken[name] = port
        except OSError as error:
            raise HomeError(
                f"{port}, for {name}, cannot be used ({error.strerror})",
                f"change {port.setting}",
            ) from None
    if not taken:
        return
    ports_text = " and ".join(f"{port}, for {name}," for name, port in taken.items())
    settings = "; ".join(port.setting for port in taken.values())
    if len(taken) == 1:
        raise HomeError(f"{ports_text} is taken by another program", f"end that program, or change {settings}")
    raise HomeError(
        f"{ports_text} are taken by other programs",
        f"end these programs, or change this node's ports: {settings}; `assay node init MONIKER` with --p2p-port,"
        " --rpc-port and --grpc-port changes them together and keeps the keys",
    )
