"""Messages that the proof component handles."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar

from domain.bounds import (
    Address,
    Bits,
    Bps,
    Count,
    Hash,
    Length,
    MaybeHash,
    Multiple,
    Number,
    Range,
    Segment,
    Signature,
    Size,
    Slot,
)
from domain.errors import LIMIT_REACHED
from domain.keys import ShareRef
from domain.limits import (
    ANSWERS_MAX,
    CHUNK_TAG_BYTES,
    MIRRORS_MAX,
    PATH_MAX,
    REPLICATED_SEGMENTS_MAX,
    SALT_BYTES,
    SHARES_PER_MESSAGE_MAX,
    STATE_CHUNK_BYTES,
)
from domain.messages import AT_ONCE, LaneHalf, Message
from domain.proof.records import (
    AuditPlace,
    DeliveryManifest,
    OpenedChunk,
    SealedLeaf,
    SeatAnswer,
    ShareClaim,
    ShareRoots,
    ShownLeaf,
    ShownPiece,
)


@dataclass(frozen=True, slots=True)
class SignedShare:
    """A commitment to a share, and the provider's signature of it (:func:`pol.rules.commitment.share_sign_bytes`)."""

    claim: ShareClaim
    signature: Signature


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejection of a share by its validator, with a ``ShareReason``.

    If the reason is a mismatch, ``segment`` is the segment in which the validator found it. If the validator found it
    in the share's update or stop, ``segment`` is the number of the share's segments. If the provider stands for the
    share, a panel recomputes this place.
    """

    ref: ShareRef
    reason: Count
    segment: Segment = 0


@dataclass(frozen=True, slots=True)
class MsgCommitTraces(Message):
    """Put commitments to shares of the open round on chain. The rejections in the message are applied before its
    commitments. A message has at most 128 shares and rejections together.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgCommitTraces"
    SIGNER: ClassVar[str] = "validator"
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    GAS_ITEMS: ClassVar[Mapping[str, int]] = MappingProxyType({"shares": 5, "rejections": 6})
    validator: Address
    order_id: Hash
    leg: Count
    round: Count
    rejections: Annotated[tuple[Rejection, ...], AT_ONCE]
    shares: Annotated[tuple[SignedShare, ...], AT_ONCE]


@dataclass(frozen=True, slots=True)
class AcceptedShare:
    """A share that the validator accepts, with the roots that the share's commitment hides."""

    slot: Slot
    issue: Count
    roots: ShareRoots


@dataclass(frozen=True, slots=True)
class MsgAcceptShares(Message):
    """Accept shares of the open round (at most 128), with their roots. A large round needs several of these messages.

    The slots may come in any order. Shares that end where the job stopped are accepted too. An accepted share can no
    longer be rejected, and its slot cannot be issued again.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgAcceptShares"
    SIGNER: ClassVar[str] = "validator"
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    GAS_ITEMS: ClassVar[Mapping[str, int]] = MappingProxyType({"shares": 4})
    validator: Address
    order_id: Hash
    leg: Count
    round: Count
    shares: Annotated[tuple[AcceptedShare, ...], Length(1, SHARES_PER_MESSAGE_MAX, LIMIT_REACHED)]


@dataclass(frozen=True, slots=True)
class MsgCloseRound(Message):
    """Close the open round, whose slots all have an accepted share, with the root of the next global state.

    If the job stopped in the round, ``stopped`` names the place of the stop, ``next_root`` is empty, and no round
    follows. In a hand-over round, the states after the round are encrypted to the order's key, and ``ciphertext_root``
    is the root over the encrypted chunks. In other rounds it is empty. The last round is a hand-over round, and closing
    it proves the order.

    ``mirrors`` are validators from which seats can fetch the data of their places if ``validator`` does not serve them.
    The mirrors must be distinct and registered. They owe nothing, and they can still be seats.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgCloseRound"
    SIGNER: ClassVar[str] = "validator"
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    GAS_ITEMS: ClassVar[Mapping[str, int]] = MappingProxyType({"mirrors": 1})
    validator: Address
    order_id: Hash
    leg: Count
    round: Count
    next_root: MaybeHash
    ciphertext_root: MaybeHash
    stopped: AuditPlace | None = None
    mirrors: Annotated[tuple[Address, ...], Length(0, MIRRORS_MAX, LIMIT_REACHED)] = ()


@dataclass(frozen=True, slots=True)
class MsgCommitAnswer(Message):
    """Commit to a seat's answers with a hash (:func:`pol.rules.tiers.answers.answer_commitment`). The seat reveals its
    answers later. ``dispute`` is 0 in the panel that audits the round.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgCommitAnswer"
    SIGNER: ClassVar[str] = "auditor"
    LANE: ClassVar[LaneHalf | None] = LaneHalf.SEATS
    auditor: Address
    order_id: Hash
    leg: Count
    round: Count
    stage: Count
    commitment: Hash
    dispute: Count = 0


@dataclass(frozen=True, slots=True)
class MsgRevealAnswer(Message):
    """Reveal the answers that a seat committed to, one per place, and show leaves of accepted traces. A shown leaf is
    the one after a segment that the panel audits. Leaves are not part of the commitment. A leaf that one seat shows
    counts for all seats.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgRevealAnswer"
    SIGNER: ClassVar[str] = "auditor"
    LANE: ClassVar[LaneHalf | None] = LaneHalf.SEATS
    GAS_ITEMS: ClassVar[Mapping[str, int]] = MappingProxyType({"answers": 1, "leaves": 2})
    auditor: Address
    order_id: Hash
    leg: Count
    round: Count
    stage: Count
    salt: Annotated[bytes, Size(SALT_BYTES, SALT_BYTES)]
    answers: Annotated[tuple[SeatAnswer, ...], Length(1, ANSWERS_MAX, LIMIT_REACHED)]
    leaves: Annotated[tuple[ShownLeaf, ...], Length(0, ANSWERS_MAX, LIMIT_REACHED)]
    dispute: Count = 0


@dataclass(frozen=True, slots=True)
class MsgComplain(Message):
    """Prove that a chunk of the states that the validator handed over is wrong, before the order settles.

    ``path`` leads from ``leaf`` to the round's ciphertext root. The leaf alone proves the fault if its point is not on
    the curve, or if no chunk can have its length. Otherwise ``opened`` proves that the ciphertext does not decrypt to
    the chunk that the state has at this place.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgComplain"
    SIGNER: ClassVar[str] = "consumer"
    GAS_EXTRA: ClassVar[int] = 20
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    consumer: Address
    order_id: Hash
    leg: Count
    round: Count
    chunk: Bits
    leaf: SealedLeaf
    path: Annotated[tuple[Hash, ...], Length(0, PATH_MAX)]
    opened: OpenedChunk | None = None


@dataclass(frozen=True, slots=True)
class MsgNeverServed(Message):
    """Report that the signer was not served the encrypted result of the newest verified hand-over round.

    A panel tries to fetch the result, and its seats serve it to the consumer. The chain locks a bond that pays the
    seats, and the consumer pays them if they can fetch the result. If it is unavailable, the validator is at fault.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgNeverServed"
    SIGNER: ClassVar[str] = "consumer"
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    consumer: Address
    order_id: Hash
    leg: Count
    round: Count


@dataclass(frozen=True, slots=True)
class MsgTakeEarly(Message):
    """Take the states of a closed hand-over round before the round is verified.

    The consumer gives up the refund of this round and of every earlier unverified round of the leg, because the states
    contain the work of all these rounds. If one of them becomes void, its price is burnt instead of refunded.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgTakeEarly"
    SIGNER: ClassVar[str] = "consumer"
    consumer: Address
    order_id: Hash
    leg: Count
    round: Count


@dataclass(frozen=True, slots=True)
class MsgReceipt(Message):
    """Post that the complete encrypted delivery of a share arrived. Its provider must then show the key in time.

    ``signature`` is the provider's signature of the manifest (:func:`pol.rules.delivery.manifest_sign_bytes`).
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgReceipt"
    SIGNER: ClassVar[str] = "validator"
    GAS_EXTRA: ClassVar[int] = 3
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    validator: Address
    order_id: Hash
    leg: Count
    round: Count
    slot: Slot
    issue: Count
    manifest: DeliveryManifest
    signature: Signature


@dataclass(frozen=True, slots=True)
class MsgShowKey(Message):
    """Show the key of a share's delivery, and the roots that its commitment hides.

    ``signature`` is the validator's receipt, signed at second ``signed_at`` of the chain's clock
    (:func:`pol.rules.delivery.receipt_sign_bytes`). If ``was_shown``, the receipt is for the ciphertext and the key.
    The signature may be empty if the validator posted its receipt.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgShowKey"
    SIGNER: ClassVar[str] = "provider"
    GAS_EXTRA: ClassVar[int] = 4
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    provider: Address
    order_id: Hash
    leg: Count
    round: Count
    slot: Slot
    issue: Count
    manifest: DeliveryManifest
    key: Hash
    roots: ShareRoots
    signed_at: Number
    was_shown: bool
    signature: Annotated[bytes, Size(64, 64, blank=True)]


@dataclass(frozen=True, slots=True)
class MsgShowChunk(Message):
    """Prove that the delivery of a share, whose key is shown, is not what its commitment promises.

    ``piece`` does not decrypt, or does not have the hash that a root of the commitment or its ``parent`` has for it.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgShowChunk"
    SIGNER: ClassVar[str] = "validator"
    GAS_EXTRA: ClassVar[int] = 120
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    validator: Address
    order_id: Hash
    leg: Count
    round: Count
    slot: Slot
    issue: Count
    piece: ShownPiece
    parent: ShownPiece | None = None


@dataclass(frozen=True, slots=True)
class MsgIncludeShare(Message):
    """Put a commitment to a share on chain without the validator, before the deadline of the share's task.

    ``task_signature`` is the validator's signature of the task (:func:`pol.rules.inclusion.task_sign_bytes`), which
    states ``every``, ``deadline`` (chain clock), ``multiple`` and ``cover``. ``signature`` is the provider's signature
    of the share (:func:`pol.rules.commitment.share_sign_bytes`). The share locks its bond and keeps no slot. The
    validator can still commit it. Otherwise the chain compares it with the accepted share of its slot, as a share that
    was not answered.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgIncludeShare"
    SIGNER: ClassVar[str] = "provider"
    GAS_EXTRA: ClassVar[int] = 8
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    provider: Address
    order_id: Hash
    leg: Count
    round: Count
    slot: Slot
    issue: Count
    commitment: Hash
    signature: Signature
    every: Segment
    deadline: Number
    task_signature: Signature
    multiple: Multiple = 1
    cover: Bps = 0


@dataclass(frozen=True, slots=True)
class MsgAskReceipt(Message):
    """Ask for a receipt of witnesses, because the validator signs none for the delivery of a share.

    The first fields are those of :class:`MsgIncludeShare`: if the share is not on chain, this message includes it.
    Strangers are drawn as witnesses. The provider sends them the ciphertext that ``manifest`` describes, and each
    witness states on chain that it arrived. If two thirds of them do so in time, this is a posted receipt.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgAskReceipt"
    SIGNER: ClassVar[str] = "provider"
    GAS_EXTRA: ClassVar[int] = 12
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    provider: Address
    order_id: Hash
    leg: Count
    round: Count
    slot: Slot
    issue: Count
    commitment: Hash
    signature: Signature
    every: Segment
    deadline: Number
    task_signature: Signature
    manifest: DeliveryManifest
    multiple: Multiple = 1
    cover: Bps = 0


@dataclass(frozen=True, slots=True)
class MsgWitness(Message):
    """State that the complete ciphertext of a delivery arrived, for which a provider asked for a receipt of witnesses.

    The piece of the delivery that was drawn for this witness (:func:`pol.rules.inclusion.witnessed_piece`) has ``size``
    encrypted bytes with the hash ``digest``. ``path`` leads from it to the root of the delivery.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgWitness"
    SIGNER: ClassVar[str] = "validator"
    GAS_EXTRA: ClassVar[int] = 8
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    validator: Address
    order_id: Hash
    leg: Count
    round: Count
    slot: Slot
    issue: Count
    size: Annotated[int, Range(0, STATE_CHUNK_BYTES + CHUNK_TAG_BYTES)]
    digest: Hash
    path: Annotated[tuple[Hash, ...], Length(0, PATH_MAX)]


@dataclass(frozen=True, slots=True)
class MsgShowTrace(Message):
    """Show the hashes of all leaves of a trace, because replicas of the order differ in this share.

    The share is the accepted one of the slot that the chain named (:class:`domain.proof.events.TraceWanted`). The
    leaves must hash to its trace root. A share without a whole segment has no leaves.
    """

    URL: ClassVar[str] = "/assay.pol.v1.MsgShowTrace"
    SIGNER: ClassVar[str] = "validator"
    GAS_EXTRA: ClassVar[int] = 40
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    validator: Address
    order_id: Hash
    leg: Count
    round: Count
    leaves: Annotated[tuple[Hash, ...], Length(0, REPLICATED_SEGMENTS_MAX)]
