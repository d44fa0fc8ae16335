"""The types of options and arguments.

If a type does not accept a value, the type raises click's usage error, and click adds the option's name to the message.
"""

import re
from typing import Any

import click

from assay.settings import kinds
from assay.settings.kinds import (
    Endpoint,
    Host,
    Kind,
    PeerList,
    SignerAddress,
    Text,
    Whole,
    WordChoice,
)
from domain.amount import ASSAY, MONEY_MAX, WORK_MAX, in_assay
from domain.errors import Refusal
from domain.limits import DURATION_MAX, ROUNDS_MAX

_DIGITS = re.compile("[0-9]{1,40}")
_DECIMALS = len(str(ASSAY)) - 1
_ASSAY = re.compile(rf"([0-9]{{1,30}})(?:\.([0-9]{{1,{_DECIMALS}}}))?ASSAY")
_BEACON_KEY = re.compile("0[23][0-9a-fA-F]{64}")
_INVITATION = re.compile("[0-9a-f]{144}")
ORDER_ID = "ORDER is the id of an order, or its first digits: 8 or more.\n\n"
BID_ID = "BID is the id of a bid, or its first digits: 8 or more.\n\n"
NOTES = "assay.notes"
"""Key in a click context's ``meta`` for the notes about arguments that the command prints."""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_BYTES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def click_type(kind: Kind) -> click.ParamType[Any]:
    """Return the click type for options whose values are of the given kind."""
    match kind:
        case WordChoice(options):
            return click.Choice(options)
        case Whole(low, high):
            return click.IntRange(low, high)
        case Text():
            return click.STRING
        case _:
            return CheckedParam(kind)


class Bounded(click.ParamType[int]):
    """A click type for an integer in a range, which users type as text and often with a unit."""

    low = 1
    high: int

    def read(self, text: str) -> int:
        """Return the integer that ``text`` stands for.

        For any other text, raise a ValueError that names the accepted form.
        """
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the integer that the value stands for; raise a usage error if the integer is not in the range."""
        try:
            number = self.read(value) if isinstance(value, str) else int(value)
        except ValueError as error:
            self.fail(f"{value} is not {error}", param, ctx)
        if not self.low <= number <= self.high:
            low, high = self.written(self.low), self.written(self.high)
            self.fail(f"{value} is out of range; accepted are {low} to {high}", param, ctx)
        return number

    def written(self, number: int) -> str:
        """Return a bound of the range as users type it."""
        return str(number)


class Amount(Bounded):
    """An amount of money: whole uassay, or ASSAY with at most six decimals."""

    name = "amount"
    high = MONEY_MAX

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the amount in uassay.

        For digits without a unit, add a note that the amount is in uassay, because the user may have meant ASSAY.
        """
        amount = super().convert(value, param, ctx)
        if isinstance(value, str) and _DIGITS.fullmatch(value) and param and ctx:
            name = param.get_error_hint(ctx).strip("'")
            note = f"{name}: {value} without a unit means uassay, that is {in_assay(amount)}"
            ctx.meta.setdefault(NOTES, []).append(note)
        return amount

    def read(self, text: str) -> int:
        """Return the amount in uassay; digits without a unit are uassay."""
        if text.startswith("-"):
            raise ValueError("an amount; amounts are above zero, for example 2.5ASSAY")
        whole = _ASSAY.fullmatch(text)
        if whole:
            return int(whole[1]) * ASSAY + int((whole[2] or "").ljust(_DECIMALS, "0"))
        digits = text.removesuffix("uassay")
        if not _DIGITS.fullmatch(digits):
            raise ValueError("an amount; write for example 2500000uassay or 2.5ASSAY")
        return int(digits)


class AmountCommand(click.Command):
    """A command whose last argument is an amount. It reports "-5" as an invalid amount, not as an unknown option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Treat a word that begins like a negative number as an argument, not as an option."""
        below = [word for word in args if re.match("-[0-9]", word)]
        if below and "--" not in args:
            args = [*(word for word in args if word not in below), "--", *below]
        return super().parse_args(ctx, args)


class Duration(Bounded):
    """A duration in seconds, written as 90s, 15m, 2h or 7d."""

    name = "duration"
    high = DURATION_MAX

    def read(self, text: str) -> int:
        """Return the duration in seconds; digits without a unit are seconds."""
        digits, unit = (text[:-1], text[-1]) if text and text[-1] in _SECONDS else (text, "s")
        if not _DIGITS.fullmatch(digits):
            raise ValueError("a duration; write 90s, 15m, 2h or 7d")
        return int(digits) * _SECONDS[unit]

    def written(self, number: int) -> str:
        """Return a number of seconds in the largest unit that divides it: 7200 becomes 2h."""
        unit = next(unit for unit in reversed(_SECONDS) if number % _SECONDS[unit] == 0)
        return f"{number // _SECONDS[unit]}{unit}"


class DurationOrNone(Duration):
    """A duration in seconds that may be 0."""

    low = 0


class ByteSize(Bounded):
    """A number of bytes, written as digits or with a unit (512MiB, 8GiB); 0 means that no minimum is set."""

    name = "size"
    low = 0
    high = 2**63 - 1

    def read(self, text: str) -> int:
        """Return the number of bytes; digits without a unit are bytes."""
        unit = next((unit for unit in _BYTES if text.endswith(unit)), "")
        digits = text.removesuffix(unit)
        if not _DIGITS.fullmatch(digits):
            raise ValueError("a size; write bytes as digits, or for example 512MiB, 8GiB")
        return int(digits) * _BYTES.get(unit, 1)


class Tags(click.ParamType[tuple[str, ...]]):
    """A comma-separated list of tags."""

    name = "tag,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the tags in alphabetical order, without duplicates."""
        if isinstance(value, tuple):
            return value
        return tuple(sorted({part.strip() for part in value.split(",") if part.strip()}))


class Names(click.ParamType[tuple[str, ...]]):
    """A comma-separated list of names, in the user's order."""

    name = "name,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the names in the user's order, without the spaces around them."""
        if isinstance(value, tuple):
            return value
        return tuple(part.strip() for part in value.split(",") if part.strip())


class AddressParam(click.ParamType[str]):
    """The address of an account."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the address; raise a usage error if the value is not an address."""
        from wire.address import check_address

        try:
            check_address(value, "")
        except Refusal as refusal:
            self.fail(f"{value!r} {refusal.reason}; {refusal.remedy}", param, ctx)
        return str(value)


class CheckedParam(click.ParamType[str]):
    """A click type for a text; a kind of setting (``assay.settings.kinds``) checks the text."""

    def __init__(self, kind: Kind) -> None:
        """Store the kind; help pages show its name."""
        self.kind, self.name = kind, kind.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text unchanged; raise a usage error if the kind of setting does not accept the text."""
        try:
            self.kind.check(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class BeaconKeyParam(click.ParamType[bytes]):
    """The public half of a beacon key, as `assay node show` prints it."""

    name = "beacon_key"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Return the key's 33 bytes; raise a usage error if the value is not a beacon key."""
        if not _BEACON_KEY.fullmatch(value):
            self.fail(f"{value!r} is not a beacon key; a beacon key has 66 hex digits", param, ctx)
        return bytes.fromhex(value)


class InvitationParam(click.ParamType[bytes]):
    """An invitation to a cluster, as `assay validator invite` prints it."""

    name = "invitation"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Return the invitation's bytes; fail with wrong usage if the value is not an invitation."""
        if not _INVITATION.fullmatch(value):
            self.fail(f"{value!r} is not an invitation; an invitation has 144 hex digits", param, ctx)
        return bytes.fromhex(value)


class ConsensusKeyParam(click.ParamType[bytes]):
    """The public half of a consensus key (Ed25519), in the forms that CometBFT, signers and the Cosmos SDK print."""

    name = "pubkey"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Return the 32 bytes of the key; raise a usage error for any other text."""
        from chain.app.remote_signer import read_public_key

        if isinstance(value, bytes):
            return value
        try:
            return read_public_key(value)
        except ValueError as error:
            self.fail(f"{error}; write its 64 hex digits, or what `cometbft show-validator` prints", param, ctx)


ADDRESS = AddressParam()
CONSENSUS_KEY = ConsensusKeyParam()
INVITATION = InvitationParam()
BEACON_KEY = BeaconKeyParam()
ENDPOINT = click_type(Endpoint())
HOST = click_type(Host())
PEERS = click_type(PeerList())
SIGNER = click_type(SignerAddress())
AMOUNT = Amount()
DURATION = Duration()
DURATION_OR_NONE = DurationOrNone()
SIZE = ByteSize()
TAGS = Tags()
NAMES = Names()
FLOPS = click.IntRange(1, WORK_MAX)
PORT = click_type(kinds.PORT)
PORT_OR_NONE = click_type(kinds.PORT_OR_NONE)
LOG_LEVEL = click_type(kinds.LOG_LEVEL)
LOG_FORMAT = click_type(kinds.LOG_FORMAT)
ROUND = click.IntRange(0, ROUNDS_MAX - 1)
