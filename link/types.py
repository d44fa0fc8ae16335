"""What goes over the link, as domain values, and the calls that a server has to answer.

Types and fields are called as in ``assay.cluster.v1``. Bounds stand beside the fields (:mod:`domain.bounds`) and are
checked on the way in and on the way out, so behind this link nobody meets a value out of its bounds.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any, Protocol

from domain.bounds import (
    Address,
    Bits,
    Hash,
    Length,
    MaybeHash,
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
    PAYLOAD_BYTES_MAX,
    PROBE_PIECES_MAX,
    ROUNDS_MAX,
    SHARE_SEGMENTS_MAX,
    SLOTS_MAX,
    TEXT_MAX,
)
from domain.proof.records import ShareClaim, ShareRoots, TraceLeaf
from link.calls import Call

CHUNK_BYTES_MAX = 1 << 20
MESSAGE_BYTES_MAX = 4 << 20
BOUNDARIES_MAX = SHARE_SEGMENTS_MAX  # what fits a message
PAYLOAD_FILES_MAX = 4_096
TASKS_MAX = 64
INDICES_MAX = 4_096
RESULT_LEAVES_MAX = 16_384  # in one answer; the client asks for page after page
UPDATES_MAX = SLOTS_MAX
NAN_BITS = 0x7FC00000  # a loss that is not known yet

Amount = Annotated[int, Range(0, 2**63 - 1)]
"""Bytes, FLOP/s, steps."""
Point = Annotated[bytes, Size(33, 33)]
SENTENCE_MAX = 512
Sentence = Annotated[str, Size(0, SENTENCE_MAX)]
Session = Annotated[bytes, Size(0, 16)]
"""Drawn by each process of a provider: two processes with one key have two."""
Millis = Annotated[int, Range(0, 3_600_000)]
Metrics = Annotated[tuple[Bits, ...], Length(0, METRICS_MAX)]
# Plain names, at most two folders deep, none of them hidden: no path can leave the job directory.
_NAME = "[A-Za-z0-9_-][A-Za-z0-9._-]*"
Path = Annotated[
    str,
    Size(1, TEXT_MAX),
    Pattern("a path", f"{_NAME}(/{_NAME}){{0,2}}", "use plain names, at most two folders deep"),
]


# Who and what


class Role(IntEnum):
    """What a caller is to this validator; one caller may have several roles."""

    PROVIDER = 1  # admitted to this cluster
    CONSUMER = 2  # of an order with a leg of this validator
    AUDITOR = 3  # another validator with a seat in a panel about a round of this one
    APPLICANT = 4  # asked on chain to be in this cluster


@dataclass(frozen=True, slots=True)
class Caller:
    """Who signed the request: proven by the envelope."""

    address: Address
    pub_key: PublicKey


@dataclass(frozen=True, slots=True)
class BlobRef:
    """A blob, named by SHA-256 of its bytes."""

    sha256: Hash
    size: Annotated[int, Range(1, PAYLOAD_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class StateRef:
    """A canonical state: its Merkle root, and the blob of its bytes."""

    root: Hash
    blob: BlobRef


@dataclass(frozen=True, slots=True)
class PayloadFile:
    """A file of the job directory."""

    path: Path
    blob: BlobRef


# Blobs


@dataclass(frozen=True, slots=True)
class StatBlobRequest:
    """How much of a blob is there?"""

    blob: BlobRef


@dataclass(frozen=True, slots=True)
class PutChunkRequest:
    """Bytes of a blob at an offset; repeating it changes nothing."""

    blob: BlobRef
    offset: Amount
    data: Annotated[bytes, Size(1, CHUNK_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class GetChunkRequest:
    """Bytes of a blob from an offset on."""

    sha256: Hash
    offset: Amount
    length: Annotated[int, Range(1, CHUNK_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class BlobStatus:
    """``held`` bytes from the start are there: where to go on."""

    held: Amount
    complete: bool


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of a blob, and the size of the whole."""

    data: Annotated[bytes, Size(0, CHUNK_BYTES_MAX)]
    size: Amount


@dataclass(frozen=True, slots=True)
class BandwidthRequest:
    """Send me ``length`` bytes, so that I can measure the way."""

    length: Annotated[int, Range(1, CHUNK_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class BandwidthReply:
    """Bytes that do not compress."""

    data: Annotated[bytes, Size(1, CHUNK_BYTES_MAX)]


# Providers


@dataclass(frozen=True, slots=True)
class Machine:
    """What a provider says of its machine; how fast it is, the validator measures."""

    device_class: Name
    memory: Amount  # bytes


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """I am in your cluster on the chain, or asked to be; this is my machine."""

    version: Name
    machine: Machine
    features: Annotated[tuple[Name, ...], Length(0, 32)]
    session: Session = b""


@dataclass(frozen=True, slots=True)
class JoinLimits:
    """What the validator grants: slots at a time, and how often to poll."""

    slots: Annotated[int, Range(0, SLOTS_MAX)]
    poll_ms: Millis


@dataclass(frozen=True, slots=True)
class JoinReply:
    """True if the validator takes the provider, with which limits, and else what that waits for.

    ``probe``: it may be measured now, and asks again when it was.
    """

    accepted: bool
    reason: Sentence
    limits: JoinLimits
    probe: bool = False


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What came of the task before; nothing begins a measurement."""

    digests: Annotated[tuple[Hash, ...], Length(0, PROBE_PIECES_MAX)]


@dataclass(frozen=True, slots=True)
class ProbeTask:
    """What to do next, against the clock: ``data`` to hash, or ``pieces`` of ``seed`` to work out.

    Neither: the measurement has ended, early for the reason in ``text``. What pieces are says :mod:`pol.work.probe`.
    """

    data: Annotated[bytes, Size(0, CHUNK_BYTES_MAX)] = b""
    seed: MaybeHash = b""
    pieces: Annotated[int, Range(0, PROBE_PIECES_MAX)] = 0
    text: Sentence = ""

    @property
    def over(self) -> bool:
        """True if there is nothing to do."""
        return not (self.data or self.pieces)


class Phase(IntEnum):
    """What a provider is doing with a share."""

    FETCHING = 1
    TRAINING = 2
    UPLOADING = 3
    SUBMITTED = 4
    FAILED = 5


@dataclass(frozen=True, slots=True)
class Doing:
    """Progress with a share; ``loss`` is FP32 bits (:data:`NAN_BITS` before the first step)."""

    key: ShareKey
    phase: Phase
    step: Amount
    steps: Amount
    loss: Bits


@dataclass(frozen=True, slots=True)
class PollRequest:
    """What I am doing; what is there to do?

    ``speed`` is what the provider measured itself in FLOP/s, 0 where it did not.
    """

    version: Name
    doing: Annotated[tuple[Doing, ...], Length(0, TASKS_MAX)]
    session: Session = b""
    speed: Amount = 0


@dataclass(frozen=True, slots=True)
class TrainTask:
    """Train a slot of a round, which the key names, from these two states; the local one is the slot's."""

    key: ShareKey
    global_in: StateRef
    local_in: StateRef
    payload: Annotated[tuple[PayloadFile, ...], Length(1, PAYLOAD_FILES_MAX)]
    seconds_left: Annotated[int, Range(0, 2**31 - 1)]


@dataclass(frozen=True, slots=True)
class OpenTask:
    """Upload the states at these boundaries."""

    key: ShareKey
    indices: Annotated[tuple[Segment, ...], Length(1, INDICES_MAX)]


@dataclass(frozen=True, slots=True)
class PollReply:
    """Everything that is to be done now: what is not listed is not wanted any more.

    ``probe``: it may be measured now, since it has nothing to train and its certificate ends soon. ``idle`` says why
    there is nothing to train, ``warning`` what the provider's operator has to know.
    """

    train: Annotated[tuple[TrainTask, ...], Length(0, TASKS_MAX)]
    open: Annotated[tuple[OpenTask, ...], Length(0, TASKS_MAX)]
    retry_after_ms: Millis
    probe: bool = False
    idle: Sentence = ""
    warning: Sentence = ""


@dataclass(frozen=True, slots=True)
class ShareSubmission:
    """A signed commitment to a share; nothing of the share itself."""

    claim: ShareClaim
    signature: Signature


@dataclass(frozen=True, slots=True)
class TraceBoundary:
    """Boundary 1..n of a trace; its root covers ``metrics``, FP32 bit patterns."""

    step: Number
    boundary_root: Hash
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class ShareDelivery:
    """What the commitment of a share hides, with all its boundaries; update and local_out were put as blobs before.

    There is neither where the share ends because the job stopped.
    """

    key: ShareKey
    roots: ShareRoots
    boundaries: Annotated[tuple[TraceBoundary, ...], Length(0, BOUNDARIES_MAX)]
    update: BlobRef | None
    local_out: BlobRef | None

    @property
    def blobs(self) -> tuple[BlobRef, ...]:
        """The blobs that were put."""
        return tuple(blob for blob in (self.update, self.local_out) if blob is not None)


@dataclass(frozen=True, slots=True)
class OpeningSubmission:
    """The states at one boundary, put as blobs before."""

    key: ShareKey
    index: Segment
    global_state: BlobRef
    local_state: BlobRef


@dataclass(frozen=True, slots=True)
class Verdict:
    """Accepted, or why not: a ``ShareReason`` number and one sentence."""

    accepted: bool
    reason: Annotated[int, Range(0, 2**31 - 1)] = 0
    text: Sentence = ""


# Consumers


@dataclass(frozen=True, slots=True)
class PayloadOffer:
    """The files of an order's job; their job.json must hash to the order's job id."""

    order_id: Hash
    files: Annotated[tuple[PayloadFile, ...], Length(1, PAYLOAD_FILES_MAX)]


@dataclass(frozen=True, slots=True)
class PayloadWanted:
    """The blobs that the validator lacks."""

    missing: Annotated[tuple[BlobRef, ...], Length(0, PAYLOAD_FILES_MAX)]


@dataclass(frozen=True, slots=True)
class PayloadStatusRequest:
    """Is my payload there, and does it load?"""

    order_id: Hash


@dataclass(frozen=True, slots=True)
class PayloadState:
    """All blobs are there; the job loads; and what is wrong if it does not."""

    complete: bool
    loaded: bool
    reason: Sentence


@dataclass(frozen=True, slots=True)
class ResultRequest:
    """Leaves of what a hand-over round left, from ``first`` on."""

    order_id: Hash
    round: Bits
    first: Bits
    limit: Annotated[int, Range(1, RESULT_LEAVES_MAX)]


@dataclass(frozen=True, slots=True)
class ResultLeaf:
    """One encrypted chunk: its point R_i, the ciphertext's length and hash."""

    point: Point
    length: Bits
    sha256: Hash


@dataclass(frozen=True, slots=True)
class ResultManifest:
    """What the consumer needs to fetch, check and decrypt the result; ``count`` leaves in all."""

    order_id: Hash
    leg: Bits
    round: Bits
    ciphertext: BlobRef
    count: Bits
    leaves: Annotated[tuple[ResultLeaf, ...], Length(0, RESULT_LEAVES_MAX)]


# Seats in panels


@dataclass(frozen=True, slots=True)
class OpeningRequest:
    """What is needed to replay a place of a panel (``place_index``: its number there)."""

    order_id: Hash
    leg: Bits
    round: Annotated[int, Range(0, ROUNDS_MAX - 1)]
    place_index: Annotated[int, Range(0, 1023)]


@dataclass(frozen=True, slots=True)
class OpenedState:
    """The two states at a boundary, with its metrics: none at boundary 0."""

    index: Segment
    global_state: BlobRef
    local_state: BlobRef
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class UpdateRef:
    """An accepted update, for the aggregation."""

    slot: Slot
    update: StateRef


@dataclass(frozen=True, slots=True)
class AuditOpening:
    """Segment i: leaves i (none at 0) and i+1, states at i. Update: leaf n, states 0 and n, local_out.

    Aggregation: the round's opening global state as ``states[0]`` (its local state is the order's
    initial one), and the updates in slot order. Until ``ready``, ask again later.
    """

    ready: bool
    retry_after_ms: Millis
    payload: Annotated[tuple[PayloadFile, ...], Length(0, PAYLOAD_FILES_MAX)]
    leaves: Annotated[tuple[TraceLeaf, ...], Length(0, 2)]
    states: Annotated[tuple[OpenedState, ...], Length(0, 2)]
    updates: Annotated[tuple[UpdateRef, ...], Length(0, UPDATES_MAX)]
    local_out: StateRef | None


def not_ready(retry_after_ms: int) -> AuditOpening:
    """Return the answer "ask again later"."""
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
    """What a validator answers; a call may raise ClusterError, anything else is a bug.

    They run on the server's threads, many at once, and must not block: what takes time is answered
    "ask again". ``roles`` is asked before each call, which is refused unless the caller has a role
    that may make it; whether the caller is *the* provider, consumer or auditor concerned is the
    handler's to check.
    """

    def roles(self, caller: Caller) -> frozenset[Role]:
        """What the caller is to this validator, from the chain; answered from memory."""
        ...

    def stat_blob(self, caller: Caller, request: StatBlobRequest) -> BlobStatus:
        """How much is here of a blob that the caller sends."""
        ...

    def put_chunk(self, caller: Caller, request: PutChunkRequest) -> BlobStatus:
        """Take bytes of a blob."""
        ...

    def get_chunk(self, caller: Caller, request: GetChunkRequest) -> Chunk:
        """Give bytes of a blob to somebody who may read it."""
        ...

    def join(self, caller: Caller, request: JoinRequest) -> JoinReply:
        """Take a provider into work, or say what that waits for."""
        ...

    def probe(self, caller: Caller, request: ProbeRequest) -> ProbeTask:
        """Go on with a measurement."""
        ...

    def poll(self, caller: Caller, request: PollRequest) -> PollReply:
        """Tell a provider all it has to do now."""
        ...

    def submit_share(self, caller: Caller, request: ShareSubmission) -> Verdict:
        """Take a signed commitment to a share."""
        ...

    def deliver_share(self, caller: Caller, request: ShareDelivery) -> Verdict:
        """Take what a commitment hides."""
        ...

    def submit_opening(self, caller: Caller, request: OpeningSubmission) -> Verdict:
        """Take the states at a boundary."""
        ...

    def offer_payload(self, caller: Caller, request: PayloadOffer) -> PayloadWanted:
        """Tell a consumer which files are missing."""
        ...

    def payload_status(self, caller: Caller, request: PayloadStatusRequest) -> PayloadState:
        """Tell a consumer whether its job is there and loads."""
        ...

    def get_opening(self, caller: Caller, request: OpeningRequest) -> AuditOpening:
        """Tell a seat of a panel what replay of a place needs."""
        ...

    def get_result(self, caller: Caller, request: ResultRequest) -> ResultManifest:
        """Tell the consumer where the encrypted states are that a hand-over round left."""
        ...


_KNOWN = frozenset({Role.PROVIDER, Role.CONSUMER, Role.AUDITOR})
_PROVIDER = frozenset({Role.PROVIDER})
_CONSUMER = frozenset({Role.CONSUMER})
_AUDITOR = frozenset({Role.AUDITOR})

STAT_BLOB = Call(name="StatBlob", request=StatBlobRequest, reply=BlobStatus, roles=_PROVIDER | _CONSUMER)
PUT_CHUNK = Call(
    name="PutChunk",
    request=PutChunkRequest,
    reply=BlobStatus,
    roles=_PROVIDER | _CONSUMER,
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
    request=ShareDelivery,
    reply=Verdict,
    roles=_PROVIDER,
    size=MESSAGE_BYTES_MAX,
)
SUBMIT_OPENING = Call(name="SubmitOpening", request=OpeningSubmission, reply=Verdict, roles=_PROVIDER)
OFFER_PAYLOAD = Call(name="OfferPayload", request=PayloadOffer, reply=PayloadWanted, roles=_CONSUMER, size=1 << 20)
PAYLOAD_STATUS = Call(name="PayloadStatus", request=PayloadStatusRequest, reply=PayloadState, roles=_CONSUMER)
GET_OPENING = Call(name="GetOpening", request=OpeningRequest, reply=AuditOpening, roles=_AUDITOR)
GET_RESULT = Call(name="GetResult", request=ResultRequest, reply=ResultManifest, roles=_CONSUMER)

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
    SUBMIT_OPENING,
    OFFER_PAYLOAD,
    PAYLOAD_STATUS,
    GET_OPENING,
    GET_RESULT,
)
