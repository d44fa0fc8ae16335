"""Rows of the index's tables: orders, blocks, providers, events and traces."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from console.traces import Reached, Replayed, ShareTrace
from domain.events import Change, Counts
from domain.market.records import OrderState
from domain.node.queries import LoggedEvent

EARNINGS: Final = ("provider", "validator", "auditor", "compensation", "withheld_compensation")
"""Kinds of payments that count as earnings of their recipient."""
POTS: Final = ("escrows", "bonds", "audits", "distribution", "community", "burnt")
"""Pots of coins whose amounts follow from events. The stakes are missing here because they are read from validators,
and the fees because none are left behind a block.
"""


@dataclass(frozen=True, slots=True)
class OrderRow:
    """A row of the table of orders."""

    order_id: bytes
    number: int
    consumer: str
    job_id: bytes
    state: OrderState
    # A CloseReason; 0 while the order is not closed.
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
    # Number of bids that failed each condition in the last auction, if the order waits for a bid or closed without a
    # bid.
    unmatched: Counts


@dataclass(frozen=True, slots=True)
class BlockRow:
    """A block's height, time (ns since the epoch) and proposer (consensus address)."""

    height: int
    time_ns: int
    proposer: bytes


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """Counts of a provider's shares over all time, by outcome."""

    address: str
    accepted: int
    rejected: int
    wrong: int
    height: int


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A policy about evidence. Times are on the chain clock; ``withdrawn_at`` is 0 while the policy is in force."""

    name: str
    technology: str
    valid_for: int
    added_at: int
    withdrawn_at: int


@dataclass(frozen=True, slots=True)
class CredentialRow:
    """The credential of a device with its last owner. ``banned_at`` is 0 if it is not banned."""

    credential: bytes
    owner: str
    policy: str
    since: int
    ends_at: int
    banned_at: int


@dataclass(frozen=True, slots=True)
class JudgementRow:
    """The last request of an account for a credential: the seats of its panel, and how many have answered.

    The panel answers ``until`` a time on the chain clock, which is 0 before it is drawn. ``verdict`` is an
    ``AttestVerdict``, or 0 while the request is open. ``reason`` is an ``AttestAnswer``, or 0.
    """

    owner: str
    policy: str
    credential: bytes
    asked_at: int
    wanted: int
    seats: int
    committed: int
    revealed: int
    until: int
    verdict: int
    reason: int


COLUMNS: Final = ", ".join(OrderRow.__slots__)
"""Columns of the table of orders, in the order that :func:`order_row` expects."""


def order_row(row: Sequence[Any]) -> OrderRow:
    """Return an order from the columns of its row, in the order of ``COLUMNS``."""
    values = dict(zip(OrderRow.__slots__, row, strict=True))
    values["state"] = OrderState(values["state"])
    values["work"] = int(values["work"])
    values["unmatched"] = tuple(map(tuple, json.loads(values["unmatched"])))
    return OrderRow(**values)


def trace_of(text: str) -> ShareTrace:
    """Return a trace from its JSON text in the index."""
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
    """Return an event from its columns: number, height, kind, and attributes as JSON."""
    number, height, kind, attributes = row
    return LoggedEvent(
        number=number,
        height=height,
        type=kind,
        attributes=tuple(map(tuple, json.loads(attributes))),
    )


def order_of(change: Change | None) -> bytes | None:
    """Return the id of the order that a change is about; None if it is not about an order."""
    for name in ("order", "round", "panel", "dispute", "share"):
        value = getattr(change, name, None)
        if isinstance(value, bytes):
            return value
        if value is not None and hasattr(value, "order_id"):
            order_id: bytes = value.order_id
            return order_id
    return None
