"""The queue of everything that happens by itself, ordered by lane and then by time on the chain clock.

Duties (lots, draws, windows, reports) come before orders, and these before housekeeping, so that an order never ends
before what was due for it is booked. A block takes a bounded number of entries; the rest is carried over. That is
harmless, because whoever handles a message looks at its deadlines itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from chain.state_machine.context import Context
from chain.state_machine.store import Overlay
from chain.state_machine.tables import Index, Part, number_of
from domain.records import RoundKey, ShareKey


class Due(IntEnum):
    """What is due; tens are lanes."""

    # Purpose, id of the subject.
    LOT = 0
    # Order, attempt, round.
    AUDIT_DRAW = 1
    WINDOW = 2
    # Order, attempt, round, slot, issue.
    REPORT = 3
    # Order, attempt.
    ACCEPT = 10
    PROGRESS = 11
    # Order.
    TIME_TO_LIVE = 12
    ORDER = 13
    CLOSE = 14
    # Bid.
    BID = 20
    # Owner.
    WITHDRAWAL = 21


LANES = (0, 1, 2)

OF_ORDERS = tuple(kind for kind in Due if kind not in (Due.LOT, Due.BID, Due.WITHDRAWAL))
"""What concerns an order, whose id then comes first."""

# Lane, time, kind, and what the entry concerns.
DEADLINES = Index(0x48, "deadline")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the queue; ``parts`` are as in the key."""

    kind: Due
    time: int
    parts: tuple[bytes, ...]

    def number(self, at: int) -> int:
        """Return the part at ``at`` as an integer."""
        return number_of(self.parts[at])

    @property
    def share_key(self) -> ShareKey:
        """The share that the parts name."""
        return ShareKey(self.parts[0], *map(self.number, range(1, 5)))

    @property
    def round_key(self) -> RoundKey:
        """The round that the parts name."""
        return RoundKey(self.parts[0], self.number(1), self.number(2))

    def text(self, at: int) -> str:
        """Return the part at ``at`` as a text."""
        return self.parts[at].decode()


def schedule(ctx: Context, time: int, kind: Due, *parts: Part) -> None:
    """Put an entry into the queue; the same entry twice is one."""
    DEADLINES.mark(ctx.store, kind // 10, time, int(kind), *parts)


def cancel(ctx: Context, time: int, kind: Due, *parts: Part) -> None:
    """Take an entry out of the queue, if it is there."""
    DEADLINES.delete(ctx.store, kind // 10, time, int(kind), *parts)


def get_entries(store: Overlay, *lane: int) -> Iterator[Entry]:
    """Yield all entries, or those of one lane, by lane and time."""
    for _, time, kind, *parts in DEADLINES.keys(store, *lane):
        yield Entry(Due(number_of(kind)), number_of(time), tuple(parts))


def get_due(ctx: Context, limit: int) -> list[Entry]:
    """Return the first ``limit`` entries whose time has come, by lane and time."""
    due: list[Entry] = []
    for lane in LANES:
        for entry in get_entries(ctx.store, lane):
            if len(due) == limit or entry.time > ctx.clock:
                break
            due.append(entry)
    return due


def remove(ctx: Context, entry: Entry) -> bool:
    """Take an entry out of the queue, and tell whether it was still there."""
    parts: tuple[Part, ...] = (entry.kind // 10, entry.time, int(entry.kind), *entry.parts)
    found = DEADLINES.has(ctx.store, *parts)
    DEADLINES.delete(ctx.store, *parts)
    return found
