"""What proof keeps: shares of rounds, closed rounds with their panels, and lots."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from chain.state_machine.context import LotSubject
from chain.state_machine.kinds import Due
from chain.state_machine.store import Overlay
from chain.state_machine.tables import BytesTable, KeySet, Numbers, Table
from domain.codec import Packed
from domain.hashing import u64
from domain.keys import RoundKey
from domain.proof.records import Panel, PanelSeat, Round, Share


@dataclass(frozen=True, slots=True)
class SharesSubject:
    """A lot draws segments of all shares that the block at ``height`` committed in a round."""

    PURPOSE: ClassVar[str] = "shares"
    round: RoundKey
    height: int

    @property
    def id(self) -> bytes:
        """What the seed and the key of the lot are bound to."""
        return _pack(self.round) + u64(self.height)


AUDIT_STAGE = 0
"""Before the first stage: it is drawn whether a round gets a panel, if its tier leaves that to chance."""


@dataclass(frozen=True, slots=True)
class PanelSubject:
    """A lot draws the seats of a stage of a closed round's panel, and at the first one the places.

    That of ``AUDIT_STAGE`` draws whether the round gets a panel at all.
    """

    PURPOSE: ClassVar[str] = "panel"
    round: RoundKey
    stage: int

    @property
    def id(self) -> bytes:
        """What the seed and the key of the lot are bound to."""
        return _pack(self.round) + u64(self.stage)


def _pack(key: RoundKey) -> bytes:
    return key.order_id + u64(key.leg) + u64(key.round)


class LotKey(NamedTuple):
    """Where a lot lies: its purpose, and the id of its subject."""

    purpose: str
    id: bytes


def lot_key(subject: LotSubject) -> LotKey:
    """Return the key of a subject's lot."""
    return LotKey(subject.PURPOSE, subject.id)


@dataclass(frozen=True, slots=True)
class Lot:
    """A commitment that waits for a beacon; the draw of its purpose knows the class of the subject."""

    subject: Packed
    group_id: bytes
    # Of the commitment.
    height: int
    deadline: int


@dataclass(frozen=True, slots=True)
class LotGroup:
    """The lots that wait with the same parties, and so for the same proposers."""

    id: bytes
    # Operator addresses.
    parties: tuple[str, ...]
    waiting: int


@dataclass(frozen=True, slots=True)
class LastIssue:
    """The highest issue that a slot committed in the last round that it committed anything in.

    ``drawn`` are the segments of all lots of the slot in that round: a new issue is checked at those as well.
    """

    order_id: bytes
    leg: int
    slot: int
    round: int
    issue: int
    drawn: tuple[int, ...]


SHARES = Table(0x32, "share", Share, lambda r: r.claim.key)
ROUNDS = Table(0x34, "round", Round, lambda r: r.key)
PANELS = Table(0x35, "panel", Panel, lambda r: r.key)
# Order, leg, round, number.
SEATS = Table(0x36, "seat", PanelSeat, lambda r: (*r.key, r.number))
# One more than the number of a seat that has something to do in the open stage: validator, order, leg, round.
PANEL_DUTIES = Numbers(0x37, "duty of a seat")
# What panels take of the auditors' time (ten-thousandths of a validator).
AUDIT_LOAD = Numbers(0x43, "load of auditors")
# Panels without room: rank by fee, order, leg, round.
WAITING_PANELS = KeySet(0x44, "panel that waits")
# What silent and differing seats of a round lost and is not paid out yet: order, leg, round.
PANEL_POTS = Numbers(0x3F, "pot of a panel")
# Purpose, id of the subject.
LOTS = Table(0x38, "lot", Lot)
LOT_GROUPS = Table(0x3C, "group of lots", LotGroup, lambda r: (r.id,))
# Group, height of the commitment, purpose, id of the subject.
WAITING_LOTS = KeySet(0x3D, "lot of a group")
# The group that a block looked at last.
LAST_GROUP = BytesTable(0x3E, "last group")
# The issue number of the share that stands in a slot of the open round: order, leg, round, slot.
STANDING_ISSUES = Numbers(0x3A, "standing issue")
# What a slot committed last.
LAST_ISSUES = Table(0x3B, "last issue", LastIssue, lambda r: (r.order_id, r.leg, r.slot))
# Slots in which a rejected share was right, and the first one was paid: order, leg, round, slot.
RIGHTED = KeySet(0x39, "righted slot")


# Purpose, id of the subject.
LOT_DUE = Due("lot", 0, lane=0)
# Order, leg, round: a part of a panel's stage is over.
STAGE_DUE = Due("stage", 1, lane=0, of_order=True)
# Order, leg, round.
WINDOW_DUE = Due("window", 2, lane=0, of_order=True)
# Order, leg, round: the round that becomes void next.
VOID_DUE = Due("void", 3, lane=0, of_order=True)
# Order, leg, round, and the number of its shares whose bonds have returned.
BONDS_DUE = Due("bonds", 4, lane=0, of_order=True)
# Nothing: there may be audit room.
ROOM_DUE = Due("room", 5, lane=0)


def get_drawn_rounds(store: Overlay) -> Iterator[RoundKey]:
    """Yield the rounds of which lots are to be drawn; one may come more than once."""
    for lot in LOTS.iterate(store, SharesSubject.PURPOSE):
        yield lot.subject.unpack(SharesSubject).round
    for lot in LOTS.iterate(store, PanelSubject.PURPOSE):
        yield lot.subject.unpack(PanelSubject).round
