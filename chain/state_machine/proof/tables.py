"""Tables of the proof: shares of rounds, closed rounds with their panels, and lots."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from chain.state_machine.context import LotSubject
from chain.state_machine.kinds import Due
from chain.state_machine.store import Overlay
from chain.state_machine.tables import BytesTable, KeySet, Numbers, Table
from domain.codec import Packed
from domain.hashing import u64
from domain.keys import PanelKey, RoundKey, ShareKey
from domain.proof.records import AuditPlace, Panel, PanelSeat, ReceiptAsk, Round, Share, ShownDelivery


@dataclass(frozen=True, slots=True)
class SharesSubject:
    """The subject of a lot that draws segments of all shares that the block at ``height`` committed in a round."""

    PURPOSE: ClassVar[str] = "shares"
    round: RoundKey
    height: int

    @property
    def id(self) -> bytes:
        """The identifier to which the seed and the key of the lot are bound."""
        return _pack(self.round) + u64(self.height)


AUDIT_STAGE = 0
"""The stage before the first one. In it a lot decides whether a round gets a panel, if not every round of the tier gets
one."""


@dataclass(frozen=True, slots=True)
class PanelSubject:
    """The subject of a lot that draws the seats of one stage of a panel; in the first stage also the places.

    In ``AUDIT_STAGE`` the lot only decides whether the round gets a panel.
    """

    PURPOSE: ClassVar[str] = "panel"
    panel: PanelKey
    stage: int

    @property
    def id(self) -> bytes:
        """The identifier to which the seed and the key of the lot are bound."""
        return _pack(self.panel.round_key) + u64(self.panel.dispute) + u64(self.stage)


@dataclass(frozen=True, slots=True)
class WitnessSubject:
    """The subject of a lot that draws the witnesses of a share's delivery."""

    PURPOSE: ClassVar[str] = "witnesses"
    share: ShareKey

    @property
    def id(self) -> bytes:
        """The identifier to which the seed and the key of the lot are bound."""
        key = self.share
        return _pack(RoundKey(key.order_id, key.leg, key.round)) + u64(key.slot) + u64(key.issue)


def _pack(key: RoundKey) -> bytes:
    return key.order_id + u64(key.leg) + u64(key.round)


class LotKey(NamedTuple):
    """The key of a lot: its purpose, and the id of its subject."""

    purpose: str
    id: bytes


def lot_key(subject: LotSubject) -> LotKey:
    """Return the key of a subject's lot."""
    return LotKey(subject.PURPOSE, subject.id)


@dataclass(frozen=True, slots=True)
class Lot:
    """A draw that waits for a beacon. The purpose in its key selects the ``Draw``, which has the class of the lot's
    subject.
    """

    subject: Packed
    group_id: bytes
    # Height of the commitment.
    height: int
    deadline: int


@dataclass(frozen=True, slots=True)
class LotGroup:
    """A group of waiting lots with the same parties, which therefore wait for the same proposers."""

    id: bytes
    # Operator addresses.
    parties: tuple[str, ...]
    # Number of lots.
    waiting: int


@dataclass(frozen=True, slots=True)
class OpenRound:
    """Numbers about the accepted shares of an open round: how many there are, the FLOPs of their whole segments, and
    their highest cover (bps). ``late`` says that one of them is late.

    ``stopped`` is the place at which the first of these shares in slot order ends early; None if all of them are whole.
    """

    order_id: bytes
    leg: int
    round: int
    accepted: int
    work: int
    stopped: AuditPlace | None
    cover: int
    late: bool = False

    @property
    def key(self) -> RoundKey:
        """The key of the round."""
        return RoundKey(self.order_id, self.leg, self.round)


@dataclass(frozen=True, slots=True)
class LastIssue:
    """The highest committed issue of a slot, in the last round with a commitment for the slot.

    ``drawn`` are the segments that all lots of the slot drew in that round. A new issue is checked at these segments
    too.
    """

    order_id: bytes
    leg: int
    slot: int
    round: int
    issue: int
    drawn: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VoidFund:
    """The coins for right shares of a leg whose rounds became void by a provider's fault
    (:mod:`chain.state_machine.proof.covers`). They stay in the rows of the bonds of the ``wrong`` shares, and of the
    job bond.

    The rounds from ``first`` on are void. Providers may stand for their shares before ``until`` (chain clock), and
    ``stands`` counts those that do. Of their right shares, ``right`` is the sum of the values (uassay), ``covered`` the
    sum of those whose tasks had a cover, and ``top`` the highest cover (bps). The consumer gets at most ``loss``
    (uassay) of what the shares leave.
    """

    order_id: bytes
    leg: int
    first: int
    wrong: tuple[ShareKey, ...]
    until: int
    loss: int
    stands: int = 0
    right: int = 0
    covered: int = 0
    top: int = 0
    # The same validator continued, and took over the shares of the first void round.
    was_continued: bool = False
    # Once the shares are being paid: what the bonds of wrong shares and the job bond had for them (uassay).
    is_paying: bool = False
    from_bonds: int = 0
    from_job: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of replicas in a round: they differ in ``slot``, and each of the ``orders`` has to show its trace of
    the slot before ``until`` (chain clock).
    """

    first: bytes
    round: int
    slot: int
    orders: tuple[bytes, ...]
    until: int


SHARES = Table(0x32, "share", Share, lambda r: r.key)
ROUNDS = Table(0x34, "round", Round, lambda r: r.key)
PANELS = Table(0x35, "panel", Panel, lambda r: r.key)
# Key: order, leg, round, dispute, number of the seat.
SEATS = Table(0x36, "seat", PanelSeat, lambda r: (*r.key, r.number))
# Key: validator, order, leg, round, dispute. Value: 1 + number of the validator's seat, which has a duty in the open
# stage.
PANEL_DUTIES = Numbers(0x37, "duty of a seat")
# Number of seats at work now, in all panels.
AUDIT_LOAD = Numbers(0x43, "load of auditors")
# Panels that wait for room. Key: rank by fee, order, leg, round, dispute.
WAITING_PANELS = KeySet(0x44, "panel that waits")
# Panels that wait for the vote of all validators on an earlier round. Key: order, leg, round, dispute, next stage.
BEHIND_PANELS = KeySet(0x45, "panel behind another")
# Key: order, leg, round, dispute. Value: the amount (uassay) that silent and differing seats lost, as far as it is not
# paid out yet.
PANEL_POTS = Numbers(0x3F, "pot of a panel")
# Key: purpose, id of the subject.
LOTS = Table(0x38, "lot", Lot)
LOT_GROUPS = Table(0x3C, "group of lots", LotGroup, lambda r: (r.id,))
# Key: group, height of the commitment, purpose, id of the subject.
WAITING_LOTS = KeySet(0x3D, "lot of a group")
# The id of the group that a block checked last.
LAST_GROUP = BytesTable(0x3E, "last group")
# Key: order, leg, round, slot; value: issue number of the live share in the slot.
STANDING_ISSUES = Numbers(0x3A, "standing issue")
LAST_ISSUES = Table(0x3B, "last issue", LastIssue, lambda r: (r.order_id, r.leg, r.slot))
# The accepted shares of open rounds; a round has no record before its first share is accepted.
OPEN_ROUNDS = Table(0x4E, "open round", OpenRound, lambda r: r.key)
# Deliveries of shares that a party has shown to the chain; most shares have none.
DELIVERIES = Table(0x55, "delivery", ShownDelivery, lambda r: r.share)
# Included shares that are held under an issue of their own. Key: order, leg, round, slot, issue of the task, provider;
# value: the issue that the chain gave.
HELD_ISSUES = Numbers(0x5D, "issue of a held share")
# Key: order; value: number of its shares with such an issue.
HELD_COUNTS = Numbers(0x5E, "number of held shares")
# Requests for receipts of witnesses.
RECEIPT_ASKS = Table(0x5A, "request for a receipt", ReceiptAsk, lambda r: r.share)
# Deliveries that a validator may still witness. Key: validator, order, leg, round, slot, issue.
WITNESS_DUTIES = KeySet(0x5B, "duty of a witness")
# Rounds in which a provider asked for a receipt of witnesses. Key: order, leg, round; value: time (chain clock) until
# which a key may be shown because of it.
ASKED_UNTIL = Numbers(0x5C, "end of a request for a receipt")
# Legs that still take over shares. Key: order, leg; value: the leg from which it takes them over.
TAKING = Numbers(0x76, "leg that takes over shares")
# Providers with a share that a panel found wrong. Key: order, leg, provider.
WRONG_PROVIDERS = KeySet(0x4F, "provider of a wrong share")
VOID_FUNDS = Table(0x77, "fund of a void leg", VoidFund, lambda r: (r.order_id, r.leg))
# Right shares that a fund has to pay. Key: order, leg, round, slot, issue; value: what the share would have earned
# (uassay).
VOID_CLAIMS = Numbers(0x78, "claim of a void share")
# Legs whose validator, as a complaint proved, did not hand over the right states. Key: order, leg.
WRONG_HANDOVERS = KeySet(0x4D, "leg with a wrong hand-over")

# Rounds to which all replicas have committed, so that roots may be public. Key: first replica, round.
PUBLISHED = KeySet(0xC0, "published round")
# Open rounds that wait until other replicas have committed. Key: order, leg, round.
AWAITING = KeySet(0xC1, "round that waits for replicas")
# Closed rounds that wait for the comparison with other replicas. Key: order, leg, round.
COMPARING = KeySet(0xC2, "round that is not compared")
DIFFERENCES = Table(0xC3, "difference of replicas", Difference, lambda r: (r.first, r.round))
# A byte, and the leaves of a trace that a validator showed, one after another. Key: order, leg, round.
SHOWN_TRACES = BytesTable(0xC4, "shown trace")
# Places at which replicas depart from each other, until the panel is drawn. Key: order, leg, round, kind, slot, issue,
# segment.
DEPARTURES = KeySet(0xC5, "departure of replicas")


# Parts of an entry: purpose, id of the subject.
LOT_DUE = Due("lot", 0, lane=0)
# Time to commit or to reveal in a stage of a panel is over. Parts of an entry: order, leg, round, dispute.
STAGE_DUE = Due("stage", 1, lane=0, of_order=True)
# Parts of an entry: order, leg, round.
WINDOW_DUE = Due("window", 2, lane=0, of_order=True)
# Round that becomes void next. Parts of an entry: order, leg, round, and the round and dispute of the panel that is the
# reason.
VOID_DUE = Due("void", 3, lane=0, of_order=True)
# Parts of an entry: order, leg, round, number of shares whose bonds were returned before.
BONDS_DUE = Due("bonds", 4, lane=0, of_order=True)
# Audit room may be free for a waiting panel. An entry has no parts.
ROOM_DUE = Due("room", 5, lane=0)
# The seats of a stage had the time that their work takes. Parts of an entry: order, leg, round, dispute, stage.
WORK_DUE = Due("work", 6, lane=0, of_order=True)
# The jail of a validator is over. Parts of an entry: operator.
JAIL_DUE = Due("jail", 9, lane=0)
# Shares of a round that will never be closed have to be dropped, in the lane of orders, so that this delays no panel.
# Parts of an entry: order, leg, round.
DROP_DUE = Due("drop", 16, lane=1, of_order=True)

# Shares of a void round have to be taken over by the leg that continues. Parts of an entry: order, leg and round from
# which they are taken over, and the number of accepted shares that were handled before.
TAKE_DUE = Due("take", 26, lane=0, of_order=True)
# A panel about states from which a leg starts is to be opened, or a panel about bytes is decided. Parts of an entry:
# order, leg, round, dispute.
FETCH_DUE = Due("fetch", 28, lane=1, of_order=True)

# The fund of a leg has to pay the next right shares. Parts of an entry: order, leg.
FUND_DUE = Due("fund", 29, lane=1, of_order=True)
# The time to stand for a rejected share is over. Parts of an entry: order, leg, round, slot, issue.
FORFEIT_DUE = Due("forfeit", 8, lane=0, of_order=True)
# The time of the witnesses of a delivery is over. Parts of an entry: order, leg, round, slot, issue.
WITNESS_DUE = Due("witness", 61, lane=1, of_order=True)
# Replicas have to be compared, or one of them may go on. Parts of an entry: first replica.
REPLICAS_DUE = Due("replicas", 30, lane=0)
# The places of a stage have to be ruled, because no review of it was drawn. Parts of an entry: order, leg, round,
# dispute.
REVIEW_DUE = Due("review", 31, lane=0, of_order=True)
# The time to appeal a ruling is over. Parts of an entry: order, leg, round, dispute.
APPEAL_DUE = Due("appeal", 52, lane=0, of_order=True)


def get_drawn_rounds(store: Overlay) -> Iterator[RoundKey]:
    """Yield the rounds that have waiting lots; a round may come more than once."""
    for lot in LOTS.iterate(store, SharesSubject.PURPOSE):
        yield lot.subject.unpack(SharesSubject).round
    for lot in LOTS.iterate(store, PanelSubject.PURPOSE):
        yield lot.subject.unpack(PanelSubject).panel.round_key
    for lot in LOTS.iterate(store, WitnessSubject.PURPOSE):
        key = lot.subject.unpack(WitnessSubject).share
        yield RoundKey(key.order_id, key.leg, key.round)
