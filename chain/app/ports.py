"""Where a node is going to listen: nothing is started while a port is somebody else's, and it says what to change."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chain.app.comet_files import HomeError, read_addresses
from chain.app.homes import comet_home
from host.ports import wait_until_free

_SECONDS = 10.0
"""How long ports may stay taken: a CometBFT whose node was killed ends within a few seconds."""


@dataclass(frozen=True, slots=True)
class Port:
    """An address, and where another one is named for it."""

    host: str
    number: int
    setting: str

    def __str__(self) -> str:
        """Return the address in words."""
        return f"port {self.number} on {self.host or 'all addresses'}"


def own_ports(home: Path, grpc_host: str, grpc_port: int, metrics_port: int) -> dict[str, Port]:
    """Return where the node itself listens, by what for; metrics only with a port."""
    setting = f"node.grpc_port (with node_address) in {home / 'config.toml'}"
    ports = {"gRPC": Port(grpc_host, grpc_port, setting)}
    if metrics_port:
        ports["metrics"] = Port("127.0.0.1", metrics_port, "--metrics-port")
    return ports


def comet_ports(home: Path) -> dict[str, Port]:
    """Return where the CometBFT of a home listens, by what for."""
    theirs = comet_home(home) / "config" / "config.toml"
    settings = {
        "rpc": f"node.rpc_port in {home / 'config.toml'}",
        "p2p": f"p2p.laddr in {theirs} (peers have to know)",
        "metrics": "--comet-metrics-port",
    }
    return {
        f"CometBFT's {name}": Port(host, number, settings[name])
        for name, (host, number) in read_addresses(comet_home(home)).items()
    }


def check_ports(ports: Mapping[str, Port]) -> None:
    """Raise HomeError where ports serve twice or cannot be had, all of them in one sentence.

    The port of a node that was killed is waited for.
    """
    first: dict[tuple[str, int], str] = {}
    for name, port in ports.items():
        other = first.setdefault((port.host, port.number), name)
        if other != name:
            raise HomeError(f"port {port.number} is named for {other} and for {name}", f"change {port.setting}")
    ends = time.monotonic() + _SECONDS
    taken: dict[str, Port] = {}
    for name, port in ports.items():
        try:
            if not wait_until_free(port.host, port.number, max(0.0, ends - time.monotonic())):
                taken[name] = port
        except OSError as error:
            raise HomeError(
                f"{port}, for {name}, cannot be listened on ({error.strerror})",
                f"change {port.setting}",
            ) from None
    if not taken:
        return
    named = " and ".join(f"{port}, for {name}," for name, port in taken.items())
    settings = "; ".join(port.setting for port in taken.values())
    if len(taken) == 1:
        raise HomeError(f"{named} is taken by another program", f"end that program, or change {settings}")
    raise HomeError(
        f"{named} are taken by other programs",
        f"end these programs, or give this node other ports: {settings}; `assay node init MONIKER` with --p2p-port,"
        " --rpc-port and --grpc-port changes them together and keeps the keys",
    )
