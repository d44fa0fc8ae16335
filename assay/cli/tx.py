"""``assay tx``."""

import click

from assay.cli.arguments import amount
from assay.cli.context import Context, common_options


@click.group(help="Send transactions.")
def command() -> None:
    """Group of transactions that stand alone."""


@command.command(help="Send coins.\n\nExample: assay tx send assay1… 1000000uassay --from alice")
@click.argument("to")
@click.argument("coins")
@common_options
def send(context: Context, to: str, coins: str) -> None:
    """Move uassay to another account."""
    from chain.types.genesis import DENOM
    from chain.types.messages import MsgSend
    from chain.types.records import Coin

    key = context.key()
    _send(context, MsgSend(key.address, to, (Coin(DENOM, amount(coins, "COINS")),)))


@command.command(
    "deposit-bond",
    help="Move coins into your bond account (validators: market bond; providers: share bonds)."
    "\n\nExample: assay tx deposit-bond 5000000uassay --from op",
)
@click.argument("coins")
@common_options
def deposit_bond(context: Context, coins: str) -> None:
    """Deposit a bond."""
    from chain.types.messages import MsgDepositBond

    _send(context, MsgDepositBond(context.key().address, amount(coins, "COINS")))


@command.command(
    "withdraw-bond",
    help="Ask for free bond coins back; they arrive after the chain's bond_wait."
    "\n\nExample: assay tx withdraw-bond 5000000uassay --from op",
)
@click.argument("coins")
@common_options
def withdraw_bond(context: Context, coins: str) -> None:
    """Withdraw a bond."""
    from chain.types.messages import MsgWithdrawBond

    _send(context, MsgWithdrawBond(context.key().address, amount(coins, "COINS")))


def _send(context: Context, message: object) -> None:
    key = context.key()
    with context.client() as client:
        receipt = context.sender(client, key).send(message)  # type: ignore[arg-type]
    context.output.result(receipt, f"done at height {receipt.height}: {receipt.hash.hex().upper()}")
