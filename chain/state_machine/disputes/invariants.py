"""Invariants of disputes."""

from chain.state_machine.disputes.disputes import hold_reason
from chain.state_machine.disputes.tables import DISPUTES, LIVE_DISPUTES
from chain.state_machine.invariant import Each, Invariants, ensure
from chain.state_machine.ledger.tables import BOND_ROWS
from chain.state_machine.market.tables import HOLDS, ORDERS
from chain.state_machine.proof.tables import PANELS, ROUNDS
from chain.state_machine.queue import panel_key
from chain.state_machine.store import Overlay
from domain.disputes.records import Dispute, DisputeState
from domain.keys import RoundKey
from domain.ledger.records import BondKind
from domain.market.records import Order, OrderState


def check_disputes(store: Overlay, order: Order) -> None:
    """Check the index and the bonds of an order's disputes, and that an open dispute holds its round."""
    name = order.id.hex()
    disputes = DISPUTES.scan(store, order.id)
    live = {dispute.key for dispute in disputes if dispute.is_live}
    marked = {panel_key(*key) for key in LIVE_DISPUTES.keys(store, order.id)}
    ensure(live == marked, f"the index of live disputes of order {name} is wrong")
    rows = {
        RoundKey(order.id, row.leg, row.round).panel(row.issue)
        for row in BOND_ROWS.scan(store, order.id)
        if row.kind is BondKind.CHALLENGE
    }
    ensure(rows == live, f"the bonds of order {name} are not those of its live disputes")
    ensure(not live or order.state is not OrderState.CLOSED, f"order {name} is closed, but has a live dispute")
    for dispute in disputes:
        if dispute.state is DisputeState.OPEN and not dispute.joins:
            _check_open(store, dispute)


def _check_open(store: Overlay, dispute: Dispute) -> None:
    name = f"dispute {dispute.number} of round {dispute.round} of order {dispute.order_id.hex()}"
    key = dispute.round_key
    ensure(HOLDS.has(store, *key, hold_reason(dispute.number)), f"{name} does not hold its round")
    ensure(not PANELS.must(store, *dispute.key).is_settled, f"{name} is open, but its panel is over")
    closed = ROUNDS.must(store, *key)
    ensure(not (closed.verified or closed.void), f"{name} is open, but its round is decided")


INVARIANTS = Invariants(each=(Each(ORDERS, (check_disputes,)),))
