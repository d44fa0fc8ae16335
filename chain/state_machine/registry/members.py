"""Members of the network: validators with their stake and audit promises, and providers in clusters."""

from dataclasses import replace
from hashlib import sha256

from chain.state_machine.context import Context
from chain.state_machine.ledger.tables import BONDED_SHARES
from chain.state_machine.registry.tables import CLUSTERS, PROVIDERS, VALIDATORS
from chain.state_machine.staking.tables import backing_of, bonded_operators, compute_power
from chain.state_machine.store import Overlay
from domain.errors import WRONG_STATE, Refusal
from domain.registry.events import AuditsPromised, FaultCounted, ProviderAdmitted, ValidatorReleased
from domain.registry.params import RegistryParams
from domain.registry.records import FAULTS_KEPT, Provider, Validator
from domain.staking.records import ValidatorStake
from pol.rules.panels import Promised
from pol.rules.slashes import is_jailed, recent_faults

NO_PROMISE = 1
"""Speed (FLOP/s) and data rate (bytes/s) of a validator that has promised nothing, so that it gets no seats."""


def new_validator(stake: ValidatorStake) -> Validator:
    """Return the record of a validator that has no endpoint, no key and no promise yet."""
    return Validator(
        operator=stake.operator,
        moniker=stake.description.moniker,
        cons_key=stake.cons_key,
        cons_address=sha256(stake.cons_key).digest()[:20],
        stake=backing_of(stake),
        jailed=False,
        endpoint="",
        certificate=b"",
        orders_settled=0,
        legs_failed=0,
        audits_answered=0,
        audits_missed=0,
        audit_speed=NO_PROMISE,
        audit_rate=NO_PROMISE,
    )


def copy_of(stake: ValidatorStake, validator: Validator) -> Validator:
    """Return the record of a validator with what staking knows about it."""
    new = new_validator(stake)
    return replace(
        validator,
        moniker=new.moniker,
        cons_key=new.cons_key,
        cons_address=new.cons_address,
        stake=new.stake,
    )


def on_created(ctx: Context, stake: ValidatorStake) -> None:
    """Register a new validator."""
    VALIDATORS.put(ctx.store, new_validator(stake))


def on_edited(ctx: Context, _: ValidatorStake, stake: ValidatorStake) -> None:
    """Take over a new name."""
    VALIDATORS.put(ctx.store, copy_of(stake, VALIDATORS.must(ctx.store, stake.operator)))


def on_backing(ctx: Context, operator: str, _: int, backing: int) -> None:
    """Take over the stake that backs a validator's orders."""
    VALIDATORS.update(ctx.store, operator, stake=backing)


def is_active(validator: Validator) -> bool:
    """Return whether a validator is in the validator set, and has power there."""
    return compute_power(validator.stake) > 0


def get_active(store: Overlay) -> list[Validator]:
    """Return the validators of the validator set, by operator. All draws and votes walk over these alone."""
    bonded = (VALIDATORS.must(store, operator) for operator in bonded_operators(store))
    return [validator for validator in bonded if is_active(validator)]


def may_serve(validator: Validator) -> bool:
    """Return whether a validator gets new matches: it is in the validator set and not jailed."""
    return is_active(validator) and not validator.jailed


def may_audit(validator: Validator) -> bool:
    """Return whether a validator gets seats: it may serve, and has promised a speed and a data rate.

    A promise that was halved until nothing is left still counts. Otherwise validators that were silenced would leave
    the panels to others.
    """
    has_promised = validator.promise_halved_at > 0 or max(validator.audit_speed, validator.audit_rate) > NO_PROMISE
    return has_promised and may_serve(validator)


def get_promised(store: Overlay) -> list[Promised]:
    """Return the audit promises of the validators that get seats, in order of operator."""
    return [
        Promised(
            operator=validator.operator,
            stake=validator.stake,
            speed=validator.audit_speed,
            rate=validator.audit_rate,
        )
        for validator in get_active(store)
        if may_audit(validator)
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
    others = sum(1 for each in get_active(ctx.store) if each.operator != operator and may_serve(each))
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
