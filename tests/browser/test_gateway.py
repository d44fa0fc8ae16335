"""A page of another origin than the node's: it reads from the gateway, and sends a transaction."""

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from chain.app.homes import write_node_table
from tests.browser.chromium import Page
from tests.support.node_process import Node, free_ports, make_home
from tests.support.small_chain import CHAIN_ID, key, transfer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]
RECEIVER = 95


class _Empty(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(b"<!doctype html><link rel=icon href=data:,><title>A page</title><main></main>")

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def elsewhere() -> Iterator[str]:
    """Serve an empty page; yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Empty) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def fetch(page: Page, url: str, **options: Any) -> tuple[int, str, Any]:
    """Return status, height and body of an answer that a script of the page gets."""
    status, height, body = page.ask(
        f"fetch({json.dumps(url)}, {json.dumps(options)}).then(async (answer) => "
        "[answer.status, answer.headers.get('x-cosmos-block-height'), await answer.json()])"
    )
    return status, height, body


def test_a_page_of_another_origin_uses_the_gateway(tmp_path: Path, page: Page) -> None:
    home = make_home(tmp_path)
    write_node_table(home, {"rest_port": free_ports().grpc})
    page.expected = ("400", "404")
    with closing(Node(home, "managed")) as node, elsewhere() as origin:
        node.wait_for_height(2)
        rest = node.ready["rest"]
        page.open(origin)
        status, _, about = fetch(page, f"{rest}/cosmos/base/tendermint/v1beta1/node_info")
        assert (status, about["default_node_info"]["network"]) == (200, CHAIN_ID)
        status, height, _ = fetch(page, f"{rest}/cosmos/staking/v1beta1/validators?pagination.limit=1")
        assert (status, int(height) >= 2) == (200, True)
        status, _, refused = fetch(page, f"{rest}/cosmos/auth/v1beta1/accounts/none")
        assert (status, "address" in refused["message"]) == (400, True)
        sent = {"tx_bytes": b64encode(transfer(1, 0, RECEIVER)).decode(), "mode": "BROADCAST_MODE_SYNC"}
        status, _, answer = fetch(
            page,
            f"{rest}/cosmos/tx/v1beta1/txs",
            method="POST",
            headers={"content-type": "application/json"},
            body=json.dumps(sent),
        )
        assert (status, answer["tx_response"]["code"]) == (200, 0)
        found = f"{rest}/cosmos/tx/v1beta1/txs/{answer['tx_response']['txhash']}"
        wait_until(lambda: fetch(page, found)[0] == 200, "the transaction", 60)
        balance = f"{rest}/cosmos/bank/v1beta1/balances/{key(RECEIVER).address}/by_denom?denom=uassay"
        assert fetch(page, balance)[2]["balance"]["amount"] == "7"
