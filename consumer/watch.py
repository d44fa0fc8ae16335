"""Following an order: its summary, waiting for a state, and delivering its payload."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event

from chain.client.away import WatchedNode
from chain.client.client import ChainClient
from chain.client.errors import ChainError
from consumer.deliver import Progress, deliver
from consumer.errors import ConsumerError, StillWaiting
from consumer.losses import last_loss
from consumer.states import Copies
from consumer.trouble import RepeatedTrouble
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
from pol.rules.replicas import replica_ids
from wire.keys import Key

POLL_SECONDS = 0.3
ID_SHOWN = 12
"""Number of hex digits of an order's id in texts."""
_REJECTED = (ShareState.REJECTED, ShareState.RIGHT, ShareState.WRONG)
"""States of rejected shares. A share in the state RIGHT or WRONG was rejected first, and compared with the accepted
share later.
"""


@dataclass(frozen=True, slots=True)
class Summary(Shown):
    """A summary of an order's state.

    Example::

        summary = order.status()
        print(summary.state.name, summary.round, summary.rounds, summary.paid)
    """

    state: OrderState
    # Reason why the order closed, as a word; empty while the order is not closed.
    reason: str
    leg: int
    validator: str
    # Three numbers of rounds: those before the current leg and closed in it, those of the job, and the verified ones.
    round: int
    rounds: int
    verified: int
    shares_committed: int
    shares_rejected: int
    panels_open: int
    # The deposit (uassay) is the sum of ``paid`` (to providers, validator, auditors and protocol), ``refunded`` and
    # ``locked``. ``withheld`` is the part of ``locked`` that the validator gets when the order settles.
    paid: int
    withheld: int
    refunded: int
    locked: int
    # Mean loss over the slots at the end of the last closed round; None if no round is closed yet.
    loss: float | None = None

    def summary(self) -> Iterable[tuple[str, object]]:
        """Return the rows that notebooks show."""
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
        """True if the order is closed."""
        return self.state == OrderState.CLOSED

    @property
    def settled(self) -> bool:
        """True if the order is closed with all rounds verified and paid."""
        return self.reason == CloseReason.SETTLED.name.lower()


def summarise(answer: OrderResponse) -> Summary:
    """Return the summary of the chain's answer about an order."""
    order = answer.order
    current = answer.current
    rounds = answer.rounds_of(order.legs)
    shares = [s for s in answer.shares if s.key.leg == order.legs]
    return Summary(
        state=order.state,
        reason=CloseReason(order.close_reason).name.lower() if order.close_reason else "",
        leg=order.legs,
        validator=current.validator if current else "",
        round=(current.first_round if current else 0) + len(rounds),
        rounds=order.terms.rounds,
        verified=sum(r.verified for r in answer.rounds),
        shares_committed=len(shares),
        shares_rejected=sum(s.state in _REJECTED for s in shares),
        panels_open=sum(not (panel.is_settled or panel.for_slash) for panel in answer.panels),
        paid=sum(row.paid for row in answer.escrow.depositors),
        withheld=answer.escrow.withheld,
        refunded=sum(row.refunded for row in answer.escrow.depositors),
        locked=sum(row.locked for row in answer.escrow.depositors),
        loss=last_loss(answer),
    )


def waits_for(answer: OrderResponse) -> str:
    """Return a phrase for the event that an order waits for; :class:`consumer.waiting.Waiting` has a sentence."""
    wait = waiting(answer, 0)
    return f"waits for {wait.what}" if wait else "is over"


def follow(
    client: ChainClient,
    order_id: bytes,
    stop: Event,
    seconds: float,
    note: Callable[[str], None] = lambda text: None,
) -> Iterator[OrderResponse]:
    """Yield the chain's answer about an order after each change, until the order is closed or ``stop`` is set.

    For a matched order, yield the answer at each poll, even without a change, so that the caller can repeat a failed
    delivery. If the node stops answering, wait until it answers again, and call ``note`` with messages. Raise
    StillWaiting after ``seconds``.
    """
    ends = time.monotonic() + seconds
    last: OrderResponse | None = None
    node = WatchedNode(client.address, stop, note)
    while not stop.is_set():
        request = partial(client.query, OrderRequest(order_id))
        # Wait for the node only if it has answered before; otherwise raise its first error.
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
        return StillWaiting(
            "no node answers", "keep waiting with assay order watch ORDER (in Python: call the method again)"
        )
    name = answer.order.id.hex()[:ID_SHOWN]
    return StillWaiting(
        f"the order is still {answer.order.state.name.lower()}, and {waits_for(answer)}",
        f"keep waiting with assay order watch {name} (in Python: call the method again)",
    )


@dataclass
class Delivery(Readable):
    """The delivery of an order's payload to the validator of each leg, and to those of its replicas.

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
    # Folder for copies of verified states, with which another validator can continue; None to keep no copies. Copies of
    # other replicas are beside it, in folders with their ids as names.
    states: Path | None = None
    # Number of the leg whose validator has the whole payload.
    _delivered: int = 0
    _trouble: RepeatedTrouble | None = None
    _copies: Copies | None = None
    # The deliveries of the other replicas, and the states that these have.
    _others: dict[bytes, "Delivery"] = field(default_factory=dict)
    _states: dict[bytes, OrderState] = field(default_factory=dict)

    def step(self, answer: OrderResponse) -> None:
        """Deliver the payload if the order is matched and its validator does not have the whole payload yet. Do the
        same for its replicas.

        If the delivery fails, the next call tries again.
        """
        self._step_one(answer)
        for order_id in replica_ids(answer.order):
            if order_id != self.order_id and self._states.get(order_id) is not OrderState.CLOSED:
                other = self._others.setdefault(order_id, self._make_other(order_id))
                try:
                    known = self.client.query(OrderRequest(order_id))
                except ChainError:
                    continue  # the caller waits for the node, and calls again
                self._states[order_id] = known.order.state
                other._step_one(known)

    def _make_other(self, order_id: bytes) -> "Delivery":
        return Delivery(
            client=self.client,
            key=self.key,
            order_id=order_id,
            directory=self.directory,
            job=self.job,
            progress=self.progress,
            note=self.note,
            states=None if self.states is None else self.states.parent / order_id.hex(),
        )

    def is_behind(self, wanted: OrderState) -> bool:
        """Return whether another replica has not reached a state yet, so that its validator may need the payload."""
        return any(state < wanted for state in self._states.values())

    def _step_one(self, answer: OrderResponse) -> None:
        order = answer.order
        if self.states is not None:
            self._copies = self._copies or Copies(client=self.client, key=self.key, folder=self.states, note=self.note)
            self._copies.step(answer)
        if order.state != OrderState.MATCHED or order.legs == self._delivered:
            return
        current = answer.current
        if current is None or current.state != LegState.MATCHED:
            return
        try:
            state = deliver(self.client, self.key, self.order_id, self.directory, self.job, self.progress)
        except (ClusterError, ConsumerError, ChainError) as error:
            self._trouble = self._trouble or RepeatedTrouble(self.note)
            self._trouble.hear(f"delivery to {current.validator}: {error}; trying again")
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
    """Wait until an order has reached the state ``wanted`` or is closed, and return the chain's answer about it. With a
    ``delivery``, wait for its replicas too.

    While waiting, ``delivery`` delivers the payload, and ``seen`` is called with each answer. If the node stops
    answering, wait until it answers again. Raise StillWaiting after ``seconds``, or if ``stop`` is set.

    Example::

        assay.wait_for(client, order_id, assay.OrderState.PROVEN, None, Event(), seconds=600)
    """

    def is_reached(answer: OrderResponse) -> bool:
        return answer.order.state >= wanted and not (delivery is not None and delivery.is_behind(wanted))

    return _wait_until(client, order_id, is_reached, delivery, stop, seconds, seen)


def wait_for_result(
    client: ChainClient,
    order_id: bytes,
    delivery: Delivery | None,
    stop: Event,
    seconds: float,
) -> OrderResponse:
    """Wait as :func:`wait_for` does, until all rounds of an order are verified or the order is closed.

    The validator serves the result from then on.
    """
    return _wait_until(client, order_id, _has_result, delivery, stop, seconds)


def _has_result(answer: OrderResponse) -> bool:
    """Return whether an order is closed or waits for its settlement. This wait begins when the order's last round is
    verified.
    """
    current = answer.current
    return answer.order.state == OrderState.CLOSED or (current is not None and current.settles_at > 0)


def _wait_until(
    client: ChainClient,
    order_id: bytes,
    is_reached: Callable[[OrderResponse], bool],
    delivery: Delivery | None,
    stop: Event,
    seconds: float,
    seen: Callable[[OrderResponse], None] = lambda answer: None,
) -> OrderResponse:
    ends = time.monotonic() + seconds
    node = WatchedNode(client.address, stop, delivery.note if delivery else lambda text: None)
    while True:
        answer = node.ask(partial(client.query, OrderRequest(order_id)))
        if answer is not None:
            seen(answer)
            if delivery is not None:
                delivery.step(answer)
            if is_reached(answer):
                return answer
        if time.monotonic() > ends or stop.wait(POLL_SECONDS):
            raise _still(answer)
