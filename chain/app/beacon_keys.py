"""The beacon keys of a node: the file next to its consensus key, and the proofs made with the keys.

The file has every key that the node may need, because the old key stays valid until the new key becomes valid. If a key
is missing, the file is read again, so that a running node can use keys that were added.
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
    """The beacon keys of a node, with which it makes its reveals. If a node has no valid key, other nodes refuse its
    proposals.
    """

    def __init__(self, keys: Iterable[Key] = (), path: Path | None = None) -> None:
        """Hold ``keys`` and the keys in the file ``path``; raise HomeError if the file is not a file of beacon keys."""
        self._path = path
        self._keys = {key.pub_key: key for key in keys}
        self._read()

    def holds(self, pub_key: bytes) -> bool:
        """Return whether this object has the secret of the key ``pub_key``; if not, read the file again first."""
        if pub_key not in self._keys:
            self._read()
        return pub_key in self._keys

    def prove(self, pub_key: bytes, message: bytes) -> bytes | None:
        """Return the proof that the key ``pub_key`` makes for ``message``; None if the key is not held."""
        return prove(self._keys[pub_key].secret, message) if self.holds(pub_key) else None

    def _read(self) -> None:
        if self._path is not None and self._path.exists():
            self._keys.update({key.pub_key: key for key in read_beacon_keys(self._path)})


def read_beacon_keys(path: Path) -> list[Key]:
    """Return the keys of a file, oldest first; none if there is no file. HomeError if it is not a file of beacon
    keys.
    """
    try:
        return [Key(bytes.fromhex(row["secret"])) for row in json.loads(path.read_bytes())["keys"]]
    except FileNotFoundError:
        return []
    except (KeyError, TypeError, ValueError):
        raise HomeError(f"{path} is not a file of beacon keys", "restore it from a copy") from None


def add_beacon_keys(path: Path, *added: Key) -> None:
    """Add keys durably to the file (mode 0600), because without its beacon key a validator cannot propose."""
    keys = {key.pub_key: key for key in (*read_beacon_keys(path), *added)}
    rows = [{"pub_key": key.pub_key.hex(), "secret": key.secret.hex()} for key in keys.values()]
    write_durably(path, (json.dumps({"keys": rows}, indent=2) + "\n").encode())
