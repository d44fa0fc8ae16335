"""The REST gateway as wallets, explorers and strangers meet it."""

import base64
import json
import socket
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chain.app.rest.gateway import BODY_BYTES_MAX
from chain.app.rest.routes import make_routes
from chain.app.services.table import METHODS
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from tests.support.solo_node import ALICE, BOB, CHAIN_ID, RICH, STRANGER
from tests.unit.chain.app.rest.conftest import Rest
from tests.unit.chain.app.services.test_services import send
from wire.tx import build_unsigned_tx

HEIGHT = "x-cosmos-block-height"
BALANCES = "/cosmos/bank/v1beta1/balances/"


def refused(answer: Any, http: int, code: int, *words: str) -> None:
    """Check an error in the SDK's form."""
    assert answer.status_code == http, answer.text
    body = answer.json()
    assert list(body) == ["code", "message", "details"]
    assert (body["code"], body["details"]) == (code, [])
    assert all(word in body["message"] for word in words), body
    assert "Traceback" not in answer.text


def test_what_keplr_asks_before_a_transfer(rest: Rest) -> None:
    info = rest.get("/cosmos/base/tendermint/v1beta1/node_info").json()
    assert info["default_node_info"]["network"] == CHAIN_ID
    account = rest.get(f"/cosmos/auth/v1beta1/accounts/{ALICE.address}").json()["account"]
    assert account == {
        "@type": "/cosmos.auth.v1beta1.BaseAccount",
        "address": ALICE.address,
        "pub_key": None,
        "account_number": "0",
        "sequence": "0",
    }
    balances = rest.get(f"{BALANCES}{BOB.address}?pagination.limit=1000")
    assert balances.json() == {
        "balances": [{"denom": "uassay", "amount": str(RICH)}],
        "pagination": {"next_key": "", "total": "1"},
    }
    assert balances.headers["content-type"] == "application/json"
    spendable = rest.get(f"/cosmos/bank/v1beta1/spendable_balances/{BOB.address}").json()
    assert spendable == balances.json()


def test_a_transfer_is_simulated_sent_and_found(rest: Rest) -> None:
    raw = build_unsigned_tx([MsgSend(ALICE.address, BOB.address, (Coin("uassay", 7),))], ALICE.pub_key, sequence=0)
    simulated = rest.post("/cosmos/tx/v1beta1/simulate", json={"tx_bytes": base64.b64encode(raw).decode()}).json()
    assert int(simulated["gas_info"]["gas_used"]) > 0
    signed = send(rest.node, 0)
    body = {"tx_bytes": base64.b64encode(signed).decode(), "mode": "BROADCAST_MODE_SYNC"}
    sent = rest.post("/cosmos/tx/v1beta1/txs", json=body).json()["tx_response"]
    assert (sent["code"], sent["codespace"]) == (19, "sdk"), "the mempool has it already"
    rest.node.engine.make_block()
    found = rest.get(f"/cosmos/tx/v1beta1/txs/{sent['txhash']}").json()
    (message,) = found["tx"]["body"]["messages"]
    assert message["@type"] == "/cosmos.bank.v1beta1.MsgSend"
    assert found["tx_response"]["tx"]["body"]["messages"] == [message]
    height = found["tx_response"]["height"]
    listed = rest.get("/cosmos/tx/v1beta1/txs", params={"query": f"tx.height={height}"}).json()
    assert sent["txhash"] in [each["txhash"] for each in listed["tx_responses"]]
    assert rest.get(f"/cosmos/tx/v1beta1/txs/block/{height}").json()["block"]["header"]["height"] == height
    decoded = rest.post("/cosmos/tx/v1beta1/decode", json={"txBytes": body["tx_bytes"]}).json()
    assert decoded["tx"] == found["tx"]
    assert rest.post("/cosmos/tx/v1beta1/encode", json=decoded).json() == {"tx_bytes": body["tx_bytes"]}


def test_answers_name_their_height_and_a_height_can_be_asked(rest: Rest) -> None:
    rest.node.engine.make_block()
    newest = rest.node.app.view().head.height
    answer = rest.get(BALANCES + ALICE.address)
    assert answer.headers[HEIGHT] == answer.headers[f"grpc-metadata-{HEIGHT}"] == str(newest)
    before = rest.get(BALANCES + ALICE.address, headers={HEIGHT: str(newest - 1)})
    assert (before.status_code, before.headers[HEIGHT]) == (200, str(newest - 1))
    refused(rest.get(BALANCES + ALICE.address, headers={HEIGHT: "99999"}), 400, 3, "99999 is not available")
    for wrong in ("x", "-1", "1.5", "9" * 40):
        refused(rest.get(BALANCES + ALICE.address, headers={HEIGHT: wrong}), 400, 3)


def test_errors_are_those_of_the_sdk(rest: Rest) -> None:
    refused(rest.get(f"/cosmos/auth/v1beta1/accounts/{STRANGER.address}"), 404, 5, "not found")
    refused(rest.get("/cosmos/auth/v1beta1/accounts/cosmos1abc"), 400, 3, "address")
    refused(rest.get("/cosmos/group/v1/groups"), 501, 12)
    refused(rest.get("/"), 501, 12)
    refused(rest.post(BALANCES + ALICE.address, json={}), 501, 12)
    refused(rest.get(f"{BALANCES}{ALICE.address}?nonsense=1"), 400, 3, "nonsense", "is not a parameter")
    refused(rest.get(f"{BALANCES}{ALICE.address}?pagination.limit=x"), 400, 3, "limit")
    refused(rest.get(f"{BALANCES}{ALICE.address}?pagination.limit=1&pagination.limit=2"), 400, 3, "twice")
    refused(rest.get(f"{BALANCES}{ALICE.address}?resolve_denom=perhaps"), 400, 3, "true or false")
    refused(rest.get(f"{BALANCES}{ALICE.address}?address={BOB.address}"), 400, 3, "twice")
    for body in (b"{", b"[]", b"\xff", b'{"tx_bytes": 7}', b'{"x": 1}', b"[" * 100_000, b'{"mode": "NEVER"}'):
        refused(rest.post("/cosmos/tx/v1beta1/txs", data=body), 400, 3)
    refused(rest.post("/cosmos/tx/v1beta1/txs", data=b" " * (BODY_BYTES_MAX + 1)), 413, 8, "too large")


def test_queries_of_this_chain_have_paths_of_their_names(rest: Rest) -> None:
    status = rest.get("/assay/registry/v1/status").json()
    assert (status["chain_id"], status["solo"]) == (CHAIN_ID, True)
    assert rest.get("/assay/market/v1/orders?limit=5").json() == {"orders": []}
    order = "ab" * 32
    refused(rest.get(f"/assay/market/v1/order?order_id={order}"), 404, 5, "no such order")
    in_base64 = base64.b64encode(bytes.fromhex(order)).decode()
    refused(rest.get("/assay/market/v1/order", params={"order_id": in_base64}), 404, 5, "no such order")
    refused(rest.post("/assay/market/v1/order", json={"order_id": in_base64}), 404, 5, "no such order")
    refused(rest.get("/assay/registry/v1/follow_events"), 501, 12)


def test_pages_of_other_origins_may_read_if_they_are_listed(rest: Rest) -> None:
    origin = {"Origin": "https://wallet.example"}
    answer = rest.get("/assay/registry/v1/status", headers=origin)
    assert answer.headers["access-control-allow-origin"] == origin["Origin"]
    assert HEIGHT in answer.headers["access-control-expose-headers"]
    import requests

    asked = {**origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    preflight = requests.options(rest.url + "/cosmos/tx/v1beta1/txs", headers=asked, timeout=20)
    assert preflight.status_code == 200
    assert "POST" in preflight.headers["access-control-allow-methods"]
    stranger = rest.get("/assay/registry/v1/status", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in stranger.headers


def test_the_openapi_document_has_every_route(rest: Rest) -> None:
    document = rest.get("/openapi.json").json()
    routes = make_routes(METHODS.values())
    listed = {(verb.upper(), path) for path, verbs in document["paths"].items() for verb in verbs}
    assert listed == {(route.verb, route.path.replace("=**}", "}")) for route in routes}
    text = json.dumps(document)
    names = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert names <= set(document["components"]["schemas"])
    ids = [operation["operationId"] for verbs in document["paths"].values() for operation in verbs.values()]
    assert len(ids) == len(set(ids))


def test_every_route_answers_or_refuses_without_parameters(rest: Rest) -> None:
    for route in make_routes(METHODS.values()):
        path = route.path
        for field in route.fields:
            path = path.replace("{" + field + "=**}", "1").replace("{" + field + "}", "1")
        answer = rest.get(path) if route.verb == "GET" else rest.post(path, json={})
        assert answer.status_code in (200, 400, 404, 501, 503), (path, answer.text)
        assert "internal error" not in answer.text, path


PATHS = sorted({route.path.split("{")[0] for route in make_routes(METHODS.values())})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(PATHS) | st.text(max_size=30),
    rest_of_path=st.text(max_size=20),
    query=st.dictionaries(st.text(max_size=12) | st.sampled_from(["limit", "height", "hash"]), st.text(max_size=12)),
    body=st.binary(max_size=60) | st.recursive(st.none() | st.text(max_size=9), st.lists).map(json.dumps),
)
def test_random_requests_are_answered_without_a_trace(
    rest: Rest, path: str, rest_of_path: str, query: dict[str, str], body: Any
) -> None:
    from urllib.parse import quote

    target = "/" + quote(path.lstrip("/") + rest_of_path, safe="/")
    for answer in (rest.get(target, params=query), rest.post(target, data=body)):
        assert answer.status_code < 600
        assert answer.status_code != 500, answer.text
        assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x00\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"x" * 40_000, b"PRI * HTTP/2.0\r\n\r\n"]
)
def test_bytes_that_are_not_http_end_their_connection_only(rest: Rest, data: bytes) -> None:
    host, port = rest.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as stranger:
        stranger.sendall(data)
        stranger.shutdown(socket.SHUT_WR)
        answer = stranger.recv(65_536)
        assert b"Traceback" not in answer
    assert rest.get("/assay/registry/v1/status").status_code == 200
