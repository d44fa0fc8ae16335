"""Quotes and orders: what a job would cost, and the signed message that locks the payment for it."""

from dataclasses import dataclass

from chain.client.client import ChainClient
from chain.client.sender import TxSender
from consumer.errors import ConsumerError
from domain.amount import MONEY_MAX, price_ceil
from domain.events import OrderOpened, changes_of
from domain.messages import MsgSubmitOrder
from domain.queries import (
    AccountRequest,
    SimulateMatchRequest,
    SimulateMatchResponse,
)
from domain.records import Conditions, Order
from link.handover import order_secret, public_point
from pol.job.document import Job, order_terms
from pol.rules.commitment import possession_sign_bytes
from pol.rules.schedule import total_work
from wire.keys import Key

SEQUENCES_TRIED = 10_000
"""How far back :func:`recover_secret` looks for the sequence that an order's key was derived with."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a consumer asks for: conditions, prices in uassay per PFLOP, durations in chain seconds."""

    conditions: Conditions
    price_limit: int
    time_to_live: int
    deadline: int
    rematch: bool = True


@dataclass(frozen=True, slots=True)
class Quote:
    """What an order would meet now: work, the best bid's price and cost, and why other bids do not fit."""

    work: int
    match: SimulateMatchResponse

    @property
    def price(self) -> int:
        """Price of the cheapest bid that fits (uassay per PFLOP), 0 if none does."""
        return self.match.bids[0].offer.price if self.match.bids else 0

    @property
    def cost(self) -> int:
        """What the whole job costs at that price (uassay), rounded up."""
        return price_ceil(self.work, self.price)


def quote(client: ChainClient, job: Job, request: Request) -> Quote:
    """Ask the node which bids would serve this job; nothing is signed or paid."""
    terms = order_terms(job)
    work = total_work(terms)
    simulation = SimulateMatchRequest(
        conditions=request.conditions,
        work=work,
        price_limit=request.price_limit or MONEY_MAX,
        deadline=request.deadline,
        rounds=terms.rounds,
    )
    return Quote(work, client.query(simulation))


@dataclass(frozen=True, slots=True)
class SubmittedOrder:
    """An order on chain: its id, deposit, the transaction and its fee."""

    order_id: bytes
    deposit: int
    tx_hash: bytes
    height: int


def submit(
    client: ChainClient, sender: TxSender, key: Key, job: Job, request: Request
) -> SubmittedOrder:
    """Submit an order and lock ``ceil(work x price limit)``; ChainError or TxRefused say why not."""
    chain_id = client.status().chain_id
    account = client.query(AccountRequest(key.address))
    terms = order_terms(job)
    deposit = price_ceil(total_work(terms), request.price_limit)
    if deposit > MONEY_MAX:
        raise ConsumerError(
            f"the deposit of {deposit} uassay is beyond what the chain counts",
            "lower the price limit",
        )
    secret = order_secret(key.secret, chain_id, job.id, account.account.sequence)
    order_key = public_point(secret)
    proof = Key(secret).sign(possession_sign_bytes(chain_id, key.address, job.id, order_key))
    receipt = sender.send(
        MsgSubmitOrder(
            consumer=key.address,
            order_key=order_key,
            key_proof=proof,
            terms=terms,
            conditions=request.conditions,
            price_limit=request.price_limit,
            deposit=deposit,
            time_to_live=request.time_to_live,
            deadline=request.deadline,
            rematch=request.rematch,
        )
    )
    opened = next(changes_of(OrderOpened, receipt.events), None)
    if opened is None:
        raise ConsumerError("the transaction opened no order", "look at it with assay query tx")
    return SubmittedOrder(opened.order, deposit, receipt.hash, receipt.height)


def recover_secret(client: ChainClient, key: Key, order: Order) -> bytes:
    """Derive the per-order secret again from the account key; ConsumerError if the order is not this key's."""
    chain_id = client.status().chain_id
    newest = client.query(AccountRequest(key.address)).account.sequence
    for sequence in range(newest, max(-1, newest - SEQUENCES_TRIED), -1):
        secret = order_secret(key.secret, chain_id, order.terms.job_id, sequence)
        if public_point(secret) == order.order_key:
            return secret
    raise ConsumerError(
        "this key did not make the order's key", "use the key that ordered (--from)"
    )
