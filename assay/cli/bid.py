"""``assay bid``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from assay.cli import output
from assay.cli.arguments import AMOUNT, BID_ID, DURATION, FLOPS
from assay.cli.conditions import offer_options, read_offer
from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError
from assay.cli.output import flops, plain, short, table
from domain.limits import PROVIDERS_BPS_MAX
from domain.market.events import BidPlaced
from domain.measures import duration
from domain.vocabulary import changes_of

if TYPE_CHECKING:
    from rich.table import Table

    from chain.client.client import ChainClient
    from consumer.lookup import BackedBid
    from domain.market.records import Bid


@click.group(help="Place and change standing bids.")
def command() -> None:
    """Group of bid commands."""


@command.command(
    help="Place a standing bid; one bid serves many orders.\n\n"
    "Without --slot-speed, the bid's slots and their speed come from the speeds that the chain has certified for your\n"
    "providers. The bid offers the number of slots that gives the largest total speed. Each slot has the speed of the\n"
    "slowest provider that the bid uses.\n\n"
    "Example: assay bid place --price 900000000000uassay --capacity 1000000000000000 --from op"
)
@offer_options
@click.option("--capacity", type=FLOPS, required=True, help="Total FLOPs to sell.")
@click.option(
    "--providers-bps",
    type=click.IntRange(0, PROVIDERS_BPS_MAX),
    default=7000,
    show_default=True,
    help="Providers' share of payments, in 1/10,000 (7000 is 70 %).",
)
@click.option(
    "--duration",
    "lasts",
    type=DURATION,
    default="7d",
    show_default=True,
    help="Time until the bid expires.",
)
@common_options
def place(context: CommandContext, capacity: int, providers_bps: int, lasts: int, **values: Any) -> None:
    """Place a bid, and print its id and the part of its capacity that the validator's stake backs."""
    from domain.market.messages import MsgPlaceBid

    key = context.key()
    with context.client() as client:
        if values["slot_speed"] is None:
            certified = _certified(client, key.address, values["slots"] or 0)
            values["slots"], values["slot_speed"] = certified
        offer = read_offer(values, providers_bps=providers_bps)
        offer = replace(offer, max_work=offer.max_work or capacity)
        message = MsgPlaceBid(key.address, offer, capacity, duration=lasts)
        receipt = context.sender(client, key).send(message)
        placed = next(changes_of(BidPlaced, receipt.events)).bid
        backed = backed_of(client, key.address, placed)
    context.output.result(
        {"bid": placed, "height": receipt.height, "tx": receipt.hash, "backed": backed},
        [f"placed bid {placed.hex()} at height {receipt.height}", backing_line(backed, capacity)],
    )


@command.command("list", help="List bids.\n\nExample: assay bid list --validator assay1…")
@click.option("--validator", default="", help="Only bids of this validator (address).")
@common_options
def list_(context: CommandContext, validator: str) -> None:
    """List the bids in the book."""
    from consumer.lookup import backed_bids

    with context.client() as client:
        bids = list(backed_bids(client, validator))
        clock = client.status().clock
    context.output.result(
        [{**plain(each.bid), "backed": plain(each.backed)} for each in bids],
        bid_table(bids, clock),
    )


def backed_of(client: "ChainClient", validator: str, bid_id: bytes) -> int:
    """Return the work (FLOPs) that a validator's free stake backs at the price of its bid with the id ``bid_id``."""
    from consumer.lookup import backed_bids

    amounts = (each.backed for each in backed_bids(client, validator) if each.id == bid_id)
    return next(amounts, 0)


def backing_line(backed: int, capacity: int) -> str:
    """Return a line that compares a bid's capacity with the work that its validator's stake backs, in FLOPs."""
    if backed >= capacity:
        return f"your stake backs the bid's whole capacity of {flops(capacity)}"
    return (
        f"your stake backs {flops(backed)} of the bid's {flops(capacity)} at this price: a larger order does not match "
        "(condition stake), and smaller orders match until their work adds up to this limit; a lower price or more "
        "stake raises the limit"
    )


def bid_table(bids: "Sequence[BackedBid]", clock: int) -> "Table":
    """Return a table of bids, with the work that stake backs and the time until each bid expires.

    ``clock`` is the chain's time.
    """
    rows = [
        (
            short(bid.id),
            short(bid.validator),
            output.price(bid.offer.price),
            bid.offer.device_class,
            f"{flops(bid.offer.slot_speed)}/s",
            bid.offer.slots,
            flops(bid.free),
            flops(backed),
            ",".join(bid.offer.tiers),
            duration(max(0, bid.expires_at - clock)),
        )
        for bid, backed in ((each.bid, each.backed) for each in bids)
    ]
    columns = (
        "bid",
        "validator",
        "price",
        "device",
        "speed per slot",
        "slots",
        "work left",
        "stake backs",
        "tiers",
        "expires in",
    )
    return table("Bids", columns, rows)


@command.command(help="Show a bid.\n\n" + BID_ID + "Example: assay bid show 1a2b…")
@click.argument("bid")
@common_options
def show(context: CommandContext, bid: str) -> None:
    """Show one bid."""
    from domain.codec import to_plain

    with context.client() as client:
        record = _bid(client, bid)
    context.output.result(record, table("Bid", ("field", "value"), list(to_plain(record).items())))


@command.command(
    help="Change a bid's price or capacity and extend its time. An option that is left out keeps its value.\n\n"
    + BID_ID
    + "Example: assay bid change 1a2b… --price 800000000000uassay --from op"
)
@click.argument("bid")
@click.option("--price", type=AMOUNT, help="uassay per PFLOP.")
@click.option("--capacity", type=FLOPS, help="FLOPs to sell from now on.")
@click.option(
    "--duration",
    "lasts",
    type=DURATION,
    default="7d",
    show_default=True,
    help="Time until the bid expires, from now.",
)
@common_options
def change(context: CommandContext, bid: str, price: int | None, capacity: int | None, lasts: int) -> None:
    """Change the price or the capacity of a bid, and extend its time."""
    from domain.market.messages import MsgChangeBid

    key = context.key()
    with context.client() as client:
        known = _bid(client, bid)
        message = MsgChangeBid(
            validator=key.address,
            bid_id=known.id,
            price=known.offer.price if price is None else price,
            capacity=known.capacity if capacity is None else capacity,
            duration=lasts,
        )
        receipt = context.sender(client, key).send(message)
        backed = backed_of(client, key.address, known.id)
    context.output.result(
        {**plain(receipt), "backed": plain(backed)},
        [f"changed at height {receipt.height}", backing_line(backed, message.capacity)],
    )


@command.command(help="Remove a bid from the book.\n\n" + BID_ID + "Example: assay bid withdraw 1a2b… --from op")
@click.argument("bid")
@common_options
def withdraw(context: CommandContext, bid: str) -> None:
    """Withdraw a bid; its running legs continue."""
    from consumer.lookup import find_bid
    from domain.market.messages import MsgWithdrawBid

    key = context.key()
    with context.client() as client:
        message = MsgWithdrawBid(key.address, find_bid(client, bid))
        receipt = context.sender(client, key).send(message)
    context.output.result(receipt, f"withdrawn at height {receipt.height}")


def _certified(client: "ChainClient", validator: str, slots: int) -> tuple[int, int]:
    """Return the number of slots and their speed (FLOP/s) that the certified speeds of a validator's providers allow.

    If ``slots`` is 0, return the number of slots that gives the largest total speed. Raise CliError if too few
    providers have a certificate of their speed.
    """
    from domain.registry.queries import ProvidersRequest
    from validator.decide.offer import best_offer

    offer = best_offer(client.query(ProvidersRequest(validator, 1000, "")).providers, slots)
    if not all(offer):
        few = f"fewer than {slots} of your providers have" if slots else "none of your providers has"
        raise CliError(
            f"{few} a certified speed yet",
            "wait until the chain has certified your providers, or give --slot-speed and --slots",
        )
    return offer


def _bid(client: "ChainClient", text: str) -> "Bid":
    """Return the bid whose id is ``text`` or begins with it; raise CliError if the bid is not in the book."""
    from consumer.lookup import all_bids, find_bid

    wanted = find_bid(client, text)
    record = next((bid for bid in all_bids(client) if bid.id == wanted), None)
    if record is None:
        raise CliError(f"no bid {text} in the book", "see assay bid list")
    return record
