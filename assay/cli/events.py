"""``assay events``."""

from threading import Event

import click

from assay.cli.arguments import ADDRESS
from assay.cli.context import CommandContext, common_options
from domain.limits import EVENTS_LIMIT_MAX


@click.command(
    help="""Show the chain's numbered events, in order and without gaps: all, or those of an order or account.

    \b
    Examples:
      assay events --since 1 --follow
      assay events --order 3f2a9c01 --type share.
      assay events --account assay1…
    """
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
@click.option("--order", "order_id", default="", help="Only events of this order: its id, or the first digits.")
@click.option("--account", type=ADDRESS, default=None, help="Only events that name this account.")
@click.option("--type", "kind", default="", help="Only this type of event, such as share.committed, or share. for all.")
@click.option("--follow", is_flag=True, help="Also print new events as they come; end with Ctrl-C.")
@common_options
def command(
    context: CommandContext, since: int, limit: int, order_id: str, account: str | None, kind: str, follow: bool
) -> None:
    """Print the chain's events, one line each."""
    from chain.client.events import follow_events, search_events
    from consumer.lookup import find_order
    from domain.node.queries import EventsRequest

    with context.client() as client:
        order = find_order(client, order_id) if order_id else b""
        request = EventsRequest(since=since, limit=limit, order_id=order, account=account or "", type=kind)
        stop = Event() if follow else None
        if stop is not None and not (order or account or kind):
            events = follow_events(client, since, stop)
        else:
            events = search_events(client, request, stop)
        for event in events:
            text = " ".join(f"{name}={value}" for name, value in event.attributes)
            context.output.line(event, f"{event.number} @{event.height} {event.type} {text}")
