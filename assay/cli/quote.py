"""``assay quote``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.conditions import condition_options, read_request
from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError
from assay.cli.outlook import outlook_rows
from assay.cli.output import counted, flops, money, price, short, size, table
from assay.cli.traffic import traffic_words
from domain.amount import BPS
from domain.measures import duration
from pol.rules.tiers.table import DEFAULT_TIERS, tier_named

if TYPE_CHECKING:
    from consumer.request import Request
    from consumer.submit import CheckedOrder, Quote
    from consumer.tiers import TierQuote
    from pol.job.document import Job


@click.command(
    help="Ask what a job would cost now; nothing is signed or paid.\n\n"
    f"Example: assay quote ./digits --tier {DEFAULT_TIERS[0]}"
)
@click.argument("directory", type=click.Path(path_type=Path))
@condition_options
@click.option(
    "--tiers", "compares", is_flag=True, help="Compare all tiers side by side: price, delay, detection, stakes."
)
@common_options
def command(context: CommandContext, directory: Path, compares: bool, **values: Any) -> None:
    """Print the bids that fit, the cheapest first, and the reasons why other bids do not fit."""
    from consumer.jobs import read_job
    from consumer.submit import quote
    from consumer.words import Asker, bids_fail
    from pol.job.cost import plain_update_size
    from pol.rules.traffic import compute_traffic

    job, request = read_job(directory), read_request(values)
    if compares:
        _compare(context, job, request)
        return
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
    columns = ("bid", "validator", "price", "speed per slot", "slots", "tier")
    title = "With the best bid"
    traffic = compute_traffic(found.terms, found.terms.rounds * found.terms.slots, plain_update_size(job.document))
    sizes = [
        ("updates of all rounds", traffic_words(traffic)),
        ("delivery of a share, at most", size(traffic.delivery)),
    ]
    expected = [table(title, ("what", "value"), [*outlook_rows(found.outlook), *sizes])] if found.outlook else []
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
            "traffic": traffic,
            "audits": found.checked,
            "rounds_covered": found.rounds_covered,
            "bids": found.match.bids,
            "tiers": tiers,
            "unmatched": unmatched,
        },
        [
            quote_headline(found),
            *expected,
            *([_audit_line(found.checked)] if found.checked and found.price_limit else []),
            *([_cover_line(found)] if found.match.bids else []),
            *([table("Bids that fit", columns, rows)] if rows else []),
            *(_tier_line(tier) for tier in dict.fromkeys(tiers)),
            f"bids that do not fit: {why or 'none'}",
        ],
    )
    if not found.match.bids:
        raise CliError(*found.explain(Asker.SHELL))


def _compare(context: CommandContext, job: "Job", request: "Request") -> None:
    """Print the best offer in each tier, side by side."""
    from consumer.tiers import compare_tiers

    with context.client() as client:
        compared = compare_tiers(client, job, request)
    rows: dict[str, list[str]] = {}
    for each in compared:
        for name, value in _tier_rows(each):
            rows.setdefault(name, []).append(value)
    shown: list[Any] = [
        table("Tiers", ("what", *(each.tier for each in compared)), [(name, *cells) for name, cells in rows.items()])
    ]
    shown += [_tier_line(each.tier) for each in compared]
    if any(each.attested for each in compared):
        shown.append("chances and bonds are those of rounds whose providers all have credentials, as the order allows")
    shown += [f"no bid fits in tier {each.tier}: {each.why_not}" for each in compared if each.why_not]
    context.output.result({"tiers": compared}, shown)
    if all(each.why_not for each in compared):
        raise CliError("no bid fits in any tier", "run it without --tiers to see which conditions bids fail")


def _tier_rows(each: "TierQuote") -> list[tuple[str, str]]:
    """Return what a comparison shows of a tier: the name and the value of each row."""
    rows = [
        ("price", price(each.price)),
        ("validators that train the whole job", str(each.validators)),
        ("cost with expected audits", money(each.cost)),
        ("deposit, of which the unspent part returns", money(each.deposit)),
        ("from a round's close to its payment", duration(each.seconds)),
        ("chance of a panel per round", f"{each.rate_bps / BPS:.1%}"),
        ("a tenth of a round is wrong: found in this round", f"{each.found_in_round:.1%}"),
        ("a tenth of each round is wrong: found in the job", f"{each.found_in_job:.1%}"),
        ("at stake: the validator's job bond", money(each.job_bond)),
        ("at stake: a provider's bond of a share", money(each.share_bond)),
        ("at stake: a slash of the validator, at most", money(each.slash)),
        ("strangers that see drawn places of a panel", f"{each.seats} see {each.drawn} of {each.segments:,} segments"),
        ("who may challenge, and ask for any place", each.challengers),
    ]
    return [(name, "-") for name, _ in rows] if each.why_not else rows


def quote_headline(found: "Quote") -> str:
    """Return a line with the work, and with price, cost and time of the best bid if one fits."""
    work = f"work {flops(found.work)}"
    if not found.match.bids:
        return f"{work}; no bid fits"
    return (
        f"{work}; best price {price(found.price)}; cost {money(found.cost)}"
        + (f", of which {money(found.audits)} for audits" if found.audits else "")
        + f"; the rounds take {duration(found.seconds)}; an order's price limit is {price(found.price_limit)}"
        " unless you set --price-limit"
    )


def _cover_line(found: "Quote") -> str:
    """Return a line with the rounds ahead that the best bid's job bond allows."""
    return (
        "if its whole job bond covers the providers of the best bid, they train up to"
        f" {counted(found.rounds_covered, 'round')} ahead of the audits"
    )


def _tier_line(name: str) -> str:
    """Return a line with the work that a tier recomputes, and with the condition for two results to agree."""
    description = tier_named(name).description
    return f"tier {name}: {description.recomputed}; two findings agree {description.agreement}"


def _audit_line(checked: "CheckedOrder") -> str:
    """Return a line with the number of possible auditors, the times of an audit and of payment, and the deposit."""
    if not checked.audit_ms:
        return "this chain has no audits"
    return (
        f"{checked.eligible} validators can audit this job; an audit takes {checked.audit_ms / 1000:.1f} s; a "
        f"round is paid {checked.window:,} s after it closes; an order locks {money(checked.deposit)}, and the unused "
        "part is refunded"
    )
