"""``assay console``."""

import webbrowser
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from assay.cli.context import Settings, common_options

if TYPE_CHECKING:
    from console.server import Console


@click.command(
    help="Show the network in a browser: a page on this machine, live, for reading only, without a key.\n\n"
    "Example: assay console --node 127.0.0.1:9090 --open"
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8080,
    show_default=True,
    help="Where the page is on this machine; 0 takes any port that is free.",
)
@click.option("--open", "open_", is_flag=True, help="Open it in the browser.")
@click.option(
    "--rpc", default="", help="URL of the node's CometBFT, for waiting transactions.  [of the home]"
)
@click.option(
    "--probe/--no-probe",
    default=True,
    show_default=True,
    help="Connect to validators' endpoints now and then, to see who is there.",
)
@click.option(
    "--job",
    "directory",
    type=click.Path(path_type=Path),
    help="A job directory, whose programs are shown by layer.",
)
@common_options
def command(
    context: Settings, port: int, open_: bool, rpc: str, probe: bool, directory: Path | None
) -> None:
    """Serve until Ctrl-C."""
    from console.server import Console
    from consumer.jobs import read_job

    job = read_job(directory) if directory else None
    with Console(port, path=context.home / "console" / "index.db", job=job, probe=probe) as console:
        context.output.line({"url": console.url}, f"console: {console.url} (end with Ctrl-C)")
        console.follow(context.node, rpc or _rpc_of(context))
        if console.index.in_memory:
            context.output.note(
                "another console keeps the index of this home; this one is in memory"
            )
        if open_:
            webbrowser.open(console.url)
        with suppress(KeyboardInterrupt):
            Event().wait()


def console_beside(path: Path | None) -> "Console":
    """Return a console for a network of this machine, where people look for it, or on any port that is free."""
    from console.errors import ConsoleError
    from console.server import PORT, Console

    try:
        return Console(PORT, path=path)
    except ConsoleError:
        return Console(0, path=path)


def _rpc_of(context: Settings) -> str:
    """Return the URL of the CometBFT in the home, where it has a node of its own."""
    has_node = (context.home / "node").is_dir() and not context.node_option
    return f"http://127.0.0.1:{context.setting('node.rpc_port').value}" if has_node else ""
