"""Messages that the distribution component handles: those of ``cosmos.distribution.v1beta1``."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from domain.bounds import Address, Length, OperatorAddress
from domain.errors import INVALID_COINS
from domain.ledger.records import Coin
from domain.messages import Message


@dataclass(frozen=True, slots=True)
class MsgSetWithdrawAddress(Message):
    """Have the rewards of one's delegations, and one's commission, paid to another account from now on."""

    URL: ClassVar[str] = "/cosmos.distribution.v1beta1.MsgSetWithdrawAddress"
    SIGNER: ClassVar[str] = "delegator_address"
    delegator_address: Address
    withdraw_address: Address


@dataclass(frozen=True, slots=True)
class MsgWithdrawDelegatorReward(Message):
    """Withdraw the rewards of a delegation."""

    URL: ClassVar[str] = "/cosmos.distribution.v1beta1.MsgWithdrawDelegatorReward"
    SIGNER: ClassVar[str] = "delegator_address"
    GAS_EXTRA: ClassVar[int] = 2
    delegator_address: Address
    validator_address: OperatorAddress


@dataclass(frozen=True, slots=True)
class MsgWithdrawValidatorCommission(Message):
    """Withdraw the commission of a validator."""

    URL: ClassVar[str] = "/cosmos.distribution.v1beta1.MsgWithdrawValidatorCommission"
    SIGNER: ClassVar[str] = "validator_address"
    GAS_EXTRA: ClassVar[int] = 1
    validator_address: OperatorAddress


@dataclass(frozen=True, slots=True)
class MsgFundCommunityPool(Message):
    """Give coins to the community pool."""

    URL: ClassVar[str] = "/cosmos.distribution.v1beta1.MsgFundCommunityPool"
    SIGNER: ClassVar[str] = "depositor"
    amount: Annotated[tuple[Coin, ...], Length(1, 1, INVALID_COINS)]
    depositor: Address


@dataclass(frozen=True, slots=True)
class MsgCommunityPoolSpend(Message):
    """Pay coins of the community pool to an account. Only a proposal can have this message."""

    URL: ClassVar[str] = "/cosmos.distribution.v1beta1.MsgCommunityPoolSpend"
    SIGNER: ClassVar[str] = "authority"
    authority: Address
    recipient: Address
    amount: Annotated[tuple[Coin, ...], Length(1, 1, INVALID_COINS)]
