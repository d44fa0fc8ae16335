"""The faucet over HTTP, with a node behind it."""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import requests
import uvicorn
from cosmpy.aerial.client import NetworkConfig
from cosmpy.aerial.faucet import FaucetApi
from cosmpy.crypto.address import Address

from chain.app.rest.connections import make_config
from chain.client.client import ChainClient
from chain.client.sender import TxSender
from domain.vocabulary import POTS
from localnet.faucet import REMEMBERED, Faucet, Limits, TooSoon, caller_of
from tests.support.solo_node import ALICE, CHAIN_ID, RICH, making_blocks, running
from tests.support.waiting import wait_until
from tests.unit.assay.support import assay
from wire.keys import Key

AMOUNT = 10_000_000
MODULE = next(pot.address for pot in POTS.values() if pot.address)
"""An address that plain transfers cannot reach."""
WAIT, DAY = 3_600, 86_400


def account(number: int) -> str:
    return Key(bytes(30) + bytes([7, number])).address


@contextmanager
def faucet(folder: Path, limits: Limits) -> Iterator[str]:
    """Run a faucet of Alice's coins on a node; yield its address."""
    with running(folder) as node, making_blocks(node.engine), ChainClient(node.address) as client:
        app = Faucet(TxSender(client, ALICE), CHAIN_ID, limits, time.monotonic).app
        server = uvicorn.Server(make_config(app))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
            thread.start()
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                server.should_exit = True
                thread.join()


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with faucet(tmp_path, Limits(amount=AMOUNT, wait=WAIT, daily=40 * AMOUNT, of_caller=30)) as found:
        yield found


def ask_at_once(url: str, addresses: Sequence[str]) -> dict[str, requests.Response]:
    """Return the answers to requests of several people at the same time."""
    with ThreadPoolExecutor(len(addresses)) as pool:
        asked = {a: pool.submit(requests.post, f"{url}/credit", json={"address": a}, timeout=60) for a in addresses}
    return {address: future.result() for address, future in asked.items()}


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


def test_cosmpy_asks_for_coins(url: str) -> None:
    client = FaucetApi(replace(NetworkConfig.fetchai_stable_testnet(), faucet_url=url))
    client.POLL_INTERVAL, client.FINAL_WAIT_INTERVAL = 0.1, 0
    client.get_wealth(Address(account(20)))
    claims = f"{url}/api/v3/claims"
    again = requests.post(claims, json={"address": account(20)}, timeout=20)
    assert (again.status_code, "just got coins" in again.json()["error"]) == (429, True)
    unknown = requests.get(f"{claims}/1", timeout=20)
    assert (unknown.status_code, "no such claim" in unknown.json()["error"]) == (404, True)


def test_a_claim_says_that_it_failed(tmp_path: Path) -> None:
    with faucet(tmp_path, Limits(amount=2 * RICH, wait=WAIT, daily=4 * RICH)) as url:
        uuid = requests.post(f"{url}/api/v3/claims", json={"address": account(1)}, timeout=20).json()["uuid"]

        def claim() -> dict[str, str]:
            found: dict[str, str] = requests.get(f"{url}/api/v3/claims/{uuid}", timeout=20).json()["claim"]
            return found

        wait_until(lambda: claim()["status"] != "pending", "the end of the claim", 60)
        assert claim()["status"] == "failed"
        assert "insufficient" in claim()["error"]


def test_people_who_ask_at_once_share_transactions(url: str) -> None:
    answers = ask_at_once(url, [account(number) for number in range(2, 14)])
    assert {answer.status_code for answer in answers.values()} == {200}
    assert len({answer.json()["tx"] for answer in answers.values()}) < len(answers)


def test_requests_that_fail_together_are_sent_alone(tmp_path: Path) -> None:
    """The coins suffice for two of four, so two are served, whichever shared a transaction."""
    amount = RICH * 2 // 5
    with faucet(tmp_path, Limits(amount=amount, wait=WAIT, daily=10 * RICH)) as url:
        answers = ask_at_once(url, [account(number) for number in range(2, 6)])
        assert sorted(answer.status_code for answer in answers.values()) == [200, 200, 400, 400]
        refused = [answer.json()["error"] for answer in answers.values() if answer.status_code == 400]
        assert all("insufficient" in text for text in refused)
        # They count, so that no one makes the faucet send in vain again and again.
        last = next(address for address, answer in answers.items() if answer.status_code == 400)
        assert requests.post(f"{url}/credit", json={"address": last}, timeout=20).status_code == 429


def test_a_module_gets_no_coins(url: str) -> None:
    answer = requests.post(f"{url}/credit", json={"address": MODULE}, timeout=20)
    assert (answer.status_code, "is a module's address" in answer.json()["error"]) == (400, True)


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
