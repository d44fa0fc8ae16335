"""Invariants of legs: their extent, their order, and the capacity that they reserve."""

from chain.state_machine.context import Running
from chain.state_machine.invariant import Each, Invariants, ensure
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.legs.tables import LEGS, LIVE_LEGS, PART_DUE, SLOT_STARTS
from chain.state_machine.market.tables import BIDS, LOADS, ORDERS
from chain.state_machine.queue import DEADLINES
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.amount import price_ceil
from domain.legs.records import Leg, LegState
from domain.market.records import Order, OrderState
from pol.rules.schedule import served_terms, total_work


def check_legs(store: Overlay, order: Order) -> None:
    """Check an order's legs: their numbers, extents and work, and the slots that have their own initial states.

    Only the last leg may be live.
    """
    legs = LEGS.scan(store, order.id)
    numbers = [leg.number for leg in legs]
    ensure(numbers == list(range(1, order.legs + 1)), f"order {order.id.hex()} has {order.legs} legs, not {numbers}")
    for leg in legs:
        name = f"leg {leg.number} of order {order.id.hex()}"
        inside = leg.end_round <= order.terms.rounds and leg.end_slot <= order.terms.slots
        ensure(inside, f"{name} reaches beyond its order")
        work = total_work(served_terms(order.terms, leg))
        ensure(leg.work == work, f"{name} does not have the work of its rounds and slots")
        is_served = leg.first_round <= leg.round <= leg.end_round
        ensure(is_served, f"{name} is in a round that it does not serve")
        ensure(leg.verified + leg.void <= leg.closed, f"{name} has more decided rounds than closed ones")
        last = leg.number == order.legs
        ensure(last or not leg.is_live, f"{name} is still live after its successor has begun")
        _check_continued(legs, leg, name)
        waits = bool(leg.part)
        entry = PART_DUE.lane, leg.part_until, PART_DUE.number, order.id, leg.number
        is_due = DEADLINES.has(store, *entry)
        ensure(not waits or (is_due and leg.state is LegState.FAILED), f"the part of {name} waits without an end")
    waiting = TALLIES.must(store, order.id).parts_waiting
    parts = sum(leg.part for leg in legs)
    ensure(parts == waiting, f"parts of {parts} wait in order {order.id.hex()}, but {waiting} were counted")
    for opening in SLOT_STARTS.scan(store, order.id):
        served = LEGS.must(store, order.id, opening.leg).served_slots
        ensure(opening.slot in served, f"order {order.id.hex()} has a start for a slot that is not served")


def _check_continued(legs: list[Leg], leg: Leg, name: str) -> None:
    """Check a leg that continues another leg: it starts after a verified round of the other leg, which is the last one
    unless the order went back, and from the state at the end of that round.
    """
    if leg.from_leg:
        before = legs[leg.from_leg - 1]
        follows = before.first_round < leg.first_round <= before.next_round
        ensure(follows, f"{name} does not start after a verified round of leg {leg.from_leg}")
        went_back = {(known.back_leg, known.back_root) for known in legs if known.back_root}
        is_last = leg.first_round == before.next_round and leg.initial_root == before.verified_root
        same = is_last or (leg.from_leg, leg.initial_root) in went_back
        ensure(same, f"{name} does not start from the state that leg {leg.from_leg} left")


def check_state(store: Overlay, order: Order) -> None:
    """Check that the states of an order and of its current leg fit each other."""
    name = order.id.hex()
    if not order.legs:
        fits = order.state in (OrderState.OPEN, OrderState.CLOSED)
        ensure(fits, f"order {name} is {order.state.name.lower()}, but has no leg")
        return
    leg = LEGS.must(store, order.id, order.legs)
    ending = TALLIES.must(store, order.id).ending != 0
    if order.state in (OrderState.OPEN, OrderState.CLOSED):
        ensure(not leg.is_live, f"order {name} is {order.state.name.lower()}, but its leg is live")
    elif order.state is OrderState.MATCHED:
        same = leg.state.name == "MATCHED"
        ensure(same or ending, f"order {name} is matched, but its leg is not")


def check_capacity(store: Overlay, _: Running) -> None:
    """Check the reserved capacity of each validator and each bid, and the reserved stake of each validator.

    The reserved capacity is the sum over live legs. The reserved stake also includes failed legs whose order is neither
    open nor closed.
    """
    work: dict[str, int] = {}
    value: dict[str, int] = {}
    sold: dict[bytes, int] = {}
    for leg in LEGS.scan(store):
        if leg.is_live:
            work[leg.validator] = work.get(leg.validator, 0) + leg.work
            sold[leg.bid_id] = sold.get(leg.bid_id, 0) + leg.work
        if _is_backed(store, leg):
            value[leg.validator] = value.get(leg.validator, 0) + price_ceil(leg.work, leg.price)
    for load in LOADS.scan(store):
        ensure(load.work == work.pop(load.validator, 0), f"{load.validator} reserves a wrong amount")
        same = load.value == value.pop(load.validator, 0)
        ensure(same, f"{load.validator} reserves a wrong value")
    ensure(not work, "a live leg reserves no capacity")
    ensure(not value, "no stake backs a leg")
    for bid in BIDS.scan(store):
        same = bid.reserved == sold.get(bid.id, 0)
        ensure(same, f"bid {bid.id.hex()} reserves a wrong amount")


def _is_backed(store: Overlay, leg: Leg) -> bool:
    """Return whether the stake of a leg's validator is still reserved for it."""
    if leg.is_live:
        return True
    order = ORDERS.must(store, leg.order_id)
    waits = order.state not in (OrderState.OPEN, OrderState.CLOSED) and order.legs == leg.number
    return waits and not TALLIES.must(store, order.id).ending


def check_live(store: Overlay, _: Running) -> None:
    """Check that the index of live legs has exactly the legs that are live."""
    indexed = {(order_id, number_of(n)) for _, order_id, n in LIVE_LEGS.keys(store)}
    live = {(leg.order_id, leg.number) for leg in LEGS.scan(store) if leg.is_live}
    ensure(indexed == live, "the index of live legs is wrong")


INVARIANTS = Invariants(
    whole=(check_capacity, check_live),
    each=(Each(ORDERS, (check_legs, check_state)),),
)
