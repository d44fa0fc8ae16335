"""The chain of the harness with a state that is kept as records, so that nothing is decoded again and again."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from chain.state_machine import queries
from chain.state_machine.invariants import check_all, check_record
from chain.state_machine.ledger.tables import BOND_ROWS, ESCROWS, PAYMENTS, TALLIES
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.tables import (
    AWAITING,
    COMPARING,
    DELIVERIES,
    DEPARTURES,
    HELD_COUNTS,
    HELD_ISSUES,
    PANEL_POTS,
    PANELS,
    RECEIPT_ASKS,
    ROUNDS,
    SEATS,
    SHARES,
    SHOWN_TRACES,
    STANDING_ISSUES,
    VOID_CLAIMS,
    VOID_FUNDS,
    WRONG_HANDOVERS,
)
from chain.state_machine.rules import RULES
from chain.state_machine.store import MemoryStore, Overlay, Reader
from chain.state_machine.tables import Space, parts_of
from domain.market.records import OrderState
from localnet.simulator.memory_chain import MemoryChain
from localnet.simulator.rechecks import Noting

T = TypeVar("T")
OF_ORDERS: tuple[Space, ...] = (
    ORDERS,
    LEGS,
    SHARES,
    DELIVERIES,
    RECEIPT_ASKS,
    HELD_ISSUES,
    HELD_COUNTS,
    ROUNDS,
    PANELS,
    SEATS,
    ESCROWS,
    PAYMENTS,
    TALLIES,
    BOND_ROWS,
    STANDING_ISSUES,
    PANEL_POTS,
    VOID_FUNDS,
    VOID_CLAIMS,
    WRONG_HANDOVERS,
    AWAITING,
    COMPARING,
    SHOWN_TRACES,
    DEPARTURES,
)
"""Tables whose keys begin with an order, and in which nothing changes once it is closed and no one votes on a slash."""
_OF_ORDERS = frozenset(table.prefix for table in OF_ORDERS)
WHOLE_BLOCKS = 50
"""Blocks after which the invariants are checked over closed orders, too."""


class LiveStore(Overlay):
    """A state in memory as an overlay over nothing: overlays on it share its records, which are frozen."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())

    def take(self, changes: Iterable[tuple[bytes, Any]]) -> None:
        """Write changes of an overlay; None deletes."""
        gone: set[int] = set()
        for key, value in changes:
            self.put(key, value)
            if value is None:
                gone.add(key[0])
                del self._values[key]
        for first in sorted(gone):
            self._sorted.pop(first, None)
            self._keys[first] = [key for key in self._keys[first] if key in self._values]

    def record(self, cls: type[T], key: bytes) -> T | None:
        value: Any = self._values.get(key)
        return super().record(cls, key) if type(value) is bytes else value

    def changed_keys(self, prefix: bytes) -> Iterator[bytes]:
        """Yield nothing: what lies here is committed."""
        yield from ()

    def _merged(self, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, Any]]:
        values = self._values
        for key in self._own_keys(prefix, after):
            yield key, values[key]


class LiveChain(MemoryChain):
    """A chain that knows what its last block changed, and checks after each what may have changed.

    What is about an order is checked when something of it changed, and what is about the whole when something changed
    that it reads. A closed order no longer changes, which is
    checked for every key; so the rest is looked at over those that live, and now and then over all.
    """

    changed: list[bytes]
    touched: list[bytes]  # the orders of which something changed

    def make_store(self) -> Reader:
        self._living = LiveStore()
        self._closed: set[bytes] = set()
        self._answers: dict[Any, tuple[set[int], Any]] = {}
        return LiveStore()

    def commit(self, overlay: Overlay) -> Iterable[bytes]:
        changes = list(overlay._values.items())
        self.store.take(changes)
        self._living.take(changes)
        self.changed = [key for key, _ in changes]
        self.rechecks.note(self.changed)
        # Without doubles, in their order.
        self.touched = list(dict.fromkeys(parts_of(key)[0] for key in self.changed if key[0] in _OF_ORDERS))
        changed = {key[0] for key in self.changed}
        for request in [r for r, (seen, _) in self._answers.items() if seen & changed]:
            del self._answers[request]
        return self.changed

    def ask(self, request: Any) -> Any:
        """Answer a query; the answer is kept until something changes that was read for it."""
        if request not in self._answers:
            store = Noting(self.store)
            answer = queries.answer(store, request)
            self._answers[request] = store.seen, answer
        return self._answers[request][1]

    def changed_in(self, table: Space) -> list[tuple[bytes, ...]]:
        """Return the parts of the keys of a table that the last block changed."""
        return [parts_of(key) for key in self.changed if key[0] == table.prefix]

    def everything(self) -> dict[bytes, bytes]:
        """Return the whole state, encoded."""
        return dict(item for first in range(256) for item in self.store.scan(bytes([first])))

    def check_state(self) -> None:
        """Check what may have changed; after so many blocks everything."""
        store, living = self.overlay(), Overlay(self._living)
        if self.height % WHOLE_BLOCKS == 0:
            check_all(self.store)
        self.rechecks.check_whole(self._living, RULES)
        for order_id in self.touched:
            assert order_id not in self._closed, f"order {order_id.hex()} changes after its end"
            check_record(living, ORDERS, ORDERS.must(living, order_id))
        for order_id in self.touched:
            if ORDERS.must(store, order_id).state is OrderState.CLOSED and not self.has_vote(order_id):
                self._closed.add(order_id)
                keys = [k for t in OF_ORDERS for k in self._living.scan_keys(t.key(order_id))]
                self._living.take([(key, None) for key in keys])
                self.rechecks.note(keys)

    def has_vote(self, order_id: bytes) -> bool:
        """Return whether validators vote on a slash for a round of an order. It may be closed."""
        return any(panel.votes_on_slash for panel in PANELS.iterate(self.overlay(), order_id))
