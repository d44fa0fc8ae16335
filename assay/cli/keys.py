"""``assay keys``."""

import sys
from pathlib import Path
from typing import Any

import click

from assay.cli.context import IN_THE_CLEAR, CommandContext, common_options
from assay.cli.errors import CliError, WrongUsage
from assay.cli.output import table
from domain.limits import MULTISIG_KEYS_MAX


@click.group(help="Create, list, import and export keys.")
def command() -> None:
    """Group of key commands."""


@command.command(
    help="Create a new key, recover one from the words of a wallet, or name a multisig account.\n\n"
    "Example: assay keys add alice\n\n"
    "Example: assay keys add treasury --multisig alice,bob,carol --multisig-threshold 2"
)
@click.argument("name")
@click.option("--mnemonic", is_flag=True, help="Show 24 words from which every Cosmos wallet can recover the key.")
@click.option("--recover", is_flag=True, help="Ask for the words of a key (or read them from stdin).")
@click.option("--hd-path", default=None, help="Path of the key among those of the words.  [m/44'/118'/0'/0/0]")
@click.option("--multisig", default="", help="Members of a multisig account: names of keys, separated by commas.")
@click.option(
    "--multisig-threshold",
    type=click.IntRange(1, MULTISIG_KEYS_MAX),
    default=1,
    help="Signatures that the account needs.",
)
@click.option("--nosort", is_flag=True, help="Keep the order of the members, which is part of the address.")
@common_options
def add(context: CommandContext, name: str, **options: Any) -> None:
    """Create a key and print its address."""
    if options["multisig"]:
        _add_multisig(context, name, options["multisig"], options["multisig_threshold"], options["nosort"])
        return
    words = _words(options["mnemonic"], options["recover"])
    key = None
    if words is not None:
        from wire.mnemonic import COSMOS_PATH, key_of_words

        key = key_of_words(words, options["hd_path"] or COSMOS_PATH)
    info = context.keyring().add(name, key)
    _warn(context)
    shown = f"{info.name}  {info.address}"
    if options["mnemonic"] and words:
        context.output.result(
            {"name": info.name, "address": info.address, "pub_key": info.pub_key, "mnemonic": words},
            [shown, "", "Write these words down. Anyone who has them can use the key:", "", words],
        )
        return
    context.output.result(info, shown)


def _words(new: bool, recover: bool) -> str | None:
    """Return the words of the key to store: new ones, or those that the user enters; None for a key without words."""
    if new and recover:
        raise WrongUsage("--mnemonic and --recover cannot be used together", "use --recover for words that you have")
    if new:
        from nacl.utils import random

        from wire.mnemonic import words_of

        return words_of(random(32))
    if not recover:
        return None
    if sys.stdin.isatty():
        return str(click.prompt("Words of the key", hide_input=True))
    return sys.stdin.read(1024)


def _add_multisig(context: CommandContext, name: str, members: str, threshold: int, nosort: bool) -> None:
    """Store the public key of a multisig account, whose members are keys of this home."""
    from wire.address import to_bytes
    from wire.multisig import multisig_key

    ring = context.keyring()
    infos = [ring.show(member.strip()) for member in members.split(",")]
    for info in infos:
        if info.is_multisig:
            raise CliError(f"{info.name} is a multisig account", "use members with keys of their own")
    if len({info.pub_key for info in infos}) != len(infos):
        raise CliError("a member is named twice", "name each member once")
    if not nosort:
        infos.sort(key=lambda info: to_bytes(info.address))
    info = ring.add_public(name, multisig_key(threshold, [info.pub_key for info in infos]))
    context.output.result(info, f"{info.name}  {info.address}  ({threshold} of {len(infos)})")


@command.command(
    "add-public",
    help="Store the public key of another person, for example of a member of a multisig account.\n\n"
    "Example: assay keys add-public bob 02…",
)
@click.argument("name")
@click.argument("pub_key")
@common_options
def add_public(context: CommandContext, name: str, pub_key: str) -> None:
    """Store a public key without its secret."""
    try:
        key = bytes.fromhex(pub_key)
    except ValueError:
        raise CliError("this is not a public key", "use the 66 hex digits that `assay keys show` prints") from None
    info = context.keyring().add_public(name, key)
    context.output.result(info, f"{info.name}  {info.address}")


def _warn(context: CommandContext) -> None:
    """Warn if a new key is stored unencrypted; its later uses on a local network do not warn again."""
    if context.setting("keyring").value == "test":
        context.output.note(f"warning: {IN_THE_CLEAR}")


@command.command("list", help="List keys.\n\nExample: assay keys list")
@common_options
def list_(context: CommandContext) -> None:
    """List the names and addresses of the home's keys."""
    infos = context.keyring().names()
    rows = [(info.name, info.address) for info in infos]
    context.output.result(infos, table("Keys", ("name", "address"), rows))


@command.command(help="Show a key's address and public key.\n\nExample: assay keys show alice")
@click.argument("name")
@common_options
def show(context: CommandContext, name: str) -> None:
    """Show the name, the address and the public key of a key."""
    info = context.keyring().show(name)
    context.output.result(info, f"{info.name}  {info.address}  {info.pub_key.hex()}")


@command.command(
    "import",
    help="Import a secret key (64 hex digits) from a file, or from stdin with -.\n\n"
    "Example: assay keys import alice secret.txt",
)
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@common_options
def import_(context: CommandContext, name: str, file: Path) -> None:
    """Import a secret key from a file or from stdin, and print its address."""
    from wire.keys import Key

    try:
        text = sys.stdin.read(256) if str(file) == "-" else file.read_text()[:256]
        key = Key(bytes.fromhex(text.strip()))
    except ValueError:
        raise CliError(
            "this is not a secret key", "a secret key is 64 hex digits, as assay keys export writes it", field=str(file)
        ) from None
    info = context.keyring().add(name, key)
    _warn(context)
    context.output.result(info, f"{info.name}  {info.address}")


@command.command(
    help="Write a secret key to a new file that only you can read.\n\nExample: assay keys export alice --to secret.txt"
)
@click.argument("name")
@click.option("--to", required=True, type=click.Path(path_type=Path), help="File to create.")
@common_options
def export(context: CommandContext, name: str, to: Path) -> None:
    """Write a secret key to a file; it is never printed."""
    key = context.keyring().unlock(name)
    if to.exists():
        raise CliError(f"{to} already exists", "give --to the path of a new file")
    to.touch(mode=0o600)
    to.write_text(key.secret.hex() + "\n")
    context.output.result({"file": str(to)}, f"wrote {to}; anyone who has this file can use the key")


@command.command(help="Delete a key for good.\n\nExample: assay keys delete alice --yes")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
def delete(context: CommandContext, name: str, yes: bool) -> None:
    """Delete a key."""
    ring = context.keyring()
    info = ring.show(name)
    if not yes:
        click.confirm(f"Delete {name} ({info.address}) for good?", abort=True)
    ring.delete(name)
    context.output.result({"deleted": name}, f"deleted {name}")
