"""The context of a command: the options that all commands share, the home, and the output."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from assay.cli.arguments import ENDPOINT, NOTES, click_type
from assay.cli.output import Output
from assay.settings.home import Settings, find_home
from assay.settings.kinds import KEYRING

if TYPE_CHECKING:
    from chain.client.client import ChainClient
    from chain.client.sender import TxSender
    from wire.keys import Key

IN_THE_CLEAR = "--keyring test stores keys unencrypted; use it for local networks only"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class CommandContext(Settings):
    """The settings that a command was called with, and its output."""

    output: Output = field(default_factory=lambda: Output("text"))
    # True if an option named the home. Commands that messages suggest must then name it, too.
    home_is_named: bool = False

    def sender(self, client: "ChainClient", key: "Key") -> "TxSender":
        """Return a sender of transactions that ``key`` signs; warn if the key is unencrypted on a public network."""
        from chain.client.keyring import KeyringBackend
        from chain.client.sender import TxSender
        from domain.genesis import LOCAL_PREFIX

        in_the_clear = self.setting("keyring").value == KeyringBackend.TEST
        if in_the_clear and not client.status().chain_id.startswith(LOCAL_PREFIX):
            self.output.note(f"warning: {IN_THE_CLEAR}")
        return TxSender(client, key, note=self.output.note)


def _common() -> list[Callable[[Any], Any]]:
    return [
        click.option("--home", default=None, help="Folder for Assay's files.  [~/.assay]"),
        click.option("--node", type=ENDPOINT, default=None, help="gRPC address of a node."),
        click.option(
            "--keyring",
            type=click_type(KEYRING),
            default=None,
            help="Encrypted keys (file), or unencrypted keys for local networks (test).",
        ),
        click.option("--from", "from_", default=None, help="Name of the key that signs."),
        click.option(
            "--output",
            type=click.Choice(["text", "json"]),
            default=None,
            help="Tables (text), or JSON.",
        ),
    ]


_COMMON_NAMES = ("home", "node", "keyring", "from_", "output")


def options_before(group: F) -> F:
    """Add the options that all commands share to the top-level command, so that users may give them first."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        click.get_current_context().obj = {name: kwargs.pop(name) for name in _COMMON_NAMES}
        return group(*args, **kwargs)

    return _with_options(wrapped, group)


def common_options(command: F) -> F:
    """Add --home, --node, --keyring, --from and --output to a command.

    They override the same options in front of the command's name.
    """

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
    decorated: Any = wrapped
    for option in reversed(_common()):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def make_context(values: dict[str, str | None]) -> CommandContext:
    """Build a command's context from the values of its options.

    The environment, the home's ``config.toml`` or the defaults give the values that are missing.
    """
    return CommandContext(
        home=find_home(values["home"]),
        given={
            "node_address": values["node"],
            "keyring": values["keyring"],
            "from": values["from_"],
        },
        output=Output(values["output"] or "text"),
        home_is_named=bool(values["home"]),
    )
