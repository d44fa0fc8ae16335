"""What a validator's daemon remembers of an order; stored as canonical JSON (``domain.codec``).

Everything here can be written down and read back after a kill; what is only under way (a replay, a transaction) is
not, since :mod:`validator.decide.orders` asks for it again as long as its outcome is missing.
"""

from dataclasses import dataclass
from enum import IntEnum

from domain.records import ShareRef
from link.types import BlobRef, PayloadFile, ShareSubmission, StateRef


@dataclass(frozen=True, slots=True)
class Opening:
    """States at one boundary of a share; ``verified``: they hash to its leaf, so they may be handed on."""

    index: int
    global_state: BlobRef
    local_state: BlobRef
    verified: bool


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome of replaying one place of a share: segment ``place``, or the update (place = n)."""

    place: int
    reason: int  # ShareReason; NONE where it holds
    replayed_root: bytes


@dataclass(frozen=True, slots=True)
class SlotWork:
    """One issue of a slot's share, from its assignment to its verdict."""

    slot: int
    issue: int
    first: int
    count: int
    provider: str
    local_in: StateRef
    reset: bool  # local_in is the order's initial local state
    assigned_at: int  # chain clock
    answer_by: int  # chain clock: the share has to be here
    packet: ShareSubmission | None
    open_by: int  # chain clock: the openings have to be here; 0 until they were asked
    picks: tuple[int, ...]  # the validator's own further segments
    # By their boundaries and places.
    openings: tuple[Opening, ...]
    checked: tuple[Checked, ...]
    # Boundaries that training does not lead to, found after the round was closed.
    broken: tuple[int, ...]
    verdict: int  # ShareReason that ended it; NONE while it stands
    settled: bool  # the chain knows the verdict, or never knew the share


@dataclass(frozen=True, slots=True)
class LocalRound:
    """A round as this daemon ran it. ``works`` holds every issue, in the order of assignment."""

    number: int
    global_in: StateRef
    works: tuple[SlotWork, ...]
    next_global: StateRef | None  # aggregated
    # Accepted shares whose updates do not aggregate: all of them is replayed.
    suspects: tuple[ShareRef, ...]
    # Chain clock: until then providers are asked for audited states; 0 before the lot.
    audit_by: int


@dataclass(frozen=True, slots=True)
class SlotLocal:
    """The local state that a slot starts its next round with."""

    slot: int
    state: StateRef


@dataclass(frozen=True, slots=True)
class Failures:
    """How often a provider failed in rounds that are over and not kept any more."""

    provider: str
    count: int


class PayloadStage(IntEnum):
    """Where the payload of an order stands."""

    ABSENT = 0
    OFFERED = 1
    COMPLETE = 2  # all blobs held
    LOADED = 3  # the job loads and agrees with the order
    BAD = 4


@dataclass(frozen=True, slots=True)
class Payload:
    """The files of the job, and how far loading came."""

    stage: PayloadStage
    files: tuple[PayloadFile, ...]
    decline: int  # AttemptEnd where BAD
    text: str
    initial_global: StateRef | None
    initial_local: StateRef | None


@dataclass(frozen=True, slots=True)
class SealedResult:
    """The encrypted result: root, chunk points and lengths, and the blob of the ciphertext."""

    ciphertext_root: bytes
    blob: BlobRef
    points: tuple[bytes, ...]
    lengths: tuple[int, ...]
    hashes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class LocalOrder:
    """One attempt of an order that this validator won; rounds that are over leave it (``retention``)."""

    order_id: bytes
    attempt: int
    payload: Payload
    rounds: tuple[LocalRound, ...]
    locals: tuple[SlotLocal, ...]
    excluded: tuple[str, ...]  # providers that failed in this order
    failures: tuple[Failures, ...]
    result: SealedResult | None


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """What this validator found about one share, for people and scripts.

    ``reason`` is a ShareReason, NONE where the share was accepted; ``place`` is where it failed: a segment, n for the
    update, -1 where no place is concerned.
    """

    order_id: bytes
    attempt: int
    round: int
    slot: int
    issue: int
    provider: str
    segments: int
    checked: int
    reason: int
    place: int


EMPTY_PAYLOAD = Payload(PayloadStage.ABSENT, (), 0, "", None, None)


def new_order(order_id: bytes, attempt: int) -> LocalOrder:
    """Return the record of an attempt that was just matched."""
    return LocalOrder(order_id, attempt, EMPTY_PAYLOAD, (), (), (), (), None)
