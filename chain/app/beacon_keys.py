"""The beacon keys that a node holds: the file beside its consensus key, and the proofs made with them.

The file holds every key that the node may need: while a new one waits to count, the old one still does. It is read
again when a key is asked for that was not in it, so that a running node takes up what was added.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from chain.app.comet_files import HomeError
from host.files import write_durably
from wire.keys import Key
from wire.vrf import prove

FILE_NAME = "beacon_keys.json"


class BeaconKeys:
    """Makes reveals; without keys it makes none, and its node's proposals are refused."""

    def __init__(self, keys: Iterable[Key] = (), path: Path | None = None) -> None:
        """Hold ``keys``, and those of the file ``path``; HomeError where it is not one of beacon keys."""
        self._path = path
        self._keys = {key.pub_key: key for key in keys}
        self._read()

    def holds(self, pub_key: bytes) -> bool:
        """Tell whether a key is held."""
        if pub_key not in self._keys:
            self._read()
        return pub_key in self._keys

    def prove(self, pub_key: bytes, message: bytes) -> bytes | None:
        """Return the proof of a key's unique signature, or None where the key is not held."""
        return prove(self._keys[pub_key].secret, message) if self.holds(pub_key) else None

    def _read(self) -> None:
        if self._path is not None and self._path.exists():
            self._keys.update({key.pub_key: key for key in read_beacon_keys(self._path)})


def read_beacon_keys(path: Path) -> list[Key]:
    """Return the keys of a file, oldest first; none where there is no file. HomeError where it holds something else."""
    try:
        return [Key(bytes.fromhex(row["secret"])) for row in json.loads(path.read_bytes())["keys"]]
    except FileNotFoundError:
        return []
    except (KeyError, TypeError, ValueError):
        raise HomeError(f"{path} holds no beacon keys that this software wrote", "restore it from a copy") from None


def add_beacon_keys(path: Path, *added: Key) -> None:
    """Add keys to the file (mode 0600), to last through a power cut: a key that is lost costs its owner's proposals."""
    keys = {key.pub_key: key for key in (*read_beacon_keys(path), *added)}
    rows = [{"pub_key": key.pub_key.hex(), "secret": key.secret.hex()} for key in keys.values()]
    write_durably(path, (json.dumps({"keys": rows}, indent=2) + "\n").encode())
