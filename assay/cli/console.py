"""``assay console``."""

import webbrowser
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from assay.cli.context import CommandContext, common_options
from host.addresses import HostPort, is_host

if TYPE_CHECKING:
    from console.server import Console


@click.command(
    help="Show the network in a browser: a live, read-only page on this machine that needs no key.\n\n"
    "Example: assay console --node 127.0.0.1:9090 --open"
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8080,
    show_default=True,
    help="Port of the page on 127.0.0.1; 0 takes any free port.",
)
@click.option("--open", "open_", is_flag=True, help="Open the page in the browser.")
@click.option(
    "--rpc",
    default="",
    metavar="URL",
    callback=lambda _context, _option, value: _url(value),
    help="URL of the node's CometBFT, to show transactions, waiting or in a block.  [the home's own]",
)
@click.option(
    "--probe/--no-probe",
    default=True,
    show_default=True,
    help="Connect to the validators' endpoints regularly, to see which of them are reachable.",
)
@click.option(
    "--job",
    "directory",
    type=click.Path(path_type=Path),
    help="A job directory; the page shows its programs by layer.",
)
@click.option(
    "--records",
    "homes",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Home of a validator, provider or consumer on this machine; the page shows its traces and job names. "
    " [the home]",
)
@common_options
def command(
    context: CommandContext,
    port: int,
    open_: bool,
    rpc: str,
    probe: bool,
    directory: Path | None,
    homes: tuple[Path, ...],
) -> None:
    """Serve the console's page until Ctrl-C."""
    from console.server import Console
    from consumer.jobs import read_job
    from host.daemon import on_stop_signal

    job = read_job(directory) if directory else None
    with Console(port, path=context.home / "console" / "index.db", job=job, probe=probe) as console:
        context.output.line({"url": console.url}, f"console: {console.url} (end with Ctrl-C)")
        console.follow(context.node, rpc or _rpc_of(context), homes or _homes_of(context))
        if console.index.in_memory:
            context.output.note("another console uses this home's index file; this console keeps its index in memory")
        stop = Event()

        def end() -> None:
            stop.set()
            # This wakes the main thread if it still waits for the node.
            console.known.show()

        on_stop_signal(end)
        if open_:
            webbrowser.open(console.url)
        console.known.wait_until(lambda seen: bool(seen.status or seen.away) or stop.is_set(), 5.0)
        if console.known.snapshot.away:
            context.output.note(f"{console.known.snapshot.away}; the page waits for the node")
        stop.wait()


def console_beside(path: Path | None) -> "Console":
    """Return a console on the default port, or on any free port if the default port is in use.

    ``path`` is the file of the console's index; None keeps the index in memory.
    """
    from console.errors import ConsoleError
    from console.server import PORT, Console

    try:
        return Console(PORT, path=path)
    except ConsoleError:
        return Console(0, path=path)


def _url(value: str) -> str:
    if not value:
        return ""
    scheme, _, rest = value.partition("://")
    if scheme not in ("http", "https") or not rest:
        raise click.BadParameter(f"{value} is not a URL; write for example http://127.0.0.1:26657")
    place = rest.partition("/")[0]
    has_port = ":" in place and not place.endswith("]")
    try:
        if has_port or not is_host(place):
            HostPort.parse(place)
    except ValueError as error:
        raise click.BadParameter(f"{value}: {error}") from None
    return value.rstrip("/")


def _homes_of(context: CommandContext) -> tuple[Path, ...]:
    """Return a tuple with the home if a validator, provider or consumer has records in it, else an empty tuple."""
    has_records = any((context.home / name).is_dir() for name in ("validator", "provider", "orders"))
    return (context.home,) if has_records else ()


def _rpc_of(context: CommandContext) -> str:
    """Return the URL of the home's own CometBFT, or an empty string if the home has no node or if --node is given."""
    has_node = (context.home / "node").is_dir() and not context.given["node_address"]
    return f"http://127.0.0.1:{context.setting('node.rpc_port').value}" if has_node else ""
