"""Messages that change the state, as domain values; field names equal those of the protobuf messages.

``SIGNER`` names the field whose account must sign: the account whose money or duty the message touches.
"""

from dataclasses import dataclass
from typing import ClassVar

from domain.records import (
    AuditAnswer,
    Coin,
    Conditions,
    JobTerms,
    Offer,
    ShareClaim,
    ShareKey,
    ShareRef,
)
from domain.records import TraceLeaf as TraceLeaf  # noqa: PLC0414 -- where many import it from


@dataclass(frozen=True, slots=True)
class MsgSend:
    """Move coins between accounts (``cosmos.bank.v1beta1.MsgSend``)."""

    SIGNER: ClassVar[str] = "from_address"
    from_address: str
    to_address: str
    amount: tuple[Coin, ...]


@dataclass(frozen=True, slots=True)
class MsgSetEndpoint:
    """Publish where a validator's cluster service listens and the certificate it presents."""

    SIGNER: ClassVar[str] = "operator"
    operator: str
    endpoint: str
    certificate: bytes


@dataclass(frozen=True, slots=True)
class MsgRegisterProvider:
    """Join the cluster of a validator (again: move to another one, when no share is committed)."""

    SIGNER: ClassVar[str] = "provider"
    provider: str
    validator: str


@dataclass(frozen=True, slots=True)
class MsgLeaveCluster:
    """Leave the cluster."""

    SIGNER: ClassVar[str] = "provider"
    provider: str


@dataclass(frozen=True, slots=True)
class MsgCertifyProvider:
    """State what the validator measured of a provider in its cluster."""

    SIGNER: ClassVar[str] = "validator"
    validator: str
    provider: str
    device_class: str
    speed: int
    memory: int
    bandwidth: int
    valid_for: int


@dataclass(frozen=True, slots=True)
class MsgDepositBond:
    """Move coins from the account into its bond account (validators: the market bond; providers: share bonds)."""

    SIGNER: ClassVar[str] = "owner"
    owner: str
    amount: int


@dataclass(frozen=True, slots=True)
class MsgWithdrawBond:
    """Ask for free bond coins back; they arrive after ``bond_wait``."""

    SIGNER: ClassVar[str] = "owner"
    owner: str
    amount: int


@dataclass(frozen=True, slots=True)
class MsgPlaceBid:
    """Place a standing bid; its id is the hash of chain, sender, sequence and message index."""

    SIGNER: ClassVar[str] = "validator"
    validator: str
    offer: Offer
    capacity: int
    duration: int


@dataclass(frozen=True, slots=True)
class MsgChangeBid:
    """Change price and capacity of a bid, and prolong it; the book sees it as new."""

    SIGNER: ClassVar[str] = "validator"
    validator: str
    bid_id: bytes
    price: int
    capacity: int
    duration: int


@dataclass(frozen=True, slots=True)
class MsgWithdrawBid:
    """Take a bid out of the book; running assignments go on."""

    SIGNER: ClassVar[str] = "validator"
    validator: str
    bid_id: bytes


@dataclass(frozen=True, slots=True)
class MsgSubmitOrder:
    """Submit an order and lock its deposit. ``key_proof`` is a signature by the per-order key (proof of possession)."""

    SIGNER: ClassVar[str] = "consumer"
    consumer: str
    order_key: bytes
    key_proof: bytes
    terms: JobTerms
    conditions: Conditions
    price_limit: int
    deposit: int
    time_to_live: int
    deadline: int  # seconds from inclusion
    rematch: bool


@dataclass(frozen=True, slots=True)
class MsgCancelOrder:
    """Cancel an order that is not matched."""

    SIGNER: ClassVar[str] = "consumer"
    consumer: str
    order_id: bytes


@dataclass(frozen=True, slots=True)
class MsgAcceptOrder:
    """Accept a matched order: payload and data are held, the job loads, the work agrees."""

    SIGNER: ClassVar[str] = "validator"
    validator: str
    order_id: bytes
    attempt: int


@dataclass(frozen=True, slots=True)
class MsgDeclineOrder:
    """Decline a matched order with an ``AttemptEnd`` reason (1, 2, 3 or 10,010)."""

    SIGNER: ClassVar[str] = "validator"
    validator: str
    order_id: bytes
    attempt: int
    reason: int


@dataclass(frozen=True, slots=True)
class MsgStopOrder:
    """Give up a running order: the attempt fails."""

    SIGNER: ClassVar[str] = "validator"
    validator: str
    order_id: bytes
    attempt: int


@dataclass(frozen=True, slots=True)
class SignedShare:
    """A share with its provider's signature over :func:`pol.rules.commitment.share_sign_bytes`."""

    claim: ShareClaim
    signature: bytes


@dataclass(frozen=True, slots=True)
class Rejection:
    """A share that the validator rejects, with a ``ShareReason``."""

    ref: ShareRef
    reason: int


@dataclass(frozen=True, slots=True)
class MsgCommitTraces:
    """Put shares of the open round on chain (at most 128); rejections are applied first."""

    SIGNER: ClassVar[str] = "validator"
    validator: str
    order_id: bytes
    attempt: int
    round: int
    rejections: tuple[Rejection, ...]
    shares: tuple[SignedShare, ...]


@dataclass(frozen=True, slots=True)
class MsgReportProvider:
    """Report a share that is provably wrong: the leaves of the segment and the replayed root.

    For segment i < n: leaves i and i+1, ``replayed_root`` is the boundary root that replay gives for i+1. For the
    update (segment = n): leaves 0 and n, ``replayed_root`` = hash of update root and local_out.
    """

    SIGNER: ClassVar[str] = "validator"
    validator: str
    order_id: bytes
    attempt: int
    round: int
    ref: ShareRef
    segment: int
    leaves: tuple[TraceLeaf, ...]
    replayed_root: bytes

    @property
    def key(self) -> ShareKey:
        """The share that is reported."""
        return ShareKey(self.order_id, self.attempt, self.round, self.ref.slot, self.ref.issue)


@dataclass(frozen=True, slots=True)
class MsgObjectReport:
    """Object to a report within ``report_window``."""

    SIGNER: ClassVar[str] = "provider"
    provider: str
    order_id: bytes
    attempt: int
    round: int
    ref: ShareRef

    @property
    def key(self) -> ShareKey:
        """The share that is reported."""
        return ShareKey(self.order_id, self.attempt, self.round, self.ref.slot, self.ref.issue)


@dataclass(frozen=True, slots=True)
class MsgCloseRound:
    """Close the open round: accepted shares in slot order, and the next global state root."""

    SIGNER: ClassVar[str] = "validator"
    validator: str
    order_id: bytes
    attempt: int
    round: int
    shares: tuple[ShareRef, ...]
    next_root: bytes


@dataclass(frozen=True, slots=True)
class MsgProve:
    """Proof of execution: the ciphertext root over the result's chunks, when the last round is closed."""

    SIGNER: ClassVar[str] = "validator"
    validator: str
    order_id: bytes
    attempt: int
    final_root: bytes
    ciphertext_root: bytes
    chunks: int


@dataclass(frozen=True, slots=True)
class MsgAnswerAudit:
    """Answer all places of a round's audit, in their order."""

    SIGNER: ClassVar[str] = "auditor"
    auditor: str
    order_id: bytes
    attempt: int
    round: int
    answers: tuple[AuditAnswer, ...]


Message = (
    MsgSend
    | MsgSetEndpoint
    | MsgRegisterProvider
    | MsgLeaveCluster
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
    | MsgReportProvider
    | MsgObjectReport
    | MsgCloseRound
    | MsgProve
    | MsgAnswerAudit
)


def signer_of(message: Message) -> str:
    """Return the address that must have signed the transaction."""
    address: str = getattr(message, message.SIGNER)
    return address
