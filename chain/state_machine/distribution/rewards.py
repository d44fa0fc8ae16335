"""Rewards of validators and delegators, counted by two sums that only grow.

``per_power`` is what one unit of power has earned, and a validator's ``ratio`` what one unit of its shares has earned.
A party earned the growth of the sum since its own start, times its power or shares. So a block with fees changes the
sum and the proposer's record, and a withdrawal reads two sums, however many blocks lie between. A slash changes the
tokens behind shares and not the shares, so it changes no reward of the past.

All divisions round down. What they leave over stays in the record's ``outstanding`` or goes to the community pool.
"""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.distribution.community import change_totals, give_to_community
from chain.state_machine.distribution.tables import (
    REWARDS,
    STARTS,
    get_rewards,
    get_totals,
    get_withdraw_address,
)
from chain.state_machine.ledger.balances import apply_transfer
from chain.state_machine.ledger.tables import POTS
from chain.state_machine.staking.delegations import get_delegation
from chain.state_machine.staking.tables import VALIDATOR_STAKES, get_operator
from chain.state_machine.store import Overlay
from domain.distribution.events import CommissionWithdrawn, FeesShared, RewardsChanged, RewardsStarted, RewardsWithdrawn
from domain.distribution.moves import COMMISSION, REWARD, SHARE_FEES
from domain.distribution.params import DistributionParams
from domain.distribution.records import ATTOS, RATIO_ONE, DistributionTotals, ValidatorRewards
from domain.ledger.moves import FEES_POT
from domain.ledger.params import LedgerParams
from domain.moves import Transfer
from domain.staking.records import ONE, ValidatorStake

MILLION = 1_000_000


# --- the fees of a block -------------------------------------------------------------------------


def share_fees(ctx: Context) -> None:
    """Share the fees of the block, and minted coins, among the bonded validators by power. One event says all of it."""
    amount = POTS.get(ctx.store, FEES_POT.name)
    if not amount:
        return
    apply_transfer(ctx, Transfer(move=SHARE_FEES, source="", target="", amount=amount))
    params = ctx.block.params.of(DistributionParams)
    totals = get_totals(ctx.store)
    absent = _get_absent(ctx)
    absent_power = sum(rewards.power for rewards in absent)
    kept = (amount - min(amount, get_congestion(ctx))) * ATTOS
    shared = kept - kept * params.community_tax // ONE if totals.power else 0
    proposer = get_operator(ctx.store, ctx.block.proposer)
    own = most = 0
    if proposer and totals.power:
        bonus = params.bonus_proposer_reward * (totals.power - absent_power) // totals.power
        own = shared * min(ONE, params.base_proposer_reward + bonus) // ONE
        most = shared * min(ONE, params.base_proposer_reward + params.bonus_proposer_reward) // ONE
    # The bonus that absent validators cost the proposer goes to the community, so that no other validator gets it.
    each = (shared - most) // totals.power if totals.power else 0
    given = own + each * (totals.power - absent_power)
    for rewards in absent:
        REWARDS.put(ctx.store, replace(rewards, start=rewards.start + each))
    entered, rest = ValidatorRewards(proposer), 0
    totals = replace(totals, per_power=totals.per_power + each)
    if own:
        stake = VALIDATOR_STAKES.must(ctx.store, proposer)
        entered, rest = enter(get_rewards(ctx.store, proposer), totals, stake, stake.commission.rate, own)
        REWARDS.put(ctx.store, entered)
    totals, to_community = change_totals(ctx, amount * ATTOS - given + rest, per_power=totals.per_power)
    ctx.emit(
        FeesShared(
            amount=amount,
            totals=totals,
            to_community=to_community,
            absent=tuple(rewards.operator for rewards in absent),
            proposer=proposer,
            proposer_attos=own,
            commission=entered.commission,
            outstanding=entered.outstanding,
            ratio=entered.ratio,
        )
    )


def get_congestion(ctx: Context) -> int:
    """Return the part of the block's fees (uassay) that paid for a gas price above the chain's lowest.

    It is not shared, so that no validator gains from blocks that it fills to raise the price.
    """
    lowest = ctx.block.params.of(LedgerParams).min_gas_price_millionths
    return ctx.open_gas * max(0, ctx.block.gas_price - lowest) // MILLION


def _get_absent(ctx: Context) -> list[ValidatorRewards]:
    """Return the records of the bonded validators that did not sign the last block."""
    operators = [get_operator(ctx.store, vote.validator) for vote in ctx.block.votes if not vote.signed]
    records = [get_rewards(ctx.store, operator) for operator in operators if operator]
    return [rewards for rewards in records if rewards.power]


# --- the rewards of a validator ------------------------------------------------------------------


def enter(
    rewards: ValidatorRewards, totals: DistributionTotals, stake: ValidatorStake, rate: int, more: int = 0
) -> tuple[ValidatorRewards, int]:
    """Enter what a validator earned since its start, and ``more`` (attos). ``rate`` is its commission.

    Return the record, and the attos that belong to no delegator because there is none.
    """
    earned = rewards.power * (totals.per_power - rewards.start) + more
    commission = earned * rate // ONE
    shared = earned - commission
    if not stake.shares:
        return replace(rewards, start=totals.per_power, commission=rewards.commission + commission), shared
    entered = replace(
        rewards,
        start=totals.per_power,
        commission=rewards.commission + commission,
        outstanding=rewards.outstanding + shared,
        ratio=rewards.ratio + shared * RATIO_ONE // stake.shares,
    )
    return entered, 0


def settle(ctx: Context, operator: str, *, rate: int | None = None) -> ValidatorRewards:
    """Enter what a validator earned, at its commission rate or at ``rate``; return its record."""
    rewards = get_rewards(ctx.store, operator)
    totals = get_totals(ctx.store)
    if not rewards.power or rewards.start == totals.per_power:
        return rewards
    stake = VALIDATOR_STAKES.must(ctx.store, operator)
    entered, rest = enter(rewards, totals, stake, stake.commission.rate if rate is None else rate)
    _put(ctx, entered)
    give_to_community(ctx, rest)
    return entered


def get_settled(store: Overlay, operator: str) -> ValidatorRewards:
    """Return a validator's record as it would be if it were settled now."""
    stake = VALIDATOR_STAKES.must(store, operator)
    return enter(get_rewards(store, operator), get_totals(store), stake, stake.commission.rate)[0]


def _put(ctx: Context, rewards: ValidatorRewards) -> None:
    REWARDS.put(ctx.store, rewards)
    ctx.emit(RewardsChanged(rewards))


def on_power(ctx: Context, operator: str, power: int) -> None:
    """Let a validator earn by its new power."""
    rewards = settle(ctx, operator)
    totals = get_totals(ctx.store)
    _put(ctx, replace(rewards, power=power, start=totals.per_power))
    give_to_community(ctx, 0, power=totals.power + power - rewards.power)


def on_edit(ctx: Context, before: ValidatorStake, after: ValidatorStake) -> None:
    """Enter what a validator earned at its old commission rate."""
    if before.commission.rate != after.commission.rate:
        settle(ctx, before.operator, rate=before.commission.rate)


def withdraw_commission(ctx: Context, operator: str) -> int:
    """Pay a validator's commission, and return the amount (uassay). What is less than 1 uassay stays."""
    rewards = settle(ctx, operator)
    amount, rest = divmod(rewards.commission, ATTOS)
    to = get_withdraw_address(ctx.store, operator)
    _put(ctx, replace(rewards, commission=rest))
    apply_transfer(ctx, Transfer(move=COMMISSION, source="", target=to, amount=amount))
    ctx.emit(CommissionWithdrawn(validator=operator, to=to, amount=amount))
    ctx.note("withdraw_commission", ("amount", f"{amount}{ctx.block.denom}"))
    return amount


# --- the rewards of a delegator ------------------------------------------------------------------


def get_reward(store: Overlay, rewards: ValidatorRewards, delegator: str) -> int:
    """Return the attos that a delegation has earned; ``rewards`` must be the validator's settled record."""
    shares = get_delegation(store, delegator, rewards.operator).shares
    return shares * (rewards.ratio - STARTS.get(store, rewards.operator, delegator)) // RATIO_ONE


def withdraw_rewards(ctx: Context, delegator: str, operator: str) -> int:
    """Pay the rewards of a delegation, and return the amount (uassay). What is less than 1 uassay is lost to it."""
    rewards = settle(ctx, operator)
    attos = get_reward(ctx.store, rewards, delegator)
    _start(ctx, delegator, rewards)
    amount, dust = divmod(attos, ATTOS)
    to = get_withdraw_address(ctx.store, delegator)
    if attos:
        _put(ctx, replace(rewards, outstanding=rewards.outstanding - attos))
        apply_transfer(ctx, Transfer(move=REWARD, source="", target=to, amount=amount))
        give_to_community(ctx, dust)
        ctx.emit(RewardsWithdrawn(delegator=delegator, validator=operator, to=to, amount=amount))
    ctx.note("withdraw_rewards", ("amount", f"{amount}{ctx.block.denom}"), ("delegator", delegator))
    return amount


def _start(ctx: Context, delegator: str, rewards: ValidatorRewards, *, ended: bool = False) -> None:
    """Let a delegation earn from now on; forget it if it ``ended``."""
    ratio = 0 if ended else rewards.ratio
    if STARTS.get(ctx.store, rewards.operator, delegator) == ratio:
        return
    if ratio:
        STARTS.set(ctx.store, ratio, rewards.operator, delegator)
    else:
        STARTS.delete(ctx.store, rewards.operator, delegator)
    ctx.emit(RewardsStarted(delegator, rewards.operator, ratio))


def on_delegation_changing(ctx: Context, delegator: str, operator: str) -> None:
    """Pay the rewards of a delegation before its shares change, and enter what the validator earned."""
    if get_delegation(ctx.store, delegator, operator).shares:
        withdraw_rewards(ctx, delegator, operator)
    else:
        settle(ctx, operator)


def on_delegation_changed(ctx: Context, delegator: str, operator: str) -> None:
    """Let a new delegation earn from now on. If the validator's last one ended, all that is left goes to the pool."""
    rewards = get_rewards(ctx.store, operator)
    shares = get_delegation(ctx.store, delegator, operator).shares
    _start(ctx, delegator, rewards, ended=not shares)
    if rewards.outstanding and not VALIDATOR_STAKES.must(ctx.store, operator).shares:
        _put(ctx, replace(rewards, outstanding=0))
        give_to_community(ctx, rewards.outstanding)
