"""Delegations, and coins that leave them: unbonding entries in pools, and redelegations."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.balances import apply_transfer
from chain.state_machine.queue import QueueEntry, schedule
from chain.state_machine.staking.hooks import DELEGATION_CHANGED, DELEGATION_CHANGING, RESERVED
from chain.state_machine.staking.shares import shares_for, shares_to_sell, worth_of
from chain.state_machine.staking.stakes import change_stake, move_tokens, pot_of
from chain.state_machine.staking.tables import (
    DELEGATIONS,
    DELEGATIONS_OF,
    REDELEGATION_COUNTS,
    REDELEGATION_DUE,
    REDELEGATIONS,
    UNBONDING_DUE,
    UNBONDING_POOLS,
    UNBONDINGS,
    VALIDATOR_STAKES,
    is_bonded,
)
from chain.state_machine.store import Overlay
from domain.moves import Move, Transfer
from domain.staking.events import (
    RedelegationCompleted,
    StakeRedelegated,
    StakeUndelegated,
    UnbondingCancelled,
    UnbondingCompleted,
)
from domain.staking.moves import BOND, DELEGATE, DELEGATE_UNBONDED, STAKES_POT, UNBOND, UNDELEGATED
from domain.staking.params import StakingParams
from domain.staking.records import BondStatus, Delegation, Redelegation, Unbonding, UnbondingPool, ValidatorStake

POOLS_PER_TIME = 64
"""Number of parts of ``unbonding_time``; a pool takes coins for one part, and an entry is held for one part at once."""


def get_reserved(ctx: Context, operator: str) -> int:
    """Return the stake (uassay) of a validator that must not leave, because it backs legs and votes."""
    return sum(RESERVED(ctx, operator))


def get_delegation(store: Overlay, delegator: str, validator: str) -> Delegation:
    """Return a delegation; one without shares if there is none."""
    return DELEGATIONS.get(store, validator, delegator) or Delegation(delegator, validator, 0)


def free_worth(stake: ValidatorStake, delegation: Delegation) -> int:
    """Return the tokens that the shares of a delegation are worth, without locked shares."""
    return worth_of(delegation.shares - delegation.locked, stake.tokens, stake.shares)


# --- shares of a validator -----------------------------------------------------------------------


def delegate(ctx: Context, delegator: str, operator: str, amount: int) -> int:
    """Move coins of an account into a validator's tokens, and return the shares that the delegator got."""
    move = DELEGATE if is_bonded(VALIDATOR_STAKES.must(ctx.store, operator)) else DELEGATE_UNBONDED
    apply_transfer(ctx, Transfer(move=move, source=delegator, target=operator, amount=amount))
    return _add_shares(ctx, delegator, operator, amount)


def _add_shares(ctx: Context, delegator: str, operator: str, amount: int, *, lock: bool = False) -> int:
    DELEGATION_CHANGING(ctx, delegator, operator)
    stake = VALIDATOR_STAKES.must(ctx.store, operator)
    shares = shares_for(amount, stake.tokens, stake.shares)
    old = get_delegation(ctx.store, delegator, operator)
    locked = old.locked + (shares if lock else 0)
    DELEGATIONS.put(ctx.store, replace(old, shares=old.shares + shares, locked=locked))
    DELEGATIONS_OF.mark(ctx.store, delegator, operator)
    change_stake(ctx, operator, tokens=stake.tokens + amount, shares=stake.shares + shares)
    DELEGATION_CHANGED(ctx, delegator, operator)
    return shares


def take_shares(ctx: Context, delegator: str, operator: str, shares: int, amount: int, *, locked: int = 0) -> None:
    """Take shares of a delegation, and ``amount`` of the validator's tokens with them.

    ``locked`` is the number of the shares that are locked.
    """
    DELEGATION_CHANGING(ctx, delegator, operator)
    stake = VALIDATOR_STAKES.must(ctx.store, operator)
    old = DELEGATIONS.must(ctx.store, operator, delegator)
    if old.shares == shares:
        DELEGATIONS.delete(ctx.store, operator, delegator)
        DELEGATIONS_OF.delete(ctx.store, delegator, operator)
    else:
        DELEGATIONS.put(ctx.store, replace(old, shares=old.shares - shares, locked=old.locked - locked))
    change_stake(ctx, operator, tokens=stake.tokens - amount, shares=stake.shares - shares)
    DELEGATION_CHANGED(ctx, delegator, operator)


def _sell(ctx: Context, delegator: str, stake: ValidatorStake, amount: int) -> tuple[int, int]:
    """Take the shares for ``amount`` from a delegation. Return the shares, and the tokens that they took.

    The last shares of a validator take all its tokens.
    """
    own = get_delegation(ctx.store, delegator, stake.operator)
    shares = shares_to_sell(amount, own.shares - own.locked, stake.tokens, stake.shares)
    taken = stake.tokens if shares == stake.shares else amount
    take_shares(ctx, delegator, stake.operator, shares, taken)
    return shares, taken


# --- unbonding -----------------------------------------------------------------------------------


def leaves_at(ctx: Context, stake: ValidatorStake) -> int:
    """Return the time at which coins that leave a validator now are free: with the validator, if it leaves too."""
    if stake.status is BondStatus.UNBONDED:
        return ctx.clock
    if stake.status is BondStatus.UNBONDING:
        return stake.unbonding_time
    return ctx.clock + ctx.block.params.of(StakingParams).unbonding_time


def undelegate(ctx: Context, delegator: str, operator: str, amount: int) -> tuple[int, int]:
    """Move coins of a delegation into an unbonding pool. Return their amount, and the time at which they are paid."""
    stake = VALIDATOR_STAKES.must(ctx.store, operator)
    completes_at = leaves_at(ctx, stake)
    shares, taken = _sell(ctx, delegator, stake, amount)
    if is_bonded(stake):
        move_tokens(ctx, operator, UNBOND, taken)
    pool = _get_open_pool(ctx, operator)
    claims = shares_for(taken, pool.tokens, pool.claims)
    UNBONDING_POOLS.put(
        ctx.store,
        replace(pool, tokens=pool.tokens + taken, claims=pool.claims + claims, last_at=ctx.clock),
    )
    entry = UNBONDINGS.get(ctx.store, delegator, operator, ctx.height, pool.number)
    if entry is None:
        entry = Unbonding(
            delegator=delegator,
            validator=operator,
            height=ctx.height,
            pool=pool.number,
            claims=0,
            initial=0,
            completes_at=completes_at,
        )
    entry = replace(entry, claims=entry.claims + claims, initial=entry.initial + taken)
    UNBONDINGS.put(ctx.store, entry)
    schedule(ctx, completes_at, UNBONDING_DUE, delegator, operator, ctx.height, pool.number)
    ctx.emit(
        StakeUndelegated(
            delegator=delegator,
            validator=operator,
            amount=taken,
            shares=shares,
            height=ctx.height,
            pool=pool.number,
            claims=claims,
            completes_at=completes_at,
            time=ctx.clock,
        )
    )
    return taken, entry.completes_at


def _get_open_pool(ctx: Context, operator: str) -> UnbondingPool:
    """Return the validator's pool that takes coins now; open one if its last one is too old or was slashed to 0."""
    number = VALIDATOR_STAKES.must(ctx.store, operator).pools
    pool = UNBONDING_POOLS.get(ctx.store, operator, number)
    length = max(1, ctx.block.params.of(StakingParams).unbonding_time // POOLS_PER_TIME)
    if pool is not None and pool.tokens and ctx.clock < pool.opened_at + length:
        return pool
    change_stake(ctx, operator, pools=number + 1)
    return UnbondingPool(operator, number + 1, opened_at=ctx.clock, last_at=ctx.clock, tokens=0, claims=0)


def take_claims(ctx: Context, entry: Unbonding, claims: int) -> int:
    """Take claims of an unbonding entry out of its pool, and return the coins that they are worth."""
    pool = UNBONDING_POOLS.must(ctx.store, entry.validator, entry.pool)
    amount = worth_of(claims, pool.tokens, pool.claims)
    if claims == pool.claims:
        UNBONDING_POOLS.delete(ctx.store, entry.validator, entry.pool)
    else:
        rest = replace(pool, tokens=pool.tokens - amount, claims=pool.claims - claims)
        UNBONDING_POOLS.put(ctx.store, rest)
    if claims == entry.claims:
        UNBONDINGS.delete(ctx.store, entry.delegator, entry.validator, entry.height, entry.pool)
    else:
        UNBONDINGS.put(ctx.store, replace(entry, claims=entry.claims - claims))
    return amount


def on_unbonding(ctx: Context, due: QueueEntry) -> None:
    """Pay an unbonding entry whose time is over; hold it while the coins may be needed for what the validator sold."""
    delegator, operator = due.text(0), due.text(1)
    entry = UNBONDINGS.get(ctx.store, delegator, operator, due.number(2), due.number(3))
    if entry is None:
        return
    if VALIDATOR_STAKES.must(ctx.store, operator).tokens < get_reserved(ctx, operator):
        wait = max(1, ctx.block.params.of(StakingParams).unbonding_time // POOLS_PER_TIME)
        schedule(ctx, ctx.clock + wait, UNBONDING_DUE, *due.parts[:2], due.number(2), due.number(3))
        return
    amount = take_claims(ctx, entry, entry.claims)
    apply_transfer(ctx, Transfer(move=UNDELEGATED, source=operator, target=delegator, amount=amount))
    ctx.emit(
        UnbondingCompleted(
            delegator=delegator,
            validator=operator,
            height=entry.height,
            pool=entry.pool,
            amount=amount,
        )
    )


def cancel_unbonding(ctx: Context, entry: Unbonding, amount: int) -> None:
    """Delegate ``amount`` of an unbonding entry again."""
    pool = UNBONDING_POOLS.must(ctx.store, entry.validator, entry.pool)
    claims = shares_to_sell(amount, entry.claims, pool.tokens, pool.claims)
    taken = take_claims(ctx, entry, claims)
    if is_bonded(VALIDATOR_STAKES.must(ctx.store, entry.validator)):
        move_tokens(ctx, entry.validator, BOND, taken)
    shares = _add_shares(ctx, entry.delegator, entry.validator, taken)
    ctx.emit(
        UnbondingCancelled(
            delegator=entry.delegator,
            validator=entry.validator,
            height=entry.height,
            pool=entry.pool,
            amount=taken,
            claims=claims,
            shares=shares,
        )
    )


# --- redelegation --------------------------------------------------------------------------------


def redelegate(ctx: Context, delegator: str, source: str, target: str, amount: int) -> int:
    """Move coins of a delegation to another validator, and lock the shares there until the coins could be free.

    Return that time.
    """
    stake = VALIDATOR_STAKES.must(ctx.store, source)
    completes_at = leaves_at(ctx, stake)
    locks = completes_at > ctx.clock
    shares, taken = _sell(ctx, delegator, stake, amount)
    move = _move_between(stake, VALIDATOR_STAKES.must(ctx.store, target))
    if move is not None:
        apply_transfer(ctx, Transfer(move=move, source=source, target=target, amount=taken))
    bought = _add_shares(ctx, delegator, target, taken, lock=locks)
    if locks:
        _keep_redelegation(ctx, delegator, source, target, completes_at, taken, bought)
    ctx.emit(
        StakeRedelegated(
            delegator=delegator,
            source=source,
            target=target,
            amount=taken,
            source_shares=shares,
            target_shares=bought,
            height=ctx.height,
            time=ctx.clock,
            completes_at=completes_at if locks else 0,
        )
    )
    return completes_at


def _move_between(source: ValidatorStake, target: ValidatorStake) -> Move | None:
    """Return the move of coins between the pots of two validators; None if both have the same pot."""
    if pot_of(source) is pot_of(target):
        return None
    return UNBOND if pot_of(source) is STAKES_POT else BOND


def _keep_redelegation(
    ctx: Context, delegator: str, source: str, target: str, completes_at: int, amount: int, shares: int
) -> None:
    entry = REDELEGATIONS.get(ctx.store, source, delegator, target, ctx.height)
    if entry is None:
        count = REDELEGATION_COUNTS.get(ctx.store, source)
        REDELEGATION_COUNTS.set(ctx.store, count + 1, source)
        entry = Redelegation(
            source=source,
            delegator=delegator,
            target=target,
            height=ctx.height,
            created_at=ctx.clock,
            completes_at=completes_at,
            initial=0,
            shares=0,
        )
    REDELEGATIONS.put(ctx.store, replace(entry, initial=entry.initial + amount, shares=entry.shares + shares))
    schedule(ctx, completes_at, REDELEGATION_DUE, source, delegator, target, ctx.height)


def on_redelegation(ctx: Context, due: QueueEntry) -> None:
    """Free the shares of a redelegation whose time is over."""
    source, delegator, target = due.text(0), due.text(1), due.text(2)
    entry = REDELEGATIONS.get(ctx.store, source, delegator, target, due.number(3))
    if entry is None:
        return
    drop_redelegation(ctx, entry)
    if entry.shares:
        old = DELEGATIONS.must(ctx.store, target, delegator)
        DELEGATIONS.put(ctx.store, replace(old, locked=old.locked - entry.shares))
    ctx.emit(RedelegationCompleted(source=source, delegator=delegator, target=target, height=entry.height))


def drop_redelegation(ctx: Context, entry: Redelegation) -> None:
    """Remove an entry of a redelegation."""
    REDELEGATIONS.delete(ctx.store, entry.source, entry.delegator, entry.target, entry.height)
    REDELEGATION_COUNTS.set(ctx.store, REDELEGATION_COUNTS.get(ctx.store, entry.source) - 1, entry.source)
