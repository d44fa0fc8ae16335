"""Keys on disk, encrypted with a passphrase, or unencrypted for local networks.

A key is encrypted with XSalsa20-Poly1305 (libsodium's secretbox) under a key that Argon2id derives from the passphrase
(RFC 9106). Argon2id's parameters are in the file, so that later versions can raise them.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from nacl.exceptions import CryptoError
from nacl.pwhash import argon2id
from nacl.secret import SecretBox
from nacl.utils import random

from domain.errors import Expected, Refusal
from domain.readable import Readable
from host.files import write_durably
from wire.address import PREFIX
from wire.keys import Key
from wire.multisig import is_multisig, key_address

PASSPHRASE_MIN = 8
"""Smallest number of characters of a passphrase for a new key."""

FILE_BYTES_MAX = 16_384
_NAME_SHOWN = 40
_PUBLIC = "public"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_OPS_MAX, _MEMORY_MAX = 16, 1 << 30


class KeyringBackend(StrEnum):
    """The form of keys on disk: encrypted or not.

    Example::

        ring = assay.Keyring("~/.assay/keys", assay.KeyringBackend.TEST)
    """

    FILE = "file"  # encrypted with a passphrase
    TEST = "test"  # not encrypted: for local networks only


class KeyringError(Expected):
    """An error about a key that cannot be read, written or unlocked, with the reason and the remedy.

    Example::

        try:
            assay.Keyring("~/.assay/keys").show("alice")
        except assay.KeyringError as error:
            print(error.reason, error.remedy)
    """


@dataclass(frozen=True, slots=True)
class KeyInfo(Readable):
    """The public data of a key, for which no passphrase is needed.

    Example::

        for info in assay.Keyring("~/.assay/keys").names():
            print(info.name, info.address)
    """

    name: str
    address: str
    pub_key: bytes

    @property
    def is_multisig(self) -> bool:
        """True for the key of a multisig account, which has no secret: its members sign."""
        return is_multisig(self.pub_key)


class Keyring:
    """Keys in a directory, one file per key. ``ask`` is called with a key's name and returns its passphrase.

    Example::

        ring = assay.Keyring("~/.assay/keys", "file", getpass.getpass)
        key = ring.unlock("alice")
    """

    def __init__(
        self,
        directory: Path | str,
        backend: KeyringBackend | str = KeyringBackend.FILE,
        ask: Callable[[str], str] | None = None,
    ) -> None:
        """Use ``directory``, which is created when the first key is stored; KeyringError for an unknown backend."""
        if backend not in list(KeyringBackend):
            raise KeyringError(f"{backend} is not a kind of keyring", "use file or test")
        self._backend = KeyringBackend(backend)
        self._directory = Path(directory).expanduser() / self._backend.value
        self._ask = ask or _no_passphrase

    def __repr__(self) -> str:
        return f"Keyring({self._directory}, {self._backend.value})"

    def names(self) -> list[KeyInfo]:
        """Return all keys, sorted by name."""
        return [self.show(path.stem) for path in sorted(self._directory.glob("*.json"))]

    def show(self, name: str) -> KeyInfo:
        """Return the public data of a key."""
        record = self._read(name)
        return KeyInfo(name, str(record["address"]), bytes.fromhex(str(record["pub_key"])))

    def add(self, name: str, key: Key | None = None) -> KeyInfo:
        """Store ``key`` (or a new one) under ``name``, which must be free."""
        path = self._path(name)
        if path.exists():
            remedy = f"use another name, or `assay keys delete {name}` first"
            raise KeyringError(f"a key named {name} already exists", remedy)
        key = key or Key(random(32))
        record: dict[str, object] = {"address": key.address, "pub_key": key.pub_key.hex()}
        if self._backend is KeyringBackend.TEST:
            record["secret"] = key.secret.hex()
        else:
            passphrase = self._ask(name)
            if len(passphrase) < PASSPHRASE_MIN:
                raise KeyringError(
                    f"the passphrase has {len(passphrase)} characters, which is easy to guess for anyone with the file",
                    f"use {PASSPHRASE_MIN} characters or more",
                )
            record |= _encrypt(key.secret, passphrase)
        _write_private(path, record)
        return KeyInfo(name, key.address, key.pub_key)

    def add_public(self, name: str, pub_key: bytes) -> KeyInfo:
        """Store the public key of a person or a multisig account under ``name``, which must be free."""
        path = self._path(name)
        if path.exists():
            remedy = f"use another name, or `assay keys delete {name}` first"
            raise KeyringError(f"a key named {name} already exists", remedy)
        address = key_address(pub_key)
        _write_private(path, {"kind": _PUBLIC, "address": address, "pub_key": pub_key.hex()})
        return KeyInfo(name, address, pub_key)

    def find(self, name_or_address: str) -> KeyInfo | None:
        """Return the public data of the key with a name or an address; None for an address without a key here."""
        if not name_or_address.startswith(f"{PREFIX}1"):
            return self.show(name_or_address)
        return next((info for info in self.names() if info.address == name_or_address), None)

    def unlock(self, name: str) -> Key:
        """Return the key; KeyringError if the passphrase is wrong."""
        record = self._read(name)
        if is_multisig(bytes.fromhex(str(record["pub_key"]))):
            remedy = "its members sign, and `assay tx multisign` joins their signatures"
            raise KeyringError(f"{name} is a multisig account, which has no secret", remedy)
        if record.get("kind") == _PUBLIC:
            raise KeyringError(f"{name} is a public key without its secret", "sign where the secret is")
        try:
            if self._backend is KeyringBackend.TEST:
                key = Key(bytes.fromhex(str(record["secret"])))
            else:
                # An unencrypted secret in the file is ignored here: the passphrase would not protect such a key.
                key = Key(_decrypt(record, self._ask(name)))
        except (KeyError, ValueError):
            raise _no_key_file(self._path(name)) from None
        if key.pub_key.hex() != record["pub_key"]:
            raise KeyringError(f"the file of key {name} was changed", "restore it from a backup")
        return key

    def delete(self, name: str) -> None:
        """Delete a key for good."""
        self._read(name)
        self._path(name).unlink()

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise KeyringError(
                f"{name[:_NAME_SHOWN]!r} is not a key name", "use 1 to 32 lower-case letters, digits, - and _"
            )
        return self._directory / f"{name}.json"

    def _where_else(self, name: str) -> str:
        """Return a remedy for a missing key.

        If the keyring of the other backend has the key, the remedy names that keyring.
        """
        for other in KeyringBackend:
            if (self._directory.parent / other.value / f"{name}.json").exists():
                return f'the other keyring has one: use --keyring {other.value}, or keyring="{other.value}"'
        return "`assay keys list` shows the names"

    def _read(self, name: str) -> dict[str, object]:
        path = self._path(name)
        try:
            if path.stat().st_size > FILE_BYTES_MAX:
                raise _no_key_file(path)
            record = json.loads(path.read_text())
            # The address must belong to the public key, because users send coins to the address that the list of keys
            # shows.
            matches = record["address"] == key_address(bytes.fromhex(record["pub_key"]))
        except FileNotFoundError:
            raise KeyringError(f"no key named {name}", self._where_else(name)) from None
        except OSError as error:
            raise KeyringError(f"{path} cannot be read ({error.strerror})") from None
        except (ValueError, TypeError, KeyError, RecursionError, Refusal):
            raise _no_key_file(path) from None
        if not matches:
            raise _no_key_file(path)
        return dict(record)


def _no_passphrase(name: str) -> str:
    remedy = "pass a function that asks for it, as in Keyring(directory, ask=getpass.getpass)"
    raise KeyringError(f"key {name} needs its passphrase", remedy)


def _no_key_file(path: Path) -> KeyringError:
    return KeyringError(f"{path} is not a key file", "restore it from a backup")


def _encrypt(secret: bytes, passphrase: str) -> dict[str, object]:
    salt = random(argon2id.SALTBYTES)
    ops, memory = argon2id.OPSLIMIT_MODERATE, argon2id.MEMLIMIT_MODERATE
    box = SecretBox(_derive(passphrase, salt, ops, memory))
    return {
        "kdf": "argon2id",
        "ops": ops,
        "memory": memory,
        "salt": salt.hex(),
        "box": bytes(box.encrypt(secret)).hex(),
    }


def _decrypt(record: dict[str, object], passphrase: str) -> bytes:
    damaged = KeyringError("the key file is damaged", "restore it from a backup")
    if record.get("kdf") != "argon2id":
        raise damaged
    try:
        ops, memory = int(str(record["ops"])), int(str(record["memory"]))
        salt, box = bytes.fromhex(str(record["salt"])), bytes.fromhex(str(record["box"]))
    except (KeyError, ValueError):
        raise damaged from None
    # The parameters in the file are checked against bounds, because a damaged file must not use up time and memory.
    sizes = len(salt) == argon2id.SALTBYTES and len(box) > SecretBox.NONCE_SIZE
    if not (1 <= ops <= _OPS_MAX and 8192 <= memory <= _MEMORY_MAX and sizes):
        raise damaged
    try:
        return SecretBox(_derive(passphrase, salt, ops, memory)).decrypt(box)
    except CryptoError:
        raise KeyringError("wrong passphrase", "enter it again") from None


def _derive(passphrase: str, salt: bytes, ops: int, memory: int) -> bytes:
    return argon2id.kdf(SecretBox.KEY_SIZE, passphrase.encode(), salt, ops, memory)


def _write_private(path: Path, record: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_durably(path, json.dumps(record, indent=1).encode())
