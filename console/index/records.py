"""What the index keeps for lists: rows of orders, blocks and providers, and how they are read from its tables."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from console.traces import Reached, Replayed, ShareTrace
from domain.events import Change, Counts
from domain.market.records import OrderState
from domain.node.queries import LoggedEvent

EARNINGS: Final = ("provider", "validator", "auditor", "compensation", "held_compensation")
"""Kinds of payments by which somebody earns."""
POTS: Final = ("escrows", "bonds", "audits", "community", "burnt")
"""Where coins are, as far as numbered events tell; stakes are validators' own, and fees are outside of these events."""


@dataclass(frozen=True, slots=True)
class OrderRow:
    """An order in a list."""

    order_id: bytes
    number: int
    consumer: str
    job_id: bytes
    state: OrderState
    # CloseReason, 0 while it lives.
    reason: int
    leg: int
    validator: str
    work: int
    price_limit: int
    price: int
    deposit: int
    paid: int
    refunded: int
    rounds: int
    closed: int
    verified: int
    rejected: int
    deadline: int
    height: int
    # How many bids failed on which condition at the last auction, while it waits, or as it closed.
    unmatched: Counts


@dataclass(frozen=True, slots=True)
class BlockRow:
    """A block: when, and by whom (consensus address)."""

    height: int
    time_ns: int
    proposer: bytes


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """What became of a provider's shares, over its whole life."""

    address: str
    accepted: int
    rejected: int
    wrong: int
    height: int


COLUMNS: Final = ", ".join(OrderRow.__slots__)
"""Columns of the table of orders, as :func:`order_row` takes them."""


def order_row(row: Sequence[Any]) -> OrderRow:
    """Return an order from its columns."""
    values = dict(zip(OrderRow.__slots__, row, strict=True))
    values["state"], values["work"] = OrderState(values["state"]), int(values["work"])
    values["unmatched"] = tuple(map(tuple, json.loads(values["unmatched"])))
    return OrderRow(**values)


def trace_of(text: str) -> ShareTrace:
    """Return a trace from the text that the index keeps of it."""
    value = json.loads(text)
    return ShareTrace(
        boundaries=tuple(
            Reached(index=index, step=step, root=bytes.fromhex(root), metrics=tuple(metrics))
            for index, (step, root, metrics) in enumerate(value["boundaries"], 1)
        ),
        replayed=tuple(Replayed(segment, reason, bytes.fromhex(root)) for segment, reason, root in value["replayed"]),
        picks=tuple(value["picks"]),
        verdict=value["verdict"],
        claimed=value["claimed"],
    )


def event_of(row: Sequence[Any]) -> LoggedEvent:
    """Return an event from its columns."""
    number, height, kind, attributes = row
    return LoggedEvent(
        number=number,
        height=height,
        type=kind,
        attributes=tuple(map(tuple, json.loads(attributes))),
    )


def order_of(change: Change | None) -> bytes | None:
    """Return the order that a change is about, None where it is about none."""
    for name in ("order", "round", "share"):
        value = getattr(change, name, None)
        if isinstance(value, bytes):
            return value
        if value is not None and hasattr(value, "order_id"):
            found: bytes = value.order_id
            return found
    return None
