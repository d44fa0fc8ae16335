"""The story of an order, rebuilt from its events: legs, rounds, shares, panels and payments."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod

from domain.disputes.events import (
    ChallengeCommitted,
    ChallengeOpened,
    ChallengerRewarded,
    DisputeEnded,
    StandOpened,
)
from domain.disputes.records import DisputeState
from domain.events import Change, Counts
from domain.keys import PanelKey, RoundKey, ShareKey
from domain.ledger.events import PaymentMade
from domain.legs.events import (
    LegDeadlinesMoved,
    LegFailed,
    OrderAccepted,
    OrderDeclined,
    OrderMatched,
    OrderProven,
    OrderRestarted,
    OrderSettled,
    PartEnded,
    PartReturned,
    PartWaits,
    ProgressRestarted,
)
from domain.legs.reasons import PartEnd
from domain.legs.records import LegState
from domain.market.events import (
    DeadlineMoved,
    OrderClosed,
    OrderExcluded,
    OrderOpened,
    OrderSubmitted,
    OrderUnmatched,
)
from domain.market.records import Order, OrderState
from domain.moves import Uses
from domain.node.queries import LoggedEvent
from domain.proof.events import (
    AnswerCommitted,
    AnswerRevealed,
    DeliveryWitnessed,
    LeafShown,
    OrderVerified,
    PanelEnded,
    PanelRecalled,
    PanelSkipped,
    PanelWaits,
    PlaceDrawn,
    PlaceRuled,
    ResultMissed,
    ResultRuled,
    ReviewSpared,
    RoundClosed,
    RoundStopped,
    RoundVerified,
    RoundVoid,
    RulingAppealed,
    RulingWaits,
    SeatDiffered,
    SeatPaid,
    SeatRevealed,
    SeatSilent,
    ShareAccepted,
    ShareCommitted,
    ShareCompared,
    ShareDrawn,
    ShareFoundWrong,
    ShareIncluded,
    ShareRejected,
    ShareSkipped,
    ShareStood,
    ShareTaken,
    SlashVoteOpened,
    StageEnded,
    StageOpened,
    StatesPanelOpened,
    StatesRuled,
    ValidatorSlashed,
    VoidSharePaid,
    WitnessesDrawn,
)
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, AuditPlace, Finding, Ruling, ShareState
from domain.vocabulary import MOVES, read_event
from pol.rules.inclusion import issue_name
from pol.rules.states import RESULT, STATES
from pol.values import metric_values

_STATES_ENDS = {
    Ruling.RIGHT: DisputeState.FAILED,
    Ruling.WRONG: DisputeState.UPHELD,
    Ruling.UNDECIDED: DisputeState.UNDECIDED,
}
"""End of the claim that bytes cannot be fetched, by the ruling about them."""


@dataclass
class ShareStory:
    """One issue of a share; ``skipped`` if it could not be committed."""

    slot: int
    issue: int
    provider: str
    bond: int
    committed_at: int
    height: int
    state: ShareState = ShareState.COMMITTED
    reason: int = 0
    skipped: bool = False
    # True if a panel found it wrong after it was accepted.
    found_wrong: bool = False
    drawn: tuple[int, ...] = ()
    is_drawn: bool = False
    # Its commitment, and the root that the commitment hides until the share is accepted.
    commitment: bytes = b""
    trace_root: bytes = b""
    # Metrics at its last boundary, the loss first.
    metrics: tuple[float, ...] = ()
    segments: int = 0
    # Amounts (uassay) that its validator lost because it rejected this right share: paid to the provider, and burnt.
    paid: int = 0
    burnt: int = 0
    # Leg from which its leg took it over; 0 if it was trained in its own leg.
    taken_from: int = 0
    # Number of the witnesses of its delivery, and of those that stated that it arrived.
    witnesses: int = 0
    witnessed: int = 0
    # Its cover (bps), and the amount (uassay) that bonds paid because another provider made its round void.
    cover: int = 0
    void_paid: int = 0
    # The issue of its task; 0 if that is its own issue.
    task_issue: int = 0

    @property
    def issue_name(self) -> str:
        """The issue as people read it."""
        return issue_name(self.issue, self.task_issue)


@dataclass
class SeatStory:
    """A validator's seat in a stage of a panel."""

    validator: str
    stage: int
    stake: int
    places: tuple[int, ...]
    committed: bool = False
    revealed: bool = False
    # Answers (AnswerKind and root) by the number of the place.
    answers: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    silent: tuple[int, ...] = ()
    differed: tuple[int, ...] = ()
    cut: int = 0
    paid: int = 0


@dataclass
class PlaceStory:
    """A place that a panel recomputes."""

    place: AuditPlace
    stops: bool
    # Root that the chain has for the place; empty if none. The chain has a segment's root once its leaf was shown.
    claim: bytes = b""
    # Number of the group of places that have the same seats.
    group: int = 0
    ruling: Ruling = Ruling.OPEN
    stage: int = 0
    step: int = 0
    # Root according to the ruling, if the place is decided.
    root: bytes = b""
    # Stage that found the place wrong before a vote on a slash, and the root that it found; 0 without such a vote.
    first_stage: int = 0
    first_root: bytes = b""

    @property
    def is_wrong(self) -> bool:
        """True if a panel found the place wrong, whatever a later vote on a slash says."""
        return self.ruling is Ruling.WRONG or self.first_stage > 0


@dataclass
class StageStory:
    """A stage of a panel."""

    number: int
    height: int
    places: tuple[int, ...]
    commits_end: int
    reveals_end: int
    is_last: bool
    ended: bool = False
    wanted: int = 0


@dataclass
class PanelStory:
    """A panel: its places, stages and seats, and the part of its seats' cuts that was burnt (uassay)."""

    waits: bool = False
    places: list[PlaceStory] = field(default_factory=list)
    stages: list[StageStory] = field(default_factory=list)
    seats: list[SeatStory] = field(default_factory=list)
    panel_over: bool = False
    # Time until which the ruling of its panel can be appealed; 0 if none can.
    appeal_until: int = 0
    burnt: int = 0
    slashed: int = 0  # part of the validator's stake (uassay) that was taken


@dataclass
class DisputeStory(PanelStory):
    """A challenge of a place of a round, or a stand of a provider, with its panel. Amounts are in uassay."""

    number: int = 0
    challenger: str = ""
    bond: int = 0
    state: DisputeState = DisputeState.COMMITTED
    committed_height: int = 0
    opened_height: int = 0
    ended_height: int = 0
    place: AuditPlace | None = None
    claim: Finding | None = None
    again: bool = False
    joins: int = 0
    reward: int = 0
    lost: int = 0  # burnt part of the challenger's bond
    slot: int | None = None  # slot of the share for which its provider stands; None for a challenge


@dataclass
class RoundStory(PanelStory):
    """A round of a leg, with the panel that audits it; it is open while ``closed_height`` is 0."""

    number: int = 0
    disputes: dict[int, DisputeStory] = field(default_factory=dict)
    shares: dict[tuple[int, int], ShareStory] = field(default_factory=dict)
    closed_height: int = 0
    closed_at: int = 0
    window_ends: int = 0
    challenges_end: int = 0
    verified_height: int = 0
    void: bool = False
    stopped: AuditPlace | None = None
    price: int = 0
    withheld: int = 0
    audit_fee: int = 0
    skipped: bool = False  # True if the draw gave the round no panel

    def issues(self, slot: int) -> list[ShareStory]:
        """Return all issues of a slot's share, in order."""
        return [self.shares[key] for key in sorted(self.shares) if key[0] == slot]

    def loss(self) -> dict[int, float]:
        """Return the loss at the end of the accepted share of each slot."""
        return {
            share.slot: share.metrics[0]
            for share in self.shares.values()
            if share.state is ShareState.ACCEPTED and share.metrics
        }


@dataclass
class LegStory:
    """A leg of the order, with ``length`` rounds from ``first_round`` and ``slots`` slots from ``first_slot``."""

    number: int
    validator: str
    bid: bytes
    price: int
    tier: str
    job_bond: int
    work: int
    first_round: int
    length: int  # number of rounds
    first_slot: int
    slots: int
    matched_at: int
    matched_height: int
    accept_deadline: int
    state: LegState = LegState.MATCHED
    accepted_height: int = 0
    progress_deadline: int = 0
    proven_height: int = 0
    verified_height: int = 0
    settles_at: int = 0
    ended_height: int = 0
    # A LegEnd; 0 while the leg runs, or if it was served to its end.
    reason: int = 0
    declined: bool = False
    # The leg whose last verified round this leg continues; 0 if it began the job.
    from_leg: int = 0
    # Withheld coins of a failed leg that wait until `part_until`, and the PartEnd after that.
    part: int = 0
    part_until: int = 0
    part_end: int = 0
    rounds: dict[int, RoundStory] = field(default_factory=dict)

    def round(self, number: int) -> RoundStory:
        """Return the story of a round; create it if the round has no events yet."""
        return self.rounds.setdefault(number, RoundStory(number=number))

    @property
    def closed(self) -> int:
        """Number of closed rounds."""
        return sum(1 for round in self.rounds.values() if round.closed_height)

    @property
    def open_round(self) -> int:
        """The number of the open round; if no round is open, the number after the last round."""
        return self.first_round + self.closed

    @property
    def served_slots(self) -> range:
        """The numbers of its slots."""
        return range(self.first_slot, self.first_slot + self.slots)

    @property
    def verified(self) -> int:
        """Number of verified rounds."""
        return sum(1 for round in self.rounds.values() if round.verified_height)


@dataclass(frozen=True, slots=True)
class PaymentStory:
    """A payment from the order's escrow: from the deposit if ``leg`` is 0, else from a bond."""

    to: str
    kind: str
    amount: int
    round: int
    leg: int
    slot: int
    issue: int
    height: int


WITHHELD = frozenset(name for name, move in MOVES.items() if move.uses is Uses.WITHHELD)
"""Kinds of payments that take withheld coins."""


class OrderStory:
    """The history and state of an order, updated with its events as they come."""

    def __init__(self, order: Order, deposit: int, height: int) -> None:
        """Create the story of an order that was submitted with ``deposit`` (uassay) at ``height``."""
        self.order = order
        self.deposit = deposit
        self.submitted_height = height
        self.state = OrderState.OPEN
        self.opened_at = order.opened_at
        self.opened_height = height
        self.expires_at = order.expires_at
        self.deadline = order.deadline
        self.legs: dict[int, LegStory] = {}
        self.excluded: list[str] = []
        # Number of bids that failed on each condition in the last auction, while the order is open.
        self.unmatched: Counts = ()
        self.payments: list[PaymentStory] = []
        # Withheld coins of failed legs that returned to the deposit (uassay).
        self.returned = 0
        self.close_reason = 0
        self.closed_height = 0
        # The height at which the order started again from its first round; 0 if it did not.
        self.restarted_height = 0
        self.refunded = 0
        # Sum of the bonds that were locked for the order: job bonds and share bonds (uassay).
        self.bonds_in = 0
        self.next = 0
        self._height = height

    @property
    def current(self) -> LegStory | None:
        """The current or last leg; None before the first match."""
        return self.legs[max(self.legs)] if self.legs else None

    @property
    def withheld(self) -> int:
        """Amount withheld from the validator until the order settles (uassay)."""
        total = sum(r.withheld for a in self.legs.values() for r in a.rounds.values() if r.verified_height)
        used = sum(p.amount for p in self.payments if p.kind in WITHHELD)
        return max(0, total - used - self.returned)

    def follow(self, events: Iterable[LoggedEvent]) -> None:
        """Apply the order's events, sorted by number; events that were already applied are ignored."""
        for event in events:
            if event.number < self.next:
                continue
            change = read_event(event)
            self.next, self._height = event.number + 1, event.height
            if change is not None:
                self._take(change)

    @singledispatchmethod
    def _take(self, change: Change) -> None:
        """Apply a change. This default does nothing, because no page shows the other kinds of changes."""

    # --- the order --------------------------------------------------------------------------

    @_take.register
    def _(self, change: OrderOpened) -> None:
        self.state, self.unmatched = OrderState.OPEN, ()
        self.opened_at, self.expires_at = change.opened_at, change.expires_at
        self.opened_height = self._height

    @_take.register
    def _(self, change: OrderUnmatched) -> None:
        self.unmatched = change.failed

    @_take.register
    def _(self, change: OrderExcluded) -> None:
        if change.validator not in self.excluded:
            self.excluded.append(change.validator)

    @_take.register
    def _(self, change: DeadlineMoved) -> None:
        self.deadline = change.deadline

    @_take.register
    def _(self, change: OrderMatched) -> None:
        self.state, self.unmatched = OrderState.MATCHED, ()
        self.bonds_in += change.job_bond
        self.legs[change.leg] = LegStory(
            number=change.leg,
            validator=change.validator,
            bid=change.bid,
            price=change.price,
            tier=change.tier,
            job_bond=change.job_bond,
            work=change.work,
            first_round=change.first_round,
            length=change.rounds,
            first_slot=change.first_slot,
            slots=change.slots,
            matched_at=change.matched_at,
            matched_height=self._height,
            accept_deadline=change.accept_deadline,
            from_leg=change.from_leg,
        )

    @_take.register
    def _(self, change: OrderAccepted) -> None:
        self.state = OrderState.RUNNING
        leg = self.legs[change.leg]
        leg.state, leg.accepted_height = LegState.RUNNING, self._height

    @_take.register
    def _(self, change: ProgressRestarted) -> None:
        self.legs[change.leg].progress_deadline = change.deadline

    @_take.register
    def _(self, change: LegDeadlinesMoved) -> None:
        leg = self.legs[change.leg]
        leg.accept_deadline = change.accept_deadline
        leg.progress_deadline = change.progress_deadline

    @_take.register
    def _(self, change: OrderDeclined | LegFailed) -> None:
        leg = self.legs[change.leg]
        leg.state, leg.reason = LegState.FAILED, change.reason
        leg.ended_height, leg.declined = self._height, isinstance(change, OrderDeclined)

    @_take.register
    def _(self, change: OrderProven) -> None:
        self.state = OrderState.PROVEN
        leg = self.legs[change.leg]
        leg.state, leg.proven_height = LegState.PROVEN, self._height

    @_take.register
    def _(self, change: OrderVerified) -> None:
        leg = self.legs[change.leg]
        leg.verified_height, leg.settles_at = self._height, change.settles_at

    @_take.register
    def _(self, change: OrderSettled) -> None:
        leg = self.legs[change.leg]
        leg.state, leg.reason = LegState.DONE, change.reason
        leg.ended_height = self._height

    @_take.register
    def _(self, change: OrderClosed) -> None:
        self.state, self.close_reason = OrderState.CLOSED, change.reason
        self.closed_height, self.refunded = self._height, change.refunded
        self.unmatched = change.failed

    @_take.register
    def _(self, change: PaymentMade) -> None:
        self.payments.append(
            PaymentStory(
                to=change.to,
                kind=change.kind,
                amount=change.amount,
                round=change.round,
                leg=change.leg,
                slot=change.slot,
                issue=change.issue,
                height=self._height,
            )
        )

    @_take.register
    def _(self, change: PartReturned) -> None:
        self.returned += change.amount

    @_take.register
    def _(self, change: PartWaits) -> None:
        leg = self.legs[change.leg]
        leg.part, leg.part_until = change.amount, change.until

    @_take.register
    def _(self, change: PartEnded) -> None:
        leg = self.legs[change.leg]
        leg.part, leg.part_until, leg.part_end = 0, 0, change.end
        if change.end in (PartEnd.UNAVAILABLE, PartEnd.COMPLAINT):
            self.returned += change.amount

    # --- rounds and shares ------------------------------------------------------------------

    def _round(self, key: RoundKey) -> RoundStory:
        return self.legs[key.leg].round(key.round)

    def _panel(self, key: PanelKey) -> PanelStory:
        round = self._round(key.round_key)
        return round.disputes[key.dispute] if key.dispute else round

    def _dispute(self, key: PanelKey) -> DisputeStory:
        return self._round(key.round_key).disputes[key.dispute]

    def _share(self, key: ShareKey) -> ShareStory:
        return self.legs[key.leg].round(key.round).shares[key.slot, key.issue]

    @_take.register
    def _(self, change: ShareCommitted) -> None:
        self._put_share(change, is_new=not change.was_included)

    @_take.register
    def _(self, change: ShareIncluded) -> None:
        share = self._put_share(change, is_new=True)
        share.state, share.reason, share.task_issue = ShareState.REJECTED, int(ShareReason.INCLUDED), change.task_issue

    @_take.register
    def _(self, change: WitnessesDrawn) -> None:
        self._share(change.share).witnesses = len(change.witnesses)

    @_take.register
    def _(self, change: DeliveryWitnessed) -> None:
        self._share(change.share).witnessed += 1

    def _put_share(self, change: ShareCommitted | ShareIncluded, *, is_new: bool) -> ShareStory:
        """Create the story of a committed or included share, and return it. Only a new share locks its bond."""
        key = change.share
        self.bonds_in += change.bond if is_new else 0
        share = ShareStory(
            slot=key.slot,
            issue=key.issue,
            provider=change.provider,
            bond=change.bond,
            committed_at=change.committed_at,
            height=self._height,
            commitment=change.commitment,
            cover=change.cover,
        )
        self.legs[key.leg].round(key.round).shares[key.slot, key.issue] = share
        return share

    @_take.register
    def _(self, change: ChallengeCommitted) -> None:
        key = change.dispute
        self.bonds_in += change.bond
        self._round(key.round_key).disputes[key.dispute] = DisputeStory(
            number=key.dispute,
            challenger=change.challenger,
            bond=change.bond,
            committed_height=self._height,
        )

    @_take.register
    def _(self, change: ChallengeOpened) -> None:
        dispute = self._dispute(change.dispute)
        dispute.state, dispute.place = DisputeState.OPEN, change.place
        dispute.again, dispute.joins = change.again, change.joins
        dispute.claim, dispute.opened_height = change.claim, self._height

    @_take.register
    def _(self, change: DisputeEnded) -> None:
        dispute = self._dispute(change.dispute)
        dispute.state, dispute.lost = DisputeState(change.state), change.burnt
        dispute.ended_height = self._height

    @_take.register
    def _(self, change: ChallengerRewarded) -> None:
        self._dispute(change.dispute).reward = change.reward

    @_take.register
    def _(self, change: StandOpened) -> None:
        key = change.dispute
        self.bonds_in += change.added
        self._round(key.round_key).disputes[key.dispute] = DisputeStory(
            number=key.dispute,
            challenger=change.provider,
            bond=change.bond,
            state=DisputeState.OPEN,
            committed_height=self._height,
            slot=change.share.slot,
        )

    @_take.register
    def _(self, change: StatesPanelOpened) -> None:
        key = change.panel
        self._round(key.round_key).disputes[key.dispute] = DisputeStory(
            number=key.dispute,
            challenger=change.asker,
            state=DisputeState.OPEN,
            committed_height=self._height,
            opened_height=self._height,
            place=STATES,
        )

    @_take.register
    def _(self, change: StatesRuled) -> None:
        dispute = self._dispute(change.panel)
        dispute.state, dispute.ended_height = _STATES_ENDS[Ruling(change.ruling)], self._height

    @_take.register
    def _(self, change: ResultMissed) -> None:
        key = change.panel
        self._round(key.round_key).disputes[key.dispute] = DisputeStory(
            number=key.dispute,
            challenger=change.asker,
            bond=change.bond,
            state=DisputeState.OPEN,
            committed_height=self._height,
            opened_height=self._height,
            place=RESULT,
        )

    @_take.register
    def _(self, change: ResultRuled) -> None:
        dispute = self._dispute(change.panel)
        dispute.state, dispute.ended_height = _STATES_ENDS[Ruling(change.ruling)], self._height
        if change.settles_at:
            self.legs[change.panel.leg].settles_at = change.settles_at

    @_take.register
    def _(self, change: OrderRestarted) -> None:
        self.restarted_height = self._height

    @_take.register
    def _(self, change: ShareStood) -> None:
        self._dispute(change.panel).reward = change.paid
        share = self._share(change.share)
        if share.reason == ShareReason.LEG_ENDED:
            share.paid = change.paid

    @_take.register
    def _(self, change: VoidSharePaid) -> None:
        share = self._share(change.share)
        share.void_paid = change.from_bonds + change.from_cover

    @_take.register
    def _(self, change: ShareSkipped) -> None:
        key = change.share
        shares = self.legs[key.leg].round(key.round).shares
        # An existing share stays as it is, because only a second commitment to the same share was skipped.
        shares.setdefault(
            (key.slot, key.issue),
            ShareStory(
                slot=key.slot,
                issue=key.issue,
                provider=change.provider,
                bond=0,
                committed_at=0,
                height=self._height,
                reason=change.reason,
                skipped=True,
            ),
        )

    @_take.register
    def _(self, change: ShareDrawn) -> None:
        share = self._share(change.share)
        share.drawn, share.is_drawn = change.segments, True

    @_take.register
    def _(self, change: ShareRejected) -> None:
        share = self._known(change.share, change.provider)
        share.state, share.reason = ShareState.REJECTED, change.reason

    def _known(self, key: ShareKey, provider: str) -> ShareStory:
        """Return the story of a share; create it if its provider never committed to the share."""
        shares = self.legs[key.leg].round(key.round).shares
        share = ShareStory(
            slot=key.slot,
            issue=key.issue,
            provider=provider,
            bond=0,
            committed_at=0,
            height=self._height,
        )
        return shares.setdefault((key.slot, key.issue), share)

    @_take.register
    def _(self, change: ShareAccepted) -> None:
        share = self._share(change.share)
        share.state, share.segments = ShareState.ACCEPTED, change.segments
        share.metrics, share.trace_root = metric_values(change.metrics), change.trace_root

    @_take.register
    def _(self, change: ShareCompared) -> None:
        share = self._share(change.share)
        share.state = ShareState.RIGHT if change.right else ShareState.WRONG
        share.paid, share.burnt = change.paid, change.burnt

    @_take.register
    def _(self, change: ShareTaken) -> None:
        key = change.share
        before = self.legs[change.from_leg].round(key.round).shares[key.slot, key.issue]
        self.legs[key.leg].round(key.round).shares[key.slot, key.issue] = replace(before, taken_from=change.from_leg)
        before.state = ShareState.TAKEN

    @_take.register
    def _(self, change: ShareFoundWrong) -> None:
        self._share(change.share).found_wrong = True

    @_take.register
    def _(self, change: RoundClosed) -> None:
        round = self._round(change.round)
        round.closed_height, round.closed_at = self._height, change.closed_at
        round.window_ends, round.challenges_end = change.window_ends, change.challenges_end

    @_take.register
    def _(self, change: RoundStopped) -> None:
        where = AuditPlace(
            kind=AuditKind(change.kind),
            slot=change.slot,
            issue=change.issue,
            segment=change.segment,
        )
        self._round(change.round).stopped = where

    @_take.register
    def _(self, change: RoundVerified) -> None:
        round = self._round(change.round)
        round.verified_height, round.price = self._height, change.price
        round.withheld, round.audit_fee = change.withheld, change.audit_fee

    @_take.register
    def _(self, change: RoundVoid) -> None:
        self._round(change.round).void = True

    # --- panels -----------------------------------------------------------------------------

    @_take.register
    def _(self, change: PanelSkipped) -> None:
        round = self._round(change.panel.round_key)
        round.skipped = round.panel_over = True

    @_take.register
    def _(self, change: PanelRecalled) -> None:
        round = self._round(change.panel.round_key)
        round.skipped = round.panel_over = False

    @_take.register
    def _(self, change: PanelWaits) -> None:
        self._panel(change.panel).waits = True

    @_take.register
    def _(self, change: PlaceDrawn) -> None:
        place = AuditPlace(
            kind=AuditKind(change.kind),
            slot=change.slot,
            issue=change.issue,
            segment=change.segment,
            chunk=change.chunk,
        )
        self._panel(change.panel).places.append(
            PlaceStory(place=place, stops=change.stops, claim=change.claim, group=change.group)
        )

    @_take.register
    def _(self, change: StageOpened) -> None:
        round = self._panel(change.panel)
        round.waits = False
        round.stages.append(
            StageStory(
                number=change.stage,
                height=self._height,
                places=change.places,
                commits_end=change.commits_end,
                reveals_end=change.reveals_end,
                is_last=change.is_last,
            )
        )
        if change.repeats:
            # The seats answer again; their first answers do not count.
            del round.seats[change.first_seat :]
        for validator, stake, group in zip(change.seats, change.stakes, change.groups, strict=True):
            # In the last stage, a seat has all places that its validator had not recomputed before.
            had = {number for seat in round.seats if seat.validator == validator for number in seat.places}
            places = tuple(
                number for number in change.places if number not in had and group in (-1, round.places[number].group)
            )
            round.seats.append(SeatStory(validator=validator, stage=change.stage, stake=stake, places=places))

    @_take.register
    def _(self, change: StageEnded) -> None:
        stage = self._panel(change.panel).stages[-1]
        stage.ended, stage.wanted = True, sum(change.wanted)

    @_take.register
    def _(self, change: ReviewSpared) -> None:
        self._panel(change.panel).stages[-1].wanted = 0

    def _seat(self, key: PanelKey, auditor: str, stage: int) -> SeatStory:
        return next(seat for seat in self._panel(key).seats if (seat.validator, seat.stage) == (auditor, stage))

    @_take.register
    def _(self, change: AnswerCommitted) -> None:
        self._seat(change.panel, change.auditor, change.stage).committed = True
        stage = self._panel(change.panel).stages[-1]
        stage.commits_end, stage.reveals_end = change.commits_end, change.reveals_end

    @_take.register
    def _(self, change: AnswerRevealed) -> None:
        seat = self._seat(change.panel, change.auditor, change.stage)
        seat.answers[change.place] = (change.kind, change.root)

    @_take.register
    def _(self, change: SeatRevealed) -> None:
        self._seat(change.panel, change.auditor, change.stage).revealed = True
        self._panel(change.panel).stages[-1].reveals_end = change.reveals_end

    @_take.register
    def _(self, change: SeatSilent) -> None:
        seat = self._seat(change.panel, change.auditor, change.stage)
        seat.silent, seat.cut = change.places, seat.cut + change.cut

    @_take.register
    def _(self, change: SeatDiffered) -> None:
        seat = self._seat(change.panel, change.auditor, change.stage)
        seat.differed, seat.cut = change.places, seat.cut + change.cut

    @_take.register
    def _(self, change: PlaceRuled) -> None:
        place = self._panel(change.panel).places[change.place]
        place.ruling, place.stage, place.step = Ruling(change.ruling), change.stage, change.step
        place.root = change.root

    @_take.register
    def _(self, change: RulingWaits) -> None:
        self._panel(change.panel).appeal_until = change.until

    @_take.register
    def _(self, change: RulingAppealed) -> None:
        round = self._panel(change.panel)
        round.appeal_until = 0
        for number in change.places:
            round.places[number].ruling = Ruling.OPEN

    @_take.register
    def _(self, change: SlashVoteOpened) -> None:
        round = self._panel(change.panel)
        round.panel_over = False
        for number, place in enumerate(round.places):
            if number in change.places:
                place.first_stage, place.first_root = place.stage, place.root
                place.ruling, place.stage = Ruling.OPEN, 0
            elif place.ruling is Ruling.OPEN:
                place.ruling = Ruling.UNDECIDED

    @_take.register
    def _(self, change: ValidatorSlashed) -> None:
        self._panel(change.panel).slashed = change.amount

    @_take.register
    def _(self, change: LeafShown) -> None:
        self._panel(change.panel).places[change.place].claim = change.claim

    @_take.register
    def _(self, change: SeatPaid) -> None:
        self._seat(change.panel, change.auditor, change.stage).paid += change.paid

    @_take.register
    def _(self, change: PanelEnded) -> None:
        round = self._panel(change.panel)
        round.panel_over, round.burnt = True, round.burnt + change.burnt


def build_story(events: Iterable[LoggedEvent]) -> OrderStory | None:
    """Return the story of an order from all its events; None if the event of its submission is missing."""
    rest = iter(events)
    for event in rest:
        change = read_event(event)
        if isinstance(change, OrderSubmitted):
            story = OrderStory(change.record, change.deposit, event.height)
            story.next = event.number + 1
            story.follow(rest)
            return story
    return None
