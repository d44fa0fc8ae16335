"""``assay tx distribution`` and ``assay query distribution``: rewards and commission.

Commands have the names of the Cosmos SDK.
"""

import click

from assay.cli.arguments import ADDRESS, AMOUNT, AmountCommand
from assay.cli.context import CommandContext, common_options
from assay.cli.cosmos import Answer, ask, coins_text, show_params, show_rows, whole_amount
from assay.cli.errors import CliError
from assay.cli.staking import VALIDATOR
from assay.cli.transacting import TxOptions, find_sender, transact, tx_options
from domain.limits import MESSAGES_MAX

_SERVICE = "/cosmos.distribution.v1beta1.Query/"


@click.group(help="Withdraw rewards of delegations and commission, or give coins to the community pool.")
def command() -> None:
    """Group of the transactions about rewards."""


@click.group(help="Read rewards, commission and the community pool.")
def queries() -> None:
    """Group of the queries about rewards."""


@command.command(
    "withdraw-rewards",
    help="Withdraw the rewards of your delegation to a validator."
    "\n\nExample: assay tx distribution withdraw-rewards assayvaloper1… --from alice",
)
@click.argument("validator", type=VALIDATOR)
@click.option("--commission", is_flag=True, help="Withdraw your validator's commission too.")
@tx_options
@common_options
def withdraw_rewards(context: CommandContext, validator: str, commission: bool, options: TxOptions) -> None:
    """Withdraw the rewards of a delegation, and the commission of the key's own validator if asked."""
    from domain.distribution.messages import MsgWithdrawDelegatorReward, MsgWithdrawValidatorCommission

    more = (MsgWithdrawValidatorCommission(validator),) if commission else ()
    transact(context, options, lambda address: (MsgWithdrawDelegatorReward(address, validator), *more))


@command.command(
    "withdraw-all-rewards",
    help=f"""Withdraw the rewards of all your delegations, up to {MESSAGES_MAX} in a transaction.

    If you have more delegations, the largest rewards come first: use the command again for the others.

    Example: assay tx distribution withdraw-all-rewards --from alice
    """,
)
@tx_options
@common_options
def withdraw_all_rewards(context: CommandContext, options: TxOptions) -> None:
    """Withdraw the rewards of all delegations that have rewards."""
    from domain.distribution.messages import MsgWithdrawDelegatorReward
    from wire.address import account_of

    delegator, _ = find_sender(context, "")
    found = [each for each in _all_rewards(context, delegator)["rewards"] if _whole(each)]
    if not found:
        raise CliError(f"{delegator} has no rewards", "`assay query staking delegations` lists its delegations")
    found.sort(key=_whole, reverse=True)
    if left := found[MESSAGES_MAX:]:
        context.output.note(f"{len(left)} more delegations have rewards: use this command again")
    operators = [account_of(each["validator_address"], "validator_address") for each in found[:MESSAGES_MAX]]
    transact(
        context,
        options,
        lambda address: tuple(MsgWithdrawDelegatorReward(address, operator) for operator in operators),
    )


def _whole(reward: Answer) -> int:
    """Return the whole uassay of a delegation's reward; the chain pays no parts of them."""
    return whole_amount(reward["reward"])


@command.command(
    "set-withdraw-addr",
    help="Have your rewards and commission paid to another account."
    "\n\nExample: assay tx distribution set-withdraw-addr assay1… --from alice",
)
@click.argument("to")
@tx_options
@common_options
def set_withdraw_address(context: CommandContext, to: str, options: TxOptions) -> None:
    """Set the account to which rewards are paid."""
    from domain.distribution.messages import MsgSetWithdrawAddress
    from wire.address import check_address

    check_address(to, "to")
    transact(context, options, lambda address: (MsgSetWithdrawAddress(address, to),))


@command.command(
    "fund-community-pool",
    cls=AmountCommand,
    help="Give coins to the community pool.\n\nExample: assay tx distribution fund-community-pool 5ASSAY --from alice",
)
@click.argument("coins", type=AMOUNT)
@tx_options
@common_options
def fund_community_pool(context: CommandContext, coins: int, options: TxOptions) -> None:
    """Give coins to the community pool."""
    from domain.distribution.messages import MsgFundCommunityPool
    from domain.genesis import DENOM
    from domain.ledger.records import Coin

    transact(context, options, lambda address: (MsgFundCommunityPool((Coin(DENOM, coins),), address),))


# --- queries -------------------------------------------------------------------------------------


@queries.command(
    help="Show the rewards that an account can withdraw.\n\nExample: assay query distribution rewards assay1…"
)
@click.argument("delegator", type=ADDRESS)
@common_options
def rewards(context: CommandContext, delegator: str) -> None:
    """Show the rewards of each delegation."""
    answer = _all_rewards(context, delegator)
    rows = [(each["validator_address"], coins_text(each["reward"])) for each in answer["rewards"]]
    if rows:
        rows.append(("total", coins_text(answer["total"])))
    show_rows(context, answer, "Rewards", ("validator", "reward"), rows)


def _all_rewards(context: CommandContext, delegator: str) -> Answer:
    from cosmpy.protos.cosmos.distribution.v1beta1 import query_pb2 as query

    request = query.QueryDelegationTotalRewardsRequest(delegator_address=delegator)
    return ask(context, f"{_SERVICE}DelegationTotalRewards", request, query.QueryDelegationTotalRewardsResponse)


@queries.command(
    help="Show the commission that a validator can withdraw."
    "\n\nExample: assay query distribution commission assayvaloper1…"
)
@click.argument("validator", type=VALIDATOR)
@common_options
def commission(context: CommandContext, validator: str) -> None:
    """Show the commission of a validator."""
    from cosmpy.protos.cosmos.distribution.v1beta1 import query_pb2 as query

    from wire.address import operator_address

    request = query.QueryValidatorCommissionRequest(validator_address=operator_address(validator))
    answer = ask(context, f"{_SERVICE}ValidatorCommission", request, query.QueryValidatorCommissionResponse)
    rows = [(request.validator_address, coins_text(answer["commission"]["commission"]))]
    show_rows(context, answer, "Commission", ("validator", "commission"), rows)


@queries.command(
    "community-pool",
    help="Show the coins of the community pool.\n\nExample: assay query distribution community-pool",
)
@common_options
def community_pool(context: CommandContext) -> None:
    """Show the coins of the community pool."""
    from cosmpy.protos.cosmos.distribution.v1beta1 import query_pb2 as query

    request = query.QueryCommunityPoolRequest()
    answer = ask(context, f"{_SERVICE}CommunityPool", request, query.QueryCommunityPoolResponse)
    context.output.result(answer, f"the community pool has {coins_text(answer['pool'])}")


@queries.command(help="Show the parameters of distribution.\n\nExample: assay query distribution params")
@common_options
def params(context: CommandContext) -> None:
    """Show the parameters of distribution."""
    from cosmpy.protos.cosmos.distribution.v1beta1 import query_pb2 as query

    show_params(context, _SERVICE, "Distribution", query.QueryParamsRequest(), query.QueryParamsResponse)
