"""The explanation of an order's state."""

from dataclasses import dataclass

from chain.client.client import ChainClient
from consumer.disputes import describe_dispute, read_disputes
from consumer.lookup import most_backed
from consumer.panels import describe_panel, describe_stop
from consumer.waiting import Waiting, waiting
from consumer.words import CLOSED, ENDS, STAKE, Asker, list_failures, what_helps
from domain.disputes.records import Dispute
from domain.legs.reasons import LegEnd
from domain.market.queries import SimulateMatchRequest
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.proof.queries import OrderRequest, OrderResponse
from domain.readable import Readable
from pol.rules.schedule import total_work


@dataclass(frozen=True, slots=True)
class Why(Readable):
    """The reasons for an order's state. Its text has one reason per line.

    Example::

        explanation = order.why()
        print(explanation)
        print(explanation.waiting, explanation.unmatched, explanation.legs)
    """

    state: OrderState
    # Reason why the order closed; None while the order is not closed.
    closed: CloseReason | None
    # Reason why each ended leg ended, keyed by the number of the leg.
    legs: dict[int, LegEnd]
    # Number of bids that failed each condition in the last auction.
    unmatched: dict[str, int]
    # A sentence about the place where the job stops; empty if it does not stop.
    stopped: str
    # Sentences about the current stages of panels, and about places that are wrong or undecided.
    panels: tuple[str, ...]
    # A sentence about each challenge: what is claimed, and where each coin went.
    disputes: tuple[str, ...] = ()
    # The order's price limit (uassay per PFLOP).
    price_limit: int = 0
    # Price of the cheapest bid that would fit without the limit (uassay per PFLOP); 0 if no bid would fit.
    cheapest: int = 0
    # The event that the order waits for, with times and a remedy; None once the order is closed.
    waiting: Waiting | None = None

    def __str__(self) -> str:
        """Return the reasons, one per line."""
        closed = f", {self.closed.name.lower()}: {CLOSED[self.closed]}" if self.closed else ""
        waits = f", and {self.waiting}" if self.waiting else ""
        lines = [f"the order is {self.state.name.lower()}{closed}{waits}"]
        lines += [f"leg {number} ended: {ENDS[end]}" for number, end in self.legs.items()]
        lines += [self.stopped] if self.stopped else []
        return "\n".join([*lines, *self.panels, *self.disputes])


def ask_why(client: ChainClient, order_id: bytes, asker: Asker = Asker.PYTHON) -> Why:
    """Query the chain about an order, and return the explanation of its state.

    For an open order, also query the lowest price at which a bid would fit.
    """
    on_chain = client.query(OrderRequest(order_id))
    order, now = on_chain.order, client.status().clock
    disputes = read_disputes(client, order_id)
    if order.state is not OrderState.OPEN or not order.unmatched:
        return why(on_chain, now, disputes=disputes, asker=asker)
    needed = total_work(order.terms)
    fails_on_stake = any(name == STAKE for name, _ in order.unmatched)
    request = SimulateMatchRequest(
        conditions=order.conditions,
        price_limit=0,
        deadline=max(1, order.deadline - now),
        terms=order.terms,
        challenge_wait=order.challenges.wait,
    )
    bids = client.query(request).bids
    return why(
        on_chain,
        now,
        disputes=disputes,
        cheapest=bids[0].offer.price if bids else 0,
        backed=most_backed(client, needed) if fails_on_stake else 0,
        asker=asker,
    )


def why(
    on_chain: OrderResponse,
    now: int,
    *,
    disputes: tuple[Dispute, ...] = (),
    cheapest: int = 0,
    backed: int = 0,
    asker: Asker = Asker.PYTHON,
) -> Why:
    """Return the explanation from the chain's answer at time ``now`` of the chain's clock.

    ``cheapest`` is the lowest price at which a bid would fit; 0 means that no price would do. ``backed`` is the largest
    work (FLOPs) that the stake of one bid backs, among the bids whose stake is too small for the job.
    """
    order = on_chain.order
    higher = cheapest if cheapest > order.price_limit else 0
    return Why(
        state=order.state,
        closed=CloseReason(order.close_reason) if order.close_reason else None,
        legs={a.number: LegEnd(a.end_reason) for a in on_chain.legs if a.end_reason},
        unmatched=dict(order.unmatched),
        stopped=describe_stop(on_chain),
        panels=tuple(line for panel in on_chain.panels for line in describe_panel(panel, now)),
        disputes=tuple(describe_dispute(dispute, now) for dispute in disputes),
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
