"""A home: its settings, its keys, and the node that it asks."""

import getpass
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from assay.settings.errors import SettingsError

if TYPE_CHECKING:
    from assay.settings.configuration import Configuration, SettingValue
    from chain.client.client import ChainClient
    from chain.client.keyring import Keyring
    from wire.keys import Key

DEFAULT_HOME = "~/.assay"
PASSPHRASE_VARIABLE = "ASSAY_PASSPHRASE"  # noqa: S105 — a name, not a secret


def find_home(named: str | None) -> Path:
    """Return the home that a person named, else that of the environment, else the default."""
    try:
        return Path(named or os.environ.get("ASSAY_HOME") or DEFAULT_HOME).expanduser()
    except RuntimeError:
        raise SettingsError(
            "this user has no home directory", "set HOME, or name one (--home DIRECTORY, or home=)"
        ) from None


def ask_passphrase(name: str) -> str:
    """Return the passphrase of a key, from the environment or else from the terminal."""
    given = os.environ.get(PASSPHRASE_VARIABLE)
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise SettingsError(
            f"key {name} needs its passphrase",
            f"set {PASSPHRASE_VARIABLE}, use a terminal, or in a program give passphrase=",
        )
    return getpass.getpass(f"Passphrase of key {name}: ")


@dataclass
class Settings:
    """A home with its ``config.toml``, and the values that options or a program give instead.

    ``given`` has them by the name of the setting; None stands for one that is not given.
    """

    home: Path
    given: Mapping[str, str | None] = field(default_factory=dict)
    passphrase: Callable[[str], str] = ask_passphrase

    @cached_property
    def _configuration(self) -> "Configuration":
        # Only when a setting is asked for: a command that needs none works with a wrong file.
        from assay.settings.configuration import Configuration

        return Configuration(self.home)

    def setting(self, name: str, option: str | int | None = None) -> "SettingValue":
        """Return the value of a setting; ``option`` is the value of an option that only this command has."""
        return self._configuration.get(name, self.given.get(name, option))

    @property
    def node(self) -> str:
        """The gRPC address of the node, host:port."""
        return str(self.setting("node_address").value)

    def client(self, node: str = "") -> "ChainClient":
        """Return a client of the node, or of another one."""
        from chain.client.client import ChainClient

        return ChainClient(node or self.node)

    def keyring(self) -> "Keyring":
        """Return the home's keyring."""
        from chain.client.keyring import Keyring

        return Keyring(self.home / "keys", str(self.setting("keyring").value), self.passphrase)

    def key(self) -> "Key":
        """Unlock the key that signs: the one that is named, or the only one."""
        ring = self.keyring()
        return ring.unlock(self.key_name(ring))

    def address(self) -> str:
        """Return the address of that key, without unlocking it."""
        ring = self.keyring()
        return ring.show(self.key_name(ring)).address

    def key_name(self, ring: "Keyring") -> str:
        """Return the name of the key that signs; a SettingsError says why it is not clear."""
        name = str(self.setting("from").value or "")
        if name:
            return name
        names = [info.name for info in ring.names()]
        if not names:
            raise SettingsError("there is none that signs", "make one with assay keys add", field="key")
        if len(names) > 1:
            remedy = f"name one of {', '.join(names)} (--from, or key=)"
            raise SettingsError("several are here, and none is named", remedy, field="key")
        return names[0]
