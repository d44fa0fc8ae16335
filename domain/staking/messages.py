"""Messages that the staking component handles: those of ``cosmos.staking.v1beta1``.

On the wire, validators have addresses that start with ``assayvaloper1``. Here they have the address of their operator's
account (:data:`domain.bounds.OperatorAddress`).
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from domain.bounds import Address, MaybeAddress, OperatorAddress, Pattern, PositiveMoney, Range
from domain.errors import INVALID_PUBKEY
from domain.ledger.records import Coin
from domain.messages import Message
from domain.staking.records import CommissionRates, Description, Rate

DO_NOT_MODIFY = "[do-not-modify]"
"""The text of a field of a description that an edit leaves as it is."""
KEY_URL = "/cosmos.crypto.ed25519.PubKey"
KEY_HEAD = b"\x0a\x20"
"""The bytes before the key in its protobuf encoding: field 1, 32 bytes."""


@dataclass(frozen=True, slots=True)
class AnyKey:
    """A consensus key as a ``google.protobuf.Any``."""

    type_url: Annotated[
        str,
        Pattern(
            what="the type of an Ed25519 key",
            pattern=KEY_URL.replace(".", "[.]"),
            remedy=f"send a {KEY_URL}",
            code=INVALID_PUBKEY,
        ),
    ]
    value: Annotated[
        bytes,
        Pattern(
            what="an Ed25519 key",
            pattern=rb"(?s)\x0a\x20.{32}",
            remedy="send the protobuf encoding of 32 bytes: `cometbft show-validator` prints them",
            code=INVALID_PUBKEY,
        ),
    ]

    @property
    def key(self) -> bytes:
        """The 32 bytes of the key."""
        return self.value[len(KEY_HEAD) :]


@dataclass(frozen=True, slots=True)
class MsgCreateValidator(Message):
    """Become a validator with a consensus key, and delegate the first coins to it. It enters the validator set when it
    has a valid beacon key (``MsgSetBeaconKey``) and enough stake.
    """

    URL: ClassVar[str] = "/cosmos.staking.v1beta1.MsgCreateValidator"
    SIGNER: ClassVar[str] = "validator_address"
    GAS_EXTRA: ClassVar[int] = 5
    description: Description
    commission: CommissionRates
    min_self_delegation: PositiveMoney
    delegator_address: MaybeAddress
    validator_address: OperatorAddress
    pubkey: AnyKey
    value: Coin


@dataclass(frozen=True, slots=True)
class MsgEditValidator(Message):
    """Change a validator's description, raise its minimum of self-delegation, or change its commission, which is
    possible once a day.
    """

    URL: ClassVar[str] = "/cosmos.staking.v1beta1.MsgEditValidator"
    SIGNER: ClassVar[str] = "validator_address"
    GAS_EXTRA: ClassVar[int] = 2
    description: Description
    validator_address: OperatorAddress
    commission_rate: Rate | None
    min_self_delegation: PositiveMoney | None


@dataclass(frozen=True, slots=True)
class MsgDelegate(Message):
    """Delegate coins to a validator. They back its orders and its power, and share its slashes."""

    URL: ClassVar[str] = "/cosmos.staking.v1beta1.MsgDelegate"
    SIGNER: ClassVar[str] = "delegator_address"
    GAS_EXTRA: ClassVar[int] = 6
    delegator_address: Address
    validator_address: OperatorAddress
    amount: Coin


@dataclass(frozen=True, slots=True)
class MsgUndelegate(Message):
    """Withdraw delegated coins. They are paid after ``unbonding_time`` seconds, and can be slashed until then."""

    URL: ClassVar[str] = "/cosmos.staking.v1beta1.MsgUndelegate"
    SIGNER: ClassVar[str] = "delegator_address"
    GAS_EXTRA: ClassVar[int] = 6
    delegator_address: Address
    validator_address: OperatorAddress
    amount: Coin


@dataclass(frozen=True, slots=True)
class MsgBeginRedelegate(Message):
    """Move delegated coins to another validator at once. They stay there for ``unbonding_time`` seconds."""

    URL: ClassVar[str] = "/cosmos.staking.v1beta1.MsgBeginRedelegate"
    SIGNER: ClassVar[str] = "delegator_address"
    GAS_EXTRA: ClassVar[int] = 8
    delegator_address: Address
    validator_src_address: OperatorAddress
    validator_dst_address: OperatorAddress
    amount: Coin


@dataclass(frozen=True, slots=True)
class MsgCancelUnbondingDelegation(Message):
    """Delegate coins again that were undelegated at a height and are not paid yet."""

    URL: ClassVar[str] = "/cosmos.staking.v1beta1.MsgCancelUnbondingDelegation"
    SIGNER: ClassVar[str] = "delegator_address"
    GAS_EXTRA: ClassVar[int] = 6
    delegator_address: Address
    validator_address: OperatorAddress
    amount: Coin
    creation_height: Annotated[int, Range(0, 2**63 - 1)]
