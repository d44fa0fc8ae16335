"""Invariants of disputes."""

from chain.state_machine.disputes.disputes import hold_reason
from chain.state_machine.disputes.tables import DISPUTES, LIVE_DISPUTES, LIVE_STANDS
from chain.state_machine.invariant import Each, Invariants, ensure
from chain.state_machine.ledger.tables import BOND_ROWS, TALLIES
from chain.state_machine.market.tables import HOLDS, ORDERS
from chain.state_machine.proof.tables import FORFEIT_DUE, PANELS, ROUNDS, SHARES, VOID_FUNDS, VoidFund
from chain.state_machine.queue import get_entries, panel_key
from chain.state_machine.store import Overlay
from domain.disputes.records import Dispute, DisputeState
from domain.keys import RoundKey
from domain.ledger.records import BondKind
from domain.market.records import Order, OrderState
from domain.proof.records import Share, ShareState


def check_disputes(store: Overlay, order: Order) -> None:
    """Check the index and the bonds of an order's disputes, and that an open dispute holds its round."""
    name = order.id.hex()
    disputes = DISPUTES.scan(store, order.id)
    live = {dispute.key for dispute in disputes if dispute.is_live}
    marked = {panel_key(*key) for index in (LIVE_DISPUTES, LIVE_STANDS) for key in index.keys(store, order.id)}
    ensure(live == marked, f"the index of live disputes of order {name} is wrong")
    rows = {
        RoundKey(order.id, row.leg, row.round).panel(row.issue)
        for row in BOND_ROWS.scan(store, order.id)
        if row.kind is BondKind.CHALLENGE
    }
    ensure(rows == live, f"the bonds of order {name} are not those of its live disputes")
    ensure(not live or order.state is not OrderState.CLOSED, f"order {name} is closed, but has a live dispute")
    waiting = sum(
        share.state is ShareState.WRONG and not share.stand and _is_awaited(store, share)
        for share in SHARES.scan(store, order.id)
    )
    stands = sum(dispute.is_live for dispute in disputes if dispute.share is not None)
    tally = TALLIES.must(store, order.id)
    expected = stands + waiting + tally.funds
    ensure(tally.stands == expected, f"order {name} counts {tally.stands} stands, not {expected}")
    for fund in VOID_FUNDS.scan(store, order.id):
        standing = sum(1 for dispute in disputes if dispute.is_live and _is_claimed(store, dispute, fund))
        ensure(standing == fund.stands, f"the fund of order {name} counts {fund.stands} stands, not {standing}")
    for dispute in disputes:
        if dispute.state is DisputeState.OPEN and not dispute.joins:
            _check_open(store, dispute)


def _is_claimed(store: Overlay, dispute: Dispute, fund: VoidFund) -> bool:
    """Return whether the provider of a void share stands for it, so that the fund of its leg may have to pay it."""
    if dispute.share is None or dispute.leg != fund.leg:
        return False
    share = SHARES.must(store, *dispute.round_key.share(dispute.share.slot, dispute.share.issue))
    return share.state is ShareState.ACCEPTED and not ROUNDS.must(store, *dispute.round_key).by_validator


def _is_awaited(store: Overlay, share: Share) -> bool:
    """Return whether the queue will burn the bond of a share if its provider does not stand for it."""
    due = (entry for entry in get_entries(store, FORFEIT_DUE.lane) if entry.kind == FORFEIT_DUE.number)
    return any(entry.round_key.share(entry.number(3), entry.number(4)) == share.key for entry in due)


def _check_open(store: Overlay, dispute: Dispute) -> None:
    name = f"dispute {dispute.number} of round {dispute.round} of order {dispute.order_id.hex()}"
    key = dispute.round_key
    if dispute.share is not None:
        panel = PANELS.must(store, *dispute.key)
        ensure(not panel.is_settled, f"{name} is open, but its panel is over")
        ensure(panel.standing == dispute.share, f"{name} has a panel about another share")
        stands = SHARES.must(store, *key.share(dispute.share.slot, dispute.share.issue)).stand
        ensure(stands == dispute.number, f"{name} is not the one in which its share stands")
        return
    ensure(HOLDS.has(store, *key, hold_reason(dispute.number)), f"{name} does not hold its round")
    ensure(not PANELS.must(store, *dispute.key).is_settled, f"{name} is open, but its panel is over")
    closed = ROUNDS.must(store, *key)
    ensure(not (closed.verified or closed.void), f"{name} is open, but its round is decided")


INVARIANTS = Invariants(each=(Each(ORDERS, (check_disputes,)),))
