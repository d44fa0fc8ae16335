"""A result that was not served: the message that asks a panel, and the seats from which the result comes then."""

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

import consumer.complain
import consumer.result
from consumer.complain import fetch_or_complain
from consumer.errors import ConsumerError
from consumer.finders import find_result_seats
from consumer.missed import may_ask, never_served, result_bond
from consumer.panels import describe_panel
from consumer.result import fetch_result
from consumer.waiting import waiting
from domain.keys import RoundKey
from domain.proof.messages import MsgNeverServed
from domain.proof.queries import OrderRequest, OrderResponse, SeatsRequest, SeatsResponse
from domain.proof.records import AnswerKind, Finding, Panel, PanelPlace, Ruling, SeatAnswer
from domain.queries import Query
from domain.registry.queries import ValidatorsRequest, ValidatorsResponse
from domain.registry.records import Validator
from link.client import ClusterClient
from link.errors import ClusterError, ClusterErrorKind
from link.handover import HandoverError
from pol.job.document import Job
from pol.rules.states import FIRST_RESULT, RESULT
from tests.unit.consumer.test_result import KEY, LAST, OPERATOR, ORDER, Link, Market, Node, Sender, job, serve, states
from tests.unit.validator import support as v
from wire.keys import Key

R = TypeVar("R")
SEAT, SILENT = Key(b"\x05" * 32).address, Key(b"\x06" * 32).address

__all__ = ["job"]  # the fixture


def about(market: Market, **changes: Any) -> Panel:
    """Return a panel about the result of the last round."""
    place = PanelPlace(place=RESULT, claim=market.root, ruling=Ruling.RIGHT, stage=1, finding=None)
    made = replace(v.panel(round=LAST), order_id=ORDER, leg=1, places=(place,), dispute=FIRST_RESULT, asker=KEY.address)
    return replace(made, **changes)


class Missed(Node):
    """A node whose order has a panel about its result, with a seat that found it and one that did not."""

    panels: tuple[Panel, ...] = ()

    def query(self, request: Query[R]) -> R:
        asked: object = request
        answer: object
        match asked:
            case SeatsRequest():
                found = SeatAnswer(0, AnswerKind.FINISHED, self.market.root, bytes(32), 0)
                missing = SeatAnswer(0, AnswerKind.UNAVAILABLE, b"", b"", 0)
                seats = (v.seat(0, SILENT), v.seat(1, SEAT))
                said = ((missing,), (found,))
                answer = SeatsResponse(tuple(replace(s, answers=a) for s, a in zip(seats, said, strict=True)))
            case ValidatorsRequest():
                winner = self.market.validator()
                answer = ValidatorsResponse((winner, replace(winner, operator=SEAT)))
            case OrderRequest():
                answer = replace(self.market.order(), panels=self.panels)
            case _:
                return super().query(request)
        return cast(R, answer)


@pytest.fixture
def market(job: Job, monkeypatch: pytest.MonkeyPatch) -> Market:
    """A market whose validator serves no result to anyone."""
    made = serve(monkeypatch, job, states(), LAST)

    def connect(validator: Validator, _: Key, __: str) -> ClusterClient:
        if validator.operator == OPERATOR:
            raise ClusterError(ClusterErrorKind.UNREACHABLE, "no connection")
        return Link(made)

    monkeypatch.setattr(consumer.result, "connect", connect)
    return made


def test_the_result_comes_from_the_seats_that_found_it(market: Market, tmp_path: Path) -> None:
    node = Missed(market)
    with pytest.raises(ClusterError):
        fetch_result(node, KEY, ORDER, market.job, tmp_path)
    node.panels = (about(market),)
    answer: OrderResponse = node.query(OrderRequest(ORDER))
    assert find_result_seats(node.query, answer, RoundKey(ORDER, 1, LAST)) == (SEAT,)
    assert find_result_seats(node.query, answer, RoundKey(ORDER, 1, 0)) == ()
    assert fetch_result(node, KEY, ORDER, market.job, tmp_path).root == market.roots[0]


def test_a_consumer_that_complains_asks_a_panel_once(market: Market, tmp_path: Path) -> None:
    node, sender = Missed(market), Sender()
    with pytest.raises(ConsumerError, match="since height 7 a panel tries to fetch it"):
        fetch_or_complain(node, KEY, ORDER, market.job, tmp_path, sender=sender, pauses=())
    (message,) = sender.sent
    assert isinstance(message, MsgNeverServed)
    assert (message.leg, message.round) == (1, LAST)
    with pytest.raises(ClusterError):
        fetch_or_complain(node, KEY, ORDER, market.job, tmp_path)
    node.panels = (about(market, asker=KEY.address),)
    assert not may_ask(node, ORDER)
    fetch_or_complain(node, KEY, ORDER, market.job, tmp_path, sender=sender)
    assert len(sender.sent) == 1


def test_a_validator_that_starts_again_costs_no_panel(
    market: Market, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def connect(validator: Validator, _: Key, __: str) -> ClusterClient:
        tried.append(validator.operator)
        if len(tried) < 3:
            raise ClusterError(ClusterErrorKind.UNREACHABLE, "no connection")
        return Link(market)

    monkeypatch.setattr(consumer.result, "connect", connect)
    sender = Sender()
    found = fetch_or_complain(Missed(market), KEY, ORDER, market.job, tmp_path, sender=sender, pauses=(0.0, 0.0))
    assert (found.root, sender.sent) == (market.roots[0], [])


def test_what_is_served_of_another_round_is_not_served(
    market: Market, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No complaint could prove it wrong, so a panel is asked."""

    def fetch(*_: object) -> None:
        raise HandoverError(-1, "the validator offers the result of another round or leg than the chain has")

    monkeypatch.setattr(consumer.complain, "fetch_result", fetch)
    sender = Sender()
    with pytest.raises(ConsumerError, match="a panel tries to fetch it"):
        fetch_or_complain(Missed(market), KEY, ORDER, market.job, tmp_path, sender=sender, pauses=())
    assert [type(message) for message in sender.sent] == [MsgNeverServed]


def test_a_round_that_is_not_verified_need_not_be_served(market: Market) -> None:
    market.verified = LAST
    with pytest.raises(ConsumerError, match="not verified yet"):
        never_served(Missed(market), ORDER, sender=Sender())


def test_the_order_waits_for_the_panel(market: Market) -> None:
    node = Missed(market)
    node.panels = (about(market),)
    wait = waiting(node.query(OrderRequest(ORDER)), 10)
    assert wait is not None
    assert wait.what == f"a panel to find the result of round {LAST}"
    node.panels = (about(market, is_settled=True),)
    wait = waiting(node.query(OrderRequest(ORDER)), 10)
    assert wait is not None
    assert "panel" not in wait.what


def test_the_bond_pays_the_seats_of_two_stages(market: Market) -> None:
    answer = market.order()
    params = answer.order.params
    assert result_bond(answer, answer.legs[0]) >= 3 * params.auditors * params.answer_fee


def test_what_the_panel_found_is_told(market: Market) -> None:
    gone = PanelPlace(
        place=RESULT, claim=market.root, ruling=Ruling.WRONG, stage=4, finding=Finding(AnswerKind.UNAVAILABLE, b"", 0)
    )
    (line,) = describe_panel(about(market, places=(gone,), is_settled=True), 10)
    assert line.endswith("encrypted result of the round cannot be fetched: no one serves it")
    guessed = replace(gone, finding=Finding(AnswerKind.FINISHED, bytes(32), 0))
    (line,) = describe_panel(about(market, places=(guessed,), is_settled=True), 10)
    assert "cannot be fetched" not in line
