"""A remote signer: a program, usually on another machine, that has the consensus key and signs for CometBFT.

CometBFT waits for the signer at an address (``priv_validator_laddr``), and asks it for each signature. The signer
remembers its last signature, so it is also what keeps the validator from signing twice. The home has only the public
key, in its ``config.toml``.
"""

import base64
import json
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tomli_w

from chain.app.comet_files import HomeError

LISTEN, CONS_KEY = "remote_signer", "consensus_key"
"""Keys in the table ``node`` of a home's ``config.toml``."""
_ADDRESS: Final = "priv_validator_laddr"
_UNUSED: Final = {
    "priv_validator_key_file": "data/unused_validator_key.json",
    "priv_validator_state_file": "data/unused_validator_state.json",
}
"""CometBFT makes these files even if a remote signer signs."""


@dataclass(frozen=True, slots=True)
class RemoteSigner:
    """The address at which CometBFT waits for the signer, and the public key with which it signs (32 bytes)."""

    listen: str
    cons_key: bytes

    @property
    def socket(self) -> Path | None:
        """The path of the socket, if the signer is on the same machine and uses one."""
        return Path(self.listen.removeprefix("unix://")) if self.listen.startswith("unix://") else None

    def clear_socket(self) -> None:
        """Delete the socket that a CometBFT left, which would keep the next one from making its own."""
        if self.socket is not None and self.socket.is_socket():
            with suppress(OSError):
                self.socket.unlink()

    def as_table(self) -> dict[str, str]:
        """Return the values for the table ``node`` of a home's ``config.toml``."""
        return {LISTEN: self.listen, CONS_KEY: self.cons_key.hex()}


def read_remote_signer(table: Mapping[str, Any]) -> RemoteSigner | None:
    """Return the remote signer that a table ``node`` names; None if the home signs with its own key.

    Raise HomeError if the table has an address without a key.
    """
    listen = str(table.get(LISTEN, ""))
    if not listen:
        return None
    try:
        cons_key = bytes.fromhex(str(table.get(CONS_KEY, "")))
    except ValueError:
        cons_key = b""
    if len(cons_key) != 32:
        raise HomeError(
            f"node.{LISTEN} is set, but node.{CONS_KEY} is not the signer's public key",
            f"run `assay node init MONIKER --remote-signer {listen} --consensus-key KEY`",
        )
    return RemoteSigner(listen, cons_key)


def check_no_own_key(comet_home: Path) -> None:
    """Raise HomeError if a home with a remote signer also has a consensus key of its own."""
    path = comet_home / "config" / "priv_validator_key.json"
    if path.exists():
        raise HomeError(
            f"{path} exists, although a remote signer signs for this validator",
            "move it to the signer's machine, or delete it if the signer has another key",
        )


def set_remote_signer(comet_home: Path, signer: RemoteSigner | None) -> None:
    """Let CometBFT wait for the signer, or sign with the home's own key if ``signer`` is None.

    Raise HomeError if CometBFT's configuration names a signer that the home's ``config.toml`` does not name: with its
    own key, the validator might sign twice.
    """
    path = comet_home / "config" / "config.toml"
    try:
        config = tomllib.loads(path.read_text())
    except (OSError, ValueError):
        return  # CometBFT itself reports the error
    if signer is None:
        if config.get(_ADDRESS):
            raise HomeError(
                f"{path} names a remote signer ({_ADDRESS}), but node.{LISTEN} is not set",
                "set it with `assay node init MONIKER --remote-signer ADDRESS --consensus-key KEY`; to sign with a key"
                f" of this home again, remove the lines that begin with priv_validator from {path}",
            )
        return
    changed = {**config, _ADDRESS: signer.listen, **_UNUSED}
    if changed != config:
        path.write_text(tomli_w.dumps(changed))


def check_signs(signer: RemoteSigner, key: bytes) -> None:
    """Raise HomeError if the signer that CometBFT found has another key than the home names."""
    if key != signer.cons_key:
        raise HomeError(
            f"the remote signer has the key {key.hex()}, but node.{CONS_KEY} is {signer.cons_key.hex()}",
            "start the signer with the right key; or, if the home names a wrong one: assay node init MONIKER"
            f" --remote-signer {signer.listen} --consensus-key {key.hex()}",
        )


def read_public_key(text: str) -> bytes:
    """Return the 32 bytes of an Ed25519 key in one of the forms that signers print: hex, base64, or JSON with base64.

    Raise ValueError for any other text.
    """
    key = text.strip()
    try:
        if key.startswith("{"):
            document = json.loads(key)
            key = document.get("key") or document["value"]
        found = bytes.fromhex(key) if len(key) == 64 else base64.b64decode(key, validate=True)
    except (ValueError, KeyError, TypeError):
        found = b""
    if len(found) != 32:
        raise ValueError(f"{text[:80]!r} is not an Ed25519 key")
    return found
