"""``assay tx``."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from assay.cli.arguments import AMOUNT, AmountCommand
from assay.cli.authz import command as authz
from assay.cli.context import CommandContext, common_options
from assay.cli.distribution import command as distribution
from assay.cli.feegrant import command as feegrant
from assay.cli.gov import command as gov
from assay.cli.signatures import broadcast, multisign, sign_command
from assay.cli.slashing import command as slashing
from assay.cli.staking import command as staking
from assay.cli.transacting import TxOptions, transact, tx_options

if TYPE_CHECKING:
    from domain.messages import Message


@click.group(help="Send transactions, or make, sign and send them step by step.")
def command() -> None:
    """Group of the transactions that have no command in another group."""


command.add_command(staking, "staking")
command.add_command(distribution, "distribution")
command.add_command(feegrant, "feegrant")
command.add_command(slashing, "slashing")
command.add_command(gov, "gov")
command.add_command(authz, "authz")
for step in (sign_command, multisign, broadcast):
    command.add_command(step)


@command.group(help="Transactions of the bank: send coins.")
def bank() -> None:
    """Group of the messages of the bank."""


@bank.command(
    "send",
    cls=AmountCommand,
    help="Send coins from a key or an address.\n\nExample: assay tx bank send alice assay1… 1000000uassay",
)
@click.argument("sender", metavar="FROM")
@click.argument("to")
@click.argument("coins", type=AMOUNT)
@tx_options
@common_options
def bank_send(context: CommandContext, sender: str, to: str, coins: int, options: TxOptions) -> None:
    """Send coins (uassay) to another account."""
    from domain.genesis import DENOM
    from domain.ledger.messages import MsgSend
    from domain.ledger.records import Coin
    from wire.address import check_address

    check_address(to, "to")
    transact(context, options, lambda address: (MsgSend(address, to, (Coin(DENOM, coins),)),), sender)


@command.command(
    cls=AmountCommand,
    help="Send coins.\n\nExample: assay tx send assay1… 1000000uassay --from alice",
)
@click.argument("to")
@click.argument("coins", type=AMOUNT)
@common_options
def send(context: CommandContext, to: str, coins: int) -> None:
    """Send coins (uassay) to another account."""
    from domain.genesis import DENOM
    from domain.ledger.messages import MsgSend
    from domain.ledger.records import Coin

    moved = (Coin(DENOM, coins),)
    _send(context, lambda address: MsgSend(address, to, moved))


@command.command(
    "deposit-bond",
    cls=AmountCommand,
    help="Move coins into your bond account (validators: market bond; providers: share bonds)."
    "\n\nExample: assay tx deposit-bond 5000000uassay --from op",
)
@click.argument("coins", type=AMOUNT)
@tx_options
@common_options
def deposit_bond(context: CommandContext, coins: int, options: TxOptions) -> None:
    """Move coins from the account into its bond."""
    from domain.ledger.messages import MsgDepositBond

    transact(context, options, lambda address: (MsgDepositBond(address, coins),))


@command.command(
    "withdraw-bond",
    cls=AmountCommand,
    help="Withdraw free bond coins; they arrive after the chain's bond_wait."
    "\n\nExample: assay tx withdraw-bond 5000000uassay --from op",
)
@click.argument("coins", type=AMOUNT)
@tx_options
@common_options
def withdraw_bond(context: CommandContext, coins: int, options: TxOptions) -> None:
    """Withdraw free coins from the account's bond."""
    from domain.ledger.messages import MsgWithdrawBond

    transact(context, options, lambda address: (MsgWithdrawBond(address, coins),))


def _send(context: CommandContext, make: Callable[[str], "Message"]) -> None:
    """Unlock the key, send the message that ``make`` returns for the key's address, and print the receipt."""
    key = context.key()
    with context.client() as client:
        receipt = context.sender(client, key).send(make(key.address))
    context.output.result(receipt, f"done at height {receipt.height}: {receipt.hash.hex().upper()}")
