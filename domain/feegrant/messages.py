"""Messages that the component of fee grants handles: those of ``cosmos.feegrant.v1beta1``."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from domain.bounds import Address, Length
from domain.errors import INVALID_COINS
from domain.feegrant.records import ALLOWED_MAX, TypeUrl
from domain.ledger.records import Coin
from domain.messages import Message
from domain.times import TimeSpan, Timestamp

PRUNED_MAX = 75
"""Most fee grants that a ``MsgPruneAllowances`` removes."""

Limit = Annotated[tuple[Coin, ...], Length(0, 1, INVALID_COINS)]
"""An amount of coins; an empty list is no limit."""


@dataclass(frozen=True, slots=True)
class BasicAllowance:
    """An allowance with an end and a limit, or without."""

    URL: ClassVar[str] = "/cosmos.feegrant.v1beta1.BasicAllowance"
    spend_limit: Limit
    expiration: Timestamp | None


@dataclass(frozen=True, slots=True)
class PeriodicAllowance:
    """An allowance with a limit for each period."""

    URL: ClassVar[str] = "/cosmos.feegrant.v1beta1.PeriodicAllowance"
    basic: BasicAllowance
    period: TimeSpan
    period_spend_limit: Limit
    period_can_spend: Limit
    period_reset: Timestamp | None


@dataclass(frozen=True, slots=True)
class AllowedMsgAllowance:
    """An allowance for transactions that have messages of some types only."""

    URL: ClassVar[str] = "/cosmos.feegrant.v1beta1.AllowedMsgAllowance"
    allowance: BasicAllowance | PeriodicAllowance
    allowed_messages: Annotated[tuple[TypeUrl, ...], Length(0, ALLOWED_MAX)]


Allowance = BasicAllowance | PeriodicAllowance | AllowedMsgAllowance


@dataclass(frozen=True, slots=True)
class MsgGrantAllowance(Message):
    """Let another account pay fees with your coins. It names you as the granter of a fee."""

    URL: ClassVar[str] = "/cosmos.feegrant.v1beta1.MsgGrantAllowance"
    SIGNER: ClassVar[str] = "granter"
    GAS_EXTRA: ClassVar[int] = 2
    granter: Address
    grantee: Address
    allowance: Allowance


@dataclass(frozen=True, slots=True)
class MsgRevokeAllowance(Message):
    """End a fee grant."""

    URL: ClassVar[str] = "/cosmos.feegrant.v1beta1.MsgRevokeAllowance"
    SIGNER: ClassVar[str] = "granter"
    GAS_EXTRA: ClassVar[int] = 1
    granter: Address
    grantee: Address


@dataclass(frozen=True, slots=True)
class MsgPruneAllowances(Message):
    """Remove fee grants that have expired, up to 75 of them. Every block removes some, too."""

    URL: ClassVar[str] = "/cosmos.feegrant.v1beta1.MsgPruneAllowances"
    SIGNER: ClassVar[str] = "pruner"
    pruner: Address
