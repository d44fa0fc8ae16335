"""Members: validators have consensus power, which follows their stake, and providers are in their clusters."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.ledger.balances import LedgerBroken, apply_transfer
from chain.state_machine.ledger.tables import BONDED_SHARES
from chain.state_machine.registry.tables import CLUSTERS, PROVIDERS, STAKES_BEFORE, VALIDATORS
from chain.state_machine.store import Overlay
from domain.block import ValidatorUpdate
from domain.errors import WRONG_STATE, Refusal
from domain.genesis import POWER_REDUCTION
from domain.moves import Move, Transfer
from domain.registry.events import AuditsPromised, ProviderAdmitted
from domain.registry.records import Provider, Validator
from pol.rules.panels import Promised


def compute_power(validator: Validator) -> int:
    """Return a validator's consensus power."""
    return 0 if validator.jailed else validator.stake // POWER_REDUCTION


def is_active(validator: Validator) -> bool:
    """Tell whether a validator is in the set: only then it gets new matches and seats."""
    return compute_power(validator) > 0


def get_promised(store: Overlay) -> list[Promised]:
    """Return the validators of the set with what they promise as auditors, by operator."""
    return [
        Promised(
            operator=found.operator,
            stake=found.stake,
            speed=found.audit_speed,
            rate=found.audit_rate,
        )
        for found in VALIDATORS.scan(store)
        if is_active(found)
    ]


def promise_audits(ctx: Context, operator: str, speed: int, rate: int) -> None:
    """Set what a validator promises as an auditor."""
    changed = VALIDATORS.update(ctx.store, operator, audit_speed=speed, audit_rate=rate)
    ctx.emit(AuditsPromised(operator=operator, speed=speed, rate=rate, halved_at=changed.halved_at))


def halve_promise(ctx: Context, operator: str) -> None:
    """Halve what a validator promises, because it was silent on a seat; something always stays."""
    validator = VALIDATORS.must(ctx.store, operator)
    missed = validator.audits_missed + 1
    VALIDATORS.update(ctx.store, operator, halved_at=ctx.clock, audits_missed=missed)
    speed, rate = max(1, validator.audit_speed // 2), max(1, validator.audit_rate // 2)
    promise_audits(ctx, operator, speed, rate)


def cut_stake(ctx: Context, operator: str, amount: int, move: Move, target: str = "") -> None:
    """Move coins out of a validator's stake; its power follows when the block ends."""
    if amount == 0:
        return
    stake = VALIDATORS.must(ctx.store, operator).stake
    if stake < amount:
        raise LedgerBroken(f"the stake of {operator} lacks {amount - stake}")
    VALIDATORS.update(ctx.store, operator, stake=stake - amount)
    if not STAKES_BEFORE.has(ctx.store, operator):
        STAKES_BEFORE.set(ctx.store, stake, operator)
    apply_transfer(ctx, Transfer(move=move, source=operator, target=target, amount=amount))


def take_updates(ctx: Context) -> tuple[ValidatorUpdate, ...]:
    """Return the changes of power of this block, by operator.

    Never one that would leave the chain without validators: then the old powers stay, because a chain that stops
    helps nobody, and the changes are told as soon as anybody has power again.
    """
    changed = list(STAKES_BEFORE.scan(ctx.store))
    if not changed or not any(map(is_active, VALIDATORS.iterate(ctx.store))):
        return ()
    updates = []
    for (operator,), stake_before in changed:
        STAKES_BEFORE.delete(ctx.store, operator)
        validator = VALIDATORS.must(ctx.store, operator.decode())
        power = compute_power(validator)
        if power != compute_power(replace(validator, stake=stake_before)):
            updates.append(ValidatorUpdate(validator.cons_key, power))
    return tuple(updates)


def check_free(ctx: Context, provider: str) -> None:
    """Refuse while a bond of the provider's is locked for a share."""
    if next(BONDED_SHARES.keys(ctx.store, provider), None) is not None:
        reason = "a share of yours is committed"
        raise Refusal(WRONG_STATE, "provider", reason, "wait until its bond has returned")


def admit(ctx: Context, provider: Provider) -> None:
    """Take a provider into the cluster that it asked for."""
    CLUSTERS.mark(ctx.store, provider.validator, provider.address)
    PROVIDERS.update(ctx.store, provider.address, admitted=True)
    ctx.emit(ProviderAdmitted(provider.address, provider.validator))


def remove(ctx: Context, provider: Provider) -> None:
    """Take a provider out of the cluster that it is in or asked for; a capability was measured for that one only."""
    if provider.admitted:
        CLUSTERS.delete(ctx.store, provider.validator, provider.address)
    PROVIDERS.update(ctx.store, provider.address, validator="", admitted=False, capability=None)
