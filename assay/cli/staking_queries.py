"""``assay query staking``: validators and delegations. Commands have the names of the Cosmos SDK."""

from collections.abc import Mapping
from typing import Any

import click

from assay.cli.arguments import ADDRESS
from assay.cli.context import CommandContext, common_options
from assay.cli.cosmos import Answer, ask, coins_text, page_options, percent_text, show_params, show_rows, time_text
from assay.cli.output import money
from assay.cli.staking import VALIDATOR

_SERVICE = "/cosmos.staking.v1beta1.Query/"
_STATUS = "BOND_STATUS_"
Page = dict[str, Any]


@click.group(help="Read validators, delegations, and coins that leave.")
def queries() -> None:
    """Group of the queries about stake."""


# --- validators ----------------------------------------------------------------------------------


@queries.command(help="List validators.\n\nExample: assay query staking validators --status bonded")
@click.option(
    "--status", type=click.Choice(("bonded", "unbonding", "unbonded")), help="Only validators with this status."
)
@page_options
@common_options
def validators(context: CommandContext, status: str | None, page: Page) -> None:
    """List validators with their stake and commission."""
    from cosmpy.protos.cosmos.staking.v1beta1 import query_pb2 as query

    request = query.QueryValidatorsRequest(status=_STATUS + status.upper() if status else "", pagination=page)
    answer = ask(context, f"{_SERVICE}Validators", request, query.QueryValidatorsResponse)
    rows = [
        (
            each["description"]["moniker"],
            each["operator_address"],
            money(int(each["tokens"])),
            percent_text(each["commission"]["commission_rates"]["rate"]),
            _standing(each),
        )
        for each in answer["validators"]
    ]
    show_rows(context, answer, "Validators", ("moniker", "operator", "stake", "commission", "standing"), rows)


@queries.command(help="Show a validator.\n\nExample: assay query staking validator assayvaloper1…")
@click.argument("validator", type=VALIDATOR)
@common_options
def validator(context: CommandContext, validator: str) -> None:
    """Show a validator."""
    answer = ask_validator(context, validator)
    found = answer["validator"]
    described, rates = found["description"], found["commission"]["commission_rates"]
    rows = [
        ("moniker", described["moniker"]),
        ("operator", found["operator_address"]),
        ("consensus key", found["consensus_pubkey"]["key"]),
        ("standing", _standing(found)),
        ("stake", money(int(found["tokens"]))),
        ("least own stake", money(int(found["min_self_delegation"]))),
        ("commission", percent_text(rates["rate"])),
        ("largest commission", percent_text(rates["max_rate"])),
        ("largest change in a day", percent_text(rates["max_change_rate"])),
        *((name.replace("_", " "), text) for name, text in described.items() if name != "moniker" and text),
    ]
    show_rows(context, answer, "Validator", ("what", "value"), rows)


def ask_validator(context: CommandContext, operator: str) -> Answer:
    """Return the answer about the validator with the account ``operator``."""
    from cosmpy.protos.cosmos.staking.v1beta1 import query_pb2 as query

    from wire.address import operator_address

    request = query.QueryValidatorRequest(validator_addr=operator_address(operator))
    return ask(context, f"{_SERVICE}Validator", request, query.QueryValidatorResponse)


def _standing(validator: Mapping[str, Any]) -> str:
    status: str = validator["status"].removeprefix(_STATUS).lower()
    return f"{status}, jailed by the consensus" if validator["jailed"] else status


# --- delegations ---------------------------------------------------------------------------------


@queries.command(help="List the delegations of an account.\n\nExample: assay query staking delegations assay1…")
@click.argument("delegator", type=ADDRESS)
@page_options
@common_options
def delegations(context: CommandContext, delegator: str, page: Page) -> None:
    """List delegations by delegator."""
    from cosmpy.protos.cosmos.staking.v1beta1 import query_pb2 as query

    request = query.QueryDelegatorDelegationsRequest(delegator_addr=delegator, pagination=page)
    answer = ask(context, f"{_SERVICE}DelegatorDelegations", request, query.QueryDelegatorDelegationsResponse)
    _show_delegations(context, answer)


@queries.command(
    "delegations-to",
    help="List the delegations to a validator.\n\nExample: assay query staking delegations-to assayvaloper1…",
)
@click.argument("validator", type=VALIDATOR)
@page_options
@common_options
def delegations_to(context: CommandContext, validator: str, page: Page) -> None:
    """List delegations by validator."""
    from cosmpy.protos.cosmos.staking.v1beta1 import query_pb2 as query

    from wire.address import operator_address

    request = query.QueryValidatorDelegationsRequest(validator_addr=operator_address(validator), pagination=page)
    answer = ask(context, f"{_SERVICE}ValidatorDelegations", request, query.QueryValidatorDelegationsResponse)
    _show_delegations(context, answer)


def _show_delegations(context: CommandContext, answer: Answer) -> None:
    rows = [
        (
            each["delegation"]["delegator_address"],
            each["delegation"]["validator_address"],
            coins_text((each["balance"],)),
        )
        for each in answer["delegation_responses"]
    ]
    show_rows(context, answer, "Delegations", ("delegator", "validator", "worth"), rows)


# --- coins that leave ----------------------------------------------------------------------------


@queries.command(
    "unbonding-delegations",
    help="List the coins that an account undelegated and that have not arrived."
    "\n\nExample: assay query staking unbonding-delegations assay1…",
)
@click.argument("delegator", type=ADDRESS)
@page_options
@common_options
def unbonding_delegations(context: CommandContext, delegator: str, page: Page) -> None:
    """List unbonding entries; ``assay tx staking cancel-unbond`` takes their height."""
    from cosmpy.protos.cosmos.staking.v1beta1 import query_pb2 as query

    request = query.QueryDelegatorUnbondingDelegationsRequest(delegator_addr=delegator, pagination=page)
    path = f"{_SERVICE}DelegatorUnbondingDelegations"
    answer = ask(context, path, request, query.QueryDelegatorUnbondingDelegationsResponse)
    rows = [
        (
            each["validator_address"],
            int(entry["creation_height"]),
            money(int(entry["balance"])),
            time_text(entry["completion_time"]),
        )
        for each in answer["unbonding_responses"]
        for entry in each["entries"]
    ]
    show_rows(context, answer, "Coins that leave", ("validator", "since height", "coins", "arrive"), rows)


@queries.command(
    help="List the coins that an account redelegated and that must still stay."
    "\n\nExample: assay query staking redelegations assay1…",
)
@click.argument("delegator", type=ADDRESS)
@page_options
@common_options
def redelegations(context: CommandContext, delegator: str, page: Page) -> None:
    """List redelegations by delegator."""
    from cosmpy.protos.cosmos.staking.v1beta1 import query_pb2 as query

    request = query.QueryRedelegationsRequest(delegator_addr=delegator, pagination=page)
    answer = ask(context, f"{_SERVICE}Redelegations", request, query.QueryRedelegationsResponse)
    rows = [
        (
            each["redelegation"]["validator_src_address"],
            each["redelegation"]["validator_dst_address"],
            money(int(entry["balance"])),
            time_text(entry["redelegation_entry"]["completion_time"]),
        )
        for each in answer["redelegation_responses"]
        for entry in each["entries"]
    ]
    show_rows(context, answer, "Redelegations", ("from", "to", "coins", "stay until"), rows)


# --- the whole -----------------------------------------------------------------------------------


@queries.command(help="Show how many coins are staked.\n\nExample: assay query staking pool")
@common_options
def pool(context: CommandContext) -> None:
    """Show the coins of bonded validators and of others."""
    from cosmpy.protos.cosmos.staking.v1beta1 import query_pb2 as query

    answer = ask(context, f"{_SERVICE}Pool", query.QueryPoolRequest(), query.QueryPoolResponse)
    rows = [
        ("bonded", money(int(answer["pool"]["bonded_tokens"]))),
        ("not bonded", money(int(answer["pool"]["not_bonded_tokens"]))),
    ]
    show_rows(context, answer, "Stake", ("what", "coins"), rows)


@queries.command(help="Show the parameters of staking.\n\nExample: assay query staking params")
@common_options
def params(context: CommandContext) -> None:
    """Show the parameters of staking."""
    from cosmpy.protos.cosmos.staking.v1beta1 import query_pb2 as query

    show_params(context, _SERVICE, "Staking", query.QueryParamsRequest(), query.QueryParamsResponse)
