"""Handlers of distribution: withdrawals, where they are paid to, and gifts to the community pool."""

from chain.state_machine.context import Context
from chain.state_machine.distribution.rewards import get_settled, withdraw_commission, withdraw_rewards
from chain.state_machine.distribution.tables import WITHDRAW_ADDRESSES
from chain.state_machine.handler import Handler
from chain.state_machine.ledger.balances import apply_transfer, check_funds, is_module
from chain.state_machine.staking.delegations import get_delegation
from chain.state_machine.staking.handlers import check_coin
from chain.state_machine.staking.tables import VALIDATOR_STAKES
from domain.distribution.events import CommunityFunded, WithdrawAddressSet
from domain.distribution.messages import (
    MsgFundCommunityPool,
    MsgSetWithdrawAddress,
    MsgWithdrawDelegatorReward,
    MsgWithdrawValidatorCommission,
)
from domain.distribution.moves import COMMUNITY_FUND
from domain.distribution.params import DistributionParams
from domain.distribution.records import ATTOS, WithdrawAddress
from domain.errors import NOT_FOUND, UNAUTHORIZED, WRONG_STATE, Refusal
from domain.hashing import u64
from domain.moves import Transfer

# --- MsgSetWithdrawAddress -----------------------------------------------------------------------


def check_address_fields(message: MsgSetWithdrawAddress) -> None:
    """Check that the account is not a pot."""
    if is_module(message.withdraw_address):
        reason = "is a module's address, which cannot receive rewards"
        raise Refusal(UNAUTHORIZED, "withdraw_address", reason, "name the address of a key")


def check_set_address(ctx: Context, message: MsgSetWithdrawAddress) -> None:
    """Refuse the message if the chain pays rewards only to the delegators themselves."""
    if not ctx.block.params.of(DistributionParams).withdraw_addr_enabled:
        reason = "set withdraw address disabled: rewards are paid to the delegators"
        raise Refusal(WRONG_STATE, "withdraw_address", reason, "withdraw the rewards, and send them on")


def apply_set_address(ctx: Context, message: MsgSetWithdrawAddress, _: None) -> None:
    """Pay rewards to the account from now on."""
    delegator, to = message.delegator_address, message.withdraw_address
    if to == delegator:
        WITHDRAW_ADDRESSES.delete(ctx.store, delegator)
    else:
        WITHDRAW_ADDRESSES.put(ctx.store, WithdrawAddress(delegator, to))
    ctx.emit(WithdrawAddressSet(delegator, to))
    ctx.note("set_withdraw_address", ("withdraw_address", to))


# --- MsgWithdrawDelegatorReward ------------------------------------------------------------------


def check_withdraw(ctx: Context, message: MsgWithdrawDelegatorReward) -> None:
    """Refuse the message if there is no such delegation."""
    VALIDATOR_STAKES.need(ctx.store, message.validator_address)
    if not get_delegation(ctx.store, message.delegator_address, message.validator_address).shares:
        reason = "you have no delegation to this validator: no delegation for (address, validator) tuple"
        raise Refusal(NOT_FOUND, "validator_address", reason, "name a validator to which you delegated")


def apply_withdraw(ctx: Context, message: MsgWithdrawDelegatorReward, _: None) -> None:
    """Pay the rewards."""
    _answer_amount(ctx, withdraw_rewards(ctx, message.delegator_address, message.validator_address))


def _answer_amount(ctx: Context, amount: int) -> None:
    """Put the coins (uassay) that a withdrawal paid into the response to the message."""
    ctx.responses.append(("amount", u64(amount)))


# --- MsgWithdrawValidatorCommission --------------------------------------------------------------


def check_commission(ctx: Context, message: MsgWithdrawValidatorCommission) -> None:
    """Refuse the message if there is no whole coin of commission."""
    VALIDATOR_STAKES.need(ctx.store, message.validator_address)
    if get_settled(ctx.store, message.validator_address).commission < ATTOS:
        reason = "no validator commission to withdraw"
        raise Refusal(WRONG_STATE, "validator_address", reason, "wait until your validator earned at least 1uassay")


def apply_commission(ctx: Context, message: MsgWithdrawValidatorCommission, _: None) -> None:
    """Pay the commission."""
    _answer_amount(ctx, withdraw_commission(ctx, message.validator_address))


# --- MsgFundCommunityPool ------------------------------------------------------------------------


def check_fund(ctx: Context, message: MsgFundCommunityPool) -> int:
    """Return the amount; refuse more than the account has."""
    amount = check_coin(ctx, message.amount[0], "amount")
    check_funds(ctx, message.depositor, amount)
    return amount


def apply_fund(ctx: Context, message: MsgFundCommunityPool, amount: int) -> None:
    """Move the coins."""
    apply_transfer(ctx, Transfer(move=COMMUNITY_FUND, source=message.depositor, target="", amount=amount))
    ctx.emit(CommunityFunded(message.depositor, amount))


HANDLERS = (
    Handler(
        message=MsgSetWithdrawAddress,
        check_state=check_set_address,
        apply=apply_set_address,
        check_fields=check_address_fields,
    ),
    Handler(MsgWithdrawDelegatorReward, check_withdraw, apply_withdraw),
    Handler(MsgWithdrawValidatorCommission, check_commission, apply_commission),
    Handler(MsgFundCommunityPool, check_fund, apply_fund),
)
