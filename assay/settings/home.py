"""A home: its settings, its keys, and its node's address."""

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
    """Return the path of the home: ``named`` if it is given, else the variable ``ASSAY_HOME``, else the default."""
    try:
        return Path(named or os.environ.get("ASSAY_HOME") or DEFAULT_HOME).expanduser()
    except RuntimeError:
        raise SettingsError(
            "this user has no home directory",
            "set the variable HOME, or choose a folder for Assay: --home DIRECTORY (in Python: home=)",
        ) from None


def ask_passphrase(name: str) -> str:
    """Return the passphrase of the key ``name``, from the variable ``ASSAY_PASSPHRASE`` or else from the terminal."""
    given = os.environ.get(PASSPHRASE_VARIABLE)
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise SettingsError(
            f"key {name} needs its passphrase",
            f"set the variable {PASSPHRASE_VARIABLE}, or use a terminal (in Python: passphrase=)",
        )
    return getpass.getpass(f"Passphrase of key {name}: ")


@dataclass
class Settings:
    """The settings of a home: the values in its ``config.toml``, and values that options or a program give instead.

    ``given`` maps names of settings to the values that options or a program give; None means that no value is given.
    ``passphrase`` returns the passphrase of the key with a given name.
    """

    home: Path
    given: Mapping[str, str | None] = field(default_factory=dict)
    passphrase: Callable[[str], str] = ask_passphrase

    @cached_property
    def _configuration(self) -> "Configuration":
        # The file is read on first use, so that a command that needs no setting works even if the file is wrong.
        from assay.settings.configuration import Configuration

        return Configuration(self.home)

    def setting(self, name: str, option: str | int | None = None) -> "SettingValue":
        """Return a setting's value and source; ``option`` is the value of the command's own option, if any."""
        return self._configuration.get(name, self.given.get(name, option))

    @property
    def node(self) -> str:
        """The gRPC address (host:port) of the node that commands and programs with this home ask."""
        return str(self.setting("node_address").value)

    def client(self, node: str = "") -> "ChainClient":
        """Return a client of ``node``, or of the home's node if ``node`` is empty."""
        from chain.client.client import ChainClient

        return ChainClient(node or self.node)

    def keyring(self) -> "Keyring":
        """Return the home's keyring."""
        from chain.client.keyring import Keyring

        return Keyring(self.home / "keys", str(self.setting("keyring").value), self.passphrase)

    def key(self) -> "Key":
        """Unlock and return the key that signs: the key named by the setting ``from``, or else the home's only key."""
        ring = self.keyring()
        return ring.unlock(self.key_name(ring))

    def address(self) -> str:
        """Return the address of the key that signs, without unlocking the key."""
        ring = self.keyring()
        return ring.show(self.key_name(ring)).address

    def key_name(self, ring: "Keyring") -> str:
        """Return the name of the key that signs.

        It is the value of the setting ``from``, or else the name of the home's only key. Without that setting, raise
        SettingsError if the home has no key, or several.
        """
        name = str(self.setting("from").value or "")
        if name:
            return name
        names = [info.name for info in ring.names()]
        if not names:
            raise SettingsError("this home has no key to sign with", "create one: assay keys add NAME", field="key")
        if len(names) > 1:
            remedy = f"choose one of {', '.join(names)} with --from NAME (in Python: key=)"
            raise SettingsError("this home has several keys, and none is chosen", remedy, field="key")
        return names[0]
