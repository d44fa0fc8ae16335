"""CometBFT's JSON of blocks as protobuf, and a CometBFT that is away, slow or wrong."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from chain.app import comet_blocks
from chain.app.comet_blocks import CometBlocks
from chain.app.interfaces import UNREACHABLE
from domain.errors import Refusal

HASH = "AB" * 32
BLOCK_ID = {"hash": HASH, "parts": {"total": 1, "hash": HASH}}
VOTE = {
    "type": 2,
    "height": "6",
    "round": 0,
    "block_id": BLOCK_ID,
    "timestamp": "2026-11-27T12:00:00.123456789Z",
    "validator_address": "0B" * 20,
    "validator_index": 1,
    "signature": "c2ln",
}
BLOCK = {
    "block_id": BLOCK_ID,
    "block": {
        "header": {
            "version": {"block": "11", "app": "1"},
            "chain_id": "assay-test",
            "height": "7",
            "time": "2026-11-27T12:00:00.5Z",
            "last_block_id": BLOCK_ID,
            "app_hash": HASH,
            "proposer_address": "0A" * 20,
        },
        "data": {"txs": ["aGVsbG8="]},
        "evidence": {
            "evidence": [
                {
                    "type": "tendermint/DuplicateVoteEvidence",
                    "value": {
                        "vote_a": VOTE,
                        "vote_b": VOTE,
                        "TotalVotingPower": "30",
                        "ValidatorPower": "10",
                        "Timestamp": "2026-11-27T12:00:00Z",
                    },
                },
                {
                    "type": "tendermint/LightClientAttackEvidence",
                    "value": {"CommonHeight": "3", "TotalVotingPower": "30", "ConflictingBlock": {"x": 1}},
                },
            ]
        },
        "last_commit": {
            "height": "6",
            "round": 0,
            "block_id": BLOCK_ID,
            "signatures": [
                {
                    "block_id_flag": 2,
                    "validator_address": "0B" * 20,
                    "timestamp": "2026-11-27T12:00:00Z",
                    "signature": "c2ln",
                },
                {
                    "block_id_flag": 1,
                    "validator_address": "",
                    "timestamp": "0001-01-01T00:00:00Z",
                    "signature": None,
                },
            ],
        },
    },
}


@contextmanager
def comet(answer: Any) -> Iterator[tuple[CometBlocks, list[Any]]]:
    """Serve one answer to every call; the list has the calls."""
    calls: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            calls.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield CometBlocks(f"http://127.0.0.1:{server.server_port}", 5.0), calls
    finally:
        server.shutdown()
        server.server_close()


def test_a_block_has_everything_that_cometbft_shows() -> None:
    with comet({"result": BLOCK}) as (blocks, calls):
        whole = blocks.block(7)
    assert whole is not None
    assert calls[0]["method"] == "block"
    assert whole.id.hash == whole.id.part_set_header.hash == bytes.fromhex(HASH)
    block = whole.block
    assert (block.header.height, block.header.version.app, list(block.data.txs)) == (7, 1, [b"hello"])
    assert block.header.proposer_address == b"\x0a" * 20
    twice, attack = block.evidence.evidence
    assert twice.duplicate_vote_evidence.vote_a.signature == b"sig"
    assert twice.duplicate_vote_evidence.vote_a.timestamp.nanos == 123_456_789
    assert twice.duplicate_vote_evidence.validator_power == 10
    assert attack.light_client_attack_evidence.common_height == 3
    signed, absent = block.last_commit.signatures
    assert (signed.signature, absent.block_id_flag, absent.signature) == (b"sig", 1, b"")


def test_what_cometbft_does_not_have_is_none() -> None:
    with comet({"error": {"code": -32603, "message": "Internal error", "data": "height 9 must be less"}}) as (
        blocks,
        _,
    ):
        assert blocks.block(9) is None
        with pytest.raises(Refusal, match="is not a query"):
            blocks.search_txs("x", 1, 10, True)
    with comet({"result": {"block_id": BLOCK_ID, "block": None}}) as (blocks, _):
        assert blocks.block(9) is None


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b"<html>",
        {"result": {"block": {"header": {"height": "x"}}, "block_id": BLOCK_ID}},
        {"result": {"block": {"header": {"app_hash": "zz"}}, "block_id": BLOCK_ID}},
        {"result": {"block": {"evidence": {"evidence": [{"type": "new", "value": {}}]}}, "block_id": BLOCK_ID}},
        {"result": {"block": [], "block_id": []}} | {"result": {"block": [1]}},
        {},
    ],
)
def test_a_wrong_answer_is_unreachable_and_no_bug(answer: Any) -> None:
    with comet(answer) as (blocks, _):
        for read in (blocks.about, lambda: blocks.block(7), lambda: blocks.validators(7)):
            with pytest.raises(Refusal) as refused:
                read()
            assert refused.value.code == UNREACHABLE


def test_a_cometbft_that_is_away_is_unreachable() -> None:
    with pytest.raises(Refusal) as refused:
        CometBlocks("http://127.0.0.1:9", 0.5).about()
    assert refused.value.code == UNREACHABLE


def test_a_block_is_read_once_and_few_are_kept() -> None:
    with comet({"result": BLOCK}) as (blocks, calls):
        first = blocks.block(7)
        assert blocks.block(7) is first
        assert len(calls) == 1
        for height in range(8, 30):
            blocks.block(height)
        assert len(blocks._kept) == comet_blocks._BLOCKS_KEPT
        assert blocks.block(7) == first
        assert len(calls) == 24


def test_a_slow_cometbft_holds_few_threads() -> None:
    blocks = CometBlocks("http://127.0.0.1:9", 5.0)
    for _ in range(comet_blocks._CALLS_MAX):
        blocks._slots.acquire()
    began = time.monotonic()
    with pytest.raises(Refusal, match="does not answer"):
        blocks.about()
    assert time.monotonic() - began < 3
