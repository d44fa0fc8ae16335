"""`assay query staking|distribution|slashing` and the withdrawal of all rewards, against a solo node."""

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.solo_node import ALICE, BOB, OPERATOR, STRANGER, SoloNode, making_blocks, running
from tests.unit.assay.support import Ran, assay
from wire.address import cons_address, cons_address_text, operator_address

ONE, MINE = operator_address(OPERATOR.address), operator_address(ALICE.address)
KEY = b64encode(bytes([7] * 32)).decode()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoloNode]:
    with running(tmp_path_factory.mktemp("node")) as node, making_blocks(node.engine):
        yield node


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, node: SoloNode) -> Path:
    """A home whose Alice is a validator, delegated 5 ASSAY to the other one, moved 2 and takes 1 out."""
    home = tmp_path_factory.mktemp("home")
    for name, key in (("alice", ALICE), ("op", OPERATOR)):
        secret = home / name
        secret.write_text(key.secret.hex())
        assert assay("keys", "import", name, secret, "--keyring", "test", home=home).code == 0
    described = ("--amount", "2ASSAY", "--moniker", "mine", "--website", "https://mine", "--commission-rate", "0.125")
    for words in (
        ("create-validator", *described, "--pubkey", json.dumps({"key": KEY})),
        ("delegate", ONE, "5ASSAY"),
        ("redelegate", ONE, MINE, "2ASSAY"),
        ("undelegate", ONE, "1ASSAY"),
    ):
        sent = run(home, node, "tx", "staking", *words, "--from", "alice")
        assert sent.code == 0, sent
    return home


def run(home: Path, node: SoloNode, *words: object, output: str = "json") -> Ran:
    return assay(*words, "--keyring", "test", "--output", output, "--node", node.address, home=home)


def query(home: Path, node: SoloNode, *words: object) -> tuple[Any, str]:
    """Return the JSON of a query, and its text for people."""
    found, shown = run(home, node, "query", *words), run(home, node, "query", *words, output="text")
    assert (found.code, shown.code) == (0, 0), (found, shown)
    return found.json, " ".join(shown.out.split())


def test_validators(home: Path, node: SoloNode) -> None:
    found, shown = query(home, node, "staking", "validators")
    assert {each["operator_address"] for each in found["validators"]} == {ONE, MINE}
    assert f"mine │ {MINE} │ 4 ASSAY │ 12.5 % │ unbonded" in shown
    found, _ = query(home, node, "staking", "validators", "--status", "bonded")
    assert [each["operator_address"] for each in found["validators"]] == [ONE]
    for address in (MINE, ALICE.address):
        found, shown = query(home, node, "staking", "validator", address)
        assert found["validator"]["consensus_pubkey"]["key"] == KEY
        for row in ("moniker │ mine", f"consensus key │ {KEY}", "website │ https://mine", "largest commission │ 20 %"):
            assert row in shown, shown
        assert "identity" not in shown, "empty parts of a description are left out"


def test_a_list_has_pages(home: Path, node: SoloNode) -> None:
    found, shown = query(home, node, "staking", "validators", "--limit", 1)
    key = found["pagination"]["next_key"]
    assert f"there are more: add --page-key {key}" in shown
    more, shown = query(home, node, "staking", "validators", "--limit", 1, "--page-key", key)
    assert "there are more" not in shown
    both = found["validators"] + more["validators"]
    assert {each["operator_address"] for each in both} == {ONE, MINE}
    ran = run(home, node, "query", "staking", "validators", "--page-key", "what?")
    assert (ran.code, "is not the key of a page" in ran.err) == (2, True)


def test_delegations_and_coins_that_leave(home: Path, node: SoloNode) -> None:
    found, shown = query(home, node, "staking", "delegations", ALICE.address)
    assert len(found["delegation_responses"]) == 2
    assert f"{ALICE.address} │ {ONE} │ 2 ASSAY" in shown
    assert f"{ALICE.address} │ {MINE} │ 4 ASSAY" in shown
    _, shown = query(home, node, "staking", "delegations-to", ONE)
    assert f"{ALICE.address} │ {ONE} │ 2 ASSAY" in shown
    assert OPERATOR.address in shown
    found, shown = query(home, node, "staking", "unbonding-delegations", ALICE.address)
    (entry,) = found["unbonding_responses"][0]["entries"]
    time = entry["completion_time"][:19].replace("T", " ")
    assert f"{ONE} │ {int(entry['creation_height']):,} │ 1 ASSAY │ {time} UTC" in shown
    _, shown = query(home, node, "staking", "redelegations", ALICE.address)
    assert f"{ONE} │ {MINE} │ 2 ASSAY │ 2" in shown
    for name in ("delegations", "unbonding-delegations", "redelegations"):
        assert query(home, node, "staking", name, BOB.address)[1].endswith(": none")
    _, shown = query(home, node, "staking", "pool")
    assert "bonded │ 12 ASSAY" in shown


def test_parameters(home: Path, node: SoloNode) -> None:
    for component, row in (
        ("staking", "unbonding_time │ 600s"),
        ("distribution", "community_tax │ 0.020000000000000000"),
        ("slashing", "signed_blocks_window │ 2000"),
    ):
        found, shown = query(home, node, component, "params")
        assert row in shown
        assert row.partition(" │ ")[0] in found["params"]


def test_rewards_and_their_withdrawal(home: Path, node: SoloNode) -> None:
    found, shown = query(home, node, "distribution", "rewards", ALICE.address)
    assert [each["validator_address"] for each in found["rewards"]] == sorted((ONE, MINE))
    assert "total" in shown
    assert query(home, node, "distribution", "rewards", BOB.address)[1] == "Rewards: none"
    found, shown = query(home, node, "distribution", "commission", ONE)
    assert ONE in shown
    assert "commission" in found["commission"]
    found, shown = query(home, node, "distribution", "community-pool")
    assert found["pool"][0]["denom"] == "uassay"
    assert shown.startswith("the community pool has 0.")
    assert run(home, node, "tx", "bank", "send", "op", BOB.address, "1uassay", "--fees", "1ASSAY").code == 0

    def balance() -> int:
        return int(run(home, node, "query", "account", ALICE.address).json["balance"])

    before = balance()
    withdrawn = run(home, node, "tx", "distribution", "withdraw-all-rewards", "--from", "alice")
    assert withdrawn.code == 0, withdrawn
    assert balance() > before + 50_000, "Alice has a sixth of the stake of the validator"


def test_who_has_no_rewards_sends_nothing(home: Path, node: SoloNode, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(STRANGER.secret.hex())
    assert assay("keys", "import", "new", secret, "--keyring", "test", home=tmp_path).code == 0
    ran = run(tmp_path, node, "tx", "distribution", "withdraw-all-rewards", "--from", "new")
    assert ran.refusal.endswith("has no rewards")


def test_signing_infos(home: Path, node: SoloNode) -> None:
    address = cons_address_text(cons_address(bytes([5] * 32)))
    found, shown = query(home, node, "slashing", "signing-infos")
    assert [info["address"] for info in found["info"]] == [address]
    assert f"one │ {address} │ 0 │" in shown
    assert shown.endswith("│ never │ └" + shown.rpartition("└")[2])
    found, shown = query(home, node, "slashing", "signing-info", ONE)
    assert found["val_signing_info"]["address"] == address
    for row in ("missed blocks │ 0", "first block that it has to sign │ 1", "last jail │ never"):
        assert row in shown, shown
    missing = run(home, node, "query", "slashing", "signing-info", MINE)
    assert "SigningInfo not found" in missing.refusal
