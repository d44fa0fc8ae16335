"""A public test network as ``docs/operate/testnet.md`` founds it: seven validators from seven homes.

Six found it. The seventh gets coins from the faucet and joins; stake moves to it, and what it can sell with it; one
leaves; one is absent, is jailed, and comes back. The chain goes on at each step.
"""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import requests

from chain.app.homes import genesis_path
from tests.integration.test_join import Joining, init, validators_of
from tests.support.child import Command
from tests.support.node_process import Node, free_ports
from tests.support.waiting import wait_until
from tests.unit.assay.support import assay

CHAIN_ID = "our-test-1"
NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
STAKE = 100_000_000
SECONDS = 600.0
RULES = {
    "slashing": {"signed_blocks_window": 20, "min_signed_per_window": 3 * 10**17, "downtime_jail_duration": 5},
    "registry": {"beacon_delay": 10},
}
"""Parameters that the first founder changes in the genesis file. A validator that misses more than 70 % of 20 blocks is
jailed for five seconds, and a beacon key is valid after ten blocks. All else is as on any public network.
"""


class Founder:
    """The home of a validator, and its node while that runs."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.node: Node | None = None
        assert assay("keys", "add", "op", "--keyring", "test", home=home).code == 0
        (row,) = assay("keys", "list", "--keyring", "test", "--output", "json", home=home).json
        self.address: str = row["address"]

    def line(self) -> str:
        """Return the line that a founder sends to the first one, as `assay node init` prints it, with its stake."""
        ports = free_ports()
        listen = ("--p2p-port", ports.p2p, "--rpc-port", ports.rpc, "--grpc-port", ports.grpc)
        ran = assay("node", "init", self.home.name, "--from", "op", "--keyring", "test", *listen, home=self.home)
        assert ran.code == 0, ran.err
        printed = re.search(r"--validator (\S+),STAKE", "".join(ran.out.split("\n")))
        assert printed, ran.out
        return f"{printed[1]},{STAKE}"

    def start(self) -> Node:
        self.node = Node(self.home, "managed")
        return self.node

    def stop(self) -> None:
        if self.node is not None:
            self.node.close()
            self.node = None

    def tx(self, *words: object) -> dict[str, Any]:
        ran = assay("tx", *words, "--keyring", "test", "--output", "json", home=self.home)
        assert ran.code == 0, ran.err
        receipt: dict[str, Any] = ran.json
        return receipt

    def query(self, *words: object) -> Any:
        ran = assay(*words, "--output", "json", home=self.home)
        assert ran.code == 0, ran.err
        return ran.json


@contextmanager
def founded(folder: Path) -> Iterator[tuple[list[Founder], str, str]]:
    """Yield the founders with their nodes, the genesis file's path, and the first one's address for peers."""
    founders = [Founder(folder / name) for name in NAMES]
    first = founders[0]
    assert assay("keys", "add", "faucet", "--keyring", "test", home=first.home).code == 0
    listed = assay("keys", "list", "--keyring", "test", "--output", "json", home=first.home).json
    faucet = next(row["address"] for row in listed if row["name"] == "faucet")
    others = [word for founder in founders[1:] for word in ("--validator", founder.line())]
    words = ("--new-chain", CHAIN_ID, "--from", "op", "--keyring", "test", "--stake", "100ASSAY", *others)
    made = init(first.home, *words, "--account", f"{faucet}=1000ASSAY")
    published = folder / "genesis.json"
    document = json.loads(genesis_path(first.home).read_text())
    for component, values in RULES.items():
        document["app_state"]["params"][component] |= values
    published.write_text(json.dumps(document))
    genesis_path(first.home).write_bytes(published.read_bytes())
    for founder in founders[1:]:
        init(founder.home, "--genesis", published, "--peers", made["peer"])
    assert len({sha256(genesis_path(founder.home).read_bytes()).digest() for founder in founders}) == 1
    with ExitStack() as stack:
        for founder in founders:
            stack.callback(founder.stop)
            founder.start()
        yield founders, str(published), made["peer"]


def size_of_set(node: Node) -> int:
    return len(validators_of(node))


def goes_on(node: Node) -> None:
    node.wait_for_height(node.height() + 3)


def wait_for_set(node: Node, size: int, what: str) -> None:
    wait_until(lambda: size_of_set(node) == size, what, SECONDS)
    goes_on(node)


@pytest.mark.network
@pytest.mark.nightly
def test_seven_validators_from_seven_homes(tmp_path: Path) -> None:
    with founded(tmp_path) as (founders, genesis, peer):
        alpha, beta, gamma, delta = founders[:4]
        assert alpha.node is not None
        first = alpha.node
        first.wait_for_height(3)
        assert list(validators_of(first).values()) == [100] * 6

        joiner = Founder(tmp_path / "eta")
        page = f"127.0.0.1:{free_ports().p2p}"
        offered = ("faucet", "--listen", page, "--amount", "200ASSAY", "--daily", "1000ASSAY", "--from", "faucet")
        with Command(alpha.home, *offered, "--keyring", "test") as faucet:
            faucet.wait_for(page)
            body = {"address": joiner.address, "denom": "uassay"}
            assert requests.post(f"http://{page}/credit", json=body, timeout=60).status_code == 200

        ports, endpoint = free_ports(), f"127.0.0.1:{free_ports().p2p}"
        listen = ("--p2p-port", ports.p2p, "--rpc-port", ports.rpc, "--grpc-port", ports.grpc, "--listen", endpoint)
        bid = ("--bond", "5ASSAY", "--price", "200000ASSAY", "--capacity", 10**12, "--slot-speed", 10**9)
        join = ("validator", "join", "eta", "--genesis", genesis, "--peers", peer, "--stake", "100ASSAY")
        with Joining(joiner.home, *join, *listen, *bid, "--keyring", "test") as joining:
            joining.read_until("bid")
            wait_for_set(first, 7, "the seventh validator in the set")

            # Stake moves, and what the validators can sell with it.
            (before,) = joiner.query("bid", "list")
            beta.tx("staking", "redelegate", beta.address, joiner.address, "50ASSAY")
            (after,) = joiner.query("bid", "list")
            assert 2 * after["backed"] == 3 * before["backed"]
            wait_until(lambda: sorted(validators_of(first).values())[::6] == [50, 150], "the new powers", SECONDS)
            goes_on(first)
            moved = joiner.query("query", "staking", "redelegations", beta.address)
            assert len(moved["redelegation_responses"]) == 1

            gamma.tx("staking", "undelegate", gamma.address, "100ASSAY")
            wait_for_set(first, 6, "a set without the one that left")
            leaving = gamma.query("query", "staking", "unbonding-delegations", gamma.address)
            assert len(leaving["unbonding_responses"]) == 1

            delta.stop()
            wait_for_set(first, 5, "a set without the absent one")
            back = delta.start()
            back.wait_for_height(first.height())
            told = assay("status", "--keyring", "test", "--output", "json", home=delta.home).json
            assert "consensus_jailed" in {problem["code"] for problem in told["problems"]}

            def unjail() -> bool:
                ran = assay("tx", "slashing", "unjail", "--keyring", "test", "--output", "json", home=delta.home)
                assert ran.code == 0 or "still jailed" in ran.refusal, ran.refusal
                return ran.code == 0

            wait_until(unjail, "the end of the jail", SECONDS)
            wait_for_set(first, 6, "the jailed one in the set again")
        # The seventh is stopped: the others have more than two thirds of the power, and go on.
        goes_on(first)
