"""The files of a CometBFT home: keys, configuration and genesis, all written by this module, not by CometBFT.

Every setting that matters is written explicitly, so the defaults of a CometBFT release do not decide anything.
"""

import base64
import json
import os
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import tomli_w
from nacl.signing import SigningKey

from chain.app.evidence_rules import BLOCK_MS, evidence_rules
from domain import codec
from domain.errors import Expected, Refusal
from domain.genesis import GENESIS, Genesis
from domain.limits import MEMPOOL_BYTES_MAX, MEMPOOL_TXS_MAX, TX_BYTES_MAX
from domain.plain import read
from host.addresses import HostPort, bare, is_loopback

COMET_BLOCK_BYTES_MAX = MEMPOOL_BYTES_MAX + 4 * 1024 * 1024
"""CometBFT's bound on a block. It is larger than a full mempool, so that the application sees all waiting transactions
when it makes a proposal. The application itself bounds blocks to ``BLOCK_BYTES_MAX``."""
_LINK_BYTES_PER_SECOND = 20_000_000


SIGNS_TWICE = (
    "it may sign twice; the chain takes a part of its stake for that, and jails it for good; see docs/operate/backup.md"
)
"""The consequence if a validator does not remember its last signature; all errors about this use the same text."""


class HomeError(Expected):
    """An error about a home that cannot be made or read."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of a node: CometBFT's p2p and RPC, and the node's gRPC. CometBFT's RPC always listens on 127.0.0.1."""

    p2p: int
    rpc: int
    grpc: int


@dataclass(frozen=True, slots=True)
class Timing:
    """The timeouts of consensus in milliseconds; ``commit`` is about the time between blocks."""

    propose: int = 3_000
    vote: int = 1_000
    commit: int = BLOCK_MS
    gossip_sleep: int = 100


LOCAL_TIMING = Timing(propose=1_000, vote=500, commit=200, gossip_sleep=25)
"""For networks on one machine: a block about every 0.25 s, even with one of four validators down."""


@dataclass(frozen=True, slots=True)
class NodeKeys:
    """The public half of a home's keys."""

    cons_key: bytes  # ed25519, 32 bytes
    node_id: str  # p2p identity: hex of SHA-256(key)[:20]


def write_keys(comet_home: Path, seed: bytes | None = None, cons_key: bytes | None = None) -> NodeKeys:
    """Make the keys of a validator and of its p2p node; raise HomeError if the home already has keys.

    With ``cons_key``, the key of a remote signer, make only the key of the p2p node. ``seed`` makes the keys
    predictable, and is for tests only.
    """
    config = comet_home / "config"
    data = comet_home / "data"
    if any((config / name).exists() for name in ("priv_validator_key.json", "node_key.json")):
        raise HomeError(
            f"{comet_home} already has a validator key",
            "choose another --home; to change the ports or addresses of this home, use --p2p-port, --rpc-port,"
            " --grpc-port, --host, --grpc-host or --peers without --new-chain and --genesis",
        )
    for directory in (config, data):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    seeds = [None, None] if seed is None else [sha256(seed + tag).digest() for tag in (b"v", b"n")]
    cons, node = (SigningKey(s) if s is not None else SigningKey.generate() for s in seeds)
    if cons_key is None:
        cons_key = bytes(cons.verify_key)
        _write_secret(
            config / "priv_validator_key.json",
            {
                "address": sha256(cons_key).digest()[:20].hex().upper(),
                "pub_key": _typed("tendermint/PubKeyEd25519", cons_key),
                "priv_key": _typed("tendermint/PrivKeyEd25519", bytes(cons) + cons_key),
            },
        )
        _write_secret(data / "priv_validator_state.json", {"height": "0", "round": 0, "step": 0})
    node_key = bytes(node.verify_key)
    _write_secret(
        config / "node_key.json",
        {"priv_key": _typed("tendermint/PrivKeyEd25519", bytes(node) + node_key)},
    )
    return NodeKeys(cons_key, _node_id(node_key))


def read_keys(comet_home: Path, cons_key: bytes | None = None) -> NodeKeys:
    """Return the public half of a home's keys; HomeError if there are none.

    With ``cons_key``, the key of a remote signer, the home needs none.
    """
    config = comet_home / "config"
    try:
        if cons_key is None:
            cons = json.loads((config / "priv_validator_key.json").read_bytes())["pub_key"]["value"]
            cons_key = base64.b64decode(cons)
        node = json.loads((config / "node_key.json").read_bytes())["priv_key"]["value"]
        node_key = base64.b64decode(node)[32:]
    except FileNotFoundError:
        raise HomeError(f"{comet_home} has no keys", "run `assay node init` first") from None
    except (KeyError, TypeError, ValueError):
        raise HomeError(f"the keys in {config} cannot be read", "restore them from a copy") from None
    return NodeKeys(cons_key, _node_id(node_key))


def check_signer(comet_home: Path) -> None:
    """Raise HomeError if CometBFT's key or its signing state is missing.

    If a file is missing, CometBFT would make a new file without a warning.
    """
    needed = ("config/priv_validator_key.json", "data/priv_validator_state.json")
    missing = [str(comet_home / name) for name in needed if not (comet_home / name).exists()]
    if missing:
        raise HomeError(
            f"{' and '.join(missing)} is missing: without its key, the node would be a different validator; without its"
            f" state, {SIGNS_TWICE}",
            "restore the newest copy of it; that page says what to do if there is none",
        )


def read_addresses(comet_home: Path) -> dict[str, tuple[str, int]]:
    """Return host and port of CometBFT's RPC, p2p and metrics from its ``config.toml``."""
    try:
        tables = tomllib.loads((comet_home / "config" / "config.toml").read_text())
    except (OSError, ValueError):
        return {}  # CometBFT itself reports the error
    addresses = {}
    laddrs = {name: tables.get(name, {}).get("laddr", "") for name in ("rpc", "p2p")}
    instrumentation = tables.get("instrumentation", {})
    if instrumentation.get("prometheus"):
        laddrs["metrics"] = instrumentation.get("prometheus_listen_addr", "")
    for name, laddr in laddrs.items():
        host, _, port = str(laddr).removeprefix("tcp://").rpartition(":")
        if port.isdecimal():
            addresses[name] = (bare(host), int(port))
    return addresses


def write_config(
    comet_home: Path,
    moniker: str,
    ports: Ports,
    timing: Timing,
    *,
    host: str = "127.0.0.1",
    persistent_peers: str = "",
) -> None:
    """Write CometBFT's ``config.toml``.

    If ``host`` is a loopback address, several peers may have the same address, and the address book accepts such
    addresses.
    """
    local = is_loopback(host)
    config: dict[str, Any] = {
        "moniker": moniker,
        "abci": "socket",
        "db_backend": "goleveldb",
        "log_level": "info",
        "rpc": {"laddr": f"tcp://127.0.0.1:{ports.rpc}"},
        "p2p": {
            "laddr": f"tcp://{HostPort(bare(host), ports.p2p)}",
            "persistent_peers": persistent_peers,
            "flush_throttle_timeout": "10ms",
            "send_rate": _LINK_BYTES_PER_SECOND,
            "recv_rate": _LINK_BYTES_PER_SECOND,
            "addr_book_strict": not local,
            "allow_duplicate_ip": local,
            "pex": not local,
        },
        "mempool": {
            "type": "flood",
            "size": MEMPOOL_TXS_MAX,
            "max_txs_bytes": MEMPOOL_BYTES_MAX,
            "cache_size": 2 * MEMPOOL_TXS_MAX,
            "max_tx_bytes": TX_BYTES_MAX,
            "recheck": True,
            "recheck_timeout": "2s",
        },
        "consensus": {
            "timeout_propose": f"{timing.propose}ms",
            "timeout_propose_delta": f"{timing.propose // 4}ms",
            "timeout_prevote": f"{timing.vote}ms",
            "timeout_prevote_delta": f"{timing.vote // 2}ms",
            "timeout_precommit": f"{timing.vote}ms",
            "timeout_precommit_delta": f"{timing.vote // 2}ms",
            "timeout_commit": f"{timing.commit}ms",
            "peer_gossip_sleep_duration": f"{timing.gossip_sleep}ms",
            "create_empty_blocks": True,  # the chain clock and its deadlines need blocks
            # The module ``signing`` does this check instead, because it knows the signatures of this home.
            "double_sign_check_height": 0,
        },
        "storage": {"discard_abci_responses": False},
        "tx_index": {"indexer": "kv"},  # CosmJS finds transactions by tx_search
        "instrumentation": {"prometheus": False},  # :func:`set_comet_ports` switches the metrics on.
    }
    (comet_home / "config" / "config.toml").write_text(tomli_w.dumps(config))


def change_addresses(comet_home: Path, moniker: str, ports: Ports, *, host: str, peers: str | None) -> None:
    """Change CometBFT's addresses, and its ``peers`` unless that is None; keep all other settings."""
    path = comet_home / "config" / "config.toml"
    try:
        config = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise HomeError(f"{path} cannot be read ({error})", "restore it from a copy") from None
    local = is_loopback(host)
    p2p = {
        **config.get("p2p", {}),
        "laddr": f"tcp://{HostPort(bare(host), ports.p2p)}",
        "addr_book_strict": not local,
        "allow_duplicate_ip": local,
        "pex": not local,
    }
    if peers is not None:
        p2p["persistent_peers"] = peers
    rpc = {**config.get("rpc", {}), "laddr": f"tcp://127.0.0.1:{ports.rpc}"}
    path.write_text(tomli_w.dumps({**config, "moniker": moniker, "p2p": p2p, "rpc": rpc}))


def set_comet_ports(comet_home: Path, rpc_port: int, metrics_port: int) -> None:
    """Set two ports of CometBFT on 127.0.0.1: the port of its RPC, and the port of its metrics (0: no metrics).

    The node's own ``config.toml`` has both ports. CometBFT's file is written only if these ports change it.
    """
    path = comet_home / "config" / "config.toml"
    try:
        config = tomllib.loads(path.read_text())
    except (OSError, ValueError):
        return  # CometBFT itself reports the error
    instrumentation: dict[str, Any] = {"prometheus": False}
    if metrics_port:
        address = f"127.0.0.1:{metrics_port}"
        instrumentation = {"prometheus": True, "prometheus_listen_addr": address, "namespace": "cometbft"}
    rpc = dict(config.get("rpc", {}))
    host = str(rpc.get("laddr", "")).rpartition(":")[0] or "tcp://127.0.0.1"
    changed = {**config, "rpc": {**rpc, "laddr": f"{host}:{rpc_port}"}, "instrumentation": instrumentation}
    if changed != config:
        path.write_text(tomli_w.dumps(changed))


def genesis_document(genesis: Genesis, time_ns: int, app_version: int) -> bytes:
    """Return the content of ``genesis.json``.

    Its ``app_state`` has the validators, and CometBFT gets them from InitChain.
    """
    evidence = evidence_rules(genesis.params)
    document = {
        "genesis_time": _rfc3339(time_ns),
        "chain_id": genesis.chain_id,
        "initial_height": "1",
        "consensus_params": {
            "block": {
                # The application bounds a block's bytes and gas: duties have a lane.
                "max_bytes": str(COMET_BLOCK_BYTES_MAX),
                "max_gas": "-1",
            },
            "evidence": {
                "max_age_num_blocks": str(evidence.max_age_blocks),
                "max_age_duration": str(evidence.max_age_seconds * 10**9),
                "max_bytes": str(evidence.max_bytes),
            },
            "validator": {"pub_key_types": ["ed25519"]},
            "version": {"app": str(app_version)},
            "abci": {"vote_extensions_enable_height": "0"},
        },
        "app_hash": "",
        "app_state": codec.to_plain(genesis),
    }
    return (json.dumps(document, indent=2) + "\n").encode()


def read_genesis(path: Path) -> tuple[Genesis, int]:
    """Return the application's part of ``genesis.json`` and the time of genesis.

    Raise HomeError if the file is not valid.
    """
    try:
        document = json.loads(path.read_bytes())
        genesis = read(GENESIS, document["app_state"])
        time_ns = parse_time(str(document["genesis_time"]))
    except FileNotFoundError:
        raise HomeError(f"{path} does not exist", "run `assay node init` with --genesis FILE") from None
    except (KeyError, TypeError, ValueError, RecursionError, Refusal) as error:
        raise HomeError(f"{path} is not a genesis file of Assay ({error})", "get it from the chain's makers") from None
    if document.get("chain_id") != genesis.chain_id:
        reason = f"{path} names two chains: {document.get('chain_id')} and {genesis.chain_id}"
        raise HomeError(reason, "use the unchanged genesis file of the chain's makers")
    return genesis, time_ns


def _node_id(node_key: bytes) -> str:
    return sha256(node_key).digest()[:20].hex()


def _typed(kind: str, value: bytes) -> dict[str, str]:
    return {"type": kind, "value": base64.b64encode(value).decode()}


def _write_secret(path: Path, value: object) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        json.dump(value, out, indent=2)


def _rfc3339(time_ns: int) -> str:
    seconds, nanos = divmod(time_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanos:09d}Z"


def parse_time(text: str) -> int:
    """Return the Unix nanoseconds of a time in CometBFT's format; ValueError for other text."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp())
    return seconds * 10**9 + int(fraction.ljust(9, "0")[:9] or 0)
