"""Verdicts on shares as rows for people; written when they change."""

from domain.queries import OrderResponse
from validator.decide.records import LocalOrder
from validator.decide.rounds import is_verified
from validator.store import ValidatorStore, VerdictRow


def verdict_rows(local: LocalOrder, chain: OrderResponse) -> list[VerdictRow]:
    """Return a row for each share that is judged."""
    rows: list[VerdictRow] = []
    for current in local.rounds:
        shares = chain.shares_of(local.attempt, current.number)
        for work in current.works:
            share = shares.get((work.slot, work.issue))
            accepted = current.next_global is not None and not work.verdict
            if not (work.verdict or accepted or is_verified(current, work, share)):
                continue
            failed = [d.place for d in work.checked if d.reason and d.reason == work.verdict]
            rows.append(
                VerdictRow(
                    local.order_id,
                    local.attempt,
                    current.number,
                    work.slot,
                    work.issue,
                    work.provider,
                    work.packet.claim.segments if work.packet else 0,
                    len(work.checked),
                    int(work.verdict),
                    failed[0] if failed else -1,
                )
            )
    return rows


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
