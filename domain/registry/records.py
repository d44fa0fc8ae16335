"""Records that the registry component keeps: frozen dataclasses of integers, strings, bytes and tuples."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import (
    Address,
    ByteCount,
    ConsensusAddress,
    ConsensusKey,
    Count,
    Length,
    MaybeAddress,
    Money,
    Name,
    Number,
    PublicKey,
    Range,
    Size,
    Text,
    Work,
)
from domain.limits import CERTIFICATE_BYTES_MAX

FAULTS_KEPT = 2
"""Largest number of faults in a validator's record. One more fault within ``fault_period`` puts the validator in
jail.
"""

Promise = Annotated[int, Range(1, 2**63 - 1)]
"""FLOP/s or bytes/s that a validator promises as an auditor; a halving never makes the number 0."""


@dataclass(frozen=True, slots=True)
class BeaconKey:
    """A beacon key, and the height from which it is valid.

    Each block that a validator proposes begins with a unique signature by the validator's beacon key.
    """

    key: PublicKey
    valid_from: Number


@dataclass(frozen=True, slots=True)
class Validator:
    """An operator with a consensus key and a stake."""

    operator: Address
    moniker: Text
    cons_key: ConsensusKey  # ed25519, 32 bytes
    cons_address: ConsensusAddress  # SHA-256(cons_key)[:20]
    stake: Money
    jailed: bool  # it gets no matches and no seats
    endpoint: Text  # host:port of the validator's cluster service; empty until SetEndpoint
    # DER of the certificate of the cluster service, which is the only root that clients trust.
    certificate: Annotated[bytes, Size(0, CERTIFICATE_BYTES_MAX)]
    orders_settled: Count
    legs_failed: Count
    audits_answered: Count  # number of seats whose answers all equal the ruling (undecided places do not count)
    audits_missed: Count  # number of stages in which the validator was silent
    # The key in force and the next key, sorted by height.
    beacon_keys: Annotated[tuple[BeaconKey, ...], Length(0, 2)] = ()
    # The validator's promise as an auditor: FLOP/s of exact work, and bytes/s. Both are halved if the validator is
    # silent in two stages within `promise_wait` seconds.
    audit_speed: Promise = 1
    audit_rate: Promise = 1
    promise_halved_at: Number = 0  # time of the last halving (chain clock); 0 if there was none
    silent_at: Number = 0  # time of the last silence for which the promise was not halved (chain clock); 0 if none
    jailed_until: Number = 0  # time at which the jail ends (chain clock); 0 if the validator is not jailed
    # Times (chain clock) of recent faults that the last stage of a panel ruled on, and that no jail followed yet.
    faults: Annotated[tuple[Number, ...], Length(0, FAULTS_KEPT)] = ()

    def beacon_key(self, height: int) -> bytes:
        """Return the beacon key in force in block ``height``, or an empty key if there is none."""
        in_force = [beacon.key for beacon in self.beacon_keys if beacon.valid_from <= height]
        return in_force[-1] if in_force else b""


@dataclass(frozen=True, slots=True)
class Capability:
    """A validator's measurements of a provider. They are valid until ``expires_at`` (chain clock)."""

    device_class: Name
    speed: Work  # FLOP/s of exact work
    memory: ByteCount  # bytes
    bandwidth: ByteCount  # bytes/s between the provider and this validator
    expires_at: Number


@dataclass(frozen=True, slots=True)
class Provider:
    """A compute provider. It is in a validator's cluster if it has applied there and the validator has admitted it."""

    address: Address
    validator: MaybeAddress  # operator address of the validator to which the provider applied; empty after it has left
    pub_key: PublicKey
    capability: Capability | None
    shares_accepted: Count
    shares_rejected: Count
    admitted: bool = False
    has_verified_share: bool = False  # one of its shares is in a verified round, in any cluster

    def is_in(self, validator: str) -> bool:
        """Return whether the provider is in the cluster of ``validator``."""
        return self.admitted and self.validator == validator

    @property
    def newcomer(self) -> bool:
        """True if the provider has no accepted share yet, in any cluster."""
        return self.shares_accepted == 0
