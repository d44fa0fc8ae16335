"""Messages that the ledger component handles."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from domain.bounds import Address, Length, PositiveMoney
from domain.errors import INVALID_COINS
from domain.ledger.records import Coin
from domain.messages import Message


@dataclass(frozen=True, slots=True)
class MsgSend(Message):
    """Move coins between accounts (``cosmos.bank.v1beta1.MsgSend``)."""

    URL: ClassVar[str] = "/cosmos.bank.v1beta1.MsgSend"
    SIGNER: ClassVar[str] = "from_address"
    from_address: Address
    to_address: Address
    amount: Annotated[tuple[Coin, ...], Length(1, 1, INVALID_COINS)]


@dataclass(frozen=True, slots=True)
class MsgDepositBond(Message):
    """Move coins from an account into its bond account. The job bonds of validators and the share bonds of providers
    are locked from these bond accounts.
    """

    URL: ClassVar[str] = "/assay.registry.v1.MsgDepositBond"
    SIGNER: ClassVar[str] = "owner"
    owner: Address
    amount: PositiveMoney


@dataclass(frozen=True, slots=True)
class MsgWithdrawBond(Message):
    """Withdraw free bond coins. They arrive in the account after ``bond_wait`` seconds."""

    URL: ClassVar[str] = "/assay.registry.v1.MsgWithdrawBond"
    SIGNER: ClassVar[str] = "owner"
    owner: Address
    amount: PositiveMoney
