"""Quotes and orders: the cost of a job, and the signed message that orders it and locks the payment."""

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
from domain.amount import MONEY_MAX, ceil_div, price_ceil
from domain.errors import BAD_PROOF, Refusal
from domain.genesis import POWER_REDUCTION
from domain.hashing import message_id
from domain.ledger.queries import AccountRequest
from domain.limits import QUERY_LIMIT_MAX
from domain.market.events import OrderOpened
from domain.market.messages import MsgSubmitOrder
from domain.market.queries import OrdersRequest, SimulateMatchRequest, SimulateMatchResponse
from domain.market.records import Bid, JobTerms, Order, OrderState
from domain.measures import coins, duration, price, work
from domain.node.queries import EventsRequest
from domain.params import Params
from domain.proof.params import ProofParams
from domain.readable import Readable, Shown
from domain.registry.queries import ValidatorsRequest
from domain.vocabulary import changes_of
from escrow.settle import audit_fee
from link.handover import order_secret, public_point
from matching_engine.records import price_bps
from pol.job.cost import memory_size
from pol.job.document import Job, order_terms
from pol.rules.commitment import possession_sign_bytes
from pol.rules.cover import count_paid
from pol.rules.orders import check_order, least_deposit, name_largest_segment
from pol.rules.outlook import Outlook, outlook
from pol.rules.panels import Promised, is_eligible
from pol.rules.replicas import replica_id
from pol.rules.schedule import round_work, total_work
from pol.rules.tiers.table import all_tiers, highest_floor
from pol.rules.traffic import Traffic, compute_traffic
from wire.keys import Key

LIMIT_FACTOR = 2
"""Default price limit, as a multiple of the best bid's price. If the winner fails, it is usually enough for another
bid.
"""
PRICES_TRIED = 8
"""Number of prices that a quote without a limit tries, the cheapest first."""
SENDS_MAX = 5
"""Most tries to send an order. A try fails if another transaction of the same key takes its sequence number."""
SEQUENCES_TRIED = 10_000
"""Number of past sequence numbers that :func:`recover_secret` tries; the secret of an order depends on one of them."""


@dataclass(frozen=True, slots=True)
class CheckedOrder(Readable):
    """The chain's terms for an order: its deposit, and the audits of its rounds.

    Example::

        if checked := network.quote("my-job").checked:
            print(checked.deposit, checked.eligible, checked.window)
    """

    deposit: int  # uassay
    audit_ms: int  # milliseconds for the places that a panel always recomputes; 0 without audits
    window: int  # seconds from the close of a round to its payment
    eligible: int  # number of validators that are fast enough for its panels, including the winner
    audit_floor: int  # lowest audit fee of a round, in uassay


@dataclass(frozen=True, slots=True)
class Quote(Shown):
    """A quote for an order: its work, the best bid's price, cost and time, and the reasons why other bids do not fit.

    Example::

        offer = network.quote("my-job")
        print(offer.cost, offer.price, offer.seconds, offer.match.unmatched)
    """

    terms: JobTerms
    match: SimulateMatchResponse
    params: Params
    # The request's price limit, or the default limit if the request has none (uassay per PFLOP).
    price_limit: int = 0
    # Price of the cheapest bid that would fit without a limit (uassay per PFLOP); 0 if no bid would fit.
    cheapest: int = 0
    # The chain's terms at the price limit.
    checked: CheckedOrder | None = None
    # Largest work (FLOPs) that the stake of one bid backs, among the bids with too little stake for the job; 0 if there
    # are no such bids.
    backed: int = 0
    # Number of validators that would each train the job; 0 if one does.
    replicas: int = 0
    # Bids that fit, but are of fewer validators than there are replicas. They are not in ``match``.
    few: tuple[Bid, ...] = ()

    @property
    def work(self) -> int:
        """FLOPs of the whole job."""
        return total_work(self.terms)

    @property
    def price(self) -> int:
        """Price of the cheapest bid that fits (uassay per PFLOP); 0 if no bid fits."""
        return self.match.bids[0].offer.price if self.match.bids else 0

    @property
    def winners(self) -> tuple[Bid, ...]:
        """The bids that would take the order and its replicas, the cheapest of each validator; empty if too few fit."""
        cheapest = {bid.validator: bid for bid in reversed(self.match.bids)}
        return tuple(sorted(cheapest.values(), key=self.match.bids.index))[: max(1, self.replicas)]

    @property
    def cost(self) -> int:
        """Cost of the job with the cheapest bids that fit (uassay): the work's price, rounded up, plus ``audits``."""
        return sum(price_ceil(self.work, bid.offer.price) for bid in self.winners) + self.audits

    @property
    def traffic(self) -> Traffic:
        """Bytes of the updates of all rounds."""
        return compute_traffic(self.terms, self.terms.rounds * self.terms.slots)

    @property
    def rounds_covered(self) -> int:
        """Rounds ahead of the audits that cautious providers train if the best bid's whole job bond covers them."""
        if not self.match.bids:
            return 0
        rules, best = self.params.for_order(), self.match.bids[0].offer
        least = max(best.price, ceil_div(self.price_limit, 2))
        bond = max(rules.payload_fee, price_bps(self.work, least, rules.job_bond_bps))
        return count_paid(self.terms, rules, bond, best.price, best.providers_bps)

    def summary(self) -> Iterable[tuple[str, object]]:
        """Return the rows that notebooks show."""
        rows: list[tuple[str, object]] = [("work", work(self.work))]
        if not self.match.bids:
            reason, remedy = self.explain()
            return [*rows, ("no bid", f"{reason}; {remedy}")]
        rows += [("cost", coins(self.cost)), ("price", price(self.price))]
        rows += [("rounds_take", duration(self.seconds)), ("price_limit", price(self.price_limit))]
        return [*rows, ("bids", len(self.match.bids))]

    def explain(self, asker: Asker = Asker.PYTHON) -> tuple[str, str]:
        """Return the reason why no bid fits, and a remedy. ``asker`` selects the form of commands in the remedy."""
        if self.few:
            found = len({bid.validator for bid in self.few})
            reason = f"the order needs bids of {self.replicas} validators, and those that fit are of {found}"
            return reason, "use fewer replicas or another tier, or wait for more bids"
        return explain(
            self.match.unmatched,
            self.cheapest,
            backed=self.backed,
            needed=self.work,
            asker=asker,
        )

    @property
    def audits(self) -> int:
        """Audit fees (uassay) that the consumer pays in addition to the price of the work.

        A part of the price of the work pays for audits. If this part is less than the lowest audit fee at the order's
        price limit, the consumer pays the difference.
        """
        if not self.checked:
            return 0
        floor = self.checked.audit_floor
        return sum(audits_beside(self.terms, bid.offer.price, floor, self.params) for bid in self.winners)

    @property
    def seconds(self) -> int:
        """Expected seconds that all rounds take with the best bid, without their windows; 0 if no bid fits."""
        return self.outlook.job if self.outlook else 0

    @property
    def outlook(self) -> Outlook | None:
        """The expected times with the best bid; None if no bid fits."""
        if not self.match.bids:
            return None
        offer = self.match.bids[0].offer
        audit_ms = self.checked.audit_ms if self.checked else None
        return outlook(self.terms, self.params, offer.slot_speed, offer.slots, audit_ms)


def audits_beside(terms: JobTerms, price: int, floor: int, params: Params) -> int:
    """Return the audit fees (uassay) that the consumer pays in addition to the price of the work.

    A part of the price of each round pays for its audits. If that part is less than ``floor``, the lowest audit fee of
    a round (uassay), the consumer pays the difference. ``price`` is in uassay per PFLOP.
    """
    part = audit_fee(round_work(terms), price, params.of(ProofParams).audit_bps)
    return terms.rounds * max(0, floor - part)


def quote(client: ChainClient, job: Job, request: Request) -> Quote:
    """Return a quote: the bids that would serve a job, with price, cost and time. Nothing is signed or paid.

    If the request has no price limit, the quote goes through the prices of the bids, the lowest first, and tries a
    limit of twice each price. It uses the first limit at which a bid fits. Raise Refusal if the chain would refuse the
    order.

    Example::

        offer = assay.quote(client, assay.read_job("my-job"), assay.Request(deadline=3600))
    """
    terms = order_terms(job)
    request = with_job_memory(job, with_job_tiers(job, request))
    params = client.params()
    checked = _check(client, params, terms, request)
    simulation = SimulateMatchRequest(
        conditions=request.conditions,
        price_limit=request.price_limit,
        deadline=request.deadline,
        terms=terms,
        challenge_wait=request.challenges.wait,
    )
    match, few = _all_or_none(client.query(simulation), request.replicas)
    if request.price_limit:
        without_limit = () if match.bids else client.query(replace(simulation, price_limit=0)).bids
        cheapest = without_limit[0].offer.price if without_limit else 0
        return Quote(
            terms=terms,
            match=match,
            params=params,
            price_limit=request.price_limit,
            cheapest=cheapest,
            checked=checked,
            backed=_backed(client, terms, match),
            replicas=request.replicas,
            few=few,
        )
    # Bonds grow with the limit, so the stake of the cheapest bid may not back an order at twice its price.
    prices = dict.fromkeys(bid.offer.price for bid in (*match.bids, *few))
    for best_price in islice(prices, PRICES_TRIED):
        limit = min(LIMIT_FACTOR * best_price, MONEY_MAX)
        match, few = _all_or_none(client.query(replace(simulation, price_limit=limit)), request.replicas)
        if match.bids:
            checked = _check(client, params, terms, replace(request, price_limit=limit))
            return Quote(
                terms=terms,
                match=match,
                params=params,
                price_limit=limit,
                checked=checked,
                replicas=request.replicas,
            )
    backed = _backed(client, terms, match)
    return Quote(
        terms=terms,
        match=match,
        params=params,
        checked=checked,
        backed=backed,
        replicas=request.replicas,
        few=few,
    )


def _all_or_none(match: SimulateMatchResponse, replicas: int) -> tuple[SimulateMatchResponse, tuple[Bid, ...]]:
    """Return a match without its bids, and these bids, if they are of fewer validators than there are replicas."""
    if len({bid.validator for bid in match.bids}) >= max(1, replicas):
        return match, ()
    return replace(match, bids=()), match.bids


def _backed(client: ChainClient, terms: JobTerms, match: SimulateMatchResponse) -> int:
    """Consider the bids that do not fit because of too little stake.

    Return the largest work (FLOPs) that the stake of one of them backs. Return 0 if a bid fits, or if there is no such
    bid.
    """
    fails = not match.bids and any(name == STAKE for name, _ in match.unmatched)
    return most_backed(client, total_work(terms)) if fails else 0


def with_price_limit(offer: Quote, request: Request, asker: Asker = Asker.PYTHON) -> Request:
    """Return the request with a price limit: the request's own limit, or else the limit of the quote ``offer``.

    Raise ConsumerError with a remedy if the request has no limit and no bid fits.
    """
    if request.price_limit:
        return request
    if not offer.match.bids:
        raise ConsumerError(*offer.explain(asker))
    return replace(request, price_limit=offer.price_limit)


def with_job_memory(job: Job, request: Request) -> Request:
    """Return the request with at least the device memory that the job needs.

    A validator with less memory would decline the job, which costs both sides.
    """
    memory = max(request.conditions.memory, memory_size(job.document))
    return replace(request, conditions=replace(request.conditions, memory=memory))


def with_job_tiers(job: Job, request: Request) -> Request:
    """Return the request without tiers in hardware arithmetic, if the job does not consent to this arithmetic.

    Raise ConsumerError if the request names no other tier.
    """
    hardware = {tier.name for tier in all_tiers() if tier.hardware}
    tiers = request.conditions.tiers
    if job.document.tolerance is not None or not hardware & set(tiers):
        return request
    left = tuple(name for name in tiers if name not in hardware)
    if not left:
        raise ConsumerError(
            f"the tier {tiers[0]} compares results within thresholds, and the job has none",
            "build the job with its profile (--tolerance, or tolerance=), or order it in another tier",
            field="tiers",
        )
    return replace(request, conditions=replace(request.conditions, tiers=left))


def check_request(client: ChainClient, terms: JobTerms, request: Request) -> CheckedOrder:
    """Check an order with the chain's own function; return the chain's terms, or raise Refusal if the check fails."""
    return _check(client, client.params(), terms, request)


def _check(client: ChainClient, params: Params, terms: JobTerms, request: Request) -> CheckedOrder:
    order_params = params.for_order()
    tiers = request.conditions.tiers
    deposit = least_deposit(terms, request.price_limit, params, tiers)
    validators = [
        Promised(
            operator=validator.operator,
            stake=validator.stake,
            speed=validator.audit_speed,
            rate=validator.audit_rate,
        )
        for validator in client.query(ValidatorsRequest()).validators
        if not validator.jailed and validator.stake >= POWER_REDUCTION
    ]
    try:
        auditable = check_order(
            terms,
            request.conditions,
            request.price_limit,
            deposit,
            request.time_to_live,
            params,
            validators,
            request.replicas,
        )
    except Refusal as refusal:
        raise name_largest_segment(refusal, terms, params, validators) from refusal
    eligible = sum(is_eligible(terms, order_params, auditable.audit_ms, each.speed, each.rate) for each in validators)
    floor = highest_floor(tiers, terms, request.price_limit, order_params)
    return CheckedOrder(
        deposit=deposit,
        audit_ms=auditable.audit_ms,
        window=auditable.window,
        eligible=eligible,
        audit_floor=floor,
    )


def active_orders(client: ChainClient, consumer: str, job: Job) -> list[Order]:
    """Return the consumer's orders of a job that are not closed. Read only one page of the node's answer."""
    orders = client.query(
        OrdersRequest(consumer=consumer, validator="", state=0, limit=QUERY_LIMIT_MAX, after=b"")
    ).orders
    return [o for o in orders if o.terms.job_id == job.id and o.state is not OrderState.CLOSED]


def describe_active_orders(orders: Sequence[Order], asker: Asker = Asker.PYTHON) -> str:
    """Return a warning that this job already has active orders, and that the new order will be separate from them."""
    named = ", ".join(f"{o.id.hex()[:ID_SHOWN]} ({o.state.name.lower()})" for o in orders[:3])
    more = f" and {len(orders) - 3} more" if len(orders) > 3 else ""
    return (
        f"you already have active orders of this job: {named}{more}; this new order is separate and has its own deposit"
        f" (to follow an existing order: {asker.follow(orders[0].id)})"
    )


@dataclass(frozen=True, slots=True)
class SubmittedOrder(Readable):
    """An order on the chain: its id, its deposit, and the transaction that opened it.

    ``replicas`` are the ids of all its replicas, this order first; ``deposit`` is the sum of what they lock.

    Example::

        submitted = assay.submit(client, assay.TxSender(client, key), key, job, assay.Request())
        print(submitted.order_id.hex(), submitted.deposit)
    """

    order_id: bytes
    deposit: int
    tx_hash: bytes
    height: int
    replicas: tuple[bytes, ...] = ()


def submit(
    client: ChainClient,
    sender: TxSender,
    key: Key,
    job: Job,
    request: Request,
    sending: Callable[[bytes], None] = lambda order_id: None,
) -> SubmittedOrder:
    """Submit an order and lock its deposit; raise Refusal, ChainError or TxRefused if that fails.

    ``sending`` is called with the order's id before the order is sent. After that call the order may be on the chain,
    even if this function fails.

    Example::

        request = assay.Request(price_limit=10**12)
        submitted = assay.submit(client, assay.TxSender(client, key), key, job, request)
    """
    terms = order_terms(job)
    request = with_job_memory(job, with_job_tiers(job, request))
    deposit = check_request(client, terms, request).deposit
    if deposit > MONEY_MAX:
        raise ConsumerError(
            f"the deposit of {deposit} uassay is more than the chain's maximum of {MONEY_MAX}",
            "lower the price limit",
        )
    chain_id = client.status().chain_id
    for tries_left in reversed(range(SENDS_MAX)):
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
            challenges=request.challenges,
            replicas=request.replicas,
        )
        sending(order_id)
        try:
            receipt = sender.send(message)
        except TxRefused as refused:
            # The proof holds for one sequence number, and another transaction of this key may have used that number.
            if refused.code != BAD_PROOF or not tries_left:
                raise
        else:
            break
    opened = next(changes_of(OrderOpened, receipt.events), None)
    if opened is None:
        raise ConsumerError(
            "the transaction was accepted but opened no order",
            f"look at the transaction: assay query tx {receipt.hash.hex()}",
        )
    return SubmittedOrder(
        order_id=opened.order,
        deposit=deposit * max(1, request.replicas),
        tx_hash=receipt.hash,
        height=receipt.height,
        replicas=tuple(change.order for change in changes_of(OrderOpened, receipt.events)) if request.replicas else (),
    )


@dataclass(frozen=True, slots=True)
class Placement:
    """A newly placed order: the submitted order, the quote before it, and other active orders of the same job."""

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
    """Submit an order for the job in a directory, and record the directory in ``home``.

    A request without a price limit gets the price limit of its quote. ``note`` is called with messages: about active
    orders of the same job, and about an order that must wait for a bid. ``sending`` is called with the order's id
    before the order is sent, as in :func:`submit`. ``asker`` selects the form of commands in messages.
    """
    # If this machine's clock is wrong, the winner would refuse the consumer's requests after the deposit is locked.
    if wrong := find_wrong_clock(client.status):
        raise ConsumerError(wrong, REMEDY)
    others = active_orders(client, key.address, job)
    if others:
        note(describe_active_orders(others, asker))
    asked, request = request.conditions.tiers, with_job_tiers(job, request)
    if request.conditions.tiers != asked:
        dropped = ", ".join(name for name in asked if name not in request.conditions.tiers)
        note(f"the job has no thresholds for hardware arithmetic, so the order does not allow the tier {dropped}")
    offer = quote(client, job, request)
    request = with_price_limit(offer, request, asker)
    if not offer.match.bids:
        reason, remedy = offer.explain(asker)
        note(f"{reason}; {remedy}; the order waits at most {duration(request.time_to_live)}")
    since = client.query(EventsRequest(1, 1)).next

    def remember_order(order_id: bytes) -> None:
        for number in range(max(1, request.replicas)):
            remember(
                home,
                OrderNote(
                    order_id=replica_id(order_id, number),
                    job=directory,
                    key=key.address,
                    since=since,
                    name=job.document.name,
                ),
            )
        sending(order_id)

    submitted = submit(client, sender, key, job, request, remember_order)
    return Placement(submitted, offer, tuple(others))


def recover_secret(client: ChainClient, key: Key, order: Order) -> bytes:
    """Derive an order's secret again from the account key; raise ConsumerError if another key submitted the order."""
    chain_id = client.status().chain_id
    newest = client.query(AccountRequest(key.address)).account.sequence
    for sequence in range(newest, max(-1, newest - SEQUENCES_TRIED), -1):
        secret = order_secret(key.secret, chain_id, order.terms.job_id, sequence)
        if public_point(secret) == order.order_key:
            return secret
    raise ConsumerError(
        "another key submitted this order", "use the key that submitted it: --from NAME (in Python: key=)"
    )
