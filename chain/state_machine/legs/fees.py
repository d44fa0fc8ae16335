"""What a round costs its consumer, and what of it is for its auditors (protocol sections 5.5 and 7)."""

from domain.amount import price_floor
from domain.legs.records import Leg
from domain.market.records import Order
from escrow.settle import audit_fee
from pol.rules.panels import audit_floor
from pol.rules.schedule import round_work, served_terms


def compute_round_cost(order: Order, leg: Leg) -> int:
    """Return what a verified round costs the consumer: its work, and what the audit fee is beyond its part of that."""
    work, price = round_work(served_terms(order.terms, leg)), leg.price
    part = audit_fee(work, price, order.params.audit_bps) if order.params.auditors else 0
    return price_floor(work, price) - part + compute_audit_fee(order, leg)


def compute_audit_fee(order: Order, leg: Leg, work: int | None = None) -> int:
    """Return the audit fee of a round: basis points of its price, and never below its floor; none without auditors.

    What the floor adds is locked beside the work. Of a round in which the job stopped ``work`` is what was done.
    """
    if not order.params.auditors:
        return 0
    terms = served_terms(order.terms, leg)
    floor = audit_floor(terms, order.price_limit, order.params)
    work = round_work(terms) if work is None else work
    return max(floor, audit_fee(work, leg.price, order.params.audit_bps))
