"""Keys on disk: encrypted with a passphrase, or in the clear with a warning; nothing is lost silently."""

import json
import stat
from pathlib import Path
from unittest.mock import patch

import pytest
from nacl.pwhash import argon2id

from tests.unit.assay.support import Ran, assay, in_process

SECRET = "11" * 32
ADDRESS_WARNING = "stores keys unencrypted"


@pytest.fixture(autouse=True)
def _cheap_derivation() -> object:
    """The smallest Argon2id parameters: what they are is in the file, and read back from there."""
    with (
        patch.object(argon2id, "OPSLIMIT_MODERATE", argon2id.OPSLIMIT_MIN),
        patch.object(argon2id, "MEMLIMIT_MODERATE", argon2id.MEMLIMIT_MIN),
    ):
        yield


def keys(home: Path, *words: object, passphrase: str | None = "open sesame") -> Ran:
    variables = {} if passphrase is None else {"ASSAY_PASSPHRASE": passphrase}
    return assay("keys", *words, home=home, **variables)


def key_file(home: Path, name: str) -> Path:
    return home / "keys" / "file" / f"{name}.json"


def test_add_list_show(tmp_path: Path) -> None:
    added = keys(tmp_path, "add", "alice", "--output", "json")
    assert added.code == 0
    address = added.json["address"]
    assert address.startswith("assay1")
    keys(tmp_path, "add", "bob")
    listed = keys(tmp_path, "list", "--output", "json", passphrase=None).json
    assert [key["name"] for key in listed] == ["alice", "bob"]
    shown = keys(tmp_path, "show", "alice", passphrase=None)
    assert shown.code == 0
    assert address in shown.out
    assert "alice" in keys(tmp_path, "list").out


def test_only_the_owner_reads_a_key(tmp_path: Path) -> None:
    keys(tmp_path, "add", "alice")
    path = key_file(tmp_path, "alice")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "secret" not in json.loads(path.read_text())


def test_export_and_import(tmp_path: Path) -> None:
    source = tmp_path / "secret.txt"
    source.write_text(SECRET + "\n")
    imported = keys(tmp_path, "import", "alice", source, "--output", "json")
    assert imported.code == 0
    to = tmp_path / "exported.txt"
    exported = keys(tmp_path, "export", "alice", "--to", to)
    assert exported.code == 0
    assert to.read_text().strip() == SECRET
    assert stat.S_IMODE(to.stat().st_mode) == 0o600
    assert SECRET not in exported.out + exported.err
    again = keys(tmp_path, "export", "alice", "--to", to)
    assert "exists" in again.refusal
    other = keys(tmp_path, "import", "copy", to, "--output", "json")
    assert other.json["address"] == imported.json["address"]


def test_delete(tmp_path: Path) -> None:
    keys(tmp_path, "add", "alice")
    assert keys(tmp_path, "delete", "alice", "--yes").code == 0
    assert not key_file(tmp_path, "alice").exists()
    assert "no key named alice" in keys(tmp_path, "delete", "alice", "--yes").refusal


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    keys(tmp_path, "add", "alice")
    before = key_file(tmp_path, "alice").read_bytes()
    assert "exists" in keys(tmp_path, "add", "alice").refusal
    assert key_file(tmp_path, "alice").read_bytes() == before


@pytest.mark.parametrize("name", ["../alice", "Alice", "", "a" * 33, "a/b"])
def test_names_are_no_paths(tmp_path: Path, name: str) -> None:
    assert "is not a key name" in keys(tmp_path, "add", name).refusal
    assert not list(tmp_path.rglob("*.json"))


def test_a_wrong_passphrase(tmp_path: Path) -> None:
    keys(tmp_path, "add", "alice")
    to = tmp_path / "out.txt"
    wrong = keys(tmp_path, "export", "alice", "--to", to, passphrase="sesame")
    assert wrong.refusal == "wrong passphrase; enter it again"
    assert not to.exists()


def test_no_passphrase_and_no_terminal(tmp_path: Path) -> None:
    ran = in_process("keys", "add", "alice", home=tmp_path)
    assert ran.code == 1
    assert "ASSAY_PASSPHRASE" in ran.refusal


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: "",
        lambda text: json.dumps({**json.loads(text), "memory": "lots"}),
        lambda text: json.dumps({**json.loads(text), "box": "zz"}),
        lambda text: json.dumps({k: v for k, v in json.loads(text).items() if k != "salt"}),
        lambda text: " " * 20_000 + text,
    ],
    ids=["cut", "list", "empty", "memory", "hex", "salt", "large"],
)
def test_a_damaged_file(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    keys(tmp_path, "add", "alice")
    path = key_file(tmp_path, "alice")
    path.write_text(damage(path.read_text()))
    ran = keys(tmp_path, "export", "alice", "--to", tmp_path / "out.txt")
    assert "restore it from a backup" in ran.refusal
    assert not (tmp_path / "out.txt").exists()


def test_another_ciphertext_is_noticed(tmp_path: Path) -> None:
    keys(tmp_path, "add", "alice")
    path = key_file(tmp_path, "alice")
    record = json.loads(path.read_text())
    record["box"] = record["box"][:-2] + ("00" if record["box"][-2:] != "00" else "01")
    path.write_text(json.dumps(record))
    assert keys(tmp_path, "export", "alice", "--to", tmp_path / "x").code == 1


@pytest.mark.parametrize("text", ["", "12", "zz" * 32, "00" * 32, "ff" * 32])
def test_what_is_no_secret_is_not_imported(tmp_path: Path, text: str) -> None:
    source = tmp_path / "secret.txt"
    source.write_text(text)
    assert "64 hex digits" in keys(tmp_path, "import", "alice", source).refusal
    assert not key_file(tmp_path, "alice").exists()


def test_a_missing_file_is_not_imported(tmp_path: Path) -> None:
    assert "No such file" in keys(tmp_path, "import", "alice", tmp_path / "none").refusal


def test_the_test_keyring_says_that_it_is_not_safe(tmp_path: Path) -> None:
    ran = keys(tmp_path, "add", "alice", "--keyring", "test", passphrase=None)
    assert ran.code == 0
    assert ADDRESS_WARNING in ran.err
    assert ADDRESS_WARNING not in keys(tmp_path, "list", "--keyring", "test").err, "said once"
    path = tmp_path / "keys" / "test" / "alice.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_keyrings_are_apart(tmp_path: Path) -> None:
    keys(tmp_path, "add", "alice", "--keyring", "test", passphrase=None)
    refusal = keys(tmp_path, "show", "alice").refusal
    assert "no key named alice; the other keyring has one: use --keyring test" in refusal


def test_a_broken_configuration_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("keyring = [")
    assert "config.toml" in keys(tmp_path, "list").refusal


def test_a_passphrase_that_anybody_guesses_protects_no_new_key(tmp_path: Path) -> None:
    assert "use 8 characters or more" in keys(tmp_path, "add", "alice", passphrase="x").refusal
    assert not key_file(tmp_path, "alice").exists()
