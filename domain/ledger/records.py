"""Records that the ledger component keeps: frozen dataclasses of integers, strings, bytes and tuples."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from domain.amount import MONEY_MAX
from domain.bounds import (
    Address,
    Count,
    Denom,
    Hash,
    Many,
    Money,
    Name,
    Number,
    Range,
    Size,
)
from domain.errors import INSUFFICIENT_FUNDS, INVALID_COINS
from domain.keys import ShareKey
from domain.limits import ACCOUNT_KEY_BYTES_MAX, SLOTS_MAX

PUB_KEY_BYTES = 33
"""Size of the compressed secp256k1 key of one person."""


@dataclass(frozen=True, slots=True)
class Coin:
    """An amount of a denomination."""

    denom: Denom
    amount: Annotated[int, Range(0, MONEY_MAX, INVALID_COINS, above=INSUFFICIENT_FUNDS)]


@dataclass(frozen=True, slots=True)
class Account:
    """The authentication data of an address. The balance of the address is stored under another key."""

    address: Address
    number: Number
    sequence: Number
    # Compressed secp256k1 (33 bytes), or the longer key of a multisig account; empty until the account has signed.
    pub_key: Annotated[bytes, Size(0, ACCOUNT_KEY_BYTES_MAX)]

    @property
    def is_multisig(self) -> bool:
        """True if several people sign for the account."""
        return len(self.pub_key) > PUB_KEY_BYTES


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Coins of a bond account that wait until ``release_at`` to be returned to the owner."""

    amount: Money
    release_at: Number


@dataclass(frozen=True, slots=True)
class BondAccount:
    """The bond coins of a validator or provider that are not locked in an escrow."""

    owner: Address
    free: Money
    withdrawals: Annotated[tuple[Withdrawal, ...], Many]


@dataclass(frozen=True, slots=True)
class Depositor:
    """One depositor's row in an escrow."""

    address: Address
    locked: Money
    paid: Money
    refunded: Money


CHALLENGE_SLOT = SLOTS_MAX
"""The slot in the row of a challenge's bond. No share has it, so slot and issue identify each bond of a round."""


APPEAL_SLOT = SLOTS_MAX + 1
"""The slot in the row of an appeal's bond. No share and no challenge has it."""


RESULT_SLOT = SLOTS_MAX + 2
"""The slot in the row of the bond of a consumer that was not served a result."""


class BondKind(IntEnum):
    """The kind of bond in a row of an escrow."""

    JOB = 1
    SHARE = 2
    CHALLENGE = 3
    APPEAL = 4
    RESULT = 5


@dataclass(frozen=True, slots=True)
class BondRow:
    """A bond that an order's escrow holds.

    The ``issue`` of a challenge's bond is the number of the dispute, and its slot is ``CHALLENGE_SLOT``. For the bond
    of an appeal, the issue is the number of the panel's dispute plus 1, and the slot is ``APPEAL_SLOT``. For the
    bond of a consumer that was not served a result, the issue is the panel's number, and the slot is ``RESULT_SLOT``.
    """

    kind: BondKind
    owner: Address
    leg: Count
    round: Count
    slot: Count
    issue: Count
    amount: Money

    def share(self, order_id: bytes) -> ShareKey:
        """Return the key of the share for which the row's share bond was locked."""
        return ShareKey(order_id=order_id, leg=self.leg, round=self.round, slot=self.slot, issue=self.issue)


@dataclass(frozen=True, slots=True)
class Escrow:
    """The money of one order. It has one row per depositor and one row per bond.

    ``withheld`` is the part of the locked deposits that belongs to the validator for verified rounds of its leg. This
    part (uassay) is paid when the order settles. If the leg fails, the part belongs to the deposit again.
    """

    order_id: Hash
    depositors: Annotated[tuple[Depositor, ...], Many]
    bonds: Annotated[tuple[BondRow, ...], Many]
    withheld: Money = 0


@dataclass(frozen=True, slots=True)
class Payment:
    """A payment out of an order's escrow, in the form in which queries return it.

    The sum of payments is a second count of all coins.
    """

    to: Address  # the address of a pot for "protocol", "decline_fee" and burnt coins
    # Kinds of payments from deposits: "provider", "validator", "auditor", "protocol", "refund", "deposit_burn",
    # "refund_burn". Kinds from the coins withheld from the validator: "withheld_compensation", "withheld_burn". Kinds
    # from bonds: "bond_return" (into the owner's bond account), "compensation", "decline_fee", "burn".
    kind: Name
    amount: Money
    round: Annotated[int, Range(-1, 2**31 - 1)]  # -1 if the payment belongs to no round
