"""Following an order: what a person wants to know of it, and waiting until it is where they want it."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event

from chain.client.away import WatchedNode
from chain.client.client import ChainClient
from chain.client.errors import ChainError
from consumer.deliver import Progress, deliver
from consumer.errors import ConsumerError, StillWaiting
from consumer.losses import last_loss
from consumer.waiting import waiting
from domain.legs.records import LegState
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.measures import coins
from domain.proof.queries import OrderRequest, OrderResponse
from domain.proof.records import ShareState
from domain.readable import Readable, Shown
from link.errors import ClusterError
from pol.job.document import Job
from wire.keys import Key

POLL_SECONDS = 0.3
ID_SHOWN = 12
"""Hex digits by which people name an order."""
_REJECTED = (ShareState.REJECTED, ShareState.RIGHT, ShareState.WRONG)
"""A rejected share stays one when it was compared."""


@dataclass(frozen=True, slots=True)
class Summary(Shown):
    """Where an order stands, in one look.

    Example::

        found = order.status()
        print(found.state.name, found.round, found.rounds, found.paid)
    """

    state: OrderState
    # Of closing, in words; empty while it lives.
    reason: str
    leg: int
    validator: str
    # Rounds closed, of the job, and verified, in the current leg.
    round: int
    rounds: int
    verified: int
    shares_committed: int
    shares_rejected: int
    panels_open: int
    # The deposit is these three: what went to those who trained, served and checked, what came back, and what is still
    # locked. Of that last part, ``withheld`` is kept for the validator until the order settles.
    paid: int
    withheld: int
    refunded: int
    locked: int
    # Mean over the slots at the end of the last closed round; None before that.
    loss: float | None = None

    def summary(self) -> Iterable[tuple[str, object]]:
        """Return where the order stands."""
        return (
            ("state", self.reason or self.state),
            ("rounds", f"{self.round} of {self.rounds} closed, {self.verified} verified"),
            ("loss", "-" if self.loss is None else f"{self.loss:.4f}"),
            ("cost", coins(self.paid)),
            ("locked", coins(self.locked)),
            ("refunded", coins(self.refunded)),
            ("leg", self.leg),
            ("validator", self.validator),
        )

    @property
    def over(self) -> bool:
        """Tell whether nothing more will happen to the order."""
        return self.state == OrderState.CLOSED

    @property
    def settled(self) -> bool:
        """Tell whether the order is closed with all rounds verified and paid."""
        return self.reason == CloseReason.SETTLED.name.lower()


def summarise(answer: OrderResponse) -> Summary:
    """Return the summary of what the chain answers about an order."""
    order = answer.order
    current, rounds = answer.current, answer.rounds_of(order.legs)
    shares = [s for s in answer.shares if s.claim.leg == order.legs]
    return Summary(
        state=order.state,
        reason=CloseReason(order.close_reason).name.lower() if order.close_reason else "",
        leg=order.legs,
        validator=current.validator if current else "",
        round=len(rounds),
        rounds=order.terms.rounds,
        verified=sum(r.verified for r in rounds),
        shares_committed=len(shares),
        shares_rejected=sum(s.state in _REJECTED for s in shares),
        panels_open=sum(not panel.is_settled for panel in answer.panels),
        paid=sum(row.paid for row in answer.escrow.depositors),
        withheld=answer.escrow.withheld,
        refunded=sum(row.refunded for row in answer.escrow.depositors),
        locked=sum(row.locked for row in answer.escrow.depositors),
        loss=last_loss(answer),
    )


def waits_for(answer: OrderResponse) -> str:
    """Say in a few words what an order waits for; :class:`consumer.waiting.Waiting` says it whole."""
    found = waiting(answer, 0)
    return f"waits for {found.what}" if found else "is over"


def follow(
    client: ChainClient,
    order_id: bytes,
    stop: Event,
    seconds: float,
    note: Callable[[str], None] = lambda text: None,
) -> Iterator[OrderResponse]:
    """Yield the order whenever it changed, until it is closed or ``stop`` is set; StillWaiting after ``seconds``.

    While it waits for its payload it is yielded again and again: a delivery may have failed. A node
    that goes away meanwhile is waited for.
    """
    ends = time.monotonic() + seconds
    last: OrderResponse | None = None
    node = WatchedNode(client.address, stop, note)
    while not stop.is_set():
        request = partial(client.query, OrderRequest(order_id))
        # A node that was never there is not waited for.
        answer = node.ask(request) if last else request()
        if answer is not None:
            if answer != last or answer.order.state == OrderState.MATCHED:
                yield answer
                last = answer
            if answer.order.state == OrderState.CLOSED:
                return
        if time.monotonic() > ends:
            raise _still(answer)
        stop.wait(POLL_SECONDS)


def _still(answer: OrderResponse | None) -> StillWaiting:
    if answer is None:
        return StillWaiting("no node answers", "go on: assay order watch ORDER, or call it again")
    where = f"the order is still {answer.order.state.name.lower()}, and {waits_for(answer)}"
    return StillWaiting(where, f"go on: assay order watch {answer.order.id.hex()[:ID_SHOWN]}, or call it again")


@dataclass
class Delivery(Readable):
    """Keeps delivering the payload to whoever has to be given it, leg by leg.

    Example::

        delivery = assay.Delivery(client, key, order_id, Path("my-job"), assay.read_job("my-job"))
        assay.wait_for(client, order_id, assay.OrderState.RUNNING, delivery, Event(), seconds=600)
    """

    client: ChainClient
    key: Key
    order_id: bytes
    directory: Path
    job: Job
    progress: Progress | None = None
    note: Callable[[str], None] = lambda text: None
    # The leg that has everything.
    _delivered: int = 0
    _trouble: str = ""
    # Said once it comes twice, and not again.
    _said: str = ""

    def step(self, answer: OrderResponse) -> None:
        """Deliver if the order is matched and its leg lacks the payload; what fails is tried again."""
        order = answer.order
        if order.state != OrderState.MATCHED or order.legs == self._delivered:
            return
        current = answer.current
        if current is None or current.state != LegState.MATCHED:
            return
        try:
            state = deliver(self.client, self.key, self.order_id, self.directory, self.job, self.progress)
        except (ClusterError, ConsumerError, ChainError) as error:
            trouble = f"delivery to {current.validator}: {error}; trying again"
            # A validator may see the match a moment later than others.
            if trouble == self._trouble != self._said:
                self.note(trouble)
                self._said = trouble
            self._trouble = trouble
            return
        if state.complete:
            self._delivered = order.legs
            self.note(f"delivered the payload to {current.validator}")


def wait_for(
    client: ChainClient,
    order_id: bytes,
    wanted: OrderState,
    delivery: Delivery | None,
    stop: Event,
    seconds: float,
    seen: Callable[[OrderResponse], None] = lambda answer: None,
) -> OrderResponse:
    """Deliver when asked for and wait until the order has reached ``wanted`` (or is closed).

    A node that goes away meanwhile is waited for.

    Example::

        assay.wait_for(client, order_id, assay.OrderState.PROVEN, None, Event(), seconds=600)
    """
    ends = time.monotonic() + seconds
    node = WatchedNode(client.address, stop, delivery.note if delivery else lambda text: None)
    while True:
        answer = node.ask(partial(client.query, OrderRequest(order_id)))
        if answer is not None:
            seen(answer)
            if delivery is not None:
                delivery.step(answer)
            if answer.order.state >= wanted:
                return answer
        if time.monotonic() > ends or stop.wait(POLL_SECONDS):
            raise _still(answer)
