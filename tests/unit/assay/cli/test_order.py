"""What an order's commands say of a bid, and of an order that waits or is taken."""

import json
import os
import re
import signal
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

import consumer.complain
import consumer.early
import consumer.jobs
from assay.cli.bid import backing_line, bid_table
from assay.cli.order import WaitReporter, _shares_table
from assay.cli.quote import quote_headline
from assay.settings.home import Settings
from chain.client.client import ChainClient
from chain.client.sender import TxSender
from consumer.early import EarlyTake
from consumer.errors import ConsumerError
from consumer.jobs import OrderNote, remember
from consumer.lookup import BackedBid
from consumer.submit import Quote
from consumer.watch import summarise
from domain.ledger.records import Depositor, Escrow
from domain.market.queries import OrdersRequest, OrdersResponse, SimulateMatchResponse
from domain.market.reasons import CloseReason
from domain.market.records import Bid, Offer, Order, OrderState
from domain.messages import Message
from domain.node.queries import StatusRequest, StatusResponse
from domain.params import local_params
from domain.proof.messages import MsgTakeEarly
from domain.proof.queries import OrderRequest
from domain.proof.reasons import ShareReason
from domain.proof.records import Share, ShareClaim, ShareState
from pol.rules.inclusion import HELD_ISSUES_FROM
from tests.unit.assay.support import assay
from tests.unit.compute_provider import support as s

DAY = 86_400


class Node(ChainClient):
    """A node with one order; what looks at it the second time is ended, or sees it closed for a reason."""

    def __init__(self, number: int = signal.SIGINT, closed: int = 0) -> None:
        super().__init__("127.0.0.1:1")
        self.looks, self.number, self.closed = 0, number, closed
        self.orders: tuple[Order, ...] = (s.order().order,)

    def query(self, request: object) -> Any:
        match request:
            case OrdersRequest():
                return OrdersResponse(self.orders)
            case StatusRequest():
                return StatusResponse("assay-test", 1, 0, 50, 1, b"", False, 1_000)
            case OrderRequest():
                self.looks += 1
                if self.looks > 1 and self.closed:
                    return s.with_order(s.order(), state=OrderState.CLOSED, close_reason=self.closed)
                if self.looks > 1:
                    os.kill(os.getpid(), self.number)
                return s.order()
        raise AssertionError(request)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "client", lambda settings: Node())


def shown(found: Table, width: int = 200) -> str:
    screen = StringIO()
    Console(file=screen, width=width).print(found)
    return screen.getvalue()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_stops_watching_is_told_that_the_order_goes_on(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settings, "client", lambda settings: Node(number))
    ran = assay("order", "watch", s.ORDER_ID.hex(), home=tmp_path)
    name = s.ORDER_ID.hex()[:12]
    assert ran.code == 1
    assert f"order {name} stays active" in ran.refusal
    assert f"assay order watch {name}" in ran.refusal


@pytest.mark.parametrize(
    ("reason", "code", "told"),
    [
        (CloseReason.SETTLED, 0, ""),
        (CloseReason.EXPIRED, 5, "closed, expired: no bid took it within its time to live"),
        (CloseReason.CANCELLED, 5, "closed, cancelled: "),
        (CloseReason.STOPPED_BY_JOB, 5, "closed, stopped_by_job: "),
    ],
)
def test_a_watch_ends_as_its_order_did(
    reason: CloseReason, code: int, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settings, "client", lambda settings: Node(closed=reason))
    ran = assay("order", "watch", s.ORDER_ID.hex(), home=tmp_path)
    assert ran.code == code
    assert told in ran.err
    first, last = ran.out.splitlines()
    assert re.match(r"\d\d:\d\d:\d\d running .* waits for round 0 to close$", first)
    assert re.match(rf"\d\d:\d\d:\d\d {reason.name.lower()} .* is over$", last)


def test_orders_are_listed_by_age_with_job_and_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def order(number: int, opened: int, reason: int = 0) -> Order:
        changes: dict[str, Any] = {"state": OrderState.CLOSED, "close_reason": reason}
        known: Any = s.with_order(s.order(), **(changes if reason else {})).order
        found: Order = replace(known, id=bytes([number]) * 32, opened_at=opened, opened_height=opened)
        return found

    orders = (order(1, 10), order(2, 40, CloseReason.EXPIRED), order(3, 30))
    node = Node()
    node.orders = orders
    monkeypatch.setattr(Settings, "client", lambda settings: node)
    remember(tmp_path, OrderNote(order_id=orders[2].id, job=tmp_path / "mine", key=""))
    shown = assay("order", "list", home=tmp_path).out
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")] for line in shown.splitlines() if line.startswith("│")
    ]
    assert [row[:4] for row in rows] == [
        ["020202020202", "-", "10 s ago", "expired"],
        ["030303030303", "mine", "20 s ago", "running"],
        ["010101010101", "-", "40 s ago", "running"],
    ]
    listed = assay("order", "list", "--output", "json", home=tmp_path).json
    assert [(row["close_reason"], row["job"], row["age_seconds"]) for row in listed] == [
        ("expired", "", 10),
        ("", "mine", 20),
        ("", "", 40),
    ]


@pytest.mark.usefixtures("node")
def test_a_state_is_a_word_for_programs_too(tmp_path: Path) -> None:
    word = s.order().order.state.name.lower()
    (listed,) = assay("order", "list", "--output", "json", home=tmp_path).json
    watched = assay("order", "watch", s.ORDER_ID.hex(), "--output", "json", home=tmp_path)
    assert listed["state"] == json.loads(watched.out.splitlines()[0])["state"] == word


@pytest.mark.parametrize("width", [20, 40, 80])
def test_bids_can_be_read_on_a_narrow_screen(width: int) -> None:
    offer = Offer(price=9 * 10**11, slot_speed=10**9, slots=1, device_class="cpu", max_work=10**15)
    bid = Bid(b"\x13" * 32, "assay1v", offer, 10**13, 7 * DAY, 1)
    text = shown(bid_table([BackedBid(bid, 10**12)], 0), width)
    for word in ("131313131313", "assay1v", "900,000", "cpu", "10 TFLOP", "days"):
        assert word in text
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize(("clock", "left"), [(1_000, "7.0 days"), (7 * DAY, "16.7 min"), (10**9, "0 s")])
def test_a_bid_says_how_long_it_stands_and_what_is_left_of_it(clock: int, left: str) -> None:
    offer = Offer(price=9 * 10**11, slot_speed=10**9, slots=1, device_class="cpu", max_work=10**15)
    bid = Bid(b"\x13" * 32, "assay1v", offer, 10**13, 7 * DAY + 1_000, 1, reserved=4 * 10**12)
    (row,) = [line for line in shown(bid_table([BackedBid(bid, 10**12)], clock)).splitlines() if "1313" in line]
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells[-1] == left
    assert "6 TFLOP" in cells


@pytest.mark.parametrize(
    ("backed", "told"),
    [
        (2 * 10**15, "your stake backs the bid's whole capacity of 1 PFLOP"),
        (10**14, "your stake backs 100 TFLOP of the bid's 1 PFLOP at this price: a larger order does not"),
    ],
)
def test_a_bid_that_is_placed_says_what_its_stake_backs(backed: int, told: str) -> None:
    assert backing_line(backed, 10**15).startswith(told)


def test_an_order_says_once_who_takes_it_and_why_it_waits() -> None:
    said: list[str] = []
    offered = replace(Quote(s.terms(), SimulateMatchResponse((), ()), local_params()), cheapest=9 * 10**11)
    reporter = WaitReporter(said.append, lambda: offered, lambda: 40, [])
    waits: Any = s.with_order(s.order(), state=OrderState.OPEN, unmatched=(("price", 3),))
    taken = s.with_order(s.order(), state=OrderState.MATCHED)
    for answer in (waits, waits, taken, taken):
        reporter.report(answer)
    assert len(said) == 2
    assert said[0] == (
        "the order waits for a bid, for another 60 s at most: 3 bids ask more; --price-limit 900000ASSAY would match"
        " a bid; if no bid takes the order by then, it closes and its deposit is refunded"
    )
    assert said[1].startswith("matched: ")
    assert "takes it at 1,000,000 ASSAY per PFLOP" in said[1]


def test_a_quote_without_a_bid_names_no_price() -> None:
    params = local_params()
    none = Quote(s.terms(), SimulateMatchResponse((), (("regions", 3),)), params)
    assert quote_headline(none).endswith("; no bid fits")


def test_what_an_order_locked_is_what_the_rows_of_it_say() -> None:
    found = summarise(
        replace(
            s.order(),
            escrow=Escrow(s.ORDER_ID, (Depositor("a", 5, 7, 11), Depositor("b", 1, 2, 3)), (), withheld=4),
        )
    )
    assert (found.paid, found.refunded, found.locked, found.withheld) == (9, 14, 6, 4)


@pytest.fixture
def taking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """Return what is sent while the command may take round 3 early; nobody serves its states."""
    sent: list[Message] = []
    take = EarlyTake(MsgTakeEarly("carol", s.ORDER_ID, 1, 3), first=2, last=3, refund=5_000_000)

    def send(_: TxSender, *messages: Message) -> None:
        sent.extend(messages)

    def fetch(*_: object) -> None:
        raise ConsumerError("nobody serves it", "ask again")

    monkeypatch.setattr(Settings, "client", lambda settings: Node())
    monkeypatch.setattr(TxSender, "send", send)
    monkeypatch.setattr(consumer.early, "early_take", lambda *_: take)
    monkeypatch.setattr(consumer.complain, "fetch_or_complain", fetch)
    monkeypatch.setattr(consumer.jobs, "read_job", lambda _: None)
    (tmp_path / "config.toml").write_text('keyring = "test"\nfrom = "carol"\n')
    assert assay("keys", "add", "carol", home=tmp_path).code == 0
    return sent


@pytest.mark.parametrize(
    ("flags", "typed", "is_sent"),
    [
        (("--early",), "n\n", False),
        (("--early",), "", False),
        (("--early",), "y\n", True),
        (("--early", "--yes"), "", True),
        ((), "y\n", False),
    ],
)
def test_who_takes_a_result_early_reads_what_it_gives_up(
    flags: tuple[str, ...],
    typed: str,
    is_sent: bool,
    tmp_path: Path,
    taking: list[Message],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(typed))
    arguments = ("order", "result", s.ORDER_ID.hex(), "-o", tmp_path / "m", "--job", tmp_path)
    ran = assay(*arguments, *flags, home=tmp_path)
    assert len(taking) == is_sent
    assert ran.code == 1
    said = " ".join((ran.out + ran.err).split())
    assert ("5 ASSAY of your deposit is burnt" in said) == bool(flags)
    assert ("nobody serves it" in said) == (is_sent or not flags)


def test_a_held_share_is_shown_under_the_issue_of_its_task() -> None:
    claim = ShareClaim(
        order_id=s.ORDER_ID, leg=1, round=0, slot=0, issue=3, provider="p", commitment=bytes(32), multiple=1, cover=0
    )
    included = int(ShareReason.INCLUDED)
    plain = Share(claim, bytes(64), bytes(32), 1, 1, ShareState.REJECTED, included, 0, 0, (), None)
    held = replace(plain, held_as=HELD_ISSUES_FROM)
    text = shown(_shares_table(replace(s.order(), shares=(plain, held))))
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if line[:1] == "│"]
    assert [row[3] for row in rows] == ["3", "3 (held)"]
