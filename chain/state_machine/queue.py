"""The queue of everything that happens by itself, ordered by lane and then by time on the chain clock.

Duties (lots, draws, windows, reports) come before orders, and these before housekeeping, so that an order never ends
before what was due for it is booked. A block takes a bounded number of entries; the rest is carried over. That is
harmless, because whoever handles a message looks at its deadlines itself.
"""

from dataclasses import dataclass
from enum import IntEnum

from chain.state_machine import keys
from chain.state_machine.context import Context
from chain.state_machine.keys import Part
from chain.state_machine.tables import mark, number_of
from domain.records import ShareKey


class Due(IntEnum):
    """What is due; tens are lanes."""

    LOT = 0  # purpose, id
    AUDIT_DRAW = 1  # order, attempt, round
    WINDOW = 2  # order, attempt, round
    REPORT = 3  # order, attempt, round, slot, issue
    ACCEPT = 10  # order, attempt
    PROGRESS = 11  # order, attempt
    TIME_TO_LIVE = 12  # order
    ORDER = 13  # order
    CLOSE = 14  # order
    BID = 20  # bid
    WITHDRAWAL = 21  # owner


LANES = (0, 1, 2)


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

    def text(self, at: int) -> str:
        """Return the part at ``at`` as a text."""
        return self.parts[at].decode()


def schedule(ctx: Context, time: int, kind: Due, *parts: Part) -> None:
    """Put an entry into the queue; the same entry twice is one."""
    mark(ctx.store, keys.deadline(kind // 10, time, int(kind), *parts))


def cancel(ctx: Context, time: int, kind: Due, *parts: Part) -> None:
    """Take an entry out of the queue, if it is there."""
    ctx.store.delete(keys.deadline(kind // 10, time, int(kind), *parts))


def get_due(ctx: Context, limit: int) -> list[Entry]:
    """Return the first ``limit`` entries whose time has come, by lane and time."""
    due: list[Entry] = []
    for lane in LANES:
        for key in ctx.store.scan_keys(keys.deadline(lane)):
            _, time, kind, *parts = keys.parts_of(key)
            if len(due) == limit or number_of(time) > ctx.clock:
                break
            due.append(Entry(Due(number_of(kind)), number_of(time), tuple(parts)))
    return due


def remove(ctx: Context, entry: Entry) -> bool:
    """Take an entry out of the queue, and tell whether it was still there."""
    key = keys.deadline(entry.kind // 10, entry.time, int(entry.kind), *entry.parts)
    found = ctx.store.get(key) is not None
    ctx.store.delete(key)
    return found
