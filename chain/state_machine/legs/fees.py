"""Costs of a round for the consumer, and the audit fee in them (protocol sections 5.5 and 7)."""

from domain.amount import price_floor
from domain.legs.records import Leg
from domain.market.records import Order
from escrow.settle import audit_fee
from pol.rules.schedule import round_work, served_terms
from pol.rules.tiers.table import tier_of


def compute_round_cost(order: Order, leg: Leg) -> int:
    """Return the cost (uassay) of a verified round with a panel: the price of its work and the rest of the audit fee.

    ``audit_bps`` of the price of the work already pay a part of the audit fee. A round without a panel costs only its
    work (:func:`compute_work_cost`).
    """
    work = round_work(served_terms(order.terms, leg))
    part = audit_fee(work, leg.price, order.params.audit_bps) if order.params.auditors else 0
    return price_floor(work, leg.price) - part + compute_audit_fee(order, leg)


def compute_work_cost(order: Order, leg: Leg) -> int:
    """Return the price (uassay) of the work of a round."""
    return price_floor(round_work(served_terms(order.terms, leg)), leg.price)


def compute_audit_fee(order: Order, leg: Leg, work: int | None = None) -> int:
    """Return the audit fee (uassay) of a round with a panel. It depends on the tier; without auditors it is 0.

    The part of the fee that the price of the work does not pay is locked separately. For a round in which the job
    stopped, ``work`` is the work (FLOPs) that was done.
    """
    if not order.params.auditors:
        return 0
    return tier_of(leg).fee(order, leg, round_work(served_terms(order.terms, leg)) if work is None else work)
