"""``assay node``."""

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.arguments import amount
from assay.cli.context import Context, common_options
from assay.cli.errors import CliError, Exit

if TYPE_CHECKING:
    from chain.types.genesis import GenesisAccount
    from chain.types.params import Params

GENESIS_BYTES_MAX = 64 << 20


@click.group(help="Set up and run a node.")
def command() -> None:
    """Group of node commands."""


@command.command(
    help="""Make the home of a node: of a new chain with this validator, or joining a chain by its genesis file.

    \b
    Examples:
      assay keys add op
      assay node init alpha --new-chain assay-local-1 --from op --account assay1…=1000000000uassay
      assay node init beta --genesis genesis.json --peers ID@10.0.0.1:26656
    """
)
@click.argument("moniker")
@click.option("--new-chain", default="", metavar="CHAIN_ID", help="Start a chain of its own.")
@click.option("--genesis", "genesis_file", type=click.Path(path_type=Path), help="Join this chain.")
@click.option("--peers", default="", help="ID@host:port of nodes to connect to, comma-separated.")
@click.option("--stake", default="100000000uassay", show_default=True, help="With --new-chain.")
@click.option("--account", "accounts", multiple=True, help="ADDRESS=AMOUNT, with --new-chain.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address for peers.")
@click.option("--p2p-port", default=26656, show_default=True)
@click.option("--rpc-port", default=26657, show_default=True)
@click.option("--grpc-port", default=9090, show_default=True)
@click.option("--grpc-host", default="127.0.0.1", show_default=True, help="Address for clients.")
@common_options
def init(
    context: Context,
    moniker: str,
    new_chain: str,
    genesis_file: Path | None,
    peers: str,
    stake: str,
    accounts: tuple[str, ...],
    host: str,
    p2p_port: int,
    rpc_port: int,
    grpc_port: int,
    grpc_host: str,
) -> None:
    """Write keys, configuration and genesis."""
    from chain.app.comet_files import HomeError, Ports, Timing
    from chain.app.genesis_file import NodeSpec, genesis_path, init_network, init_node
    from chain.types.params import Params, local_params

    if bool(new_chain) == (genesis_file is not None):
        raise CliError("choose --new-chain CHAIN_ID or --genesis FILE", Exit.USAGE)
    ports = Ports(p2p_port, rpc_port, grpc_port)
    try:
        if genesis_file is not None:
            data = _read_genesis(genesis_file)
            keys = init_node(
                context.home, moniker, ports, genesis=data, persistent_peers=peers, host=host
            )
            made = {"home": str(context.home), "node_id": keys.node_id}
        else:
            operator = context.key().address
            local = new_chain.startswith("assay-local")
            params = local_params() if local else Params()
            spec = NodeSpec(context.home, moniker, operator, amount(stake, "--stake"), ports)
            init_network(
                new_chain,
                [spec],
                _genesis_accounts(accounts, operator),
                _alone(params),
                timing=Timing(),
            )
            made = {"home": str(context.home), "genesis": str(genesis_path(context.home))}
    except HomeError as error:
        raise CliError(str(error)) from None
    lines = [
        f"made {context.home}",
        "start it: assay node start" + (" --solo" if new_chain else ""),
    ]
    context.output.result(made, lines)


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
@common_options
def start(context: Context, solo: bool, cometbft: str) -> None:
    """Run the node in the foreground."""
    from chain.app.comet import CometError
    from chain.app.comet_files import HomeError
    from chain.app.node import Consensus, NodeConfig, NodeReady, run_node
    from chain.app.storage import StorageError

    def tell(ready: NodeReady) -> None:
        context.output.line(
            ready,
            f"{ready.moniker} is up on {ready.chain_id}: gRPC {ready.grpc}, RPC {ready.rpc or '-'}",
        )

    try:
        consensus = Consensus.SOLO if solo else Consensus(cometbft)
        run_node(NodeConfig.of_home(context.home, consensus), tell)
    except (HomeError, StorageError, CometError) as error:
        raise CliError(str(error)) from None


@command.command(
    help="""Write the committed state of a stopped node as JSON; its app hash is computed anew.

    Example: assay node export --to state.json
    """
)
@click.option("--to", required=True, type=click.Path(path_type=Path), help="File to write.")
@common_options
def export(context: Context, to: Path) -> None:
    """Export all keys and values at the last committed height."""
    from chain.app.export import export_state
    from chain.app.storage import StorageError

    try:
        found = export_state(context.home)
        to.write_text(json.dumps(found, indent=1) + "\n")
    except StorageError as error:
        raise CliError(str(error)) from None
    except OSError as error:
        raise CliError(f"{to}: {error.strerror}; name a file that can be written") from None
    summary = {name: found[name] for name in ("chain_id", "height", "app_hash")}
    keys = len(found["state"])
    context.output.result(
        {**summary, "keys": keys, "path": str(to)},
        f"wrote {keys} keys of {found['chain_id']} at height {found['height']} to {to}",
    )


def _write_addresses(home: Path, grpc_host: str, grpc_port: int) -> None:
    """Write down where the node serves, and that commands of this home ask it."""
    import tomli_w

    path = home / "config.toml"
    config = tomllib.loads(path.read_text())
    config["node"]["grpc_host"] = grpc_host
    path.write_text(tomli_w.dumps({"node_address": f"127.0.0.1:{grpc_port}"} | config))


def _read_genesis(path: Path) -> bytes:
    try:
        if path.stat().st_size > GENESIS_BYTES_MAX:
            raise CliError(f"{path}: larger than {GENESIS_BYTES_MAX} bytes; is it a genesis file?")
        data = path.read_bytes()
        json.loads(data)["app_state"]
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}; give the chain's genesis file") from None
    except (ValueError, KeyError, TypeError):
        raise CliError(f"{path} is not a genesis file; get it from the chain's makers") from None
    return data


def _genesis_accounts(given: tuple[str, ...], operator: str) -> "list[GenesisAccount]":
    from chain.types.genesis import DENOM, GenesisAccount
    from chain.types.records import Coin
    from chain.wire.address import check_address

    coins = {operator: 1_000_000_000_000}
    for text in given:
        address, _, value = text.partition("=")
        check_address(address, "--account")
        coins[address] = amount(value, "--account")
    return [GenesisAccount(who, (Coin(DENOM, many),)) for who, many in coins.items()]


def _alone(params: "Params") -> "Params":
    """A chain with one operator has nobody to audit it; it says so when it starts."""
    from dataclasses import replace

    return replace(params, auditors=0)
