"""``assay tx distribution``: withdraw rewards and commission. Commands have the names of the Cosmos SDK."""

import click

from assay.cli.arguments import AMOUNT, AmountCommand
from assay.cli.context import CommandContext, common_options
from assay.cli.staking import VALIDATOR
from assay.cli.transacting import TxOptions, transact, tx_options


@click.group(help="Withdraw rewards of delegations and commission, or give coins to the community pool.")
def command() -> None:
    """Group of the transactions about rewards."""


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
