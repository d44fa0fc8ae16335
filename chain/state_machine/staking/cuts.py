"""Losses of stake: debts of a validator, which its tokens pay first, and slashes, which all who were there share.

A loss reaches coins that were behind the validator at the time of its cause: ``since`` is that time (chain clock).
"""

from collections.abc import Iterable
from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.balances import LedgerBroken, apply_transfer
from chain.state_machine.staking.delegations import take_shares
from chain.state_machine.staking.hooks import VALIDATOR_CUT
from chain.state_machine.staking.shares import divide, shares_to_sell, worth_of
from chain.state_machine.staking.stakes import change_stake, move_tokens
from chain.state_machine.staking.tables import (
    REDELEGATION_COUNTS,
    REDELEGATIONS,
    UNBONDING_POOLS,
    VALIDATOR_STAKES,
    is_bonded,
)
from chain.state_machine.store import Overlay
from domain.moves import Move, Transfer
from domain.staking.events import RedelegationCut, StakeCut
from domain.staking.moves import BOND
from domain.staking.records import Redelegation, UnbondingPool

REDELEGATIONS_MAX = 256
"""Largest number of redelegations from a validator at a time, because a slash walks over them."""


def get_liable(store: Overlay, operator: str, since: int) -> int:
    """Return the stake (uassay) that a debt of a validator can reach: its tokens, and pools that took coins since."""
    pools = sum(pool.tokens for pool in _get_pools(store, operator, since))
    return VALIDATOR_STAKES.must(store, operator).tokens + pools


def get_payable(store: Overlay, operator: str, amount: int, since: int) -> int:
    """Return the part of ``amount`` that a debt of a validator can take from its stake. Mostly its tokens suffice."""
    tokens = VALIDATOR_STAKES.must(store, operator).tokens
    return amount if amount <= tokens else min(amount, get_liable(store, operator, since))


def get_slashable_stake(store: Overlay, operator: str, since: int) -> int:
    """Return the stake (uassay) that a slash of a validator can reach: redelegations as well."""
    moved = sum(worth for _, worth in _get_moved(store, operator, since))
    return get_liable(store, operator, since) + moved


def cut_stake(ctx: Context, operator: str, amount: int, since: int, move: Move, target: str = "") -> None:
    """Move coins out of a validator's stake for a debt: its tokens first, then its pools, the newest first."""
    if amount == 0:
        return
    lacks = amount - get_payable(ctx.store, operator, amount, since)
    if lacks:
        raise LedgerBroken(f"the stake of {operator} lacks {lacks}")
    tokens = min(amount, VALIDATOR_STAKES.must(ctx.store, operator).tokens)
    rest = amount - tokens
    parts = []
    for pool in reversed(_get_pools(ctx.store, operator, since) if rest else []):
        part = min(rest, pool.tokens)
        if part:
            parts.append((pool, part))
            rest -= part
    _take(ctx, operator, tokens, parts)
    apply_transfer(ctx, Transfer(move=move, source=operator, target=target, amount=amount))


def slash_stake(ctx: Context, operator: str, amount: int, since: int, move: Move, target: str = "") -> None:
    """Move coins out of a validator's stake for a fault: tokens, pools and redelegations lose the same fraction."""
    if amount == 0:
        return
    total = get_slashable_stake(ctx.store, operator, since)
    if amount > total:
        raise LedgerBroken(f"the stake of {operator} lacks {amount - total}")
    moved = _get_moved(ctx.store, operator, since)
    pools = _get_pools(ctx.store, operator, since)
    tokens = VALIDATOR_STAKES.must(ctx.store, operator).tokens
    # The tokens are the last part, so that they bear what rounding leaves over.
    parts = divide(amount, [*(worth for _, worth in moved), *(pool.tokens for pool in pools), tokens])
    own = parts.pop()
    of_pools = parts[len(moved) :]
    _take(ctx, operator, own, [(pool, part) for pool, part in zip(pools, of_pools, strict=True) if part])
    for (entry, _), part in zip(moved, parts[: len(moved)], strict=True):
        _take_moved(ctx, operator, entry, part)
    apply_transfer(ctx, Transfer(move=move, source=operator, target=target, amount=amount))


def _take(ctx: Context, operator: str, tokens: int, parts: Iterable[tuple[UnbondingPool, int]]) -> None:
    """Take tokens and parts of pools of a validator. All of it is then in the pot of bonded tokens."""
    stake = VALIDATOR_STAKES.must(ctx.store, operator)
    pools = list(parts)
    VALIDATOR_CUT(ctx, operator, stake.tokens, tokens)
    for pool, part in pools:
        UNBONDING_POOLS.put(ctx.store, replace(pool, tokens=pool.tokens - part))
    change_stake(ctx, operator, tokens=stake.tokens - tokens)
    move_tokens(ctx, operator, BOND, sum(part for _, part in pools) + (0 if is_bonded(stake) else tokens))
    ctx.emit(
        StakeCut(
            operator=operator,
            tokens=tokens,
            pools=tuple(pool.number for pool, _ in pools),
            pool_amounts=tuple(part for _, part in pools),
        )
    )


def _take_moved(ctx: Context, operator: str, entry: Redelegation, amount: int) -> None:
    """Take coins of redelegated shares out of the tokens of the validator that has them now."""
    if not amount:
        return
    stake = VALIDATOR_STAKES.must(ctx.store, entry.target)
    shares = shares_to_sell(amount, entry.shares, stake.tokens, stake.shares)
    take_shares(ctx, entry.delegator, entry.target, shares, amount, locked=shares)
    REDELEGATIONS.put(ctx.store, replace(entry, shares=entry.shares - shares))
    if not is_bonded(stake):
        move_tokens(ctx, entry.target, BOND, amount)
    ctx.emit(
        RedelegationCut(
            source=operator,
            delegator=entry.delegator,
            target=entry.target,
            height=entry.height,
            amount=amount,
            shares=shares,
        )
    )


def _get_pools(store: Overlay, operator: str, since: int) -> list[UnbondingPool]:
    return [pool for pool in UNBONDING_POOLS.scan(store, operator) if pool.last_at >= since]


def _get_moved(store: Overlay, operator: str, since: int) -> list[tuple[Redelegation, int]]:
    """Return the redelegations from a validator since a time, each with the tokens that its shares are worth now."""
    if not REDELEGATION_COUNTS.get(store, operator):
        return []
    entries = [entry for entry in REDELEGATIONS.scan(store, operator) if entry.created_at >= since]
    stakes = [VALIDATOR_STAKES.must(store, entry.target) for entry in entries]
    return [
        (entry, worth_of(entry.shares, stake.tokens, stake.shares))
        for entry, stake in zip(entries, stakes, strict=True)
    ]
