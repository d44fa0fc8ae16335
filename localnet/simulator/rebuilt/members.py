"""The events of validators, providers and bond accounts."""

from dataclasses import replace
from hashlib import sha256

from domain.ledger.events import BondDeposited, BondReleased, BondWithdrawing
from domain.ledger.records import Withdrawal
from domain.registry.events import (
    AuditsPromised,
    BeaconKeyRevoked,
    BeaconKeySet,
    EndpointSet,
    FaultCounted,
    ProviderAdmitted,
    ProviderCertified,
    ProviderDismissed,
    ProviderLeft,
    ProviderRegistered,
    ValidatorReleased,
)
from domain.registry.records import BeaconKey, Provider, Validator
from domain.staking.events import ValidatorUnbonding
from domain.staking.records import BondStatus
from localnet.simulator.rebuilt.books import Rebuilt, take
from localnet.simulator.rebuilt.staking import StakingChange


@take.register
def _(change: StakingChange, books: Rebuilt) -> None:
    for operator in books.staking.take(change):
        stake = books.stakes[operator]
        is_backing = stake.status is BondStatus.BONDED and not stake.jailed
        if isinstance(change, ValidatorUnbonding):
            books.slashing.stop(operator)
        if operator not in books.validators:
            books.slashing.name(operator, stake.cons_key)
            books.validators[operator] = Validator(
                operator=operator,
                moniker="",
                cons_key=stake.cons_key,
                cons_address=sha256(stake.cons_key).digest()[:20],
                stake=0,
                jailed=False,
                endpoint="",
                certificate=b"",
                orders_settled=0,
                legs_failed=0,
                audits_answered=0,
                audits_missed=0,
            )
        name = stake.description.moniker
        books.change_validator(operator, moniker=name, stake=stake.tokens if is_backing else 0)


@take.register
def _(change: EndpointSet, books: Rebuilt) -> None:
    books.change_validator(change.operator, endpoint=change.endpoint, certificate=change.certificate)


@take.register
def _(change: BeaconKeySet, books: Rebuilt) -> None:
    _drop_keys(books, change.operator, change.dropped)
    keys = books.validators[change.operator].beacon_keys
    added = BeaconKey(change.beacon_key, change.valid_from)
    books.change_validator(change.operator, beacon_keys=(*keys, added))


@take.register
def _(change: BeaconKeyRevoked, books: Rebuilt) -> None:
    _drop_keys(books, change.operator, change.dropped)


def _drop_keys(books: Rebuilt, operator: str, dropped: tuple[bytes, ...]) -> None:
    keys = books.validators[operator].beacon_keys
    books.change_validator(operator, beacon_keys=tuple(k for k in keys if k.key not in dropped))


@take.register
def _(change: AuditsPromised, books: Rebuilt) -> None:
    books.change_validator(
        change.operator,
        audit_speed=change.speed,
        audit_rate=change.rate,
        promise_halved_at=change.promise_halved_at,
        silent_at=change.silent_at,
    )


@take.register
def _(change: FaultCounted, books: Rebuilt) -> None:
    books.change_validator(change.operator, faults=change.faults)
    if change.jailed_until:
        books.change_validator(change.operator, jailed=True, jailed_until=change.jailed_until)


@take.register
def _(change: ValidatorReleased, books: Rebuilt) -> None:
    books.change_validator(change.operator, jailed=False, jailed_until=0)


@take.register
def _(change: ProviderRegistered, books: Rebuilt) -> None:
    known = books.providers.get(change.provider)
    if known is None:
        known = Provider(
            address=change.provider,
            validator="",
            pub_key=change.pub_key,
            capability=None,
            shares_accepted=0,
            shares_rejected=0,
        )
    books.providers[change.provider] = replace(known, validator=change.validator)


@take.register
def _(change: ProviderLeft | ProviderDismissed, books: Rebuilt) -> None:
    books.change_provider(change.provider, validator="", admitted=False, capability=None)


@take.register
def _(change: ProviderAdmitted, books: Rebuilt) -> None:
    books.change_provider(change.provider, admitted=True)


@take.register
def _(change: ProviderCertified, books: Rebuilt) -> None:
    books.change_provider(change.provider, capability=change.capability)


@take.register
def _(change: BondDeposited, books: Rebuilt) -> None:
    books.add_free(change.owner, change.amount)


@take.register
def _(change: BondWithdrawing, books: Rebuilt) -> None:
    books.add_free(change.owner, -change.amount)
    known = books.bonds[change.owner]
    waiting = (*known.withdrawals, Withdrawal(change.amount, change.release_at))
    books.bonds[change.owner] = replace(known, withdrawals=waiting)


@take.register
def _(change: BondReleased, books: Rebuilt) -> None:
    # Those whose time is over come first. If governance shortens the time, these are not always the oldest ones.
    known, left = books.bonds[change.owner], change.amount
    waiting = list(known.withdrawals)
    for each in sorted(waiting, key=lambda withdrawal: withdrawal.release_at):
        if left > 0:
            left -= each.amount
            waiting.remove(each)
    assert left == 0, f"{change.owner} gets a part of a withdrawal"
    books.bonds[change.owner] = replace(known, withdrawals=tuple(waiting))
