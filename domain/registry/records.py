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

Promise = Annotated[int, Range(1, 2**63 - 1)]
"""FLOP/s or bytes/s that a validator promises as an auditor; every halving leaves something."""


@dataclass(frozen=True, slots=True)
class BeaconKey:
    """A key whose unique signature begins its owner's proposals, from a height on."""

    key: PublicKey
    counts_from: Number


@dataclass(frozen=True, slots=True)
class Validator:
    """An operator with a consensus key and a stake."""

    operator: Address
    moniker: Text
    cons_key: ConsensusKey  # ed25519, 32 bytes
    cons_address: ConsensusAddress  # SHA-256(cons_key)[:20]
    stake: Money
    jailed: bool
    endpoint: Text  # host:port of its cluster service; empty until SetEndpoint
    # DER of the certificate that clients trust as their only root
    certificate: Annotated[bytes, Size(0, CERTIFICATE_BYTES_MAX)]
    orders_settled: Count
    legs_failed: Count
    audits_answered: Count  # seats whose every answer was the ruling, or nobody can tell
    audits_missed: Count  # stages in which it was silent
    # By height: the one that counts, and one that will.
    beacon_keys: Annotated[tuple[BeaconKey, ...], Length(0, 2)] = ()
    # What it promises as an auditor: FLOP/s of exact work, and bytes/s; halved at each stage in which it is silent.
    audit_speed: Promise = 1
    audit_rate: Promise = 1
    halved_at: Number = 0  # chain clock, 0 before the first time

    def beacon_key(self, height: int) -> bytes:
        """Return the key that counts in block ``height``, empty where none does."""
        counting = [beacon.key for beacon in self.beacon_keys if beacon.counts_from <= height]
        return counting[-1] if counting else b""


@dataclass(frozen=True, slots=True)
class Capability:
    """What a validator measured of a provider, with an expiry."""

    device_class: Name
    speed: Work  # FLOP/s of exact work
    memory: ByteCount  # bytes
    bandwidth: ByteCount  # bytes/s to this validator
    expires_at: Number


@dataclass(frozen=True, slots=True)
class Provider:
    """A compute provider, in the cluster of one validator once that has admitted it."""

    address: Address
    validator: MaybeAddress  # whose cluster it asked for, by operator address; empty after leaving
    pub_key: PublicKey
    capability: Capability | None
    shares_accepted: Count
    shares_rejected: Count
    admitted: bool = False

    def is_in(self, validator: str) -> bool:
        """Tell whether it is in the cluster of a validator."""
        return self.admitted and self.validator == validator

    @property
    def newcomer(self) -> bool:
        """Whether no share of it was accepted yet, wherever."""
        return self.shares_accepted == 0
