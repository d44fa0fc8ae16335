"""The options that all commands share which send a transaction, and what these commands do with them."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from assay.cli.arguments import ADDRESS, AMOUNT
from assay.cli.context import CommandContext
from assay.cli.errors import WrongUsage
from domain.limits import GAS_MAX, MEMO_BYTES_MAX

if TYPE_CHECKING:
    from chain.client.client import ChainClient, TxReceipt
    from chain.client.keyring import KeyInfo
    from domain.messages import Message
    from domain.tx import SignMode

F = TypeVar("F", bound=Callable[..., Any])

SIGN_MODES = ("direct", "amino-json")
NUMBER = click.IntRange(0, 2**63 - 1)
"""A height, or the number or the sequence of an account."""
_PRICE = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,6}))?uassay")
_AUTO = "auto"


class GasLimit(click.ParamType[int]):
    """A gas limit, or "auto" (0), which lets the node estimate it."""

    name = "gas"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the gas limit; fail with wrong usage for any other text."""
        if value == _AUTO:
            return 0
        if not re.fullmatch("[0-9]{1,9}", str(value)) or not 0 < int(value) <= GAS_MAX:
            self.fail(f"{value} is not a gas limit; use auto, or 1 to {GAS_MAX}", param, ctx)
        return int(value)


class GasPrice(click.ParamType[int]):
    """A price of a unit of gas, in uassay with up to six decimals."""

    name = "price"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the price in millionths of uassay; fail with wrong usage for any other text."""
        match = _PRICE.fullmatch(str(value))
        if match is None:
            self.fail(f"{value} is not a gas price; write for example 0.002uassay", param, ctx)
        return int(match[1]) * 10**6 + int((match[2] or "").ljust(6, "0"))


@dataclass(frozen=True)
class TxOptions:
    """The user's wishes for a transaction, besides its messages."""

    generate_only: bool = False
    dry_run: bool = False
    gas: int = 0  # 0: the node estimates it
    fees: int | None = None
    gas_prices: int | None = None
    note: str = ""
    timeout_height: int = 0
    fee_payer: str = ""
    fee_granter: str = ""
    sign_mode: str = SIGN_MODES[0]

    def check(self) -> None:
        """Refuse options that contradict each other."""
        if self.fees is not None and self.gas_prices is not None:
            raise WrongUsage("--fees and --gas-prices cannot be used together", "use one of them")
        if self.generate_only and self.dry_run:
            raise WrongUsage("--generate-only and --dry-run cannot be used together", "use one of them")
        if self.fee_payer and not (self.generate_only or self.dry_run):
            raise WrongUsage(
                "--fee-payer needs the signature of another account",
                "use --generate-only, and let both accounts use `assay tx sign`",
            )


def tx_options(command: F) -> F:
    """Add the options of a transaction to a command, which gets them as the keyword ``options``."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        values = {name: kwargs.pop(name) for name in TxOptions.__dataclass_fields__}
        options = TxOptions(**{name: value for name, value in values.items() if value is not None})
        options.check()
        return command(*args, options=options, **kwargs)

    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Any = wrapped
    for option in reversed(_options()):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def _options() -> list[Callable[[Any], Any]]:
    return [
        click.option("--generate-only", is_flag=True, help="Print the transaction without signatures; send nothing."),
        click.option("--dry-run", is_flag=True, help="Print the gas that the transaction would need; send nothing."),
        click.option("--gas", type=GasLimit(), default=_AUTO, help="Gas limit.  [auto: as the node estimates it]"),
        click.option("--fees", type=AMOUNT, default=None, help="Fee.  [gas times price]"),
        click.option(
            "--gas-prices", type=GasPrice(), default=None, help="Price of a unit of gas.  [the chain's, and a quarter]"
        ),
        click.option("--note", default="", help=f"Memo of the transaction, up to {MEMO_BYTES_MAX} bytes."),
        click.option("--timeout-height", type=NUMBER, default=0, help="Last block that may have the transaction."),
        click.option("--fee-payer", type=ADDRESS, default=None, help="Account that pays the fee and also signs."),
        click.option(
            "--fee-granter",
            type=ADDRESS,
            default=None,
            help="Account that pays the fee, by its fee grant to you.",
        ),
        click.option(
            "--sign-mode", type=click.Choice(SIGN_MODES), default=SIGN_MODES[0], help="What is signed: bytes or text."
        ),
    ]


def sign_mode(name: str) -> "SignMode":
    """Return the sign mode with a name of an option."""
    from domain.tx import SignMode

    return SignMode.AMINO_JSON if name == SIGN_MODES[1] else SignMode.DIRECT


def find_sender(context: CommandContext, sender: str) -> tuple[str, "KeyInfo | None"]:
    """Return the address of a sender, and its key if this home has it.

    ``sender`` is the name of a key, or an address. If it is empty, the sender is the key that the home signs with.
    """
    ring = context.keyring()
    info = ring.find(sender or context.key_name(ring))
    return (info.address if info else sender), info


def transact(
    context: CommandContext, options: TxOptions, make: Callable[[str], tuple["Message", ...]], sender: str = ""
) -> None:
    """Make a transaction of the messages that ``make`` returns for the sender's address, and do what the user wants.

    Usually that is to sign and send it, and to print the receipt.
    """
    address, info = find_sender(context, sender)
    messages = make(address)
    with context.client() as client:
        if options.generate_only or options.dry_run:
            _show_draft(context, client, options, messages, {address: info.pub_key} if info else {})
            return
        if info is None:
            raise WrongUsage(
                f"this home has no key of {address}", "use the name of a key, or --generate-only to sign elsewhere"
            )
        receipt = _send(context, client, options, messages, info)
    context.output.result(receipt, f"done at height {receipt.height}: {receipt.hash.hex().upper()}")


def _show_draft(
    context: CommandContext,
    client: "ChainClient",
    options: TxOptions,
    messages: tuple["Message", ...],
    keys: dict[str, bytes],
) -> None:
    from chain.client.drafts import estimate_gas
    from wire.signing import to_json, unsigned_tx

    if options.dry_run:
        tx = unsigned_tx(
            messages,
            memo=options.note,
            timeout_height=options.timeout_height,
            payer=options.fee_payer,
            granter=options.fee_granter,
        )
        gas = estimate_gas(client, tx, keys)
        context.output.result({"gas_estimate": gas}, f"gas estimate: {gas}")
        return
    click.echo(to_json(_draft(client, options, messages, keys)), nl=False)


def _draft(client: "ChainClient", options: TxOptions, messages: tuple["Message", ...], keys: dict[str, bytes]) -> Any:
    from chain.client.drafts import make_draft

    return make_draft(
        client,
        messages,
        keys=keys,
        gas=options.gas or None,
        fee=options.fees,
        price_millionths=options.gas_prices,
        memo=options.note,
        timeout_height=options.timeout_height,
        payer=options.fee_payer,
        granter=options.fee_granter,
    )


def _send(
    context: CommandContext,
    client: "ChainClient",
    options: TxOptions,
    messages: tuple["Message", ...],
    info: "KeyInfo",
) -> "TxReceipt":
    from chain.client.drafts import account_of, deliver
    from wire.signing import sign
    from wire.tx import raw_of

    key = context.keyring().unlock(info.name)
    if replace(options, note="", sign_mode=SIGN_MODES[0]) == TxOptions() and options.sign_mode == SIGN_MODES[0]:
        return context.sender(client, key).send(*messages, memo=options.note)
    context.sender(client, key)  # warns of an unencrypted key
    tx = _draft(client, options, messages, {info.address: info.pub_key})
    account = account_of(client, info.address)
    sign(tx, key, sign_mode(options.sign_mode), client.status().chain_id, account.number, account.sequence)
    return deliver(client, raw_of(tx))
