"""Invariants of bids and of orders in the book."""

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
    """Check an order's records, tally and payments against each other: locked = deposits + bonds - paid - returned."""
    name = order.id.hex()
    escrow = ESCROWS.must(store, order.id)
    tally = TALLIES.must(store, order.id)
    rows = BOND_ROWS.scan(store, order.id)
    bonds = sum(row.amount for row in rows)
    locked_sum = locked(escrow) + bonds
    ensure(locked_sum == tally.held, f"order {name} locks {locked_sum}, but {tally.held} were counted")
    ensure(all(row.amount > 0 for row in rows), f"order {name} has an empty bond")
    payments = PAYMENTS.scan(store, order.id)
    ensure(
        len(payments) == tally.payments,
        f"order {name} lists {len(payments)} payments, but {tally.payments} were counted",
    )
    used = sum(row.paid + row.refunded for row in escrow.depositors)
    listed = sum(p.amount for p in payments if MOVES[p.kind].from_deposit)
    ensure(used == listed, f"order {name} used {used} of its deposit, but lists {listed}")
    part = escrow.withheld
    runs = order.state in (OrderState.RUNNING, OrderState.PROVEN)
    ensure(0 <= part <= locked(escrow), f"order {name} withholds {part}, more than is locked or less than 0")
    waiting = tally.parts_waiting
    ensure(0 <= waiting <= part, f"order {name} withholds {part}, but {waiting} of it waits")
    ensure(runs or part == waiting, f"order {name} withholds {part}, but does not run")
    leg_ended = order.state in (OrderState.OPEN, OrderState.MATCHED)
    ensure(
        not leg_ended or tally.right_shares_paid == 0,
        f"the validator of order {name} has not replaced {tally.right_shares_paid} of its withheld part",
    )
    if order.state is OrderState.CLOSED:
        ensure(tally.held == 0, f"order {name} is closed and still locks {tally.held}")


def check_reason(_: Overlay, order: Order) -> None:
    """Check that an order has a close reason exactly if it is closed."""
    closed = order.state is OrderState.CLOSED
    ensure(
        closed == (order.close_reason != 0),
        f"order {order.id.hex()} is {order.state.name.lower()} with close reason {order.close_reason}",
    )


def check_book(store: Overlay, _: Running) -> None:
    """Check that the index of open orders and the index of bids agree with the orders and the bids."""
    indexed = {order_id for *_, order_id in OPEN_ORDERS.keys(store)}
    orders = {o.id for o in ORDERS.scan(store) if _in_book(store, o)}
    ensure(indexed == orders, "the index of open orders is wrong")
    bids = {bid_id for _, bid_id in BIDS_OF.keys(store)}
    ensure(bids == {bid.id for bid in BIDS.scan(store)}, "the index of bids is wrong")


def _in_book(store: Overlay, order: Order) -> bool:
    ending = TALLIES.must(store, order.id).ending != 0
    return order.state is OrderState.OPEN and order.leads and not ending


def check_holds(store: Overlay, _: Running) -> None:
    """Check the counts of holds and their queue entries, and that no order is held for too long or after its end."""
    holds = HOLDS.scan(store)
    counts = Counter(hold.order_id for hold in holds)
    times = {time.order_id: time for time in HELD_TIMES.scan(store)}
    counted = {order_id: time.holds for order_id, time in times.items() if time.holds}
    ensure(counted == counts, "the counts of holds are wrong")
    for hold in holds:
        name = hold.order_id.hex()
        has_end = DEADLINES.has(store, HOLD_DUE.lane, hold.until, HOLD_DUE.number, *hold.key)
        ensure(has_end, f"a hold of order {name} has no entry in the queue that ends it")
        time = times[hold.order_id]
        seconds = time.total + hold.until - time.since
        ensure(seconds <= HELD_SECONDS_MAX, f"order {name} is held for too long")
        is_over = ORDERS.must(store, hold.order_id).state is OrderState.CLOSED
        ensure(not is_over, f"order {name} is held after its end")


INVARIANTS = Invariants(
    whole=(check_book, check_holds),
    each=(Each(ORDERS, (check_escrow, check_reason)),),
)
