"""Consensus power follows stake: updates for the validators whose stake changed in the block."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.registry.tables import STAKES_BEFORE, VALIDATORS
from domain.block import ValidatorUpdate
from domain.genesis import POWER_REDUCTION
from domain.records import Validator


def compute_power(validator: Validator) -> int:
    """Return a validator's consensus power."""
    return 0 if validator.jailed else validator.stake // POWER_REDUCTION


def is_active(validator: Validator) -> bool:
    """Tell whether a validator is in the set: only then it gets new matches and seats."""
    return compute_power(validator) > 0


def take_updates(ctx: Context) -> tuple[ValidatorUpdate, ...]:
    """Return the changes of power of this block, by operator.

    Never one that would leave the chain without validators: then the old powers stay, because a chain that stops
    helps nobody.
    """
    changed = list(STAKES_BEFORE.scan(ctx.store))
    if not changed:
        return ()
    updates = []
    for (operator,), stake_before in changed:
        STAKES_BEFORE.delete(ctx.store, operator)
        validator = VALIDATORS.must(ctx.store, operator.decode())
        power = compute_power(validator)
        if power != compute_power(replace(validator, stake=stake_before)):
            updates.append(ValidatorUpdate(validator.cons_key, power))
    if not any(compute_power(validator) for validator in VALIDATORS.scan(ctx.store)):
        return ()
    return tuple(updates)
