"""Following an order: what a person wants to know of it, and waiting until it is where they want it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import pack, unpack
from threading import Event

from chain.client.client import ChainClient
from chain.client.errors import ChainError, ErrorKind
from consumer.deliver import Progress, deliver
from consumer.errors import ConsumerError, StillWaiting
from domain.queries import OrderRequest, OrderResponse
from domain.reasons import CloseReason
from domain.records import AssignmentState, OrderState, ShareState
from link.errors import ClusterError
from pol.job.document import Job
from wire.keys import Key

POLL_SECONDS = 0.3
_AWAY = frozenset({ErrorKind.UNAVAILABLE, ErrorKind.TIMEOUT})


@dataclass(frozen=True, slots=True)
class Summary:
    """Where an order stands, in one look."""

    state: OrderState
    reason: str  # of closing, in words; empty while it lives
    attempt: int
    validator: str
    round: int  # rounds closed in the current attempt
    rounds: int
    verified: int  # rounds verified in the current attempt
    shares_committed: int
    shares_rejected: int
    paid: int
    refunded: int

    @property
    def over(self) -> bool:
        """Tell whether nothing more will happen to the order."""
        return self.state == OrderState.CLOSED


def summarise(chain: OrderResponse) -> Summary:
    """Return the summary of what the chain holds."""
    order = chain.order
    current, rounds = chain.current, chain.rounds_of(order.attempt)
    shares = [s for s in chain.shares if s.claim.attempt == order.attempt]
    bad = (ShareState.REJECTED, ShareState.REPORTED)
    return Summary(
        state=order.state,
        reason=CloseReason(order.close_reason).name.lower() if order.close_reason else "",
        attempt=order.attempt,
        validator=current.validator if current else "",
        round=len(rounds),
        rounds=order.terms.rounds,
        verified=sum(r.verified for r in rounds),
        shares_committed=len(shares),
        shares_rejected=sum(s.state in bad for s in shares),
        paid=sum(row.paid for row in chain.escrow.depositors),
        refunded=sum(row.refunded for row in chain.escrow.depositors),
    )


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
    node = _Node(client, order_id, note)
    while not stop.is_set():
        chain = node.ask() if last else client.query(OrderRequest(order_id))
        if chain is not None:
            if chain != last or chain.order.state == OrderState.MATCHED:
                yield chain
                last = chain
            if chain.order.state == OrderState.CLOSED:
                return
        if time.monotonic() > ends:
            raise _still(chain)
        stop.wait(POLL_SECONDS)


class _Node:
    """Asks for an order, and takes it that the node is away for a while; says so once."""

    def __init__(self, client: ChainClient, order_id: bytes, note: Callable[[str], None]) -> None:
        self._client, self._order_id, self._note = client, order_id, note
        self._away = False

    def ask(self) -> OrderResponse | None:
        """Return the order, or None where the node does not answer now; other ChainErrors are raised."""
        try:
            chain = self._client.query(OrderRequest(self._order_id))
        except ChainError as error:
            if error.kind not in _AWAY:
                raise
            if not self._away:
                self._note(f"{error.reason}; waiting for it")
            self._away = True
            return None
        self._away = False
        return chain


def _still(chain: OrderResponse | None) -> StillWaiting:
    where = f"the order is still {chain.order.state.name.lower()}" if chain else "no node answers"
    return StillWaiting(where, "go on: assay order watch")


@dataclass
class Delivery:
    """Keeps delivering the payload to whoever has to be given it, attempt by attempt."""

    client: ChainClient
    key: Key
    order_id: bytes
    directory: Path
    job: Job
    progress: Progress | None = None
    note: Callable[[str], None] = lambda text: None
    _delivered: int = 0  # the attempt that has everything
    _trouble: str = ""  # said once, not at each try

    def step(self, chain: OrderResponse) -> None:
        """Deliver if the order is matched and its attempt lacks the payload; what fails is tried again."""
        order = chain.order
        if order.state != OrderState.MATCHED or order.attempt == self._delivered:
            return
        current = chain.current
        if current is None or current.state != AssignmentState.MATCHED:
            return
        try:
            state = deliver(
                self.client, self.key, self.order_id, self.directory, self.job, self.progress
            )
        except (ClusterError, ConsumerError, ChainError) as error:
            trouble = f"delivery to {current.validator}: {error}; trying again"
            if trouble != self._trouble:
                self.note(trouble)
            self._trouble = trouble
            return
        if state.complete:
            self._delivered = order.attempt
            self.note(f"delivered the payload to {current.validator}")


def wait_for(
    client: ChainClient,
    order_id: bytes,
    wanted: OrderState,
    delivery: Delivery | None,
    stop: Event,
    seconds: float,
    seen: Callable[[OrderResponse], None] = lambda chain: None,
) -> OrderResponse:
    """Deliver when asked for and wait until the order has reached ``wanted`` (or is closed).

    A node that goes away meanwhile is waited for.
    """
    ends = time.monotonic() + seconds
    node = _Node(client, order_id, delivery.note if delivery else lambda text: None)
    while True:
        chain = node.ask()
        if chain is not None:
            seen(chain)
            if delivery is not None:
                delivery.step(chain)
            if chain.order.state >= wanted:
                return chain
        if time.monotonic() > ends or stop.wait(POLL_SECONDS):
            raise _still(chain)


def losses(metrics: tuple[int, ...]) -> tuple[float, ...]:
    """Return metrics of a leaf as numbers (they are FP32 bit patterns)."""
    return tuple(float(unpack("<f", pack("<I", bits))[0]) for bits in metrics)
