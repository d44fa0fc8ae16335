"""``assay validator``."""

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from assay.cli.arguments import ADDRESS, ENDPOINT, FLOPS, SIZE
from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError, WrongUsage
from assay.cli.job import backend_option
from assay.cli.output import counted, flops, short, table
from assay.cli.running import running_options
from host.addresses import HostPort, ip_of
from host.daemon import on_stop_signal
from validator.decide.admission import Policy

if TYPE_CHECKING:
    from chain.client.client import ChainClient
    from validator.decide.records import LocalSeat
    from wire.keys import Key

SPEED_MARGIN = 4
"""Declared work may take four times as long as products of the same size."""
RATE_MARGIN = 2
RATES_MEASURED = 3
"""How many other validators a way is measured from."""


@click.group(help="Run a validator's daemon.")
def command() -> None:
    """Group of validator commands."""


@command.command(
    help="""Run the daemon: take payloads, run the cluster, replay, prove, sit in panels about others. Ends with Ctrl-C.

    Example: assay validator run --listen 0.0.0.0:9191 --endpoint validator.example:9191 --from op
    """
)
@click.option("--listen", type=ENDPOINT, help="Where to serve.  [127.0.0.1:9191]")
@click.option("--endpoint", type=ENDPOINT, help="Where others reach it; goes on chain.")
@backend_option
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Processes that replay.",
)
@click.option(
    "--admit",
    type=click.Choice([policy.value for policy in Policy]),
    help="Which providers join when they pass a probe: whoever asks, who was named with assay validator admit,"
    " or nobody.  [open]",
)
@common_options
@running_options("validator")
def run(
    context: CommandContext,
    listen: str | None,
    endpoint: str | None,
    backend: str,
    processes: int,
    admit: str | None,
    metrics_port: int,
) -> None:
    """Run in the foreground."""
    from validator.daemon import ValidatorConfig, ValidatorDaemon

    listen = str(context.setting("validator.listen", listen).value)
    endpoint = str(context.setting("validator.endpoint", endpoint).value or listen)
    _check_reachable(endpoint)
    policy = Policy(str(context.setting("validator.admit", admit).value))
    stop = Event()
    on_stop_signal(stop.set)
    config = ValidatorConfig(
        home=context.home / "validator",
        node=context.node,
        listen=listen,
        endpoint=endpoint,
        backend=backend,
        processes=processes,
        admit=policy,
        metrics_port=metrics_port,
    )
    daemon = ValidatorDaemon(config, context.key(), stop)
    ready = f"ready: serving on {listen}, published as {endpoint}"
    daemon.run(lambda: context.output.note(ready))


def _check_reachable(endpoint: str) -> None:
    """Raise WrongUsage where an endpoint says all addresses of a machine, which others cannot connect to."""
    host = HostPort.parse(endpoint).host
    found = ip_of(host)
    if found is not None and found.is_unspecified:
        raise WrongUsage(
            f"{host} stands for all addresses of this machine, and goes on chain as where others reach the daemon: name"
            " one with --endpoint, as validator.example:9191"
        )


@command.command(
    help="""Admit a provider: at once where it has asked, else when it asks and passes the probe.

    Example: assay validator admit assay1… --from op
    """
)
@click.argument("address", type=ADDRESS)
@common_options
def admit(context: CommandContext, address: str) -> None:
    """Name a provider in the home of the daemon, and admit it where it asked."""
    _name(context, address, admit=True)


@command.command(
    help="""Have a provider in the cluster no more, or never. Not while a share of it is committed.

    Example: assay validator dismiss assay1… --from op
    """
)
@click.argument("address", type=ADDRESS)
@common_options
def dismiss(context: CommandContext, address: str) -> None:
    """Name a provider in the home of the daemon, and dismiss it where it is in the cluster or asked."""
    _name(context, address, admit=False)


def _name(context: CommandContext, address: str, *, admit: bool) -> None:
    from chain.client.client import ChainClient
    from chain.client.sender import TxSender
    from domain.registry.messages import MsgAdmitProvider, MsgDismissProvider
    from domain.registry.queries import ProviderRequest
    from validator.store import ValidatorStore

    key = context.key()
    store = ValidatorStore(context.home / "validator" / "validator.db")
    try:
        store.name(address, admit)
    finally:
        store.close()
    with ChainClient(context.node) as client:
        known = client.query(ProviderRequest(address)).provider
        mine = known is not None and known.validator == key.address
        done = not mine or (admit and known is not None and known.admitted)
        if not done:
            message = (MsgAdmitProvider if admit else MsgDismissProvider)(key.address, address)
            TxSender(client, key).send(message)
    what = "admitted" if admit else "dismissed"
    if mine:
        line = f"{address} is {what}"
    else:
        line = f"{address} has not asked; it will be {what if admit else 'refused'} when it does"
    context.output.result({"provider": address, "admit": admit, "on_chain": mine}, [line])


@command.command(
    help="""Promise at what speed this validator recomputes and fetches when it sits in a panel; measured by default.

    Orders get the time for audits from these promises, and who promises too little for an order never sits in its
    panels and earns nothing there. Each stage in which it is silent halves the promise.

    \b
    Examples:
      assay validator promise --from op
      assay validator promise --speed 500000000 --rate 20MiB --from op
    """
)
@click.option("--speed", type=FLOPS, help="FLOP/s of exact work.  [measured, with a margin]")
@click.option("--rate", type=SIZE, help="Bytes/s from other validators.  [measured, with a margin]")
@backend_option
@common_options
def promise(context: CommandContext, speed: int | None, rate: int | None, backend: str) -> None:
    """Measure what is not given, and send it."""
    from domain.registry.messages import MsgPromiseAudits

    key = context.key()
    with context.client() as client:
        if speed is None:
            from compute_provider.work.bench import measure_speed

            context.output.note("measuring the speed of exact work")
            measured = measure_speed(backend)
            if measured.limits:
                context.output.note(f"measured within {measured.limits}")
            speed = max(1, measured.flops // SPEED_MARGIN)
        if rate is None:
            context.output.note("measuring the way from other validators")
            rate = max(1, _measure_rate(client, key) // RATE_MARGIN)
        message = MsgPromiseAudits(key.address, speed, rate)
        receipt = context.sender(client, key).send(message)
    context.output.result(
        {"speed": speed, "rate": rate, "height": receipt.height, "tx": receipt.hash},
        f"promised {flops(speed)}/s and {rate:,} bytes/s at height {receipt.height}",
    )


def _measure_rate(client: "ChainClient", key: "Key") -> int:
    """Return bytes/s from the slowest of a few other validators that answer."""
    from compute_provider.work.bench import measure_bandwidth
    from domain.registry.queries import ValidatorsRequest
    from link.client import connect
    from link.errors import ClusterError

    chain_id = client.status().chain_id
    found: list[int] = []
    for other in client.query(ValidatorsRequest()).validators:
        if other.operator == key.address or not other.endpoint or len(found) == RATES_MEASURED:
            continue
        try:
            link = connect(other, key, chain_id)
        except ClusterError:
            continue
        try:
            found.append(measure_bandwidth(link))
        except ClusterError:
            continue
        finally:
            link.close()
    if not found:
        raise CliError("no other validator answers", "say what your line takes: --rate 20MiB")
    return min(found)


@command.command(help="Show verdicts and orders of this validator.\n\nExample: assay validator status")
@common_options
def status(context: CommandContext) -> None:
    """Read the daemon's database."""
    from domain.proof.reasons import ShareReason
    from validator.store import COMPUTING, ValidatorStore

    path: Path = context.home / "validator" / "validator.db"
    if not path.exists():
        raise CliError(f"{path} does not exist", "run the daemon first: assay validator run")
    store = ValidatorStore(path)
    try:
        verdicts, orders, audits = store.verdicts(), store.all_orders(), store.answered()
        seats = [seat for key in store.seats() if (seat := store.seat(key)) is not None]
    finally:
        store.close()
    said = path.with_name(COMPUTING)
    computing = said.read_text() if said.exists() else ""
    rows = [
        (
            short(v.order_id),
            v.round,
            v.slot,
            v.issue,
            short(v.provider),
            v.segments,
            v.checked,
            "accepted" if not v.reason else ShareReason(v.reason).name.lower(),
            v.segment if v.segment >= 0 else "-",
        )
        for v in verdicts
    ]
    columns = (
        "order",
        "round",
        "slot",
        "issue",
        "provider",
        "segments",
        "checked",
        "verdict",
        "segment",
    )
    context.output.result(
        {
            "computing": computing,
            "orders": [{"order": order_id, "leg": leg} for order_id, leg in orders],
            "verdicts": verdicts,
            "audits": [
                {"order": order_id, "leg": leg, "round": number, "agreed": agreed}
                for order_id, leg, number, agreed in audits
            ],
            "seats": [
                {
                    "order": seat.duty.order_id,
                    "leg": seat.duty.leg,
                    "round": seat.duty.round,
                    "stage": seat.duty.stage,
                    "places": len(seat.places),
                    "open": sum(place.is_open for place in seat.places),
                    "commits_end": seat.duty.commits_end,
                    "ready": seat.sealed is not None,
                }
                for seat in seats
            ],
        },
        [
            f"{counted(len(orders), 'leg')}, {counted(len(audits), 'panel')} answered in, "
            f"{sum(not agreed for *_, agreed in audits)} of them not as on chain",
            *([f"computing with {computing}"] if computing else []),
            *(_told(seat) for seat in seats),
            table("Verdicts on shares", columns, rows),
        ],
    )


def _told(seat: "LocalSeat") -> str:
    """Say where a seat stands that has something to do."""
    duty, waiting = seat.duty, sum(place.is_open for place in seat.places)
    where = "its answers are ready" if seat.sealed else f"{waiting} to be recomputed"
    return (
        f"a seat for {short(duty.order_id)} round {duty.round} stage {duty.stage}: "
        f"{len(seat.places)} places, {where}, commit until {duty.commits_end} s"
    )
