"""``assay tx feegrant`` and ``assay query feegrant``: let others pay fees with your coins, in the words of the SDK."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from assay.cli.arguments import ADDRESS, AMOUNT, DURATION
from assay.cli.context import CommandContext, common_options
from assay.cli.cosmos import Answer, ask, coins_text, page_options, show_rows, time_text
from assay.cli.errors import WrongUsage
from assay.cli.transacting import TxOptions, transact, tx_options
from domain.measures import duration

if TYPE_CHECKING:
    from domain.feegrant.messages import BasicAllowance, PeriodicAllowance

_QUERY = "/cosmos.feegrant.v1beta1.Query/"
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class TimeParam(click.ParamType[int]):
    """A time like ``2026-12-31T23:59:59Z``, as seconds since 1970."""

    name = "time"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds; raise a usage error for any other text."""
        if isinstance(value, int):
            return value
        try:
            time = datetime.strptime(value, _TIME).replace(tzinfo=UTC)
        except ValueError:
            self.fail(f"{value!r} is not a time; write for example 2026-12-31T23:59:59Z", param, ctx)
        return int(time.timestamp())


TIME = TimeParam()


@click.group(help="Let others pay fees with your coins.")
def command() -> None:
    """Group of the transactions about fee grants."""


@command.command(
    help="Let GRANTEE pay fees with coins of GRANTER, a key of this home or an address.\n\n"
    "Example: assay tx feegrant grant alice assay1… --spend-limit 1ASSAY --expiration 2026-12-31T00:00:00Z",
)
@click.argument("granter")
@click.argument("grantee", type=ADDRESS)
@click.option("--spend-limit", type=AMOUNT, default=None, help="Most coins in all.  [no limit]")
@click.option("--expiration", type=TIME, default=None, help="End of the grant.  [none]")
@click.option("--period", type=DURATION, default=None, help="Length of a period, with --period-limit.")
@click.option("--period-limit", type=AMOUNT, default=None, help="Most coins in a period.")
@click.option(
    "--allowed-messages", default="", help="Types of messages whose fees it pays, with commas between them.  [all]"
)
@tx_options
@common_options
def grant(
    context: CommandContext,
    granter: str,
    grantee: str,
    spend_limit: int | None,
    expiration: int | None,
    period: int | None,
    period_limit: int | None,
    allowed_messages: str,
    options: TxOptions,
) -> None:
    """Grant an allowance."""
    from domain.feegrant.messages import AllowedMsgAllowance, BasicAllowance, MsgGrantAllowance
    from domain.genesis import DENOM
    from domain.ledger.records import Coin
    from domain.times import Timestamp

    if (period is None) != (period_limit is None):
        raise WrongUsage("--period and --period-limit need each other", "use both, or none of them")
    basic = BasicAllowance(
        spend_limit=() if spend_limit is None else (Coin(DENOM, spend_limit),),
        expiration=None if expiration is None else Timestamp(expiration),
    )
    inner = basic if period is None or period_limit is None else _periodic(basic, period, period_limit)
    allowance = AllowedMsgAllowance(inner, tuple(allowed_messages.split(","))) if allowed_messages else inner
    transact(context, options, lambda address: (MsgGrantAllowance(address, grantee, allowance),), granter)


def _periodic(basic: "BasicAllowance", period: int, limit: int) -> "PeriodicAllowance":
    """Return an allowance whose first period begins with its first use."""
    from domain.feegrant.messages import PeriodicAllowance
    from domain.genesis import DENOM
    from domain.ledger.records import Coin
    from domain.times import TimeSpan

    coins = (Coin(DENOM, limit),)
    return PeriodicAllowance(
        basic=basic,
        period=TimeSpan(period),
        period_spend_limit=coins,
        period_can_spend=coins,
        period_reset=None,
    )


@command.command(help="End a fee grant.\n\nExample: assay tx feegrant revoke alice assay1…")
@click.argument("granter")
@click.argument("grantee", type=ADDRESS)
@tx_options
@common_options
def revoke(context: CommandContext, granter: str, grantee: str, options: TxOptions) -> None:
    """Revoke an allowance."""
    from domain.feegrant.messages import MsgRevokeAllowance

    transact(context, options, lambda address: (MsgRevokeAllowance(address, grantee),), granter)


@command.command(help="Remove fee grants of anyone that have expired.\n\nExample: assay tx feegrant prune --from alice")
@tx_options
@common_options
def prune(context: CommandContext, options: TxOptions) -> None:
    """Prune allowances."""
    from domain.feegrant.messages import MsgPruneAllowances

    transact(context, options, lambda address: (MsgPruneAllowances(address),))


# --- queries -------------------------------------------------------------------------------------


@click.group(help="Read fee grants.")
def queries() -> None:
    """Group of the queries about fee grants."""


@queries.command("grant", help="Show a fee grant.\n\nExample: assay query feegrant grant assay1… assay1…")
@click.argument("granter", type=ADDRESS)
@click.argument("grantee", type=ADDRESS)
@common_options
def show_grant(context: CommandContext, granter: str, grantee: str) -> None:
    """Show the allowance of a grantee."""
    from cosmpy.protos.cosmos.feegrant.v1beta1 import query_pb2 as query

    request = query.QueryAllowanceRequest(granter=granter, grantee=grantee)
    answer = ask(context, f"{_QUERY}Allowance", request, query.QueryAllowanceResponse)
    _show_grants(context, answer, [answer["allowance"]])


def _show_grants(context: CommandContext, answer: Answer, grants: Sequence[Answer]) -> None:
    rows = [(each["granter"], each["grantee"], *_terms(each["allowance"])) for each in grants]
    columns = ("pays", "for", "coins left", "in a period", "until", "for messages")
    show_rows(context, answer, "Fee grants", columns, rows)


def _terms(allowance: Answer) -> tuple[str, str, str, str]:
    """Return the limit, the limit of a period, the end, and the types of messages of an allowance."""
    messages = "all"
    if "allowed_messages" in allowance:
        messages = ", ".join(url.rpartition(".")[2] for url in allowance["allowed_messages"])
        allowance = allowance["allowance"]
    basic = allowance.get("basic", allowance)
    limit = coins_text(basic["spend_limit"]) if basic["spend_limit"] else "no limit"
    period = "-"
    if "basic" in allowance:
        left, most = coins_text(allowance["period_can_spend"]), coins_text(allowance["period_spend_limit"])
        period = f"{left} of {most} in {duration(int(Decimal(allowance['period'].removesuffix('s'))))}"
    return limit, period, time_text(basic["expiration"]), messages


@queries.command(
    "grants-by-grantee",
    help="List who pays fees for an account.\n\nExample: assay query feegrant grants-by-grantee assay1…",
)
@click.argument("grantee", type=ADDRESS)
@page_options
@common_options
def by_grantee(context: CommandContext, grantee: str, page: dict[str, Any]) -> None:
    """List allowances by grantee."""
    from cosmpy.protos.cosmos.feegrant.v1beta1 import query_pb2 as query

    request = query.QueryAllowancesRequest(grantee=grantee, pagination=page)
    answer = ask(context, f"{_QUERY}Allowances", request, query.QueryAllowancesResponse)
    _show_grants(context, answer, answer["allowances"])


@queries.command(
    "grants-by-granter",
    help="List for whom an account pays fees.\n\nExample: assay query feegrant grants-by-granter assay1…",
)
@click.argument("granter", type=ADDRESS)
@page_options
@common_options
def by_granter(context: CommandContext, granter: str, page: dict[str, Any]) -> None:
    """List allowances by granter."""
    from cosmpy.protos.cosmos.feegrant.v1beta1 import query_pb2 as query

    request = query.QueryAllowancesByGranterRequest(granter=granter, pagination=page)
    answer = ask(context, f"{_QUERY}AllowancesByGranter", request, query.QueryAllowancesByGranterResponse)
    _show_grants(context, answer, answer["allowances"])
