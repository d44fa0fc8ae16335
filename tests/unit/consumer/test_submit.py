"""Ordering: what is signed and locked, what is refused before, and the order's secret found again from the key."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

import pytest

from chain.client.client import ChainClient, TxReceipt
from chain.client.sender import TxSender
from consumer.errors import ConsumerError
from consumer.jobs import read_job
from consumer.submit import SEQUENCES_TRIED, Request, quote, recover_secret, submit
from domain.amount import MONEY_MAX, price_ceil
from domain.events import Change, Event, OrderOpened, to_event
from domain.messages import Message, MsgSubmitOrder
from domain.queries import (
    AccountRequest,
    AccountResponse,
    Query,
    SimulateMatchRequest,
    SimulateMatchResponse,
    StatusRequest,
    StatusResponse,
)
from domain.records import Account, BondAccount, Conditions, Order
from link.handover import order_secret, public_point
from pol.job.document import Job, order_terms
from pol.rules.commitment import possession_sign_bytes
from pol.rules.schedule import total_work
from tests.unit.compute_provider import support as s
from tests.unit.pol.mlp import write_mlp_job
from wire.keys import Key, verify

CHAIN_ID, JOB_ID = "assay-local-1", b"\x0b" * 32
KEY = Key(b"\x01" * 32)
R = TypeVar("R")


class Node(ChainClient):
    """A chain on which the account is at a sequence; it keeps what it is asked about matching."""

    def __init__(self, sequence: int) -> None:
        super().__init__("127.0.0.1:1")
        self.sequence = sequence
        self.simulated: list[SimulateMatchRequest] = []

    def query(self, request: Query[R]) -> R:
        asked: object = request
        answer: object
        match asked:
            case AccountRequest(address):
                assert address == KEY.address
                account = Account(address, 1, self.sequence, KEY.pub_key)
                answer = AccountResponse(account, 0, BondAccount(address, 0, ()))
            case StatusRequest():
                answer = StatusResponse(CHAIN_ID, 1, 0, 1_000, 1, b"", False)
            case SimulateMatchRequest():
                self.simulated.append(asked)
                answer = SimulateMatchResponse((), ())
            case _:
                raise AssertionError(request)
        return cast(R, answer)


class Sender(TxSender):
    """Takes messages into a block at once, with the events that a test says."""

    def __init__(self, client: ChainClient, changes: Iterable[Change]) -> None:
        super().__init__(client, KEY)
        self.changes = tuple(changes)
        self.sent: list[Message] = []

    def send(self, *messages: Message, memo: str = "") -> TxReceipt:
        self.sent += messages
        events: tuple[Event, ...] = tuple(
            to_event(change, number) for number, change in enumerate(self.changes)
        )
        return TxReceipt(b"\x0c" * 32, 7, 0, "", "", 1, 1, events)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    directory: Path = tmp_path_factory.mktemp("job")
    write_mlp_job(directory)
    return read_job(directory)


def request(price_limit: int = 10**12) -> Request:
    return Request(Conditions("", 0, (), "exact"), price_limit, 100, 10_000, rematch=False)


def opened(order_id: bytes) -> OrderOpened:
    return OrderOpened(order_id, KEY.address, 1, 1, 1, 1)


def test_an_order_locks_its_price_and_proves_its_key(job: Job) -> None:
    node = Node(sequence=5)
    sender = Sender(node, [opened(s.ORDER_ID)])
    made = submit(node, sender, KEY, job, request())
    terms = order_terms(job)
    deposit = price_ceil(total_work(terms), 10**12)
    assert (made.order_id, made.deposit, made.height) == (s.ORDER_ID, deposit, 7)
    (message,) = sender.sent
    assert isinstance(message, MsgSubmitOrder)
    secret = order_secret(KEY.secret, CHAIN_ID, job.id, 5)
    assert message == MsgSubmitOrder(
        consumer=KEY.address,
        order_key=public_point(secret),
        key_proof=message.key_proof,
        terms=terms,
        conditions=request().conditions,
        price_limit=10**12,
        deposit=deposit,
        time_to_live=100,
        deadline=10_000,
        rematch=False,
    )
    signed = possession_sign_bytes(CHAIN_ID, KEY.address, job.id, message.order_key)
    assert verify(message.order_key, signed, message.key_proof)


def test_a_deposit_that_the_chain_cannot_count_is_refused_before_it_is_signed(job: Job) -> None:
    node = Node(sequence=5)
    sender = Sender(node, ())
    too_much = MONEY_MAX // total_work(order_terms(job)) * 10**15 + 10**15
    with pytest.raises(ConsumerError, match="lower the price limit"):
        submit(node, sender, KEY, job, request(too_much))
    assert sender.sent == []


def test_a_transaction_that_opens_no_order_is_said(job: Job) -> None:
    node = Node(sequence=5)
    with pytest.raises(ConsumerError, match="opened no order"):
        submit(node, Sender(node, ()), KEY, job, request())


def test_a_quote_asks_for_any_price_where_none_is_named(job: Job) -> None:
    node = Node(sequence=0)
    found = quote(node, job, request(price_limit=0))
    (simulated,) = node.simulated
    assert simulated.price_limit == MONEY_MAX
    assert simulated.work == found.work == total_work(order_terms(job))
    assert (simulated.rounds, simulated.deadline) == (order_terms(job).rounds, 10_000)
    assert (found.price, found.cost) == (0, 0)


# The order's secret


def recover(now: int, made: int, key: Key = KEY) -> bytes:
    """Recover the secret of an order that was made at a sequence, with the account at another one."""
    point = public_point(order_secret(KEY.secret, CHAIN_ID, JOB_ID, made))
    order: Order = s.order().order
    known = replace(order, order_key=point, terms=replace(order.terms, job_id=JOB_ID))
    return recover_secret(Node(now), key, known)


@pytest.mark.parametrize(
    ("now", "made"),
    [(1, 0), (0, 0), (2, 0), (8, 7), (7, 7), (1_000, 3)],
    ids=["first order", "before its block", "one later", "newest", "not included yet", "old"],
)
def test_the_secret_is_found_again(now: int, made: int) -> None:
    assert recover(now, made) == order_secret(KEY.secret, CHAIN_ID, JOB_ID, made)


def test_the_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumer.submit.SEQUENCES_TRIED", 50)
    assert SEQUENCES_TRIED > 50
    assert recover(now=60, made=11)
    with pytest.raises(ConsumerError, match="use the key that ordered"):
        recover(now=60, made=10)
