"""What must hold of legs: their extent, their order, and the capacity that they reserve."""

from chain.state_machine.context import Running
from chain.state_machine.invariant import Each, Invariants, ensure
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.legs.tables import LEGS, LIVE_LEGS, SLOT_OPENINGS
from chain.state_machine.market.tables import BIDS, LOADS, ORDERS
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.amount import price_ceil
from domain.market.records import Order, OrderState
from pol.rules.schedule import served_terms, total_work


def check_legs(store: Overlay, order: Order) -> None:
    """Legs lie inside their order and have its work; at most one is live, the last; openings are of their own slots."""
    legs = LEGS.scan(store, order.id)
    numbers = [leg.number for leg in legs]
    ensure(numbers == list(range(1, order.legs + 1)), f"order {order.id.hex()} lost a leg")
    for leg in legs:
        name = f"leg {leg.number} of order {order.id.hex()}"
        inside = leg.end_round <= order.terms.rounds and leg.end_slot <= order.terms.slots
        ensure(inside, f"{name} reaches beyond its order")
        work = total_work(served_terms(order.terms, leg))
        ensure(leg.work == work, f"{name} has other work than its rounds and slots")
        reached = leg.first_round <= leg.round <= leg.end_round
        ensure(reached, f"{name} is in a round that it does not serve")
        ensure(leg.verified + leg.void <= leg.closed, f"{name} decided more rounds than it closed")
        last = leg.number == order.legs
        ensure(last or not leg.is_live, f"{name} runs on behind its successor")
    for opening in SLOT_OPENINGS.scan(store, order.id):
        served = LEGS.must(store, order.id, opening.leg).served_slots
        ensure(opening.slot in served, f"order {order.id.hex()} opens a slot that is not served")


def check_state(store: Overlay, order: Order) -> None:
    """State of an order and of its current leg fit each other."""
    name = order.id.hex()
    if not order.legs:
        fits = order.state in (OrderState.OPEN, OrderState.CLOSED)
        ensure(fits, f"order {name} runs without a match")
        return
    leg = LEGS.must(store, order.id, order.legs)
    ending = TALLIES.must(store, order.id).ending != 0
    if order.state in (OrderState.OPEN, OrderState.CLOSED):
        ensure(not leg.is_live, f"order {name} has a leg that runs on")
    elif order.state is OrderState.MATCHED:
        same = leg.state.name == "MATCHED"
        ensure(same or ending, f"order {name} is matched to nobody")


def check_capacity(store: Overlay, _: Running) -> None:
    """Reserved capacity = sum of running legs, for each validator and each bid."""
    work: dict[str, int] = {}
    value: dict[str, int] = {}
    sold: dict[bytes, int] = {}
    for leg in LEGS.scan(store):
        if leg.is_live:
            name = leg.validator
            work[name] = work.get(name, 0) + leg.work
            worth = price_ceil(leg.work, leg.price)
            value[name] = value.get(name, 0) + worth
            sold[leg.bid_id] = sold.get(leg.bid_id, 0) + leg.work
    for load in LOADS.scan(store):
        ensure(load.work == work.pop(load.validator, 0), f"{load.validator} reserves a wrong amount")
        same = load.value == value.pop(load.validator, 0)
        ensure(same, f"{load.validator} reserves a wrong value")
    ensure(not work, "a running leg reserves nothing")
    for bid in BIDS.scan(store):
        same = bid.reserved == sold.get(bid.id, 0)
        ensure(same, f"bid {bid.id.hex()} reserves a wrong amount")


def check_live(store: Overlay, _: Running) -> None:
    """The index of live legs is right."""
    live = {(order_id, number_of(n)) for _, order_id, n in LIVE_LEGS.keys(store)}
    found = {(leg.order_id, leg.number) for leg in LEGS.scan(store) if leg.is_live}
    ensure(live == found, "the index of live legs is wrong")


INVARIANTS = Invariants(
    whole=(check_capacity, check_live),
    each=(Each(ORDERS, (check_legs, check_state)),),
)
