"""Four validators over CometBFT: one is stopped, is jailed, comes back, and frees itself."""

import json
from pathlib import Path

import pytest

from chain.app.homes import genesis_path
from tests.integration.test_join import init, validators_of
from tests.support.node_process import START_SECONDS, Node
from tests.support.small_chain import CHAIN_ID, COINS, key
from tests.support.waiting import wait_until
from tests.unit.assay.support import assay

WINDOW, LEAST, JAIL = 60, 3 * 10**17, 5
STAKE = 100_000_000


def shorten(genesis: Path) -> None:
    """Let the chain jail a validator that misses more than 70 % of 60 blocks, for five seconds."""
    document = json.loads(genesis.read_text())
    document["app_state"]["params"]["slashing"] |= {
        "signed_blocks_window": WINDOW,
        "min_signed_per_window": LEAST,
        "downtime_jail_duration": JAIL,
    }
    genesis.write_text(json.dumps(document))


@pytest.mark.nightly  # the set leaves and takes back a validator in test_join.py, and the rules are in unit tests
@pytest.mark.network
def test_a_validator_that_is_stopped_is_jailed_and_comes_back(tmp_path: Path) -> None:
    homes = [tmp_path / name for name in ("alpha", "beta", "gamma", "delta")]
    beta = homes[1]
    for home in homes[:2]:
        assert assay("keys", "add", "op", "--keyring", "test", home=home).code == 0
    (row,) = assay("keys", "list", "--keyring", "test", "--output", "json", home=beta).json
    founders: list[str] = []
    for address, home in zip((row["address"], key(1).address, key(2).address), homes[1:], strict=True):
        told = init(home)
        founders += ["--validator", f"{home.name},{address},{told['key']},{told['beacon_key']},{STAKE}"]
    words = ("--new-chain", CHAIN_ID, "--keyring", "test", "--account", f"{row['address']}={COINS}")
    made = init(homes[0], *words, *founders)
    shorten(genesis_path(homes[0]))
    for home in homes[1:]:
        init(home, "--genesis", genesis_path(homes[0]), "--peers", made["peer"])
    nodes = {}
    try:
        for home in homes:
            nodes[home] = Node(home, "managed")
        first = nodes[homes[0]]
        first.wait_for_height(3)
        before = validators_of(first)
        assert len(before) == 4
        nodes.pop(beta).close()
        wait_until(lambda: len(validators_of(first)) == 3, "a set without the stopped validator", START_SECONDS)
        nodes[beta] = Node(beta, "managed")
        nodes[beta].wait_for_height(first.height())

        def unjail() -> bool:
            ran = assay("tx", "slashing", "unjail", "--keyring", "test", "--output", "json", home=beta)
            assert ran.code == 0 or "still jailed" in ran.refusal, ran.refusal
            return ran.code == 0

        wait_until(unjail, "the end of the jail", START_SECONDS)
        wait_until(lambda: len(validators_of(first)) == 4, "the validator in the set again", START_SECONDS)
        lost = sum(before.values()) - sum(validators_of(first).values())
        assert lost == STAKE // 100 // 10**6
        first.wait_for_height(first.height() + 5)
        assert len(validators_of(first)) == 4
    finally:
        for node in nodes.values():
            node.close()
