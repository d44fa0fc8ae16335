"""MsgDepositBond: move coins from the account into its bond account, where they back bids and shares."""

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.ledger import balances
from chain.state_machine.market.book import mark_if_bidder
from domain.events import BondDeposited
from domain.messages import MsgDepositBond
from escrow.moves import Move, Transfer


def check_state(ctx: Context, message: MsgDepositBond) -> None:
    """The account has that much."""
    balances.check_funds(ctx, message.owner, message.amount)


def apply(ctx: Context, message: MsgDepositBond, _: None) -> None:
    """Move the coins; more bond is more room in the book."""
    balances.apply_transfer(
        ctx, Transfer(Move.BOND_DEPOSIT, message.owner, message.owner, message.amount)
    )
    mark_if_bidder(ctx, message.owner)
    ctx.emit(BondDeposited(message.owner, message.amount))


HANDLER = Handler(MsgDepositBond, check_state, apply)
