"""What a round costs its consumer, and what of it is for its auditors (protocol sections 5.5 and 7)."""

from domain.amount import price_floor
from domain.legs.records import Leg
from domain.market.records import Order
from escrow.settle import audit_fee
from pol.rules.schedule import round_work, served_terms
from pol.rules.tiers.table import tier_of


def compute_round_cost(order: Order, leg: Leg) -> int:
    """Return what a verified round costs the consumer: its work, and what the audit fee is beyond its part of that.

    A round without a panel costs its work alone (:func:`compute_work_cost`).
    """
    work, price = round_work(served_terms(order.terms, leg)), leg.price
    part = audit_fee(work, price, order.params.audit_bps) if order.params.auditors else 0
    return price_floor(work, price) - part + compute_audit_fee(order, leg)


def compute_work_cost(order: Order, leg: Leg) -> int:
    """Return what the work of a round costs."""
    return price_floor(round_work(served_terms(order.terms, leg)), leg.price)


def compute_audit_fee(order: Order, leg: Leg, work: int | None = None) -> int:
    """Return the audit fee of a round with a panel, as its tier has it; none without auditors.

    What it is beyond its part of the work is locked beside that. Of a round in which the job stopped ``work`` is what
    was done.
    """
    if not order.params.auditors:
        return 0
    return tier_of(leg).fee(order, leg, round_work(served_terms(order.terms, leg)) if work is None else work)
