"""The consumer's interface for programs: a session with a network, orders, their events, and results.

The arguments have the same defaults as the options of commands. Programs and commands with the same home see the same
orders.
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
from consumer.complain import complain, fetch_or_complain
from consumer.early import take_early
from consumer.errors import ConsumerError, StillWaiting
from consumer.history import history_of, losses_of
from consumer.jobs import job_name, read_job, recall
from consumer.lookup import all_bids, all_orders, find_order
from consumer.missed import never_served
from consumer.request import OrderOptions, request_of
from consumer.result import Result
from consumer.states import acknowledge, states_folder
from consumer.submit import Quote, place_order, quote
from consumer.waiting import waiting
from consumer.watch import Delivery, Summary, summarise, wait_for, wait_for_result
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
    """Return a session with a network.

    ``node`` is the gRPC address (host:port) of the node that the session asks. ``home`` is the folder with the keys and
    the submitted orders. ``key`` is the name of the key that signs. The key is unlocked when it first has to sign. If
    ``passphrase`` is not given, it comes from the variable ``ASSAY_PASSPHRASE`` or from the terminal. ``note`` is
    called with messages about progress.

    Missing arguments come from the environment (``ASSAY_HOME``, ``ASSAY_NODE``), the home's ``config.toml`` or the
    defaults, as for commands.

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
    """A session with a network: :func:`connect` returns one, and the end of a ``with`` block closes it.

    Example::

        with assay.connect() as network:
            order = network.submit("my-job", deadline=3600)
    """

    client: ChainClient
    # Folder with the keys and the submitted orders.
    home: Path

    def __init__(
        self,
        client: ChainClient,
        unlock: Callable[[], Key],
        home: Path,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Store the arguments; ``unlock`` returns the key that signs, and is called when the key is first needed."""
        self.client = client
        self.home = home
        self._unlock = unlock
        self._note = note

    def __repr__(self) -> str:
        """Return a line with the address of the session's node and the path of its home."""
        return in_line("Session", (("node", self.client.address), ("home", str(self.home))))

    def _repr_html_(self) -> str:
        """Return an HTML table for notebooks, with the node, the home, the chain's id and its height."""
        parts: list[tuple[str, object]] = [("node", self.client.address), ("home", str(self.home))]
        try:
            status = self.client.status()
        except ChainError as error:
            return as_table("Session", [*parts, ("chain", f"unknown: {error.reason}")])
        return as_table("Session", [*parts, ("chain", status.chain_id), ("height", status.height)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to the node.

        The end of a ``with`` block also closes the connection. Call this method only in code without such a block, for
        example in a notebook.

        Example::

            network = assay.connect()
            network.close()
        """
        self.client.close()

    @cached_property
    def key(self) -> Key:
        """The key that signs transactions; it is unlocked on first use."""
        return self._unlock()

    def balance(self) -> int:
        """Return the balance (uassay) of the account of the key that signs.

        Example::

            print(network.balance() / 1e6, "ASSAY")
        """
        return self.client.query(AccountRequest(self.key.address)).balance

    def send(self, to: str, coins: int) -> TxReceipt:
        """Send ``coins`` (uassay) to the address ``to``, and return the receipt once a block has the transaction.

        Example::

            receipt = network.send("assay1…", 2_500_000)
            print(receipt.height)
        """
        amount = (Coin(DENOM, coins),)
        return TxSender(self.client, self.key).send(MsgSend(self.key.address, to, amount))

    def bids(self) -> list[Bid]:
        """Return all bids in the chain's book.

        Example::

            print(min(bid.offer.price for bid in network.bids()))
        """
        return list(all_bids(self.client))

    def orders(self, *, consumer: str = "", validator: str = "") -> list[Order]:
        """Return the orders on the chain.

        The address ``consumer`` limits them to the orders of that consumer. The address ``validator`` limits them to
        the orders that have a leg of that validator.

        Example::

            for record in network.orders(consumer=network.key.address):
                print(record.id.hex(), record.state.name)
        """
        return list(all_orders(self.client, consumer, validator))

    def quote(self, job: Path | str, **options: Unpack[OrderOptions]) -> Quote:
        """Return a quote for the job in a directory: the cost and the time at the current bids.

        Nothing is signed or paid. The keywords are :class:`OrderOptions`. Money is in uassay (a million are one ASSAY),
        time in seconds, memory in bytes. A ``price_limit`` of 0 means no limit.

        Example::

            offer = network.quote("my-job", regions=["eu"])
            print(offer.cost, offer.seconds)
        """
        return quote(self.client, read_job(job), request_of(**options))

    def submit(self, job: Path | str, **options: Unpack[OrderOptions]) -> "PlacedOrder":
        """Submit an order for the job in a directory, lock its payment on the chain, and return the order.

        The keywords are :class:`OrderOptions`, with the units of :meth:`quote`. If no ``price_limit`` is given, the
        limit is twice the price of the best bid. The payload is delivered to the winning validator while the program
        follows the order (:meth:`PlacedOrder.events`) or waits for it (:meth:`PlacedOrder.wait`). Earlier orders of the
        same job that are still active stay active; the new order lists these orders in ``others``.

        Raise ConsumerError if no bid fits and no ``price_limit`` is given, Refusal if the chain would refuse the order,
        and ChainError if the node fails.

        Example::

            order = network.submit("my-job", deadline=2 * 3600)
            for other in order.others:
                print("also active:", other.id.hex(), other.status().state.name)
        """
        request = request_of(**options)
        directory = Path(job)
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
        """Return the order with the given id.

        ``name`` is the id as bytes, or the first hex digits of the id (8 or more). ``job`` is the job directory; it is
        not needed for orders that a program or command submitted with this home.

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

    # This key's orders of the same job that were still active when this order was submitted.
    others: tuple["PlacedOrder", ...]

    def __init__(
        self,
        session: Session,
        order_id: bytes,
        job: Path | None = None,
        others: tuple["PlacedOrder", ...] = (),
    ) -> None:
        """Store the arguments; ``job`` is the job directory, which is needed only if the home does not know it."""
        self.session = session
        self.id = order_id
        self.others = others
        self._job = job

    def __repr__(self) -> str:
        """Return a line with the order's id, and with the job's name if the home knows it."""
        name = job_name(self.session.home, self.id)
        parts = [("id", self.id), *((("job", name),) if name else ())]
        return in_line("PlacedOrder", parts)

    def _repr_html_(self) -> str:
        """Return an HTML table for notebooks, with the order's state and the reason why it waits."""
        parts: list[tuple[str, object]] = [("id", self.id)]
        if name := job_name(self.session.home, self.id):
            parts.append(("job", name))
        try:
            answer = self.details()
            wait = waiting(answer, self.session.client.status().clock)
        except ChainError as error:
            return as_table("PlacedOrder", [*parts, ("state", f"unknown: {error.reason}")])
        parts += summarise(answer).summary()
        return as_table("PlacedOrder", [*parts, ("it", str(wait) if wait else "is over")])

    @property
    def job(self) -> Path:
        """The order's job directory; reading it raises ConsumerError if the home does not know the directory."""
        return self._job or recall(self.session.home, self.id).job

    def status(self) -> Summary:
        """Return a summary of the order's state.

        Example::

            print(order.status().state.name)
        """
        return summarise(self.details())

    def details(self) -> OrderResponse:
        """Return the chain's full record of the order: legs, shares, rounds, panels, escrow, and every payment.

        Example::

            for payment in order.details().payments:
                print(payment.kind, payment.to, payment.amount)
        """
        return self.session.client.query(OrderRequest(self.id))

    def losses(self) -> NDArray[float64]:
        """Return the training losses that the chain has recorded for the order, as an array.

        The array has a row per closed round and a column per slot. A value is the slot's loss at the end of the round,
        or NaN if the slot has none. The values equal ``run_locally(job).losses`` bit for bit.

        Example::

            print(order.losses().mean(axis=1))
        """
        return losses_of(self.details())

    def history(self) -> History:
        """Return the order's losses for a plot: an array with the fields ``step`` (steps done), ``slot`` and ``loss``.

        The array has one entry per closed round and slot; ``run_locally(job).history`` has one per segment.

        Example::

            points = order.history()
            print(points["step"], points["loss"])
        """
        return history_of(self.details())

    def why(self) -> Why:
        """Return an explanation of the order's state.

        The explanation names the event that the order waits for, and the reasons why bids do not fit. It also names the
        legs that failed and the rulings of panels.

        Example::

            print(order.why())
        """
        return ask_why(self.session.client, self.id)

    def cancel(self) -> None:
        """Cancel the order and get the deposit back; this is possible only before the order is matched.

        Example::

            order.cancel()
        """
        sender = TxSender(self.session.client, self.session.key)
        sender.send(MsgCancelOrder(self.session.key.address, self.id))

    def wait(self, until: OrderState = OrderState.CLOSED, seconds: float = DAY) -> Summary:
        """Wait until the order reaches the state ``until`` or is closed, and return the order's summary.

        While waiting, deliver the order's payload. Raise StillWaiting if the wait takes longer than ``seconds``.

        Example::

            order.wait(assay.OrderState.RUNNING, seconds=600)
        """
        client, until = self.session.client, _state(until)
        return summarise(wait_for(client, self.id, until, self._delivery(), Event(), float(seconds)))

    def events(self, until: OrderState = OrderState.CLOSED, seconds: float = DAY) -> Iterator[Change]:
        """Yield the order's events, beginning with the first one; meanwhile, deliver the order's payload.

        The iterator ends when the order has reached the state ``until`` or is closed. If the node stops answering, the
        iterator waits until the node answers again. Raise StillWaiting if the order is still not in that state after
        ``seconds``. The next call of this method begins again with the order's first event. The result is available
        after the event ``OrderVerified``, which is minutes before the order closes.

        Example::

            for event in order.events(until=assay.OrderState.PROVEN):
                if isinstance(event, assay.RoundClosed):
                    print("round", event.round.round, order.losses()[-1])
        """
        client = self.session.client
        stop = Event()
        until = _state(until)
        node = WatchedNode(client.address, stop, self.session._note)
        delivery = self._delivery()
        since = self._since()
        ends = time.monotonic() + seconds
        last = False
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
                    # Events that happened before this answer may be on the next page, so read one more page before the
                    # end.
                    last = answer.order.state >= until
                if time.monotonic() > ends:
                    state = f"the order is still {answer.order.state.name.lower()}" if answer else "no node answers"
                    raise StillWaiting(f"{state} after {seconds:g} s", "call the method again to keep waiting")
                if not last:
                    stop.wait(watch.POLL_SECONDS)

    def result(
        self,
        round: int | None = None,
        *,
        seconds: float = DAY,
        progress: Callable[[int, int], None] | None = None,
        complain: bool = False,
        early: bool = False,
    ) -> Result:
        """Wait until the order is verified; fetch, check, decrypt and return the trained state after its last round.

        If ``round`` is given, fetch the state after that hand-over round instead, without waiting. ``seconds`` is the
        longest wait; after it raise StillWaiting. ``progress`` is called with the number of bytes done and the number
        of all bytes. If a chunk is wrong, raise HandoverError. With ``complain``, the validator's fault is first proven
        to the chain.

        With ``early``, wait only until the order is proven, and take a round that is not verified yet. If this round or
        an earlier one then becomes void, its price is burnt instead of refunded, even if another party is at fault.

        Example::

            assay.load_result(model, order.result())
        """
        session = self.session
        client, sender = session.client, TxSender(session.client, session.key)
        if round is None and early:
            self.wait(OrderState.PROVEN, seconds)
        elif round is None:
            wait_for_result(client, self.id, self._delivery(), Event(), float(seconds))
        if early:
            take_early(client, sender, self.id, round)
        job, scratch = read_job(self.job), session.home / "results"
        complainer = sender if complain else None
        return fetch_or_complain(client, session.key, self.id, job, scratch, progress, round, complainer)

    def acknowledge(self, *, denied: bool = False) -> TxReceipt:
        """Confirm that the states of the last verified round of a failed leg arrived, or deny that they were served.

        The part that was withheld from the leg's validator is paid at once, or burnt if it is ``denied``. Raise
        ConsumerError if no part waits.

        Example::

            order.acknowledge(denied=True)
        """
        session = self.session
        message = acknowledge(session.client.query(OrderRequest(self.id)), received=not denied)
        return TxSender(session.client, session.key).send(message)

    def complain(self, round: int | None = None, progress: Callable[[int, int], None] | None = None) -> TxReceipt:
        """Fetch the states of a hand-over round, and prove to the chain that the validator encrypted a wrong chunk.

        If ``round`` is None, the last hand-over round is used. The leg then fails by its validator's fault. Raise
        ConsumerError if all chunks are right, and HandoverError if the result is wrong but nothing can be proven.

        Example::

            try:
                result = order.result()
            except assay.HandoverError:
                order.complain()
        """
        session = self.session
        job, scratch = read_job(self.job), session.home / "results"
        sender = TxSender(session.client, session.key)
        _, receipt = complain(session.client, session.key, self.id, job, scratch, progress, round, sender=sender)
        return receipt

    def never_served(self, round: int | None = None) -> TxReceipt:
        """Report that the result of a hand-over round was never served, so that auditors fetch it and then serve it.

        If ``round`` is None, the last round is meant. The bond comes from the bond account. If the auditors can fetch
        the result, the consumer pays them; if it is unavailable, the validator is at fault. Raise ConsumerError if the
        round has no result that its validator has to serve.

        Example::

            order.never_served()
        """
        session = self.session
        sender = TxSender(session.client, session.key)
        return never_served(session.client, self.id, round, sender=sender)

    def _since(self) -> int:
        try:
            return recall(self.session.home, self.id).since
        except ConsumerError:
            return 1

    def _delivery(self) -> Delivery | None:
        """Return an object that delivers the order's payload, or None if the home does not know the job directory."""
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
            states=states_folder(session.home, self.id),
        )


def _state(until: object) -> OrderState:
    if not isinstance(until, OrderState):
        raise ConsumerError(
            f"{until!r} is not a state of an order",
            "use a member of assay.OrderState, for example assay.OrderState.PROVEN",
            field="until",
        )
    return until
