"""Ordering: what is signed and locked, what is refused before, and the order's secret found again from the key."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

import pytest

from chain.client.client import ChainClient, TxReceipt
from chain.client.errors import TxRefused
from chain.client.sender import TxSender
from consumer.errors import ConsumerError
from consumer.jobs import read_job
from consumer.request import Request, request_of
from consumer.submit import (
    SEQUENCES_TRIED,
    Quote,
    quote,
    recover_secret,
    submit,
    with_job_tiers,
)
from consumer.tiers import compare_tiers
from consumer.words import explain
from domain.amount import MONEY_MAX, price_ceil
from domain.errors import BAD_PROOF, Refusal
from domain.events import Change, Event, to_event
from domain.genesis import POWER_REDUCTION
from domain.hashing import message_id
from domain.ledger.queries import AccountRequest, AccountResponse
from domain.ledger.records import Account, BondAccount
from domain.market.events import OrderOpened
from domain.market.messages import MsgSubmitOrder
from domain.market.queries import SimulateMatchRequest, SimulateMatchResponse
from domain.market.records import Bid, Conditions, Offer, Order
from domain.messages import Message
from domain.node.queries import ParamsRequest, StatusRequest, StatusResponse
from domain.params import Params, local_params, params_response
from domain.proof.params import ProofParams
from domain.queries import Query
from domain.registry.queries import ValidatorsRequest, ValidatorsResponse
from domain.registry.records import Validator
from link.handover import order_secret, public_point
from pol.job.cost import memory_size
from pol.job.document import Job, order_terms
from pol.job.tolerance import Tolerance
from pol.rules.commitment import possession_sign_bytes
from pol.rules.fees import compute_round_cost
from pol.rules.panels import audit_floor, promised_ms
from pol.rules.replicas import replica_id
from pol.rules.schedule import share_work, total_work
from pol.rules.tiers.exact import EXACT
from tests.support.four_bytes import registered
from tests.unit.compute_provider import support as s
from tests.unit.pol.mlp import write_mlp_job
from wire.keys import Key, verify

CHAIN_ID, JOB_ID = "assay-local-1", b"\x0b" * 32
KEY = Key(b"\x01" * 32)
R = TypeVar("R")


def validator(name: str) -> Validator:
    stake = 100 * POWER_REDUCTION
    return Validator(name, "", b"", b"", stake, False, "", b"", 0, 0, 0, 0, audit_speed=10**9, audit_rate=10**6)


class Node(ChainClient):
    """A chain on which the account is at a sequence; it keeps what it is asked about matching."""

    def __init__(self, sequence: int) -> None:
        super().__init__("127.0.0.1:1")
        self.sequence = sequence
        self.simulated: list[SimulateMatchRequest] = []
        self.bids: tuple[Bid, ...] = ()
        self.parameters = Params().replace(order_min=0)
        self.validators = tuple(validator(name) for name in ("v0", "v1", "v2", "v3"))

    def query(self, request: Query[R]) -> R:
        asked: object = request
        answer: object
        match asked:
            case AccountRequest(address):
                assert address == KEY.address
                account = Account(address, 1, self.sequence, KEY.pub_key)
                answer = AccountResponse(account, 0, BondAccount(address, 0, ()))
            case StatusRequest():
                answer = StatusResponse(CHAIN_ID, 1, 0, 1_000, 1, b"", False, 1_000)
            case SimulateMatchRequest():
                self.simulated.append(asked)
                standing = [bid for bid in self.bids if bid.offer.price <= (asked.price_limit or MONEY_MAX)]
                answer = SimulateMatchResponse(tuple(standing), ())
            case ParamsRequest():
                answer = params_response(self.parameters)
            case ValidatorsRequest():
                answer = ValidatorsResponse(self.validators)
            case _:
                raise AssertionError(request)
        return cast(R, answer)


class Sender(TxSender):
    """Takes messages into a block at once, with the events that a test says."""

    def __init__(self, client: ChainClient, changes: Iterable[Change]) -> None:
        super().__init__(client, KEY)
        self.changes = tuple(changes)
        self.sent: list[Message] = []

    def send(
        self, *messages: Message, memo: str = "", in_lane: bool = False, timeout_blocks: int | None = None
    ) -> TxReceipt:
        self.sent += messages
        events: tuple[Event, ...] = tuple(to_event(change, number) for number, change in enumerate(self.changes))
        return TxReceipt(b"\x0c" * 32, 7, 0, "", "", 1, 1, events)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    directory: Path = tmp_path_factory.mktemp("job")
    write_mlp_job(directory)
    return read_job(directory)


def request(price_limit: int = 10**12) -> Request:
    return Request(Conditions("", 0, (), ("exact",)), price_limit, 100, 10_000, rematch=False)


def opened(order_id: bytes) -> OrderOpened:
    return OrderOpened(order_id, KEY.address, 1, 1, 1, 1, 1, 1, 1)


def test_an_order_locks_its_price_and_proves_its_key(job: Job) -> None:
    node = Node(sequence=5)
    sender = Sender(node, [opened(s.ORDER_ID)])
    made = submit(node, sender, KEY, job, request())
    terms = order_terms(job)
    audits = terms.rounds * audit_floor(terms, 10**12, node.parameters.for_order())
    deposit = price_ceil(total_work(terms), 10**12) + audits
    assert (made.order_id, made.deposit, made.height) == (s.ORDER_ID, deposit, 7)
    (message,) = sender.sent
    assert isinstance(message, MsgSubmitOrder)
    secret = order_secret(KEY.secret, CHAIN_ID, job.id, 5)
    assert message == MsgSubmitOrder(
        consumer=KEY.address,
        order_key=public_point(secret),
        key_proof=message.key_proof,
        terms=terms,
        conditions=replace(request().conditions, memory=memory_size(job.document)),
        price_limit=10**12,
        deposit=deposit,
        time_to_live=100,
        deadline=10_000,
        rematch=False,
    )
    order_id = message_id("order", CHAIN_ID, KEY.address, 5, 0)
    signed = possession_sign_bytes(order_id, message.order_key)
    assert verify(message.order_key, signed, message.key_proof)


def test_an_order_that_is_too_slow_to_audit_is_refused_with_the_largest_segment(job: Job) -> None:
    """The chain does not search for it, and the client does."""
    node = Node(sequence=0)
    node.validators = tuple(replace(validator(name), audit_speed=1, audit_rate=10**6) for name in ("v0", "v1", "v2"))
    node.parameters = node.parameters.replace(window_max=node.parameters.of(ProofParams).round_window)
    with pytest.raises(Refusal, match="use a smaller model or batch") as caught:
        quote(node, job, request())
    assert caught.value.field == "terms.segment_steps"


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
    assert simulated.price_limit == 0
    terms = order_terms(job)
    assert (simulated.terms, simulated.deadline) == (terms, 10_000)
    assert found.work == total_work(terms)
    assert (found.price, found.cost, found.seconds) == (0, 0, 0)


def test_a_quote_says_what_the_best_bid_costs_and_how_long_it_takes(job: Job) -> None:
    terms = order_terms(job)
    best = Bid(b"\x01" * 32, KEY.address, Offer(price=10**15, slot_speed=7, slots=1), 1, 1, 1)
    dear = replace(best, offer=Offer(price=2 * 10**15, slot_speed=10**30, slots=9))
    found = Quote(terms, SimulateMatchResponse((best, dear), ()), local_params())
    one_after_the_other = terms.slots * share_work(terms) + terms.outer_work
    assert found.cost == total_work(terms)
    assert found.seconds == terms.rounds * -(-one_after_the_other // 7)
    assert found.outlook is not None
    assert (found.outlook.turns, found.outlook.providers) == (terms.slots, terms.slots)
    assert Quote(terms, SimulateMatchResponse((), ()), local_params()).outlook is None


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
    with pytest.raises(ConsumerError, match="use the key that submitted it"):
        recover(now=60, made=10)


def standing(price: int) -> Bid:
    return Bid(bytes(32), "v", Offer(price=price, slot_speed=10**30), 10**20, 10**9, 0)


def test_a_quote_with_replicas_needs_a_bid_of_so_many_validators(job: Job) -> None:
    node = Node(sequence=0)
    node.validators = tuple(validator(f"v{number}") for number in range(6))
    asked = replace(request(), conditions=Conditions(tiers=("replicated",)), replicas=2)
    node.bids = (standing(700), replace(standing(800), id=b"b" * 32))
    offer = quote(node, job, asked)
    assert offer.winners == ()
    assert offer.explain()[0] == "the order needs bids of 2 validators, and those that fit are of 1"
    node.bids = (*node.bids, replace(standing(900), id=b"c" * 32, validator="w"))
    offer = quote(node, job, asked)
    assert [bid.offer.price for bid in offer.winners] == [700, 900]
    work = total_work(order_terms(job))
    assert offer.cost == price_ceil(work, 700) + price_ceil(work, 900) + offer.audits
    # Without a limit, it is high enough for all of them.
    assert quote(node, job, replace(asked, price_limit=0)).price_limit == 1_400


def test_an_order_with_replicas_names_all_of_them(job: Job) -> None:
    node = Node(sequence=5)
    node.validators = tuple(validator(f"v{number}") for number in range(6))
    first = message_id("order", CHAIN_ID, KEY.address, 5, 0)
    ids = [replica_id(first, number) for number in range(2)]
    sender = Sender(node, [opened(order_id) for order_id in ids])
    asked = replace(request(), conditions=Conditions(tiers=("replicated",)), replicas=2)
    made = submit(node, sender, KEY, job, asked)
    (message,) = sender.sent
    assert isinstance(message, MsgSubmitOrder)
    assert message.replicas == 2
    assert made.replicas == tuple(ids)
    assert made.deposit == 2 * message.deposit
    assert request_of(tiers=["replicated"]).replicas == 2
    assert request_of(tiers=["exact"]).replicas == 0


def test_the_default_limit_leaves_room_for_another_bid_if_the_winner_fails(job: Job) -> None:
    node = Node(sequence=0)
    node.bids = (standing(700),)
    assert quote(node, job, request(price_limit=0)).price_limit == 1_400
    node.bids = (standing(MONEY_MAX - 1),)
    assert quote(node, job, request(price_limit=0)).price_limit == MONEY_MAX


def test_an_order_asks_for_the_memory_that_its_job_needs(job: Job) -> None:
    """A bid with less would win it, and decline it after its trial: both sides would pay."""
    needed = memory_size(job.document)
    for asked, expected in ((0, needed), (needed - 1, needed), (needed + 1, needed + 1)):
        node = Node(sequence=5)
        sender = Sender(node, [opened(s.ORDER_ID)])
        conditions = replace(request().conditions, memory=asked)
        submit(node, sender, KEY, job, replace(request(), conditions=conditions))
        (message,) = sender.sent
        assert isinstance(message, MsgSubmitOrder)
        assert message.conditions.memory == expected
        quote(node, job, replace(request(), conditions=conditions))
        assert node.simulated[-1].conditions.memory == expected


def test_a_quote_below_all_bids_says_what_the_cheapest_asks(job: Job) -> None:
    node = Node(sequence=0)
    node.bids = (standing(700),)
    found = quote(node, job, request(price_limit=699))
    assert (found.price, found.cheapest) == (0, 700)
    assert [simulated.price_limit for simulated in node.simulated] == [699, 0]


def test_what_keeps_an_order_from_a_match_is_said_with_what_helps() -> None:
    reason, remedy = explain((("regions", 4), ("capacity", 1)))
    assert reason == "no bid fits now: 4 bids may leave the regions, 1 bid has too little capacity left"
    assert remedy == "allow more regions, or name none"
    assert explain((("price", 4),), 700)[1] == "price_limit=700 would match a bid"
    assert explain(())[0] == "there are no bids"


@pytest.mark.parametrize(
    ("params", "field"),
    [
        (Params().replace(order_min=0, round_window=1, window_max=1), "terms.segment_steps"),
        (Params().replace(order_min=0, ttl_max=99), "time_to_live"),
    ],
)
def test_a_quote_approves_nothing_that_the_chain_refuses(job: Job, params: Params, field: str) -> None:
    node = Node(sequence=5)
    node.parameters = params
    for ask in (
        lambda: quote(node, job, request()),
        lambda: submit(node, Sender(node, ()), KEY, job, request()),
    ):
        with pytest.raises(Refusal) as refused:
            ask()
        assert refused.value.field == field


def test_a_quote_says_who_audits_in_what_time_and_for_how_much(job: Job) -> None:
    node = Node(sequence=5)
    terms, params = order_terms(job), node.parameters.for_order()
    checked = quote(node, job, request()).checked
    assert checked
    assert checked.eligible == 4
    assert checked.audit_ms == promised_ms(terms, params, 10**9, 10**6) > 0
    assert checked.window == max(params.round_window, -(-20 * checked.audit_ms // 1000))
    assert checked.audit_floor == audit_floor(terms, 10**12, params) > 0
    # Who promises far less than three quarters of the stake do never sits.
    slow = replace(node.validators[2], audit_rate=1, stake=POWER_REDUCTION)
    fast = tuple(validator(f"v{number}") for number in range(6))
    node.validators = (*fast, slow)
    again = quote(node, job, request()).checked
    assert again
    assert (again.eligible, again.audit_ms) == (6, checked.audit_ms)


def test_the_smallest_order_locks_the_least_deposit(job: Job) -> None:
    node = Node(sequence=5)
    node.parameters = node.parameters.replace(order_min=10**12)
    sender = Sender(node, [opened(s.ORDER_ID)])
    assert submit(node, sender, KEY, job, request(1)).deposit == 10**12


class Overtaken(Sender):
    """Another program with the same key sends something first, a number of times."""

    def __init__(self, node: Node, times: int) -> None:
        super().__init__(node, [opened(s.ORDER_ID)])
        self.node, self.times = node, times

    def send(
        self, *messages: Message, memo: str = "", in_lane: bool = False, timeout_blocks: int | None = None
    ) -> TxReceipt:
        if len(self.sent) < self.times:
            self.sent += messages
            self.node.sequence += 1
            raise TxRefused(BAD_PROOF, "key_proof: does not hold")
        return super().send(*messages, memo=memo)


def test_an_order_that_was_overtaken_is_proven_again_and_its_id_is_known_before(job: Job) -> None:
    node, ids = Node(sequence=5), list[bytes]()
    made = submit(node, Overtaken(node, 2), KEY, job, request(), ids.append)
    assert made.order_id == s.ORDER_ID
    expected = [message_id("order", CHAIN_ID, KEY.address, number, 0) for number in (5, 6, 7)]
    assert ids == expected
    with pytest.raises(TxRefused, match="does not hold"):
        submit(node, Overtaken(node, 99), KEY, job, request())


@pytest.mark.parametrize("answer_fee", [None, 0])
@pytest.mark.parametrize("audit_bps", [300, 5_000])
def test_a_quote_comes_to_what_the_chain_takes_for_all_rounds(job: Job, audit_bps: int, answer_fee: int | None) -> None:
    """Work and audits together, where the floor of the audit fee is above its part of the price, and below it."""
    node, price = Node(sequence=5), 10**17
    fee = node.parameters.of(ProofParams).answer_fee if answer_fee is None else answer_fee
    node.parameters = node.parameters.replace(audit_bps=audit_bps, answer_fee=fee)
    node.bids = (standing(price),)
    found = quote(node, job, replace(request(), price_limit=price))
    response = s.order()
    order = replace(
        response.order,
        terms=found.terms,
        price_limit=price,
        params=node.parameters.for_order(),
    )
    leg = replace(response.legs[0], price=price)
    cost = found.terms.rounds * compute_round_cost(order, leg)
    # Each round is rounded down, the whole up.
    assert 0 <= found.cost - cost <= found.terms.rounds
    assert found.audits < found.cost


# Tiers in hardware arithmetic


@pytest.fixture
def hardware() -> Iterator[None]:
    with registered(replace(EXACT, name="hardware", hardware=True)):
        yield


def with_thresholds(job: Job) -> Job:
    return replace(job, document=replace(job.document, tolerance=Tolerance(precision="fp32", thresholds=())))


def in_tiers(*tiers: str) -> Request:
    return replace(request(), conditions=replace(request().conditions, tiers=tiers))


@pytest.mark.usefixtures("hardware")
def test_a_job_without_thresholds_is_not_ordered_in_hardware_arithmetic(job: Job) -> None:
    node = Node(sequence=1)
    sender = Sender(node, [opened(s.ORDER_ID)])
    for ask in (
        lambda: submit(node, sender, KEY, job, in_tiers("hardware")),
        lambda: quote(node, job, in_tiers("hardware")),
    ):
        with pytest.raises(ConsumerError) as caught:
            ask()
        assert caught.value.field == "tiers"
        assert "--tolerance" in caught.value.remedy
        assert "tolerance=" in caught.value.remedy
    assert not sender.sent
    submit(node, sender, KEY, with_thresholds(job), in_tiers("hardware"))
    (message,) = sender.sent
    assert isinstance(message, MsgSubmitOrder)
    assert message.conditions.tiers == ("hardware",)


@pytest.mark.usefixtures("hardware")
def test_of_several_tiers_the_others_are_ordered_and_a_line_says_so(job: Job, tmp_path: Path) -> None:
    node = Node(sequence=1)
    sender = Sender(node, [opened(s.ORDER_ID)])
    submit(node, sender, KEY, job, in_tiers("hardware", "exact"))
    (message,) = sender.sent
    assert isinstance(message, MsgSubmitOrder)
    assert message.conditions.tiers == ("exact",)
    quote(node, job, in_tiers("hardware", "exact"))
    assert {asked.conditions.tiers for asked in node.simulated} == {("exact",)}
    assert with_job_tiers(job, in_tiers("exact")).conditions.tiers == ("exact",)
    assert with_job_tiers(with_thresholds(job), in_tiers("hardware", "exact")).conditions.tiers == ("hardware", "exact")


@pytest.mark.usefixtures("hardware")
def test_the_comparison_of_tiers_says_why_one_does_not_serve_the_job(job: Job) -> None:
    node = Node(sequence=1)
    # The tier `replicated` needs auditors beside two winners.
    node.validators += (validator("v4"),)
    why = {each.tier: each.why_not for each in compare_tiers(node, job, request())}
    assert "no thresholds" in why["hardware"]
    assert "no thresholds" not in why["exact"]
