"""Events that the proof component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change
from domain.keys import PanelKey, RoundKey, ShareKey


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
    """The commitment to a share is on chain, and ``bond`` (uassay) is locked from its provider's bond account.

    If ``was_included``, the provider had put the commitment on chain itself, and the bond was locked before.
    ``multiple`` is the bond as a multiple of the share's price. ``cover`` (bps) is the part of the leg's job bond that
    pays the share if another provider's fault makes it void. ``late`` says that roots of the round could be public
    before, because all replicas of the order had committed.

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
    was_included: bool = False
    multiple: int = 1
    cover: int = 0
    late: bool = False


@dataclass(frozen=True, slots=True)
class ShareIncluded(Change):
    """A provider put its commitment to a share on chain itself, and ``bond`` (uassay) is locked from its bond account.

    The share keeps no slot. It starts from the local state with the root ``local_in``. ``task_issue`` is the issue of
    the provider's task. The share has another one if that issue has the share of another provider.
    """

    KIND: ClassVar[str] = "share.included"
    share: ShareKey
    provider: str
    commitment: bytes
    signature: bytes
    local_in: bytes
    bond: int
    committed_at: int
    committed_height: int
    multiple: int = 1
    cover: int = 0
    task_issue: int = 0
    late: bool = False


@dataclass(frozen=True, slots=True)
class ShareSkipped(Change):
    """A share was not committed; ``reason`` is the ``ShareReason`` that prevented it. The validator that sent the
    commitment paid ``fee`` (uassay) for this share, in addition to the fee of the transaction.
    """

    KIND: ClassVar[str] = "share.skipped"
    share: ShareKey
    provider: str
    reason: int
    fee: int


@dataclass(frozen=True, slots=True)
class ShareRejected(Change):
    """A share was rejected, or dropped because its leg ended; ``reason`` is a ``ShareReason``. A share that is dropped
    may have been accepted before; ``was_accepted`` is then true.

    Example::

        for event in order.events():
            if isinstance(event, assay.ShareRejected):
                print(event.provider, assay.ShareReason(event.reason).name)
    """

    KIND: ClassVar[str] = "share.rejected"
    share: ShareKey
    provider: str
    reason: int
    was_accepted: bool
    segment: int = 0


@dataclass(frozen=True, slots=True)
class ShareDrawn(Change):
    """A public lot drew ``segments`` of a share, often none. The validator of the share has to replay these segments.

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
    """A share of the open round is accepted. The event shows the roots that the share's commitment hid. ``metrics`` are
    the metrics at the share's last boundary, as FP32 bit patterns. If ``update_root`` is empty, the share ends where
    the job stopped, after ``segments`` whole segments and ``steps`` steps.

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
    steps: int


@dataclass(frozen=True, slots=True)
class ShareCompared(Change):
    """A rejected share was compared with the accepted share of its slot, just before their round is verified.

    The rejected share is ``right`` if its commitment follows from the roots of the accepted share. The bond of the
    rejected share returns to its provider in any case.

    If a validator rejected a right share as a mismatch, the validator pays for the share, unless a later share of the
    same provider was accepted. ``paid`` (uassay) went to the provider, and ``burnt`` (uassay) was burnt. These coins
    came from the withheld coins, then from the job bond, and then from the stake. ``paid_from_stake`` and
    ``burnt_from_stake`` are the parts of the two amounts that came from the stake.
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
class ShareTaken(Change):
    """A share of a void round was taken over by the next leg of its order, with its bond. ``share`` is its new key, and
    ``from_leg`` the leg from which it was taken over.
    """

    KIND: ClassVar[str] = "share.taken"
    share: ShareKey
    provider: str
    from_leg: int


@dataclass(frozen=True, slots=True)
class DeliveryReceived(Change):
    """A validator posted that the encrypted delivery of a share arrived, or two thirds of the witnesses stated it. The
    provider must show the key before ``show_by`` on the chain clock.

    Example::

        for event in order.events():
            if isinstance(event, assay.DeliveryReceived):
                print("slot", event.share.slot, "must show its key before", event.show_by)
    """

    KIND: ClassVar[str] = "delivery.received"
    share: ShareKey
    root: bytes
    key_hash: bytes
    segments: int
    update_chunks: int
    every: int
    show_by: int


@dataclass(frozen=True, slots=True)
class ReceiptAsked(Change):
    """A provider asked for a receipt of witnesses for the delivery of its share, because its validator signs none.

    Example::

        for event in order.events():
            if isinstance(event, assay.ReceiptAsked):
                print("no receipt for slot", event.share.slot, "of", event.provider)
    """

    KIND: ClassVar[str] = "receipt.asked"
    share: ShareKey
    provider: str
    root: bytes
    key_hash: bytes
    segments: int
    update_chunks: int
    every: int


@dataclass(frozen=True, slots=True)
class WitnessesDrawn(Change):
    """A lot drew the witnesses of a delivery. They can state that it arrived until ``until`` on the chain clock.

    ``seed`` draws a piece of the delivery for each of them.

    Example::

        for event in order.events():
            if isinstance(event, assay.WitnessesDrawn):
                print(event.share.slot, event.witnesses)
    """

    KIND: ClassVar[str] = "receipt.drawn"
    share: ShareKey
    witnesses: tuple[str, ...]
    seed: bytes
    until: int


@dataclass(frozen=True, slots=True)
class DeliveryWitnessed(Change):
    """A witness stated that the ciphertext of a delivery arrived. The share's bond paid it ``paid`` (uassay).

    Example::

        for event in order.events():
            if isinstance(event, assay.DeliveryWitnessed):
                print(event.share.slot, "arrived at", event.witness)
    """

    KIND: ClassVar[str] = "receipt.witnessed"
    share: ShareKey
    witness: str
    paid: int


@dataclass(frozen=True, slots=True)
class DeliveryKeyShown(Change):
    """A provider showed the key of its delivery, and the roots that its commitment hides. From now on, the validator
    can no longer reject the share as unanswered, unless it shows a wrong piece of the delivery.

    Example::

        for event in order.events():
            if isinstance(event, assay.DeliveryKeyShown):
                print(event.provider, event.share.slot)
    """

    KIND: ClassVar[str] = "delivery.shown"
    share: ShareKey
    provider: str
    root: bytes
    key_hash: bytes
    every: int
    key: bytes
    trace_root: bytes
    update_root: bytes
    local_out: bytes
    metrics: tuple[int, ...]
    segments: int
    steps: int
    update_chunks: int


@dataclass(frozen=True, slots=True)
class DeliveryFoundWrong(Change):
    """A validator showed a piece of a delivery that is not what the commitment promises. The share is unanswered.

    Example::

        for event in order.events():
            if isinstance(event, assay.DeliveryFoundWrong):
                print(event.provider, "delivered a wrong piece", event.piece)
    """

    KIND: ClassVar[str] = "delivery.wrong"
    share: ShareKey
    provider: str
    piece: int


@dataclass(frozen=True, slots=True)
class ShareFoundWrong(Change):
    """A panel ruled that a segment of an accepted share is wrong. Only the share's provider is responsible for that."""

    KIND: ClassVar[str] = "share.wrong"
    share: ShareKey
    provider: str


@dataclass(frozen=True, slots=True)
class ShareStood(Change):
    """A panel decided about a share whose provider stands for it; ``right`` and ``wrong`` are false if it could not.

    The validator pays the provider of a right share. ``paid`` (uassay) went to the provider, ``burnt`` was burnt, and
    ``to_seats`` is for the seats of the panel. ``from_stake`` is the part of ``paid`` and ``burnt`` that came from the
    validator's stake, and ``burnt_from_stake`` the part of ``burnt``. ``to_seats`` came from the stake as well.
    """

    KIND: ClassVar[str] = "share.stood"
    panel: PanelKey
    share: ShareKey
    provider: str
    right: bool
    wrong: bool
    paid: int
    burnt: int
    from_stake: int
    burnt_from_stake: int
    to_seats: int


@dataclass(frozen=True, slots=True)
class VoidSharePaid(Change):
    """A right share whose round became void by another provider's fault was paid, after its provider stood for it.

    Of its ``value`` (uassay), which it would have earned, ``from_bonds`` came from the bonds of wrong shares, and
    ``from_cover`` from the job bond.

    Example::

        for event in order.events():
            if isinstance(event, assay.VoidSharePaid):
                print(event.provider, event.from_bonds + event.from_cover, "of", event.value)
    """

    KIND: ClassVar[str] = "share.void_paid"
    share: ShareKey
    provider: str
    value: int
    from_bonds: int
    from_cover: int


@dataclass(frozen=True, slots=True)
class RoundClosed(Change):
    """A round was closed. Its window ends at ``window_ends`` on the chain clock; the round is not paid before that.
    ``mirrors`` are the validators from which seats can fetch data if the round's own validator does not serve them.

    It can be challenged until ``challenges_end``, and is not paid before that either. ``time_left`` is the number of
    seconds from the close to the order's deadline. ``cover`` (bps) is the highest cover of the round's shares. ``late``
    says that one of its shares was committed when roots of the round could be public.

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
    challenges_end: int
    mirrors: tuple[str, ...]
    time_left: int = 0
    cover: int = 0
    late: bool = False


@dataclass(frozen=True, slots=True)
class RoundCleared(Change):
    """A round waits only for the end of the time in which the order lets it be challenged.

    So it no longer counts among the rounds that are closed and not verified.
    """

    KIND: ClassVar[str] = "round.cleared"
    round: RoundKey


@dataclass(frozen=True, slots=True)
class RoundStopped(Change):
    """A round was closed without a next state, because the job stopped. ``kind`` is the ``AuditKind`` of the place at
    which the job stopped; ``slot``, ``issue`` and ``segment`` name this place.

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
    """A round was verified. Its ``price`` (uassay) was paid, except the part ``withheld``, which is kept for the
    validator until the order settles. ``audit_fee`` (uassay) is not part of the price; it paid the round's panel.

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
    """A round became void: it will never be verified or paid.

    Example::

        for event in order.events():
            if isinstance(event, assay.RoundVoid):
                print(event.round.leg, event.round.round)
    """

    KIND: ClassVar[str] = "round.void"
    round: RoundKey
    void_at: int = 0
    by_validator: bool = False


@dataclass(frozen=True, slots=True)
class HandoverFoundWrong(Change):
    """The consumer proved that a chunk of the states that the validator handed over is wrong. ``chunk`` is the number
    of this chunk.

    Example::

        for event in order.events():
            if isinstance(event, assay.HandoverFoundWrong):
                print(event.round.round, event.chunk)
    """

    KIND: ClassVar[str] = "handover.wrong"
    round: RoundKey
    chunk: int


@dataclass(frozen=True, slots=True)
class HandoverTaken(Change):
    """The consumer took the states of a hand-over round before the round was verified.

    ``refund`` (uassay) is the part of the deposit that this message gave up: it is burnt if the rounds become void.

    Example::

        for event in order.events():
            if isinstance(event, assay.HandoverTaken):
                print(event.round.round, event.refund)
    """

    KIND: ClassVar[str] = "handover.taken"
    round: RoundKey
    refund: int


@dataclass(frozen=True, slots=True)
class StageOpened(Change):
    """A stage of a panel opened. Its seats recompute ``places``; the seats are numbered from ``first_seat`` on.

    ``stakes`` has the stake of each seat's validator, and ``groups`` the group of places that each seat recomputes. In
    the last stage, the group is -1: the seat recomputes all groups in which its validator had no seat in earlier
    stages. If ``repeats`` is true, this stage has the same seats as the stage before it. ``eligible`` is the number of
    validators that have a seat or could have had one, and ``stake`` is their total stake (uassay).
    """

    KIND: ClassVar[str] = "panel.stage"
    panel: PanelKey
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
    """A stage of a panel ended. ``wanted`` has the number of new seats in the next stage for each group of places.
    ``repeats`` is true if the next stage has the same seats again, because fewer than half of them answered.
    ``last_next`` is true if the next stage is the last one. ``review`` says whether a review may follow.
    """

    KIND: ClassVar[str] = "panel.stage_ended"
    panel: PanelKey
    stage: int
    wanted: tuple[int, ...]
    repeats: bool
    last_next: bool
    review: int


@dataclass(frozen=True, slots=True)
class ReviewSpared(Change):
    """The seed of a panel's next stage drew no review of the stage before, whose places are ruled next."""

    KIND: ClassVar[str] = "panel.review_spared"
    panel: PanelKey


@dataclass(frozen=True, slots=True)
class PanelBegun(Change):
    """A panel has audit room and begins with ``groups`` groups of places; its first seats are drawn next."""

    KIND: ClassVar[str] = "panel.begun"
    panel: PanelKey
    groups: int


@dataclass(frozen=True, slots=True)
class DisputePanelOpened(Change):
    """A panel was opened that decides a dispute. If ``last_next`` is true, its first stage is its last one."""

    KIND: ClassVar[str] = "panel.opened"
    panel: PanelKey
    last_next: bool


@dataclass(frozen=True, slots=True)
class StatesPanelOpened(Change):
    """A panel was opened that tries to fetch the states that a verified round left, because the next leg's validator
    (``asker``) could not. If ``last_next`` is true, its first stage is its last one.
    """

    KIND: ClassVar[str] = "panel.states"
    panel: PanelKey
    asker: str
    last_next: bool


@dataclass(frozen=True, slots=True)
class StatesRuled(Change):
    """A panel about the states that a verified round left is over. ``ruling`` is a ``Ruling``: the states can be
    fetched (``RIGHT``), they cannot (``WRONG``), or this is undecided.

    ``leg`` is the leg whose validator asked, and ``asked`` // 2 is the number of panels for which it has asked so far.
    If the leg goes on, its time to accept begins at ``asked_at``.

    Example::

        for event in order.events():
            if isinstance(event, assay.StatesRuled):
                print(event.panel.round, event.ruling)
    """

    KIND: ClassVar[str] = "states.ruled"
    panel: PanelKey
    leg: int
    asker: str
    ruling: int
    asked: int
    asked_at: int


@dataclass(frozen=True, slots=True)
class ResultMissed(Change):
    """The consumer (``asker``) was not served the encrypted result of a hand-over round, and ``bond`` (uassay) is
    locked. A panel tries to fetch the result. If ``last_next`` is true, its first stage is its last one.

    Example::

        for event in order.events():
            if isinstance(event, assay.ResultMissed):
                print(event.panel.round, event.bond)
    """

    KIND: ClassVar[str] = "result.missed"
    panel: PanelKey
    asker: str
    bond: int
    last_next: bool


@dataclass(frozen=True, slots=True)
class ResultRuled(Change):
    """A panel about the encrypted result of a hand-over round is over. ``ruling`` is a ``Ruling``: the result can be
    fetched (``RIGHT``), it cannot (``WRONG``), or this is undecided.

    If ``settles_at`` is not 0, the order waits for its settlement until this second of the chain clock.

    Example::

        for event in order.events():
            if isinstance(event, assay.ResultRuled):
                print(event.panel.round, event.ruling)
    """

    KIND: ClassVar[str] = "result.ruled"
    panel: PanelKey
    asker: str
    ruling: int
    settles_at: int


@dataclass(frozen=True, slots=True)
class PanelSkipped(Change):
    """A closed round got no panel: in the tier of its leg, a lot decides which rounds have panels."""

    KIND: ClassVar[str] = "panel.skipped"
    panel: PanelKey


@dataclass(frozen=True, slots=True)
class PanelRecalled(Change):
    """A closed round that was not drawn gets a panel, because a provider put a share of it on chain itself."""

    KIND: ClassVar[str] = "panel.recalled"
    panel: PanelKey


@dataclass(frozen=True, slots=True)
class PanelWaits(Change):
    """A panel waits until there is audit room for it."""

    KIND: ClassVar[str] = "panel.waits"
    panel: PanelKey


@dataclass(frozen=True, slots=True)
class RoomTaken(Change):
    """A panel now has ``load`` seats at work, which occupy audit room."""

    KIND: ClassVar[str] = "panel.room"
    panel: PanelKey
    load: int


@dataclass(frozen=True, slots=True)
class PlaceDrawn(Change):
    """A place was drawn for a panel. ``place`` is its number in the panel, and ``kind`` is its ``AuditKind``. ``claim``
    is the chain's root for the place; it is empty if the chain has no such root. ``stops`` is true if, according to the
    chain, the job stops at this place. ``chunk`` is the number of the encrypted chunk of a hand-over.
    """

    KIND: ClassVar[str] = "panel.place"
    panel: PanelKey
    place: int
    kind: int
    slot: int
    issue: int
    segment: int
    stops: bool
    claim: bytes
    group: int
    chunk: int


@dataclass(frozen=True, slots=True)
class AnswerCommitted(Change):
    """A seat committed to its answers. The seats of the stage can commit until ``commits_end`` and then reveal until
    ``reveals_end``. If all seats have committed earlier, both times become earlier.
    """

    KIND: ClassVar[str] = "panel.committed"
    panel: PanelKey
    auditor: str
    stage: int
    commitment: bytes
    commits_end: int
    reveals_end: int


@dataclass(frozen=True, slots=True)
class AnswerRevealed(Change):
    """A seat revealed its answer for one place; ``kind`` is an ``AnswerKind``.

    ``earlier`` has the digests of its answer with the seeds of the earlier stages.
    """

    KIND: ClassVar[str] = "panel.answer"
    panel: PanelKey
    auditor: str
    stage: int
    place: int
    kind: int
    root: bytes
    digest: bytes
    step: int
    earlier: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class SeatRevealed(Change):
    """A seat has revealed all its answers."""

    KIND: ClassVar[str] = "panel.revealed"
    panel: PanelKey
    auditor: str
    stage: int
    reveals_end: int


@dataclass(frozen=True, slots=True)
class LeafShown(Change):
    """A seat showed a leaf of an accepted trace: the leaf after the segment ``place``. ``claim`` is the leaf's root."""

    KIND: ClassVar[str] = "panel.leaf"
    panel: PanelKey
    place: int
    claim: bytes


@dataclass(frozen=True, slots=True)
class SeatSilent(Change):
    """A seat gave no answer for ``places``, so its validator lost ``cut`` (uassay) of its stake."""

    KIND: ClassVar[str] = "panel.silent"
    panel: PanelKey
    auditor: str
    stage: int
    places: tuple[int, ...]
    cut: int


@dataclass(frozen=True, slots=True)
class SeatDiffered(Change):
    """The rulings refute a seat's answers for ``places``, so its validator lost ``cut`` (uassay) of its stake."""

    KIND: ClassVar[str] = "panel.differed"
    panel: PanelKey
    auditor: str
    stage: int
    places: tuple[int, ...]
    cut: int


@dataclass(frozen=True, slots=True)
class PlaceRuled(Change):
    """A stage decided a place. ``ruling`` is the ``Ruling``. ``kind``, ``root`` and ``step`` are the answer that the
    panel found; ``kind`` is an ``AnswerKind``, or 0 if the place is undecided.

    Example::

        for event in order.events():
            if isinstance(event, assay.PlaceRuled):
                print(event.panel.round, event.place, event.stage)
    """

    KIND: ClassVar[str] = "panel.ruled"
    panel: PanelKey
    place: int
    stage: int
    ruling: int
    kind: int
    root: bytes
    step: int


@dataclass(frozen=True, slots=True)
class RulingWaits(Change):
    """A panel ruled against the chain, but not in its last stage. The ruling has no effect before ``until`` on the
    chain clock. Until then it can be appealed.

    Example::

        for event in order.events():
            if isinstance(event, assay.RulingWaits):
                print(event.panel.round, event.until)
    """

    KIND: ClassVar[str] = "panel.ruling_waits"
    panel: PanelKey
    until: int


@dataclass(frozen=True, slots=True)
class RulingAppealed(Change):
    """``appellant`` appealed the ruling of a panel, with a ``bond`` (uassay). All eligible validators that are left now
    decide about ``places``.

    Example::

        for event in order.events():
            if isinstance(event, assay.RulingAppealed):
                print(event.panel.round, event.appellant)
    """

    KIND: ClassVar[str] = "panel.appealed"
    panel: PanelKey
    appellant: str
    bond: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SlashVoteOpened(Change):
    """The round is void, and all eligible validators that have not recomputed ``places`` yet will vote on them. They
    decide whether ``validator``, which closed the round, is slashed. Until the vote ends, ``slash`` (uassay) of the
    stake of ``validator`` is reserved. The order does not wait for this vote. All other places that had no ruling stay
    undecided. The rulings that made the round void stay in the panel's record.
    """

    KIND: ClassVar[str] = "panel.slash_vote"
    panel: PanelKey
    validator: str
    places: tuple[int, ...]
    slash: int


@dataclass(frozen=True, slots=True)
class SlashVoteEnded(Change):
    """The vote on a slash is over. ``slashed`` is true if the validator is slashed."""

    KIND: ClassVar[str] = "panel.slash_vote_ended"
    panel: PanelKey
    validator: str
    slashed: bool


@dataclass(frozen=True, slots=True)
class ValidatorSlashed(Change):
    """The last stage of a panel ruled that a round is wrong, and that its validator is at fault. The validator lost
    ``amount`` (uassay) of its stake. This amount pays seats, and the rest of it is burnt.

    Example::

        for event in order.events():
            if isinstance(event, assay.ValidatorSlashed):
                print(event.validator, event.amount)
    """

    KIND: ClassVar[str] = "panel.slashed"
    panel: PanelKey
    validator: str
    amount: int


@dataclass(frozen=True, slots=True)
class SeatPaid(Change):
    """A seat received ``paid`` (uassay) for its answers. ``from_pot`` is the part of this amount that came from the
    cuts of seats and from a slash, and ``from_pool`` the part that came from the community pool. The rest came from the
    order's escrow and is in the list of the order's payments.
    """

    KIND: ClassVar[str] = "panel.paid"
    panel: PanelKey
    auditor: str
    stage: int
    paid: int
    from_pot: int
    from_pool: int


@dataclass(frozen=True, slots=True)
class PanelEnded(Change):
    """A panel ended; ``burnt`` (uassay) is the part of cuts and slashes that no seat received."""

    KIND: ClassVar[str] = "panel.ended"
    panel: PanelKey
    burnt: int


@dataclass(frozen=True, slots=True)
class ReplicasAwaited(Change):
    """Each slot of an open round has a committed share, but another replica of the order has not committed yet.

    Until it has, or fails, the shares cannot be accepted, and the leg's deadlines do not pass.
    """

    KIND: ClassVar[str] = "replicas.awaited"
    round: RoundKey


@dataclass(frozen=True, slots=True)
class ReplicasReady(Change):
    """A round no longer waits for other replicas of its order; its shares can be accepted."""

    KIND: ClassVar[str] = "replicas.ready"
    round: RoundKey


@dataclass(frozen=True, slots=True)
class RoundCompared(Change):
    """A closed round was compared with those of the other replicas of its order; ``outcome`` is a ``Comparison``.

    Example::

        for event in order.events():
            if isinstance(event, assay.RoundCompared):
                print(event.round.round, assay.Comparison(event.outcome).name)
    """

    KIND: ClassVar[str] = "round.compared"
    round: RoundKey
    outcome: int


@dataclass(frozen=True, slots=True)
class TraceWanted(Change):
    """The validator must show the trace of its share in ``slot`` before ``until`` on the chain clock, because replicas
    of the order differ there. Otherwise its round becomes void.
    """

    KIND: ClassVar[str] = "trace.wanted"
    round: RoundKey
    slot: int
    until: int


@dataclass(frozen=True, slots=True)
class TraceShown(Change):
    """A validator has shown the trace of its share in ``slot``."""

    KIND: ClassVar[str] = "trace.shown"
    round: RoundKey
    slot: int


@dataclass(frozen=True, slots=True)
class TraceMissing(Change):
    """A validator has not shown a trace in time. The chain rules that the first segment of the share was not served."""

    KIND: ClassVar[str] = "trace.missing"
    round: RoundKey
    slot: int
