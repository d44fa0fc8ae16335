"""Why an order is where it is."""

from dataclasses import dataclass

from chain.client.client import ChainClient
from consumer.panels import tell_panel, tell_stop
from domain.amount import in_assay
from domain.legs.reasons import LegEnd
from domain.market.queries import SimulateMatchRequest
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.proof.queries import OrderRequest, OrderResponse


@dataclass(frozen=True, slots=True)
class Why:
    """What an order waits for, or ended with; as text it is a line for each reason.

    Example::

        found = order.why()
        print(found)
        print(found.unmatched, found.legs)
    """

    state: OrderState
    # None while it lives.
    closed: CloseReason | None
    # Legs that ended before the order, by number.
    legs: dict[int, LegEnd]
    # How many bids failed on which condition when it was tried last.
    unmatched: dict[str, int]
    # Where the job has no result; empty where it has.
    stopped: str
    # What panels wait for or found wrong.
    panels: tuple[str, ...]
    # The order's limit, and what the cheapest bid asks that fits but for that: uassay per PFLOP, 0 if there is none.
    price_limit: int = 0
    cheapest: int = 0

    def __str__(self) -> str:
        """Return the reasons, one on each line."""
        closed = f": {self.closed.name.lower()}" if self.closed else ""
        lines = [f"the order is {self.state.name.lower()}{closed}"]
        lines += [f"leg {number} ended: {end.name.lower()}" for number, end in self.legs.items()]
        lines += [self.stopped] if self.stopped else []
        lines += [
            f"{count} bid{'s fail' if count > 1 else ' fails'} on {name}"
            for name, count in self.unmatched.items()
        ]
        if self.cheapest > self.price_limit:
            lines.append(
                f"the cheapest bid that fits asks {in_assay(self.cheapest)} for a PFLOP now, and the order pays "
                f"{in_assay(self.price_limit)} at most; wait for another bid, or cancel it and order again with a "
                "higher limit"
            )
        return "\n".join([*lines, *self.panels])


def ask_why(client: ChainClient, order_id: bytes) -> Why:
    """Ask the chain about an order, and the book for a price at which somebody would take one that waits."""
    on_chain = client.query(OrderRequest(order_id))
    order = on_chain.order
    if order.state is not OrderState.OPEN or not order.unmatched:
        return why(on_chain)
    left = max(1, order.deadline - client.status().clock)
    request = SimulateMatchRequest(
        conditions=order.conditions, price_limit=0, deadline=left, terms=order.terms
    )
    bids = client.query(request).bids
    return why(on_chain, bids[0].offer.price if bids else 0)


def why(on_chain: OrderResponse, cheapest: int = 0) -> Why:
    """Return the reasons that the chain has; ``cheapest`` is the price at which a bid would take the order."""
    order = on_chain.order
    return Why(
        state=order.state,
        closed=CloseReason(order.close_reason) if order.close_reason else None,
        legs={a.number: LegEnd(a.end_reason) for a in on_chain.legs if a.end_reason},
        unmatched=dict(order.unmatched),
        stopped=tell_stop(on_chain),
        panels=tuple(line for panel in on_chain.panels for line in tell_panel(panel)),
        price_limit=order.price_limit,
        cheapest=cheapest,
    )
