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
    """Publish the address of a validator's cluster service, and the certificate that this service presents."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgSetEndpoint"
    SIGNER: ClassVar[str] = "operator"
    operator: Address
    endpoint: Annotated[str, Visible(), Size(1, TEXT_MAX)]
    certificate: Annotated[bytes, Size(1, CERTIFICATE_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class MsgSetBeaconKey(Message):
    """Register a new beacon key. It is valid after ``beacon_delay`` blocks; the old key is valid until then."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgSetBeaconKey"
    SIGNER: ClassVar[str] = "operator"
    GAS_EXTRA: ClassVar[int] = 1
    operator: Address
    beacon_key: PublicKey
    key_proof: Signature


@dataclass(frozen=True, slots=True)
class MsgRevokeBeaconKey(Message):
    """Revoke a beacon key that is lost or known to others, from the next block on."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgRevokeBeaconKey"
    SIGNER: ClassVar[str] = "operator"
    operator: Address
    beacon_key: PublicKey


@dataclass(frozen=True, slots=True)
class MsgRegisterProvider(Message):
    """Apply to a validator's cluster. A provider without a committed share may leave its cluster and apply to another
    one.
    """

    URL: ClassVar[str] = "/assay.registry.v1.MsgRegisterProvider"
    SIGNER: ClassVar[str] = "provider"
    provider: Address
    validator: Address


@dataclass(frozen=True, slots=True)
class MsgLeaveCluster(Message):
    """Leave the cluster, or withdraw the application to it."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgLeaveCluster"
    SIGNER: ClassVar[str] = "provider"
    provider: Address


@dataclass(frozen=True, slots=True)
class MsgAdmitProvider(Message):
    """Admit a provider that applied. The provider may then commit to shares, and counts as related to the validator."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgAdmitProvider"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    provider: Address


@dataclass(frozen=True, slots=True)
class MsgDismissProvider(Message):
    """Remove a provider without a committed share from the cluster, or reject the application of a provider."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgDismissProvider"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    provider: Address


@dataclass(frozen=True, slots=True)
class MsgCertifyProvider(Message):
    """Record the validator's measurements of a provider in its cluster."""

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
    """Promise how fast the validator works as an auditor. ``speed`` is the speed of recomputing (FLOP/s of exact work),
    and ``rate`` is the rate of fetching (bytes/s). A validator may lower its promise at any time. It may raise its
    promise if ``promise_wait`` seconds have passed since the last halving.
    """

    URL: ClassVar[str] = "/assay.registry.v1.MsgPromiseAudits"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    speed: Promise
    rate: Promise
