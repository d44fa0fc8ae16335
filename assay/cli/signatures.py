"""``assay tx sign``, ``assay tx multisign`` and ``assay tx broadcast``: the steps of a transaction in files."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError, WrongUsage
from assay.cli.transacting import NUMBER, SIGN_MODES, sign_mode

if TYPE_CHECKING:
    from domain.tx import PartSignature

F = TypeVar("F", bound=Callable[..., Any])
FILE_BYTES_MAX = 4 * 1024 * 1024
_PATH = click.Path(path_type=Path, allow_dash=True)


class SigningAccount(NamedTuple):
    """The chain for which a signature is made, and the account's number and sequence."""

    chain_id: str
    number: int
    sequence: int


def _account_options(command: F) -> F:
    """Add the options that say for which account the signature is, if no node can be asked."""
    for option in (
        click.option(
            "--output-document", "to", type=click.Path(path_type=Path), default=None, help="File to write.  [stdout]"
        ),
        click.option("--chain-id", default="", help="Chain for which to sign, with --offline."),
        click.option("--sequence", type=NUMBER, default=None, help="The account's sequence."),
        click.option("--account-number", type=NUMBER, default=None, help="The account's number."),
        click.option("--offline", is_flag=True, help="Ask no node."),
    ):
        command = option(command)
    return command


@click.command(
    "sign",
    help="Sign a transaction from a file (or stdin with -), and print it with the signature.\n\n"
    "With --multisig, print the signature of a member, for `assay tx multisign`.\n\n"
    "Example: assay tx sign unsigned.json --from alice > signed.json",
)
@click.argument("file", type=_PATH)
@click.option(
    "--sign-mode",
    type=click.Choice(SIGN_MODES),
    default=None,
    help="What is signed: bytes, or text (for several signers).",
)
@click.option("--multisig", default="", help="Multisig account (name or address) for which to sign as a member.")
@_account_options
@common_options
def sign_command(context: CommandContext, file: Path, multisig: str, **kwargs: Any) -> None:
    """Sign a transaction with the key that --from names."""
    from domain.tx import SignMode
    from wire.signing import parts_to_json, sign, sign_part, signers_needed, to_json

    tx = read_tx(file)
    key = context.key()
    named = kwargs.pop("sign_mode")
    to = kwargs.pop("to")
    if multisig:
        if named == SIGN_MODES[0]:
            raise WrongUsage("members of a multisig account sign amino-json", "leave --sign-mode out")
        info = context.keyring().find(multisig)
        account = _account(context, info.address if info else multisig, **kwargs)
        part = sign_part(tx, key, account.chain_id, account.number, account.sequence)
        _write(to, parts_to_json([part], account.sequence))
        return
    mode = sign_mode(named) if named else SignMode.DIRECT if len(signers_needed(tx)) == 1 else SignMode.AMINO_JSON
    account = _account(context, key.address, **kwargs)
    sign(tx, key, mode, account.chain_id, account.number, account.sequence)
    _write(to, to_json(tx))


@click.command(
    "multisign",
    help="Join signatures of members of a multisig account, and print the signed transaction.\n\n"
    "Example: assay tx multisign unsigned.json treasury alice.json bob.json > signed.json",
)
@click.argument("file", type=_PATH)
@click.argument("name")
@click.argument("signatures", nargs=-1, required=True, type=click.Path(path_type=Path))
@_account_options
@common_options
def multisign(context: CommandContext, file: Path, name: str, signatures: tuple[Path, ...], **kwargs: Any) -> None:
    """Verify the members' signatures, and add that of the account to the transaction."""
    from wire.signing import add_parts, to_json

    tx = read_tx(file)
    info = context.keyring().show(name)
    if not info.is_multisig:
        raise CliError(f"{name} is not a multisig account", "make one with `assay keys add NAME --multisig k1,k2`")
    to = kwargs.pop("to")
    account = _account(context, info.address, **kwargs)
    parts = [part for path in signatures for part in _read_parts(path, tx, account)]
    add_parts(tx, info.pub_key, parts, account.sequence)
    _write(to, to_json(tx))


@click.command(
    "broadcast",
    help="Send a signed transaction from a file (or stdin with -), and wait until it is in a block.\n\n"
    "Example: assay tx broadcast signed.json",
)
@click.argument("file", type=_PATH)
@common_options
def broadcast(context: CommandContext, file: Path) -> None:
    """Send a signed transaction."""
    from chain.client.drafts import deliver
    from wire.tx import decode_tx, raw_of

    raw = raw_of(read_tx(file))
    decode_tx(raw)  # a mistake is found before a node is asked
    with context.client() as client:
        receipt = deliver(client, raw)
    context.output.result(receipt, f"done at height {receipt.height}: {receipt.hash.hex().upper()}")


def _account(
    context: CommandContext,
    address: str,
    *,
    offline: bool,
    account_number: int | None,
    sequence: int | None,
    chain_id: str,
) -> SigningAccount:
    """Return for which account the signature is, from the options or from a node."""
    from chain.client.drafts import account_of

    if offline:
        if account_number is None or sequence is None or not chain_id:
            raise WrongUsage(
                "--offline needs --account-number, --sequence and --chain-id", "see them with `assay query account`"
            )
        return SigningAccount(chain_id, account_number, sequence)
    with context.client() as client:
        account = account_of(client, address)
        on_chain = client.status().chain_id
    return SigningAccount(
        chain_id or on_chain,
        account.number if account_number is None else account_number,
        account.sequence if sequence is None else sequence,
    )


def _read_parts(path: Path, tx: Any, account: SigningAccount) -> "list[PartSignature]":
    from wire.address import address_of
    from wire.keys import verify
    from wire.signing import document, parts_from_json

    parts = []
    for part, sequence in parts_from_json(_read(path)):
        signed = document(tx, part.mode, account.chain_id, account.number, account.sequence)
        if sequence != account.sequence or not verify(part.key, signed, part.signature):
            reason = f"the signature of {address_of(part.key)} in {path} is not for this transaction"
            raise CliError(
                reason,
                f"it needs account number {account.number}, sequence {account.sequence} and chain {account.chain_id};"
                " let the member sign again",
            )
        parts.append(part)
    return parts


def read_tx(path: Path) -> Any:
    """Return the transaction in a file, or in stdin for ``-``."""
    from wire.signing import from_json

    return from_json(_read(path))


def _read(path: Path) -> str:
    try:
        text = sys.stdin.read(FILE_BYTES_MAX) if str(path) == "-" else path.read_text()[:FILE_BYTES_MAX]
    except UnicodeDecodeError:
        raise CliError("is not a text file", "use a file that `assay tx` wrote", field=str(path)) from None
    return text


def _write(to: Path | None, text: str) -> None:
    if to is None:
        click.echo(text, nl=False)
    else:
        to.write_text(text)
