"""``assay tx staking``: become a validator, and delegate coins to one. Options have the names of the Cosmos SDK."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

import click

from assay.cli.arguments import AMOUNT, CONSENSUS_KEY, AmountCommand
from assay.cli.context import CommandContext, common_options
from assay.cli.transacting import TxOptions, transact, tx_options

if TYPE_CHECKING:
    from domain.ledger.records import Coin
    from domain.messages import Message

_RATE = re.compile(r"[01](?:\.[0-9]{1,18})?")
_KEEP = "[do-not-modify]"


class RateParam(click.ParamType[int]):
    """A rate from 0 to 1 with up to 18 decimal places, as an integer of units of 10^-18."""

    name = "rate"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the rate; raise a usage error for any other text."""
        if isinstance(value, int):
            return value
        rate = int(Decimal(value) * 10**18) if _RATE.fullmatch(value) else -1
        if not 0 <= rate <= 10**18:
            self.fail(f"{value!r} is not a rate; write a number from 0 to 1, for example 0.10 for 10 %", param, ctx)
        return rate


class ValidatorParam(click.ParamType[str]):
    """A validator, by the address of its operator: with the prefix ``assayvaloper`` or of the account."""

    name = "validator"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the account's address; raise a usage error for any other text."""
        from domain.errors import Refusal
        from wire.address import OPERATOR_PREFIX, account_of, check_address

        try:
            if value.startswith(OPERATOR_PREFIX):
                return account_of(value, "validator")
            check_address(value, "validator")
        except Refusal as refusal:
            self.fail(f"{value!r} {refusal.reason}; {refusal.remedy}", param, ctx)
        return value


RATE, VALIDATOR = RateParam(), ValidatorParam()


@click.group(help="Become a validator, and delegate coins to validators.")
def command() -> None:
    """Group of the transactions about stake."""


def _described(default: str | None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options of a description. An edit keeps what its options leave out."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        options = (
            click.option("--details", default=default, help="A longer text about the validator."),
            click.option("--security-contact", default=default, help="Address for reports of security problems."),
            click.option("--website", default=default, help="Address of a page."),
            click.option("--identity", default=default, help="Identity, for example a Keybase number."),
        )
        for option in options:
            function = option(function)
        return function

    return add


@command.command(
    "create-validator",
    help="""Register this home's validator, and delegate coins to it.

    It enters the validator set when its first beacon key is valid: register one with `assay node new-beacon-key`.

    Example: assay tx staking create-validator --amount 100ASSAY --moniker mine --from op
    """,
)
@click.option("--amount", type=AMOUNT, required=True, help="Coins to delegate to it.")
@click.option("--moniker", required=True, help="Name of the validator.")
@_described("")
@click.option("--commission-rate", type=RATE, default="0.10", show_default=True, help="Part of the rewards to keep.")
@click.option("--commission-max-rate", type=RATE, default="0.20", show_default=True, help="Largest rate for ever.")
@click.option(
    "--commission-max-change-rate", type=RATE, default="0.01", show_default=True, help="Largest change in a day."
)
@click.option(
    "--min-self-delegation",
    type=AMOUNT,
    default="1ASSAY",
    show_default=True,
    help="Least own coins; below them it leaves the validator set.",
)
@click.option("--pubkey", type=CONSENSUS_KEY, help="Consensus key, in hex or as JSON.  [the key of this home's node]")
@tx_options
@common_options
def create_validator(
    context: CommandContext,
    amount: int,
    moniker: str,
    identity: str,
    website: str,
    security_contact: str,
    details: str,
    commission_rate: int,
    commission_max_rate: int,
    commission_max_change_rate: int,
    min_self_delegation: int,
    pubkey: bytes | None,
    options: TxOptions,
) -> None:
    """Register a validator with the consensus key of the home's node, or with ``pubkey``."""
    from chain.app.homes import read_home_keys, read_node_table
    from domain.staking.messages import KEY_HEAD, KEY_URL, AnyKey, MsgCreateValidator
    from domain.staking.records import CommissionRates, Description

    if pubkey is None:
        read_node_table(context.home)
        pubkey = read_home_keys(context.home).cons_key
    described = Description(
        moniker=moniker,
        identity=identity,
        website=website,
        security_contact=security_contact,
        details=details,
    )
    rates = CommissionRates(commission_rate, commission_max_rate, commission_max_change_rate)
    key = AnyKey(KEY_URL, KEY_HEAD + pubkey)
    _send(
        context,
        options,
        lambda address: MsgCreateValidator(
            description=described,
            commission=rates,
            min_self_delegation=min_self_delegation,
            delegator_address="",
            validator_address=address,
            pubkey=key,
            value=_coin(amount),
        ),
    )


@command.command(
    "edit-validator",
    help="Change your validator's description or commission. The commission changes at most once a day."
    "\n\nExample: assay tx staking edit-validator --website https://example.org --from op",
)
@click.option("--new-moniker", "moniker", default=_KEEP, help="New name.")
@_described(_KEEP)
@click.option("--commission-rate", type=RATE, help="New part of the rewards to keep.")
@click.option("--min-self-delegation", type=AMOUNT, help="Higher minimum of own coins.")
@tx_options
@common_options
def edit_validator(
    context: CommandContext,
    moniker: str,
    identity: str,
    website: str,
    security_contact: str,
    details: str,
    commission_rate: int | None,
    min_self_delegation: int | None,
    options: TxOptions,
) -> None:
    """Change what the options name."""
    from domain.staking.messages import MsgEditValidator
    from domain.staking.records import Description

    described = Description(
        moniker=moniker,
        identity=identity,
        website=website,
        security_contact=security_contact,
        details=details,
    )
    _send(
        context,
        options,
        lambda address: MsgEditValidator(
            description=described,
            validator_address=address,
            commission_rate=commission_rate,
            min_self_delegation=min_self_delegation,
        ),
    )


@command.command(
    cls=AmountCommand,
    help="Delegate coins to a validator.\n\nExample: assay tx staking delegate assayvaloper1… 5ASSAY --from alice",
)
@click.argument("validator", type=VALIDATOR)
@click.argument("coins", type=AMOUNT)
@tx_options
@common_options
def delegate(context: CommandContext, validator: str, coins: int, options: TxOptions) -> None:
    """Delegate coins."""
    from domain.staking.messages import MsgDelegate

    _send(context, options, lambda address: MsgDelegate(address, validator, _coin(coins)))


@command.command(
    cls=AmountCommand,
    help="Withdraw delegated coins; they arrive after the chain's unbonding_time."
    "\n\nExample: assay tx staking undelegate assayvaloper1… 5ASSAY --from alice",
)
@click.argument("validator", type=VALIDATOR)
@click.argument("coins", type=AMOUNT)
@tx_options
@common_options
def undelegate(context: CommandContext, validator: str, coins: int, options: TxOptions) -> None:
    """Undelegate coins."""
    from domain.staking.messages import MsgUndelegate

    _send(context, options, lambda address: MsgUndelegate(address, validator, _coin(coins)))


@command.command(
    cls=AmountCommand,
    help="Move delegated coins from one validator to another. They stay there for the chain's unbonding_time."
    "\n\nExample: assay tx staking redelegate assayvaloper1… assayvaloper1… 5ASSAY --from alice",
)
@click.argument("source", type=VALIDATOR)
@click.argument("target", type=VALIDATOR)
@click.argument("coins", type=AMOUNT)
@tx_options
@common_options
def redelegate(context: CommandContext, source: str, target: str, coins: int, options: TxOptions) -> None:
    """Redelegate coins."""
    from domain.staking.messages import MsgBeginRedelegate

    _send(
        context,
        options,
        lambda address: MsgBeginRedelegate(
            delegator_address=address,
            validator_src_address=source,
            validator_dst_address=target,
            amount=_coin(coins),
        ),
    )


@command.command(
    "cancel-unbond",
    help="Delegate coins again that you undelegated in the block of a height."
    "\n\nExample: assay tx staking cancel-unbond assayvaloper1… 5ASSAY 1234 --from alice",
)
@click.argument("validator", type=VALIDATOR)
@click.argument("coins", type=AMOUNT)
@click.argument("height", type=click.IntRange(1, 2**63 - 1))
@tx_options
@common_options
def cancel_unbond(context: CommandContext, validator: str, coins: int, height: int, options: TxOptions) -> None:
    """Cancel a part of an unbonding entry, or all of it."""
    from domain.staking.messages import MsgCancelUnbondingDelegation

    _send(
        context,
        options,
        lambda address: MsgCancelUnbondingDelegation(
            delegator_address=address,
            validator_address=validator,
            amount=_coin(coins),
            creation_height=height,
        ),
    )


def _coin(amount: int) -> "Coin":
    from domain.genesis import DENOM
    from domain.ledger.records import Coin

    return Coin(DENOM, amount)


def _send(context: CommandContext, options: TxOptions, make: Callable[[str], "Message"]) -> None:
    """Send the message that ``make`` returns for the address of the home's key, or do what the options say."""
    transact(context, options, lambda address: (make(address),))
