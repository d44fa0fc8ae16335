"""``assay order``."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from assay.cli.arguments import DURATION, ORDER_ID, ROUND
from assay.cli.conditions import condition_options, read_request
from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError, Interrupted
from assay.cli.output import byte_progress, flops, load_line, money, resume_line, short, table
from domain.errors import Expected
from domain.market.records import Histogram, Order, OrderState
from domain.proof.queries import OrderResponse

if TYPE_CHECKING:
    from rich.table import Table

    from consumer.watch import Summary

job_option = click.option(
    "--job",
    "directory",
    type=click.Path(path_type=Path),
    help="The job directory.  [the one that this home ordered]",
)


@click.group(help="Submit orders, watch them, fetch results.")
def command() -> None:
    """Group of order commands."""


@command.command(
    help="Sign and submit an order, lock its payment, and deliver the payload to the winner.\n\n"
    "Example: assay order submit ./digits --price-limit 1000000000000uassay --from alice"
)
@click.argument("directory", type=click.Path(path_type=Path))
@condition_options
@click.option(
    "--wait", "seconds", type=DURATION, default="10m", show_default=True, help="Wait for it."
)
@common_options
def submit(context: CommandContext, directory: Path, seconds: int, **values: Any) -> None:
    """Submit, wait for the match, deliver, and wait until the validator has accepted."""
    from consumer.jobs import read_job
    from consumer.submit import place_order, quote
    from consumer.watch import Delivery, summarise, wait_for

    job, request, key = read_job(directory), read_request(values), context.key()
    sent: list[bytes] = []
    with context.client() as client:
        try:
            placed = place_order(
                client,
                context.sender(client, key),
                key,
                job,
                request,
                directory=directory,
                home=context.home,
                note=context.output.note,
                sending=sent.append,
            )
            made, offered = placed.submitted, placed.quote
            request = replace(request, price_limit=offered.price_limit)
            telling = Telling(
                context.output.note,
                lambda: quote(client, job, request).cheapest,
                [] if offered.match.bids else [offered.match.unmatched],
            )
            context.output.note(f"order {made.order_id.hex()}: locked {money(made.deposit)}")
            with byte_progress(context.output) as bar:
                task = bar.add_task("payload", total=job.payload_size)
                delivery = Delivery(
                    client=client,
                    key=key,
                    order_id=made.order_id,
                    directory=directory,
                    job=job,
                    progress=lambda done, total: bar.update(task, completed=done, total=total),
                    note=context.output.note,
                )
                on_chain = wait_for(
                    client,
                    made.order_id,
                    OrderState.RUNNING,
                    delivery,
                    Event(),
                    float(seconds),
                    telling.look,
                )
        except (KeyboardInterrupt, click.exceptions.Abort):
            if not sent:
                raise Interrupted("interrupted before anything was sent") from None
            name = short(sent[-1])
            raise Interrupted(
                f"interrupted: order {name} is sent, and goes on without you",
                f"follow and deliver it with assay order watch {name}, or take it back with assay order cancel {name}",
            ) from None
    summary = summarise(on_chain)
    context.output.result(
        {
            "order": made.order_id,
            "deposit": made.deposit,
            "tx": made.tx_hash,
            "state": summary.state,
            "validator": summary.validator,
            "reason": summary.reason,
        },
        f"{made.order_id.hex()} is {summary.state.name.lower()}"
        + (f" at {summary.validator}" if summary.validator else ""),
    )
    if summary.over:
        raise CliError(f"the order closed: {summary.reason}", "see assay order why")
    context.output.note(
        f"leave assay order watch {short(made.order_id)} running: if this validator fails it, another one may take it, "
        "and needs the payload from you"
    )


class Telling:
    """Says once what keeps an order waiting that was sent, and who takes it."""

    def __init__(
        self, note: Callable[[str], None], cheapest: Callable[[], int], told: list[Histogram]
    ) -> None:
        """Say it with ``note``; ``cheapest`` asks for the price that would do, ``told`` are reasons known already."""
        self._note, self._cheapest, self._told = note, cheapest, told
        self._matched: list[int] = []

    def look(self, answer: OrderResponse) -> None:
        """Say what is new in an answer about the order."""
        from consumer.submit import explain

        order, current = answer.order, answer.current
        is_matched = order.state is OrderState.MATCHED
        if is_matched and current and current.number not in self._matched:
            self._matched.append(current.number)
            self._note(
                f"matched: {short(current.validator)} takes it at {money(current.price)} a PFLOP, gets the payload, "
                "and tries the job"
            )
        if order.state is OrderState.OPEN and order.unmatched and order.unmatched not in self._told:
            self._told.append(order.unmatched)
            self._note("; ".join((*explain(order.unmatched, self._cheapest()), "the order waits")))


@command.command("list", help="List orders.\n\nExample: assay order list --consumer assay1…")
@click.option("--consumer", default="", help="Only of this consumer.")
@click.option("--validator", default="", help="Only with a leg of this validator.")
@common_options
def list_(context: CommandContext, consumer: str, validator: str) -> None:
    """List orders with state and reason, and the job directory of those that this home ordered."""
    from consumer.errors import ConsumerError
    from consumer.jobs import recall
    from consumer.lookup import all_orders
    from domain.market.reasons import CloseReason

    with context.client() as client:
        orders = list(all_orders(client, consumer, validator))

    def job_of(order: Order) -> str:
        try:
            return recall(context.home, order.id).job.name
        except ConsumerError:
            return "-"

    rows = [
        (
            short(order.id),
            job_of(order),
            order.state.name.lower(),
            CloseReason(order.close_reason).name.lower() if order.close_reason else "-",
            order.legs,
            money(order.price_limit),
        )
        for order in orders
    ]
    columns = ("order", "job", "state", "closed", "leg", "price limit of a PFLOP")
    context.output.result(orders, table("Orders", columns, rows))


@command.command(
    help="Show everything about an order.\n\n" + ORDER_ID + "Example: assay order show 1a2b…"
)
@click.argument("order")
@common_options
def show(context: CommandContext, order: str) -> None:
    """Show an order with its rounds, shares and money."""
    from consumer.lookup import find_order
    from consumer.panels import panel_rows, read_seats, tell_stop
    from consumer.watch import summarise
    from domain.proof.queries import OrderRequest
    from pol.rules.schedule import total_work

    with context.client() as client:
        on_chain = client.query(OrderRequest(find_order(client, order)))
        seats = read_seats(client, on_chain)
    summary, terms = summarise(on_chain), on_chain.order.terms
    head = [
        ("state", summary.state.name.lower() + (f" ({summary.reason})" if summary.reason else "")),
        ("validator", summary.validator or "-"),
        ("leg", summary.leg),
        ("work", flops(total_work(terms))),
        (
            "rounds closed / verified / all",
            f"{summary.round} / {summary.verified} / {terms.rounds}",
        ),
        ("deposit", money(summary.paid + summary.locked + summary.refunded)),
        ("of it paid, for work and audits", money(summary.paid)),
        ("of it locked", money(summary.locked)),
        ("of that withheld from the validator", money(summary.withheld)),
        ("of it refunded", money(summary.refunded)),
    ]
    if stop := tell_stop(on_chain):
        head.append(("stopped", stop))
    payments = [
        (p.kind, short(p.to), money(p.amount), "-" if p.round < 0 else p.round)
        for p in on_chain.payments
    ]
    panel_columns = ("leg", "round", "place", "what", "ruling", "stage", "seats", "said")
    context.output.result(
        on_chain,
        [
            table(f"Order {order}", ("what", "value"), head),
            _legs_table(on_chain),
            _shares_table(on_chain),
            table("Places that strangers recompute", panel_columns, panel_rows(on_chain, seats)),
            table("Payments", ("kind", "to", "amount", "round"), payments),
        ],
    )


def _legs_table(on_chain: OrderResponse) -> "Table":
    """Return the legs of an order: who serves which part of it, and how far."""
    from domain.legs.reasons import LegEnd

    rows = [
        (
            leg.number,
            short(leg.validator),
            leg.tier,
            f"{leg.first_round} to {leg.end_round - 1}",
            f"{leg.first_slot} to {leg.end_slot - 1}",
            leg.closed,
            leg.verified,
            leg.state.name.lower(),
            LegEnd(leg.end_reason).name.lower() if leg.end_reason else "-",
        )
        for leg in on_chain.legs
    ]
    columns = (
        "leg", "validator", "tier", "rounds", "slots", "closed", "verified", "state", "reason",
    )  # fmt: skip
    return table("Legs", columns, rows)


def _shares_table(on_chain: OrderResponse) -> "Table":
    """Return the shares of an order with what was drawn of each and what became of it."""
    from domain.proof.reasons import ShareReason
    from pol.rules.schedule import share_segments

    whole = share_segments(on_chain.order.terms)
    rows = [
        (
            s.claim.leg,
            s.claim.round,
            s.claim.slot,
            s.claim.issue,
            short(s.claim.provider),
            s.roots.segments if s.roots else whole,
            ",".join(map(str, s.drawn)),
            s.state.name.lower(),
            ShareReason(s.reason).name.lower() if s.reason else "-",
        )
        for s in on_chain.shares
    ]
    columns = (
        "leg", "round", "slot", "issue", "provider", "segments", "drawn", "state", "reason",
    )  # fmt: skip
    return table("Shares", columns, rows)


@command.command(
    help="Follow an order to its end; delivers the payload again if it is matched anew.\n\n"
    + ORDER_ID
    + "Example: assay order watch 1a2b… --from alice"
)
@click.argument("order")
@click.option("--wait", "seconds", type=DURATION, default="1d", show_default=True, help="At most.")
@job_option
@common_options
def watch(context: CommandContext, order: str, seconds: int, directory: Path | None) -> None:
    """Print one line per change."""
    from consumer.jobs import read_job, recall
    from consumer.lookup import find_order
    from consumer.watch import Delivery, follow, summarise

    with context.client() as client:
        wanted = find_order(client, order)
        delivery: Delivery | None = None
        try:
            directory = directory or recall(context.home, wanted).job
            key, job = context.key(), read_job(directory)
            delivery = Delivery(
                client=client,
                key=key,
                order_id=wanted,
                directory=directory,
                job=job,
                progress=None,
                note=context.output.note,
            )
        except Expected as error:
            context.output.note(f"watching only: {error}")
        shown = None
        try:
            for on_chain in follow(client, wanted, Event(), float(seconds), context.output.note):
                if delivery:
                    delivery.step(on_chain)
                summary = summarise(on_chain)
                if summary != shown:
                    context.output.line(summary, _watched(summary))
                    shown = summary
        except (KeyboardInterrupt, click.exceptions.Abort):
            name = short(wanted)
            more = ", which delivers its payload to whoever takes it" if delivery else ""
            raise Interrupted(
                f"interrupted: order {name} goes on without you",
                f"look again with assay order watch {name}{more}",
            ) from None


def _watched(summary: "Summary") -> str:
    return (
        f"{summary.state.name.lower():8} leg {summary.leg} "
        f"rounds {summary.round}/{summary.rounds} verified {summary.verified} "
        f"shares {summary.shares_committed} rejected {summary.shares_rejected} "
        f"panels open {summary.panels_open} "
        f"paid {money(summary.paid)} {summary.reason}"
    )


@command.command(
    help="Tell why an order is where it is.\n\n" + ORDER_ID + "Example: assay order why 1a2b…"
)
@click.argument("order")
@common_options
def why(context: CommandContext, order: str) -> None:
    """Print the reasons: unmatched histogram, failed legs, what panels wait for or found wrong, closing."""
    from consumer.lookup import find_order
    from consumer.why import ask_why

    with context.client() as client:
        found = ask_why(client, find_order(client, order))
    value = {
        "state": found.state,
        "closed": found.closed or "",
        "legs": found.legs,
        "unmatched": found.unmatched,
        "stopped": found.stopped,
        "panels": found.panels,
        "price_limit": found.price_limit,
        "cheapest": found.cheapest,
    }
    context.output.result(value, str(found))


@command.command(
    help="Cancel an order that is not matched.\n\n" + ORDER_ID + "Example: assay order cancel 1a2b…"
)
@click.argument("order")
@common_options
def cancel(context: CommandContext, order: str) -> None:
    """Cancel and get the deposit back."""
    from consumer.lookup import find_order
    from domain.market.messages import MsgCancelOrder

    key = context.key()
    with context.client() as client:
        message = MsgCancelOrder(key.address, find_order(client, order))
        receipt = context.sender(client, key).send(message)
    context.output.result(receipt, f"cancelled at height {receipt.height}; the deposit is back")


@command.command(
    help="Fetch, check and decrypt a result, and write it as safetensors.\n\n"
    "Beside the file goes a folder, model.training, from which another job goes on (assay job build --resume).\n\n"
    "It is the state that the last round left; with --round that of an earlier hand-over round, as long as\n"
    "its validator serves it: the newest verified one, and those since.\n\n"
    + ORDER_ID
    + "Example: assay order result 1a2b… -o model.safetensors --from alice"
)
@click.argument("order")
@click.option("-o", "--to", required=True, type=click.Path(path_type=Path), help="File to write.")
@job_option
@click.option("--round", type=ROUND, help="A hand-over round; the last, if not given.")
@common_options
def result(
    context: CommandContext, order: str, to: Path, directory: Path | None, round: int | None
) -> None:
    """Write the trained state; all roots on chain are checked before."""
    from consumer.jobs import read_job, recall
    from consumer.lookup import find_order
    from consumer.result import fetch_result
    from pol.job.checkpoint import training_folder

    key = context.key()
    with context.client() as client, byte_progress(context.output) as bar:
        wanted = find_order(client, order)
        job = read_job(directory or recall(context.home, wanted).job)
        task = bar.add_task("result", total=None)
        found = fetch_result(
            client,
            key,
            wanted,
            job,
            context.home / "results",
            lambda done, total: bar.update(task, completed=done, total=total),
            round,
        )
    digest = found.save(to)
    context.output.result(
        {
            "path": str(to),
            "training": str(training_folder(to)),
            "sha256": digest,
            "root": found.root,
            "validator": found.validator,
        },
        [
            f"wrote {to} (SHA-256 {digest.hex()})",
            f"its state root is that of round {found.round} on chain: {found.root.hex()}",
            load_line(to),
            resume_line(to),
        ],
    )
