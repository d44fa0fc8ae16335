"""``assay node``."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from assay.cli.arguments import (
    AMOUNT,
    BEACON_KEY,
    CONSENSUS_KEY,
    FLOPS,
    HOST,
    PEERS,
    PORT,
    PORT_OR_NONE,
    SIGNER,
    SIZE,
)
from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError, WrongUsage
from assay.cli.founding import ACCOUNT, FOUNDER, found_chain
from assay.cli.running import running_options
from host.addresses import HostPort, bare, bracketed, ip_of

if TYPE_CHECKING:
    from chain.app.comet_files import Ports
    from chain.client.client import ChainClient, TxReceipt
    from domain.genesis import GenesisValidator
    from wire.keys import Key

V = TypeVar("V")

LOCAL = "127.0.0.1"
GENESIS_BYTES_MAX = 64 << 20
_ADDRESSES = ("host", "p2p_port", "rpc_port", "grpc_host", "grpc_port")
UNAUDITED = (
    "this chain has no audits, as set in its genesis: a round is paid when only its own validator has recomputed it"
)


@click.group(help="Set up and run a node.")
def command() -> None:
    """Group of node commands."""


@command.command(
    help="""Create a node's home: the keys, and the genesis file of a new chain or of the chain that the node joins.

    Without --new-chain and --genesis, the command creates only the keys. Send the output to the person who creates the
    chain. When you have the genesis file, run the command again with --genesis. In a home that has keys and genesis,
    the command changes only the ports, addresses, peers and signer that you give.

    With --remote-signer, the home has no consensus key: another program signs (docs/operate/signer.md).

    \b
    Examples:
      assay keys add op
      assay node init alpha --new-chain assay-local-1 --from op --account assay1…=1000000000uassay
      assay node init beta --from op
      assay node init beta --genesis genesis.json --peers ID@10.0.0.1:26656
      assay node init beta --genesis genesis.json --host :: --peers ID@[2001:db8::1]:26656
      assay node init beta --p2p-port 26756 --rpc-port 26757 --grpc-port 9190
      assay node init beta --remote-signer tcp://10.0.0.1:26659 --consensus-key 5f3e…
    """
)
@click.argument("moniker")
@click.option("--new-chain", default="", metavar="CHAIN_ID", help="Create a chain with this id.")
@click.option("--genesis", "genesis_file", type=click.Path(path_type=Path), help="Join the chain of this genesis file.")
@click.option(
    "--peers",
    type=PEERS,
    default="",
    help="ID@host:port of nodes to connect to, comma-separated; an IPv6 address in brackets.",
)
@click.option(
    "--stake",
    type=AMOUNT,
    default="100000000uassay",
    show_default=True,
    help="With --new-chain: this validator's stake.",
)
@click.option(
    "--validator",
    "founders",
    type=FOUNDER,
    multiple=True,
    help="With --new-chain: another validator of the chain; may be repeated.",
)
@click.option(
    "--account",
    "accounts",
    type=ACCOUNT,
    multiple=True,
    help="With --new-chain: an account and its coins; may be repeated.",
)
@click.option("--audit-speed", type=FLOPS, help="With --new-chain: FLOP/s that this validator promises in panels.")
@click.option("--audit-rate", type=SIZE, help="With --new-chain: bytes/s that this validator promises in panels.")
@click.option("--host", type=HOST, default=LOCAL, show_default=True, help="Address for peers.")
@click.option("--p2p-port", type=PORT, default=26656, show_default=True, help="Port for other nodes.")
@click.option(
    "--rpc-port",
    type=PORT,
    default=26657,
    show_default=True,
    help="Port of CometBFT's RPC on 127.0.0.1.",
)
@click.option(
    "--grpc-port",
    type=PORT,
    default=9090,
    show_default=True,
    help="Port for commands and daemons.",
)
@click.option("--grpc-host", type=HOST, default=LOCAL, show_default=True, help="Address for clients.")
@click.option("--remote-signer", type=SIGNER, help="Address at which CometBFT waits for a remote signer.")
@click.option("--consensus-key", type=CONSENSUS_KEY, help="The signer's public key, in hex or as JSON.")
@common_options
def init(
    context: CommandContext,
    moniker: str,
    new_chain: str,
    genesis_file: Path | None,
    peers: str,
    stake: int,
    founders: "tuple[GenesisValidator, ...]",
    accounts: tuple[tuple[str, int], ...],
    audit_speed: int | None,
    audit_rate: int | None,
    host: str,
    p2p_port: int,
    rpc_port: int,
    grpc_port: int,
    grpc_host: str,
    remote_signer: str | None,
    consensus_key: bytes | None,
) -> None:
    """Create a node's keys, configuration and genesis in the home, or change the addresses of its node."""
    from chain.app.comet_files import Ports, change_addresses
    from chain.app.homes import (
        comet_home,
        genesis_path,
        get_beacon_key,
        init_node,
        write_node_table,
    )
    from chain.app.remote_signer import RemoteSigner
    from domain.genesis import AUDIT_RATE, AUDIT_SPEED, GenesisValidator

    if new_chain and genesis_file is not None:
        raise WrongUsage("both --new-chain and --genesis are given; give --new-chain CHAIN_ID or --genesis FILE")
    if (founders or accounts) and not new_chain:
        raise WrongUsage("--validator and --account work only with --new-chain CHAIN_ID")
    if (remote_signer is None) != (consensus_key is None):
        raise WrongUsage("--remote-signer and --consensus-key need each other; give both")
    signer = RemoteSigner(remote_signer, consensus_key) if remote_signer and consensus_key else None
    operator = context.address() if new_chain or context.given["from"] else "ADDRESS"
    data = read_genesis_file(genesis_file) if genesis_file is not None else None
    addresses = _HomeAddresses(context)
    grpc_port = addresses.choose("grpc_port", grpc_port)
    ports = Ports(addresses.choose("p2p_port", p2p_port), addresses.choose("rpc_port", rpc_port), grpc_port)
    host = addresses.choose("host", host)
    grpc_host = addresses.choose("grpc_host", grpc_host)
    check_distinct(ports)
    if (addresses.are_named or signer) and genesis_path(context.home).exists() and not (new_chain or data):
        new_peers = peers if addresses.is_given("peers") else None
        change_addresses(comet_home(context.home), moniker, ports, host=host, peers=new_peers)
        table = {"moniker": moniker, "grpc_port": ports.grpc, "rpc_port": ports.rpc}
        write_node_table(context.home, table | (signer.as_table() if signer else {}))
        write_addresses(context.home, grpc_host, grpc_port)
        changed = _identity(context)
        changes = "addresses and signer" if signer else "the addresses"
        lines = [
            f"changed {changes} in {context.home}; restart the node and the daemons of this home to use them",
            f"the address for peers is {changed['peer']}",
        ]
        context.output.result(changed, lines)
        return
    keys = init_node(context.home, moniker, ports, genesis=data, persistent_peers=peers, host=host, signer=signer)
    elsewhere = write_addresses(context.home, grpc_host, grpc_port)
    if new_chain:
        beacon_key = get_beacon_key(context.home)
        own = GenesisValidator(
            operator=operator,
            moniker=moniker,
            cons_key=keys.cons_key,
            beacon_key=beacon_key,
            stake=stake,
            audit_speed=audit_speed or AUDIT_SPEED,
            audit_rate=audit_rate or AUDIT_RATE,
        )
        document = found_chain(new_chain, (own, *founders), dict(accounts))
        genesis_path(context.home).write_bytes(document)
    identity = _identity(context)
    lines = [f"created {context.home}"]
    if not identity["genesis"]:
        founder = f"{moniker},{operator},{identity['key']},{identity['beacon_key']},STAKE"
        lines += [f"give this to the person who creates the chain: --validator {founder}"]
    elif founders:
        lines += [f"the other validators join with {identity['genesis']} and --peers {identity['peer']}"]
    if identity["genesis"]:
        home = f" --home {context.home}" if context.home_is_named else ""
        solo = "" if founders or data else " --solo (for development), or without --solo under CometBFT"
        lines += [f"start it: assay node start{home}{solo}"]
    if elsewhere:
        context.output.note(f"commands of this home now ask its own node, and no longer the node at {elsewhere}")
    context.output.result(identity, lines)


@command.command(
    help="""Show this node's identity for other nodes: node id, consensus key, peer address, chain.

    Example: assay node show
    """
)
@common_options
def show(context: CommandContext) -> None:
    """Show the identity of a home's node, running or not."""
    identity = _identity(context)
    lines = [f"{name.replace('_', ' '):<10} {value or '-'}" for name, value in identity.items()]
    context.output.result(identity, lines)


@command.command(
    help="""Run a node until Ctrl-C, with CometBFT, or alone with --solo for development.

    \b
    Examples:
      assay node start
      assay node start --solo
      assay node start --cometbft external
      assay node start --rest-port 1317
    """
)
@click.option("--solo", is_flag=True, help="Make blocks in this process; for development.")
@click.option(
    "--cometbft",
    type=click.Choice(["managed", "external"]),
    default="managed",
    show_default=True,
    help="Start CometBFT (managed), or wait for one that you run yourself (external).",
)
@click.option(
    "--comet-metrics-port",
    type=PORT_OR_NONE,
    help="Port on 127.0.0.1 for CometBFT's own metrics.  [off]",
)
@click.option(
    "--rest-port",
    type=PORT_OR_NONE,
    help="Port of the REST gateway for wallets and explorers, such as 1317.  [off]",
)
@common_options
@running_options("node")
def start(
    context: CommandContext,
    solo: bool,
    cometbft: str,
    comet_metrics_port: int | None,
    rest_port: int | None,
    metrics_port: int,
) -> None:
    """Run the home's node in the foreground."""
    from chain.app.node import Consensus, NodeConfig, NodeReady, run_node

    def report(ready: NodeReady) -> None:
        context.output.line(
            ready,
            f"{ready.moniker} is up on {ready.chain_id}: gRPC {ready.grpc}, REST {ready.rest or '-'},"
            f" RPC {ready.rpc or '-'}",
        )
        if not ready.auditors:
            context.output.note(UNAUDITED)

    consensus = Consensus.SOLO if solo else Consensus(cometbft)
    comet_port = context.setting("node.comet_metrics_port", comet_metrics_port).value
    config = replace(
        NodeConfig.of_home(context.home, consensus),
        metrics_port=metrics_port,
        comet_metrics_port=int(comet_port or 0),
        rest_port=int(context.setting("node.rest_port", rest_port).value or 0),
    )
    run_node(config, report)


@command.command(
    "new-beacon-key",
    help="""Create a new beacon key and register it; it becomes valid after the chain's beacon_delay.

    Until then the node uses the old key. The node needs no restart. Back up node/config/beacon_keys.json.

    Example: assay node new-beacon-key --from op
    """,
)
@common_options
def new_beacon_key(context: CommandContext) -> None:
    """Register a new beacon key, and print its public half."""
    from chain.app.beacon_keys import add_beacon_keys
    from chain.app.homes import beacon_keys_path, read_node_table
    from wire.keys import Key

    read_node_table(context.home)
    operator, beacon_key = context.key(), Key.generate()
    with context.client() as client:
        client.status()  # no key is made if the node does not answer
        add_beacon_keys(beacon_keys_path(context.home), beacon_key)
        receipt = register_beacon_key(context, client, operator, beacon_key)
    context.output.result(
        {"beacon_key": beacon_key.pub_key, "height": receipt.height, "tx": receipt.hash},
        f"registered {beacon_key.pub_key.hex()} at height {receipt.height}",
    )


def register_beacon_key(
    context: CommandContext, client: "ChainClient", operator: "Key", beacon_key: "Key"
) -> "TxReceipt":
    """Register a beacon key, which the home's file of beacon keys has already: a node that lacks its registered key
    cannot propose blocks.
    """
    from domain.beacon import possession_sign_bytes
    from domain.registry.messages import MsgSetBeaconKey

    document = possession_sign_bytes(client.status().chain_id, operator.address, beacon_key.pub_key)
    message = MsgSetBeaconKey(operator.address, beacon_key.pub_key, beacon_key.sign(document))
    return context.sender(client, operator).send(message)


@command.command(
    "revoke-beacon-key",
    help="""Revoke a beacon key that is lost, or that other people know; `assay status --output json` shows yours.

    From the next block on, your proposals need no beacon key and do not count in drawing lots, until a new key is
    valid.

    Example: assay node revoke-beacon-key 02ab… --from op
    """,
)
@click.argument("beacon_key", type=BEACON_KEY)
@common_options
def revoke_beacon_key(context: CommandContext, beacon_key: bytes) -> None:
    """Revoke a beacon key on the chain; the home's file of beacon keys stays unchanged."""
    from domain.registry.messages import MsgRevokeBeaconKey

    key = context.key()
    with context.client() as client:
        receipt = context.sender(client, key).send(MsgRevokeBeaconKey(key.address, beacon_key))
    context.output.result(receipt, f"revoked at height {receipt.height}")


@command.command(
    help="""Write the committed state of a stopped node as JSON, with a recomputed app hash.

    Example: assay node export --to state.json
    """
)
@click.option("--to", required=True, type=click.Path(path_type=Path), help="File to write.")
@common_options
def export(context: CommandContext, to: Path) -> None:
    """Write all keys and values of the chain's state at the last committed height to a file."""
    from chain.app.storage import export_state

    state = export_state(context.home)
    to.write_text(json.dumps(state, indent=1) + "\n")
    summary = {name: state[name] for name in ("chain_id", "height", "app_hash")}
    keys = len(state["state"])
    context.output.result(
        {**summary, "keys": keys, "path": str(to)},
        f"wrote {keys} keys of {state['chain_id']} at height {state['height']} to {to}",
    )


def check_distinct(ports: "Ports") -> None:
    """Raise WrongUsage if two of the node's services have the same port."""
    first: dict[int, str] = {}
    for option, number in (
        ("--p2p-port", ports.p2p),
        ("--rpc-port", ports.rpc),
        ("--grpc-port", ports.grpc),
    ):
        other = first.setdefault(number, option)
        if other != option:
            raise WrongUsage(f"{other} and {option} are both port {number}; give two different ports")


class _HomeAddresses:
    """The addresses that an earlier ``node init`` wrote into the home; they replace the defaults of options."""

    def __init__(self, context: CommandContext) -> None:
        from chain.app.comet_files import read_addresses
        from chain.app.homes import comet_home

        self._source = click.get_current_context().get_parameter_source
        comet = read_addresses(comet_home(context.home))
        self._values: dict[str, Any] = {}
        if comet.keys() >= {"p2p", "rpc"}:
            self._values = {
                "host": comet["p2p"][0],
                "p2p_port": comet["p2p"][1],
                "rpc_port": comet["rpc"][1],
                "grpc_host": context.setting("node.grpc_host").value,
                "grpc_port": context.setting("node.grpc_port").value,
            }

    @property
    def are_named(self) -> bool:
        """True if the command line has an option for an address, a port or peers."""
        return any(map(self.is_given, ("peers", *_ADDRESSES)))

    def is_given(self, name: str) -> bool:
        """Return True if the option ``name`` is on the command line."""
        return self._source(name) is not ParameterSource.DEFAULT

    def choose(self, name: str, value: V) -> V:
        """Return the value to use for the option ``name``.

        If the option is on the command line, return ``value``. Otherwise return the home's value; if the home has none,
        return ``value``, which is then the option's default.
        """
        if self.is_given(name):
            return value
        earlier: V = self._values.get(name, value)
        return earlier


def write_addresses(home: Path, grpc_host: str, grpc_port: int) -> str:
    """Write the node's gRPC address to config.toml, so that commands of this home ask this node.

    Return the address that these commands used before, or an empty string if it has not changed or there was none.
    """
    import tomli_w

    path = home / "config.toml"
    config = tomllib.loads(path.read_text())
    config["node"]["grpc_host"] = grpc_host
    # Commands reach a node that listens on all addresses at the loopback address.
    before = config.get("node_address")
    address = str(HostPort(bare(grpc_host), grpc_port).reached)
    path.write_text(tomli_w.dumps(config | {"node_address": address}))
    return str(before) if before and before != address else ""


def read_genesis_file(path: Path) -> bytes:
    """Return the bytes of a chain's genesis file; raise CliError if it is too large or none."""
    try:
        if path.stat().st_size > GENESIS_BYTES_MAX:
            raise CliError(
                f"the file is larger than {GENESIS_BYTES_MAX} bytes",
                "give the chain's genesis file: --genesis genesis.json",
                field=str(path),
            )
        data = path.read_bytes()
        json.loads(data)["app_state"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CliError(f"{path} is not a genesis file", "get the file from a validator of the chain") from None
    return data


def _identity(context: CommandContext) -> dict[str, str]:
    """Return the data that other nodes need about the home's node; raise HomeError if the home has no node."""
    from chain.app.comet_files import read_genesis
    from chain.app.homes import comet_home, genesis_path, get_beacon_key, read_home_keys, read_node_table
    from chain.app.remote_signer import LISTEN

    table = read_node_table(context.home)
    keys = read_home_keys(context.home)
    config = tomllib.loads((comet_home(context.home) / "config" / "config.toml").read_text())
    host, _, port = config["p2p"]["laddr"].removeprefix("tcp://").rpartition(":")
    address = ip_of(host)
    reached = "HOST" if address and address.is_unspecified else bracketed(bare(host))
    genesis = genesis_path(context.home)
    return {
        "moniker": str(table["moniker"]),
        "key": keys.cons_key.hex(),
        "remote_signer": str(table.get(LISTEN, "")),
        "beacon_key": get_beacon_key(context.home).hex(),
        "peer": f"{keys.node_id}@{reached}:{port}",
        "chain_id": read_genesis(genesis)[0].chain_id if genesis.exists() else "",
        "genesis": str(genesis) if genesis.exists() else "",
        "home": str(context.home),
    }
