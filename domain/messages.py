"""Messages that change the state, as domain values; field names equal those of the protobuf messages.

``SIGNER`` names the field whose account must sign: the account whose money or duty the message touches.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar

from domain.bounds import (
    Address,
    ByteCount,
    Count,
    Duration,
    Hash,
    Length,
    MaybeHash,
    Name,
    PositiveMoney,
    PositiveWork,
    PublicKey,
    Range,
    Signature,
    Size,
    Slot,
    Visible,
    Work,
)
from domain.errors import INVALID_COINS, LIMIT_REACHED
from domain.limits import (
    ANSWERS_MAX,
    CAPABILITY_SECONDS_MAX,
    CERTIFICATE_BYTES_MAX,
    SALT_BYTES,
    SHARES_PER_MESSAGE_MAX,
    SLOTS_MAX,
    TEXT_MAX,
)
from domain.records import (
    Coin,
    Conditions,
    JobTerms,
    Offer,
    Place,
    Promise,
    SeatAnswer,
    ShareClaim,
    ShareRef,
    ShareRoots,
    ShownLeaf,
)

_AT_ONCE = Length(0, SHARES_PER_MESSAGE_MAX, LIMIT_REACHED)


class MessageBase:
    """What all messages say of themselves.

    ``URL`` is the type url on the wire, ``SIGNER`` the field whose account must sign. Gas is counted in items: what
    costs about as much as another signature. A message has ``GAS_EXTRA`` of them, and for each entry of a field in
    ``GAS_ITEMS`` as many as stand there.
    """

    __slots__ = ()
    URL: ClassVar[str]
    SIGNER: ClassVar[str]
    GAS_EXTRA: ClassVar[int] = 0
    GAS_ITEMS: ClassVar[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MsgSend(MessageBase):
    """Move coins between accounts (``cosmos.bank.v1beta1.MsgSend``)."""

    URL: ClassVar[str] = "/cosmos.bank.v1beta1.MsgSend"
    SIGNER: ClassVar[str] = "from_address"
    from_address: Address
    to_address: Address
    amount: Annotated[tuple[Coin, ...], Length(1, 1, INVALID_COINS)]


@dataclass(frozen=True, slots=True)
class MsgSetEndpoint(MessageBase):
    """Publish where a validator's cluster service listens and the certificate it presents."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgSetEndpoint"
    SIGNER: ClassVar[str] = "operator"
    operator: Address
    endpoint: Annotated[str, Visible(), Size(1, TEXT_MAX)]
    certificate: Annotated[bytes, Size(1, CERTIFICATE_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class MsgSetBeaconKey(MessageBase):
    """Register another beacon key; it counts after ``beacon_delay`` blocks, and the one before until then."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgSetBeaconKey"
    SIGNER: ClassVar[str] = "operator"
    GAS_EXTRA: ClassVar[int] = 1
    operator: Address
    beacon_key: PublicKey
    key_proof: Signature


@dataclass(frozen=True, slots=True)
class MsgRevokeBeaconKey(MessageBase):
    """Give up a beacon key that is lost or known to others, from the next block on."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgRevokeBeaconKey"
    SIGNER: ClassVar[str] = "operator"
    operator: Address
    beacon_key: PublicKey


@dataclass(frozen=True, slots=True)
class MsgRegisterProvider(MessageBase):
    """Ask to be in the cluster of a validator (again: leave, and ask another one, when no share is committed)."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgRegisterProvider"
    SIGNER: ClassVar[str] = "provider"
    provider: Address
    validator: Address


@dataclass(frozen=True, slots=True)
class MsgLeaveCluster(MessageBase):
    """Leave the cluster, or ask for it no more."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgLeaveCluster"
    SIGNER: ClassVar[str] = "provider"
    provider: Address


@dataclass(frozen=True, slots=True)
class MsgAdmitProvider(MessageBase):
    """Take a provider that asked into the cluster: it may commit to shares, and makes its validator a party's kin."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgAdmitProvider"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    provider: Address


@dataclass(frozen=True, slots=True)
class MsgDismissProvider(MessageBase):
    """Have a provider in the cluster no more (when no share of it is committed), or refuse one that asked."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgDismissProvider"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    provider: Address


@dataclass(frozen=True, slots=True)
class MsgCertifyProvider(MessageBase):
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
class MsgDepositBond(MessageBase):
    """Move coins from the account into its bond account (validators: the market bond; providers: share bonds)."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgDepositBond"
    SIGNER: ClassVar[str] = "owner"
    owner: Address
    amount: PositiveMoney


@dataclass(frozen=True, slots=True)
class MsgWithdrawBond(MessageBase):
    """Ask for free bond coins back; they arrive after ``bond_wait``."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgWithdrawBond"
    SIGNER: ClassVar[str] = "owner"
    owner: Address
    amount: PositiveMoney


@dataclass(frozen=True, slots=True)
class MsgPromiseAudits(MessageBase):
    """Promise to recompute at a speed (FLOP/s of exact work) and to fetch at a rate (bytes/s), as an auditor.

    Less at any time; more not within ``promise_wait`` of the last halving.
    """

    URL: ClassVar[str] = "/assay.registry.v1.MsgPromiseAudits"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    speed: Promise
    rate: Promise


@dataclass(frozen=True, slots=True)
class MsgPlaceBid(MessageBase):
    """Place a standing bid; its id is the hash of chain, sender, sequence and message index."""

    URL: ClassVar[str] = "/assay.market.v1.MsgPlaceBid"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    offer: Offer
    capacity: PositiveWork
    duration: Duration


@dataclass(frozen=True, slots=True)
class MsgChangeBid(MessageBase):
    """Change price and capacity of a bid, and prolong it; the book sees it as new."""

    URL: ClassVar[str] = "/assay.market.v1.MsgChangeBid"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    bid_id: Hash
    price: PositiveMoney
    capacity: Work
    duration: Duration


@dataclass(frozen=True, slots=True)
class MsgWithdrawBid(MessageBase):
    """Take a bid out of the book; running assignments go on."""

    URL: ClassVar[str] = "/assay.market.v1.MsgWithdrawBid"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    bid_id: Hash


@dataclass(frozen=True, slots=True)
class MsgSubmitOrder(MessageBase):
    """Submit an order and lock its deposit. ``key_proof`` is a signature by the per-order key (proof of possession)."""

    URL: ClassVar[str] = "/assay.market.v1.MsgSubmitOrder"
    SIGNER: ClassVar[str] = "consumer"
    GAS_EXTRA: ClassVar[int] = 14  # every validator is looked at, who could audit it
    consumer: Address
    order_key: PublicKey
    key_proof: Signature
    terms: JobTerms
    conditions: Conditions
    price_limit: PositiveMoney
    deposit: PositiveMoney
    time_to_live: Duration
    deadline: Duration  # seconds from inclusion
    rematch: bool


@dataclass(frozen=True, slots=True)
class MsgCancelOrder(MessageBase):
    """Cancel an order that is not matched."""

    URL: ClassVar[str] = "/assay.market.v1.MsgCancelOrder"
    SIGNER: ClassVar[str] = "consumer"
    consumer: Address
    order_id: Hash


@dataclass(frozen=True, slots=True)
class MsgAcceptOrder(MessageBase):
    """Accept a matched order: payload and data are held, the job loads, the work agrees."""

    URL: ClassVar[str] = "/assay.market.v1.MsgAcceptOrder"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    order_id: Hash
    attempt: Count


@dataclass(frozen=True, slots=True)
class MsgDeclineOrder(MessageBase):
    """Decline a matched order with an ``AttemptEnd`` reason (1, 2, 3 or 10,010)."""

    URL: ClassVar[str] = "/assay.market.v1.MsgDeclineOrder"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    order_id: Hash
    attempt: Count
    reason: Count


@dataclass(frozen=True, slots=True)
class MsgStopOrder(MessageBase):
    """Give up a running order: the attempt fails."""

    URL: ClassVar[str] = "/assay.market.v1.MsgStopOrder"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    order_id: Hash
    attempt: Count


@dataclass(frozen=True, slots=True)
class SignedShare:
    """A commitment to a share with its provider's signature over :func:`pol.rules.commitment.share_sign_bytes`."""

    claim: ShareClaim
    signature: Signature


@dataclass(frozen=True, slots=True)
class Rejection:
    """A share that the validator rejects, with a ``ShareReason``."""

    ref: ShareRef
    reason: Count


@dataclass(frozen=True, slots=True)
class MsgCommitTraces(MessageBase):
    """Put commitments to shares of the open round on chain (at most 128); rejections are applied first."""

    URL: ClassVar[str] = "/assay.pol.v1.MsgCommitTraces"
    SIGNER: ClassVar[str] = "validator"
    GAS_ITEMS: ClassVar[Mapping[str, int]] = MappingProxyType({"shares": 5, "rejections": 6})
    validator: Address
    order_id: Hash
    attempt: Count
    round: Count
    rejections: Annotated[tuple[Rejection, ...], _AT_ONCE]
    shares: Annotated[tuple[SignedShare, ...], _AT_ONCE]


@dataclass(frozen=True, slots=True)
class AcceptedShare:
    """A share that the validator accepts, with what its commitment hides."""

    slot: Slot
    issue: Count
    roots: ShareRoots


@dataclass(frozen=True, slots=True)
class MsgCloseRound(MessageBase):
    """Close the open round: accepted shares in slot order, with their roots, and the next global state root.

    Where the job stopped in the round, ``stopped`` names the place instead of a root, and no round follows: shares that
    end there are named as they are. In a hand-over round, ``ciphertext_root`` is the root over the chunks of the states
    that the round leaves, encrypted to the order's key; it is empty in all others. The last round is one: closing it
    proves the order.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgCloseRound"
    SIGNER: ClassVar[str] = "validator"
    GAS_ITEMS: ClassVar[Mapping[str, int]] = MappingProxyType({"shares": 4})
    validator: Address
    order_id: Hash
    attempt: Count
    round: Count
    shares: Annotated[tuple[AcceptedShare, ...], Length(0, SLOTS_MAX, LIMIT_REACHED)]
    next_root: MaybeHash
    ciphertext_root: MaybeHash
    stopped: Place | None = None


@dataclass(frozen=True, slots=True)
class MsgCommitAnswer(MessageBase):
    """Commit to the answers of a seat (:func:`pol.rules.panels.answer_commitment`), before anybody's are known."""

    URL: ClassVar[str] = "/assay.pol.v1.MsgCommitAnswer"
    SIGNER: ClassVar[str] = "auditor"
    auditor: Address
    order_id: Hash
    attempt: Count
    round: Count
    stage: Count
    commitment: Hash


@dataclass(frozen=True, slots=True)
class MsgRevealAnswer(MessageBase):
    """Show the answers that a seat committed to, by place; and leaves of accepted traces behind their segments.

    Leaves are no part of the commitment. One that any seat shows does for all.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgRevealAnswer"
    SIGNER: ClassVar[str] = "auditor"
    GAS_ITEMS: ClassVar[Mapping[str, int]] = MappingProxyType({"answers": 1, "leaves": 2})
    auditor: Address
    order_id: Hash
    attempt: Count
    round: Count
    stage: Count
    salt: Annotated[bytes, Size(SALT_BYTES, SALT_BYTES)]
    answers: Annotated[tuple[SeatAnswer, ...], Length(1, ANSWERS_MAX, LIMIT_REACHED)]
    leaves: Annotated[tuple[ShownLeaf, ...], Length(0, ANSWERS_MAX, LIMIT_REACHED)]


Message = (
    MsgSend
    | MsgSetEndpoint
    | MsgSetBeaconKey
    | MsgRevokeBeaconKey
    | MsgRegisterProvider
    | MsgLeaveCluster
    | MsgAdmitProvider
    | MsgDismissProvider
    | MsgCertifyProvider
    | MsgDepositBond
    | MsgWithdrawBond
    | MsgPlaceBid
    | MsgChangeBid
    | MsgWithdrawBid
    | MsgSubmitOrder
    | MsgCancelOrder
    | MsgAcceptOrder
    | MsgDeclineOrder
    | MsgStopOrder
    | MsgCommitTraces
    | MsgCloseRound
    | MsgPromiseAudits
    | MsgCommitAnswer
    | MsgRevealAnswer
)


def signer_of(message: Message) -> str:
    """Return the address that must have signed the transaction."""
    address: Address = getattr(message, message.SIGNER)
    return address
