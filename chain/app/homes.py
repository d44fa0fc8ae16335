"""Functions that make homes: of one node that joins a network, or of all nodes of a new network.

A home contains ``config.toml``, whose table ``node`` is written here, and ``node/``, which is CometBFT's home with our
database in ``node/data/assay.db``.
"""

import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import tomli_w

from chain.app.beacon_keys import FILE_NAME, add_beacon_keys, read_beacon_keys
from chain.app.comet_files import (
    HomeError,
    NodeKeys,
    Ports,
    Timing,
    genesis_document,
    read_keys,
    write_config,
    write_keys,
)
from chain.app.interfaces import APP_VERSION
from chain.app.remote_signer import RemoteSigner, read_remote_signer
from chain.state_machine.store import MemoryStore, Overlay
from chain.state_machine.transition import init_chain
from domain.bounds import check
from domain.errors import BAD_FIELD, Refusal
from domain.genesis import AUDIT_SPEED, DENOM, Genesis, GenesisAccount, GenesisValidator
from domain.params import Params
from wire.address import check_address
from wire.keys import Key
from wire.vrf import is_point


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A validator of a new network. The accounts of the network include its operator's coins."""

    home: Path
    moniker: str
    operator: str
    stake: int
    ports: Ports
    audit_speed: int = AUDIT_SPEED


def comet_home(home: Path) -> Path:
    """Return the directory of CometBFT's home inside a node's home."""
    return home / "node"


def beacon_keys_path(home: Path) -> Path:
    """Return the path of the file with the beacon keys, which is next to the consensus key."""
    return comet_home(home) / "config" / FILE_NAME


def get_beacon_key(home: Path) -> bytes:
    """Return the public half of the newest beacon key of a home; HomeError if it has none."""
    keys = read_beacon_keys(beacon_keys_path(home))
    if not keys:
        raise HomeError(f"{home} has no beacon key", "run `assay node init`, or restore the key from a copy")
    return keys[-1].pub_key


def genesis_path(home: Path) -> Path:
    """Return the path of the genesis file in a home."""
    return comet_home(home) / "config" / "genesis.json"


def read_signer(home: Path) -> RemoteSigner | None:
    """Return the remote signer of a home; None if the home has its own consensus key."""
    table = _read_config(home / "config.toml").get("node")
    return read_remote_signer(table) if isinstance(table, dict) else None


def read_home_keys(home: Path) -> NodeKeys:
    """Return the public half of a home's keys, of which a remote signer may have one; HomeError if there are none."""
    signer = read_signer(home)
    return read_keys(comet_home(home), signer.cons_key if signer else None)


def init_node(
    home: Path,
    moniker: str,
    ports: Ports,
    *,
    timing: Timing | None = None,
    genesis: bytes | None = None,
    persistent_peers: str = "",
    host: str = "127.0.0.1",
    seed: bytes | None = None,
    signer: RemoteSigner | None = None,
) -> NodeKeys:
    """Make the home of a node: keys, configuration and, if given, the genesis file of its network.

    If the home has keys but no genesis file yet, the keys are kept, because the genesis file that comes later may
    contain the public half of these keys. With ``signer``, a remote signer has the consensus key.
    """
    comet = comet_home(home)
    has_keys_only = (comet / "config" / "node_key.json").exists() and not genesis_path(home).exists()
    if signer is not None:
        write_node_table(home, signer.as_table())
    keys = read_home_keys(home) if has_keys_only else write_keys(comet, seed, signer.cons_key if signer else None)
    if not has_keys_only:
        beacon_key = Key.generate() if seed is None else Key(sha256(seed + b"b").digest())
        add_beacon_keys(beacon_keys_path(home), beacon_key)
    timing = timing or Timing()
    write_config(comet, moniker, ports, timing, host=host, persistent_peers=persistent_peers)
    if genesis is not None:
        genesis_path(home).write_bytes(genesis)
    write_node_table(home, {"moniker": moniker, "grpc_port": ports.grpc, "rpc_port": ports.rpc})
    return keys


def init_network(
    chain_id: str,
    nodes: Sequence[NodeSpec],
    accounts: Sequence[GenesisAccount],
    params: Params,
    *,
    timing: Timing,
    time_ns: int | None = None,
    seed: bytes | None = None,
) -> Genesis:
    """Make the homes of all validators of a new network on 127.0.0.1, and return its genesis.

    All homes have the same genesis, and each node has all others as its peers.
    """
    keys = [
        init_node(
            node.home,
            node.moniker,
            node.ports,
            timing=timing,
            seed=None if seed is None else seed + sha256(node.moniker.encode()).digest(),
        )
        for node in nodes
    ]
    validators = tuple(
        GenesisValidator(
            operator=node.operator,
            moniker=node.moniker,
            cons_key=key.cons_key,
            beacon_key=get_beacon_key(node.home),
            stake=node.stake,
            audit_speed=node.audit_speed,
        )
        for node, key in zip(nodes, keys, strict=True)
    )
    genesis = Genesis(
        chain_id=chain_id,
        denom=DENOM,
        params=params,
        accounts=tuple(accounts),
        validators=validators,
    )
    document = new_genesis(genesis, time_ns or time.time_ns())
    for index, node in enumerate(nodes):
        peers = ",".join(
            f"{key.node_id}@127.0.0.1:{other.ports.p2p}"
            for other_index, (other, key) in enumerate(zip(nodes, keys, strict=True))
            if other_index != index
        )
        write_config(comet_home(node.home), node.moniker, node.ports, timing, persistent_peers=peers)
        genesis_path(node.home).write_bytes(document)
    return genesis


def new_genesis(genesis: Genesis, time_ns: int) -> bytes:
    """Return the content of the genesis file of a new chain.

    Raise HomeError, naming the field whose value prevents a chain from starting.
    """
    try:
        check_genesis(genesis, time_ns)
    except Refusal as refusal:
        raise HomeError(f"no chain can start from this genesis: {refusal}") from None
    return genesis_document(genesis, time_ns, APP_VERSION)


def write_node_table(home: Path, values: dict[str, Any]) -> None:
    """Set values in the table ``node`` of the home's ``config.toml``; the rest of the file stays."""
    path = home / "config.toml"
    config = _read_config(path)
    config.setdefault("node", {}).update(values)
    path.write_text(tomli_w.dumps(config))


def read_node_table(home: Path) -> dict[str, Any]:
    """Return the table ``node`` of the home's ``config.toml``."""
    table = _read_config(home / "config.toml").get("node")
    if not isinstance(table, dict):
        raise HomeError(f"{home} is not the home of a node", "run `assay node init` first")
    return table


def _read_config(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:  # also bytes that are no text, and numbers with too many digits
        raise HomeError(f"{path} is not TOML ({error})", "correct that line, or restore the file from a copy") from None


# --- checks of a genesis before a chain starts from it ----------------------------------------

CHAIN_ID_MAX = 50  # CometBFT's limit


def check_names(genesis: Genesis) -> None:
    """Raise a Refusal for a bad address, key or chain id, or a repeated account.

    The state machine does not check these.
    """
    check(genesis)
    if len(genesis.chain_id) > CHAIN_ID_MAX:
        raise Refusal(BAD_FIELD, "chain_id", "is too long", f"use at most {CHAIN_ID_MAX} characters")
    seen: set[str] = set()
    for index, account in enumerate(genesis.accounts):
        field = f"accounts[{index}].address"
        check_address(account.address, field)
        if account.address in seen:
            remedy = "list it once, with the sum of its coins"
            raise Refusal(BAD_FIELD, field, f"{account.address} is listed twice", remedy)
        seen.add(account.address)
    for index, validator in enumerate(genesis.validators):
        check_address(validator.operator, f"validators[{index}].operator")
        if not is_point(validator.beacon_key):
            field = f"validators[{index}].beacon_key"
            raise Refusal(BAD_FIELD, field, "is not a beacon key", "use the key that `assay node show` prints")


def check_genesis(genesis: Genesis, time_ns: int) -> None:
    """Raise a Refusal that names the field at fault if no chain can start from a genesis."""
    check_names(genesis)
    init_chain(Overlay(MemoryStore()), genesis, time_ns)
