"""The server over a real socket: who may ask what, what strangers wrote, and a stream that loses nothing."""

import html
import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import requests

from console import connections, words
from console.errors import ConsoleError
from console.pages import ROWS_SHOWN
from console.server import ASSETS, CONNECTIONS_MAX, HEADERS, Console
from console.stream import STREAMS_MAX
from domain.node.params import NodeParams
from tests.support.told_market import HOSTILE, many_orders
from tests.unit.console.conftest import Told, ask


def pages(told: Told) -> list[str]:
    orders = [f"/orders/{o.hex()}" for o in (told.settled, told.running, told.waiting)]
    return [
        "/",
        "/orders",
        "/book",
        "/members",
        "/members/v0",
        "/members/v0p0",
        "/members/carol",
        *orders,
    ]


def test_every_page_is_there_with_its_json_and_nothing_from_elsewhere(told: Told) -> None:
    for path in pages(told):
        answer = told.get(path)
        assert answer.status_code == 200, (path, answer.text)
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert HEADERS.items() <= answer.headers.items()
        assert answer.headers["connection"] == "close"
        assert not re.search(r"<script(?![^>]*src=\"/assets/)|<style|\sstyle=|\son[a-z]+=|https?://", answer.text), path
        assert told.get("/api/network" if path == "/" else f"/api{path}").status_code == 200
        for asset in re.findall(r'(?:src|href)="/assets/([^"]+)"', answer.text):
            assert told.get(f"/assets/{asset}").status_code == 200


def test_the_policy_lets_nothing_in() -> None:
    policy = dict(part.split(" ", 1) for part in HEADERS["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"


def test_what_a_stranger_wrote_is_text_and_cut(told: Told) -> None:
    for path in ("/", "/members", "/members/v1"):
        text = told.get(path).text
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(" in text
        assert "x" * 30 not in text
    assert HOSTILE in {v["moniker"] for v in told.json("/network")["validators"]}
    answer = told.get("/orders", params={"consumer": '"><script>alert(1)</script>'})
    assert "<script>alert" not in answer.text
    assert "<script>" not in told.get("/members/%3Cscript%3E").text.replace('<script src="/assets/', "")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80", ""])
def test_another_name_that_leads_here_is_refused(told: Told, host: str) -> None:
    answer = told.get("/api/network", headers={"Host": host})
    assert answer.status_code in (400, 421)
    assert "validators" not in answer.text
    right = told.get("/", headers={"Host": f"LOCALHOST:{told.console.port}"})
    assert right.status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_may_lead_here_and_no_more(told: Told, site: str) -> None:
    def asked(mode: str) -> int:
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
        return told.get("/api/network", headers=headers).status_code

    assert [asked(mode) for mode in ("no-cors", "cors", "navigate")] == [403, 403, 200]
    assert told.get("/", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: ", b"GET /api/book HTTP/1.1\r\n"])
def test_connections_that_ask_for_nothing_are_cut(told: Told, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 0.5)
    with ExitStack() as stack:
        idle = []
        for _ in range(CONNECTIONS_MAX):
            idle.append(socket.create_connection(("127.0.0.1", told.console.port), 10))
            stack.enter_context(idle[-1])
            idle[-1].sendall(sent)
        for each in idle:
            with suppress(ConnectionResetError):
                assert each.recv(1) == b""
        monkeypatch.undo()
        assert told.get("/").status_code == 200


def test_a_stream_stays_when_other_connections_are_cut(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 0.1)
    with told.get("/stream", stream=True) as answer:
        heads = (line for line in answer.iter_lines() if line == b"event: head")
        assert next(heads)
        # One that came later has been cut.
        idle = socket.create_connection(("127.0.0.1", told.console.port), 10)
        with idle, suppress(ConnectionResetError):
            assert idle.recv(1) == b""
        told.console.known.show()
        assert next(heads)


def test_a_story_that_does_not_fit_together_is_no_page(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    """A node may lie: an order then begins to run that nobody took."""
    known = told.console.known
    lie = next(e for e in told.market.logged if e.type == "round.closed")
    about = tuple((k, told.waiting.hex() if k == "order" else v) for k, v in lie.attributes)
    known.index.add([replace(lie, number=known.index.next, attributes=about)])
    try:
        for path in (f"/orders/{told.waiting.hex()}", f"/api/orders/{told.waiting.hex()}"):
            answer = told.get(path)
            assert answer.status_code == 502
            assert "contradict each other" in answer.text
        assert told.get(f"/orders/{told.settled.hex()}").status_code == 200
        assert all(record.exc_info is None for record in caplog.records)
    finally:
        known.index.begin("assay-test", "first")
        told.market.tell(known)


def test_a_time_that_no_calendar_has_is_none(told: Told) -> None:
    with Console(0, probe=False) as console:
        told.market.tell(console.known)
        (newest, *_) = console.index.blocks(1)
        console.index.add_blocks([replace(newest, height=newest.height + 1, time_ns=2**63 - 1)])
        console.known.show(validators=told.console.known.snapshot.validators)
        assert ask(console, "/").status_code == 200
        assert words.moment(2**80) == "–"


def test_deadlines_do_not_pass_while_a_chain_stands(told: Told) -> None:
    with Console(0, probe=False) as console:
        told.market.tell(console.known)
        status, params = console.known.snapshot.status, console.known.snapshot.params
        assert status is not None
        assert params is not None
        step = params.of(NodeParams).clock_step_max

        def clock(age: int) -> int:
            made = replace(status, time_ns=time.time_ns() - age * 10**9)
            console.known.show(status=made)
            head = ask(console, "/api/head").json()
            assert head["clock_most"] == made.clock + step
            passed: int = head["clock"] - made.clock
            return passed

        assert clock(-5) == 0
        assert clock(1) == 1
        assert clock(step + 30) == clock(90_000) == step


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_is_for_reading(told: Told, method: str) -> None:
    answer = requests.request(method, told.console.url, timeout=10)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert "access-control-allow-origin" not in answer.headers


def test_it_listens_on_this_machine_alone(told: Told) -> None:
    with pytest.raises(ConsoleError, match="cannot listen on"):
        Console(told.console.port)
    other = socket.create_connection(("127.0.0.1", told.console.port))
    assert other.getpeername()[0] == "127.0.0.1"
    other.close()
    assert told.console.url == f"http://127.0.0.1:{told.console.port}/"


def test_what_is_not_there_says_so(told: Told) -> None:
    for path in (
        "/orders/00",
        "/orders/xyz",
        f"/orders/{'0' * 64}",
        "/members/nobody",
        "/nothing",
        "/assets/../server.py",
    ):
        answer = told.get(path)
        assert answer.status_code == 404, path
        assert "Not found" in answer.text
    assert told.get("/api/orders/00").json()["error"]["reason"].startswith("This is not the id")


def test_an_order_is_found_by_its_first_digits(told: Told) -> None:
    answer = told.get("/find", params={"q": told.settled.hex()[:12]}, allow_redirects=False)
    assert answer.headers["location"] == f"/orders/{told.settled.hex()}"


def events_of(told: Told, since: int, count: int, last: str = "") -> Iterator[tuple[int, str]]:
    """Yield number and kind of so many events of a stream, then hang up."""
    headers = {"Last-Event-ID": last} if last else {}
    with told.get(f"/stream?since={since}", headers=headers, stream=True) as answer:
        number = 0
        for line in answer.iter_lines(decode_unicode=True):
            if line.startswith("id: "):
                number = int(line.removeprefix("id: "))
            elif number and line.startswith("data: "):
                yield number, json.loads(line.removeprefix("data: "))["kind"]
                number, count = 0, count - 1
                if not count:
                    return


def test_a_stream_goes_on_where_it_was_cut_off(told: Told) -> None:
    logged = [(event.number, event.type) for event in told.market.logged]
    half = len(logged) // 2
    first = list(events_of(told, 1, half))
    assert first == logged[:half]
    # What the browser was told last wins over what the page was rendered with.
    again = list(events_of(told, 1, len(logged) - half, str(first[-1][0])))
    assert again == logged[half:]


def test_a_stream_tells_what_happens_while_it_listens(told: Told) -> None:
    known = told.console.known
    number = known.index.next
    stream = events_of(told, number - 1, 3)
    assert next(stream)[0] == number - 1
    sample = told.market.order(told.waiting)
    told.market.chain.block()
    known.index.add(many_orders(sample, number, 2, told.market.chain.height))
    known.show()
    try:
        assert [kind for _, kind in stream] == ["order.submitted"] * 2
    finally:
        # Others count on what the market told.
        known.index.begin("assay-test", "first")
        told.market.tell(known)


def test_streams_are_bounded(told: Told) -> None:
    with ExitStack() as stack:
        lines = []
        for _ in range(STREAMS_MAX):
            answer = stack.enter_context(told.get("/stream", stream=True))
            assert answer.status_code == 200
            lines.append(answer.iter_lines())
            assert next(lines[-1]) == b"retry: 1000"
        refused = stack.enter_context(told.get("/stream", stream=True))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")


def test_a_thousand_orders_fill_pages(told: Told) -> None:
    with Console(0, probe=False) as console:
        console.index.begin("many", "first")
        console.index.add(many_orders(told.market.order(told.waiting), 1, 1_000, 1))
        console.known.show()
        many = Told(told.market, told.settled, told.running, told.waiting, console)
        found = many.json("/orders?page=20&state=open")
        assert (found["count"], found["pages"], len(found["orders"])) == (1_000, 20, 50)
        assert many.get("/orders?page=20").text.count('href="/orders/0000') == 50
        assert many.json("/orders?page=21")["orders"] == []
        assert "No order is waiting" not in many.get("/book").text


def test_tables_of_bids_and_providers_are_bounded(told: Told) -> None:
    with Console(0, probe=False) as console:
        told.market.tell(console.known)
        (bid, *_), (provider, *_) = console.known.snapshot.bids, console.known.snapshot.providers
        numbers = range(ROWS_SHOWN + 50)
        console.known.show(
            bids=tuple(replace(bid, id=number.to_bytes(32, "big")) for number in numbers),
            providers=tuple(replace(provider, address=f"p{number}") for number in numbers),
        )
        many = Told(told.market, told.settled, told.running, told.waiting, console)
        for path, what in (("/book", "bids"), ("/members", "providers")):
            text = many.get(path).text
            assert text.count("<tr><td>") < ROWS_SHOWN + 20
            assert f"The first {ROWS_SHOWN} of {len(numbers)}" in text
            assert len(many.json(path)[what]) == len(numbers)


def test_a_node_that_is_behind_says_so_and_of_when_its_block_is(told: Told) -> None:
    with Console(0, probe=False) as console:
        told.market.tell(console.known)
        status = console.known.snapshot.status
        assert status is not None

        def notice(age: int, **more: Any) -> str:
            made = replace(status, time_ns=(int(time.time()) - age) * 10**9)
            console.known.show(status=made, **more)
            page = ask(console, "/").text
            said: str = ask(console, "/api/head").json()["notice"]
            assert html.escape(said, quote=False).replace("'", "&#39;") in page
            assert ('class="notice" role="status" hidden' in page) is (not said)
            return said

        assert notice(5) == ""
        assert notice(7_300).startswith(
            "The last block is 2 h old, and you see the data of that time: the chain makes no blocks"
        )
        assert "fetches newer blocks" in notice(7_300, catching_up=True)
        assert "does not answer (gone)" in notice(7_300, away="gone")
        assert notice(5, away="") == ""


def test_colours_can_be_read() -> None:
    """Text against what lies under it: 4.5 to 1, as WCAG 2.2 asks; edges of what can be filled in: 3 to 1."""
    style = ASSETS["console.css"].data.decode()
    light, dark = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+)", part)) for part in style.split("@media")[:2])
    for colours in (light, light | dark):
        texts = [(text, under) for text in ("ink", "dim", "accent", "bad") for under in ("card", "back")]
        texts += [("dim", "plain-back"), ("card", "accent"), ("card", "bad"), ("card", "good")]
        texts += [(name, f"{name}-back") for name in ("good", "bad", "warm", "cool")]
        for text, under in texts:
            assert contrast(colours[text], colours[under]) >= 4.5, (text, under)
        for under in ("card", "back"):
            assert contrast(colours["edge"], colours[under]) >= 3, under


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, such as #fff and #16202a, as WCAG computes it."""

    def light(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    darker, lighter = sorted((light(one), light(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_assets_are_those_that_are_written_down() -> None:
    lines = ASSETS["manifest.txt"].data.decode().splitlines()
    manifest = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    foreign = {name for name in ASSETS if name.startswith("uPlot")}
    assert manifest == {name: sha256(ASSETS[name].data).hexdigest() for name in foreign}
    assert b"MIT License" in ASSETS["uPlot-LICENSE.txt"].data


def test_a_browser_keeps_assets_and_asks_no_more(told: Told) -> None:
    page = told.get("/").text
    found = re.findall(r'(?:src|href)="(/assets/[^"]+)"', page)
    assert len(found) > 3
    for path in found:
        answer = told.get(path)
        assert "immutable" in answer.headers["cache-control"]
        assert HEADERS.items() <= answer.headers.items()
        assert answer.headers["connection"] == "close"
        tag = answer.headers["etag"]
        assert tag == f'"{sha256(answer.content).hexdigest()}"'
        for given in (tag, f'"other", W/{tag}'):
            again = told.get(path, headers={"If-None-Match": given})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == tag
            assert HEADERS.items() <= again.headers.items()
        assert told.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
        # Of another version, of which there may be other files with these names.
        folder, digest, name = path.rsplit("/", 2)
        assert told.get(f"{folder}/{digest[::-1]}/{name}").status_code == 404
    # What an asset loads in turn has the address of the same version, and is there.
    root = found[0].rsplit("/", 1)[0]
    for name, pattern in {
        "console.js": r'"\./([^"]+)"',
        "console.css": r'url\("([^"]+)"\)',
    }.items():
        inner = re.findall(pattern, ASSETS[name].data.decode())
        assert len(inner) >= 2
        assert all(told.get(f"{root}/{each}").status_code == 200 for each in inner)
    assert told.get("/").headers["cache-control"] == "no-store"


def test_the_pictures_in_the_documentation_are_those_that_the_browser_takes() -> None:
    root = Path(__file__).parents[3]
    taken = set(re.findall(r'"(console-[a-z-]+\.png)"', (root / "tests/browser/test_console.py").read_text()))
    there = {path.name for path in (root / "docs/images").glob("console-*.png")}
    assert taken == there == set(re.findall(r"images/(console-[a-z-]+\.png)", (root / "docs/console.md").read_text()))


def test_a_quote_tells_who_would_take_a_job_and_why_others_do_not(told: Told) -> None:
    asked = "/book?rounds=3&slots=2&steps=10&segment=5&work=1000&pays=200"
    found = told.json(asked)["quote"]
    assert found["error"] == ""
    assert [bid["validator"] for bid in found["candidates"]] == ["v0"]
    assert {bar["condition"]: bar["count"] for bar in found["unmatched"]} == {"price": 1}
    assert "v0" in told.get(asked).text.partition('id="quote"')[2].partition("</section>")[0]
    assert "does not divide" in told.json("/book?rounds=3&steps=10&segment=3")["quote"]["error"]
    assert told.json("/book?rounds=0")["quote"]["error"]
    assert told.json("/book")["quote"] is None
