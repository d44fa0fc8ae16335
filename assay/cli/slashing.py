"""``assay tx slashing``: a validator frees itself from the jail."""

import click

from assay.cli.context import CommandContext, common_options
from assay.cli.transacting import TxOptions, transact, tx_options


@click.group(help="Free a validator from the jail.")
def command() -> None:
    """Group of the transactions about the jail."""


@command.command(
    help="""Free your validator from the jail in which it is because it did not sign blocks.

    Start its node first, and wait until the jail ends: `assay validator status` shows when.

    Example: assay tx slashing unjail --from op
    """,
)
@tx_options
@common_options
def unjail(context: CommandContext, options: TxOptions) -> None:
    """Free the validator of the home's key."""
    from domain.slashing.messages import MsgUnjail

    transact(context, options, lambda address: (MsgUnjail(address),))
