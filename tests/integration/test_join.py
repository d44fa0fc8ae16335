"""Nodes of several machines: founders who told each other their keys, and one who joins later, over p2p."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import pytest
import requests

from chain.app.comet_rpc import CometBroadcaster
from chain.app.homes import comet_home, genesis_path
from chain.app.signing import read_signed, read_trouble
from domain.params import local_params
from domain.registry.params import RegistryParams
from tests.support.node_process import START_SECONDS, Node, free_ports
from tests.support.small_chain import CHAIN_ID, COINS, key, transfer
from tests.support.waiting import wait_until
from tests.unit.assay.support import assay, in_process


def init(home: Path, *words: object) -> dict[str, Any]:
    ports = free_ports()
    listen = ("--p2p-port", ports.p2p, "--rpc-port", ports.rpc, "--grpc-port", ports.grpc)
    ran = assay("node", "init", home.name, *words, *listen, "--output", "json", home=home)
    assert ran.code == 0, ran.err
    found: dict[str, Any] = ran.json
    return found


def change_beacon_key(home: Path, node: Node) -> None:
    """A running validator changes its beacon key, goes on proposing with the new one, and gives it up."""

    def send(command: str, *words: object) -> dict[str, Any]:
        ran = assay("node", command, *words, "--keyring", "test", "--output", "json", home=home)
        assert ran.code == 0, ran.err
        found: dict[str, Any] = ran.json
        return found

    def proposed_since(height: int) -> int:
        """Return how many reveals of this validator's stand in blocks from a height on."""
        query = f"\"beacon.operator='{operator}' AND tx.height>={height}\""
        url = f"{node.ready['rpc']}/tx_search"
        answer = requests.get(url, params={"query": query}, timeout=5)
        return int(answer.json()["result"]["total_count"])

    listed = assay("keys", "list", "--keyring", "test", "--output", "json", home=home).json
    (operator,) = [row["address"] for row in listed]
    added = send("new-beacon-key")
    valid_from = added["height"] + local_params().of(RegistryParams).beacon_delay
    wait_until(lambda: proposed_since(valid_from) > 1, "blocks with the new key", START_SECONDS)
    revoked = send("revoke-beacon-key", added["beacon_key"])
    node.wait_for_height(revoked["height"] + 5)
    assert proposed_since(revoked["height"] + 1) == 0


def give_key(source: Path, target: Path) -> None:
    """Copy a validator's consensus key into another home, which has signed nothing."""
    name = "node/config/priv_validator_key.json"
    (target / name).write_bytes((source / name).read_bytes())


@pytest.mark.network
@pytest.mark.nightly  # test_seven.py has founders and followers, too; the next test has one that joins
def test_two_found_a_chain_and_a_third_follows_it(tmp_path: Path) -> None:
    alpha, beta, gamma, copy = (tmp_path / name for name in ("alpha", "beta", "gamma", "copy"))
    assert assay("keys", "add", "op", "--keyring", "test", home=alpha).code == 0
    told = init(beta)
    founder = f"beta,{key(3).address},{told['key']},{told['beacon_key']},100000000"
    rich = f"{key(2).address}={COINS}"  # the third account of this genesis
    words = ("--new-chain", CHAIN_ID, "--keyring", "test", "--validator", founder)
    # Of the two families of addresses, both: peers and clients reach this one over IPv6.
    made = init(alpha, *words, "--account", rich, "--host", "::1", "--grpc-host", "::1")
    assert "@[::1]:" in made["peer"]
    for home in (beta, gamma):
        init(home, "--genesis", genesis_path(alpha), "--peers", made["peer"])
    nodes = []
    try:
        nodes += [Node(alpha, "managed"), Node(beta, "managed")]
        first, second = nodes
        second.wait_for_height(2)  # with half of the stake each, neither makes a block alone
        sent = CometBroadcaster(second.ready["rpc"]).broadcast_sync(transfer(2, 0, 1, 100))
        assert (sent.code, sent.log) == (0, "")
        wait_until(lambda: first.balance(1) == 100, "the transfer at the other founder")
        nodes.append(Node(gamma, "managed"))
        third = nodes[-1]
        third.wait_for_height(first.height())
        wait_until(lambda: third.balance(1) == 100, "the transfer at the node that joined")
        change_beacon_key(alpha, first)
        init(copy, "--genesis", genesis_path(alpha), "--peers", made["peer"])
        # The validator whose blocks it fetches goes on; the copy of the other one ends before it signs.
        give_key(beta, copy)
        here = in_process("node", "start", home=copy)
        assert "another node of this machine signs with this validator's key" in here.refusal
        second.close()
        elsewhere = in_process("node", "start", home=copy)
        assert elsewhere.code != 0
        # It has half of the power, so CometBFT signs without fetching first: at a height that is long over.
        assert "another CometBFT signs with this validator's key" in elsewhere.refusal
        assert read_trouble(comet_home(copy)) is not None
        signed = read_signed(comet_home(copy))
        assert signed is not None
        assert signed.height < first.height()
    finally:
        for node in nodes:
            node.close()


def validators_of(node: Node) -> dict[str, int]:
    """Return the powers in the consensus, by the base64 of the key."""
    answer = requests.get(f"{node.ready['rpc']}/validators", timeout=5).json()
    return {one["pub_key"]["value"]: int(one["voting_power"]) for one in answer["result"]["validators"]}


def wait_for_fifth(node: Node) -> dict[str, int]:
    wait_until(lambda: len(validators_of(node)) == 5, "the fifth validator in the consensus", START_SECONDS)
    return validators_of(node)


STEPS = ["home", "node", "coins", "validator", "beacon key", "bond", "daemon", "promise", "bonded", "bid"]
"""The steps of ``assay validator join``, as it reports them."""


class Joining:
    """``assay validator join`` as a process; it is stopped with SIGTERM."""

    def __init__(self, home: Path, *words: object) -> None:
        self._log = home / "join.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "assay.cli", *map(str, words), "--output", "json"],
                env=os.environ | {"ASSAY_HOME": str(home), "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def read_until(self, step: str) -> dict[str, Any]:
        """Return the steps that it reports up to ``step``."""
        assert self._process.stdout is not None
        steps: dict[str, Any] = {}
        for line in self._process.stdout:
            said = json.loads(line)
            steps[said["step"]] = said
            if step in steps:
                return steps
        raise AssertionError(self._log.read_text())

    def __exit__(self, *_: object) -> None:
        assert self._process.stdout is not None
        self._process.terminate()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()


@pytest.mark.network
def test_a_fifth_validator_joins_four_and_leaves_again(tmp_path: Path) -> None:
    """It has a key with coins; one command does the rest, and goes on where it was stopped."""
    homes = [tmp_path / name for name in ("alpha", "beta", "gamma", "delta")]
    joiner = tmp_path / "epsilon"
    addresses = []
    for home in (homes[0], joiner):
        assert assay("keys", "add", "op", "--keyring", "test", home=home).code == 0
        (row,) = assay("keys", "list", "--keyring", "test", "--output", "json", home=home).json
        addresses.append(row["address"])
    founders: list[str] = []
    for number, home in enumerate(homes[1:]):
        told = init(home)
        founder = f"{home.name},{key(number).address},{told['key']},{told['beacon_key']},100000000"
        founders += ["--validator", founder]
    words = ("--new-chain", CHAIN_ID, "--keyring", "test", "--account", f"{addresses[1]}={COINS}")
    made = init(homes[0], *words, *founders)
    for home in homes[1:]:
        init(home, "--genesis", genesis_path(homes[0]), "--peers", made["peer"])

    def send(*words: object) -> dict[str, Any]:
        ran = assay(*words, "--keyring", "test", "--output", "json", home=joiner)
        assert ran.code == 0, ran.err
        receipt: dict[str, Any] = ran.json
        return receipt

    ports = free_ports()
    chain = ("--genesis", genesis_path(homes[0]), "--peers", made["peer"])
    listen = ("--p2p-port", ports.p2p, "--rpc-port", ports.rpc, "--grpc-port", ports.grpc)
    bid = ("--bond", "5000ASSAY", "--price", "900000ASSAY", "--capacity", 10**12, "--slot-speed", 10**9)
    endpoint = f"127.0.0.1:{free_ports().p2p}"
    join = ("validator", "join", "epsilon", "--stake", "100ASSAY", "--listen", endpoint, "--keyring", "test")

    nodes = []
    try:
        nodes += [Node(home, "managed") for home in homes]
        first = nodes[0]
        first.wait_for_height(2)
        before = validators_of(first)
        assert len(before) == 4
        with Joining(joiner, *join, *chain, *listen) as joining:
            joining.read_until("validator")  # and it is stopped in the middle
        with Joining(joiner, *join, *bid) as joining:
            steps = joining.read_until("bid")
            assert list(steps) == STEPS
            assert steps["bonded"]["stake"] == 100_000_000
            (power,) = [power for name, power in wait_for_fifth(first).items() if name not in before]
            assert power == 100
            joined = first.height()
            query = f"\"beacon.operator='{addresses[1]}' AND tx.height>={joined}\""

            def proposed() -> int:
                url = f"{first.ready['rpc']}/tx_search"
                return int(requests.get(url, params={"query": query}, timeout=5).json()["result"]["total_count"])

            wait_until(lambda: proposed() > 1, "blocks of the fifth validator", START_SECONDS)
            (placed,) = assay("bid", "list", "--output", "json", home=joiner).json
            assert (placed["validator"], placed["capacity"]) == (addresses[1], 10**12)
            send("tx", "staking", "undelegate", addresses[1], "100ASSAY")
            wait_until(lambda: validators_of(first) == before, "four validators again", START_SECONDS)
        first.wait_for_height(first.height() + 3)
    finally:
        for node in nodes:
            node.close()
