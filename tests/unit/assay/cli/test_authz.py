"""``assay tx authz`` and ``assay query authz`` against a solo node."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.solo_node import ALICE, BOB, SoloNode, making_blocks, running
from tests.unit.assay.cli.test_feegrant import SEND, for_people, home, run

__all__ = ["home"]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoloNode]:
    with running(tmp_path_factory.mktemp("node")) as node, making_blocks(node.engine):
        yield node


def test_an_authorization_from_its_making_to_its_end(home: Path, node: SoloNode) -> None:  # the fixture
    grant = ("tx", "authz", "grant", BOB.address)
    limits = ("--spend-limit", "100uassay", "--allow-list", BOB.address, "--expiration", "2999-12-31T23:59:59Z")
    assert run(home, node, *grant, "send", *limits, "--from", "alice").code == 0
    draft = run(home, node, "tx", "bank", "send", ALICE.address, BOB.address, "60uassay", "--generate-only")
    file = home / "draft.json"
    file.write_text(draft.out)
    done = run(home, node, "tx", "authz", "exec", file, "--from", "bob")
    assert done.code == 0, done
    (shown,) = run(home, node, "query", "authz", "grants", ALICE.address, BOB.address, SEND).json["grants"]
    assert shown["authorization"]["spend_limit"] == [{"denom": "uassay", "amount": "40"}]
    for words in (
        ("grants", ALICE.address, BOB.address),
        ("grants-by-grantee", BOB.address),
        ("grants-by-granter", ALICE.address),
    ):
        text = for_people(home, node, "query", "authz", *words)
        for term in (f"of: {ALICE.address} for: {BOB.address}", f"0.00004 ASSAY, to {BOB.address}", "2999-12-31"):
            assert term in text, text
    assert run(home, node, "tx", "authz", "exec", file, "--from", "bob").code == 1
    for words in (("grants-by-grantee", BOB.address), ("grants-by-granter", ALICE.address)):
        assert len(run(home, node, "query", "authz", *words).json["grants"]) == 1
    assert run(home, node, "tx", "authz", "revoke", BOB.address, SEND, "--from", "alice").code == 0
    generic = run(home, node, *grant, "generic", "--msg-type", SEND, "--from", "alice")
    assert generic.code == 0, generic
    assert f"{SEND} │ no limit │ -" in for_people(home, node, "query", "authz", "grants", ALICE.address, BOB.address)
    assert run(home, node, "tx", "authz", "exec", file, "--from", "bob").code == 0


@pytest.mark.parametrize(
    "words",
    [("send",), ("generic",), ("send", "--spend-limit", "5", "--msg-type", SEND), ("generic", "--spend-limit", "5")],
)
def test_options_that_do_not_fit(home: Path, node: SoloNode, words: tuple[str, ...]) -> None:
    ran = run(home, node, "tx", "authz", "grant", BOB.address, *words, "--from", "alice")
    assert ran.code == 2
    assert "takes --" in ran.err
