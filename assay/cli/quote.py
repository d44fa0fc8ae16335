"""``assay quote``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.conditions import condition_options, read_request
from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError
from assay.cli.outlook import outlook_rows
from assay.cli.output import flops, money, price, short, table
from domain.measures import duration
from pol.rules.tiers.table import DEFAULT_TIERS, tier_named

if TYPE_CHECKING:
    from consumer.submit import CheckedOrder, Quote


@click.command(
    help="Ask what a job would cost now; nothing is signed or paid.\n\n"
    f"Example: assay quote ./digits --tier {DEFAULT_TIERS[0]}"
)
@click.argument("directory", type=click.Path(path_type=Path))
@condition_options
@common_options
def command(context: CommandContext, directory: Path, **values: Any) -> None:
    """Print the bids that fit, cheapest first, and why others do not."""
    from consumer.jobs import read_job
    from consumer.submit import quote
    from consumer.words import Asker, bids_fail

    job, request = read_job(directory), read_request(values)
    with context.client() as client:
        found = quote(client, job, request)
    tiers = [request.conditions.choose_tier(bid.offer.tiers) for bid in found.match.bids]
    rows = [
        (
            short(b.id),
            short(b.validator),
            price(b.offer.price),
            f"{flops(b.offer.slot_speed)}/s",
            b.offer.slots,
            tier,
        )
        for b, tier in zip(found.match.bids, tiers, strict=True)
    ]
    columns = ("bid", "validator", "price", "speed of a slot", "slots", "tier")
    title = "With the best bid"
    expected = [table(title, ("what", "value"), outlook_rows(found.outlook))] if found.outlook else []
    unmatched = dict(found.match.unmatched)
    why = ", ".join(bids_fail(count, name) for name, count in unmatched.items())
    context.output.result(
        {
            "work": found.work,
            "price": found.price,
            "cost": found.cost,
            "audit_cost": found.audits,
            "price_limit": found.price_limit,
            "seconds": found.seconds,
            "outlook": found.outlook,
            "audits": found.checked,
            "bids": found.match.bids,
            "tiers": tiers,
            "unmatched": unmatched,
        },
        [
            told_headline(found),
            *expected,
            *([_told(found.checked)] if found.checked and found.price_limit else []),
            *([table("Bids that fit", columns, rows)] if rows else []),
            *(_told_tier(tier) for tier in dict.fromkeys(tiers)),
            f"bids that do not fit: {why or 'none'}",
        ],
    )
    if not found.match.bids:
        raise CliError(*found.explain(Asker.SHELL))


def told_headline(found: "Quote") -> str:
    """Say what it comes to with the best bid, if one fits."""
    work = f"work {flops(found.work)}"
    if not found.match.bids:
        return f"{work}; no bid fits"
    return (
        f"{work}; best price {price(found.price)}; cost {money(found.cost)}"
        + (f", of which {money(found.audits)} for audits" if found.audits else "")
        + f"; rounds take {duration(found.seconds)}; an order's price limit is {price(found.price_limit)}"
        " unless you name another"
    )


def _told_tier(name: str) -> str:
    """Return a sentence about how an order is verified in a tier."""
    told = tier_named(name).description
    return f"tier {name}: {told.recomputed}; two findings agree {told.agreement}"


def _told(checked: "CheckedOrder") -> str:
    """Say who recomputes rounds, in what time, and what is locked."""
    if not checked.audit_ms:
        return "nobody audits on this chain"
    return (
        f"{checked.eligible} validators can audit it, in {checked.audit_ms / 1000:.1f} s; a round is paid "
        f"{checked.window:,} s after it was closed; an order locks {money(checked.deposit)}, and what is not needed "
        "comes back"
    )
