"""Events that the registry component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change
from domain.registry.records import Capability


@dataclass(frozen=True, slots=True)
class EndpointSet(Change):
    """A validator published where its cluster service listens."""

    KIND: ClassVar[str] = "validator.endpoint"
    operator: str
    endpoint: str
    certificate: bytes


@dataclass(frozen=True, slots=True)
class BeaconKeySet(Change):
    """A validator registered a beacon key, which counts from a height on; the one before counts until then.

    Keys that were to count, and will not, are ``dropped``.
    """

    KIND: ClassVar[str] = "validator.beacon_key"
    operator: str
    beacon_key: bytes
    counts_from: int
    dropped: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class BeaconKeyRevoked(Change):
    """A validator's beacon key counts no more, nor do others that it took the place of: all that are ``dropped``."""

    KIND: ClassVar[str] = "validator.beacon_key_revoked"
    operator: str
    beacon_key: bytes
    dropped: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class AuditsPromised(Change):
    """What a validator promises as an auditor is now this: it said so, or a stage halved it (last at ``halved_at``)."""

    KIND: ClassVar[str] = "validator.audits_promised"
    operator: str
    speed: int
    rate: int
    halved_at: int


@dataclass(frozen=True, slots=True)
class ProviderRegistered(Change):
    """A provider asked to be in a cluster."""

    KIND: ClassVar[str] = "provider.registered"
    provider: str
    validator: str
    pub_key: bytes


@dataclass(frozen=True, slots=True)
class ProviderLeft(Change):
    """A provider left its cluster, or asks for it no more."""

    KIND: ClassVar[str] = "provider.left"
    provider: str
    validator: str


@dataclass(frozen=True, slots=True)
class ProviderAdmitted(Change):
    """A validator took a provider that had asked into its cluster."""

    KIND: ClassVar[str] = "provider.admitted"
    provider: str
    validator: str


@dataclass(frozen=True, slots=True)
class ProviderDismissed(Change):
    """A validator has a provider in its cluster no more, or refused it."""

    KIND: ClassVar[str] = "provider.dismissed"
    provider: str
    validator: str


@dataclass(frozen=True, slots=True)
class ProviderCertified(Change):
    """A validator measured a provider of its cluster: ``speed`` in FLOP/s, and the rest of what it can."""

    KIND: ClassVar[str] = "provider.certified"
    provider: str
    validator: str
    speed: int
    capability: Capability
