"""Verdicts on shares as rows for people; written when they change."""

from domain.queries import OrderResponse
from validator.decide.records import LocalOrder, VerdictRow
from validator.decide.verdicts import verdict_rows
from validator.store import ValidatorStore


class VerdictBook:
    """Writes the rows that are new; what it wrote of an attempt is remembered until it is dropped."""

    def __init__(self, store: ValidatorStore) -> None:
        """Write to ``store``."""
        self._store = store
        self._written: dict[tuple[bytes, int], frozenset[VerdictRow]] = {}

    def write(self, local: LocalOrder, chain: OrderResponse) -> None:
        """Write what changed since the last time."""
        key = (local.order_id, local.attempt)
        rows = frozenset(verdict_rows(local, chain))
        new = rows - self._written.get(key, frozenset())
        if new:
            self._store.save_verdicts(new)
        self._written[key] = rows

    def drop(self, order_id: bytes) -> None:
        """Remember nothing of an order that is closed."""
        for key in [key for key in self._written if key[0] == order_id]:
            del self._written[key]
