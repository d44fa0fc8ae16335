"""Quotes and orders: what a job would cost, and the signed message that locks the payment for it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from chain.client.client import ChainClient
from chain.client.clock import REMEDY, find_wrong_clock
from chain.client.errors import TxRefused
from chain.client.sender import TxSender
from consumer.errors import ConsumerError
from consumer.jobs import OrderNote, remember
from consumer.lookup import most_backed
from consumer.request import Request
from consumer.watch import ID_SHOWN
from consumer.words import STAKE, Asker, explain
from domain.amount import MONEY_MAX, price_ceil
from domain.errors import BAD_PROOF
from domain.genesis import POWER_REDUCTION
from domain.hashing import message_id
from domain.ledger.queries import AccountRequest
from domain.limits import QUERY_LIMIT_MAX
from domain.market.events import OrderOpened
from domain.market.messages import MsgSubmitOrder
from domain.market.queries import OrdersRequest, SimulateMatchRequest, SimulateMatchResponse
from domain.market.records import JobTerms, Order, OrderState
from domain.measures import coins, duration, price, work
from domain.node.queries import EventsRequest
from domain.params import Params
from domain.proof.params import ProofParams
from domain.readable import Readable, Shown
from domain.registry.queries import ValidatorsRequest
from domain.vocabulary import changes_of
from escrow.settle import audit_fee
from link.handover import order_secret, public_point
from pol.job.cost import memory_size
from pol.job.document import Job, order_terms
from pol.rules.commitment import possession_sign_bytes
from pol.rules.orders import check_order, least_deposit
from pol.rules.outlook import Outlook, outlook
from pol.rules.panels import Promised, is_eligible
from pol.rules.schedule import round_work, total_work
from pol.rules.tiers.table import highest_floor
from wire.keys import Key

LIMIT_FACTOR = 2
"""How many times the best price an order may cost by default: enough for the next bid, if the winner fails."""
PRICES_TRIED = 8
"""How many prices a quote without a limit looks at, the cheapest first."""
SENDS_MAX = 5
"""How often an order is made again because another transaction of the same key took its sequence."""
SEQUENCES_TRIED = 10_000
"""How far back :func:`recover_secret` looks for the sequence that an order's key was derived with."""


@dataclass(frozen=True, slots=True)
class CheckedOrder(Readable):
    """What the chain makes of an order that it would take: its deposit, and who recomputes its rounds in what time.

    Example::

        if checked := network.quote("my-job").checked:
            print(checked.deposit, checked.eligible, checked.window)
    """

    deposit: int
    audit_ms: int
    window: int  # seconds
    eligible: int  # validators who may sit in its panels, its winner among them
    audit_floor: int  # least audit fee of a round, beside the work


@dataclass(frozen=True, slots=True)
class Quote(Shown):
    """What an order would meet now: work, the best bid's price, cost and time, and why other bids do not fit.

    Example::

        found = network.quote("my-job")
        print(found.cost, found.price, found.seconds, found.match.unmatched)
    """

    terms: JobTerms
    match: SimulateMatchResponse
    params: Params
    # That was asked with, or of an order that names none; uassay per PFLOP.
    price_limit: int = 0
    # Of the bid that would take it at any price, 0 if there is none.
    cheapest: int = 0
    # At that price limit.
    checked: CheckedOrder | None = None
    # Where bids fail on stake: the most work that one that is too small backs (FLOPs).
    backed: int = 0

    @property
    def work(self) -> int:
        """FLOPs of the whole job."""
        return total_work(self.terms)

    @property
    def price(self) -> int:
        """Price of the cheapest bid that fits (uassay per PFLOP), 0 if none does."""
        return self.match.bids[0].offer.price if self.match.bids else 0

    @property
    def cost(self) -> int:
        """What the whole job costs at that price (uassay): its work, rounded up, and what audits need beside it."""
        return price_ceil(self.work, self.price) + self.audits

    def summary(self) -> Iterable[tuple[str, object]]:
        """Return what the job would cost, and when it would be done."""
        rows: list[tuple[str, object]] = [("work", work(self.work))]
        if not self.match.bids:
            reason, remedy = self.explain()
            return [*rows, ("no bid", f"{reason}; {remedy}")]
        rows += [("cost", coins(self.cost)), ("price", price(self.price))]
        rows += [("rounds_take", duration(self.seconds)), ("price_limit", price(self.price_limit))]
        return [*rows, ("bids", len(self.match.bids))]

    def explain(self, asker: Asker = Asker.PYTHON) -> tuple[str, str]:
        """Return why no bid fits, and what would help, for ``asker`` to type."""
        return explain(
            self.match.unmatched,
            self.cheapest,
            backed=self.backed,
            needed=self.work,
            asker=asker,
        )

    @property
    def audits(self) -> int:
        """What audits cost beyond their part of the work's price (uassay), at the order's limit."""
        if not self.price or not self.checked:
            return 0
        return audits_beside(self.terms, self.price, self.checked.audit_floor, self.params)

    @property
    def seconds(self) -> int:
        """How long that bid's rounds are expected to take, in seconds without windows; 0 if none fits."""
        return self.outlook.job if self.outlook else 0

    @property
    def outlook(self) -> Outlook | None:
        """What to expect of that bid; None if none fits."""
        if not self.match.bids:
            return None
        offer = self.match.bids[0].offer
        audit_ms = self.checked.audit_ms if self.checked else None
        return outlook(self.terms, self.params, offer.slot_speed, offer.slots, audit_ms)


def audits_beside(terms: JobTerms, price: int, floor: int, params: Params) -> int:
    """Return what audits of all rounds cost beyond their part of the work's price (uassay).

    ``price`` is of a PFLOP, and ``floor`` the least audit fee of a round.
    """
    part = audit_fee(round_work(terms), price, params.of(ProofParams).audit_bps)
    return terms.rounds * max(0, floor - part)


def quote(client: ChainClient, job: Job, request: Request) -> Quote:
    """Ask the node which bids would serve this job; nothing is signed or paid.

    Refusal names what the chain would refuse of the order; without a price limit, a search for any price comes first.

    Example::

        found = assay.quote(client, assay.read_job("my-job"), assay.Request(deadline=3600))
    """
    terms, request = order_terms(job), with_job_memory(job, request)
    params = client.params()
    checked = _check(client, params, terms, request)
    simulation = SimulateMatchRequest(
        conditions=request.conditions,
        price_limit=request.price_limit,
        deadline=request.deadline,
        terms=terms,
    )
    found = client.query(simulation)
    if request.price_limit:
        at_any = () if found.bids else client.query(replace(simulation, price_limit=0)).bids
        cheapest = at_any[0].offer.price if at_any else 0
        return Quote(
            terms=terms,
            match=found,
            params=params,
            price_limit=request.price_limit,
            cheapest=cheapest,
            checked=checked,
            backed=_backed(client, terms, found),
        )
    # Bonds grow with the limit, so that the cheapest bid may not be backed for what is asked.
    prices = dict.fromkeys(bid.offer.price for bid in found.bids)
    for asked in islice(prices, PRICES_TRIED):
        limit = min(LIMIT_FACTOR * asked, MONEY_MAX)
        found = client.query(replace(simulation, price_limit=limit))
        if found.bids:
            checked = _check(client, params, terms, replace(request, price_limit=limit))
            return Quote(terms=terms, match=found, params=params, price_limit=limit, checked=checked)
    backed = _backed(client, terms, found)
    return Quote(terms=terms, match=found, params=params, checked=checked, backed=backed)


def _backed(client: ChainClient, terms: JobTerms, found: SimulateMatchResponse) -> int:
    """Return the most work that a stake too small for the job backs, where that keeps bids from it."""
    fails = not found.bids and any(name == STAKE for name, _ in found.unmatched)
    return most_backed(client, total_work(terms)) if fails else 0


def with_price_limit(found: Quote, request: Request, asker: Asker = Asker.PYTHON) -> Request:
    """Return a request with a price limit: its own, or that of its quote; ConsumerError if neither has one."""
    if request.price_limit:
        return request
    if not found.match.bids:
        raise ConsumerError(*found.explain(asker))
    return replace(request, price_limit=found.price_limit)


def with_job_memory(job: Job, request: Request) -> Request:
    """Ask for devices with the memory that the job needs: who has less would decline it, and both sides would pay."""
    memory = max(request.conditions.memory, memory_size(job.document))
    return replace(request, conditions=replace(request.conditions, memory=memory))


def check_request(client: ChainClient, terms: JobTerms, request: Request) -> CheckedOrder:
    """Check an order as the chain will, by the function that it has for it."""
    return _check(client, client.params(), terms, request)


def _check(client: ChainClient, params: Params, terms: JobTerms, request: Request) -> CheckedOrder:
    kept = params.for_order()
    tiers = request.conditions.tiers
    deposit = least_deposit(terms, request.price_limit, params, tiers)
    validators = [
        Promised(
            operator=found.operator,
            stake=found.stake,
            speed=found.audit_speed,
            rate=found.audit_rate,
        )
        for found in client.query(ValidatorsRequest()).validators
        if not found.jailed and found.stake >= POWER_REDUCTION
    ]
    auditable = check_order(
        terms,
        request.conditions,
        request.price_limit,
        deposit,
        request.time_to_live,
        params,
        validators,
    )
    eligible = sum(is_eligible(terms, kept, auditable.audit_ms, found.speed, found.rate) for found in validators)
    floor = highest_floor(tiers, terms, request.price_limit, kept)
    return CheckedOrder(
        deposit=deposit,
        audit_ms=auditable.audit_ms,
        window=auditable.window,
        eligible=eligible,
        audit_floor=floor,
    )


def active_orders(client: ChainClient, consumer: str, job: Job) -> list[Order]:
    """Return the consumer's orders of a job that are not closed, among those in one answer of the node."""
    orders = client.query(
        OrdersRequest(consumer=consumer, validator="", state=0, limit=QUERY_LIMIT_MAX, after=b"")
    ).orders
    return [o for o in orders if o.terms.job_id == job.id and o.state is not OrderState.CLOSED]


def describe_active_orders(orders: Sequence[Order], asker: Asker = Asker.PYTHON) -> str:
    """Return a warning that a job already has active orders and that the new one will be separate."""
    named = ", ".join(f"{o.id.hex()[:ID_SHOWN]} ({o.state.name.lower()})" for o in orders[:3])
    more = f" and {len(orders) - 3} more" if len(orders) > 3 else ""
    return (
        f"you have ordered this job already: {named}{more}; this will be another order, with its own deposit"
        f" (to follow one that you have: {asker.follow(orders[0].id)})"
    )


@dataclass(frozen=True, slots=True)
class SubmittedOrder(Readable):
    """An order on chain: its id, deposit, the transaction and its fee.

    Example::

        made = assay.submit(client, assay.TxSender(client, key), key, job, assay.Request())
        print(made.order_id.hex(), made.deposit)
    """

    order_id: bytes
    deposit: int
    tx_hash: bytes
    height: int


def submit(
    client: ChainClient,
    sender: TxSender,
    key: Key,
    job: Job,
    request: Request,
    sending: Callable[[bytes], None] = lambda order_id: None,
) -> SubmittedOrder:
    """Submit an order and lock its deposit; Refusal, ChainError or TxRefused say why not.

    ``sending`` is told the order's id before it is sent: from then on it may be on chain, whatever happens here.

    Example::

        request = assay.Request(price_limit=10**12)
        made = assay.submit(client, assay.TxSender(client, key), key, job, request)
    """
    terms, request = order_terms(job), with_job_memory(job, request)
    deposit = check_request(client, terms, request).deposit
    if deposit > MONEY_MAX:
        raise ConsumerError(
            f"the deposit of {deposit} uassay is beyond what the chain counts",
            "lower the price limit",
        )
    chain_id = client.status().chain_id
    for left in reversed(range(SENDS_MAX)):
        sequence = client.query(AccountRequest(key.address)).account.sequence
        secret = order_secret(key.secret, chain_id, job.id, sequence)
        order_key = public_point(secret)
        order_id = message_id("order", chain_id, key.address, sequence, 0)
        message = MsgSubmitOrder(
            consumer=key.address,
            order_key=order_key,
            key_proof=Key(secret).sign(possession_sign_bytes(order_id, order_key)),
            terms=terms,
            conditions=request.conditions,
            price_limit=request.price_limit,
            deposit=deposit,
            time_to_live=request.time_to_live,
            deadline=request.deadline,
            rematch=request.rematch,
        )
        sending(order_id)
        try:
            receipt = sender.send(message)
        except TxRefused as refused:
            # The proof is for one sequence, which another transaction of this key has taken meanwhile.
            if refused.code != BAD_PROOF or not left:
                raise
        else:
            break
    opened = next(changes_of(OrderOpened, receipt.events), None)
    if opened is None:
        raise ConsumerError("the transaction opened no order", "look at it with assay query tx")
    return SubmittedOrder(order_id=opened.order, deposit=deposit, tx_hash=receipt.hash, height=receipt.height)


@dataclass(frozen=True, slots=True)
class Placement:
    """An order that was just placed: the chain's answer, the quote before it, and other active orders of the job."""

    submitted: SubmittedOrder
    quote: Quote
    others: tuple[Order, ...]


def place_order(
    client: ChainClient,
    sender: TxSender,
    key: Key,
    job: Job,
    request: Request,
    *,
    directory: Path,
    home: Path,
    note: Callable[[str], None],
    sending: Callable[[bytes], None] = lambda order_id: None,
    asker: Asker = Asker.PYTHON,
) -> Placement:
    """Order the job of a directory, and keep in ``home`` which directory it was.

    A request without a price limit takes that of its quote. ``note`` is told of active orders of the same job, and of
    an order that has to wait for a bid. ``sending`` is told the order's id before it is sent, as :func:`submit` does.
    ``asker`` says what a person can type.
    """
    # The deposit is locked at once, and the winner takes no request with a wrong time.
    if wrong := find_wrong_clock(client.status):
        raise ConsumerError(wrong, REMEDY)
    others = active_orders(client, key.address, job)
    if others:
        note(describe_active_orders(others, asker))
    offered = quote(client, job, request)
    request = with_price_limit(offered, request, asker)
    if not offered.match.bids:
        reason, remedy = offered.explain(asker)
        note(f"{reason}; {remedy}; the order waits for {duration(request.time_to_live)} at most")
    since = client.query(EventsRequest(1, 1)).next

    def remember_order(order_id: bytes) -> None:
        remember(
            home,
            OrderNote(
                order_id=order_id,
                job=directory,
                key=key.address,
                since=since,
                name=job.document.name,
            ),
        )
        sending(order_id)

    submitted = submit(client, sender, key, job, request, remember_order)
    return Placement(submitted, offered, tuple(others))


def recover_secret(client: ChainClient, key: Key, order: Order) -> bytes:
    """Derive the per-order secret again from the account key; ConsumerError if the order is not this key's."""
    chain_id = client.status().chain_id
    newest = client.query(AccountRequest(key.address)).account.sequence
    for sequence in range(newest, max(-1, newest - SEQUENCES_TRIED), -1):
        secret = order_secret(key.secret, chain_id, order.terms.job_id, sequence)
        if public_point(secret) == order.order_key:
            return secret
    raise ConsumerError("this key did not make the order's key", "use the key that ordered (--from, or key=)")
