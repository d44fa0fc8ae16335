"""The console in a browser: an order from start to end, a cheat, nobody who bids, strangers' words, 1,000 orders."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from console.known import Machine
from console.records import RecordWatcher
from console.server import Console
from consumer.jobs import read_job
from domain.proof.queries import OrderRequest
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind
from tests.browser.chromium import Page
from tests.support.chain_market import make_terms, submit
from tests.support.told_market import (
    KindChain,
    LoggedChain,
    ToldMarket,
    cheated,
    many_orders,
    unmatched,
)

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

PAINT_MS = 1_000
JOB = Path(__file__).parents[1] / "fixtures" / "job_tiny"
ROUNDS = 6


@pytest.fixture
def market(request: pytest.FixtureRequest) -> ToldMarket:
    name = request.function.__name__
    # So that what the test tells ends about now.
    took = 90 if "from_start_to_end" in name else 150 if "pages_are_seen" in name else 30
    market = ToldMarket(time.time() - took, LoggedChain if "hostile" in name else KindChain)
    market.bid_at(1.1, "v1")
    market.bid_at(1.4, "v2")
    market.bid_at(1.5, "v3")
    market.certify()
    return market


@pytest.fixture
def console(market: ToldMarket) -> Iterator[Console]:
    with Console(0, job=read_job(JOB), probe=False) as console:
        market.tell(console.known)
        console.pages.ask = market.chain.ask
        yield console


def chip(state: str) -> str:
    """Return the expression that is true when the order's page shows a state."""
    return f"document.querySelector('h1 .chip')?.textContent === '{state}'"


def test_an_order_from_start_to_end_with_a_cheat(
    market: ToldMarket, console: Console, page: Page, shots: Path, tmp_path: Path
) -> None:
    """The page is opened once, and follows without being loaded again; the winner's records are on this machine."""
    terms = make_terms(rounds=ROUNDS, round_steps=32, segment_steps=4, step_work=1_000_000)
    order_id = market.submit(submit(terms=terms, deposit=1_200_000))
    market.tell(console.known)
    records = RecordWatcher(console.known, [tmp_path])

    def tell() -> None:
        market.write_records(tmp_path, order_id)
        records.look()
        market.tell(console.known)

    page.open(f"{console.url}orders/{order_id.hex()}")
    page.ask("window.here = true")
    page.wait(chip("matched"))
    assert page.ask("document.querySelector('[data-until]').textContent") != "…"
    market.accept(order_id)
    market.tell(console.known)
    page.wait(chip("running"))
    first = market.trace(order_id, 0, "skipped", provider="v0p0")
    again = market.trace(order_id, 0, issue=2, provider="v0p1")
    market.commit(order_id, first, market.trace(order_id, 1, provider="v0p1"))
    market.wait_drawn(order_id)
    market.commit(order_id, again, reject=[(first.ref, int(ShareReason.SEGMENT_MISMATCH))])
    market.wait_drawn(order_id)
    tell()
    page.wait("document.querySelector('#cheats')")
    assert "Auditors will check the rejection when they recompute" in page.text()
    # What was trained is seen before its round is closed.
    page.wait("document.querySelector('#loss canvas')")
    market.chain.ok(*market.close_messages(order_id))
    for round in range(ROUNDS - 2):
        market.answer_all(order_id, round)
        market.train_round(order_id)
    tell()
    page.wait("document.querySelectorAll('.grid > tbody > tr').length >= 5")
    page.wait(f"JSON.parse(document.querySelector('#loss').dataset.series).steps.length >= {8 * (ROUNDS - 1)}")
    page.shot(shots / "console-order-running.png")
    market.answer_all(order_id, ROUNDS - 2)
    market.settle(order_id)
    tell()
    page.wait(chip("settled"))
    text = page.text()
    assert "Auditors confirmed the accepted share of this slot. This share differs from it, and is not paid." in text
    assert "It first differs in segment 4 (steps 16 to 19)" in text
    assert "every coin is accounted for" in text
    assert "some coins are not accounted for" not in text
    assert page.ask("window.here") is True
    page.ask("document.querySelector('.grid details').open = true")
    assert "aggregation" in page.text()
    page.shot(shots / "console-order.png")
    page.shot(shots / "first-screen.png", 920)
    page.size(420, 900)
    width = page.ask("document.documentElement.scrollWidth")
    assert width <= 420, "it fits a narrow screen"
    hidden = "(part) => part.scrollWidth - part.clientWidth"
    assert page.ask(f"({hidden})(document.querySelector('#grid .scroll'))") <= 0
    page.shot(shots / "console-narrow.png")
    records.close()


def test_a_trace_says_who_looked_at_what_and_where_it_differs(
    market: ToldMarket, console: Console, page: Page, shots: Path, tmp_path: Path
) -> None:
    terms = make_terms(round_steps=32, segment_steps=4, step_work=1_000_000)
    order_id = cheated(market, terms=terms, deposit=2_000_000)
    market.tell(console.known)
    page.open(f"{console.url}orders/{order_id.hex()}")
    panel = market.chain.ask(OrderRequest(order_id)).panels[0]
    looked_at = next(place.place for place in panel.places if place.place.kind is AuditKind.SEGMENT)
    page.ask(f"document.querySelector('.more[href$=\"/1/0/{looked_at.slot}/{looked_at.issue}\"]').click()")
    page.wait("document.querySelector('.strip')")
    # Its page goes on without being loaded again, too: strangers' answers are there, then records of the machine.
    assert page.ask("document.querySelectorAll('.strip li').length") == 9
    assert "got the same" in page.text()
    assert "start the console with --job DIRECTORY" in page.text()
    page.ask("window.here = true")
    records = RecordWatcher(console.known, [tmp_path])
    market.write_records(tmp_path, order_id)
    records.look()
    page.wait("document.querySelector('#curve canvas')")
    page.open(f"{console.url}orders/{order_id.hex()}/1/0/0/1")
    assert "It first differs in segment 4 (steps 16 to 19)" in page.text()
    assert page.ask("document.querySelector('.strip .wrong a').textContent") == "4"
    page.shot(shots / "console-trace.png")
    page.size(420, 900)
    assert page.ask("document.documentElement.scrollWidth") <= 420
    records.close()


def test_an_order_that_nobody_takes_says_why(market: ToldMarket, console: Console, page: Page, shots: Path) -> None:
    order_id = unmatched(market)
    market.tell(console.known)
    page.dark(True)
    page.open(f"{console.url}orders/{order_id.hex()}")
    # A deadline of the chain's clock does not come nearer while no block does.
    status = console.known.snapshot.status
    assert status is not None
    console.known.show(status=replace(status, time_ns=status.time_ns - 3_600 * 10**9))
    page.wait("!document.getElementById('away').hidden")
    ends = int(page.ask("document.querySelector('[data-until]').dataset.until"))
    page.ask("new Promise((done) => setTimeout(done, 2200))")
    left = page.ask("document.querySelector('[data-until]').textContent")
    assert left == f"{ends - console.known.snapshot.clock_most} s"
    console.known.show(status=status)
    page.wait("document.getElementById('away').hidden")
    assert "4 bids fail" in page.text()
    assert page.ask("document.querySelector('#why meter').value") == 1
    page.shot(shots / "console-unmatched.png")
    page.dark(False)
    page.open(f"{console.url}book")
    page.wait("document.querySelector('#depth canvas')")
    assert page.ask("document.querySelectorAll('#bids tbody tr').length") == 4
    # A job.json gives the numbers that the console has of the same job, and is sent nowhere.
    numbers = "Object.fromEntries([...document.querySelectorAll('#ask [data-unit]')].map((i) => [i.name, i.value]))"
    of_job = page.ask(numbers)
    page.ask("document.querySelectorAll('#ask [data-unit]').forEach((i) => { i.value = '' })")
    page.choose("#job-file", JOB / "global.state")
    page.wait("document.getElementById('job-said').textContent.includes('is not a job.json')")
    before = len(page.requests())
    page.choose("#job-file", JOB / "job.json")
    page.wait("document.getElementById('job-said').textContent.includes('those of the job tiny')")
    assert page.requests()[before:] == []
    chosen = page.ask(numbers)
    assert {name: chosen[name] or of_job[name] for name in of_job} == of_job
    assert sum(map(bool, chosen.values())) == 8
    for name, value in {"memory": "256", "pays": "1.5", "minutes": "1440"}.items():
        page.ask(f"document.querySelector('[name={name}]').value = '{value}'")
    # What was typed stays while the page goes on.
    market.chain.block()
    market.tell(console.known)
    unmatched(market)
    market.tell(console.known)
    page.wait("document.querySelectorAll('#filters tbody tr').length === 2")
    assert page.ask("document.querySelector('[name=pays]').value") == "1.5"
    assert page.ask(f"({numbers}).work") == of_job["work"]
    page.ask("document.querySelector('.quote button').click()")
    page.wait("document.querySelectorAll('#quote tbody tr').length === 4")
    page.shot(shots / "console-book.png")


def test_pages_are_seen_within_a_second_and_load_nothing_from_elsewhere(
    market: ToldMarket, console: Console, page: Page, shots: Path
) -> None:
    market.settle(market.run())
    for number in range(90):
        market.chain.block(seconds=1 + (number % 9 == 0))
    market.train_round(market.run())
    market.tell(console.known)
    for name in ("", "orders", "book", "members", "job"):
        page.open(console.url + name)
        page.wait("performance.getEntriesByName('first-contentful-paint').length")
        paint = page.ask("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        assert paint < PAINT_MS, f"/{name} is seen after {paint:.0f} ms"
    assert all(url.startswith((console.url, "data:", "about:")) for url in page.requests())
    page.open(console.url)
    page.wait("document.querySelector('#blocks canvas')")
    page.shot(shots / "console-network.png")
    page.open(f"{console.url}members")
    page.shot(shots / "console-members.png")
    page.open(f"{console.url}job?program=step")
    page.shot(shots / "console-job.png")


def test_a_hostile_moniker_is_text(market: ToldMarket, console: Console, page: Page) -> None:
    order_id = market.run()
    market.tell(console.known)
    # What is as long and as large as the chain lets it be breaks no layout either.
    most, names = 2**63 - 1, {"v0": "W" * 70}
    console.known.show(
        validators=tuple(
            replace(v, stake=most, audit_speed=most, moniker=names.get(v.operator, v.moniker))
            for v in console.known.snapshot.validators
        )
    )
    page.size(375, 800)
    page.open(f"{console.url}orders/{order_id.hex()}")
    assert "WWWW" in page.text()
    assert page.ask("document.documentElement.scrollWidth") <= 375
    for name in ("", "members", "members/v0", "members/v1", "book", "orders"):
        page.open(console.url + name)
        assert page.ask("document.documentElement.scrollWidth") <= 375, name
        assert page.ask("[...document.scripts].every((script) => script.src.includes('/assets/'))")
        assert "<script>alert(" in page.text() or name in ("orders", "members/v0")


def test_two_machines_of_a_daemon_are_shown_with_their_tasks(market: ToldMarket, console: Console, page: Page) -> None:
    machine = Machine("machine 0", "10.0.0.7", 16, 2**35, "", ("prov0: train_segment",), ("prov0: 3 train_segment",))
    lost = Machine("<b>machine 1</b>", "10.0.0.8", 8, 2**34, "it does not answer", (), ("prov0: 2 train_segment",))
    page.size(375, 800)
    page.open(console.url)
    assert not page.ask("document.getElementById('machines')")
    console.known.show(machines=(machine, lost))
    page.wait("document.querySelectorAll('#machines tbody tr').length === 2")
    cells = "[...row.cells].map((cell) => cell.innerText.trim())"
    first, second = page.ask(f"[...document.querySelectorAll('#machines tbody tr')].map((row) => {cells})")
    assert first == [machine.name, machine.address, "computes", "16", "32 GiB", *machine.tasks, *machine.ended]
    assert second[0] == lost.name
    assert second[2] == lost.problem
    assert page.ask("document.documentElement.scrollWidth") <= 375
    console.known.show(machines=(machine, replace(lost, problem="", tasks=("val0: check_segment",))))
    market.chain.block()
    market.tell(console.known)
    page.wait("document.querySelector('#machines tbody tr:nth-child(2)').innerText.includes('val0: check_segment')")
    assert "it does not answer" not in page.text()


def test_a_node_that_goes_away_and_comes_back(market: ToldMarket, console: Console, page: Page) -> None:
    page.size(375, 800)
    page.open(console.url)
    page.wait("document.getElementById('away').hidden")
    # Who reads is left alone as the page goes on: focus, what is scrolled, how rows are sorted.
    page.ask("document.querySelector('#validators th:nth-child(5) button').click()")
    page.ask("(window.row = document.querySelector('#validators tbody tr:nth-child(2) a')).focus()")
    page.ask("document.querySelector('#validators').scrollLeft = 120")
    page.ask("scrollTo(0, 150)")
    market.chain.block()
    market.run()
    market.tell(console.known)
    page.wait(f"document.querySelector('#tip').textContent === '{market.chain.height}'")
    assert page.ask("document.activeElement === window.row")
    assert page.ask("window.row.closest('tr').rowIndex") == 2
    assert page.ask("document.querySelector('#validators th:nth-child(5)').ariaSort")
    assert page.ask("[document.querySelector('#validators').scrollLeft, scrollY]") == [120, 150]
    console.known.show(away="no node answers at 127.0.0.1:1")
    page.wait("!document.getElementById('away').hidden")
    assert "The node does not answer" in page.text()
    assert "northwind" in page.text()
    market.chain.block()
    console.known.show(away="")
    market.tell(console.known)
    page.wait("document.getElementById('away').hidden")
    page.wait(f"document.getElementById('height').textContent === '{market.chain.height}'")
    status = console.known.snapshot.status
    assert status is not None
    old = replace(status, time_ns=status.time_ns - 3_600 * 10**9)
    console.known.show(status=old, catching_up=True)
    page.wait("!document.getElementById('away').hidden")
    assert "the node is behind, and fetches newer blocks" in page.text()
    # So does a console that ends, and one that is there again at the same address.
    page.expected = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING")
    console.close()
    page.wait("document.getElementById('away').textContent.includes('The console does not answer')")
    with Console(console.port, probe=False) as again:
        market.tell(again.known)
        page.wait("document.getElementById('away').hidden")


def test_a_thousand_orders_sort_and_turn_pages(market: ToldMarket, console: Console, page: Page, shots: Path) -> None:
    order_id = market.run()
    sample = replace(market.order(order_id), unmatched=())
    market.tell(console.known)
    index = console.known.index
    index.add(many_orders(sample, index.next, 1_000, market.chain.height))
    console.known.show()
    page.open(f"{console.url}orders?page=2")
    assert "1,001 orders, page 2 of 21" in page.text()
    ids = "[...document.querySelectorAll('#orders tbody td:first-child a')].map((a) => a.title)"
    before = page.ask(ids)
    # By keyboard alone.
    page.ask("document.querySelector('#orders th button').focus()")
    page.key("Enter", 13)
    assert page.ask("document.querySelector('#orders th').ariaSort") == "ascending"
    assert page.ask(ids) == sorted(before) != before
    page.key("/", 191)
    page.wait("document.activeElement.name === 'q'")
    page.click(".copy")
    page.wait("document.querySelector('.copy.done')")
    page.wait("!document.querySelector('.copy.done')")
    page.shot(shots / "console-orders.png")
