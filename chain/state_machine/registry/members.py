"""Members of the network: validators with their stake, power and audit promises, and providers in clusters."""

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
from domain.registry.events import AuditsPromised, FaultCounted, ProviderAdmitted, ValidatorReleased
from domain.registry.params import RegistryParams
from domain.registry.records import FAULTS_KEPT, Provider, Validator
from pol.rules.panels import Promised
from pol.rules.slashes import is_jailed, recent_faults


def compute_power(validator: Validator) -> int:
    """Return a validator's consensus power. The jail does not change it."""
    return validator.stake // POWER_REDUCTION


def is_active(validator: Validator) -> bool:
    """Return whether a validator is in the validator set."""
    return compute_power(validator) > 0


def may_serve(validator: Validator) -> bool:
    """Return whether a validator gets new matches and seats: it is in the validator set and not jailed."""
    return is_active(validator) and not validator.jailed


def get_promised(store: Overlay) -> list[Promised]:
    """Return the audit promises of the validators that get seats, in order of operator."""
    return [
        Promised(
            operator=validator.operator,
            stake=validator.stake,
            speed=validator.audit_speed,
            rate=validator.audit_rate,
        )
        for validator in VALIDATORS.scan(store)
        if may_serve(validator)
    ]


def promise_audits(ctx: Context, operator: str, speed: int, rate: int) -> None:
    """Set the speed and the data rate that a validator promises as an auditor."""
    changed = VALIDATORS.update(ctx.store, operator, audit_speed=speed, audit_rate=rate)
    ctx.emit(
        AuditsPromised(
            operator=operator,
            speed=speed,
            rate=rate,
            promise_halved_at=changed.promise_halved_at,
            silent_at=changed.silent_at,
        )
    )


def count_silence(ctx: Context, operator: str) -> None:
    """Count a silent seat of a validator.

    If the validator was also silent within the last ``promise_wait`` seconds, halve its promise. A silence for which
    the promise was already halved does not count again. Speed and rate stay at 1 or more.
    """
    validator = VALIDATORS.must(ctx.store, operator)
    wait = ctx.block.params.of(RegistryParams).promise_wait
    again = validator.silent_at > 0 and ctx.clock - validator.silent_at < wait
    VALIDATORS.update(
        ctx.store,
        operator,
        audits_missed=validator.audits_missed + 1,
        silent_at=0 if again else ctx.clock,
        promise_halved_at=ctx.clock if again else validator.promise_halved_at,
    )
    share = 2 if again else 1
    speed, rate = max(1, validator.audit_speed // share), max(1, validator.audit_rate // share)
    promise_audits(ctx, operator, speed, rate)


def count_fault(ctx: Context, operator: str) -> int:
    """Count a fault of a validator, and jail the validator if it has three faults within ``fault_period``.

    Return the time at which the jail ends; 0 if this fault did not put the validator in jail.
    """
    params = ctx.block.params.of(RegistryParams)
    faults = recent_faults(VALIDATORS.must(ctx.store, operator).faults, ctx.clock, params.fault_period)
    others = sum(1 for each in VALIDATORS.scan(ctx.store) if each.operator != operator and may_serve(each))
    until = ctx.clock + params.jail_time if is_jailed(faults, others) else 0
    kept = () if until else faults[-FAULTS_KEPT:]
    VALIDATORS.update(ctx.store, operator, faults=kept)
    if until:
        VALIDATORS.update(ctx.store, operator, jailed=True, jailed_until=until)
    ctx.emit(FaultCounted(operator, kept, until))
    return until


def release(ctx: Context, operator: str) -> None:
    """Release a validator from the jail."""
    VALIDATORS.update(ctx.store, operator, jailed=False, jailed_until=0)
    ctx.emit(ValidatorReleased(operator))


def cut_stake(ctx: Context, operator: str, amount: int, move: Move, target: str = "") -> None:
    """Move coins out of a validator's stake; its power changes at the end of the block."""
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
    """Return the changes of consensus power that are due, by operator, and remove them from the state.

    If no validator has power, return nothing: the old powers stay, so that the chain does not stop. The changes are
    then returned in the first block in which some validator has power.
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
    """Refuse the message if a bond of the provider is locked for one of its shares."""
    if next(BONDED_SHARES.keys(ctx.store, provider), None) is not None:
        reason = "has a committed share"
        raise Refusal(WRONG_STATE, "provider", reason, "wait until the bond of the share is returned")


def admit(ctx: Context, provider: Provider) -> None:
    """Admit a provider to the cluster to which it applied."""
    CLUSTERS.mark(ctx.store, provider.validator, provider.address)
    PROVIDERS.update(ctx.store, provider.address, admitted=True)
    ctx.emit(ProviderAdmitted(provider.address, provider.validator))


def remove(ctx: Context, provider: Provider) -> None:
    """Remove a provider from its cluster, or remove its application, and drop the capability that the validator
    measured.
    """
    if provider.admitted:
        CLUSTERS.delete(ctx.store, provider.validator, provider.address)
    PROVIDERS.update(ctx.store, provider.address, validator="", admitted=False, capability=None)
