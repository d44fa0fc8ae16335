"""The stake of a validator: every change of it goes through :func:`change_stake`, so that nothing lags behind."""

from dataclasses import replace
from typing import Any

from chain.state_machine.context import Context
from chain.state_machine.ledger.balances import apply_transfer
from chain.state_machine.queue import QueueEntry, cancel, schedule
from chain.state_machine.staking.hooks import BACKING_CHANGED, POWER_CHANGED, VALIDATOR_BONDED, VALIDATOR_UNBONDING
from chain.state_machine.staking.shares import worth_of
from chain.state_machine.staking.tables import (
    CANDIDATES,
    DELEGATIONS,
    POWERS_GIVEN,
    SET_CHANGED,
    UNBONDED_DUE,
    VALIDATOR_STAKES,
    backing_of,
    bonded_operators,
    compute_power,
    is_bonded,
    rank_of,
)
from chain.state_machine.store import Overlay
from domain.block import ValidatorUpdate
from domain.moves import Move, Pot, Transfer
from domain.params import Params
from domain.staking.events import (
    ValidatorBonded,
    ValidatorJailed,
    ValidatorReady,
    ValidatorUnbonded,
    ValidatorUnbonding,
)
from domain.staking.moves import BOND, STAKES_POT, UNBOND, UNBONDED_POT
from domain.staking.params import StakingParams
from domain.staking.records import BondStatus, ValidatorStake


def change_stake(ctx: Context, operator: str, **changes: Any) -> ValidatorStake:
    """Change fields of a validator's stake, and whatever follows from it. Return the stake."""
    before = VALIDATOR_STAKES.must(ctx.store, operator)
    after = replace(before, **changes)
    write_stake(ctx.store, before, after)
    backings = backing_of(before), backing_of(after)
    if backings[0] != backings[1]:
        BACKING_CHANGED(ctx, operator, *backings)
    return after


def write_stake(store: Overlay, before: ValidatorStake, after: ValidatorStake) -> None:
    """Store a stake and its place among the candidates. Its delegations must be up to date."""
    VALIDATOR_STAKES.put(store, after)
    CANDIDATES.delete(store, *rank_of(before))
    if is_candidate(store, after):
        CANDIDATES.set(store, after.operator.encode(), *rank_of(after))
    SET_CHANGED.mark(store)


def is_candidate(store: Overlay, stake: ValidatorStake) -> bool:
    """Return whether a validator may be in the validator set."""
    own = DELEGATIONS.get(store, stake.operator, stake.operator)
    worth = worth_of(own.shares, stake.tokens, stake.shares) if own else 0
    enough = compute_power(stake.tokens) > 0 and worth >= stake.min_self_delegation
    return stake.ready and not stake.jailed and enough


def pot_of(stake: ValidatorStake) -> Pot:
    """Return the pot with the validator's tokens."""
    return STAKES_POT if is_bonded(stake) else UNBONDED_POT


def move_tokens(ctx: Context, operator: str, move: Move, amount: int) -> None:
    """Move coins of a validator's delegators between the two pots."""
    apply_transfer(ctx, Transfer(move=move, source=operator, target=operator, amount=amount))


# --- the validator set -------------------------------------------------------------------------


def take_updates(ctx: Context) -> tuple[ValidatorUpdate, ...]:
    """Bond the candidates with the most power, unbond the others, and return the changes of power, by operator.

    If there is no candidate, do nothing: the old set stays, so that the chain does not stop. The changes are then made
    in the first block in which there is one.
    """
    if not SET_CHANGED.has(ctx.store):
        return ()
    chosen = choose_set(ctx.store, ctx.block.params.of(StakingParams).max_validators)
    if not chosen:
        return ()
    SET_CHANGED.delete(ctx.store)
    updates = []
    leaving = [operator for operator in bonded_operators(ctx.store) if operator not in chosen]
    for operator in sorted((*chosen, *leaving)):
        stake = VALIDATOR_STAKES.must(ctx.store, operator)
        power = compute_power(stake.tokens) if operator in chosen else 0
        if power != POWERS_GIVEN.get(ctx.store, operator):
            updates.append(ValidatorUpdate(stake.cons_key, power))
            POWER_CHANGED(ctx, operator, power)
        if not power:
            _unbond(ctx, stake)
        elif not is_bonded(stake):
            _bond(ctx, stake)
        if power:
            POWERS_GIVEN.set(ctx.store, power, operator)
    return tuple(updates)


def on_params(ctx: Context, before: Params, after: Params) -> None:
    """Choose the set again in the next block, if its largest size changed."""
    if before.of(StakingParams).max_validators != after.of(StakingParams).max_validators:
        SET_CHANGED.mark(ctx.store)


def choose_set(store: Overlay, limit: int) -> dict[str, None]:
    """Return the operators of the candidates with the most power; there are at most ``limit``."""
    chosen: dict[str, None] = {}
    for power, number in CANDIDATES.keys(store):
        if len(chosen) == limit:
            break
        operator = CANDIDATES.get(store, int.from_bytes(power), int.from_bytes(number)) or b""
        chosen[operator.decode()] = None
    return chosen


def _bond(ctx: Context, stake: ValidatorStake) -> None:
    cancel(ctx, stake.unbonding_time, UNBONDED_DUE, stake.operator)
    move_tokens(ctx, stake.operator, BOND, stake.tokens)
    change_stake(ctx, stake.operator, status=BondStatus.BONDED, unbonding_height=0, unbonding_time=0)
    ctx.emit(ValidatorBonded(stake.operator))
    VALIDATOR_BONDED(ctx, stake.operator)


def _unbond(ctx: Context, stake: ValidatorStake) -> None:
    ends_at = ctx.clock + ctx.block.params.of(StakingParams).unbonding_time
    POWERS_GIVEN.delete(ctx.store, stake.operator)
    move_tokens(ctx, stake.operator, UNBOND, stake.tokens)
    change_stake(
        ctx,
        stake.operator,
        status=BondStatus.UNBONDING,
        unbonding_height=ctx.height,
        unbonding_time=ends_at,
    )
    schedule(ctx, ends_at, UNBONDED_DUE, stake.operator)
    ctx.emit(ValidatorUnbonding(stake.operator, ctx.height, ends_at))
    VALIDATOR_UNBONDING(ctx, stake.operator)


def on_unbonded(ctx: Context, entry: QueueEntry) -> None:
    """End the unbonding of a validator."""
    operator = entry.text(0)
    stake = VALIDATOR_STAKES.must(ctx.store, operator)
    if stake.status is BondStatus.UNBONDING and ctx.clock >= stake.unbonding_time:
        change_stake(ctx, operator, status=BondStatus.UNBONDED)
        ctx.emit(ValidatorUnbonded(operator))


def set_ready(ctx: Context, operator: str, *, ready: bool) -> None:
    """Let a validator be bonded, or not. Do nothing if it is so already."""
    if VALIDATOR_STAKES.must(ctx.store, operator).ready != ready:
        change_stake(ctx, operator, ready=ready)
        ctx.emit(ValidatorReady(operator, ready))


def set_jailed(ctx: Context, operator: str, *, jailed: bool) -> None:
    """Jail a validator, or free it. A jailed validator backs no orders at once, and leaves the set with the block."""
    if VALIDATOR_STAKES.must(ctx.store, operator).jailed != jailed:
        change_stake(ctx, operator, jailed=jailed)
        ctx.emit(ValidatorJailed(operator, jailed))
