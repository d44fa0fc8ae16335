"""Messages that the registry component handles."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from domain.bounds import (
    Address,
    ByteCount,
    Name,
    PositiveWork,
    PublicKey,
    Range,
    Signature,
    Size,
    Visible,
)
from domain.limits import CAPABILITY_SECONDS_MAX, CERTIFICATE_BYTES_MAX, TEXT_MAX
from domain.messages import Message
from domain.registry.records import Promise


@dataclass(frozen=True, slots=True)
class MsgSetEndpoint(Message):
    """Publish where a validator's cluster service listens and the certificate it presents."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgSetEndpoint"
    SIGNER: ClassVar[str] = "operator"
    operator: Address
    endpoint: Annotated[str, Visible(), Size(1, TEXT_MAX)]
    certificate: Annotated[bytes, Size(1, CERTIFICATE_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class MsgSetBeaconKey(Message):
    """Register another beacon key; it counts after ``beacon_delay`` blocks, and the one before until then."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgSetBeaconKey"
    SIGNER: ClassVar[str] = "operator"
    GAS_EXTRA: ClassVar[int] = 1
    operator: Address
    beacon_key: PublicKey
    key_proof: Signature


@dataclass(frozen=True, slots=True)
class MsgRevokeBeaconKey(Message):
    """Give up a beacon key that is lost or known to others, from the next block on."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgRevokeBeaconKey"
    SIGNER: ClassVar[str] = "operator"
    operator: Address
    beacon_key: PublicKey


@dataclass(frozen=True, slots=True)
class MsgRegisterProvider(Message):
    """Ask to be in the cluster of a validator (again: leave, and ask another one, when no share is committed)."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgRegisterProvider"
    SIGNER: ClassVar[str] = "provider"
    provider: Address
    validator: Address


@dataclass(frozen=True, slots=True)
class MsgLeaveCluster(Message):
    """Leave the cluster, or ask for it no more."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgLeaveCluster"
    SIGNER: ClassVar[str] = "provider"
    provider: Address


@dataclass(frozen=True, slots=True)
class MsgAdmitProvider(Message):
    """Take a provider that asked into the cluster: it may commit to shares, and makes its validator a party's kin."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgAdmitProvider"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    provider: Address


@dataclass(frozen=True, slots=True)
class MsgDismissProvider(Message):
    """Have a provider in the cluster no more (when no share of it is committed), or refuse one that asked."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgDismissProvider"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    provider: Address


@dataclass(frozen=True, slots=True)
class MsgCertifyProvider(Message):
    """State what the validator measured of a provider in its cluster."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgCertifyProvider"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    provider: Address
    device_class: Name
    speed: PositiveWork
    memory: ByteCount
    bandwidth: ByteCount
    valid_for: Annotated[int, Range(1, CAPABILITY_SECONDS_MAX)]


@dataclass(frozen=True, slots=True)
class MsgPromiseAudits(Message):
    """Promise to recompute at a speed (FLOP/s of exact work) and to fetch at a rate (bytes/s), as an auditor.

    Less at any time; more not within ``promise_wait`` of the last halving.
    """

    URL: ClassVar[str] = "/assay.registry.v1.MsgPromiseAudits"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    speed: Promise
    rate: Promise
