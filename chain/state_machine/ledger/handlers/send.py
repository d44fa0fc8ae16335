"""MsgSend: move coins between accounts."""

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.ledger import balances
from chain.state_machine.ledger.balances import is_module
from domain.errors import INVALID_COINS, UNAUTHORIZED, Refusal
from domain.messages import MsgSend


def check_stateless(message: MsgSend) -> None:
    """A positive amount, and a recipient that has a key."""
    if not message.amount[0].amount:
        raise Refusal(INVALID_COINS, "amount", "is not a positive amount", "send at least 1")
    if is_module(message.to_address):
        reason = "is a module's and takes no plain transfers"
        raise Refusal(UNAUTHORIZED, "to_address", reason, "send to a person")


def check_state(ctx: Context, message: MsgSend) -> int:
    """The chain's own coins, and enough of them; returns the amount."""
    coin = message.amount[0]
    if coin.denom != ctx.block.denom:
        reason = f"{coin.denom} is not a coin of this chain"
        raise Refusal(INVALID_COINS, "amount.denom", reason, f"send {ctx.block.denom}")
    balances.check_funds(ctx, message.from_address, coin.amount)
    return coin.amount


def apply(ctx: Context, message: MsgSend, amount: int) -> None:
    """Move the coins."""
    balances.transfer(ctx, message.from_address, message.to_address, amount)


HANDLER = Handler(MsgSend, check_state, apply, check_stateless)
