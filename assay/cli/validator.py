"""``assay validator``."""

import logging
import signal
from pathlib import Path
from threading import Event

import click

from assay.cli.arguments import ADDRESS, ENDPOINT
from assay.cli.context import Settings, common_options
from assay.cli.errors import CliError
from assay.cli.output import short, table
from validator.decide.admission import Policy

DEFAULT_LISTEN = "127.0.0.1:9191"


@click.group(help="Run a validator's daemon.")
def command() -> None:
    """Group of validator commands."""


@command.command(
    help="""Run the daemon: take payloads, run the cluster, replay, prove, audit others. Ends with Ctrl-C.

    Example: assay validator run --listen 0.0.0.0:9191 --endpoint validator.example:9191 --from op
    """
)
@click.option("--listen", type=ENDPOINT, help=f"Where to serve.  [{DEFAULT_LISTEN}]")
@click.option("--endpoint", type=ENDPOINT, help="Where others reach it; goes on chain.")
@click.option(
    "--backend", type=click.Choice(["numpy", "torch"]), default="numpy", show_default=True
)
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
def run(
    context: Settings,
    listen: str | None,
    endpoint: str | None,
    backend: str,
    processes: int,
    admit: str | None,
) -> None:
    """Run in the foreground."""
    from validator.daemon import ValidatorConfig, ValidatorDaemon

    configured = context.config.get("validator", {})
    listen = listen or str(configured.get("listen", DEFAULT_LISTEN))
    endpoint = endpoint or str(configured.get("endpoint", listen))
    policy = _policy(admit or str(configured.get("admit", Policy.OPEN.value)))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    config = ValidatorConfig(
        context.home / "validator",
        context.node,
        listen,
        endpoint,
        backend,
        processes,
        admit=policy,
    )
    daemon = ValidatorDaemon(config, context.key(), stop)
    ready = f"ready: serving on {listen}, published as {endpoint}"
    daemon.run(lambda: context.output.note(ready))


def _policy(name: str) -> Policy:
    try:
        return Policy(name)
    except ValueError:
        names = ", ".join(policy.value for policy in Policy)
        raise CliError(f"admit = {name!r} in the configuration is none of {names}") from None


@command.command(
    help="""Admit a provider: at once where it has asked, else when it asks and passes the probe.

    Example: assay validator admit assay1… --from op
    """
)
@click.argument("address", type=ADDRESS)
@common_options
def admit(context: Settings, address: str) -> None:
    """Name a provider in the home of the daemon, and admit it where it asked."""
    _name(context, address, admit=True)


@command.command(
    help="""Have a provider in the cluster no more, or never. Not while a share of it is committed.

    Example: assay validator dismiss assay1… --from op
    """
)
@click.argument("address", type=ADDRESS)
@common_options
def dismiss(context: Settings, address: str) -> None:
    """Name a provider in the home of the daemon, and dismiss it where it is in the cluster or asked."""
    _name(context, address, admit=False)


def _name(context: Settings, address: str, *, admit: bool) -> None:
    from chain.client.client import ChainClient
    from chain.client.sender import TxSender
    from domain.messages import MsgAdmitProvider, MsgDismissProvider
    from domain.queries import ProviderRequest
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
    help="Show verdicts and orders of this validator.\n\nExample: assay validator status"
)
@common_options
def status(context: Settings) -> None:
    """Read the daemon's database."""
    from domain.reasons import ShareReason
    from validator.store import ValidatorStore

    path: Path = context.home / "validator" / "validator.db"
    if not path.exists():
        raise CliError(f"{path} does not exist", "run the daemon first: assay validator run")
    store = ValidatorStore(path)
    try:
        verdicts, orders, audits = store.verdicts(), store.all_orders(), store.answered()
    finally:
        store.close()
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
        "order", "round", "slot", "issue", "provider", "segments", "checked", "verdict", "segment",
    )  # fmt: skip
    context.output.result(
        {
            "orders": [{"order": order_id, "attempt": attempt} for order_id, attempt in orders],
            "verdicts": verdicts,
            "audits": [
                {"order": order_id, "attempt": attempt, "round": number, "agreed": agreed}
                for order_id, attempt, number, agreed in audits
            ],
        },
        [
            f"{len(orders)} attempts, {len(audits)} audits answered",
            table("Verdicts on shares", columns, rows),
        ],
    )
