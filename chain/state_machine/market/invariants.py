"""What must hold of bids and of orders in the book."""

from collections import Counter

from chain.state_machine.context import Running
from chain.state_machine.invariant import Each, Invariants, ensure
from chain.state_machine.ledger.tables import (
    BOND_ROWS,
    ESCROWS,
    PAYMENTS,
    TALLIES,
)
from chain.state_machine.market.holds import HELD_SECONDS_MAX
from chain.state_machine.market.tables import (
    BIDS,
    BIDS_OF,
    HELD_TIMES,
    HOLD_DUE,
    HOLDS,
    OPEN_ORDERS,
    ORDERS,
)
from chain.state_machine.queue import DEADLINES
from chain.state_machine.store import Overlay
from domain.market.records import Order, OrderState
from domain.vocabulary import MOVES
from escrow.deposits import locked


def check_escrow(store: Overlay, order: Order) -> None:
    """Locked = deposits + bonds - paid - returned, and the order's payments say the same."""
    name = order.id.hex()
    escrow, tally = ESCROWS.must(store, order.id), TALLIES.must(store, order.id)
    rows = BOND_ROWS.scan(store, order.id)
    bonds = sum(row.amount for row in rows)
    held = locked(escrow) + bonds
    ensure(held == tally.held, f"order {name} locks {held}, but {tally.held} were counted")
    ensure(all(row.amount > 0 for row in rows), f"order {name} has an empty bond")
    payments = PAYMENTS.scan(store, order.id)
    ensure(len(payments) == tally.payments, f"order {name} lost a payment")
    gone = sum(row.paid + row.refunded for row in escrow.depositors)
    listed = sum(p.amount for p in payments if MOVES[p.kind].from_deposit)
    ensure(gone == listed, f"order {name} used {gone} of its deposit, but lists {listed}")
    part, runs = escrow.withheld, order.state in (OrderState.RUNNING, OrderState.PROVEN)
    ensure(0 <= part <= locked(escrow), f"order {name} withholds more than is locked")
    ensure(runs or part == 0, f"order {name} withholds {part} from nobody")
    ended = order.state in (OrderState.OPEN, OrderState.MATCHED)
    ensure(not ended or tally.righted == 0, f"order {name} has not made good what was taken")
    if order.state is OrderState.CLOSED:
        ensure(tally.held == 0, f"order {name} is closed and still locks {tally.held}")


def check_reason(_: Overlay, order: Order) -> None:
    """An order has a reason to be closed exactly if it is."""
    closed = order.state is OrderState.CLOSED
    ensure(closed == (order.close_reason != 0), f"order {order.id.hex()} ended without a reason")


def check_book(store: Overlay, _: Running) -> None:
    """The index of open orders is the set of open orders, and the index of bids is right."""
    indexed = {order_id for *_, order_id in OPEN_ORDERS.keys(store)}
    orders = {o.id for o in ORDERS.scan(store) if _in_book(store, o)}
    ensure(indexed == orders, "the book has not exactly the open orders")
    bids = {bid_id for _, bid_id in BIDS_OF.keys(store)}
    ensure(bids == {bid.id for bid in BIDS.scan(store)}, "the index of bids is wrong")


def _in_book(store: Overlay, order: Order) -> bool:
    ending = TALLIES.must(store, order.id).ending != 0
    return order.state is OrderState.OPEN and not ending


def check_holds(store: Overlay, _: Running) -> None:
    """Every hold is counted and has an end that the queue knows; no order is held for too long, or after its end."""
    holds = HOLDS.scan(store)
    counts = Counter(found.order_id for found in holds)
    times = {time.order_id: time for time in HELD_TIMES.scan(store)}
    counted = {order_id: time.holds for order_id, time in times.items() if time.holds}
    ensure(counted == counts, "the holds of orders are counted wrong")
    for found in holds:
        name = found.order_id.hex()
        has_end = DEADLINES.has(store, HOLD_DUE.lane, found.until, HOLD_DUE.number, *found.key)
        ensure(has_end, f"a hold of order {name} has no end")
        time = times[found.order_id]
        held = time.total + found.until - time.since
        ensure(held <= HELD_SECONDS_MAX, f"order {name} is held for too long")
        is_over = ORDERS.must(store, found.order_id).state is OrderState.CLOSED
        ensure(not is_over, f"order {name} is held after its end")


INVARIANTS = Invariants(
    whole=(check_book, check_holds),
    each=(Each(ORDERS, (check_escrow, check_reason)),),
)
