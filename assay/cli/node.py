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
    FLOPS,
    HOST,
    PEERS,
    PORT,
    PORT_OR_NONE,
    SIZE,
)
from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError, WrongUsage
from assay.cli.founding import ACCOUNT, FOUNDER, found_chain
from assay.cli.running import running_options
from host.addresses import HostPort, bare, bracketed, ip_of

if TYPE_CHECKING:
    from chain.app.comet_files import Ports
    from domain.genesis import GenesisValidator

V = TypeVar("V")

LOCAL = "127.0.0.1"
GENESIS_BYTES_MAX = 64 << 20
_ADDRESSES = ("host", "p2p_port", "rpc_port", "grpc_host", "grpc_port")
UNAUDITED = "this chain has no auditors, by its genesis: rounds are paid that nobody but their validator has recomputed"


@click.group(help="Set up and run a node.")
def command() -> None:
    """Group of node commands."""


@command.command(
    help="""Make the home of a node: its keys, and the genesis of a new chain or of the chain that it joins.

    With neither --new-chain nor --genesis, only the keys: tell what it prints to whoever makes the chain, and run it
    again with --genesis when the file is there. In a home that has both already, ports, addresses and peers that are
    given are changed, and the rest stays.

    \b
    Examples:
      assay keys add op
      assay node init alpha --new-chain assay-local-1 --from op --account assay1…=1000000000uassay
      assay node init beta --from op
      assay node init beta --genesis genesis.json --peers ID@10.0.0.1:26656
      assay node init beta --genesis genesis.json --host :: --peers ID@[2001:db8::1]:26656
      assay node init beta --p2p-port 26756 --rpc-port 26757 --grpc-port 9190
    """
)
@click.argument("moniker")
@click.option("--new-chain", default="", metavar="CHAIN_ID", help="Start a chain.")
@click.option("--genesis", "genesis_file", type=click.Path(path_type=Path), help="Join this chain.")
@click.option(
    "--peers",
    type=PEERS,
    default="",
    help="ID@host:port of nodes to connect to, comma-separated; an IPv6 address in brackets.",
)
@click.option("--stake", type=AMOUNT, default="100000000uassay", show_default=True, help="With --new-chain.")
@click.option(
    "--validator",
    "founders",
    type=FOUNDER,
    multiple=True,
    help="Another validator, with --new-chain.",
)
@click.option("--account", "accounts", type=ACCOUNT, multiple=True, help="With --new-chain.")
@click.option("--audit-speed", type=FLOPS, help="FLOP/s that it promises in panels, with --new-chain.")
@click.option("--audit-rate", type=SIZE, help="Bytes/s that it promises, with --new-chain.")
@click.option("--host", type=HOST, default=LOCAL, show_default=True, help="Address for peers.")
@click.option("--p2p-port", type=PORT, default=26656, show_default=True, help="Where other nodes connect.")
@click.option(
    "--rpc-port",
    type=PORT,
    default=26657,
    show_default=True,
    help="Where CometBFT answers RPC, on this machine.",
)
@click.option(
    "--grpc-port",
    type=PORT,
    default=9090,
    show_default=True,
    help="Where the node answers commands and daemons.",
)
@click.option("--grpc-host", type=HOST, default=LOCAL, show_default=True, help="Address for clients.")
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
) -> None:
    """Write keys, configuration and genesis."""
    from chain.app.comet_files import Ports, change_addresses
    from chain.app.homes import (
        comet_home,
        genesis_path,
        get_beacon_key,
        init_node,
        write_node_table,
    )
    from domain.genesis import AUDIT_RATE, AUDIT_SPEED, GenesisValidator

    if new_chain and genesis_file is not None:
        raise WrongUsage("choose --new-chain CHAIN_ID or --genesis FILE")
    if (founders or accounts) and not new_chain:
        raise WrongUsage("--validator and --account go with --new-chain")
    operator = context.address() if new_chain or context.given["from"] else "ADDRESS"
    data = _read_genesis(genesis_file) if genesis_file is not None else None
    kept = _Kept(context)
    grpc_port = kept("grpc_port", grpc_port)
    ports = Ports(kept("p2p_port", p2p_port), kept("rpc_port", rpc_port), grpc_port)
    host, grpc_host = kept("host", host), kept("grpc_host", grpc_host)
    _check_distinct(ports)
    if kept.names_addresses and genesis_path(context.home).exists() and not (new_chain or data):
        found = peers if kept.is_given("peers") else None
        change_addresses(comet_home(context.home), moniker, ports, host=host, peers=found)
        table = {"moniker": moniker, "grpc_port": ports.grpc, "rpc_port": ports.rpc}
        write_node_table(context.home, table)
        _write_addresses(context.home, grpc_host, grpc_port)
        changed = _identity(context)
        lines = [
            f"changed the addresses in {context.home}; the node takes them at its next start, and so do this home's"
            " daemons",
            f"for peers it is {changed['peer']}",
        ]
        context.output.result(changed, lines)
        return
    keys = init_node(context.home, moniker, ports, genesis=data, persistent_peers=peers, host=host)
    elsewhere = _write_addresses(context.home, grpc_host, grpc_port)
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
    made = _identity(context)
    lines = [f"made {context.home}"]
    if not made["genesis"]:
        named = f"{moniker},{operator},{made['key']},{made['beacon_key']},STAKE"
        lines += [f"for the chain's maker: --validator {named}"]
    elif founders:
        lines += [f"the others join with {made['genesis']} and --peers {made['peer']}"]
    if made["genesis"]:
        home = f" --home {context.home}" if context.home_is_named else ""
        solo = "" if founders or data else " --solo (for development), or under CometBFT without it"
        lines += [f"start it: assay node start{home}{solo}"]
    if elsewhere:
        context.output.note(
            f"commands of this home ask the node in it from now on, and no longer the one at {elsewhere}"
        )
    context.output.result(made, lines)


@command.command(
    help="""Show who this node is to others: node id, consensus key, peer address, chain.

    Example: assay node show
    """
)
@common_options
def show(context: CommandContext) -> None:
    """Show the identity of a home's node, running or not."""
    found = _identity(context)
    lines = [f"{name.replace('_', ' '):<10} {value or '-'}" for name, value in found.items()]
    context.output.result(found, lines)


@command.command(
    help="""Run a node until Ctrl-C: CometBFT under supervision, or a block maker for development.

    \b
    Examples:
      assay node start
      assay node start --solo
      assay node start --cometbft external
    """
)
@click.option("--solo", is_flag=True, help="Make blocks in this process; for development.")
@click.option(
    "--cometbft",
    type=click.Choice(["managed", "external"]),
    default="managed",
    show_default=True,
    help="Start CometBFT, or wait for one that somebody else runs.",
)
@click.option(
    "--comet-metrics-port",
    type=PORT_OR_NONE,
    help="Have CometBFT tell its own metrics on this port of 127.0.0.1.  [off]",
)
@common_options
@running_options("node")
def start(
    context: CommandContext,
    solo: bool,
    cometbft: str,
    comet_metrics_port: int | None,
    metrics_port: int,
) -> None:
    """Run the node in the foreground."""
    from chain.app.node import Consensus, NodeConfig, NodeReady, run_node

    def tell(ready: NodeReady) -> None:
        context.output.line(
            ready,
            f"{ready.moniker} is up on {ready.chain_id}: gRPC {ready.grpc}, RPC {ready.rpc or '-'}",
        )
        if not ready.auditors:
            context.output.note(UNAUDITED)

    consensus = Consensus.SOLO if solo else Consensus(cometbft)
    comet_port = context.setting("node.comet_metrics_port", comet_metrics_port).value
    config = replace(
        NodeConfig.of_home(context.home, consensus),
        metrics_port=metrics_port,
        comet_metrics_port=int(comet_port or 0),
    )
    run_node(config, tell)


@command.command(
    "new-beacon-key",
    help="""Make another beacon key beside the old one, and register it; it counts after the chain's beacon_delay.

    The node goes on with the old key until then, and needs no restart. Back up node/config/beacon_keys.json.

    Example: assay node new-beacon-key --from op
    """,
)
@common_options
def new_beacon_key(context: CommandContext) -> None:
    """Write the key first: one that is registered and lost costs the node's proposals."""
    from chain.app.beacon_keys import add_beacon_keys
    from chain.app.homes import beacon_keys_path, read_node_table
    from domain.beacon import possession_sign_bytes
    from domain.registry.messages import MsgSetBeaconKey
    from wire.keys import Key

    read_node_table(context.home)
    operator, beacon_key = context.key(), Key.generate()
    with context.client() as client:
        chain_id = client.status().chain_id
        add_beacon_keys(beacon_keys_path(context.home), beacon_key)
        document = possession_sign_bytes(chain_id, operator.address, beacon_key.pub_key)
        message = MsgSetBeaconKey(operator.address, beacon_key.pub_key, beacon_key.sign(document))
        receipt = context.sender(client, operator).send(message)
    context.output.result(
        {"beacon_key": beacon_key.pub_key, "height": receipt.height, "tx": receipt.hash},
        f"registered {beacon_key.pub_key.hex()} at height {receipt.height}",
    )


@command.command(
    "revoke-beacon-key",
    help="""Give up a beacon key that is lost, or that others know; `assay status --output json` has yours.

    From the next block on your proposals need none, and lots do not count them, until another key counts.

    Example: assay node revoke-beacon-key 02ab… --from op
    """,
)
@click.argument("beacon_key", type=BEACON_KEY)
@common_options
def revoke_beacon_key(context: CommandContext, beacon_key: bytes) -> None:
    """Send the message; the file of keys stays as it is."""
    from domain.registry.messages import MsgRevokeBeaconKey

    key = context.key()
    with context.client() as client:
        receipt = context.sender(client, key).send(MsgRevokeBeaconKey(key.address, beacon_key))
    context.output.result(receipt, f"revoked at height {receipt.height}")


@command.command(
    help="""Write the committed state of a stopped node as JSON; its app hash is computed anew.

    Example: assay node export --to state.json
    """
)
@click.option("--to", required=True, type=click.Path(path_type=Path), help="File to write.")
@common_options
def export(context: CommandContext, to: Path) -> None:
    """Export all keys and values at the last committed height."""
    from chain.app.storage import export_state

    found = export_state(context.home)
    to.write_text(json.dumps(found, indent=1) + "\n")
    summary = {name: found[name] for name in ("chain_id", "height", "app_hash")}
    keys = len(found["state"])
    context.output.result(
        {**summary, "keys": keys, "path": str(to)},
        f"wrote {keys} keys of {found['chain_id']} at height {found['height']} to {to}",
    )


def _check_distinct(ports: "Ports") -> None:
    """Refuse one port for two services; each is most likely on another address of one machine."""
    first: dict[int, str] = {}
    for option, number in (
        ("--p2p-port", ports.p2p),
        ("--rpc-port", ports.rpc),
        ("--grpc-port", ports.grpc),
    ):
        other = first.setdefault(number, option)
        if other != option:
            raise WrongUsage(f"{other} and {option} both name port {number}; give each a port of its own")


class _Kept:
    """What an earlier step said of addresses, where this one leaves them out: a home may be made in two."""

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
    def names_addresses(self) -> bool:
        """Whether the command names an address, a port or peers."""
        return any(map(self.is_given, ("peers", *_ADDRESSES)))

    def is_given(self, name: str) -> bool:
        """Return whether an option stands on the command line."""
        return self._source(name) is not ParameterSource.DEFAULT

    def __call__(self, name: str, value: V) -> V:
        """Return ``value``, or the earlier one where it is only the default."""
        if self.is_given(name):
            return value
        kept: V = self._values.get(name, value)
        return kept


def _write_addresses(home: Path, grpc_host: str, grpc_port: int) -> str:
    """Write down where the node serves, and that commands of this home ask it; return whom they asked, if another."""
    import tomli_w

    path = home / "config.toml"
    config = tomllib.loads(path.read_text())
    config["node"]["grpc_host"] = grpc_host
    # A node on all addresses is asked on this machine's own.
    before, address = config.get("node_address"), str(HostPort(bare(grpc_host), grpc_port).reached)
    path.write_text(tomli_w.dumps(config | {"node_address": address}))
    return str(before) if before and before != address else ""


def _read_genesis(path: Path) -> bytes:
    try:
        if path.stat().st_size > GENESIS_BYTES_MAX:
            raise CliError(f"larger than {GENESIS_BYTES_MAX} bytes", "is it a genesis file?", field=str(path))
        data = path.read_bytes()
        json.loads(data)["app_state"]
    except (ValueError, KeyError, TypeError):
        raise CliError(f"{path} is not a genesis file", "get it from the chain's makers") from None
    return data


def _identity(context: CommandContext) -> dict[str, str]:
    """Return what others need to know of the home's node; HomeError where it is not the home of one."""
    from chain.app.comet_files import read_genesis, read_keys
    from chain.app.homes import comet_home, genesis_path, get_beacon_key, read_node_table

    table = read_node_table(context.home)
    keys = read_keys(comet_home(context.home))
    config = tomllib.loads((comet_home(context.home) / "config" / "config.toml").read_text())
    host, _, port = config["p2p"]["laddr"].removeprefix("tcp://").rpartition(":")
    found = ip_of(host)
    reached = "HOST" if found and found.is_unspecified else bracketed(bare(host))
    genesis = genesis_path(context.home)
    return {
        "moniker": str(table["moniker"]),
        "key": keys.cons_key.hex(),
        "beacon_key": get_beacon_key(context.home).hex(),
        "peer": f"{keys.node_id}@{reached}:{port}",
        "chain_id": read_genesis(genesis)[0].chain_id if genesis.exists() else "",
        "genesis": str(genesis) if genesis.exists() else "",
        "home": str(context.home),
    }
