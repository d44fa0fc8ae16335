"""The faucet over HTTP, with a node behind it."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import uvicorn

from chain.client.client import ChainClient
from chain.client.sender import TxSender
from domain.vocabulary import POTS
from localnet.faucet import REMEMBERED, Faucet, Limits, TooSoon, caller_of
from tests.support.solo_node import ALICE, CHAIN_ID, making_blocks, running
from tests.unit.assay.support import assay
from wire.keys import Key

AMOUNT = 10_000_000
MODULE = next(pot.address for pot in POTS.values() if pot.address)
"""An address that plain transfers cannot reach."""
WAIT, DAY = 3_600, 86_400


def account(number: int) -> str:
    return Key(bytes(30) + bytes([7, number])).address


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    limits = Limits(amount=AMOUNT, wait=WAIT, daily=40 * AMOUNT, of_caller=30)
    with running(tmp_path) as node, making_blocks(node.engine), ChainClient(node.address) as client:
        faucet = Faucet(TxSender(client, ALICE), CHAIN_ID, limits, time.monotonic)
        config = uvicorn.Config(faucet.app, lifespan="off", log_config=None, ws="none")
        server = uvicorn.Server(config)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
            thread.start()
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                server.should_exit = True
                thread.join()


def test_it_sends_coins_once(url: str) -> None:
    status = requests.get(f"{url}/status", timeout=20).json()
    assert (status["chainId"], status["availableTokens"]) == (CHAIN_ID, ["uassay"])
    assert status["holder"] == {"address": ALICE.address}
    body = {"address": account(1), "denom": "uassay"}
    first = requests.post(f"{url}/credit", json=body, timeout=20)
    assert (first.status_code, first.json()["amount"]) == (200, str(AMOUNT))
    again = requests.post(f"{url}/credit", json=body, timeout=20)
    assert again.status_code == 429
    assert "has just got coins" in again.json()["error"]
    assert 0 < int(again.headers["retry-after"]) <= WAIT


def test_who_asks_at_once_shares_transactions_and_a_bad_request_stops_no_other(url: str) -> None:
    """An address of a module cannot get coins: its request fails alone."""
    addresses = [account(number) for number in range(2, 14)] + [MODULE]
    answers: dict[str, requests.Response] = {}

    def ask(address: str) -> None:
        answers[address] = requests.post(f"{url}/credit", json={"address": address}, timeout=60)

    threads = [threading.Thread(target=ask, args=(address,)) for address in addresses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "is a module's address" in answers.pop(MODULE).json()["error"]
    assert {answer.status_code for answer in answers.values()} == {200}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "body: is not JSON"),
        (b"[]", "address: is missing"),
        (b'{"address": 5}', "address: is missing"),
        (b'{"address": "assay1x"}', "address"),
        (b'{"address": "' + account(1).encode() + b'", "denom": "uatom"}', "denom: is not uassay"),
        (b"[" * 1_000, "body"),
        (b" " * 2_000, "body: is too large"),
    ],
    ids=["nothing", "a list", "a number", "no address", "another coin", "deep", "large"],
)
def test_what_is_no_request_is_refused(url: str, data: bytes, reason: str) -> None:
    answer = requests.post(f"{url}/credit", data=data, timeout=20)
    assert answer.status_code == 400
    assert reason in answer.json()["error"]
    assert "Traceback" not in answer.text


# --- limits --------------------------------------------------------------------------------------


def test_a_day_has_a_limit_for_all() -> None:
    limits = Limits(amount=4, wait=WAIT, daily=10)
    limits.take("a", "1", 0)
    limits.take("b", "2", 1)
    with pytest.raises(TooSoon, match="in a day") as told:
        limits.take("c", "3", 2)
    assert told.value.seconds == DAY - 2
    limits.take("c", "3", DAY)


def test_an_address_and_a_caller_wait() -> None:
    limits = Limits(amount=1, wait=WAIT, daily=100, of_caller=2)
    limits.take("a", "1", 0)
    with pytest.raises(TooSoon, match="just got"):
        limits.take("a", "2", WAIT - 1)
    limits.take("b", "1", 10)
    with pytest.raises(TooSoon, match="several addresses"):
        limits.take("c", "1", 20)
    limits.take("c", "1", WAIT)


def test_coins_that_were_not_sent_count_for_nothing() -> None:
    limits = Limits(amount=1, wait=WAIT, daily=1, of_caller=1)
    limits.take("a", "1", 0)
    limits.give_back("a", "1")
    limits.take("a", "1", 1)


def test_what_is_remembered_is_bounded() -> None:
    limits = Limits(amount=1, wait=WAIT, daily=10**9)
    for number in range(REMEMBERED + 5):
        limits.take(str(number), str(number), 0)
    assert len(limits._addresses) == len(limits._callers) == REMEMBERED


def test_a_network_of_ipv6_is_one_caller() -> None:
    assert caller_of("2001:db8::1") == caller_of("2001:db8::ffff:1")
    assert caller_of("2001:db8:1::1") != caller_of("2001:db8::1")
    assert caller_of("::ffff:10.0.0.1") == caller_of("10.0.0.1") == "10.0.0.1"


def test_the_day_must_be_worth_one_request(tmp_path: Path) -> None:
    ran = assay("faucet", "--amount", "5ASSAY", "--daily", "1ASSAY", home=tmp_path)
    assert (ran.code, "give a larger --daily" in ran.err) == (1, True)
