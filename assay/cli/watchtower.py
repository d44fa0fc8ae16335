"""``assay watchtower``."""

from threading import Event

import click

from assay.cli.arguments import AMOUNT, DURATION, FLOPS
from assay.cli.context import CommandContext, common_options
from assay.cli.engine import engine_options, executor_option, machines_option
from assay.cli.output import counted, flops, moment, plain
from assay.cli.running import running_options
from domain.amount import ASSAY, in_assay
from host.daemon import on_stop_signal
from pol.executor.names import Engine
from pol.machines.form import Shape


@click.command(
    help="Recompute random places of running orders until Ctrl-C, and challenge those that are wrong.\n\n"
    "A challenge locks a bond. If a panel confirms it, the bond returns, and you get a part of the bond of the party\n"
    "at fault. If the chain is right, the bond pays the panel. Validators serve places to other validators and to the\n"
    "consumer of an order. With --output json, each line is the JSON object of an event; the last is the summary.\n\n"
    "\b\n"
    "Examples:\n"
    "  assay watchtower --dry-run --for 10m --from op\n"
    "  assay watchtower --bond 50ASSAY --work 2000000000000 --from op"
)
@click.option("--order", "orders", multiple=True, help="Watch only this order (its id or first digits); repeatable.")
@click.option("--bond", type=AMOUNT, default=10 * ASSAY, help="Lock at most this amount in challenges.  [10ASSAY]")
@click.option("--work", type=FLOPS, default=None, help="Recompute at most this many FLOPs per hour.  [any]")
@click.option(
    "--wait",
    "seconds",
    type=DURATION,
    default="2m",
    show_default=True,
    help="Longest wait for the data of a place.",
)
@click.option("--for", "duration", type=DURATION, default=None, help="End after this time.  [at Ctrl-C]")
@click.option("--dry-run", is_flag=True, help="Send nothing; report what challenges would have earned.")
@click.option("--unserved", is_flag=True, help="Also challenge places that are not served; this brings no reward.")
@executor_option()
@machines_option()
@engine_options(threads="1")
@common_options
@running_options("watchtower")
def command(
    context: CommandContext,
    orders: tuple[str, ...],
    bond: int,
    work: int | None,
    seconds: int,
    duration: int | None,
    dry_run: bool,
    unserved: bool,
    executor: str,
    machines: Shape,
    engine: Engine,
    metrics_port: int,
) -> None:
    """Run a watchtower in the foreground, and print what it finds."""
    from consumer.lookup import find_order
    from consumer.panels import name_place
    from validator.watch.daemon import TowerConfig, WatchtowerDaemon
    from validator.watch.tower import TowerBudget

    key = context.key()
    only: tuple[bytes, ...] = ()
    if orders:
        with context.client() as client:
            only = tuple(find_order(client, order) for order in orders)
    stop = Event()
    on_stop_signal(stop.set)
    config = TowerConfig(
        home=context.home / "watchtower",
        node=context.node,
        budget=TowerBudget(bond, work or 0),
        engine=engine,
        executor=executor,
        machines=machines,
        seconds=float(seconds),
        only=only,
        dry_run=dry_run,
        unserved=unserved,
        metrics_port=metrics_port,
    )

    def tell(event: str, text: str, /, **values: object) -> None:
        context.output.line({"event": event, **values}, f"{moment()} {text}")

    daemon = WatchtowerDaemon(config, key, stop, tell, name_place, context.output.note)
    what = "watching, without sending anything" if dry_run else f"watching, with at most {in_assay(bond)} locked"
    totals = daemon.run(duration, lambda: context.output.note(f"{what}; end with Ctrl-C"))
    found = f"{counted(totals.places, 'place')} ({flops(totals.work)}): {totals.right} right, {totals.wrong} wrong"
    text = f"{found}, {totals.unserved} not served"
    if dry_run:
        text += f"; challenges would have locked {in_assay(totals.would_lock)} and earned at most"
        text += f" {in_assay(totals.would_earn)}"
    else:
        text += f"; {counted(totals.challenges, 'challenge')}, {in_assay(totals.earned)} earned,"
        text += f" {in_assay(totals.lost)} lost"
    context.output.line({"event": "summary", "dry_run": dry_run, **plain(totals)}, text)
