"""Blocks, transactions and the search: what is shown of them, and that it is bounded however much there is."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from chain.client.client import ChainClient
from chain.client.sender import TxSender
from console import blocks
from console.index.writing import EventIndex
from console.node import ConsoleNode
from console.server import Console
from domain.beacon import REVEAL_BYTES
from domain.ledger.messages import MsgDepositBond
from domain.node.queries import LoggedEvent
from tests.support.solo_node import ALICE, making_blocks, running
from tests.support.told_market import HOSTILE, many_orders
from tests.unit.console.conftest import Told, ask
from wire.reveal import encode_reveal


def find(told: Told, text: str) -> Any:
    answer = told.get("/find", params={"q": text}, allow_redirects=False)
    return answer.headers.get("location") or answer


@pytest.mark.parametrize("name", ["v0", "V0", "v2"])
def test_a_validator_is_found_by_its_moniker(told: Told, name: str) -> None:
    assert find(told, name) == f"/members/{name.lower()}"


def test_what_a_text_may_name_is_listed_and_a_stranger_writes_no_html(told: Told) -> None:
    answer = find(told, "v")
    assert answer.status_code == 200
    assert HOSTILE[:8] not in answer.text
    assert "&lt;script&gt;" in answer.text
    hits = told.json("/find?q=v")["hits"]
    assert {hit["path"] for hit in hits} == {f"/members/v{number}" for number in range(4)}
    missing = find(told, '"><script>alert(1)</script>')
    assert missing.status_code == 404
    assert "<script>alert" not in missing.text
    assert "These can be found" in missing.text
    assert find(told, "").status_code == 404


def test_a_block_an_order_and_a_consumer_are_found(told: Told) -> None:
    height = told.console.known.snapshot.status.height  # type: ignore[union-attr]
    assert find(told, str(height)) == f"/blocks/{height}"
    assert find(told, str(height + 1)).status_code == 404
    assert find(told, told.settled.hex()[:12]) == f"/orders/{told.settled.hex()}"
    assert find(told, "carol") == "/members/carol"
    told.console.index.name_jobs({told.market.order(told.settled).terms.job_id: "Digits <b>"})
    try:
        hits = told.json("/find?q=digits")["hits"]
        assert {hit["path"] for hit in hits} == {
            f"/orders/{o.hex()}" for o in (told.settled, told.running, told.waiting)
        }
        page = told.get("/orders").text
        assert "Digits &lt;b&gt;" in page
        assert "Digits <b>" not in page
    finally:
        told.console.index.name_jobs({told.market.order(told.settled).terms.job_id: ""})


def test_every_event_is_on_the_page_of_its_block(told: Told) -> None:
    height = told.market.chain.height
    listed = told.json("/blocks")
    assert [block["height"] for block in listed["blocks"]] == list(
        range(height, max(0, height - blocks.BLOCKS_SHOWN), -1)
    )
    for block in listed["blocks"]:
        page = told.json(f"/blocks/{block['height']}")
        numbers = [e.number for e in told.market.logged if e.height == block["height"]]
        shown = [event["number"] for event in page["events"]]
        assert shown == numbers[: blocks.EVENTS_SHOWN]
        assert page["events_count"] == block["events"] == len(numbers)
        assert page["operator"] == block["operator"] != ""
    assert told.get(f"/blocks/{height}").status_code == 200
    quiet = min(block["height"] for block in listed["blocks"] if not block["events"])
    assert "This block has no events." in told.get(f"/blocks/{quiet}").text
    for path in (f"/blocks/{height + 1}", "/blocks/0", "/blocks/x", f"/blocks/{2**70}"):
        assert told.get(path).status_code == 404
    assert "The chain has a block" not in told.get("/blocks/0").text


def test_a_full_block_is_turned_page_by_page(told: Told) -> None:
    with Console(0, probe=False) as console:
        told.market.tell(console.known)
        height, first = told.market.chain.height, console.index.next
        console.index.add(many_orders(told.market.order(told.waiting), first, 500, height))
        console.known.show()
        found = ask(console, f"/api/blocks/{height}?page=3").json()
        before = sum(e.height == height for e in told.market.logged)
        assert found["events_count"] == 500 + before
        assert len(found["events"]) == blocks.EVENTS_SHOWN
        text = ask(console, f"/blocks/{height}").text
        assert text.count("<tr>") < blocks.EVENTS_SHOWN + 10
        last = ask(console, f"/api/blocks/{height}?page=999999").json()
        assert last["page"] == last["pages"] == -(-found["events_count"] // blocks.EVENTS_SHOWN)


def test_counting_the_events_of_a_block_reads_none_of_them() -> None:
    index = EventIndex()
    index.add([LoggedEvent(n, 7 if n > 3 else 6, "transfer", ()) for n in range(1, 10)])
    assert (index.events_at(6), index.events_at(7), index.events_at(8)) == ((1, 3), (4, 6), (0, 0))
    plan = str(index._all("EXPLAIN QUERY PLAN SELECT number FROM events WHERE height = 7 ORDER BY number LIMIT 1"))
    assert "events_of_height" in plan
    assert "TEMP B-TREE" not in plan
    index.close()


@contextmanager
def comet(answers: dict[str, Any]) -> Iterator[str]:
    """Serve answers of a CometBFT by path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path)
            self.send_response(200 if found is not None else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"result": found}).encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_transactions_of_a_real_node_are_shown_by_block_and_by_hash(tmp_path: Path) -> None:
    with running(tmp_path / "one") as node, ChainClient(node.address) as client:
        with making_blocks(node.engine):
            done = TxSender(client, ALICE).send(MsgDepositBond(ALICE.address, 5_000_000))
        found = client.tx_with_bytes(done.hash)
        assert found is not None
        raw, height = found[1], done.height
        txs = [b64encode(each).decode() for each in (encode_reveal(bytes(REVEAL_BYTES)), raw, b"\x01" * 9)]
        block = {"block": {"data": {"txs": txs}}}
        with comet({f"/block?height={height}": block}) as rpc, Console(0, probe=False) as console:
            console.follow(node.address, rpc)
            assert console.known.wait_until(lambda s: s.status is not None and s.status.height >= height, 20.0)
            page = ask(console, f"/api/blocks/{height}").json()
            assert [tx["kinds"] for tx in page["sent"]] == [["beacon"], ["deposit bond"], []]
            assert page["sent"][1]["hash"] == done.hash.hex()
            assert page["sent"][1]["signer"] == ALICE.address
            assert "not readable" in ask(console, f"/blocks/{height}").text
            shown = ask(console, f"/api/transactions/{done.hash.hex()}").json()
            assert (shown["height"], shown["code"]) == (height, 0)
            values = {f["name"]: f["value"] for f in shown["messages"][0]["fields"]}
            assert values == {"owner": ALICE.address, "amount": "5000000"}
            assert "bond.deposited" in {event["kind"] for event in shown["events"]}
            text = ask(console, f"/transactions/{done.hash.hex()}").text
            assert "MsgDepositBond" in text
            assert ask(console, f"/find?q={done.hash.hex()}").url.endswith(f"/transactions/{done.hash.hex()}")
            assert ask(console, f"/transactions/{'0' * 64}").status_code == 404
            # A block that its CometBFT does not tell is shown with its events all the same.
            other = ask(console, f"/blocks/{height - 1 or 1}")
            assert "Only CometBFT lists" in other.text or height == 1


@pytest.mark.parametrize("answer", [{"block": {"data": []}}, {"block": {"data": {"txs": ["%"]}}}, {"block": 3}, []])
def test_a_comet_that_answers_something_else_tells_no_transactions(told: Told, answer: object) -> None:
    height = told.market.chain.height
    with comet({f"/block?height={height}": answer}) as rpc, Console(0, probe=False) as console:
        told.market.tell(console.known)
        console.pages.node = ConsoleNode("127.0.0.1:1", rpc)
        assert ask(console, f"/api/blocks/{height}").json()["sent_known"] is False
        console.pages.node.close()


def test_the_network_names_round_slot_and_sum(told: Told) -> None:
    details = {event["kind"]: event["detail"] for event in told.json("/network")["events"]}
    text = told.get("/").text
    assert any(re.search("round 0, slot [01]", detail) for detail in details.values())
    assert text.index("Last events") < text.index("<h2>Validators</h2>")
    height = told.market.chain.height
    sums = [
        event["detail"]
        for block in range(1, height + 1)
        for event in told.json(f"/blocks/{block}")["events"]
        if event["kind"] in ("payment", "round.verified", "order.submitted")
    ]
    assert sums
    assert all("ASSAY" in detail for detail in sums)


def test_events_that_a_node_of_another_version_tells_are_shown(told: Told) -> None:
    with Console(0, probe=False) as console:
        told.market.tell(console.known)
        last = told.market.logged[-1]
        strange = replace(last, number=console.index.next, type="<b>new</b>", attributes=())
        console.index.add([strange])
        console.known.show()
        text = ask(console, f"/blocks/{last.height}?page=99").text
        assert "&lt;b&gt;new&lt;/b&gt;" in text
