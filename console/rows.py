"""Rows that several pages show: orders, events, conditions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from console import words
from console.index import Index, OrderRow
from domain.amount import price_ceil
from domain.node.queries import LoggedEvent
from domain.vocabulary import read_event

_QUIET: Final = ("panel.", "share.drawn", "order.progress", "payment", "order.excluded", "bond.")
"""Kinds of events that say little to who looks at a whole network."""


@dataclass(frozen=True, slots=True)
class Query:
    """What stands behind the question mark of a page's address: the last of each name."""

    values: Mapping[str, str]

    def text(self, name: str, limit: int = 100) -> str:
        """Return a text, cut: it comes from anywhere."""
        return self.values.get(name, "").strip()[:limit]

    def number(self, name: str, least: int, default: int) -> int:
        """Return a number that is not below ``least``, else the default."""
        text = self.values.get(name, "")
        if not (text.isascii() and text.isdigit() and len(text) <= 12):
            return default
        return max(least, int(text))


def event_row(index: Index, event: LoggedEvent) -> dict[str, Any]:
    """Return an event with its time and whom it is about."""
    order = dict(event.attributes).get("order")
    return {
        "number": event.number,
        "height": event.height,
        "time_ns": index.block_time(event.height),
        "kind": event.type,
        "order": order or "",
        "who": _who(event),
    }


def is_loud(event: LoggedEvent) -> bool:
    """Tell whether an event says something to who looks at a whole network."""
    return not event.type.startswith(_QUIET)


def order_row(index: Index, row: OrderRow) -> dict[str, Any]:
    """Return an order as lists show it."""
    cost = price_ceil(row.work, row.price) if row.price else 0
    return {
        "id": row.order_id.hex(),
        "consumer": row.consumer,
        "job": row.job_id.hex(),
        "state": row.state.name.lower(),
        "reason": row.reason,
        "leg": row.leg,
        "validator": row.validator,
        "work": row.work,
        "price_limit": row.price_limit,
        "price": row.price,
        "cost": cost,
        "deposit": row.deposit,
        "paid": row.paid,
        "refunded": row.refunded,
        "rounds": row.rounds,
        "closed": row.closed,
        "verified": row.verified,
        "rejected": row.rejected,
        "height": row.height,
        "time_ns": index.block_time(row.height),
    }


def condition_bars(failed: tuple[tuple[str, int], ...], bids: int) -> list[dict[str, Any]]:
    """Return how many of the bids failed on which condition, most first, with what helps."""
    most = max([bids, *(count for _, count in failed)], default=0)
    bars = []
    for name, count in sorted(failed, key=lambda item: (-item[1], item[0])):
        passes, helps = words.condition(name)
        bars.append(
            {
                "condition": name,
                "count": count,
                "part": count / most if most else 0.0,
                "passes": passes,
                "helps": helps,
            }
        )
    return bars


def _who(event: LoggedEvent) -> str:
    """Return the address that an event is about, empty where it names none."""
    change = read_event(event)
    for name in ("provider", "auditor", "validator", "operator", "consumer", "owner", "to"):
        value = getattr(change, name, "")
        if isinstance(value, str) and value:
            return value
    return ""
