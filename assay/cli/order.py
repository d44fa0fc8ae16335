"""``assay order``."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from assay.cli.arguments import DURATION, ORDER_ID, ROUND
from assay.cli.conditions import condition_options, read_request
from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError, Interrupted, NotSettled
from assay.cli.output import (
    byte_progress,
    flops,
    load_line,
    moment,
    money,
    plain,
    price,
    resume_line,
    short,
    table,
)
from assay.cli.traffic import traffic_of, traffic_words
from domain.errors import Exit, Expected
from domain.market.reasons import CloseReason
from domain.market.records import Histogram, Order, OrderState
from domain.measures import duration
from domain.proof.queries import OrderResponse

if TYPE_CHECKING:
    from rich.table import Table

    from consumer.submit import Quote
    from consumer.watch import Summary

job_option = click.option(
    "--job",
    "directory",
    type=click.Path(path_type=Path),
    help="The job directory.  [from this home's record of the order]",
)
round_option = click.option("--round", type=ROUND, help="A hand-over round.  [the last]")


@click.group(help="Submit orders, watch them, fetch results.")
def command() -> None:
    """Group of order commands."""


@command.command(
    help="Sign and submit an order, lock its payment, and deliver the payload to the winner.\n\n"
    f"The exit code is {Exit.NOT_SETTLED.value} if the order closes before a validator has accepted it.\n\n"
    "Example: assay order submit ./digits --price-limit 1000000000000uassay --from alice"
)
@click.argument("directory", type=click.Path(path_type=Path))
@condition_options
@click.option("--wait", "seconds", type=DURATION, default="10m", show_default=True, help="Longest wait for acceptance.")
@common_options
def submit(context: CommandContext, directory: Path, seconds: int, **values: Any) -> None:
    """Submit an order, wait for its match, deliver the payload, and wait until the validator accepts the job."""
    from consumer.jobs import read_job
    from consumer.states import states_folder
    from consumer.submit import place_order, quote
    from consumer.watch import Delivery, summarise, wait_for
    from consumer.words import Asker

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
                asker=Asker.SHELL,
            )
            submitted = placed.submitted
            offered = placed.quote
            request = replace(request, price_limit=offered.price_limit)
            reporter = WaitReporter(
                context.output.note,
                lambda: quote(client, job, request),
                lambda: client.status().clock,
                [] if offered.match.bids else [offered.match.unmatched],
            )
            context.output.note(f"order {submitted.order_id.hex()}: locked {money(submitted.deposit)}")
            for replica in submitted.replicas[1:]:
                context.output.note(f"its replica {replica.hex()} is served by another validator")
            with byte_progress(context.output) as bar:
                task = bar.add_task("payload", total=job.payload_size)
                delivery = Delivery(
                    client=client,
                    key=key,
                    order_id=submitted.order_id,
                    directory=directory,
                    job=job,
                    progress=lambda done, total: bar.update(task, completed=done, total=total),
                    note=context.output.note,
                    states=states_folder(context.home, submitted.order_id),
                )
                on_chain = wait_for(
                    client,
                    submitted.order_id,
                    OrderState.RUNNING,
                    delivery,
                    Event(),
                    float(seconds),
                    reporter.report,
                )
        except (KeyboardInterrupt, click.exceptions.Abort):
            if not sent:
                raise Interrupted("interrupted before anything was sent") from None
            name = short(sent[-1])
            raise Interrupted(
                f"interrupted: order {name} was already sent and stays active",
                f"follow it and deliver its payload with assay order watch {name}, or cancel it with assay order cancel"
                f" {name}",
            ) from None
    summary = summarise(on_chain)
    context.output.result(
        {
            "order": submitted.order_id,
            "replicas": submitted.replicas,
            "deposit": submitted.deposit,
            "tx": submitted.tx_hash,
            "state": summary.state,
            "validator": summary.validator,
            "reason": summary.reason,
        },
        f"{submitted.order_id.hex()} is {summary.state.name.lower()}"
        + (f" at {summary.validator}" if summary.validator else ""),
    )
    if summary.over and not summary.settled:
        raise _not_settled(submitted.order_id, summary)
    context.output.note(
        f"keep assay order watch {short(submitted.order_id)} running: if this validator fails, another one may take"
        " the order and needs the payload from you"
    )


def _not_settled(order_id: bytes, summary: "Summary") -> NotSettled:
    from consumer.words import CLOSED

    explanation = CLOSED[CloseReason[summary.reason.upper()]]
    return NotSettled(f"the order is closed, {summary.reason}: {explanation}", f"see assay order why {short(order_id)}")


class WaitReporter:
    """A reporter of a submitted order until a validator has accepted it.

    It prints which validator takes the order, and why the order still waits. Each reason is printed once.
    """

    def __init__(
        self,
        note: Callable[[str], None],
        ask: Callable[[], "Quote"],
        clock: Callable[[], int],
        reported: list[Histogram],
    ) -> None:
        """Store the arguments.

        ``note`` prints a line, ``ask`` returns a new quote for the job, and ``clock`` returns the chain's time.
        ``reported`` has the reasons that the user has already seen.
        """
        self._note = note
        self._ask = ask
        self._clock = clock
        self._reported = reported
        self._matched: list[int] = []

    def report(self, answer: OrderResponse) -> None:
        """Print the news in ``answer``, the chain's current record of the order."""
        from consumer.waiting import waiting
        from consumer.words import Asker, list_failures, what_helps

        order, current = answer.order, answer.current
        is_matched = order.state is OrderState.MATCHED
        if is_matched and current and current.number not in self._matched:
            self._matched.append(current.number)
            self._note(
                f"matched: {short(current.validator)} takes it at {price(current.price)}, gets the payload, and tests"
                " the job"
            )
        if order.state is OrderState.OPEN and order.unmatched and order.unmatched not in self._reported:
            self._reported.append(order.unmatched)
            offer = self._ask()
            waits = waiting(
                answer,
                self._clock(),
                reason=list_failures(order.unmatched, offer.backed, offer.work),
                remedy=what_helps(order.unmatched, offer.cheapest, Asker.SHELL),
                asker=Asker.SHELL,
            )
            self._note(f"the order {waits}")


@command.command(
    "list",
    help="List orders, the newest first.\n\n"
    "For a closed order, the state column shows why it closed. The job's name is known only for orders that this\n"
    "home submitted.\n\n"
    "Example: assay order list --consumer assay1…",
)
@click.option("--consumer", default="", help="Only orders of this consumer (address).")
@click.option("--validator", default="", help="Only orders that this validator serves or served (address).")
@common_options
def list_(context: CommandContext, consumer: str, validator: str) -> None:
    """List orders with age and state, and the job's name if this home submitted the order."""
    from consumer.jobs import job_name
    from consumer.lookup import all_orders

    with context.client() as client:
        orders = newest_first(all_orders(client, consumer, validator))
        clock = client.status().clock
    names = [job_name(context.home, order.id) for order in orders]
    ages = [max(0, clock - order.opened_at) for order in orders]
    rows = [
        (
            short(order.id),
            name or "-",
            f"{duration(age)} ago",
            state_word(order),
            order.legs,
            price(order.price_limit),
        )
        for order, name, age in zip(orders, names, ages, strict=True)
    ]
    columns = ("order", "job", "opened", "state", "leg", "price limit")
    context.output.result(
        [
            {**plain(order), "job": name, "age_seconds": age}
            for order, name, age in zip(orders, names, ages, strict=True)
        ],
        table("Orders", columns, rows),
    )


def newest_first(orders: Iterable[Order]) -> list[Order]:
    """Return orders, the newest first, sorted by the height of the block in which each order was last opened."""
    return sorted(orders, key=lambda order: (-order.opened_height, order.id))


def state_word(order: Order) -> str:
    """Return the state of an order in a word; for a closed order, return the reason why it closed."""
    if order.close_reason:
        return CloseReason(order.close_reason).name.lower()
    return order.state.name.lower()


@command.command(help="Show everything about an order.\n\n" + ORDER_ID + "Example: assay order show 1a2b…")
@click.argument("order")
@common_options
def show(context: CommandContext, order: str) -> None:
    """Show an order with its legs, shares, panels and payments."""
    from consumer.disputes import describe_dispute, dispute_rows, read_disputes
    from consumer.lookup import find_order
    from consumer.panels import describe_stop, panel_rows, read_seats
    from consumer.waiting import waiting
    from consumer.watch import summarise
    from consumer.words import Asker
    from domain.proof.queries import OrderRequest
    from pol.rules.replicas import replica_ids
    from pol.rules.schedule import total_work

    with context.client() as client:
        on_chain = client.query(OrderRequest(find_order(client, order)))
        seats, clock = read_seats(client, on_chain), client.status().clock
        disputes = read_disputes(client, on_chain.order.id)
    summary, terms = summarise(on_chain), on_chain.order.terms
    traffic = traffic_of(context.home, on_chain.order, summary.round * terms.slots)
    head = [
        ("state", summary.state.name.lower() + (f" ({summary.reason})" if summary.reason else "")),
        ("validator", summary.validator or "-"),
        ("leg", summary.leg),
        ("work", flops(total_work(terms))),
        (
            "rounds closed / verified / all",
            f"{summary.round} / {summary.verified} / {terms.rounds}",
        ),
        ("updates of closed rounds", traffic_words(traffic)),
        ("deposit", money(summary.paid + summary.locked + summary.refunded)),
        ("paid so far (work and audits)", money(summary.paid)),
        ("still locked", money(summary.locked)),
        ("of which withheld from the validator", money(summary.withheld)),
        ("refunded", money(summary.refunded)),
        (
            "loss after the last closed round",
            "-" if summary.loss is None else f"{summary.loss:.4f}",
        ),
    ]
    others = [name.hex() for name in replica_ids(on_chain.order) if name != on_chain.order.id]
    head += [("replica at another validator", name) for name in others]
    for leg in on_chain.legs:
        if leg.part:
            wait = f"{money(leg.part)} for {leg.part_until - clock} s more, unless you acknowledge or deny its states"
            head.append((f"part of leg {leg.number} that waits", wait))
    if waits := waiting(on_chain, clock, asker=Asker.SHELL):
        head.insert(1, ("it", str(waits)))
    if stop := describe_stop(on_chain):
        head.append(("stopped", stop))
    payments = [(p.kind, short(p.to), money(p.amount), "-" if p.round < 0 else p.round) for p in on_chain.payments]
    panel_columns = ("leg", "round", "place", "what", "ruling", "stage", "seats", "answers")
    challenges = ("leg", "round", "number", "place", "challenger", "state", "bond", "reward", "burnt")
    context.output.result(
        {**plain(on_chain), "disputes": disputes, "traffic": traffic},
        [
            table(f"Order {order}", ("what", "value"), head),
            _legs_table(on_chain),
            _shares_table(on_chain),
            table("Places that auditors recompute", panel_columns, panel_rows(on_chain, seats)),
            *((table("Challenges and stands", challenges, dispute_rows(disputes)),) if disputes else ()),
            *(describe_dispute(dispute, clock) for dispute in disputes),
            table("Payments", ("kind", "to", "amount", "round"), payments),
        ],
    )


def _legs_table(on_chain: OrderResponse) -> "Table":
    """Return a table of an order's legs: which validator serves which rounds and slots, and its progress."""
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
        "leg",
        "validator",
        "tier",
        "rounds",
        "slots",
        "closed",
        "verified",
        "state",
        "reason",
    )
    return table("Legs", columns, rows)


def _shares_table(on_chain: OrderResponse) -> "Table":
    """Return a table of an order's shares, with the state and the drawn segments of each share."""
    from domain.proof.reasons import ShareReason
    from pol.rules.inclusion import issue_name
    from pol.rules.schedule import share_segments

    whole = share_segments(on_chain.order.terms)
    rows = [
        (
            s.key.leg,
            s.key.round,
            s.claim.slot,
            issue_name(s.key.issue, s.claim.issue),
            short(s.claim.provider),
            s.roots.segments if s.roots else whole,
            ",".join(map(str, s.drawn)),
            s.state.name.lower(),
            ShareReason(s.reason).name.lower() if s.reason else "-",
        )
        for s in on_chain.shares
    ]
    columns = (
        "leg",
        "round",
        "slot",
        "issue",
        "provider",
        "segments",
        "drawn",
        "state",
        "reason",
    )
    return table("Shares", columns, rows)


@command.command(
    help="State that you will not challenge the rounds of an order, so that they need not wait for you.\n\n"
    "If the consumer, all validators and all named accounts have stated it, the rounds wait no longer.\n\n"
    + ORDER_ID
    + "Example: assay order waive 1a2b… --from op"
)
@click.argument("order")
@click.option("--round", type=ROUND, default=None, help="Last round that you will not challenge.  [the leg's last]")
@common_options
def waive(context: CommandContext, order: str, round: int | None) -> None:
    """Send a waiver of challenges for the current leg of an order."""
    from consumer.lookup import find_order
    from domain.disputes.messages import MsgWaive
    from domain.proof.queries import OrderRequest

    key = context.key()
    with context.client() as client:
        on_chain = client.query(OrderRequest(find_order(client, order)))
        leg = on_chain.current
        if leg is None:
            raise CliError("the order has no leg yet", "waive challenges when a validator has won the order")
        last = leg.end_round - 1 if round is None else round
        message = MsgWaive(sender=key.address, order_id=on_chain.order.id, leg=leg.number, round=last)
        receipt = context.sender(client, key).send(message)
    context.output.result(
        {"order": on_chain.order.id, "leg": leg.number, "round": last, "height": receipt.height},
        f"{key.address} challenges no round up to round {last} of order {short(on_chain.order.id)}",
    )


@command.command(
    help="Appeal a ruling against a round, so that all other validators decide it.\n\n"
    "A few auditors that were drawn by lot have found a place of the round wrong. The ruling waits for some time. An\n"
    "appeal locks a bond from your bond account. The bond returns if the round is right. If not, it pays the\n"
    "auditors, and the rest is burnt. You need this command only if you know that the round is right and its\n"
    "validator does not appeal.\n\n" + ORDER_ID + "Example: assay order appeal 1a2b… --round 2 --from alice"
)
@click.argument("order")
@click.option("--round", type=ROUND, required=True, help="Round whose ruling you appeal.")
@click.option(
    "--challenge",
    type=click.IntRange(0, 2**30 - 1),
    default=0,
    help="Number of the challenge with the ruling.  [the audit]",
)
@common_options
def appeal(context: CommandContext, order: str, round: int, challenge: int) -> None:
    """Send an appeal of the ruling about a round of the current leg of an order."""
    from consumer.lookup import find_order
    from domain.disputes.messages import MsgAppeal
    from domain.proof.queries import OrderRequest

    key = context.key()
    with context.client() as client:
        on_chain = client.query(OrderRequest(find_order(client, order)))
        leg = on_chain.current
        if leg is None:
            raise CliError("the order has no leg yet", "appeal when a panel has ruled against a round")
        message = MsgAppeal(
            appellant=key.address, order_id=on_chain.order.id, leg=leg.number, round=round, dispute=challenge
        )
        receipt = context.sender(client, key).send(message)
    context.output.result(
        {"order": on_chain.order.id, "leg": leg.number, "round": round, "height": receipt.height},
        f"the ruling about round {round} of order {short(on_chain.order.id)} is appealed: all other validators decide",
    )


@command.command(
    help="Follow an order to its end; deliver the payload again if another validator takes the order.\n\n"
    f"The exit code is {Exit.DONE.value} if the order was settled, {Exit.NOT_SETTLED.value} if it closed for another\n"
    f"reason, and {Exit.TIMED_OUT.value} if it was still active at the end of --wait.\n\n"
    + ORDER_ID
    + "Example: assay order watch 1a2b… --from alice"
)
@click.argument("order")
@click.option(
    "--wait", "seconds", type=DURATION, default="1d", show_default=True, help="Longest time to follow the order."
)
@job_option
@common_options
def watch(context: CommandContext, order: str, seconds: int, directory: Path | None) -> None:
    """Print one line per change of an order until it closes, and deliver its payload."""
    from consumer.jobs import read_job, recall
    from consumer.lookup import find_order
    from consumer.states import states_folder
    from consumer.watch import Delivery, follow, summarise, waits_for

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
                states=states_folder(context.home, wanted),
            )
        except Expected as error:
            context.output.note(f"watching only: {error}")
        shown = None
        summary: Summary | None = None
        try:
            for on_chain in follow(client, wanted, Event(), float(seconds), context.output.note):
                if delivery:
                    delivery.step(on_chain)
                summary, waits = summarise(on_chain), waits_for(on_chain)
                if (summary, waits) != shown:
                    now = datetime.now().astimezone().isoformat(timespec="seconds")
                    record = {"time": now, **plain(summary), "waits": waits}
                    context.output.line(record, _watched(summary, waits))
                    shown = summary, waits
        except (KeyboardInterrupt, click.exceptions.Abort):
            name = short(wanted)
            more = ", which also delivers its payload to the next validator that takes it" if delivery else ""
            raise Interrupted(
                f"interrupted: order {name} stays active",
                f"follow it again with assay order watch {name}{more}",
            ) from None
    if summary is not None and summary.over and not summary.settled:
        raise _not_settled(wanted, summary)


def _watched(summary: "Summary", waits: str) -> str:
    loss = "" if summary.loss is None else f"loss {summary.loss:.4f} "
    return (
        f"{moment()} {summary.reason or summary.state.name.lower():8} leg {summary.leg} "
        f"rounds {summary.round}/{summary.rounds} verified {summary.verified} {loss}"
        f"shares {summary.shares_committed} rejected {summary.shares_rejected} "
        f"panels open {summary.panels_open} "
        f"cost {money(summary.paid)} {waits}"
    )


@command.command(
    help="Explain the state of an order: what it waits for, or why it closed.\n\n"
    + ORDER_ID
    + "Example: assay order why 1a2b…"
)
@click.argument("order")
@common_options
def why(context: CommandContext, order: str) -> None:
    """Print an explanation of an order's state.

    The explanation has the reasons why bids do not fit and why legs failed. It also has the faults that panels found,
    or the steps that the panels still wait for. For a closed order, it has the reason why the order closed.
    """
    from consumer.lookup import find_order
    from consumer.why import ask_why
    from consumer.words import Asker

    with context.client() as client:
        explanation = ask_why(client, find_order(client, order), Asker.SHELL)
    value = {
        "state": explanation.state,
        "closed": explanation.closed or "",
        "legs": explanation.legs,
        "unmatched": explanation.unmatched,
        "stopped": explanation.stopped,
        "panels": explanation.panels,
        "disputes": explanation.disputes,
        "price_limit": explanation.price_limit,
        "cheapest": explanation.cheapest,
        "waits": str(explanation.waiting) if explanation.waiting else "",
        "waiting": explanation.waiting,
    }
    context.output.result(value, str(explanation))


STOPPED_EARLY = (
    "the order stopped before its end: these are the states after round {round}, the last verified one, of leg {leg}"
)


@command.command(help="Cancel an order that is not matched yet.\n\n" + ORDER_ID + "Example: assay order cancel 1a2b…")
@click.argument("order")
@common_options
def cancel(context: CommandContext, order: str) -> None:
    """Cancel an order that is not matched yet, and get its deposit back."""
    from consumer.lookup import find_order
    from domain.market.messages import MsgCancelOrder

    key = context.key()
    with context.client() as client:
        message = MsgCancelOrder(key.address, find_order(client, order))
        receipt = context.sender(client, key).send(message)
    context.output.result(receipt, f"cancelled at height {receipt.height}; the deposit is back")


@command.command(
    help="Say whether you received the states of the last verified round of a failed leg.\n\n"
    "The part of the price that was withheld from the leg's validator waits for this. If you received the states,\n"
    "it is paid at once. If not, --denied burns it. If you say nothing, it is paid when its time is over.\n\n"
    + ORDER_ID
    + "Example: assay order ack 1a2b… --from alice"
)
@click.argument("order")
@click.option("--denied", is_flag=True, help="The states were not served: burn the validator's part.")
@common_options
def ack(context: CommandContext, order: str, denied: bool) -> None:
    """Confirm or deny that the states of a failed leg were served."""
    from consumer.lookup import find_order
    from consumer.states import acknowledge
    from domain.proof.queries import OrderRequest

    key = context.key()
    with context.client() as client:
        answer = client.query(OrderRequest(find_order(client, order)))
        message = acknowledge(answer, received=not denied)
        receipt = context.sender(client, key).send(message)
    part = next(leg.part for leg in answer.legs if leg.number == message.leg)
    done = "burnt" if denied else "paid to its validator"
    context.output.result(
        receipt, f"the part of leg {message.leg}, {money(part)}, was {done} at height {receipt.height}"
    )


@command.command(
    help="Fetch, check and decrypt a result, and write it as safetensors.\n\n"
    "The folder model.training beside the file lets another job continue from it (assay job build --resume).\n\n"
    "The result is the state after the last round. --round fetches the state after an earlier hand-over\n"
    "round. The validator serves the newest verified hand-over round.\n\n"
    "--early takes a closed round before it is verified. If the round or an earlier one then becomes void,\n"
    "its price is burnt instead of refunded. The command asks first.\n\n"
    + ORDER_ID
    + "Example: assay order result 1a2b… -o model.safetensors --from alice"
)
@click.argument("order")
@click.option("-o", "--to", required=True, type=click.Path(path_type=Path), help="File to write.")
@job_option
@round_option
@click.option("--complain", is_flag=True, help="Prove a wrong chunk, or ask a panel if nothing is served.")
@click.option("--early", is_flag=True, help="Take a round that is not verified yet; gives up its refund.")
@click.option("--yes", is_flag=True, help="Do not ask before --early.")
@common_options
def result(
    context: CommandContext,
    order: str,
    to: Path,
    directory: Path | None,
    round: int | None,
    complain: bool,
    early: bool,
    yes: bool,
) -> None:
    """Fetch the trained state, check it against the roots on the chain, and write it to a file."""
    from consumer.complain import fetch_or_complain
    from consumer.early import early_take
    from consumer.jobs import read_job, recall
    from consumer.lookup import find_order
    from domain.proof.queries import OrderRequest
    from pol.job.checkpoint import training_folder

    key = context.key()
    with context.client() as client:
        wanted = find_order(client, order)
        job = read_job(directory or recall(context.home, wanted).job)
        take = early_take(client.query(OrderRequest(wanted)), round) if early else None
        if take is not None:
            if yes:
                context.output.note(str(take))
            else:
                click.confirm(f"{take} Take the states now?", abort=True)
            context.sender(client, key).send(take.message)
    with context.client() as client, byte_progress(context.output) as bar:
        task = bar.add_task("result", total=None)
        outcome = fetch_or_complain(
            client,
            key,
            wanted,
            job,
            context.home / "results",
            lambda done, total: bar.update(task, completed=done, total=total),
            round,
            context.sender(client, key) if complain else None,
        )
    digest = outcome.save(to)
    context.output.result(
        {
            "path": str(to),
            "training": str(training_folder(to)),
            "sha256": digest,
            "root": outcome.root,
            "validator": outcome.validator,
            "round": outcome.round,
            "whole": outcome.whole,
        },
        [
            f"wrote {to} (SHA-256 {digest.hex()})",
            f"its state root equals the root of round {outcome.round} on the chain: {outcome.root.hex()}",
            *([] if outcome.whole else [STOPPED_EARLY.format(round=outcome.round, leg=outcome.leg)]),
            load_line(to),
            resume_line(to),
        ],
    )


@command.command(
    "never-served",
    help="Report that a validator never served you the result of a round, so that auditors fetch it.\n\n"
    "They serve the result to you then, and the order settles later. If they can fetch it, you pay them, from your\n"
    "bond account (assay tx deposit-bond). If the last stage finds that it is unavailable, the validator is at fault:\n"
    "the job bond pays what the leg has cost, and the validator's withheld part returns. The bond returns.\n\n"
    + ORDER_ID
    + "Example: assay order never-served 1a2b… --from alice",
)
@click.argument("order")
@round_option
@common_options
def never_served(context: CommandContext, order: str, round: int | None) -> None:
    """Ask a panel about the result of a hand-over round."""
    from consumer.lookup import find_order
    from consumer.missed import never_served as ask_panel

    key = context.key()
    with context.client() as client:
        receipt = ask_panel(client, find_order(client, order), round, sender=context.sender(client, key))
    context.output.result(
        receipt,
        f"a panel tries to fetch the result since height {receipt.height}; then fetch it with assay order result",
    )


@command.command(
    help="Prove to the chain that the validator handed over something else than the states of a round.\n\n"
    "The command fetches the states and checks each chunk. If one is wrong, it sends the proof: the leg fails, the\n"
    "job bond pays what the leg has cost, and the validator's withheld part returns. If all are right, it sends\n"
    "nothing. A complaint is possible until the order settles.\n\n"
    + ORDER_ID
    + "Example: assay order complain 1a2b… --from alice"
)
@click.argument("order")
@job_option
@round_option
@common_options
def complain(context: CommandContext, order: str, directory: Path | None, round: int | None) -> None:
    """Fetch and check the states of a hand-over round, and prove the first wrong chunk to the chain."""
    from consumer.complain import complain as prove_wrong
    from consumer.jobs import read_job, recall
    from consumer.lookup import find_order

    key = context.key()
    with context.client() as client, byte_progress(context.output) as bar:
        wanted = find_order(client, order)
        job = read_job(directory or recall(context.home, wanted).job)
        task = bar.add_task("result", total=None)
        error, receipt = prove_wrong(
            client,
            key,
            wanted,
            job,
            context.home / "results",
            lambda done, total: bar.update(task, completed=done, total=total),
            round,
            sender=context.sender(client, key),
        )
    context.output.result(
        receipt,
        f"chunk {error.chunk} {error.reason}; the chain has the proof since height {receipt.height}",
    )
