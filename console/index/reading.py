"""The queries of the index, for pages, lists and the search."""

from console.index.database import Database
from console.index.records import (
    COLUMNS,
    POTS,
    BlockRow,
    CredentialRow,
    JudgementRow,
    OrderRow,
    PolicyRow,
    ProviderRow,
    event_of,
    order_row,
    trace_of,
)
from console.traces import ShareTrace
from domain.keys import ShareKey
from domain.market.events import OrderSubmitted
from domain.market.records import Order, OrderState
from domain.node.queries import LoggedEvent
from domain.vocabulary import read_event


class Readings(Database):
    """An index that can be queried."""

    def trace(self, key: ShareKey) -> ShareTrace:
        """Return the trace of a share; an empty trace if the index has none."""
        rows = self._all(
            "SELECT trace FROM traces WHERE (order_id, leg, round, slot, issue) = (?, ?, ?, ?, ?)",
            *key,
        )
        return trace_of(rows[0][0]) if rows else ShareTrace()

    def traces(self, order_id: bytes, leg: int) -> dict[ShareKey, ShareTrace]:
        """Return the known traces of a leg."""
        rows = self._all(
            "SELECT round, slot, issue, trace FROM traces WHERE order_id = ? AND leg = ?",
            order_id,
            leg,
        )
        return {
            ShareKey(order_id=order_id, leg=leg, round=round, slot=slot, issue=issue): trace_of(text)
            for round, slot, issue, text in rows
        }

    def trace_changes(self, since: int) -> tuple[list[bytes], int]:
        """Return the orders whose traces changed after the change with the number ``since``, and the number of the last
        change.
        """
        rows = self._all("SELECT DISTINCT order_id FROM traces WHERE change > ?", since)
        ((last,),) = self._all("SELECT COALESCE(MAX(change), 0) FROM traces")
        return [row[0] for row in rows], int(last)

    def unknown_blocks(self, limit: int) -> list[int]:
        """Return at most ``limit`` heights of blocks that have events but no known time, the newest first."""
        rows = self._all("SELECT height FROM blocks WHERE time_ns IS NULL ORDER BY height DESC LIMIT ?", limit)
        return [height for (height,) in rows]

    def blocks(self, limit: int, most: int = 2**62) -> list[BlockRow]:
        """Return at most ``limit`` blocks with known times, from the height ``most`` down."""
        rows = self._all(
            "SELECT height, time_ns, proposer FROM blocks WHERE height <= ? AND time_ns IS NOT NULL "
            "ORDER BY height DESC LIMIT ?",
            most,
            limit,
        )
        return [BlockRow(*row) for row in rows]

    def block(self, height: int) -> BlockRow | None:
        """Return a block; None if its time is not known."""
        return next((row for row in self.blocks(1, height) if row.height == height), None)

    def events_at(self, height: int) -> tuple[int, int]:
        """Return the number of a block's first event, and the count of its events; (0, 0) if it has no events.

        Events are numbered without gaps, so they are counted without being read.
        """
        ((first, last),) = self._all(
            "SELECT (SELECT number FROM events WHERE height = ?1 ORDER BY number LIMIT 1), "
            "(SELECT number FROM events WHERE height = ?1 ORDER BY number DESC LIMIT 1)",
            height,
        )
        return (int(first), int(last) - int(first) + 1) if first else (0, 0)

    def policies(self) -> list[PolicyRow]:
        """Return all policies about evidence, by name."""
        rows = self._all("SELECT name, technology, valid_for, added_at, withdrawn_at FROM policies ORDER BY name")
        return [PolicyRow(*row) for row in rows]

    def credentials(self, limit: int, *, banned: bool = False) -> list[CredentialRow]:
        """Return at most ``limit`` credentials, the last one that changed first; only those that are ``banned`` or not
        banned.
        """
        rows = self._all(
            "SELECT credential, owner, policy, since, ends_at, banned_at FROM credentials WHERE (banned_at > 0) = ? "
            "ORDER BY number DESC LIMIT ?",
            banned,
            limit,
        )
        return [CredentialRow(*row) for row in rows]

    def count_credentials(self, policy: str, clock: int) -> int:
        """Return the number of credentials of a policy that have neither ended nor been banned at ``clock``."""
        ((count,),) = self._all(
            "SELECT COUNT(*) FROM credentials WHERE policy = ? AND ends_at > ? AND banned_at = 0", policy, clock
        )
        return int(count)

    def judgements(self, limit: int, *, is_open: bool) -> list[JudgementRow]:
        """Return at most ``limit`` requests for credentials that are open, or that have a verdict, the newest first."""
        rows = self._all(
            "SELECT owner, policy, credential, asked_at, wanted, seats, committed, revealed, until, verdict, reason "
            "FROM judgements WHERE (verdict = 0) = ? ORDER BY number DESC LIMIT ?",
            is_open,
            limit,
        )
        return [JudgementRow(*row) for row in rows]

    def last_seen(self, address: str) -> tuple[int, str]:
        """Return the height of the last action of an address, and the kind of its event; (0, "") if there is none."""
        rows = self._all("SELECT height, kind FROM seen WHERE address = ?", address)
        return (int(rows[0][0]), rows[0][1]) if rows else (0, "")

    def seen(self) -> dict[str, int]:
        """Return the height of each address's last action."""
        return dict(self._all("SELECT address, height FROM seen"))

    def block_time(self, height: int) -> int:
        """Return the time of a block (ns since the epoch); 0 if it is not known."""
        rows = self._all("SELECT time_ns FROM blocks WHERE height = ?", height)
        return int(rows[0][0] or 0) if rows else 0

    def events(self, since: int, limit: int) -> list[LoggedEvent]:
        """Return at most ``limit`` events from number ``since`` on."""
        rows = self._all(
            "SELECT number, height, kind, attributes FROM events WHERE number >= ? ORDER BY number LIMIT ?",
            since,
            limit,
        )
        return [event_of(row) for row in rows]

    def latest(self, limit: int, order_id: bytes | None = None) -> list[LoggedEvent]:
        """Return at most ``limit`` events, the newest first; if ``order_id`` is given, only events of that order."""
        where, values = ("WHERE order_id = ?", (order_id,)) if order_id is not None else ("", ())
        rows = self._all(
            f"SELECT number, height, kind, attributes FROM events {where} ORDER BY number DESC LIMIT ?",
            *values,
            limit,
        )
        return [event_of(row) for row in rows]

    def events_of(self, order_id: bytes, since: int = 0) -> list[LoggedEvent]:
        """Return the events of an order from number ``since`` on."""
        rows = self._all(
            "SELECT number, height, kind, attributes FROM events WHERE order_id = ? AND number >= ? ORDER BY number",
            order_id,
            since,
        )
        return [event_of(row) for row in rows]

    def orders(
        self,
        *,
        state: int = 0,
        reason: int = 0,
        consumer: str = "",
        validator: str = "",
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[OrderRow], int]:
        """Return one page of the orders that match all filters, the newest first, and the number of all such orders.

        A filter that is 0 or empty matches all orders.
        """
        parts: list[tuple[str, object]] = [
            (sql, value)
            for sql, value in (
                ("state = ?", state),
                ("reason = ?", reason),
                ("consumer = ?", consumer),
                ("order_id IN (SELECT order_id FROM validators_of WHERE validator = ?)", validator),
            )
            if value
        ]
        where = f"WHERE {' AND '.join(sql for sql, _ in parts)}" if parts else ""
        values = [value for _, value in parts]
        ((count,),) = self._all(f"SELECT COUNT(*) FROM orders {where}", *values)
        rows = self._all(
            f"SELECT {COLUMNS} FROM orders {where} ORDER BY number DESC LIMIT ? OFFSET ?",
            *values,
            limit,
            offset,
        )
        return [order_row(row) for row in rows], int(count)

    def spent(self, consumer: str) -> tuple[int, int]:
        """Return the sum that a consumer's orders have paid, and the sum that is still locked for them (uassay)."""
        ((paid, locked),) = self._all(
            "SELECT COALESCE(SUM(paid), 0), COALESCE(SUM(deposit - paid - refunded), 0) FROM orders WHERE consumer = ?",
            consumer,
        )
        return int(paid), int(locked)

    def order(self, order_id: bytes) -> OrderRow | None:
        """Return an order; None if it is not known."""
        rows = self._all(f"SELECT {COLUMNS} FROM orders WHERE order_id = ?", order_id)
        return order_row(rows[0]) if rows else None

    def find_orders(self, prefix: str, limit: int = 2) -> list[bytes]:
        """Return at most ``limit`` ids of orders that begin with the hex digits ``prefix``."""
        low, high = (bytes.fromhex(prefix.ljust(64, digit)) for digit in "0f")
        rows = self._all("SELECT order_id FROM orders WHERE order_id BETWEEN ? AND ? LIMIT ?", low, high, limit)
        return [order_id for (order_id,) in rows]

    def count_reasons(self) -> dict[int, int]:
        """Return the number of closed orders for each reason why orders closed."""
        return dict(
            self._all(
                "SELECT reason, COUNT(*) FROM orders WHERE state = ? GROUP BY reason",
                int(OrderState.CLOSED),
            )
        )

    def submitted(self, order_id: bytes) -> Order | None:
        """Return an order as it was submitted; None if it is not known."""
        rows = self._all(
            "SELECT e.number, e.height, e.kind, e.attributes FROM orders JOIN events AS e USING (number) "
            "WHERE orders.order_id = ?",
            order_id,
        )
        change = read_event(event_of(rows[0])) if rows else None
        return change.record if isinstance(change, OrderSubmitted) else None

    def unnamed_orders(self, limit: int) -> list[tuple[bytes, bytes]]:
        """Return the id and the job id of at most ``limit`` orders whose job has no known name, the newest first."""
        return self._all(
            "SELECT order_id, job_id FROM orders WHERE job_id NOT IN (SELECT job_id FROM jobs) "
            "ORDER BY number DESC LIMIT ?",
            limit,
        )

    def job_name(self, job_id: bytes) -> str:
        """Return the name of a job; empty if the index does not have it."""
        rows = self._all("SELECT name FROM jobs WHERE job_id = ?", job_id)
        return str(rows[0][0]) if rows else ""

    def find_named(self, text: str, limit: int) -> list[tuple[bytes, str]]:
        """Return the ids and job names of at most ``limit`` orders with ``text`` in the job name, the newest first."""
        return self._all(
            "SELECT order_id, name FROM orders JOIN jobs USING (job_id) WHERE instr(lower(name), ?) "
            "ORDER BY number DESC LIMIT ?",
            text.lower(),
            limit,
        )

    def count_states(self) -> dict[OrderState, int]:
        """Return the number of orders by state."""
        rows = self._all("SELECT state, COUNT(*) FROM orders GROUP BY state")
        return {OrderState(state): count for state, count in rows}

    def earnings(self) -> dict[str, dict[str, int]]:
        """Return the earnings of each address (uassay), by kind of payment."""
        by_address: dict[str, dict[str, int]] = {}
        for address, kind, amount in self._all("SELECT address, kind, amount FROM earnings"):
            by_address.setdefault(address, {})[kind] = amount
        return by_address

    def earned_of(self, address: str, limit: int) -> list[tuple[bytes, int]]:
        """Return the ids of the ``limit`` orders from which an address earned the most, with the amounts (uassay)."""
        return self._all(
            "SELECT order_id, amount FROM earned_of WHERE address = ? ORDER BY amount DESC LIMIT ?",
            address,
            limit,
        )

    def providers(self) -> dict[str, ProviderRow]:
        """Return the share counts of each provider that has committed a share."""
        rows = self._all("SELECT address, accepted, rejected, wrong, height FROM providers")
        return {row[0]: ProviderRow(*row) for row in rows}

    def pots(self) -> dict[str, int]:
        """Return the amount of coins in each pot (uassay)."""
        return dict.fromkeys(POTS, 0) | dict(self._all("SELECT name, amount FROM pots"))
