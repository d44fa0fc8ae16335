"""``assay provider``."""

import time
from collections.abc import Sequence
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from assay.cli.arguments import AMOUNT, INVITATION
from assay.cli.attest import attest, binding, release
from assay.cli.context import CommandContext, common_options
from assay.cli.engine import engine_options, executor_option, group_option
from assay.cli.errors import CliError
from assay.cli.nodes import nodes_tables
from assay.cli.output import ID_SHOWN, counted, flops, money, size, table
from assay.cli.output import price as per_pflop
from assay.cli.running import running_options
from domain.amount import in_assay
from domain.measures import duration
from host.daemon import on_stop_signal
from host.devices.device import CPU, Device
from host.devices.find import find_devices
from pol.executor.names import Engine
from pol.machines.form import number_of, read_shape
from pol.work.executor import LOCAL

if TYPE_CHECKING:
    from rich.table import Table

    from compute_provider.api import Forecast, ProviderConfig
    from compute_provider.work.bench import Speed
    from pol.work.cluster.dispatch import NodeReport


@click.group(help="Join a cluster as a compute provider.")
def command() -> None:
    """Group of provider commands."""


command.add_command(binding, "binding")
command.add_command(attest, "attest")
command.add_command(release, "release")


@command.command(
    help="""Measure the speed of exact arithmetic, in FLOP/s, on this machine or on a cluster.

    \b
    Examples:
      assay provider bench
      assay provider bench --executor ray://10.0.0.1:6379
      assay provider bench --executor ray://10.0.0.1:6379 --machines 1x2
    """
)
@engine_options()
@executor_option(None, "the measurement")
@group_option("train a share together")
@click.option(
    "--seconds",
    type=click.IntRange(1, 60),
    default=2,
    show_default=True,
    help="Duration of the measurement in seconds.",
)
@common_options
def bench(context: CommandContext, engine: Engine, seconds: int, executor: str | None, machines: str | None) -> None:
    """Measure this machine's or a cluster's speed; the measurement needs neither a node nor a key."""
    from compute_provider import api

    chosen = str(context.setting("provider.executor", executor).value)
    shape = read_shape(str(context.setting("provider.machines", machines).value))
    if chosen != LOCAL or number_of(shape) > 1:
        _show_cluster(context, chosen, *api.bench_cluster(chosen, engine, seconds, shape))
        return
    speed = api.bench(engine, seconds)
    context.output.result(
        {
            "backend": speed.backend,
            "slots": 1,
            "flops_per_second": speed.flops,
            "slowest": speed.slowest,
            "quickest": speed.quickest,
            "memory": speed.memory,
            "limits": speed.limits,
            "sandbox": speed.open_ends,
            "devices": find_devices(),
        },
        [
            f"{flops(speed.flops)}/s of exact work with {speed.computing} ({_spread(speed)})",
            f"memory: {size(speed.memory)}",
            "sandbox: " + ("; ".join(speed.open_ends) or "complete"),
            *map(_device_line, find_devices()),
        ],
    )


@command.command(
    help="""Join the cluster of a validator and work until Ctrl-C. VALIDATOR is its address or its moniker.

    The validator measures this machine, which takes some seconds. Then it admits the machine, or reports why not.

    \b
    Examples:
      assay provider join val0 --dry-run
      assay provider join assay1… --bond 50000000uassay --from worker
      assay provider join val0 --executor ray://10.0.0.1:6379 --machines 2
    """
)
@click.argument("validator")
@click.option("--dry-run", is_flag=True, help="Measure and show the expected income, without joining.")
@click.option("--bond", type=AMOUNT, help="Keep this amount in the bond account, for example 50ASSAY.")
@click.option("--least-income", type=AMOUNT, help="Least income per PFLOP for which to train.  [any]")
@click.option("--max-exposure", type=AMOUNT, help="Largest sum of the bonds of shares that are not paid yet.  [any]")
@click.option(
    "--take",
    type=click.Choice(["covered", "any"]),
    help="Take only tasks that bonds and cover would pay if another provider's fault made them void, or any."
    "  [covered]",
)
@click.option(
    "--earnings",
    type=click.Choice(["account", "bond"]),
    help="Where earnings stay: in your account, or as bond for further shares.  [account]",
)
@executor_option(None, "training")
@group_option("train a share together")
@click.option("--invitation", type=INVITATION, help="The invitation that the validator's operator gave you.")
@engine_options()
@common_options
@running_options("provider")
def join(
    context: CommandContext,
    validator: str,
    dry_run: bool,
    bond: int | None,
    least_income: int | None,
    max_exposure: int | None,
    take: str | None,
    earnings: str | None,
    executor: str | None,
    machines: str | None,
    invitation: bytes | None,
    engine: Engine,
    metrics_port: int,
) -> None:
    """Run the provider's daemon in the foreground, or with --dry-run show only the expected income."""
    from compute_provider import api
    from compute_provider.interfaces import ProviderConfig
    from wire.address import check_address

    if validator.startswith("assay1"):
        check_address(validator, "VALIDATOR")
    config = ProviderConfig(
        home=context.home / "provider",
        node=context.node,
        validator=validator,
        key=context.key(),
        engine=engine,
        bond=bond or 0,
        least_income=int(str(context.setting("provider.least_income", least_income).value)),
        max_exposure=int(str(context.setting("provider.max_exposure", max_exposure).value)),
        uncovered=context.setting("provider.take", take).value == "any",
        keep_earnings=context.setting("provider.earnings", earnings).value == "bond",
        invitation=invitation or b"",
        metrics_port=metrics_port,
        executor=str(context.setting("provider.executor", executor).value),
        machines=read_shape(str(context.setting("provider.machines", machines).value)),
    )
    if dry_run:
        _show(context, config, api.dry_run(config))
        return
    stop = Event()
    on_stop_signal(stop.set)
    context.output.note(f"joining {config.validator} as {config.key.address}")
    note = context.output.note
    api.run_provider(config, stop, lambda: note("joined"), note)


@command.command(
    help="Show the state, shares and earnings of the provider in this home.\n\n"
    "Without --node it asks the node that the provider was started with.\n\n"
    "Example: assay provider status"
)
@common_options
def status(context: CommandContext) -> None:
    """Show the provider's state from its daemon's status file, with the chain's newer values if the node answers."""
    from compute_provider import api
    from pol.work.cluster.seen import read_nodes

    found = api.status(context.home / "provider")
    if found is None:
        raise CliError(f"no provider has run in {context.home}", "start one with assay provider join VALIDATOR")
    found["running"] = bool(found["pid"])
    found["node"] = asked_node(context)
    found |= _on_chain(context, found["provider"], found["node"])
    rows = [
        (
            share["order"][:ID_SHOWN],
            share["round"],
            share["slot"],
            share["issue"],
            share["stage"],
            f"{share['step']}/{share['steps']}" if share["steps"] else "-",
            "-" if share["loss"] is None else f"{share['loss']:.4f}",
            "-" if share["text"] in ("", "none") else share["text"],
        )
        for share in found["shares"]
    ]
    columns = ("order", "round", "slot", "issue", "stage", "step", "loss", "note")
    cluster = read_nodes(context.home / "provider")
    found["machines"] = cluster.nodes if cluster else ()
    context.output.result(
        found,
        [
            _headline(found),
            *([_standing(found)] if found["validator"] else []),
            f"on chain: {found['on_chain']}",
            *([idle_line(found["idle"])] if found["running"] and found.get("idle") else []),
            *([f"! {found['warning']}"] if found["running"] and found.get("warning") else []),
            *([f"computing with {found['computing']}"] if found["computing"] else []),
            *([f"last error: {found['note']}"] if found["note"] else []),
            *_money_lines(found),
            *(
                f"order {order[:ID_SHOWN]}: bonds and cover pay its void shares for {rounds} rounds ahead"
                for order, rounds in sorted((found.get("covered") or {}).items())
            ),
            table("Shares", columns, rows),
            *nodes_tables(cluster.nodes if cluster else ()),
            *_earnings_tables(found),
        ],
    )


@command.command(
    help="Leave the cluster on the chain; committed shares stay valid.\n\n"
    "Without --node it asks the node that the provider was started with.\n\n"
    "Example: assay provider leave --from worker"
)
@common_options
def leave(context: CommandContext) -> None:
    """Leave the cluster; the bond can be withdrawn with assay tx withdraw-bond."""
    from compute_provider import api
    from compute_provider.interfaces import ProviderConfig

    config = ProviderConfig(home=context.home / "provider", node=asked_node(context), validator="", key=context.key())
    if pid := api.runs_as(config.home):
        # A running daemon would register the provider again as soon as the chain no longer lists it in a cluster.
        raise CliError(f"the provider still runs, as process {pid}", f"stop it first: Ctrl-C there, or kill {pid}")
    api.leave(config)
    with context.client(config.node) as client:
        bond = client.account(config.key.address).bond.free
    back = (
        f"withdraw the bond: assay tx withdraw-bond {in_assay(bond)}"
        if bond
        else "no bond is free now; the bond of a share becomes free when its round is verified"
    )
    context.output.result(
        {"left": config.key.address, "bond": bond},
        [f"{config.key.address} has left its cluster", back],
    )


def _money_lines(found: dict[str, Any]) -> list[str]:
    lines = [f"earned {money(found['earned'])}"]
    if found.get("balance") is not None:
        lines.append(
            f"balance {money(found['balance'])}, free bond {money(found['bond'])}, being withdrawn"
            f" {money(found['bond_away'])}"
        )
    return lines


def _earnings_tables(found: dict[str, Any]) -> "list[Table]":
    """Return tables of the earnings by day and by order, if the daemon's status file has them."""
    by_day = sorted((found.get("earned_by_day") or {}).items(), reverse=True)
    days = [(day, money(amount)) for day, amount in by_day]
    orders = [(order[:ID_SHOWN], money(amount)) for order, amount in (found.get("earned_by_order") or {}).items()]
    titled = (("Earned by day (UTC)", "day", days), ("Earned by order", "order", orders))
    return [table(title, (of, "earned"), rows) for title, of, rows in titled if rows]


def _show(context: CommandContext, config: "ProviderConfig", found: "Forecast") -> None:
    price, bandwidth = found.price_per_pflop, found.bandwidth
    rows = [
        ("validator", f"{found.moniker} ({found.validator})"),
        (
            "speed",
            f"{flops(found.speed.flops)}/s with {found.speed.computing} ({_spread(found.speed)})",
        ),
        ("memory", size(found.speed.memory)),
        ("download from the validator", f"{size(bandwidth)}/s" if bandwidth else "it does not answer"),
        ("its lowest bid", per_pflop(price) if price else "none"),
        ("providers' share of earnings", f"{found.providers_bps / 100:g} %" if price else "-"),
        ("income with work all day", f"{money(found.income_per_day)} per day" if price else "-"),
        ("calculation", _income_calculation(found)),
    ]
    context.output.result(found, [table("Dry run: nothing was changed", ("what", "value"), rows), found.note])


def _show_cluster(
    context: CommandContext, executor: str, speed: "Speed", slots: int, nodes: Sequence["NodeReport"]
) -> None:
    """Print the speed of a cluster, and its nodes."""
    context.output.result(
        {
            "backend": speed.backend,
            "slots": slots,
            "flops_per_second": speed.flops * slots,
            "slowest": speed.slowest,
            "quickest": speed.quickest,
            "memory": speed.memory,
            "limits": speed.limits,
            "executor": executor,
            "machines": nodes,
        },
        [
            f"{flops(speed.flops * slots)}/s of exact work on {executor}: {counted(slots, 'share')} at once, each with"
            f" {flops(speed.flops)}/s ({_spread(speed)})",
            f"memory of the smallest node: {size(speed.memory)}",
            *nodes_tables(nodes),
        ],
    )


def _device_line(device: Device) -> str:
    """Return a line with the model, the size and the limits of a device."""
    units = f"{device.units} processors, " if device.name == CPU else ""
    limits = f" ({device.limits})" if device.limits else ""
    return f"device {device.name}: {device.model}, {units}{size(device.memory)}{limits}"


def _spread(speed: "Speed") -> str:
    return f"between {flops(speed.slowest)}/s and {flops(speed.quickest)}/s"


def _income_calculation(found: "Forecast") -> str:
    """Return a sentence that explains how the expected income is calculated."""
    if not found.price_per_pflop:
        return "without a bid its cluster has no work to sell"
    hour = money(found.income_per_day // 24)
    return (
        f"an hour of training at this speed is {flops(found.speed.flops * 3600)}; consumers pay "
        f"{money(found.price_per_pflop)} per verified PFLOP, and {found.providers_bps / 100:g} % of it goes to the "
        f"providers: {hour} per hour with work, and nothing without an order"
    )


def _headline(found: dict[str, Any]) -> str:
    """Return a line with the provider's address, its cluster, and the state of its daemon: running or stopped."""
    state = "running" if found["running"] else "stopped"
    state += ", joined" if found["running"] and found["joined"] else ""
    where = f"in the cluster of {found['validator']}" if found["validator"] else "in no cluster"
    return f"{found['provider']} {where}: {state}"


def idle_line(idle: dict[str, Any]) -> str:
    """Return a line that says how long a provider has had nothing to train, and why."""
    since = duration(max(0, int(time.time()) - int(idle.get("since", 0))))
    return f"nothing to train for {since}: {idle.get('why', '')}"


def _standing(found: dict[str, Any]) -> str:
    """Return a line with the provider's standing in its cluster.

    The line shows whether the provider is admitted, its measured speed, and whether it is a newcomer.
    """
    speed = found["speed"]
    standing = "admitted" if found["admitted"] else "not admitted"
    standing += f", measured {flops(speed)}/s" if speed else ", not measured"
    return standing + (", a newcomer" if found["newcomer"] else "")


def asked_node(context: CommandContext) -> str:
    """Return the address of the node to ask about this home's provider.

    The address is the value of --node. Without --node, it is the node that the provider's daemon uses, or else the node
    in the settings.
    """
    from compute_provider import api

    daemons = "" if context.given["node_address"] else api.node_of(context.home / "provider")
    return daemons or context.node


def _on_chain(context: CommandContext, address: str, node: str) -> dict[str, Any]:
    """Return the chain's newer values for the provider's status, by name.

    The value ``on_chain`` is a text with the provider's cluster, or with the reason why the node gave no values.
    """
    from chain.client.errors import ChainError
    from domain.ledger.queries import AccountRequest
    from domain.registry.queries import ProviderRequest

    try:
        with context.client(node) as client:
            known = client.query(ProviderRequest(address)).provider
            account = client.query(AccountRequest(address))
    except ChainError as error:
        source = "all values are from the daemon's last report"
        return {"on_chain": f"not asked ({error.reason}); {source}"}
    coins = {
        "balance": account.balance,
        "bond": account.bond.free,
        "bond_away": sum(each.amount for each in account.bond.withdrawals),
    }
    if known is None or not known.validator:
        return {**coins, "on_chain": "in no cluster", "validator": "", "admitted": False}
    there = "in" if known.admitted else "has applied to"
    return {
        **coins,
        "on_chain": f"{there} the cluster of {known.validator}",
        "validator": known.validator,
        "admitted": known.admitted,
        "speed": known.capability.speed if known.capability else 0,
        "newcomer": known.newcomer,
    }
