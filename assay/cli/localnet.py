"""``assay localnet``."""

import json
import shutil
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from assay.cli.arguments import AMOUNT
from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError
from assay.cli.output import money, table
from assay.cli.scenario import command as scenario

if TYPE_CHECKING:
    from localnet.layout import Layout

FAUCET = "1000ASSAY"
DEFAULT_DIRECTORY = "~/.assay/localnet"

directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    default=DEFAULT_DIRECTORY,
    show_default=True,
    help="The network's directory.",
)


@click.group(help="Run a network of several validators on this machine.")
def command() -> None:
    """Group of local network commands."""


@command.command(
    help="""Start a network and supervise it until Ctrl-C (or `assay localnet stop`).

    Example: assay localnet start --validators 4 --providers 2
    """
)
@directory_option
@click.option("--validators", type=click.IntRange(1, 100), default=4, show_default=True, help="Number of validators.")
@click.option(
    "--providers",
    type=click.IntRange(0, 100),
    default=2,
    show_default=True,
    help="Number of providers in each validator's cluster.",
)
@click.option("--solo", is_flag=True, help="Run one node that makes all blocks: fast, for development.")
@click.option("--reset", is_flag=True, help="Delete the existing network first.")
@click.option(
    "--console/--no-console",
    "with_console",
    default=True,
    show_default=True,
    help="Also serve the web console.",
)
@common_options
def start(
    context: CommandContext,
    directory: Path,
    validators: int,
    providers: int,
    solo: bool,
    reset: bool,
    with_console: bool,
) -> None:
    """Create the network if there is none, start it, and carry out the faults that users request."""
    from assay.cli.console import console_beside
    from localnet.create import create
    from localnet.layout import FILE, NetworkKind, load_layout
    from localnet.market import open_market
    from localnet.network import Network
    from localnet.supervisor import supervise, supervisor_of

    directory = directory.expanduser().resolve()
    if supervisor_of(directory):
        raise CliError(
            f"the network in {directory} already runs",
            "stop it with assay localnet stop, or restart one process with assay localnet fault restart NAME",
        )
    if reset and (directory / FILE).exists():
        shutil.rmtree(directory)
    known = (directory / FILE).exists()
    kind = NetworkKind.SOLO if solo else NetworkKind.COMETBFT
    layout = load_layout(directory) if known else create(directory, validators, providers, kind=kind)
    if known and solo and layout.kind is not kind:
        raise CliError(f"the network in {directory} is not a solo network", "create it again with --solo --reset")
    if known:
        _check_counts(layout, {"validators": validators, "providers": providers})
    network = Network(layout)
    with ExitStack() as stack:
        if with_console:
            console = stack.enter_context(console_beside(directory / "console" / "index.db"))
            context.output.note(f"console: {console.url}")
            console.follow(*network.console_addresses, network.homes)
        supervise(
            network,
            context.output.note,
            (lambda: None) if known else partial(open_market, network),
            f"the network runs; consumer home {layout.consumer_home}; stop with Ctrl-C",
        )


def _check_counts(layout: "Layout", asked: dict[str, int]) -> None:
    """Raise CliError if an option asks for another number of validators or providers than the network has."""
    count = len(layout.validators)
    has = {"validators": count, "providers": len(layout.providers) // count}
    given = click.get_current_context().get_parameter_source
    for name, number in asked.items():
        if given(name) is ParameterSource.COMMANDLINE and has[name] != number:
            raise CliError(
                f"the network in {layout.path} has {has[name]}",
                "leave the option out, or create the network again with --reset",
                field=f"--{name}",
            )


@command.command(
    help=f"""Send coins from the network's consumer to an address. If COINS is left out, {FAUCET} are sent.

    Example: assay localnet faucet assay1… 5000ASSAY
    """
)
@click.argument("to", metavar="ADDRESS")
@click.argument("coins", metavar="COINS", type=AMOUNT, default=FAUCET)
@directory_option
@common_options
def faucet(context: CommandContext, to: str, coins: int, directory: Path) -> None:
    """Send coins from the network's consumer to an address; the network must be running."""
    from chain.client.client import ChainClient
    from chain.client.sender import TxSender
    from domain.genesis import DENOM
    from domain.ledger.messages import MsgSend
    from domain.ledger.records import Coin
    from localnet.create import KEY, test_keyring
    from localnet.layout import load_layout
    from wire.address import check_address

    check_address(to, "ADDRESS")
    layout = load_layout(directory.expanduser().resolve())
    key = test_keyring(Path(layout.consumer_home)).unlock(KEY)
    with ChainClient(f"127.0.0.1:{layout.nodes[0].grpc}") as client:
        receipt = TxSender(client, key).send(MsgSend(key.address, to, (Coin(DENOM, coins),)))
    context.output.result(receipt, f"sent {money(coins)} to {to} at height {receipt.height}")


@command.command(help="Stop a network.\n\nExample: assay localnet stop")
@directory_option
@common_options
def stop(context: CommandContext, directory: Path) -> None:
    """Ask the network's supervisor to stop the network, and wait until the network has stopped."""
    from localnet.supervisor import ask_for_end

    directory = directory.expanduser().resolve()
    ask_for_end(directory)
    context.output.result({"stopped": str(directory)}, f"stopped the network in {directory}")


@command.command(help="Show nodes, heights, processes, addresses.\n\nExample: assay localnet status")
@directory_option
@common_options
def status(context: CommandContext, directory: Path) -> None:
    """Show the network's processes, whether they run, and the heights of its nodes."""
    from chain.client.client import ChainClient
    from chain.client.errors import ChainError
    from localnet.create import KEY
    from localnet.layout import load_layout
    from localnet.network import STATUS_FILE, comet_pid
    from localnet.supervisor import supervisor_of

    directory = directory.expanduser().resolve()
    layout = load_layout(directory)
    path = directory / STATUS_FILE
    states = json.loads(path.read_text()) if path.exists() else []
    running = bool(supervisor_of(directory))
    # A killed supervisor leaves an old status file, but all its processes ended when it was killed.
    pids = {state["name"]: state["pid"] for state in states if running and state["running"]}
    nodes: list[dict[str, Any]] = []
    for spec in layout.validators:
        height = 0
        if running:
            try:
                with ChainClient(f"127.0.0.1:{spec.grpc}", timeout=2.0) as client:
                    height = client.status().height
            except ChainError:
                height = 0
        nodes.append(
            {
                "moniker": spec.moniker,
                "height": height,
                "pids": {
                    "node": pids.get(f"{spec.moniker}.node", 0),
                    "cometbft": comet_pid(spec) if f"{spec.moniker}.node" in pids else 0,
                    "validator": pids.get(f"{spec.moniker}.validator", 0),
                },
                "rpc": f"http://127.0.0.1:{spec.rpc}",
                "grpc": f"127.0.0.1:{spec.grpc}",
                "rest": f"http://127.0.0.1:{spec.rest}" if spec.rest else "",
                "home": spec.home,
            }
        )
    providers: list[dict[str, Any]] = [
        {"name": p.name, "validator": p.validator, "pid": pids.get(p.name, 0), "home": p.home} for p in layout.providers
    ]
    value = {
        "running": running,
        "chain_id": layout.chain_id,
        "nodes": nodes,
        "providers": providers,
        "test_keys": [{"home": layout.consumer_home, "name": KEY, "address": layout.consumer}],
    }
    rows = [
        (
            n["moniker"],
            n["height"],
            n["grpc"],
            n["rest"] or "-",
            n["rpc"] if "cometbft" in parts else "-",
            _process_list({part: n["pids"][part] for part in parts}),
        )
        for n in nodes
        for parts in [_parts(layout, n["moniker"])]
    ]
    rows += [(p["name"], "-", "-", "-", "-", _process_list({"provider": p["pid"]})) for p in providers]
    context.output.result(
        value,
        [
            f"{layout.chain_id} in {directory}: {'running' if running else 'stopped'}",
            table("Processes", ("name", "height", "gRPC", "REST", "RPC", "processes"), rows),
            f"consumer: --home {layout.consumer_home} (key {KEY}, {layout.consumer})",
        ],
    )


def _parts(layout: "Layout", moniker: str) -> tuple[str, ...]:
    """Return the names of a validator's processes.

    In a solo network only the first validator has a node, and no CometBFT runs.
    """
    from localnet.layout import NetworkKind

    if layout.kind is not NetworkKind.SOLO:
        return "node", "cometbft", "validator"
    return ("node", "validator") if moniker == layout.nodes[0].moniker else ("validator",)


def _process_list(pids: dict[str, int]) -> str:
    """Return a text with the name and the id of each process; id 0 means that the process does not run."""
    return ", ".join(f"{name} {pid or 'does not run'}" for name, pid in pids.items())


@command.command(help="Show a process's log.\n\nExample: assay localnet logs val0.validator")
@click.argument("name")
@click.option(
    "--lines",
    type=click.IntRange(1, 100_000),
    default=50,
    show_default=True,
    help="Number of lines, from the end.",
)
@directory_option
@common_options
def logs(context: CommandContext, name: str, lines: int, directory: Path) -> None:
    """Print the last lines of a process's log."""
    folder = directory.expanduser().resolve() / "logs"
    path = folder / f"{name}.log"
    known = sorted(p.stem for p in folder.glob("*.log"))
    if name not in known:
        remedy = f"choose one of {', '.join(known)}" if known else "start the network first: assay localnet start"
        raise CliError(f"there is no log of {name}", remedy, field="NAME")
    for line in path.read_text(errors="replace").splitlines()[-lines:]:
        context.output.line({"line": line}, line)


@command.command(
    help="""Kill, pause, resume or restart a process of a running network.

    Example: assay localnet fault kill val1.node
    """
)
@click.argument("what", type=click.Choice(["kill", "pause", "resume", "restart"]))
@click.argument("name")
@directory_option
@common_options
def fault(context: CommandContext, what: str, name: str, directory: Path) -> None:
    """Ask the supervisor to kill, pause, resume or restart a process, and wait until it has done so."""
    from localnet.supervisor import ask_for_fault

    ask_for_fault(directory.expanduser().resolve(), what, name)
    context.output.result({"what": what, "name": name}, f"{what}: {name}")


command.add_command(scenario, "scenario")
