"""What every command shares: home, configuration, node, keyring, output."""

import getpass
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from assay.cli.arguments import ENDPOINT, NOTES
from assay.cli.errors import CliError
from assay.cli.output import Output

if TYPE_CHECKING:
    from assay.cli.configuration import Configuration, Value
    from chain.client.client import ChainClient
    from chain.client.keyring import Keyring
    from chain.client.sender import TxSender
    from wire.keys import Key

DEFAULT_HOME = "~/.assay"
IN_THE_CLEAR = "--keyring test keeps keys in the clear; for local networks only"
PASSPHRASE_VARIABLE = "ASSAY_PASSPHRASE"  # noqa: S105 — a name, not a secret

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Settings:
    """The options that stand before or after any command, with the configuration file behind them."""

    home: Path
    output: Output
    node_option: str | None = None
    keyring_option: str | None = None
    from_option: str | None = None
    # By an option, so that a command that is suggested has to name it, too.
    home_is_named: bool = False
    _configuration: "Configuration | None" = None

    def setting(self, name: str, option: str | int | None = None) -> "Value":
        """Return the value of a key of ``config.toml``, where an option, the environment or the file says otherwise."""
        from assay.cli.configuration import Configuration

        if self._configuration is None:
            self._configuration = Configuration(self.home)
        said = {
            "node_address": self.node_option,
            "keyring": self.keyring_option,
            "from": self.from_option,
        }
        return self._configuration.get(name, said.get(name, option))

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

        return Keyring(self.home / "keys", str(self.setting("keyring").value), _passphrase)

    def key(self) -> "Key":
        """Unlock the key that ``--from`` names (or the only one there is)."""
        ring = self.keyring()
        return ring.unlock(self.key_name(ring))

    def address(self) -> str:
        """Return the address of that key, without unlocking it."""
        ring = self.keyring()
        return ring.show(self.key_name(ring)).address

    def key_name(self, ring: "Keyring") -> str:
        """Return the name of the key that signs; CliError where none is meant."""
        name = str(self.setting("from").value or "")
        if not name:
            names = [info.name for info in ring.names()]
            if len(names) != 1:
                if not names:
                    remedy = "make one with assay keys add"
                    raise CliError("there is none that signs", remedy, field="key")
                named = f"name one of {', '.join(names)} (--from, or key=)"
                raise CliError("several are here, and none is named", named, field="key")
            name = names[0]
        return name

    def sender(self, client: "ChainClient", key: "Key") -> "TxSender":
        """Return what signs and sends for ``key``; a key in the clear where others can pay with it is said."""
        from chain.client.keyring import KeyringBackend
        from chain.client.sender import TxSender
        from domain.genesis import LOCAL_PREFIX

        in_the_clear = self.setting("keyring").value == KeyringBackend.TEST
        if in_the_clear and not client.status().chain_id.startswith(LOCAL_PREFIX):
            self.output.note(f"warning: {IN_THE_CLEAR}")
        return TxSender(client, key)


def _passphrase(name: str) -> str:
    """Ask for a key's passphrase at the terminal; scripts set ASSAY_PASSPHRASE."""
    given = os.environ.get(PASSPHRASE_VARIABLE)
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise CliError(
            f"key {name} needs its passphrase",
            f"set {PASSPHRASE_VARIABLE}, use a terminal, or in a program give passphrase=",
        )
    return getpass.getpass(f"Passphrase of key {name}: ")


def _common() -> list[Callable[[Any], Any]]:
    return [
        click.option("--home", default=None, help="Where Assay keeps its files.  [~/.assay]"),
        click.option("--node", type=ENDPOINT, default=None, help="gRPC address of a node."),
        click.option(
            "--keyring",
            type=click.Choice(["file", "test"]),
            default=None,
            help="Encrypted keys (file), or keys in the clear for local networks (test).",
        ),
        click.option("--from", "from_", default=None, help="Name of the key that signs."),
        click.option(
            "--output",
            type=click.Choice(["text", "json"]),
            default=None,
            help="Tables for people, or JSON.",
        ),
    ]


_COMMON_NAMES = ("home", "node", "keyring", "from_", "output")


def options_before(group: F) -> F:
    """Let the options that all commands share stand before the name of the command, too."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        click.get_current_context().obj = {name: kwargs.pop(name) for name in _COMMON_NAMES}
        return group(*args, **kwargs)

    return _with_options(wrapped, group)


def common_options(command: F) -> F:
    """Add --home, --node, --keyring, --from and --output to a command; they win over those before its name."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        called = click.get_current_context()
        before = called.find_root().obj or {}
        values = {name: kwargs.pop(name) or before.get(name) for name in _COMMON_NAMES}
        context = make_context(values)
        if not context.output.json:
            for note in called.meta.get(NOTES, ()):
                context.output.note(note)
        return command(context, *args, **kwargs)

    return _with_options(wrapped, command)


def _with_options(wrapped: Any, command: F) -> F:

    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__click_params__ = getattr(command, "__click_params__", [])
    made: Any = wrapped
    for option in reversed(_common()):
        made = option(made)
    return made  # type: ignore[no-any-return]


def make_context(values: dict[str, str | None]) -> Settings:
    """Build the context from option values, falling back to environment and defaults."""
    try:
        home = Path(values["home"] or os.environ.get("ASSAY_HOME") or DEFAULT_HOME).expanduser()
    except RuntimeError:
        raise CliError(
            "nobody knows this user's home", "set HOME, or say where (--home DIRECTORY, or home=)"
        ) from None
    return Settings(
        home,
        Output(values["output"] or "text"),
        values["node"],
        values["keyring"],
        values["from_"],
        bool(values["home"]),
    )
