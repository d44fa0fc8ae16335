"""Why an order is where it is."""

from dataclasses import dataclass

from chain.client.client import ChainClient
from consumer.lookup import most_backed
from consumer.panels import tell_panel, tell_stop
from consumer.waiting import Waiting, waiting
from consumer.words import CLOSED, ENDS, STAKE, Asker, list_failures, what_helps
from domain.legs.reasons import LegEnd
from domain.market.queries import SimulateMatchRequest
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.proof.queries import OrderRequest, OrderResponse
from domain.readable import Readable
from pol.rules.schedule import total_work


@dataclass(frozen=True, slots=True)
class Why(Readable):
    """What an order waits for, or ended with; as text it is a line for each reason.

    Example::

        found = order.why()
        print(found)
        print(found.waiting, found.unmatched, found.legs)
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
    # What it waits for, since when, until when, and what would help; None once it is closed.
    waiting: Waiting | None = None

    def __str__(self) -> str:
        """Return the reasons, one on each line."""
        closed = f", {self.closed.name.lower()}: {CLOSED[self.closed]}" if self.closed else ""
        waits = f", and {self.waiting}" if self.waiting else ""
        lines = [f"the order is {self.state.name.lower()}{closed}{waits}"]
        lines += [f"leg {number} ended: {ENDS[end]}" for number, end in self.legs.items()]
        lines += [self.stopped] if self.stopped else []
        return "\n".join([*lines, *self.panels])


def ask_why(client: ChainClient, order_id: bytes, asker: Asker = Asker.PYTHON) -> Why:
    """Ask the chain about an order, and the book for a price at which a bid would take one that waits."""
    on_chain = client.query(OrderRequest(order_id))
    order, now = on_chain.order, client.status().clock
    if order.state is not OrderState.OPEN or not order.unmatched:
        return why(on_chain, now, asker=asker)
    needed = total_work(order.terms)
    fails_on_stake = any(name == STAKE for name, _ in order.unmatched)
    request = SimulateMatchRequest(
        conditions=order.conditions,
        price_limit=0,
        deadline=max(1, order.deadline - now),
        terms=order.terms,
    )
    bids = client.query(request).bids
    return why(
        on_chain,
        now,
        cheapest=bids[0].offer.price if bids else 0,
        backed=most_backed(client, needed) if fails_on_stake else 0,
        asker=asker,
    )


def why(
    on_chain: OrderResponse,
    now: int,
    *,
    cheapest: int = 0,
    backed: int = 0,
    asker: Asker = Asker.PYTHON,
) -> Why:
    """Return the reasons that the chain has at ``now`` on its clock.

    ``cheapest`` is the price at which a bid would take the order, ``backed`` the most work that a stake which is too
    small for it backs.
    """
    order = on_chain.order
    higher = cheapest if cheapest > order.price_limit else 0
    return Why(
        state=order.state,
        closed=CloseReason(order.close_reason) if order.close_reason else None,
        legs={a.number: LegEnd(a.end_reason) for a in on_chain.legs if a.end_reason},
        unmatched=dict(order.unmatched),
        stopped=tell_stop(on_chain),
        panels=tuple(line for panel in on_chain.panels for line in tell_panel(panel, now)),
        price_limit=order.price_limit,
        cheapest=cheapest,
        waiting=waiting(
            on_chain,
            now,
            reason=list_failures(order.unmatched, backed, total_work(order.terms)),
            remedy=what_helps(order.unmatched, higher, asker),
            asker=asker,
        ),
    )
