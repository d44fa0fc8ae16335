"""Events that the proof component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change
from domain.keys import RoundKey, ShareKey


@dataclass(frozen=True, slots=True)
class OrderVerified(Change):
    """All closed rounds of an order are verified. The order settles at ``settles_at`` on the chain clock.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderVerified):
                print("settles at", event.settles_at)
    """

    KIND: ClassVar[str] = "order.verified"
    order: bytes
    leg: int
    settles_at: int


@dataclass(frozen=True, slots=True)
class ShareCommitted(Change):
    """The commitment to a share is on chain.

    Example::

        for event in order.events():
            if isinstance(event, assay.ShareCommitted):
                print(event.provider, event.share.slot, event.bond)
    """

    KIND: ClassVar[str] = "share.committed"
    share: ShareKey
    provider: str
    commitment: bytes
    signature: bytes
    bond: int
    committed_at: int
    committed_height: int


@dataclass(frozen=True, slots=True)
class ShareSkipped(Change):
    """A share could not be committed, for the ``ShareReason`` in ``reason``.

    Its validator paid ``fee`` (uassay) for it, in addition to the fee of the transaction.
    """

    KIND: ClassVar[str] = "share.skipped"
    share: ShareKey
    provider: str
    reason: int
    fee: int


@dataclass(frozen=True, slots=True)
class ShareRejected(Change):
    """A share was rejected; ``reason`` is a ``ShareReason``.

    Example::

        for event in order.events():
            if isinstance(event, assay.ShareRejected):
                print(event.provider, assay.ShareReason(event.reason).name)
    """

    KIND: ClassVar[str] = "share.rejected"
    share: ShareKey
    provider: str
    reason: int


@dataclass(frozen=True, slots=True)
class ShareDrawn(Change):
    """A public lot drew the segments of a share that its validator has to replay.

    Example::

        for event in order.events():
            if isinstance(event, assay.ShareDrawn):
                print(event.share.slot, event.segments)
    """

    KIND: ClassVar[str] = "share.drawn"
    share: ShareKey
    segments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShareAccepted(Change):
    """A share is accepted in a closed round. The event shows the roots that its commitment hid.

    ``metrics`` are FP32 bit patterns at its last boundary. A share without an update ends where the job stopped, after
    ``segments`` whole segments.

    Example::

        for event in order.events():
            if isinstance(event, assay.ShareAccepted):
                print(event.provider, event.share.round, event.share.slot)
    """

    KIND: ClassVar[str] = "share.accepted"
    share: ShareKey
    provider: str
    trace_root: bytes
    update_root: bytes
    local_out: bytes
    metrics: tuple[int, ...]
    segments: int


@dataclass(frozen=True, slots=True)
class ShareCompared(Change):
    """A rejected share was compared with the accepted share of its slot.

    This happens when their round has been verified.

    If the rejected share was ``right``, the validator ``paid`` its provider: from the withheld coins, the job bond, and
    then the stake. If it was wrong, its bond is ``burnt``. ``paid_from_stake`` and ``burnt_from_stake`` are the parts
    that the validator's stake gave.
    """

    KIND: ClassVar[str] = "share.compared"
    share: ShareKey
    provider: str
    right: bool
    paid: int
    burnt: int
    paid_from_stake: int
    burnt_from_stake: int


@dataclass(frozen=True, slots=True)
class ShareFoundWrong(Change):
    """A panel ruled that a segment of an accepted share is wrong. Only the share's provider is responsible for it."""

    KIND: ClassVar[str] = "share.wrong"
    share: ShareKey
    provider: str


@dataclass(frozen=True, slots=True)
class RoundClosed(Change):
    """A round was closed; its window runs until ``window_ends`` on the chain clock.

    Example::

        for event in order.events():
            if isinstance(event, assay.RoundClosed):
                print(event.round.round, event.window_ends)
    """

    KIND: ClassVar[str] = "round.closed"
    round: RoundKey
    next_root: bytes
    ciphertext_root: bytes
    window_ends: int
    closed_at: int
    closed_height: int


@dataclass(frozen=True, slots=True)
class RoundStopped(Change):
    """A round was closed without a next state, because the job stopped.

    ``kind`` is the ``AuditKind`` of the stopping place.

    Example::

        for event in order.events():
            if isinstance(event, assay.RoundStopped):
                print(event.round.round, event.slot, event.segment)
    """

    KIND: ClassVar[str] = "round.stopped"
    round: RoundKey
    kind: int
    slot: int
    issue: int
    segment: int


@dataclass(frozen=True, slots=True)
class RoundVerified(Change):
    """A round was verified.

    ``withheld`` is the part of its ``price`` that is kept for the validator; the rest was paid.

    ``price`` does not include ``audit_fee``, which went to its panel.

    Example::

        for event in order.events():
            if isinstance(event, assay.RoundVerified):
                print(event.round.round, event.price)
    """

    KIND: ClassVar[str] = "round.verified"
    round: RoundKey
    price: int
    withheld: int
    audit_fee: int


@dataclass(frozen=True, slots=True)
class RoundVoid(Change):
    """A round will never be verified.

    Example::

        for event in order.events():
            if isinstance(event, assay.RoundVoid):
                print(event.round.leg, event.round.round)
    """

    KIND: ClassVar[str] = "round.void"
    round: RoundKey


@dataclass(frozen=True, slots=True)
class HandoverFoundWrong(Change):
    """The consumer proved that the validator encrypted a wrong ``chunk`` of the states that it handed over.

    Example::

        for event in order.events():
            if isinstance(event, assay.HandoverFoundWrong):
                print(event.round.round, event.chunk)
    """

    KIND: ClassVar[str] = "handover.wrong"
    round: RoundKey
    chunk: int


@dataclass(frozen=True, slots=True)
class StageOpened(Change):
    """A stage of a panel opened. Its seats recompute ``places``; the seats are numbered from ``first_seat`` on.

    ``stakes`` are the stakes of the seats, and ``groups`` the groups of places that they recompute; in the last stage,
    where it is -1, a seat recomputes all groups in which its validator had no seat. A stage that ``repeats`` the one
    before has the same seats. ``eligible`` and ``stake`` are the number and the total stake of the validators who have
    a seat or could have had one.
    """

    KIND: ClassVar[str] = "panel.stage"
    round: RoundKey
    stage: int
    seed: bytes
    first_seat: int
    seats: tuple[str, ...]
    places: tuple[int, ...]
    commits_end: int
    reveals_end: int
    is_last: bool
    stakes: tuple[int, ...]
    groups: tuple[int, ...]
    repeats: bool
    eligible: int
    stake: int


@dataclass(frozen=True, slots=True)
class StageEnded(Change):
    """A stage of a panel ended.

    The next stage will have ``wanted`` new seats for each group of places. If fewer than half of the seats answered, it
    ``repeats`` this stage with the same seats. ``last_next`` means that the next stage is the last one.
    """

    KIND: ClassVar[str] = "panel.stage_ended"
    round: RoundKey
    stage: int
    wanted: tuple[int, ...]
    repeats: bool
    last_next: bool


@dataclass(frozen=True, slots=True)
class PanelBegun(Change):
    """A panel has audit room and begins with ``groups`` groups of places; its first seats are drawn next."""

    KIND: ClassVar[str] = "panel.begun"
    round: RoundKey
    groups: int


@dataclass(frozen=True, slots=True)
class PanelSkipped(Change):
    """A closed round got no panel, because its leg's tier draws which rounds have panels."""

    KIND: ClassVar[str] = "panel.skipped"
    round: RoundKey


@dataclass(frozen=True, slots=True)
class PanelWaits(Change):
    """A panel waits, because auditors have no room for it yet."""

    KIND: ClassVar[str] = "panel.waits"
    round: RoundKey


@dataclass(frozen=True, slots=True)
class RoomTaken(Change):
    """A panel now has ``load`` seats at work, which occupy audit room."""

    KIND: ClassVar[str] = "panel.room"
    round: RoundKey
    load: int


@dataclass(frozen=True, slots=True)
class PlaceDrawn(Change):
    """A place was drawn for a panel. The event has its ``AuditKind``, and the chain's root for it, if there is one.

    ``stops`` is true if the job stops at this place according to the chain.
    """

    KIND: ClassVar[str] = "panel.place"
    round: RoundKey
    place: int
    kind: int
    slot: int
    issue: int
    segment: int
    stops: bool
    claim: bytes
    group: int


@dataclass(frozen=True, slots=True)
class AnswerCommitted(Change):
    """A seat committed to its answers.

    If all seats of the stage have now committed, both of its ends become earlier.
    """

    KIND: ClassVar[str] = "panel.committed"
    round: RoundKey
    auditor: str
    stage: int
    commitment: bytes
    commits_end: int
    reveals_end: int


@dataclass(frozen=True, slots=True)
class AnswerRevealed(Change):
    """A seat revealed its answer for one place; ``kind`` is an ``AnswerKind``."""

    KIND: ClassVar[str] = "panel.answer"
    round: RoundKey
    auditor: str
    stage: int
    place: int
    kind: int
    root: bytes
    digest: bytes
    step: int


@dataclass(frozen=True, slots=True)
class SeatRevealed(Change):
    """A seat has revealed all its answers. It may have none."""

    KIND: ClassVar[str] = "panel.revealed"
    round: RoundKey
    auditor: str
    stage: int
    reveals_end: int


@dataclass(frozen=True, slots=True)
class LeafShown(Change):
    """A seat showed the leaf after a segment. The leaf holds the root that the accepted trace has there (``claim``)."""

    KIND: ClassVar[str] = "panel.leaf"
    round: RoundKey
    place: int
    claim: bytes


@dataclass(frozen=True, slots=True)
class SeatSilent(Change):
    """A seat gave no answer for ``places``, and lost ``cut`` of its stake."""

    KIND: ClassVar[str] = "panel.silent"
    round: RoundKey
    auditor: str
    stage: int
    places: tuple[int, ...]
    cut: int


@dataclass(frozen=True, slots=True)
class SeatDiffered(Change):
    """The ruling refutes a seat's answers for ``places``, and the seat lost ``cut`` of its stake."""

    KIND: ClassVar[str] = "panel.differed"
    round: RoundKey
    auditor: str
    stage: int
    places: tuple[int, ...]
    cut: int


@dataclass(frozen=True, slots=True)
class PlaceRuled(Change):
    """A stage decided a place.

    The event has the ``Ruling`` and the answer (``kind``: an ``AnswerKind``, 0 if undecided).

    Example::

        for event in order.events():
            if isinstance(event, assay.PlaceRuled):
                print(event.round.round, event.place, event.stage)
    """

    KIND: ClassVar[str] = "panel.ruled"
    round: RoundKey
    place: int
    stage: int
    ruling: int
    kind: int
    root: bytes
    step: int


@dataclass(frozen=True, slots=True)
class SeatPaid(Change):
    """A seat received ``paid`` for its answers.

    ``from_pot`` of it came from the cuts of other seats and ``from_pool`` from the community pool. The rest is in the
    order's payments.
    """

    KIND: ClassVar[str] = "panel.paid"
    round: RoundKey
    auditor: str
    stage: int
    paid: int
    from_pot: int
    from_pool: int


@dataclass(frozen=True, slots=True)
class PanelEnded(Change):
    """A panel ended; ``burnt`` is the part of its seats' cuts that no one received."""

    KIND: ClassVar[str] = "panel.ended"
    round: RoundKey
    burnt: int
