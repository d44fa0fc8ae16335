"""Creating a local network: homes, test keys, a genesis file, and ports."""

import random
import socket
from collections.abc import Sequence
from pathlib import Path

import tomli_w

from chain.app.beacon_keys import add_beacon_keys, read_beacon_keys
from chain.app.comet_files import LOCAL_TIMING, Ports
from chain.app.homes import NodeSpec, beacon_keys_path, init_network
from chain.client.keyring import Keyring, KeyringBackend
from domain.genesis import DENOM, LOCAL_PREFIX, GenesisAccount
from domain.ledger.records import Coin
from domain.params import Params, local_params
from localnet.layout import (
    Layout,
    NetworkError,
    NetworkKind,
    ProviderSpec,
    ValidatorSpec,
    save_layout,
)
from pol.executor.names import DEFAULT
from pol.work.executor import LOCAL

STAKE = 10_000_000_000
OPERATOR_COINS = 1_000_000_000_000
PROVIDER_COINS = 100_000_000_000
CONSUMER_COINS = 10_000_000_000_000
KEY = "main"
"""Name of the only key in each home."""
AUDIT_SPEED = 10**9
"""Speed (FLOP/s) that each validator promises as an auditor.

A single core is faster. The window of a round is twenty times as long as an audit at the promised speed.
"""
_PORTS_EACH = 7
PORTS = range(20_000, 28_000)
"""Ports for networks, below the ports that operating systems use for outgoing connections."""


def create(
    directory: Path,
    validators: int = 4,
    providers: int | Sequence[int] = 2,
    misbehave: dict[str, str] | None = None,
    params: Params | None = None,
    kind: NetworkKind = NetworkKind.COMETBFT,
    backends: dict[str, str] | None = None,
    ports: range = PORTS,
    executor: str = LOCAL,
    machines: int = 1,
) -> Layout:
    """Create the files of a local network in ``directory``, and return the network's layout.

    ``validators`` is the number of validators. ``providers`` is the number of providers of each validator: one number
    for all of them, or one per validator. ``misbehave`` maps names of providers (``prov0`` …) to a method of
    ``localnet.cheats``. ``backends`` maps names of providers to backends other than NumPy; a provider that misbehaves
    always uses NumPy. ``executor`` and ``machines`` are the values of ``--executor`` and ``--machines`` for all daemons
    that do not misbehave.
    """
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    computes = {"executor": executor, "machines": str(machines)}
    base = _free_block(validators * _PORTS_EACH, ports)
    specs = tuple(_validator(directory, index, base, kind, computes) for index in range(validators))
    sizes = [providers] * validators if isinstance(providers, int) else list(providers)
    clusters = [spec for spec, size in zip(specs, sizes, strict=True) for _ in range(size)]
    members = tuple(
        _provider(directory, spec, index, misbehave or {}, backends or {}, computes)
        for index, spec in enumerate(clusters)
    )
    consumer_home = directory / "consumer"
    consumer = _make_key(consumer_home)
    _write_config(consumer_home, specs[0].grpc, {})
    accounts = [
        *((spec.operator, OPERATOR_COINS) for spec in specs),
        *((spec.address, PROVIDER_COINS) for spec in members),
        (consumer, CONSUMER_COINS),
    ]
    layout = Layout(
        directory=str(directory),
        chain_id=f"{LOCAL_PREFIX}-{base}",
        validators=specs,
        providers=members,
        consumer_home=str(consumer_home),
        consumer=consumer,
        kind=kind,
    )
    init_network(
        layout.chain_id,
        [
            NodeSpec(
                home=Path(spec.home),
                moniker=spec.moniker,
                operator=spec.operator,
                stake=STAKE,
                ports=Ports(spec.p2p, spec.rpc, spec.grpc),
                audit_speed=AUDIT_SPEED,
            )
            for spec in specs
        ],
        [GenesisAccount(address, (Coin(DENOM, coins),)) for address, coins in accounts],
        params or local_params().for_founders(validators),
        timing=LOCAL_TIMING,
    )
    if kind is NetworkKind.SOLO:  # The only node proposes blocks for all validators, so it needs their beacon keys.
        for spec in specs[1:]:
            others = read_beacon_keys(beacon_keys_path(Path(spec.home)))
            add_beacon_keys(beacon_keys_path(Path(specs[0].home)), *others)
    save_layout(layout)
    return layout


def test_keyring(home: Path) -> Keyring:
    """Return the keyring of a home of a local network; its keys are unencrypted."""
    return Keyring(home / "keys", KeyringBackend.TEST, lambda name: "")


def _validator(directory: Path, index: int, base: int, kind: NetworkKind, computes: dict[str, str]) -> ValidatorSpec:
    home = directory / f"val{index}"
    operator = _make_key(home)
    first = base + index * _PORTS_EACH
    p2p, rpc, grpc, cluster, of_node, of_daemon, rest = range(first, first + _PORTS_EACH)
    if index:  # one gateway is enough for a machine
        rest = 0
    if kind is NetworkKind.SOLO:
        grpc = base + 2  # The port of the first validator's node, which is the only node.
    address = f"127.0.0.1:{cluster}"
    daemon = {"listen": address, "endpoint": address, "metrics_port": of_daemon, "admit": "open", **computes}
    _write_config(home, grpc, {"node": {"metrics_port": of_node, "rest_port": rest}, "validator": daemon})
    return ValidatorSpec(
        moniker=f"val{index}",
        home=str(home),
        operator=operator,
        p2p=p2p,
        rpc=rpc,
        grpc=grpc,
        cluster=cluster,
        rest=rest,
    )


def _provider(
    directory: Path,
    validator: ValidatorSpec,
    index: int,
    misbehave: dict[str, str],
    backends: dict[str, str],
    computes: dict[str, str],
) -> ProviderSpec:
    name = f"prov{index}"
    home = directory / name
    address = _make_key(home)
    # All validators and providers of a local network belong to one owner.
    _write_config(home, validator.grpc, {"provider": {"take": "any", **computes}})
    return ProviderSpec(
        name=name,
        home=str(home),
        address=address,
        validator=validator.moniker,
        misbehave=misbehave.get(name, ""),
        backend=backends.get(name, DEFAULT),
    )


def _make_key(home: Path) -> str:
    return test_keyring(home).add(KEY).address


def _write_config(home: Path, grpc: int, tables: dict[str, object]) -> None:
    config = {"node_address": f"127.0.0.1:{grpc}", "keyring": "test", "from": KEY, **tables}
    (home / "config.toml").write_text(tomli_w.dumps(config))


def _free_block(count: int, ports: range) -> int:
    """Return the first of ``count`` consecutive free ports on 127.0.0.1; raise NetworkError if none are free."""
    starts = list(ports[:-count:count])
    # The order is random, so that two networks that are created at once do not choose the same ports.
    random.shuffle(starts)
    for start in starts:
        if all(_is_free(port) for port in range(start, start + count)):
            return start
    raise NetworkError(
        f"there are no {count} consecutive free ports between {ports.start} and {ports.stop}",
        "stop another local network (assay localnet stop --dir DIRECTORY)",
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
