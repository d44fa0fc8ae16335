"""``assay tx feegrant`` and ``assay query feegrant`` against a solo node."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from assay.cli.feegrant import TIME
from tests.support.solo_node import ALICE, BOB, SoloNode, making_blocks, running
from tests.unit.assay.support import Ran, assay

SEND = "/cosmos.bank.v1beta1.MsgSend"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoloNode]:
    with running(tmp_path_factory.mktemp("node")) as node, making_blocks(node.engine):
        yield node


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the keys of Alice and Bob."""
    for name, key in (("alice", ALICE), ("bob", BOB)):
        secret = tmp_path / name
        secret.write_text(key.secret.hex())
        assert assay("keys", "import", name, secret, "--keyring", "test", home=tmp_path).code == 0
    return tmp_path


def run(home: Path, node: SoloNode, *words: object, output: str = "json") -> Ran:
    options = ("--keyring", "test", "--output", output, "--node", node.address)
    return assay(*words, *options, home=home)


def for_people(home: Path, node: SoloNode, *words: object) -> str:
    """Return what a query shows people, with single spaces."""
    ran = run(home, node, *words, output="text")
    assert ran.code == 0, ran
    return " ".join(ran.out.split())


def test_a_grant_from_its_making_to_its_end(home: Path, node: SoloNode) -> None:
    def balance() -> int:
        return int(run(home, node, "query", "account", ALICE.address).json["balance"])

    grant = ("tx", "feegrant", "grant", "alice", BOB.address, "--spend-limit", "1ASSAY")
    limits = ("--expiration", "2999-12-31T23:59:59Z", "--period", "1d", "--period-limit", "100000uassay")
    made = run(home, node, *grant, *limits, "--allowed-messages", SEND)
    assert made.code == 0, made
    before = balance()
    send = ("tx", "bank", "send", "bob", ALICE.address, "5uassay", "--fees", "900uassay", "--gas", "300000")
    paid = run(home, node, *send, "--fee-granter", ALICE.address)
    assert paid.code == 0, paid
    assert balance() == before + 5 - 900
    shown = run(home, node, "query", "feegrant", "grant", ALICE.address, BOB.address).json["allowance"]["allowance"]
    inner = shown["allowance"]
    assert shown["allowed_messages"] == [SEND]
    assert inner["period_can_spend"] == [{"denom": "uassay", "amount": "99100"}]
    assert inner["basic"]["spend_limit"] == [{"denom": "uassay", "amount": "999100"}]
    assert inner["basic"]["expiration"] == "2999-12-31T23:59:59Z"
    for words in (
        ("grant", ALICE.address, BOB.address),
        ("grants-by-grantee", BOB.address),
        ("grants-by-granter", ALICE.address),
    ):
        text = for_people(home, node, "query", "feegrant", *words)
        for term in (ALICE.address, BOB.address, "0.9991", "0.0991 ASSAY of", "2999-12-31", "MsgSend"):
            assert term in text, text
    for words in (("grants-by-grantee", BOB.address), ("grants-by-granter", ALICE.address)):
        assert len(run(home, node, "query", "feegrant", *words).json["allowances"]) == 1
    assert run(home, node, "tx", "feegrant", "prune", "--from", "bob").code == 0
    assert run(home, node, "tx", "feegrant", "revoke", "alice", BOB.address).code == 0
    refused = run(home, node, *send, "--fee-granter", ALICE.address)
    assert refused.code == 1
    assert "not found" in refused.err


def test_a_period_needs_its_limit(home: Path, node: SoloNode) -> None:
    ran = run(home, node, "tx", "feegrant", "grant", "alice", BOB.address, "--period", "1d")
    assert ran.code == 2
    assert "need each other" in ran.err


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-12-31", "2026-13-01T00:00:00Z", "2026-12-31T00:00:00"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time; write for example"):
        TIME.convert(text, None, None)
