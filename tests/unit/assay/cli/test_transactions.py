"""Transactions step by step: made, signed by one or several people, offline or not, and sent."""

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from tests.support.solo_node import ALICE, BOB, CHAIN_ID, RICH, SoloNode, making_blocks, running
from tests.unit.assay.support import Ran, assay
from wire.keys import Key

ABANDON = "abandon " * 11 + "about"


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
        assert run(tmp_path, "keys", "import", name, secret).code == 0
    return tmp_path


def run(home: Path, *words: object, node: SoloNode | None = None) -> Ran:
    where = ("--node", node.address) if node else ()
    return assay(*words, "--keyring", "test", "--output", "json", *where, home=home)


def balance(home: Path, node: SoloNode, address: str) -> int:
    return int(run(home, "query", "account", address, node=node).json["balance"])


def written(home: Path, name: str, ran: Ran) -> Path:
    """Return a file with what a command printed."""
    assert ran.code == 0, ran
    path = home / f"{name}.json"
    path.write_text(ran.out)
    return path


def test_send_in_one_step(home: Path, node: SoloNode) -> None:
    to = Key.generate().address
    sent = run(home, "tx", "bank", "send", "alice", to, "7uassay", "--note", "rent", node=node)
    assert sent.code == 0, sent
    assert sent.json["code"] == 0
    assert balance(home, node, to) == 7
    for options in (
        ("--sign-mode", "amino-json"),
        ("--gas", "200000", "--fees", "300uassay"),
        ("--gas-prices", "0.002uassay", "--timeout-height", "100000"),
    ):
        assert run(home, "tx", "bank", "send", ALICE.address, to, "1uassay", *options, node=node).code == 0
    assert balance(home, node, to) == 10


def test_make_sign_and_send(home: Path, node: SoloNode) -> None:
    to = Key.generate().address
    draft = run(
        home, "tx", "bank", "send", ALICE.address, to, "7uassay", "--generate-only", "--fees", "9000", node=node
    )
    unsigned = written(home, "unsigned", draft)
    made = json.loads(draft.out)
    assert made["body"]["messages"][0]["@type"] == "/cosmos.bank.v1beta1.MsgSend"
    assert made["auth_info"]["fee"]["amount"] == [{"denom": "uassay", "amount": "9000"}]
    assert made["signatures"] == []
    signed = written(home, "signed", run(home, "tx", "sign", unsigned, "--from", "alice", node=node))
    assert run(home, "tx", "broadcast", unsigned, node=node).code != 0
    assert run(home, "tx", "broadcast", signed, node=node).json["gas_used"] > 0
    assert balance(home, node, to) == 7
    again = run(home, "tx", "broadcast", signed, node=node)
    assert again.code != 0
    account = run(home, "query", "account", ALICE.address, node=node).json["account"]
    offline = ("--offline", "--account-number", account["number"], "--sequence", account["sequence"])
    mode = ("--sign-mode", "amino-json", "--chain-id", CHAIN_ID, "--output-document", home / "offline.json")
    assert run(home, "tx", "sign", unsigned, "--from", "alice", *offline, *mode).code == 0
    assert run(home, "tx", "broadcast", home / "offline.json", node=node).code == 0
    assert balance(home, node, to) == 14


def test_what_the_chain_would_refuse_is_refused_before_it_costs_anything(home: Path, node: SoloNode) -> None:
    to = Key.generate().address
    before = balance(home, node, BOB.address)
    for options in ((), ("--dry-run",), ("--generate-only",)):
        ran = run(home, "tx", "bank", "send", "bob", to, f"{RICH + 1}uassay", *options, node=node)
        assert "insufficient funds" in ran.refusal
    assert balance(home, node, BOB.address) == before


def test_dry_run(home: Path, node: SoloNode) -> None:
    before = balance(home, node, ALICE.address)
    to = Key.generate().address
    gas = run(home, "tx", "bank", "send", "alice", to, "1", "--dry-run", node=node).json["gas_estimate"]
    assert 53_000 < gas < 200_000
    assert run(home, "tx", "deposit-bond", "1", "--from", "alice", "--dry-run", node=node).code == 0
    assert balance(home, node, ALICE.address) == before


def treasury(home: Path) -> str:
    """Make a multisig account of two of three, and return its address."""
    carol = Key(bytes(31) + b"\x07")
    assert run(home, "keys", "add-public", "carol", carol.pub_key.hex()).code == 0
    made = run(home, "keys", "add", "treasury", "--multisig", "carol,bob,alice", "--multisig-threshold", "2")
    assert made.code == 0, made
    return str(made.json["address"])


def test_a_multisig_account(home: Path, node: SoloNode) -> None:
    address = treasury(home)
    to = Key.generate().address
    assert run(home, "tx", "bank", "send", "alice", address, "1ASSAY", node=node).code == 0
    for turn in range(2):  # the chain does not know the account's key at first
        draft = run(home, "tx", "bank", "send", "treasury", to, "7uassay", "--generate-only", node=node)
        unsigned = written(home, "unsigned", draft)
        parts = [
            written(home, name, run(home, "tx", "sign", unsigned, "--from", name, "--multisig", who, node=node))
            for name, who in (("alice", "treasury"), ("bob", address))
        ]
        alone = run(home, "tx", "multisign", unsigned, "treasury", parts[0], node=node)
        assert "not enough signatures, have 1, expected 2" in alone.refusal
        twice = run(home, "tx", "multisign", unsigned, "treasury", parts[0], parts[0], node=node)
        assert "not enough signatures, have 1, expected 2" in twice.refusal
        joined = run(home, "tx", "multisign", unsigned, "treasury", *parts, node=node)
        assert run(home, "tx", "broadcast", written(home, "signed", joined), node=node).code == 0
        assert balance(home, node, to) == 7 * (turn + 1)
    stale = run(home, "tx", "multisign", unsigned, "treasury", *parts, node=node)
    assert "is not for this transaction" in stale.refusal
    assert (
        "multisig account, which has no secret"
        in run(home, "tx", "bank", "send", "treasury", to, "1", node=node).refusal
    )


def test_a_stranger_is_no_member(home: Path, node: SoloNode) -> None:
    address = treasury(home)
    assert run(home, "tx", "bank", "send", "alice", address, "1ASSAY", node=node).code == 0
    assert run(home, "keys", "add", "eve").code == 0
    draft = run(home, "tx", "bank", "send", "treasury", ALICE.address, "7uassay", "--generate-only", node=node)
    unsigned = written(home, "unsigned", draft)
    part = written(home, "eve", run(home, "tx", "sign", unsigned, "--from", "eve", "--multisig", address, node=node))
    assert "is not a member of" in run(home, "tx", "multisign", unsigned, "treasury", part, node=node).refusal
    assert "is not a signer" in run(home, "tx", "sign", unsigned, "--from", "alice", node=node).refusal


def test_another_account_pays(home: Path, node: SoloNode) -> None:
    to = Key.generate().address
    before = balance(home, node, ALICE.address)
    payer = ("--fee-payer", BOB.address)
    needs = run(home, "tx", "bank", "send", "alice", to, "7uassay", *payer, node=node)
    assert needs.code == 2
    assert "needs the signature of another account" in needs.err
    draft = run(home, "tx", "bank", "send", "alice", to, "7uassay", *payer, "--generate-only", node=node)
    unsigned = written(home, "unsigned", draft)
    direct = run(home, "tx", "sign", unsigned, "--from", "bob", "--sign-mode", "direct", node=node)
    assert "several accounts sign" in direct.refusal
    by_bob = written(home, "by_bob", run(home, "tx", "sign", unsigned, "--from", "bob", node=node))
    assert run(home, "tx", "broadcast", by_bob, node=node).code != 0
    by_both = written(home, "by_both", run(home, "tx", "sign", by_bob, "--from", "alice", node=node))
    assert run(home, "tx", "broadcast", by_both, node=node).code == 0
    assert balance(home, node, ALICE.address) == before - 7


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--fees", "1", "--gas-prices", "1uassay"), "cannot be used together"),
        (("--generate-only", "--dry-run"), "cannot be used together"),
        (("--gas", "many"), "is not a gas limit"),
        (("--gas", "0"), "is not a gas limit"),
        (("--gas-prices", "0.0000001uassay"), "is not a gas price"),
    ],
)
def test_wrong_options(home: Path, words: tuple[str, ...], text: str) -> None:
    ran = run(home, "tx", "bank", "send", "alice", BOB.address, "1", *words)
    assert ran.code == 2
    assert text in ran.err


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"body": 5}', '{"unknown": 5}', '{"body": {"messages": [{"@type": "/x"}]}}']
)
def test_a_file_that_is_no_transaction(home: Path, text: str) -> None:
    path = home / "odd.json"
    path.write_text(text)
    account = ("--offline", "--account-number", "0", "--sequence", "0", "--chain-id", "x")
    assert run(home, "tx", "sign", path, "--from", "alice", *account).refusal
    assert run(home, "tx", "broadcast", path).refusal


def test_offline_needs_all_that_a_node_would_say(home: Path) -> None:
    path = home / "odd.json"
    path.write_text("{}")
    ran = run(home, "tx", "sign", path, "--from", "alice", "--offline", "--sequence", "0", "--multisig", ALICE.address)
    assert ran.code == 2
    assert "--offline needs" in ran.err


# --- keys ----------------------------------------------------------------------------------------


def test_a_key_from_the_words_of_another_wallet(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def add(words: str, *options: str) -> Ran:
        monkeypatch.setattr("sys.stdin", StringIO(words))
        return run(home, "keys", "add", f"key{len(options)}", "--recover", *options)

    assert add(ABANDON).json["address"] == "assay19rl4cm2hmr8afy4kldpxz3fka4jguq0aqyly38"
    other = add(ABANDON, "--hd-path", "m/44'/118'/0'/0/1").json["address"]
    assert other != "assay19rl4cm2hmr8afy4kldpxz3fka4jguq0aqyly38"
    assert "wrong checksum" in add("abandon " * 12, "--hd-path", "m", "--output", "json").refusal
    assert "has 0 words" in add("", "--hd-path", "m", "--output", "json").refusal


def test_new_words_recover_the_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = run(home, "keys", "add", "new", "--mnemonic").json
    assert len(made["mnemonic"].split()) == 24
    monkeypatch.setattr("sys.stdin", StringIO(made["mnemonic"]))
    assert run(home, "keys", "add", "again", "--recover").json["address"] == made["address"]


def test_the_members_are_sorted_as_by_other_tools(home: Path) -> None:
    """By the bytes of their addresses, unless the order is kept."""
    sorted_address = run(home, "keys", "add", "one", "--multisig", "alice,bob").json["address"]
    assert run(home, "keys", "add", "two", "--multisig", "bob,alice").json["address"] == sorted_address
    kept = [
        run(home, "keys", "add", name, "--multisig", members, "--nosort").json["address"]
        for name, members in (("three", "alice,bob"), ("four", "bob,alice"))
    ]
    assert len(set(kept)) == 2
    assert sorted_address in kept
    assert "named twice" in run(home, "keys", "add", "five", "--multisig", "alice,alice").refusal
    assert "is a multisig account" in run(home, "keys", "add", "five", "--multisig", "one,alice").refusal
    threshold = run(home, "keys", "add", "five", "--multisig", "alice,bob", "--multisig-threshold", "3")
    assert "needs 3 signatures of 2 members" in threshold.refusal
    assert "without its secret" not in run(home, "keys", "show", "one").out
