"""``assay tx authz`` and ``assay query authz``: let others send messages for you, in the words of the SDK."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from assay.cli.arguments import ADDRESS, AMOUNT
from assay.cli.context import CommandContext, common_options
from assay.cli.cosmos import Answer, ask, coins_text, page_options, show_rows, time_text
from assay.cli.errors import WrongUsage
from assay.cli.feegrant import TIME
from assay.cli.signatures import read_tx
from assay.cli.transacting import TxOptions, transact, tx_options

_QUERY = "/cosmos.authz.v1beta1.Query/"


@click.group(help="Let others send messages for you, or send messages for others.")
def command() -> None:
    """Group of the transactions about authorizations."""


@command.command(
    help="Let GRANTEE send messages for you: coins up to a limit (send), or any messages of a type (generic).\n\n"
    "Example: assay tx authz grant assay1… send --spend-limit 5ASSAY --from alice",
)
@click.argument("grantee", type=ADDRESS)
@click.argument("kind", type=click.Choice(("send", "generic")))
@click.option("--spend-limit", type=AMOUNT, default=None, help="Most coins, for send.")
@click.option("--allow-list", type=ADDRESS, multiple=True, help="An account that may get the coins, for send.  [all]")
@click.option("--msg-type", default="", help="Type url of the messages, for generic.")
@click.option("--expiration", type=TIME, default=None, help="End of the authorization.  [none]")
@tx_options
@common_options
def grant(
    context: CommandContext,
    grantee: str,
    kind: str,
    spend_limit: int | None,
    allow_list: tuple[str, ...],
    msg_type: str,
    expiration: int | None,
    options: TxOptions,
) -> None:
    """Grant an authorization."""
    from domain.authz.messages import GenericAuthorization, Grant, MsgGrant, SendAuthorization
    from domain.genesis import DENOM
    from domain.ledger.records import Coin
    from domain.times import Timestamp

    if kind == "generic":
        if not msg_type or spend_limit is not None or allow_list:
            raise WrongUsage("generic takes --msg-type, and no limits", "use send for a limit of coins")
        made: GenericAuthorization | SendAuthorization = GenericAuthorization(msg_type)
    else:
        if spend_limit is None or msg_type:
            raise WrongUsage("send takes --spend-limit, and no --msg-type", "use generic for other messages")
        made = SendAuthorization((Coin(DENOM, spend_limit),), allow_list)
    allowed = Grant(made, None if expiration is None else Timestamp(expiration))
    transact(context, options, lambda address: (MsgGrant(address, grantee, allowed),))


@command.command(
    help="End an authorization for messages of a type."
    "\n\nExample: assay tx authz revoke assay1… /cosmos.bank.v1beta1.MsgSend --from alice"
)
@click.argument("grantee", type=ADDRESS)
@click.argument("msg_type")
@tx_options
@common_options
def revoke(context: CommandContext, grantee: str, msg_type: str, options: TxOptions) -> None:
    """Revoke an authorization."""
    from domain.authz.messages import MsgRevoke

    transact(context, options, lambda address: (MsgRevoke(address, grantee, msg_type),))


@command.command(
    "exec",
    help="Send the messages of a transaction in a file (or stdin with -) for their signer, who allowed it.\n\n"
    "Example: assay tx bank send assay1… assay1… 1ASSAY --generate-only | assay tx authz exec - --from bob",
)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@tx_options
@common_options
def execute(context: CommandContext, file: Path, options: TxOptions) -> None:
    """Send messages for others."""
    from domain.authz.messages import MsgExec
    from wire.signing import messages_of

    messages = messages_of(read_tx(file))
    transact(context, options, lambda address: (MsgExec(address, messages),))


# --- queries -------------------------------------------------------------------------------------


@click.group(help="Read authorizations.")
def queries() -> None:
    """Group of the queries about authorizations."""


@queries.command(help="List what an account allowed another.\n\nExample: assay query authz grants assay1… assay1…")
@click.argument("granter", type=ADDRESS)
@click.argument("grantee", type=ADDRESS)
@click.argument("msg_type", required=False, default="")
@page_options
@common_options
def grants(context: CommandContext, granter: str, grantee: str, msg_type: str, page: dict[str, Any]) -> None:
    """List the authorizations of a granter for a grantee."""
    from cosmpy.protos.cosmos.authz.v1beta1 import query_pb2 as query

    request = query.QueryGrantsRequest(granter=granter, grantee=grantee, msg_type_url=msg_type, pagination=page)
    answer = ask(context, f"{_QUERY}Grants", request, query.QueryGrantsResponse)
    _show_grants(context, answer, [{"granter": granter, "grantee": grantee, **each} for each in answer["grants"]])


def _show_grants(context: CommandContext, answer: Answer, grants: Sequence[Answer]) -> None:
    rows = [
        (each["granter"], each["grantee"], *_terms(each["authorization"]), time_text(each["expiration"]))
        for each in grants
    ]
    show_rows(context, answer, "Authorizations", ("of", "for", "messages", "limit", "until"), rows)


def _terms(authorization: Answer) -> tuple[str, str]:
    """Return the type of the messages that an authorization allows, and its limit."""
    if "msg" in authorization:
        return authorization["msg"], "no limit"
    limit = coins_text(authorization["spend_limit"])
    if receivers := authorization["allow_list"]:
        limit += f", to {', '.join(receivers)}"
    return "transfers", limit


@queries.command(
    "grants-by-granter",
    help="List what an account allowed others.\n\nExample: assay query authz grants-by-granter assay1…",
)
@click.argument("granter", type=ADDRESS)
@page_options
@common_options
def by_granter(context: CommandContext, granter: str, page: dict[str, Any]) -> None:
    """List authorizations by granter."""
    from cosmpy.protos.cosmos.authz.v1beta1 import query_pb2 as query

    request = query.QueryGranterGrantsRequest(granter=granter, pagination=page)
    answer = ask(context, f"{_QUERY}GranterGrants", request, query.QueryGranterGrantsResponse)
    _show_grants(context, answer, answer["grants"])


@queries.command(
    "grants-by-grantee",
    help="List what others allowed an account.\n\nExample: assay query authz grants-by-grantee assay1…",
)
@click.argument("grantee", type=ADDRESS)
@page_options
@common_options
def by_grantee(context: CommandContext, grantee: str, page: dict[str, Any]) -> None:
    """List authorizations by grantee."""
    from cosmpy.protos.cosmos.authz.v1beta1 import query_pb2 as query

    request = query.QueryGranteeGrantsRequest(grantee=grantee, pagination=page)
    answer = ask(context, f"{_QUERY}GranteeGrants", request, query.QueryGranteeGrantsResponse)
    _show_grants(context, answer, answer["grants"])
