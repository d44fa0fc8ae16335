"""Keys on disk: what a tampered file may not do, and who may read one."""

import json
import os
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest
from nacl.pwhash import argon2id

from chain.client.keyring import Keyring, KeyringBackend, KeyringError
from host.files import write_durably
from wire.keys import Key

MINE, OTHER = Key(b"\x01" * 32), Key(b"\x02" * 32)
CHANGED = {"address": OTHER.address, "pub_key": OTHER.pub_key.hex()}


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keyring:
    """A keyring with one key; the derivation is made cheap."""
    monkeypatch.setattr(argon2id, "OPSLIMIT_MODERATE", 1)
    monkeypatch.setattr(argon2id, "MEMLIMIT_MODERATE", 8192)
    made = Keyring(tmp_path, KeyringBackend.FILE, lambda name: "open sesame")
    made.add("me", MINE)
    return made


def rewrite(tmp_path: Path, **changes: object) -> None:
    (path,) = tmp_path.glob("*/me.json")
    record: dict[str, Any] = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in record.items() if v is not None}))


def test_a_key_is_for_its_owner_only(ring: Keyring, tmp_path: Path) -> None:
    assert ring.unlock("me").secret == MINE.secret
    assert (tmp_path / "file").stat().st_mode & 0o77 == 0
    assert (tmp_path / "file" / "me.json").stat().st_mode & 0o77 == 0
    assert MINE.secret.hex() not in (tmp_path / "file" / "me.json").read_text()


@pytest.mark.parametrize(
    "changes",
    [
        {"address": OTHER.address},  # coins would be sent there
        {"pub_key": OTHER.pub_key.hex()},
        {"pub_key": "zz"},
        {"pub_key": None},
        {"pub_key": 7},
        {"address": None},
    ],
)
def test_an_address_that_is_not_the_keys_is_not_shown(
    ring: Keyring, tmp_path: Path, changes: dict[str, object]
) -> None:
    rewrite(tmp_path, **changes)
    for use in (ring.show, ring.unlock):
        with pytest.raises(KeyringError, match="is not a key file"):
            use("me")


def test_another_public_part_is_found_when_the_key_is_unlocked(ring: Keyring, tmp_path: Path) -> None:
    rewrite(tmp_path, **CHANGED)
    with pytest.raises(KeyringError, match="was changed"):
        ring.unlock("me")


def test_a_key_in_the_clear_is_not_taken_for_a_protected_one(ring: Keyring, tmp_path: Path) -> None:
    rewrite(tmp_path, **CHANGED, secret=OTHER.secret.hex())
    with pytest.raises(KeyringError, match="was changed"):
        ring.unlock("me")
    rewrite(tmp_path, box=None)
    with pytest.raises(KeyringError, match="damaged"):
        ring.unlock("me")


@pytest.mark.parametrize(
    "changes",
    [
        {"kdf": "none"},
        {"kdf": None},
        {"ops": 10**9},
        {"ops": "9" * 5_000},
        {"memory": 1 << 40},
        {"memory": -1},
        {"salt": "00"},
        {"box": "zz"},
        {"box": ""},
    ],
)
def test_a_damaged_box_is_said_to_be_one(ring: Keyring, tmp_path: Path, changes: dict[str, object]) -> None:
    rewrite(tmp_path, **changes)
    with pytest.raises(KeyringError, match="damaged"):
        ring.unlock("me")


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", "[" * 10_000, "x" * 20_000, "\x00"])
def test_what_is_no_key_file_is_said_to_be_none(ring: Keyring, tmp_path: Path, text: str) -> None:
    (tmp_path / "file" / "me.json").write_text(text)
    for use in (ring.show, ring.unlock):
        with pytest.raises(KeyringError, match="is not a key file"):
            use("me")


def test_what_cannot_be_read_is_said(ring: Keyring, tmp_path: Path) -> None:
    (tmp_path / "file" / "me.json").unlink()
    with pytest.raises(KeyringError, match="no key named me"):
        ring.show("me")
    (tmp_path / "file" / "me.json").mkdir()
    with pytest.raises(KeyringError, match="cannot be read"):
        ring.show("me")


@pytest.mark.parametrize("secret", [None, "zz", "00" * 32, "01"])
def test_a_test_key_without_its_secret_is_said_to_be_none(tmp_path: Path, secret: str | None) -> None:
    ring = Keyring(tmp_path, KeyringBackend.TEST, lambda name: "")
    ring.add("me", MINE)
    assert ring.unlock("me").secret == MINE.secret
    rewrite(tmp_path, secret=secret)
    with pytest.raises(KeyringError, match="is not a key file"):
        ring.unlock("me")


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_durably(path, b"old")

    def full(handle: int) -> None:
        raise OSError(ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="full"):
            write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    synced = list[int]()
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    write_durably(path, b"new")
    assert path.read_bytes() == b"new"
    assert synced == [path.stat().st_ino, tmp_path.stat().st_ino]  # the bytes, then the name
