"""Searches in the event log, and streams of events: complete, resumable, and bounded in what one call reads."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
import pytest

from chain.app import event_search, grpc_server
from chain.app.event_search import EventSearch
from chain.app.services import assay
from chain.app.storage import encode_event
from chain.client.client import ChainClient
from domain.events import Event
from domain.ledger.messages import MsgDepositBond
from domain.ledger.records import Coin
from domain.node.queries import EventsRequest, EventsResponse
from tests.support.solo_node import ALICE, CHAIN_ID, SoloNode
from wire.queries import STREAMS, encode_request
from wire.tx import build_tx

ORDER, OTHER = b"\x01" * 32, b"\x02" * 32
FEE = (Coin("uassay", 2_000),)
FOLLOW = "/assay.registry.v1.Query/FollowEvents"


@dataclass
class Log:
    """An event log in memory: event n is of type ``order.n`` for every third, of the account ``a`` for every second."""

    length: int
    reads: list[int] = field(default_factory=list)

    def rows(self, since: int, until: int) -> Iterator[tuple[int, bytes]]:
        for number in range(since, min(until, self.length + 1)):
            self.reads.append(number)
            kind = "order.opened" if number % 3 == 0 else "leg.failed"
            account = "assay1a" if number % 2 == 0 else "assay1b"
            order = ORDER if number % 5 == 0 else OTHER
            yield number, encode_event(Event(kind, (("owner", account), ("order", order.hex()))), number)


def pages(log: Log, request: EventsRequest) -> Iterator[EventsResponse]:
    """Yield pages until the end of the log."""
    while True:
        search = EventSearch.of(request)
        assert search is not None
        page = search.run(log.rows, log.length + 1, request.limit)
        yield page
        if page.resume >= page.next:
            return
        request = replace(request, since=page.resume)


@pytest.mark.parametrize("limit", [1, 7, 100])
@pytest.mark.parametrize("most", [3, 10, 1_000])
@pytest.mark.parametrize(
    ("conditions", "step"),
    [
        ({"order_id": ORDER}, 5),
        ({"account": "assay1a"}, 2),
        ({"type": "order.opened"}, 3),
        ({"type": "order."}, 3),
        ({"order_id": ORDER, "account": "assay1a", "type": "order.opened"}, 30),
    ],
)
def test_pages_of_a_search_have_each_event_once(
    conditions: dict[str, Any], step: int, most: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_search, "EVENTS_READ_MAX", most)
    log = Log(100)
    numbers = []
    for page in pages(log, EventsRequest(0, limit, **conditions)):
        assert len(page.events) <= limit
        numbers += [event.number for event in page.events]
        assert len(log.reads) <= most
        log.reads.clear()
    assert numbers == list(range(step, 101, step))


def test_what_is_only_a_part_of_a_type_does_not_fit() -> None:
    search = EventSearch.of(EventsRequest(1, 10, type="order"))
    assert search is not None
    assert search.run(Log(10).rows, 11, 10).events == ()
    assert EventSearch.of(EventsRequest(1, 10)) is None


def test_a_search_beyond_the_end_continues_at_the_end() -> None:
    search = EventSearch.of(EventsRequest(10**9, 10, type="order."))
    assert search is not None
    assert search.run(Log(10).rows, 11, 10) == EventsResponse((), 11, 11)


def test_a_node_finds_the_events_of_an_account(node: SoloNode) -> None:
    everything = node.app.events(EventsRequest(1, 0))
    assert everything.resume == everything.next == len(everything.events) + 1
    none = node.app.events(EventsRequest(1, 0, account=ALICE.address))
    assert (none.events, none.resume) == ((), everything.next)


@pytest.fixture
def follow(node: SoloNode) -> Iterator[Any]:
    method = STREAMS[FOLLOW]
    with grpc.insecure_channel(node.address) as channel:
        yield channel.unary_stream(
            FOLLOW,
            request_serializer=lambda request: method.write_request(request).SerializeToString(),
            response_deserializer=lambda data: method.read_response(method.response_proto.FromString(data)),
        )


def test_a_stream_has_old_and_new_events_and_ends(node: SoloNode, follow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assay, "FOLLOW_SECONDS", 2.0)
    monkeypatch.setattr(assay, "_QUIET_SECONDS", 0.3)
    deposit(node, 0)
    deposit(node, 1)
    stream = follow(EventsRequest(1, 1, account=ALICE.address, type="bond."), timeout=20)
    first, second = next(stream), next(stream)
    assert [len(page.events) for page in (first, second)] == [1, 1]
    deposit(node, 2)
    rest = list(stream)
    numbers = [event.number for page in (first, second, *rest) for event in page.events]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 3
    assert any(not page.events for page in rest), "a quiet stream shows that it is alive"
    assert rest[-1].resume == rest[-1].next


def deposit(node: SoloNode, sequence: int) -> None:
    message = MsgDepositBond(ALICE.address, 1_000)
    raw = build_tx([message], ALICE, chain_id=CHAIN_ID, account_number=0, sequence=sequence, fee=FEE, gas_limit=200_000)
    assert node.engine.broadcast_sync(raw).code == 0
    node.engine.make_block()


def test_a_bad_request_for_a_stream_is_an_invalid_argument(node: SoloNode) -> None:
    with grpc.insecure_channel(node.address) as channel:
        method: Any = channel.unary_stream(FOLLOW)
        for data in (b"\xff\xff", b"\x1a\x01x", b"\xf8\x07\x01"):
            with pytest.raises(grpc.RpcError) as failed:
                list(method(data, timeout=10))
            assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_streams_are_few_per_host_and_leave_the_threads_of_calls(node: SoloNode) -> None:
    with grpc.insecure_channel(node.address) as channel:
        method: Any = channel.unary_stream(FOLLOW)
        since = encode_request(EventsRequest(10**6, 1))
        streams = [method(since, timeout=20) for _ in range(grpc_server.STREAMS_PER_HOST)]
        deadline = time.monotonic() + 10
        refused = None
        while refused is None and time.monotonic() < deadline:
            extra = method(since, timeout=0.5)
            try:
                list(extra)
            except grpc.RpcError as error:
                refused = error if error.code() is grpc.StatusCode.UNAVAILABLE else None
        assert refused is not None
        assert "too many streams" in str(refused.details())
        assert ChainClient(node.address).status().height == 1
        for stream in streams:
            stream.cancel()
