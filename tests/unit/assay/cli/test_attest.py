"""Credentials from the vote on a policy to the release, with the commands, a node and a validator's daemon.

A software TPM signs the evidence, with a key of this test: it is no hardware.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chain.client.client import ChainClient
from domain.attest.queries import AttestationRequest
from domain.attest.records import AttestVerdict
from domain.genesis import Genesis
from tests.support import solo_node
from tests.support.evidence import Authority, SoftTpm
from tests.support.solo_node import ALICE, BOB, OPERATOR, SoloNode, making_blocks, running
from tests.support.waiting import wait_until
from tests.unit.assay.support import Ran, assay
from tests.unit.validator.test_daemon import daemon
from validator.credentials.files import read_file, write_file
from validator.credentials.values import Binding

EXECUTOR = bytes([2]) * 32
PARAMS = {"attest_seats": 1, "attest_seats_min": 1, "attest_beacon_every": 1, "voting_period": 2, "lot_wait": 1}


def short_genesis() -> Genesis:
    """Return a chain with one validator, which can judge evidence, and whose votes are short."""
    genesis = make_genesis()
    validators = tuple(replace(each, audit_speed=10**9, audit_rate=10**9) for each in genesis.validators)
    return replace(genesis, params=genesis.params.replace(**PARAMS), validators=validators)


make_genesis = solo_node.genesis


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoloNode]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solo_node, "genesis", short_genesis)
        with running(tmp_path_factory.mktemp("node")) as node, making_blocks(node.engine):
            yield node


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the keys of Alice, of Bob, and of the validator's operator."""
    for name, key in (("alice", ALICE), ("bob", BOB), ("op", OPERATOR)):
        secret = tmp_path / name
        secret.write_text(key.secret.hex())
        assert run(tmp_path, "keys", "import", name, secret).code == 0
    return tmp_path


def run(home: Path, *words: object, node: SoloNode | None = None, output: str = "json") -> Ran:
    where = ("--node", node.address) if node else ()
    return assay(*words, "--keyring", "test", "--output", output, *where, home=home)


def done(home: Path, node: SoloNode, *words: object) -> Any:
    """Return what a command prints as JSON, which must succeed."""
    ran = run(home, *words, node=node)
    assert ran.code == 0, ran
    return ran.json


def vote(home: Path, node: SoloNode, draft: Path, number: int, *words: object) -> None:
    """Draft a proposal, and let the operator's stake pass it."""
    done(home, node, "tx", "gov", "draft-proposal", draft, "--title", "Credentials", *words)
    done(home, node, "tx", "gov", "submit-proposal", draft, "--from", "alice")
    done(home, node, "tx", "gov", "vote", number, "yes", "--from", "op")
    passed = ("query", "gov", "proposals", "--status", "passed")
    wait_until(lambda: len(done(home, node, *passed)["proposals"]) == number, "the vote")


def test_a_credential_from_the_vote_to_its_release(home: Path, node: SoloNode, tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.json" for name in ("policy", "draft", "binding", "evidence", "other")}
    # Before a vote there is nothing.
    assert "no policy is in force" in run(home, "query", "attest", "beacon", node=node).err
    tpm = SoftTpm(Authority("vendor", days=(0, 3_650)))
    write_file(replace(tpm.policy(), executors=(EXECUTOR,)), files["policy"])
    added = ("--add-policy", "tpm-1", files["policy"], "--valid-for", "1h")
    vote(home, node, files["draft"], 1, *added)
    (listed,) = done(home, node, "query", "attest", "policies")
    assert (listed["name"], listed["valid_for"], listed["withdrawn_at"]) == ("tpm-1", 3_600, 0)
    assert "sha256:0,1" in run(home, "query", "attest", "policy", "tpm-1", node=node, output="text").out
    wait_until(lambda: run(home, "query", "attest", "beacon", node=node).code == 0, "a beacon")
    # The owner binds its evidence to itself and to the newest beacon.
    bound = done(home, node, "provider", "binding", "--policy", "tpm-1", "--file", files["binding"], "--from", "bob")
    binding = read_file(Binding, files["binding"])
    assert (binding.address, binding.executor, binding.certificate) == (BOB.address, EXECUTOR, bytes(32))
    assert bytes.fromhex(bound["report_data"]) == binding.report_data()[:32]
    write_file(tpm.evidence(report_data=binding.report_data()), files["evidence"])
    asks = ("provider", "attest", "--policy", "tpm-1", "--binding", files["binding"])
    # Evidence that would be refused is not sent.
    write_file(tpm.evidence(report_data=replace(binding, address=ALICE.address).report_data()), files["other"])
    refused = run(home, *asks, "--evidence", files["other"], "--from", "bob", node=node)
    assert refused.code == 1
    assert "wrong_report_data" in refused.err
    assert run(home, *asks, "--evidence", files["evidence"], "--from", "alice", node=node).code == 2
    done(home, node, *asks, "--evidence", files["evidence"], "--from", "bob")
    with daemon(tmp_path / "daemon", node.address), ChainClient(node.address) as client:

        def verdict() -> int:
            found = client.query(AttestationRequest(BOB.address)).attestation
            return found.verdict if found is not None else 0

        wait_until(verdict, "the verdict")
        assert verdict() == AttestVerdict.ACCEPTED
    found = done(home, node, "query", "attest", "attestation", BOB.address)
    assert found["attestation"]["granted"] is True
    assert "accepted" in run(home, "query", "attest", "attestation", BOB.address, node=node, output="text").out
    (credential,) = done(home, node, "query", "attest", "credentials", BOB.address)["credentials"]
    shown = run(home, "query", "attest", "credential", credential["id"], node=node, output="text")
    assert "in force" in shown.out
    assert "forge" in shown.err
    done(home, node, "provider", "release", "--from", "bob")
    assert done(home, node, "query", "attest", "credential", credential["id"])["in_force"] is False
    assert run(home, "provider", "release", "--from", "bob", node=node).code != 0
    vote(home, node, files["draft"], 2, "--withdraw-policy", "tpm-1")
    (listed,) = done(home, node, "query", "attest", "policies")
    assert listed["withdrawn_at"] > 0


def test_what_is_not_there_is_said_with_a_remedy(home: Path, node: SoloNode) -> None:
    for words, text in (
        (("policy", "no-such"), "assay query attest policies"),
        (("attestation", ALICE.address), "assay provider attest"),
        (("credential", "00" * 32), "assay provider attest"),
    ):
        ran = run(home, "query", "attest", *words, node=node)
        assert ran.code != 0
        assert text in ran.err
    assert run(home, "query", "attest", "credential", "00", node=node).code == 2


def test_a_draft_of_a_policy_has_its_fields(home: Path, tmp_path: Path) -> None:
    policy, draft = tmp_path / "policy.json", tmp_path / "draft.json"
    assert run(home, "credential", "policy", "--technology", "sev-snp", "--file", policy).code == 0
    words = ("tx", "gov", "draft-proposal", draft, "--title", "A", "--deposit", "9ASSAY", "--valid-for", "30d")
    assert run(home, *words, "--add-policy", "snp-1", policy, "--withdraw-policy", "snp-0").code == 0
    first, second = json.loads(draft.read_text())["messages"]
    assert first["@type"] == "/assay.attest.v1.MsgAddAttestPolicy"
    assert (first["name"], first["valid_for"], first["policy"]["technology"]) == ("snp-1", "2592000", "sev-snp")
    assert (second["@type"], second["name"]) == ("/assay.attest.v1.MsgWithdrawAttestPolicy", "snp-0")
    bad = run(home, *words, "--add-policy", "Not A Name", policy)
    assert bad.code != 0
    assert "name" in bad.err
