"""Rows that several pages show: orders, events, conditions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from console import words
from console.costs import cost_of
from console.index.records import OrderRow
from console.index.writing import EventIndex
from domain.events import Change
from domain.keys import PanelKey, RoundKey, ShareKey
from domain.ledger.events import BondDeposited, BondReleased, BondWithdrawing, PaymentMade
from domain.legs.events import LegFailed, OrderDeclined, OrderMatched
from domain.market.events import OrderClosed, OrderSubmitted
from domain.market.records import OrderState
from domain.node.queries import LoggedEvent
from domain.params import Params
from domain.proof.events import (
    DeliveryWitnessed,
    RoundVerified,
    RulingAppealed,
    SeatDiffered,
    SeatPaid,
    SeatSilent,
    ShareCommitted,
    ShareCompared,
    ShareIncluded,
    ShareRejected,
    ShareSkipped,
    SlashVoteEnded,
    SlashVoteOpened,
    ValidatorSlashed,
)
from domain.registry.events import FaultCounted, ProviderCertified
from domain.vocabulary import read_event
from pol.rules.inclusion import issue_name

_QUIET: Final = ("panel.", "share.drawn", "order.progress", "payment", "order.excluded", "bond.")
"""Kinds of events that are left out of the network's page, because they matter only within an order."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The query of a page's address (the part after "?"), with the last value of each name."""

    values: Mapping[str, str]

    def text(self, name: str, limit: int = 100) -> str:
        """Return the value of ``name`` (or an empty text) without surrounding spaces, cut to ``limit`` characters."""
        return self.values.get(name, "").strip()[:limit]

    def number(self, name: str, least: int, default: int) -> int:
        """Return the value of ``name`` as a number, at least ``least``; the default if the value is not a number."""
        text = self.values.get(name, "")
        if not (text.isascii() and text.isdigit() and len(text) <= 12):
            return default
        return max(least, int(text))


def event_row(index: EventIndex, event: LoggedEvent) -> dict[str, Any]:
    """Return an event with its time, its main address, and its round, slot and amount as text."""
    order = dict(event.attributes).get("order")
    change = read_event(event)
    return {
        "number": event.number,
        "height": event.height,
        "time_ns": index.block_time(event.height),
        "kind": event.type,
        "order": order or "",
        "who": _who(change),
        "detail": _detail(change),
    }


def is_loud(event: LoggedEvent) -> bool:
    """Return True if an event matters outside its order, so that the network's page shows it."""
    return not event.type.startswith(_QUIET)


def order_row(index: EventIndex, row: OrderRow, params: Params | None) -> dict[str, Any]:
    """Return an order as lists show it; the cost is the expected cost or, for a closed order, the sum that it paid."""
    cost = row.paid
    if row.state is not OrderState.CLOSED:
        order = index.submitted(row.order_id) if row.price else None
        cost = cost_of(order.terms, order.conditions, row.price, row.price_limit, params) if order else 0
    return {
        "id": row.order_id.hex(),
        "consumer": row.consumer,
        "job": row.job_id.hex(),
        "job_name": index.job_name(row.job_id),
        "state": row.state.name.lower(),
        "status": words.order_state(row.state, row.reason),
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
    """Return the number of bids that failed each condition, with a remedy; the highest number is first."""
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


def _detail(change: Change | None) -> str:
    """Return the round and slot that an event is about, and its amount or reason."""
    parts = [_where(change), _amount_or_reason(change)]
    return ", ".join(filter(None, parts))


def _where(change: Change | None) -> str:
    names = ("share", "panel", "dispute", "round")
    key = next((getattr(change, name) for name in names if hasattr(change, name)), None)
    if isinstance(change, PaymentMade):
        return f"round {change.round}" if change.round >= 0 else ""
    if isinstance(key, ShareKey):
        task_issue = change.task_issue if isinstance(change, ShareIncluded) else 0
        again = f", issue {issue_name(key.issue, task_issue)}" if key.issue > 1 else ""
        return f"round {key.round}, slot {key.slot}{again}"
    if isinstance(key, PanelKey):
        return f"round {key.round}" + (f", challenge {key.dispute}" if key.dispute else "")
    if isinstance(key, RoundKey):
        return f"round {key.round}"
    return ""


def _amount_or_reason(change: Change | None) -> str:
    match change:
        case OrderSubmitted(deposit=amount):
            return words.assay(amount)
        case OrderMatched(price=price):
            return f"at {words.price(price)}"
        case OrderClosed(reason=reason):
            return words.close_reason(reason)
        case OrderDeclined(reason=reason) | LegFailed(reason=reason):
            return words.leg_end(reason)
        case ShareRejected(reason=reason) | ShareSkipped(reason=reason):
            return words.share_reason(reason)
        case ShareCommitted(bond=amount) | ShareIncluded(bond=amount):
            return f"{words.assay(amount)} bond"
        case ShareCompared(right=right, paid=paid):
            return f"{words.assay(paid)} paid" if right else "not paid"
        case RoundVerified(price=price, audit_fee=fee):
            return words.assay(price + fee)
        case PaymentMade(kind=kind, amount=amount):
            return f"{words.assay(amount)} {words.PAYMENTS.get(kind, kind)}"
        case BondDeposited(amount=amount) | BondReleased(amount=amount):
            return words.assay(amount)
        case BondWithdrawing(amount=amount):
            return words.assay(amount)
        case SeatPaid(paid=amount) | DeliveryWitnessed(paid=amount):
            return words.assay(amount)
        case SeatSilent(cut=amount) | SeatDiffered(cut=amount):
            return f"{words.assay(amount)} lost"
        case ProviderCertified(speed=speed):
            return words.speed(speed)
    return _penalty(change)


def _penalty(change: Change | None) -> str:
    """Return the penalty of a validator that an event is about; empty if it is about none."""
    match change:
        case ValidatorSlashed(amount=amount):
            return f"{words.assay(amount)} lost"
        case RulingAppealed(bond=amount):
            return words.assay(amount)
        case SlashVoteOpened(slash=amount):
            return f"{words.assay(amount)} reserved"
        case SlashVoteEnded(slashed=slashed):
            return "slashed" if slashed else "not slashed"
        case FaultCounted(jailed_until=until):
            return "jailed" if until else ""
    return ""


def _who(change: Change | None) -> str:
    """Return the address that an event is about; empty if it names none."""
    for name in ("provider", "auditor", "validator", "operator", "consumer", "owner", "to"):
        value = getattr(change, name, "")
        if isinstance(value, str) and value:
            return value
    return ""
