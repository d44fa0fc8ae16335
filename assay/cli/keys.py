"""``assay keys``."""

import sys
from pathlib import Path

import click

from assay.cli.context import IN_THE_CLEAR, CommandContext, common_options
from assay.cli.errors import CliError
from assay.cli.output import table


@click.group(help="Create, list, import and export keys.")
def command() -> None:
    """Group of key commands."""


@command.command(help="Create a new key.\n\nExample: assay keys add alice")
@click.argument("name")
@common_options
def add(context: CommandContext, name: str) -> None:
    """Create a key and print its address."""
    info = context.keyring().add(name)
    _warn(context)
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
