"""``assay tx slashing`` and ``assay query slashing``: the jail of the consensus, and who signs blocks."""

from base64 import b64decode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from assay.cli.context import CommandContext, common_options
from assay.cli.cosmos import ask, page_options, show_params, show_rows, time_text
from assay.cli.staking import VALIDATOR
from assay.cli.transacting import TxOptions, transact, tx_options

if TYPE_CHECKING:
    from chain.client.client import ChainClient

_SERVICE = "/cosmos.slashing.v1beta1.Query/"
_NEVER = "1970-01-01T00:00:00Z"


@click.group(help="Free a validator from the jail of the consensus.")
def command() -> None:
    """Group of the transactions about the jail."""


@click.group(help="Read which validators miss blocks or are in the jail of the consensus.")
def queries() -> None:
    """Group of the queries about signatures of blocks."""


@command.command(
    help="""Free your validator, which the consensus jailed because it did not sign blocks.

    Start its node first, and wait until the jail ends: `assay status` shows when.

    Example: assay tx slashing unjail --from op
    """,
)
@tx_options
@common_options
def unjail(context: CommandContext, options: TxOptions) -> None:
    """Free the validator of the home's key."""
    from domain.slashing.messages import MsgUnjail

    transact(context, options, lambda address: (MsgUnjail(address),))


# --- queries -------------------------------------------------------------------------------------


@queries.command(
    "signing-infos",
    help="List how many blocks each validator missed, and who is jailed."
    "\n\nExample: assay query slashing signing-infos",
)
@page_options
@common_options
def signing_infos(context: CommandContext, page: dict[str, Any]) -> None:
    """List signing infos with the names of the validators."""
    from cosmpy.protos.cosmos.slashing.v1beta1 import query_pb2 as query

    request = query.QuerySigningInfosRequest(pagination=page)
    answer = ask(context, f"{_SERVICE}SigningInfos", request, query.QuerySigningInfosResponse)
    with context.client() as client:
        monikers = _monikers(client)
    rows = [
        (
            monikers.get(info["address"], "-"),
            info["address"],
            int(info["missed_blocks_counter"]),
            int(info["index_offset"]),
            _jail_text(info),
        )
        for info in answer["info"]
    ]
    columns = ("moniker", "consensus address", "missed", "blocks since it entered", "last jail")
    show_rows(context, answer, "Signing infos", columns, rows)


def _monikers(client: "ChainClient") -> dict[str, str]:
    from domain.registry.queries import ValidatorsRequest
    from wire.address import cons_address_text

    validators = client.query(ValidatorsRequest()).validators
    return {cons_address_text(each.cons_address): each.moniker for each in validators}


@queries.command(
    "signing-info",
    help="Show how many blocks a validator missed, and its jail."
    "\n\nExample: assay query slashing signing-info assayvaloper1…",
)
@click.argument("validator", type=VALIDATOR)
@common_options
def signing_info(context: CommandContext, validator: str) -> None:
    """Show the signing info of a validator."""
    from cosmpy.protos.cosmos.slashing.v1beta1 import query_pb2 as query

    from assay.cli.staking_queries import ask_validator
    from wire.address import cons_address, cons_address_text

    key = b64decode(ask_validator(context, validator)["validator"]["consensus_pubkey"]["key"])
    request = query.QuerySigningInfoRequest(cons_address=cons_address_text(cons_address(key)))
    answer = ask(context, f"{_SERVICE}SigningInfo", request, query.QuerySigningInfoResponse)
    info = answer["val_signing_info"]
    rows = [
        ("consensus address", info["address"]),
        ("missed blocks", int(info["missed_blocks_counter"])),
        ("first block that it has to sign", int(info["start_height"]) or "none: it is not in the validator set"),
        ("last jail", _jail_text(info)),
    ]
    show_rows(context, answer, "Signing info", ("what", "value"), rows)


def _jail_text(info: Mapping[str, Any]) -> str:
    if info["tombstoned"]:
        return "for good: it signed twice"
    return "never" if info["jailed_until"] == _NEVER else f"until {time_text(info['jailed_until'])}"


@queries.command(help="Show the parameters of slashing.\n\nExample: assay query slashing params")
@common_options
def params(context: CommandContext) -> None:
    """Show the parameters of slashing."""
    from cosmpy.protos.cosmos.slashing.v1beta1 import query_pb2 as query

    show_params(context, _SERVICE, "Slashing", query.QueryParamsRequest(), query.QueryParamsResponse)
