"""Events that the proof component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change
from domain.keys import RoundKey, ShareKey


@dataclass(frozen=True, slots=True)
class OrderVerified(Change):
    """Every closed round is verified: the order ends at ``settles_at`` on the chain clock.

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
    """A share could not be committed, with a ``ShareReason``."""

    KIND: ClassVar[str] = "share.skipped"
    share: ShareKey
    provider: str
    reason: int


@dataclass(frozen=True, slots=True)
class ShareRejected(Change):
    """A share does not stand any more, with a ``ShareReason``.

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
    """The public lot drew segments of a share.

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
    """A share is in a closed round, with what its commitment hid; ``metrics`` are FP32 bits at its last boundary.

    One without an update ends where the job stopped, after so many whole ``segments``.

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
    """A rejected share was compared with the accepted one of its slot, whose round is verified.

    Where it was ``right``, its provider was ``paid`` by the validator, from what is withheld of its part, its job bond,
    and then its stake; where it was not, its bond is ``burnt``. What the stake gave of either is in the last two.
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
    """A panel found a segment of an accepted share wrong for which its provider alone answers."""

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
    """A round was closed without a next state, because the job stopped at a place of it (an ``AuditKind``).

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
    """A round was verified: of its price, ``withheld`` is kept for the validator, and the rest was paid.

    ``price`` is without the audit fee, which its panel has.

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
class StageOpened(Change):
    """A stage of a panel has its seats, numbered from ``first_seat`` on; ``places`` are those that it is about.

    ``stakes`` are those of the seats, ``eligible`` and ``stake`` those of all who have or could have sat.
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
    eligible: int
    stake: int


@dataclass(frozen=True, slots=True)
class StageEnded(Change):
    """A stage of a panel is over; the next one is to have so many seats (0: there is none)."""

    KIND: ClassVar[str] = "panel.stage_ended"
    round: RoundKey
    stage: int
    wanted: int


@dataclass(frozen=True, slots=True)
class PanelSkipped(Change):
    """The draw left a closed round without a panel, as its leg's tier allows."""

    KIND: ClassVar[str] = "panel.skipped"
    round: RoundKey


@dataclass(frozen=True, slots=True)
class PanelWaits(Change):
    """A panel waits until auditors have room for it."""

    KIND: ClassVar[str] = "panel.waits"
    round: RoundKey


@dataclass(frozen=True, slots=True)
class RoomTaken(Change):
    """A panel takes so much of the auditors' time (ten-thousandths of a validator), or gives it back."""

    KIND: ClassVar[str] = "panel.room"
    round: RoundKey
    load: int


@dataclass(frozen=True, slots=True)
class PlaceDrawn(Change):
    """A place of a panel was drawn, with an ``AuditKind``, and the root that the chain claims there, if it has one.

    ``stops``: the chain has it that the job stops there.
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


@dataclass(frozen=True, slots=True)
class AnswerCommitted(Change):
    """A seat committed to its answers; the parts of the stage end when they do now, because the last one did it."""

    KIND: ClassVar[str] = "panel.committed"
    round: RoundKey
    auditor: str
    stage: int
    commitment: bytes
    commits_end: int
    reveals_end: int


@dataclass(frozen=True, slots=True)
class AnswerRevealed(Change):
    """A seat showed what it says of a place, with an ``AnswerKind``."""

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
    """A seat has shown all its answers, if it has any."""

    KIND: ClassVar[str] = "panel.revealed"
    round: RoundKey
    auditor: str
    stage: int
    reveals_end: int


@dataclass(frozen=True, slots=True)
class LeafShown(Change):
    """A seat showed the leaf behind a segment: what the accepted trace claims there."""

    KIND: ClassVar[str] = "panel.leaf"
    round: RoundKey
    place: int
    claim: bytes


@dataclass(frozen=True, slots=True)
class SeatSilent(Change):
    """A seat was silent on ``places``, and lost ``cut`` of its stake."""

    KIND: ClassVar[str] = "panel.silent"
    round: RoundKey
    auditor: str
    stage: int
    places: tuple[int, ...]
    cut: int


@dataclass(frozen=True, slots=True)
class SeatDiffered(Change):
    """A seat's answers on ``places`` are not the ruling, and it lost ``cut`` of its stake."""

    KIND: ClassVar[str] = "panel.differed"
    round: RoundKey
    auditor: str
    stage: int
    places: tuple[int, ...]
    cut: int


@dataclass(frozen=True, slots=True)
class PlaceRuled(Change):
    """A place was decided by a stage, with a ``Ruling``, and what was found: an ``AnswerKind``, 0 where undecided.

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
    """A seat got ``paid`` for its answers, of it so much from what other seats lost and from the community pool.

    The rest is among the payments of the order.
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
    """A panel is over; ``burnt`` is what its seats lost and nobody got."""

    KIND: ClassVar[str] = "panel.ended"
    round: RoundKey
    burnt: int
