"""All that a consumer does, from a program: a network, orders on it, what happens to them, and results.

What is not named has the value that the command line gives it, and what one of the two ordered, the other knows.
"""

import time
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from threading import Event
from typing import Self, Unpack

from numpy import float64
from numpy.typing import NDArray

from assay.settings.configuration import BY_NAME
from assay.settings.home import Settings, ask_passphrase, find_home
from chain.client.away import WatchedNode
from chain.client.client import ChainClient, TxReceipt
from chain.client.errors import ChainError
from chain.client.sender import TxSender
from consumer import watch
from consumer.errors import ConsumerError, StillWaiting
from consumer.history import history_of, losses_of
from consumer.jobs import job_name, read_job, recall
from consumer.lookup import all_bids, all_orders, find_order
from consumer.request import OrderOptions, request_of
from consumer.result import Result, fetch_result
from consumer.submit import Quote, place_order, quote
from consumer.waiting import waiting
from consumer.watch import Delivery, Summary, summarise, wait_for
from consumer.why import Why, ask_why
from domain.events import Change
from domain.genesis import DENOM
from domain.ledger.messages import MsgSend
from domain.ledger.queries import AccountRequest
from domain.ledger.records import Coin
from domain.limits import EVENTS_LIMIT_MAX
from domain.market.messages import MsgCancelOrder
from domain.market.records import Bid, Order, OrderState
from domain.node.queries import EventsRequest
from domain.proof.queries import OrderRequest, OrderResponse
from domain.readable import as_table, in_line
from domain.vocabulary import read_event
from pol.local.history import History
from wire.keys import Key

DAY = 86_400.0


def connect(
    node: str | None = None,
    *,
    home: Path | str | None = None,
    keyring: str | None = None,
    key: str | None = None,
    passphrase: str | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> "Session":
    """Return a session with a network: its node, and the home with keys and orders.

    What is left out comes from the environment (``ASSAY_HOME``, ``ASSAY_NODE``), the home's ``config.toml`` or the
    defaults, as for commands. ``key`` is the name of the key that signs, which is unlocked when something has to be
    signed, with ``passphrase`` or else as commands do. ``note`` is told what happens on the way.

    Example::

        with assay.connect("127.0.0.1:9090", key="alice") as network:
            print(network.quote("my-job").cost)
    """
    if node is not None:
        BY_NAME["node_address"].read(node, "node")
    settings = Settings(
        home=find_home(str(home) if home is not None else None),
        given={"node_address": node, "keyring": keyring, "from": key},
        passphrase=ask_passphrase if passphrase is None else lambda name: passphrase,
    )
    return Session(settings.client(), settings.key, settings.home, note)


class Session:
    """A network that orders are given to; made by :func:`connect`, and closed by a ``with``.

    Example::

        with assay.connect() as network:
            order = network.submit("my-job", deadline=3600)
    """

    client: ChainClient
    # With the keys, and what was ordered.
    home: Path

    def __init__(
        self,
        client: ChainClient,
        unlock: Callable[[], Key],
        home: Path,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Use a client, a key once it is needed, and a home that keeps what was ordered."""
        self.client, self.home = client, home
        self._unlock, self._note = unlock, note

    def __repr__(self) -> str:
        """Say which node and home it uses."""
        return in_line("Session", (("node", self.client.address), ("home", str(self.home))))

    def _repr_html_(self) -> str:
        """Show a notebook where the chain stands, too."""
        parts: list[tuple[str, object]] = [("node", self.client.address), ("home", str(self.home))]
        try:
            status = self.client.status()
        except ChainError as error:
            return as_table("Session", [*parts, ("chain", f"not known: {error.reason}")])
        return as_table("Session", [*parts, ("chain", status.chain_id), ("height", status.height)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, as a ``with`` does; for where none fits, such as a notebook's cells.

        Example::

            network = assay.connect()
            network.close()
        """
        self.client.close()

    @cached_property
    def key(self) -> Key:
        """The key that signs."""
        return self._unlock()

    def balance(self) -> int:
        """Return what the key's account has, in uassay.

        Example::

            print(network.balance() / 1e6, "ASSAY")
        """
        return self.client.query(AccountRequest(self.key.address)).balance

    def send(self, to: str, coins: int) -> TxReceipt:
        """Send so many uassay to another address, and return once a block has it.

        Example::

            receipt = network.send("assay1…", 2_500_000)
            print(receipt.height)
        """
        moved = (Coin(DENOM, coins),)
        return TxSender(self.client, self.key).send(MsgSend(self.key.address, to, moved))

    def bids(self) -> list[Bid]:
        """Return every bid in the book.

        Example::

            print(min(bid.offer.price for bid in network.bids()))
        """
        return list(all_bids(self.client))

    def orders(self, *, consumer: str = "", validator: str = "") -> list[Order]:
        """Return the orders on the chain: all, those of a consumer's address, or those that a validator took.

        Example::

            for known in network.orders(consumer=network.key.address):
                print(known.id.hex(), known.state.name)
        """
        return list(all_orders(self.client, consumer, validator))

    def quote(self, job: Path | str, **options: Unpack[OrderOptions]) -> Quote:
        """Ask what a job would cost now; nothing is signed or paid. Its keywords are :class:`OrderOptions`.

        Money is in uassay (a million are an ASSAY), time in seconds, memory in bytes; a ``price_limit`` of 0 is none.

        Example::

            found = network.quote("my-job", regions=["eu"])
            print(found.cost, found.seconds)
        """
        return quote(self.client, read_job(job), request_of(**options))

    def submit(self, job: Path | str, **options: Unpack[OrderOptions]) -> "PlacedOrder":
        """Order the job in a directory, lock the payment, and return the order. Its keywords are :class:`OrderOptions`.

        Units are those of :meth:`quote`; without a ``price_limit`` it is twice the best price. Following the order or
        waiting for it delivers the payload to the validator that wins it. Active orders of the same job go on beside
        it: they are its ``others``.

        Raises ConsumerError if no bid would take it and no ``price_limit`` is given, Refusal for what the chain
        would refuse, and ChainError.

        Example::

            order = network.submit("my-job", deadline=2 * 3600)
            for other in order.others:
                print("goes on, too:", other.id.hex(), other.status().state.name)
        """
        request, directory = request_of(**options), Path(job)
        document = read_job(directory)
        placed = place_order(
            self.client,
            TxSender(self.client, self.key),
            self.key,
            document,
            request,
            directory=directory,
            home=self.home,
            note=self._note,
        )
        others = tuple(PlacedOrder(self, each.id) for each in placed.others)
        return PlacedOrder(self, placed.submitted.order_id, others=others)

    def order(self, name: str | bytes, job: Path | str | None = None) -> "PlacedOrder":
        """Return an order by its id or the first digits of it (8 or more).

        ``job`` is its directory, which the home knows of orders that were made with it, by whichever program.

        Example::

            order = network.order("1a2b3c4d")
        """
        order_id = find_order(self.client, name) if isinstance(name, str) else name
        return PlacedOrder(self, order_id, Path(job) if job is not None else None)


class PlacedOrder:
    """An order on a network.

    Example::

        for event in order.events():
            print(event)
        assay.load_result(model, order.result())
    """

    # What this key had ordered of the same job when it was placed, and was not over.
    others: tuple["PlacedOrder", ...]

    def __init__(
        self,
        session: Session,
        order_id: bytes,
        job: Path | None = None,
        others: tuple["PlacedOrder", ...] = (),
    ) -> None:
        """Name an order of a session; ``job`` where its home does not know the directory."""
        self.session, self.id, self.others = session, order_id, others
        self._job = job

    def __repr__(self) -> str:
        """Say which it is, as far as this machine knows."""
        name = job_name(self.session.home, self.id)
        parts = [("id", self.id), *((("job", name),) if name else ())]
        return in_line("PlacedOrder", parts)

    def _repr_html_(self) -> str:
        """Show a notebook where it stands now, and what it waits for."""
        parts: list[tuple[str, object]] = [("id", self.id)]
        if name := job_name(self.session.home, self.id):
            parts.append(("job", name))
        try:
            answer = self.details()
            found = waiting(answer, self.session.client.status().clock)
        except ChainError as error:
            return as_table("PlacedOrder", [*parts, ("state", f"not known: {error.reason}")])
        parts += summarise(answer).summary()
        return as_table("PlacedOrder", [*parts, ("it", str(found) if found else "is over")])

    @property
    def job(self) -> Path:
        """The directory of its job; ConsumerError where the home does not know it."""
        return self._job or recall(self.session.home, self.id).job

    def status(self) -> Summary:
        """Return where it stands.

        Example::

            print(order.status().state.name)
        """
        return summarise(self.details())

    def details(self) -> OrderResponse:
        """Return all that the chain has of it: legs, shares, rounds, panels, escrow, and every payment.

        Example::

            for payment in order.details().payments:
                print(payment.kind, payment.to, payment.amount)
        """
        return self.session.client.query(OrderRequest(self.id))

    def losses(self) -> NDArray[float64]:
        """Return the loss at the end of each closed round (rows) in each slot (columns), as the chain has it.

        It is that of ``run_locally(job).losses``, bit for bit. A slot without a loss has NaN.

        Example::

            print(order.losses().mean(axis=1))
        """
        return losses_of(self.details())

    def history(self) -> History:
        """Return the loss to plot: an array with the fields ``step`` (steps done), ``slot`` and ``loss``.

        The chain has the end of each closed round; ``run_locally(job).history`` has each segment.

        Example::

            points = order.history()
            print(points["step"], points["loss"])
        """
        return history_of(self.details())

    def why(self) -> Why:
        """Return why it is where it is: what it waits for, what bids fail on, legs that failed, what panels found.

        Example::

            print(order.why())
        """
        return ask_why(self.session.client, self.id)

    def cancel(self) -> None:
        """Take it back, which works until it is matched; the deposit returns.

        Example::

            order.cancel()
        """
        sender = TxSender(self.session.client, self.session.key)
        sender.send(MsgCancelOrder(self.session.key.address, self.id))

    def wait(self, until: OrderState = OrderState.CLOSED, seconds: float = DAY) -> Summary:
        """Wait until it has come so far or is closed, and deliver its payload; StillWaiting after ``seconds``.

        Example::

            order.wait(assay.OrderState.RUNNING, seconds=600)
        """
        client, until = self.session.client, _state(until)
        return summarise(wait_for(client, self.id, until, self._delivery(), Event(), float(seconds)))

    def events(self, until: OrderState = OrderState.CLOSED, seconds: float = DAY) -> Iterator[Change]:
        """Yield what happens to it, from its beginning on, and deliver its payload meanwhile.

        It ends when all is told of an order that has come as far as ``until``, or is closed. A node that goes away is
        waited for. StillWaiting after ``seconds``; the next call begins at the beginning again. The result is there
        once the order is ``PROVEN``, which is minutes before it closes.

        Example::

            for event in order.events(until=assay.OrderState.PROVEN):
                if isinstance(event, assay.RoundClosed):
                    print("round", event.round.round, order.losses()[-1])
        """
        client, stop, until = self.session.client, Event(), _state(until)
        node = WatchedNode(client.address, stop, self.session._note)
        delivery, since = self._delivery(), self._since()
        ends, last = time.monotonic() + seconds, False
        while True:
            page = node.ask(partial(client.query, EventsRequest(since, EVENTS_LIMIT_MAX)))
            for event in page.events if page else ():
                since = event.number + 1
                if ("order", self.id.hex()) in event.attributes:
                    change = read_event(event)
                    if change is not None:
                        yield change
            if page is None or not page.events:
                if page is not None and last:
                    return
                answer = node.ask(partial(client.query, OrderRequest(self.id)))
                if answer is not None:
                    if delivery is not None:
                        delivery.step(answer)
                    # What happened before this answer may be told only by the next page.
                    last = answer.order.state >= until
                if time.monotonic() > ends:
                    where = answer.order.state.name.lower() if answer else "at a node that is away"
                    raise StillWaiting(f"the order is still {where}", "go on: call it again")
                if not last:
                    stop.wait(watch.POLL_SECONDS)

    def result(
        self,
        round: int | None = None,
        *,
        seconds: float = DAY,
        progress: Callable[[int, int], None] | None = None,
    ) -> Result:
        """Wait until it is trained, fetch what its last round left (or another hand-over round), check and decrypt it.

        Example::

            assay.load_result(model, order.result())
        """
        if round is None:
            self.wait(OrderState.PROVEN, seconds)
        session = self.session
        job, scratch = read_job(self.job), session.home / "results"
        return fetch_result(session.client, session.key, self.id, job, scratch, progress, round)

    def _since(self) -> int:
        try:
            return recall(self.session.home, self.id).since
        except ConsumerError:
            return 1

    def _delivery(self) -> Delivery | None:
        """Return what delivers the payload; None where this home has not ordered it."""
        try:
            directory = self.job
        except ConsumerError:
            return None
        session = self.session
        job, note = read_job(directory), session._note
        return Delivery(
            client=session.client,
            key=session.key,
            order_id=self.id,
            directory=directory,
            job=job,
            progress=None,
            note=note,
        )


def _state(until: object) -> OrderState:
    if not isinstance(until, OrderState):
        raise ConsumerError(
            f"{until!r} is no state of an order",
            "give one as assay.OrderState.PROVEN",
            field="until",
        )
    return until
