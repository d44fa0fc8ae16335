"""``assay events``."""

from threading import Event

import click

from assay.cli.context import CommandContext, common_options
from domain.limits import EVENTS_LIMIT_MAX


@click.command(
    help="Show the chain's numbered events, in order and without gaps.\n\nExample: assay events --since 1 --follow"
)
@click.option(
    "--since",
    type=click.IntRange(1, 2**63 - 1),
    default=1,
    show_default=True,
    help="Number of the first event.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, EVENTS_LIMIT_MAX),
    default=100,
    show_default=True,
    help="Largest number of events (not used with --follow).",
)
@click.option("--follow", is_flag=True, help="Also print new events as they come; end with Ctrl-C.")
@common_options
def command(context: CommandContext, since: int, limit: int, follow: bool) -> None:
    """Print the chain's events, one line each."""
    from chain.client.events import follow_events
    from domain.node.queries import EventsRequest

    with context.client() as client:
        found = follow_events(client, since, Event()) if follow else client.query(EventsRequest(since, limit)).events
        for event in found:
            text = " ".join(f"{name}={value}" for name, value in event.attributes)
            context.output.line(event, f"{event.number} @{event.height} {event.type} {text}")
