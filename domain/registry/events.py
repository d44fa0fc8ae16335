"""Events that the registry component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change
from domain.registry.records import Capability


@dataclass(frozen=True, slots=True)
class EndpointSet(Change):
    """A validator published the address and certificate of its cluster service."""

    KIND: ClassVar[str] = "validator.endpoint"
    operator: str
    endpoint: str
    certificate: bytes


@dataclass(frozen=True, slots=True)
class BeaconKeySet(Change):
    """A validator registered a beacon key. The new key is valid from height ``valid_from`` on, and the old key is valid
    until then.

    ``dropped`` are earlier keys that were not yet valid. The new key replaces them, so they never become valid.
    """

    KIND: ClassVar[str] = "validator.beacon_key"
    operator: str
    beacon_key: bytes
    valid_from: int
    dropped: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class BeaconKeyRevoked(Change):
    """A validator revoked a beacon key. All keys in ``dropped`` are now invalid. ``dropped`` has the revoked key itself
    and, if this key was in force, the keys before it.
    """

    KIND: ClassVar[str] = "validator.beacon_key_revoked"
    operator: str
    beacon_key: bytes
    dropped: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class AuditsPromised(Change):
    """A validator changed its promise as an auditor, or its promise was halved because its seats were silent. ``speed``
    is in FLOP/s, and ``rate`` is in bytes/s. ``promise_halved_at`` is the time of the last halving. ``silent_at`` is
    the time of the last silence for which the promise was not halved. Both times are on the chain clock; a time is 0 if
    there was no such event.
    """

    KIND: ClassVar[str] = "validator.audits_promised"
    operator: str
    speed: int
    rate: int
    promise_halved_at: int
    silent_at: int


@dataclass(frozen=True, slots=True)
class FaultCounted(Change):
    """The last stage of a panel ruled that a round is wrong, and that its validator is at fault. ``faults`` are the
    times of the validator's recent faults (chain clock). If they were enough for the jail, ``faults`` is empty, and
    ``jailed_until`` is the time at which the jail ends. Otherwise, ``jailed_until`` is 0.

    Example::

        for event in order.events():
            if isinstance(event, assay.FaultCounted):
                print(event.operator, len(event.faults), event.jailed_until)
    """

    KIND: ClassVar[str] = "validator.fault"
    operator: str
    faults: tuple[int, ...]
    jailed_until: int


@dataclass(frozen=True, slots=True)
class ValidatorReleased(Change):
    """The jail of a validator is over, so the validator gets matches and seats again."""

    KIND: ClassVar[str] = "validator.released"
    operator: str


@dataclass(frozen=True, slots=True)
class ProviderRegistered(Change):
    """A provider applied to a validator's cluster."""

    KIND: ClassVar[str] = "provider.registered"
    provider: str
    validator: str
    pub_key: bytes


@dataclass(frozen=True, slots=True)
class ProviderLeft(Change):
    """A provider left its cluster, or withdrew its application."""

    KIND: ClassVar[str] = "provider.left"
    provider: str
    validator: str


@dataclass(frozen=True, slots=True)
class ProviderAdmitted(Change):
    """A validator admitted a provider that had applied to its cluster."""

    KIND: ClassVar[str] = "provider.admitted"
    provider: str
    validator: str


@dataclass(frozen=True, slots=True)
class ProviderDismissed(Change):
    """A validator removed a provider from its cluster, or rejected its application."""

    KIND: ClassVar[str] = "provider.dismissed"
    provider: str
    validator: str


@dataclass(frozen=True, slots=True)
class ProviderCertified(Change):
    """A validator measured a provider of its cluster. ``speed`` is in FLOP/s; ``capability`` has all measurements."""

    KIND: ClassVar[str] = "provider.certified"
    provider: str
    validator: str
    speed: int
    capability: Capability
