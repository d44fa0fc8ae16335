"""Following events: every number once, in order, across pauses of the node; a gap is loud."""

from threading import Event, Timer
from types import SimpleNamespace
from typing import Any

import pytest

from chain.client.client import ChainClient
from chain.client.errors import ChainError, ErrorKind
from chain.client.events import follow_events, search_events
from chain.client.sender import TxSender
from domain.errors import BAD_FIELD
from domain.ledger.messages import MsgDepositBond
from domain.node.queries import EventsRequest, EventsResponse, LoggedEvent
from tests.support.solo_node import ALICE, SoloNode, making_blocks


def test_events_of_a_real_chain_come_once_and_in_order(node: SoloNode) -> None:
    stop = Event()
    seen: list[LoggedEvent] = []
    others: list[LoggedEvent] = []
    with ChainClient(node.address) as client, making_blocks(node.engine):
        first = client.status().next_event
        sender = TxSender(client, ALICE)
        for amount in (1, 2, 3):
            sender.send(MsgDepositBond(ALICE.address, amount))
        for event in follow_events(client, first, stop, poll_seconds=0.02):
            if event.type.startswith("distribution."):  # the fees of a block are shared at its end
                others.append(event)
                continue
            seen.append(event)
            if len(seen) == 3:
                sender.send(MsgDepositBond(ALICE.address, 4))
            if len(seen) == 4:
                stop.set()
    numbers = sorted(event.number for event in (*seen, *others))
    assert numbers == list(range(first, first + len(numbers)))
    assert [event.number for event in seen] == sorted(event.number for event in seen)
    assert {event.type for event in seen} == {"bond.deposited"}
    assert [dict(event.attributes)["amount"] for event in seen] == ["1", "2", "3", "4"]
    assert seen[0].height > 1


class Scripted:
    """Answers what a test says, one item per call."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), list[int]()

    def query(self, request: EventsRequest) -> EventsResponse:
        self.asked.append(request.since)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        upto = max(answer, default=request.since - 1) if isinstance(answer, list) else answer.next
        events = answer if isinstance(answer, list) else ()
        return EventsResponse(tuple(LoggedEvent(n, 1, "x", ()) for n in events), upto + 1)


def follow(client: Scripted, since: int, count: int) -> list[int]:
    stop, seen = Event(), list[int]()
    for event in follow_events(client, since, stop, poll_seconds=0.01):  # type: ignore[arg-type]
        seen.append(event.number)
        if len(seen) == count:
            stop.set()
    return seen


def test_a_node_that_is_away_for_a_while_costs_nothing() -> None:
    away = ChainError(ErrorKind.UNAVAILABLE, "away", "")
    client = Scripted([5, 6], away, away, [], [7])
    assert follow(client, 5, 3) == [5, 6, 7]
    assert client.asked == [5, 7, 7, 7, 7]


def test_a_missing_number_is_loud() -> None:
    with pytest.raises(ChainError, match="event 7 is missing"):
        follow(Scripted([5, 6, 8]), 5, 9)


def test_a_node_that_has_lost_the_old_ones_is_not_waited_for_forever() -> None:
    with pytest.raises(ChainError, match="event 5 is missing"):
        follow(Scripted(SimpleNamespace(next=40)), 5, 1)


def test_a_node_that_is_behind_is_waited_for() -> None:
    assert follow(Scripted(SimpleNamespace(next=2), [5]), 5, 1) == [5]


def test_other_errors_end_the_following() -> None:
    with pytest.raises(ChainError, match="no such thing"):
        follow(Scripted(ChainError(ErrorKind.REFUSED, "no such thing", "", BAD_FIELD)), 1, 1)


def test_stop_ends_a_wait(node: SoloNode) -> None:
    stop = Event()
    with ChainClient(node.address) as client:
        Timer(0.2, stop.set).start()
        assert list(follow_events(client, 10**6, stop, poll_seconds=30)) == []


def test_a_search_continues_where_the_node_stopped() -> None:
    def page(numbers: tuple[int, ...], end: int, resume: int) -> EventsResponse:
        return EventsResponse(tuple(LoggedEvent(n, 1, "x", ()) for n in numbers), end, resume)

    class Pages:
        def __init__(self, *answers: EventsResponse) -> None:
            self.answers, self.asked = list(answers), list[tuple[int, int]]()

        def query(self, request: EventsRequest) -> EventsResponse:
            self.asked.append((request.since, request.limit))
            return self.answers.pop(0)

    pages: Any = Pages(page((), 90, 20), page((21, 30), 90, 40), page((50,), 90, 51))
    found = list(search_events(pages, EventsRequest(1, 3, account=ALICE.address)))
    assert [event.number for event in found] == [21, 30, 50]
    assert pages.asked == [(1, 3), (20, 3), (40, 1)]
    pages = Pages(page((5,), 90, 90), page((), 95, 95), page((95,), 96, 96))
    stop, seen = Event(), list[int]()
    for event in search_events(pages, EventsRequest(1, 3, type="x"), stop):
        seen.append(event.number)
        if len(seen) == 2:
            stop.set()
    assert seen == [5, 95]
