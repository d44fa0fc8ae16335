"""The queue of scheduled work, ordered by lane and then by time on the chain clock.

Duties (lots, draws, windows) come before orders, and orders before housekeeping, so that an order never ends before its
due work is done. A block runs as many entries as its gas allows; later blocks run the rest. If an entry runs late, that
does no harm, because the handlers of messages check deadlines themselves.

A message may cause work in addition to its own effects. This work is due at once: it runs at the end of the block, or
in later blocks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile

from chain.state_machine.context import Context
from chain.state_machine.kinds import Due
from chain.state_machine.store import Overlay
from chain.state_machine.tables import KeySet, Part, number_of
from domain.keys import PanelKey, RoundKey

# Key: lane, time, kind, and the parts of the entry (the ids and numbers that it concerns).
DEADLINES = KeySet(0x48, "deadline")


def panel_key(order_id: bytes, leg: bytes, round: bytes, dispute: bytes) -> PanelKey:
    """Return the key of a panel from the parts of a key of a table."""
    return RoundKey(order_id, number_of(leg), number_of(round)).panel(number_of(dispute))


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """An entry of the queue.

    ``kind`` is the number of its :class:`Due`, and ``parts`` are the last parts of its key.
    """

    kind: int
    time: int
    parts: tuple[bytes, ...]

    def number(self, at: int) -> int:
        """Return the part with the index ``at`` as an integer."""
        return number_of(self.parts[at])

    @property
    def round_key(self) -> RoundKey:
        """The round that the first three parts name: order, leg, round."""
        return RoundKey(self.parts[0], self.number(1), self.number(2))

    @property
    def panel_key(self) -> PanelKey:
        """The panel that the first four parts name: order, leg, round, dispute."""
        return panel_key(*self.parts[:4])

    def text(self, at: int) -> str:
        """Return the part with the index ``at`` as a text."""
        return self.parts[at].decode()


@dataclass(frozen=True, slots=True)
class Effect:
    """The action of one kind of entry; ``weight`` returns the gas that the entry needs in addition to the gas of every
    entry (``DUE_GAS``).
    """

    due: Due
    apply: Callable[[Context, QueueEntry], None]
    weight: Callable[[Context, QueueEntry], int] | None = None


def schedule(ctx: Context, time: int, kind: Due, *parts: Part) -> None:
    """Put an entry into the queue; do nothing if it is there already."""
    DEADLINES.mark(ctx.store, kind.lane, time, kind.number, *parts)


def cancel(ctx: Context, time: int, kind: Due, *parts: Part) -> None:
    """Remove an entry from the queue, if it is there."""
    DEADLINES.delete(ctx.store, kind.lane, time, kind.number, *parts)


def get_entries(store: Overlay, *lane: int) -> Iterator[QueueEntry]:
    """Yield the entries of one lane, or of all lanes, sorted by lane and time."""
    for _, time, kind, *parts in DEADLINES.keys(store, *lane):
        yield QueueEntry(number_of(kind), number_of(time), tuple(parts))


def get_due(ctx: Context, lane: int, limit: int) -> list[QueueEntry]:
    """Return the first entries of a lane whose time has come; there are at most ``limit``."""
    entries = takewhile(lambda entry: entry.time <= ctx.clock, get_entries(ctx.store, lane))
    return list(islice(entries, limit))


def is_scheduled(ctx: Context, time: int, kind: Due, *parts: Part) -> bool:
    """Return whether an entry is in the queue."""
    return DEADLINES.has(ctx.store, kind.lane, time, kind.number, *parts)
