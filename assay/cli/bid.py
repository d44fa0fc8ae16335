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
    help="Place a standing bid; one serves many orders.\n\n"
    "Without --slot-speed it offers what the chain's certificates say of your providers: so many slots at once that\n"
    "they get the most done a second, each as fast as the slowest of them trains it.\n\n"
    "Example: assay bid place --price 900000000000uassay --capacity 1000000000000000 --from op"
)
@offer_options
@click.option("--capacity", type=FLOPS, required=True, help="FLOPs to sell in all.")
@click.option(
    "--providers-bps",
    type=click.IntRange(0, PROVIDERS_BPS_MAX),
    default=7000,
    show_default=True,
    help="Providers' share, of 10,000.",
)
@click.option(
    "--duration",
    "lasts",
    type=DURATION,
    default="7d",
    show_default=True,
    help="How long it stands.",
)
@common_options
def place(context: CommandContext, capacity: int, providers_bps: int, lasts: int, **values: Any) -> None:
    """Place a bid."""
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
        [f"placed bid {placed.hex()} at height {receipt.height}", tell_backed(backed, capacity)],
    )


@command.command("list", help="List bids.\n\nExample: assay bid list --validator assay1…")
@click.option("--validator", default="", help="Only of this validator.")
@common_options
def list_(context: CommandContext, validator: str) -> None:
    """List the book."""
    from consumer.lookup import backed_bids

    with context.client() as client:
        found, clock = list(backed_bids(client, validator)), client.status().clock
    context.output.result(
        [{**plain(each.bid), "backed": plain(each.backed)} for each in found],
        bid_table(found, clock),
    )


def backed_of(client: "ChainClient", validator: str, bid_id: bytes) -> int:
    """Return the FLOPs that a validator's free stake backs at the price of one of its bids."""
    from consumer.lookup import backed_bids

    found = (each.backed for each in backed_bids(client, validator) if each.id == bid_id)
    return next(found, 0)


def tell_backed(backed: int, capacity: int) -> str:
    """Say how much of a bid's capacity its validator's stake backs."""
    if backed >= capacity:
        return f"your stake backs all of its {flops(capacity)}"
    return (
        f"your stake backs {flops(backed)} of its {flops(capacity)} at this price: larger orders do not match"
        " (condition stake), and smaller ones only until so much runs; a lower price or more stake makes it more"
    )


def bid_table(found: "Sequence[BackedBid]", clock: int) -> "Table":
    """Return bids for people, with what stake backs and the time that each has left on the chain's ``clock``."""
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
        for bid, backed in ((each.bid, each.backed) for each in found)
    ]
    columns = (
        "bid",
        "validator",
        "price",
        "device",
        "speed of a slot",
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
        found = _bid(client, bid)
    context.output.result(found, table("Bid", ("field", "value"), list(to_plain(found).items())))


@command.command(
    help="Change a bid's price or capacity, and prolong it; what is left out stays.\n\n"
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
    help="How long it stands.",
)
@common_options
def change(context: CommandContext, bid: str, price: int | None, capacity: int | None, lasts: int) -> None:
    """Change a bid."""
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
        [f"changed at height {receipt.height}", tell_backed(backed, message.capacity)],
    )


@command.command(help="Take a bid out of the book.\n\n" + BID_ID + "Example: assay bid withdraw 1a2b… --from op")
@click.argument("bid")
@common_options
def withdraw(context: CommandContext, bid: str) -> None:
    """Withdraw a bid; running legs go on."""
    from consumer.lookup import find_bid
    from domain.market.messages import MsgWithdrawBid

    key = context.key()
    with context.client() as client:
        message = MsgWithdrawBid(key.address, find_bid(client, bid))
        receipt = context.sender(client, key).send(message)
    context.output.result(receipt, f"withdrawn at height {receipt.height}")


def _certified(client: "ChainClient", validator: str, slots: int) -> tuple[int, int]:
    """Return (slots, FLOP/s of a slot) that the certificates of a validator's providers are good for."""
    from domain.registry.queries import ProvidersRequest
    from validator.decide.offer import best_offer

    found = best_offer(client.query(ProvidersRequest(validator, 1000, "")).providers, slots)
    if not all(found):
        few = f"{slots} of your providers have no certificate" if slots else "no provider of yours has a certificate"
        raise CliError(f"{few} yet", "wait until they have joined, or give --slot-speed and --slots")
    return found


def _bid(client: "ChainClient", text: str) -> "Bid":
    """Return the bid in the book that ``text`` names."""
    from consumer.lookup import all_bids, find_bid

    wanted = find_bid(client, text)
    found = next((bid for bid in all_bids(client) if bid.id == wanted), None)
    if found is None:
        raise CliError(f"no bid {text} in the book", "see assay bid list")
    return found
