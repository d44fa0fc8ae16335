"""`assay tx gov` and `assay query gov`: a proposal from its draft to its votes, and what is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.solo_node import ALICE, OPERATOR, SoloNode, making_blocks, running
from tests.unit.assay.support import Ran, assay


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoloNode]:
    with running(tmp_path_factory.mktemp("node")) as node, making_blocks(node.engine):
        yield node


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the keys of Alice and of the validator's operator."""
    for name, key in (("alice", ALICE), ("op", OPERATOR)):
        secret = tmp_path / name
        secret.write_text(key.secret.hex())
        assert run(tmp_path, "keys", "import", name, secret).code == 0
    return tmp_path


def run(home: Path, *words: object, node: SoloNode | None = None, output: str = "json") -> Ran:
    where = ("--node", node.address) if node else ()
    return assay(*words, "--keyring", "test", "--output", output, *where, home=home)


def for_people(home: Path, node: SoloNode, *words: object) -> str:
    """Return what a query shows people, with single spaces."""
    ran = run(home, "query", "gov", *words, node=node, output="text")
    assert ran.code == 0, ran
    return " ".join(ran.out.split())


def test_a_proposal_from_its_draft_to_its_votes(home: Path, node: SoloNode) -> None:
    draft = home / "draft.json"
    made = ("tx", "gov", "draft-proposal", draft, "--title", "Longer orders", "--deposit", "9ASSAY")
    assert run(home, *made, "--change", "market.ttl_max=77", "--change", "staking.max_entries=3").code == 0
    for words in (
        ("submit-proposal", draft, "--from", "alice"),
        ("deposit", "1", "1ASSAY", "--from", "op"),
        ("vote", "1", "yes", "--from", "op"),
        ("weighted-vote", "1", "yes=0.5,no=0.5", "--from", "alice"),
    ):
        sent = run(home, "tx", "gov", *words, node=node)
        assert sent.code == 0, sent
    (listed,) = run(home, "query", "gov", "proposals", "--status", "voting_period", node=node).json["proposals"]
    found = run(home, "query", "gov", "proposal", 1, node=node).json["proposal"]
    assert found == listed
    assert found["messages"][0]["changes"][0] == {"component": "market", "name": "ttl_max", "value": "77"}
    assert {vote["voter"] for vote in run(home, "query", "gov", "votes", 1, node=node).json["votes"]} == {
        ALICE.address,
        OPERATOR.address,
    }
    assert int(run(home, "query", "gov", "tally", 1, node=node).json["tally"]["yes_count"]) > 0
    assert run(home, "query", "gov", "params", node=node).json["params"]["voting_period"] == "60s"
    assert "1 │ Longer orders │ voting period │ 10 ASSAY │ 20" in for_people(home, node, "proposals")
    text = for_people(home, node, "proposal", 1)
    for row in ("title │ Longer orders", "does │ market.ttl_max = 77", "does │ staking.max_entries = 3"):
        assert row in text, text
    text = for_people(home, node, "votes", 1)
    assert f"{OPERATOR.address} │ yes │ -" in text
    assert f"{ALICE.address} │ yes 50 %, no 50 % │ -" in text
    assert "no with veto │ 0 ASSAY" in for_people(home, node, "tally", 1)
    text = for_people(home, node, "params")
    assert "voting_period │ 60s" in text
    assert "min_deposit │ 10 ASSAY" in text


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("", "is not the JSON of a proposal"),
        ([], "is not the JSON of a proposal"),
        ({"title": 7, "deposit": "1ASSAY"}, "is not the JSON of a proposal"),
        ({"messages": [{"@type": "/cosmos.nothing.v1.MsgNothing"}], "deposit": "1ASSAY"}, "a message in"),
        ({"messages": [7], "deposit": "1ASSAY"}, "a message in"),
        ({"messages": [{"@type": "/assay.gov.v1.MsgUpdateParams", "other": 1}], "deposit": "1ASSAY"}, "a message in"),
        ({"messages": [{"@type": "/assay.gov.v1.MsgUpdateParams"}], "deposit": "1ASSAY"}, "authority"),
        ({"title": "A", "summary": "B", "deposit": "much"}, "is not an amount"),
    ],
)
def test_files_that_are_no_proposal(home: Path, document: Any, reason: str) -> None:
    file = home / "proposal.json"
    file.write_text(json.dumps(document) if document else "")
    ran = run(home, "tx", "gov", "submit-proposal", file, "--from", "alice")
    assert ran.code == 2, ran
    assert reason in ran.err


@pytest.mark.parametrize("words", [("vote", "1", "maybe"), ("weighted-vote", "1", "yes"), ("vote", "0", "yes")])
def test_votes_that_are_refused(home: Path, words: tuple[str, ...]) -> None:
    assert run(home, "tx", "gov", *words, "--from", "alice").code == 2


def test_a_draft_has_the_deposit_that_the_chain_asks_for(home: Path, node: SoloNode) -> None:
    draft = home / "draft.json"
    assert run(home, "tx", "gov", "draft-proposal", draft, "--title", "A", node=node).code == 0
    needed = run(home, "query", "gov", "params", node=node).json["params"]["min_deposit"][0]
    assert json.loads(draft.read_text())["deposit"] == needed["amount"] + needed["denom"]
    ran = run(home, "tx", "gov", "draft-proposal", home / "other.json", "--title", "A")
    assert ran.code != 0
    assert not (home / "other.json").exists()


@pytest.mark.parametrize("text", ["", "ttl_max=1", "market.ttl_max", "market.ttl_max=-1", "market.ttl_max=1.5"])
def test_changes_that_are_refused(home: Path, text: str) -> None:
    ran = run(home, "tx", "gov", "draft-proposal", home / "draft.json", "--title", "A", "--change", text)
    assert ran.code == 2
    assert "is not a change" in ran.err
