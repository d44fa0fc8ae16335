"""Broadcasting through CometBFT's JSON-RPC: its words become the SDK's codes, and its silence an answer."""

import base64
import json
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest

from chain.app.comet_rpc import CometBroadcaster

RAW = b"some transaction"


class Comet:
    """Answers HTTP as a test says; ``answer`` None means never."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.asked: list[Any] = []
        self.released = Event()
        comet = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                comet.asked.append(json.loads(body))
                if comet.answer is None:
                    comet.released.wait(10)
                    return
                data = comet.answer if isinstance(comet.answer, bytes) else json.dumps(comet.answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def comet() -> Iterator[Comet]:
    running = Comet()
    thread = Thread(target=running.server.serve_forever, args=(0.01,))
    thread.start()
    yield running
    running.released.set()
    running.server.shutdown()
    thread.join()
    running.server.server_close()


def test_what_checktx_said_comes_back(comet: Comet) -> None:
    comet.answer = {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"code": 5, "codespace": "sdk", "log": "too poor"},
    }
    result = CometBroadcaster(comet.url).broadcast_sync(RAW)
    assert (result.code, result.codespace, result.log) == (5, "sdk", "too poor")
    assert result.hash == sha256(RAW).digest()
    (asked,) = comet.asked
    assert asked["method"] == "broadcast_tx_sync"
    assert base64.b64decode(asked["params"]["tx"]) == RAW


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("tx already exists in cache", 19),
        ("mempool is full: number of txs 5000 (max: 5000)", 20),
        ("Tx too large. Max size is 1048576, but got 2000000", 21),
    ],
)
def test_comets_words_have_the_sdks_codes(comet: Comet, words: str, code: int) -> None:
    comet.answer = {"error": {"code": -32603, "message": "Internal error", "data": words}}
    result = CometBroadcaster(comet.url).broadcast_sync(RAW)
    assert (result.code, result.codespace) == (code, "sdk")
    assert words in result.log


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        {},
        {"result": None},
        {"result": {"code": "x"}},
        {"error": {"message": "new words"}},
        {"error": {}},
        {"error": "text"},
    ],
)
def test_anything_else_is_a_code_and_no_exception(comet: Comet, answer: Any) -> None:
    comet.answer = answer
    result = CometBroadcaster(comet.url).broadcast_sync(RAW)
    assert (result.code, result.codespace) == (1, "node")


def test_silence_ends_at_the_deadline(comet: Comet) -> None:
    result = CometBroadcaster(comet.url, timeout=0.2).broadcast_sync(RAW)
    assert "try again" in result.log


def test_nobody_there_is_an_answer_too() -> None:
    result = CometBroadcaster("http://127.0.0.1:1").broadcast_sync(RAW)
    assert (result.code, result.codespace) == (1, "node")
