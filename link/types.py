"""The messages of the link as domain values, and the calls that a server has to answer.

Types and fields have the names of ``assay.cluster.v1``. Bounds are stated in the types of the fields
(:mod:`domain.bounds`). They are checked both on sending and on receiving, so no code that uses this link sees a value
out of its bounds.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any, Protocol

from domain.bounds import (
    Address,
    Bits,
    Bps,
    Hash,
    Length,
    MaybeHash,
    Multiple,
    Name,
    Number,
    Pattern,
    PublicKey,
    Range,
    Segment,
    Signature,
    Size,
    Slot,
)
from domain.keys import ShareKey
from domain.limits import (
    METRICS_MAX,
    PATH_MAX,
    PAYLOAD_BYTES_MAX,
    PROBE_PIECES_MAX,
    ROUNDS_MAX,
    SHARE_SEGMENTS_MAX,
    SLOTS_MAX,
    STATE_CHUNK_BYTES,
    TEXT_MAX,
)
from domain.proof.records import AuditPlace, DeliveryManifest, SealedLeaf, ShareClaim, ShareRoots, TraceLeaf
from link.calls import Call

CHUNK_BYTES_MAX = 1 << 20
MESSAGE_BYTES_MAX = 4 << 20
BOUNDARIES_MAX = SHARE_SEGMENTS_MAX  # as many as fit into one message
PAYLOAD_FILES_MAX = 4_096
TASKS_MAX = 64
INDICES_MAX = 4_096
RESULT_LEAVES_MAX = 16_384  # in one answer; the client asks for further pages
UPDATES_MAX = SLOTS_MAX
AT_ONCE_MAX = 64
"""Largest number of shares that a provider trains at once."""
NAN_BITS = 0x7FC00000  # means a loss that is not known yet

Amount = Annotated[int, Range(0, 2**63 - 1)]
"""An amount of bytes, FLOP/s or steps."""
SENTENCE_MAX = 512
Sentence = Annotated[str, Size(0, SENTENCE_MAX)]
Session = Annotated[bytes, Size(0, 16)]
"""A random id of a provider's process, which distinguishes two processes that use the same key."""
Invitation = Annotated[bytes, Size(0, 128)]
"""An invitation of a validator's operator to its cluster; empty if the provider has none."""
Millis = Annotated[int, Range(0, 3_600_000)]
Metrics = Annotated[tuple[Bits, ...], Length(0, METRICS_MAX)]
# Plain names, at most two folders deep, and none of them hidden: no path can leave the job's folder.
_NAME = "[A-Za-z0-9_-][A-Za-z0-9._-]*"
Path = Annotated[
    str,
    Size(1, TEXT_MAX),
    Pattern("a path", f"{_NAME}(/{_NAME}){{0,2}}", "use plain names, at most two folders deep"),
]


# Callers and files


class Role(IntEnum):
    """The relation of a caller to this validator; one caller may have several roles."""

    PROVIDER = 1  # a provider admitted to this cluster
    CONSUMER = 2  # the consumer of an order with a leg of this validator
    AUDITOR = 3  # another validator with a seat in a panel about a round of this one
    APPLICANT = 4  # a provider that applied to this cluster on chain
    WATCHER = 5  # another validator, which may recompute places of this one's rounds
    SUCCESSOR = 6  # the validator of a leg that continues a leg of this one
    STANDER = 7  # a provider that stands for a share, and in whose panel this validator has a seat
    MIRROR = 8  # another validator that a round of this one names as a mirror
    ASKER = 9  # a provider that asks for a receipt of witnesses, of which this validator is one
    WITNESS = 10  # another validator that witnesses a delivery to this one


@dataclass(frozen=True, slots=True)
class Caller:
    """The signer of a request, proven by the envelope."""

    address: Address
    pub_key: PublicKey


@dataclass(frozen=True, slots=True)
class BlobRef:
    """A reference to a blob: its name, which is the SHA-256 of its bytes, and its size."""

    sha256: Hash
    size: Annotated[int, Range(1, PAYLOAD_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class StateRef:
    """A reference to a canonical state: its Merkle root, and the blob with its bytes."""

    root: Hash
    blob: BlobRef


@dataclass(frozen=True, slots=True)
class PayloadFile:
    """A file of a job's folder: its path in the folder, and the blob with its bytes."""

    path: Path
    blob: BlobRef


# Blobs


@dataclass(frozen=True, slots=True)
class StatBlobRequest:
    """A request for the number of bytes of a blob that have arrived."""

    blob: BlobRef


@dataclass(frozen=True, slots=True)
class PutChunkRequest:
    """A request to store bytes of a blob from an offset on; repeating it changes nothing."""

    blob: BlobRef
    offset: Amount
    data: Annotated[bytes, Size(1, CHUNK_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class GetChunkRequest:
    """A request for up to ``length`` bytes of a blob, from ``offset`` on."""

    sha256: Hash
    offset: Amount
    length: Annotated[int, Range(1, CHUNK_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class BlobStatus:
    """The state of a blob's transfer: its first ``held`` bytes have arrived, so the sender continues there."""

    held: Amount
    complete: bool


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of a blob, and the size of the whole blob."""

    data: Annotated[bytes, Size(0, CHUNK_BYTES_MAX)]
    size: Amount


@dataclass(frozen=True, slots=True)
class BandwidthRequest:
    """A request for ``length`` bytes, to measure the bandwidth."""

    length: Annotated[int, Range(1, CHUNK_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class BandwidthReply:
    """Random bytes, which do not compress."""

    data: Annotated[bytes, Size(1, CHUNK_BYTES_MAX)]


# Providers


@dataclass(frozen=True, slots=True)
class Machine:
    """A provider's description of its machine; the validator measures the speed itself."""

    device_class: Name
    memory: Amount  # bytes


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A message of a provider that has applied to the cluster or belongs to it, with a description of its machine."""

    version: Name
    machine: Machine
    features: Annotated[tuple[Name, ...], Length(0, 32)]
    session: Session = b""
    invitation: Invitation = b""


@dataclass(frozen=True, slots=True)
class JoinLimits:
    """The limits that a validator grants: slots at the same time, and the interval of polls."""

    slots: Annotated[int, Range(0, SLOTS_MAX)]
    poll_ms: Millis


@dataclass(frozen=True, slots=True)
class JoinReply:
    """The answer to a JoinRequest: whether the validator accepts the provider for work, the limits, and the reason.

    ``reason`` says why the provider has to wait. If ``probe`` is true, the provider may be measured now. After the
    measurement, the provider sends its request again.
    """

    accepted: bool
    reason: Sentence
    limits: JoinLimits
    probe: bool = False


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """A provider's result of the previous task of a measurement. A request without digests begins a measurement."""

    digests: Annotated[tuple[Hash, ...], Length(0, PROBE_PIECES_MAX)]


@dataclass(frozen=True, slots=True)
class ProbeTask:
    """A timed task of a measurement: to hash ``data``, or to compute ``pieces`` of ``seed`` (see
    :mod:`pol.work.probe`).

    If a task has neither data nor pieces, the measurement has ended; if it ended early, ``text`` has the reason.
    """

    data: Annotated[bytes, Size(0, CHUNK_BYTES_MAX)] = b""
    seed: MaybeHash = b""
    pieces: Annotated[int, Range(0, PROBE_PIECES_MAX)] = 0
    text: Sentence = ""

    @property
    def over(self) -> bool:
        """True if there is no task, so the measurement has ended."""
        return not (self.data or self.pieces)


class Phase(IntEnum):
    """The phase of a provider's work on a share."""

    FETCHING = 1
    TRAINING = 2
    UPLOADING = 3
    SUBMITTED = 4
    FAILED = 5


@dataclass(frozen=True, slots=True)
class Doing:
    """The progress of a provider's work on a share.

    ``loss`` is the bit pattern of an FP32 number (:data:`NAN_BITS` before the first step).
    """

    key: ShareKey
    phase: Phase
    step: Amount
    steps: Amount
    loss: Bits


@dataclass(frozen=True, slots=True)
class PollRequest:
    """A provider's report of its work, and its request for tasks.

    ``speed`` is the provider's own measurement in FLOP/s, of all its machines together; 0 if it has none. ``slots`` is
    the number of shares that it trains at once, each with an equal part of its speed; 0 means one.
    """

    version: Name
    doing: Annotated[tuple[Doing, ...], Length(0, TASKS_MAX)]
    session: Session = b""
    speed: Amount = 0
    # The provider takes only tasks that bonds and cover would pay if another provider's fault made them void.
    cautious: bool = False
    slots: Annotated[int, Range(0, AT_ONCE_MAX)] = 0


@dataclass(frozen=True, slots=True)
class TrainTask:
    """A task to train the share ``key`` from a global state and from the local state of the share's slot."""

    key: ShareKey
    global_in: StateRef
    local_in: StateRef
    payload: Annotated[tuple[PayloadFile, ...], Length(1, PAYLOAD_FILES_MAX)]
    seconds_left: Annotated[int, Range(0, 2**31 - 1)]
    # The delivery has the states at every ``every``-th boundary; 0 means only those at the last one.
    every: Segment = 0
    # Until this chain second, the provider may put its commitment on chain itself.
    deadline: Number = 0
    # The validator's signature of the task (:func:`pol.rules.inclusion.task_sign_bytes`).
    signature: Annotated[bytes, Size(64, 64, blank=True)] = b""
    # The share's bond, as a multiple of its price.
    multiple: Multiple = 1
    # The part of the job bond that pays the share if another provider's fault makes it void.
    cover: Bps = 0


@dataclass(frozen=True, slots=True)
class OpenTask:
    """A task to upload the states of the share ``key`` at the boundaries ``indices``."""

    key: ShareKey
    indices: Annotated[tuple[Segment, ...], Length(1, INDICES_MAX)]


@dataclass(frozen=True, slots=True)
class PollReply:
    """The complete list of a provider's current tasks. The provider drops all tasks that are not in the list.

    ``probe`` is true if the provider may be measured now, because it has nothing to train and its certified measurement
    expires soon. ``idle`` says why there is nothing to train. ``warning`` is a text for the provider's operator.
    """

    train: Annotated[tuple[TrainTask, ...], Length(0, TASKS_MAX)]
    open: Annotated[tuple[OpenTask, ...], Length(0, TASKS_MAX)]
    retry_after_ms: Millis
    probe: bool = False
    idle: Sentence = ""
    warning: Sentence = ""


@dataclass(frozen=True, slots=True)
class ShareSubmission:
    """A signed commitment to a share, without any part of the share itself."""

    claim: ShareClaim
    signature: Signature


@dataclass(frozen=True, slots=True)
class DeliveryOffer:
    """The encrypted delivery of a share: its manifest with the provider's signature, and the blob that it has sent."""

    key: ShareKey
    manifest: DeliveryManifest
    signature: Signature
    ciphertext: BlobRef


@dataclass(frozen=True, slots=True)
class ShownKey:
    """The key that decrypts a delivery (``secret``), and the roots that the commitment hides."""

    key: ShareKey
    secret: Hash
    roots: ShareRoots


@dataclass(frozen=True, slots=True)
class DeliveryReceipt:
    """A validator's signature for a complete ciphertext and, if ``was_shown``, for its key.

    ``at`` is the second of the chain's clock at which the validator signed.
    """

    at: Number
    was_shown: bool
    signature: Signature


@dataclass(frozen=True, slots=True)
class ReceiptReply:
    """The answer to a delivery or a key: as a verdict, with a receipt if the validator can sign one already."""

    accepted: bool
    reason: Annotated[int, Range(0, 2**31 - 1)] = 0
    text: Sentence = ""
    receipt: DeliveryReceipt | None = None


@dataclass(frozen=True, slots=True)
class TraceBoundary:
    """One of the boundaries 1 to n of a trace; its root covers ``metrics``, which are FP32 bit patterns."""

    step: Number
    boundary_root: Hash
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class ShareDelivery:
    """A decrypted delivery: the roots of the commitment, all boundaries, and the blobs of update and local state.

    Both blobs are None if the share ends where the job stopped.
    """

    key: ShareKey
    roots: ShareRoots
    boundaries: Annotated[tuple[TraceBoundary, ...], Length(0, BOUNDARIES_MAX)]
    update: BlobRef | None
    local_out: BlobRef | None

    @property
    def blobs(self) -> tuple[BlobRef, ...]:
        """The blobs of this delivery."""
        return tuple(blob for blob in (self.update, self.local_out) if blob is not None)


@dataclass(frozen=True, slots=True)
class OpeningSubmission:
    """The states of a share at one boundary, as blobs that the provider has sent before."""

    key: ShareKey
    index: Segment
    global_state: BlobRef
    local_state: BlobRef


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a submission: accepted, or rejected with a ``ShareReason`` number and a sentence."""

    accepted: bool
    reason: Annotated[int, Range(0, 2**31 - 1)] = 0
    text: Sentence = ""


# Consumers


@dataclass(frozen=True, slots=True)
class PayloadOffer:
    """The files of an order's job; the hash of their job.json must be the order's job id."""

    order_id: Hash
    files: Annotated[tuple[PayloadFile, ...], Length(1, PAYLOAD_FILES_MAX)]


@dataclass(frozen=True, slots=True)
class StatesRequest:
    """A request for the states at the end of a leg's last verified round."""

    order_id: Hash
    leg: Bits


@dataclass(frozen=True, slots=True)
class StatesManifest:
    """The states at the end of a leg's last verified round. Each root is listed once; states that are not on this
    machine are missing.
    """

    round: Bits
    states: Annotated[tuple[StateRef, ...], Length(0, SLOTS_MAX + 1)]


@dataclass(frozen=True, slots=True)
class StatesOffer:
    """States of an order's consumer from which a leg of the order starts."""

    order_id: Hash
    states: Annotated[tuple[StateRef, ...], Length(1, SLOTS_MAX + 1)]


@dataclass(frozen=True, slots=True)
class PayloadWanted:
    """The blobs of a payload that the validator lacks."""

    missing: Annotated[tuple[BlobRef, ...], Length(0, PAYLOAD_FILES_MAX)]


@dataclass(frozen=True, slots=True)
class PayloadStatusRequest:
    """A request for the state of an order's payload."""

    order_id: Hash


@dataclass(frozen=True, slots=True)
class PayloadState:
    """The state of a payload: whether all blobs have arrived, whether the job loads, and why it does not."""

    complete: bool
    loaded: bool
    reason: Sentence


@dataclass(frozen=True, slots=True)
class ResultRequest:
    """A request for up to ``limit`` leaves of the result of a hand-over round, from leaf ``first`` on."""

    order_id: Hash
    round: Bits
    first: Bits
    limit: Annotated[int, Range(1, RESULT_LEAVES_MAX)]


@dataclass(frozen=True, slots=True)
class ResultLeaf:
    """One encrypted chunk: its leaf in the tree of the ciphertext, and the chunk's leaf in the tree of its state."""

    sealed: SealedLeaf
    state_leaf: Hash


@dataclass(frozen=True, slots=True)
class ResultManifest:
    """The data with which a consumer fetches, checks and decrypts a result. ``count`` is the number of leaves of the
    whole result.
    """

    order_id: Hash
    leg: Bits
    round: Bits
    ciphertext: BlobRef
    count: Bits
    leaves: Annotated[tuple[ResultLeaf, ...], Length(0, RESULT_LEAVES_MAX)]


# Seats in panels


@dataclass(frozen=True, slots=True)
class OpeningRequest:
    """A seat's request for the values with which it recomputes an audit place.

    ``place_index`` is the number of the place in the panel, which decides a ``dispute`` or, if that is 0, audits the
    round. If ``end``, the seat has committed and asks for the states at the end of a segment: those of the provider or,
    from a validator with a seat of an earlier stage, those that this seat computed itself.
    """

    order_id: Hash
    leg: Bits
    round: Annotated[int, Range(0, ROUNDS_MAX - 1)]
    place_index: Annotated[int, Range(0, 1023)]
    dispute: Bits = 0
    end: bool = False


@dataclass(frozen=True, slots=True)
class PlaceRequest:
    """A request, by a party that may challenge a round, for the values with which it recomputes one of the round's
    places.
    """

    order_id: Hash
    leg: Bits
    round: Annotated[int, Range(0, ROUNDS_MAX - 1)]
    place: AuditPlace


@dataclass(frozen=True, slots=True)
class OpenedState:
    """The global and the local state at a boundary, with the boundary's metrics (none at boundary 0)."""

    index: Segment
    global_state: BlobRef
    local_state: BlobRef
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class UpdateRef:
    """The accepted update of a slot, with which a seat recomputes an aggregation."""

    slot: Slot
    update: StateRef


@dataclass(frozen=True, slots=True)
class ChunkOpening:
    """An encrypted chunk of a hand-over round, opened for a seat that encrypts the chunk again.

    ``path`` leads from ``leaf`` to the round's ciphertext root, and ``state_path`` from the leaf of the chunk ``data``
    to the root of its state. ``scalar`` is r_i. It opens no other chunk.
    """

    leaf: SealedLeaf
    path: Annotated[tuple[Hash, ...], Length(0, PATH_MAX)]
    scalar: Hash
    data: Annotated[bytes, Size(1, STATE_CHUNK_BYTES)]
    state_path: Annotated[tuple[Hash, ...], Length(0, PATH_MAX)]


@dataclass(frozen=True, slots=True)
class AuditOpening:
    """The values that a seat needs to recompute a place.

    For segment i, these are the leaves i (none at 0) and i+1, and the states at boundary i. For an update, they are
    leaf n, the states at boundaries 0 and n, and ``local_out``. For an aggregation, they are the updates in slot order,
    and ``states[0]`` with the global state before the round and the order's initial local state. For an encrypted
    chunk, only ``chunk`` is set. If ``ready`` is false, the seat asks again later.
    """

    ready: bool
    retry_after_ms: Millis
    payload: Annotated[tuple[PayloadFile, ...], Length(0, PAYLOAD_FILES_MAX)]
    leaves: Annotated[tuple[TraceLeaf, ...], Length(0, 2)]
    states: Annotated[tuple[OpenedState, ...], Length(0, 2)]
    updates: Annotated[tuple[UpdateRef, ...], Length(0, UPDATES_MAX)]
    local_out: StateRef | None
    chunk: ChunkOpening | None = None


@dataclass(frozen=True, slots=True)
class ShownPlace:
    """The opening of a place of a share, from the provider that stands for the share.

    The provider sends it to each seat of the panel, and has sent all blobs that the opening names before.
    """

    order_id: Hash
    leg: Bits
    round: Annotated[int, Range(0, ROUNDS_MAX - 1)]
    dispute: Bits
    place_index: Annotated[int, Range(0, 1023)]
    opening: AuditOpening


def not_ready(retry_after_ms: int) -> AuditOpening:
    """Return the answer that makes a seat ask again after ``retry_after_ms`` milliseconds."""
    return AuditOpening(
        ready=False,
        retry_after_ms=retry_after_ms,
        payload=(),
        leaves=(),
        states=(),
        updates=(),
        local_out=None,
    )


# The calls


class Handlers(Protocol):
    """The methods by which a validator answers calls. A method may raise ClusterError; any other exception is a bug.

    The methods run on the server's threads, many at once, and must not block. If a method needs time for an answer, it
    returns "ask again later". Before each call, the server calls ``roles``, and refuses a caller that has no role for
    the call. The method itself checks whether the caller is the very provider, consumer or auditor that the request
    concerns.
    """

    def roles(self, caller: Caller) -> frozenset[Role]:
        """Return the caller's roles at this validator, according to the chain.

        The method answers from memory, without a query.
        """
        ...

    def stat_blob(self, caller: Caller, request: StatBlobRequest) -> BlobStatus:
        """Return the number of bytes of the caller's blob that have arrived."""
        ...

    def put_chunk(self, caller: Caller, request: PutChunkRequest) -> BlobStatus:
        """Store bytes of a blob, and return how many of its bytes have arrived."""
        ...

    def get_chunk(self, caller: Caller, request: GetChunkRequest) -> Chunk:
        """Return bytes of a blob that the caller may read."""
        ...

    def join(self, caller: Caller, request: JoinRequest) -> JoinReply:
        """Accept a provider for work, or return the reason why it has to wait."""
        ...

    def probe(self, caller: Caller, request: ProbeRequest) -> ProbeTask:
        """Take the result of a measurement's previous task, and return the next task."""
        ...

    def poll(self, caller: Caller, request: PollRequest) -> PollReply:
        """Return all current tasks of a provider."""
        ...

    def submit_share(self, caller: Caller, request: ShareSubmission) -> Verdict:
        """Accept or reject a signed commitment to a share."""
        ...

    def deliver_share(self, caller: Caller, request: DeliveryOffer) -> ReceiptReply:
        """Accept or reject an encrypted delivery. The reply has a receipt once the commitment is on chain."""
        ...

    def show_key(self, caller: Caller, request: ShownKey) -> ReceiptReply:
        """Accept or reject the key of a delivery for which the caller has a receipt."""
        ...

    def submit_opening(self, caller: Caller, request: OpeningSubmission) -> Verdict:
        """Accept or reject the states of a share at a boundary."""
        ...

    def offer_payload(self, caller: Caller, request: PayloadOffer) -> PayloadWanted:
        """Return the blobs of the job's files that the validator still lacks."""
        ...

    def payload_status(self, caller: Caller, request: PayloadStatusRequest) -> PayloadState:
        """Return whether a consumer's payload has arrived and its job loads."""
        ...

    def get_opening(self, caller: Caller, request: OpeningRequest) -> AuditOpening:
        """Return the values that a seat needs to recompute an audit place."""
        ...

    def show_place(self, caller: Caller, request: ShownPlace) -> Verdict:
        """Take the opening of a place from the provider that stands for the share."""
        ...

    def get_place(self, caller: Caller, request: PlaceRequest) -> AuditOpening:
        """Return the values that a possible challenger needs to recompute a place of a decided panel's round."""
        ...

    def get_result(self, caller: Caller, request: ResultRequest) -> ResultManifest:
        """Return the manifest of the encrypted states after a hand-over round."""
        ...

    def get_states(self, caller: Caller, request: StatesRequest) -> StatesManifest:
        """Return the states at the end of a leg's last verified round."""
        ...

    def offer_states(self, caller: Caller, request: StatesOffer) -> PayloadWanted:
        """Return the blobs of offered states that the validator still lacks."""
        ...


_KNOWN = frozenset({Role.PROVIDER, Role.CONSUMER, Role.AUDITOR, Role.WATCHER, Role.SUCCESSOR, Role.MIRROR})
_PROVIDER = frozenset({Role.PROVIDER})
_CONSUMER = frozenset({Role.CONSUMER})
_AUDITOR = frozenset({Role.AUDITOR})
_STANDER = frozenset({Role.STANDER})
_DELIVERER = _PROVIDER | frozenset({Role.ASKER, Role.WITNESS})
_SENDER = _DELIVERER | _CONSUMER | _STANDER

STAT_BLOB = Call(name="StatBlob", request=StatBlobRequest, reply=BlobStatus, roles=_SENDER)
PUT_CHUNK = Call(
    name="PutChunk",
    request=PutChunkRequest,
    reply=BlobStatus,
    roles=_SENDER,
    size=CHUNK_BYTES_MAX + 256,
)
GET_CHUNK = Call(name="GetChunk", request=GetChunkRequest, reply=Chunk, roles=_KNOWN)
BANDWIDTH = Call(name="Bandwidth", request=BandwidthRequest, reply=BandwidthReply, roles=frozenset())
JOIN = Call(name="Join", request=JoinRequest, reply=JoinReply, roles=frozenset(), size=4 << 10)
PROBE = Call(
    name="Probe",
    request=ProbeRequest,
    reply=ProbeTask,
    roles=_PROVIDER | frozenset({Role.APPLICANT}),
    size=160 << 10,
)
POLL = Call(name="Poll", request=PollRequest, reply=PollReply, roles=_PROVIDER, size=16 << 10)
SUBMIT_SHARE = Call(name="SubmitShare", request=ShareSubmission, reply=Verdict, roles=_PROVIDER)
DELIVER_SHARE = Call(
    name="DeliverShare",
    request=DeliveryOffer,
    reply=ReceiptReply,
    roles=_DELIVERER,
)
SHOW_KEY = Call(name="ShowKey", request=ShownKey, reply=ReceiptReply, roles=_PROVIDER)
SUBMIT_OPENING = Call(name="SubmitOpening", request=OpeningSubmission, reply=Verdict, roles=_PROVIDER)
OFFER_PAYLOAD = Call(name="OfferPayload", request=PayloadOffer, reply=PayloadWanted, roles=_CONSUMER, size=1 << 20)
PAYLOAD_STATUS = Call(name="PayloadStatus", request=PayloadStatusRequest, reply=PayloadState, roles=_CONSUMER)
GET_OPENING = Call(
    name="GetOpening", request=OpeningRequest, reply=AuditOpening, roles=_AUDITOR | frozenset({Role.MIRROR})
)
SHOW_PLACE = Call(name="ShowPlace", request=ShownPlace, reply=Verdict, roles=_STANDER, size=2 << 20)
GET_PLACE = Call(name="GetPlace", request=PlaceRequest, reply=AuditOpening, roles=_CONSUMER | frozenset({Role.WATCHER}))
GET_RESULT = Call(
    name="GetResult", request=ResultRequest, reply=ResultManifest, roles=_CONSUMER | frozenset({Role.AUDITOR})
)
GET_STATES = Call(
    name="GetStates",
    request=StatesRequest,
    reply=StatesManifest,
    roles=_CONSUMER | frozenset({Role.SUCCESSOR, Role.MIRROR, Role.AUDITOR}),
)
OFFER_STATES = Call(name="OfferStates", request=StatesOffer, reply=PayloadWanted, roles=_CONSUMER, size=1 << 20)

CALLS: tuple[Call[Any, Any], ...] = (
    STAT_BLOB,
    PUT_CHUNK,
    GET_CHUNK,
    BANDWIDTH,
    JOIN,
    PROBE,
    POLL,
    SUBMIT_SHARE,
    DELIVER_SHARE,
    SHOW_KEY,
    SUBMIT_OPENING,
    OFFER_PAYLOAD,
    PAYLOAD_STATUS,
    GET_OPENING,
    SHOW_PLACE,
    GET_PLACE,
    GET_RESULT,
    GET_STATES,
    OFFER_STATES,
)
