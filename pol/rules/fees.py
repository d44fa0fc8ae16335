"""Costs of a round for the consumer, and the audit fee in them (protocol sections 5.5 and 7)."""

from domain.amount import price_floor
from domain.legs.records import Leg
from domain.market.records import Order
from escrow.settle import audit_fee
from pol.rules.panels import panel_fee
from pol.rules.schedule import round_work, served_terms
from pol.rules.tiers.table import tier_of


def compute_round_cost(order: Order, leg: Leg) -> int:
    """Return the largest cost (uassay) of a verified round: the price of its work, and a part of the audit fee.

    A share ``audit_bps`` of the price already goes to the audit fee, so only the rest of the fee is added to the price.
    A round costs less if it has no panel, or if its panel has fewer groups of places than the fee could pay.
    """
    work = round_work(served_terms(order.terms, leg))
    part = audit_fee(work, leg.price, order.params.audit_bps) if order.params.auditors else 0
    return price_floor(work, leg.price) - part + compute_largest_fee(order, leg)


def compute_largest_fee(order: Order, leg: Leg) -> int:
    """Return the largest audit fee (uassay) of a round. A panel draws as many groups of places as this fee pays for.

    The fee depends on the tier. It is 0 on a chain without auditors.
    """
    if not order.params.auditors:
        return 0
    return tier_of(leg).fee(order, leg, round_work(served_terms(order.terms, leg)))


def compute_panel_fee(order: Order, leg: Leg, groups: int) -> int:
    """Return the audit fee (uassay) of a round whose panel has ``groups`` groups of places; 0 if the round has no
    panel.
    """
    if not groups:
        return 0
    return panel_fee(served_terms(order.terms, leg), tier_of(leg).paid(order.params), leg.price, groups)
