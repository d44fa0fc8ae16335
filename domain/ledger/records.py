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
    MaybePublicKey,
    Money,
    Name,
    Number,
    Range,
)
from domain.errors import INVALID_COINS
from domain.keys import ShareKey


@dataclass(frozen=True, slots=True)
class Coin:
    """An amount of a denomination."""

    denom: Denom
    amount: Annotated[int, Range(0, MONEY_MAX, INVALID_COINS)]


@dataclass(frozen=True, slots=True)
class Account:
    """Authentication data of an address; balances have keys of their own."""

    address: Address
    number: Number
    sequence: Number
    pub_key: MaybePublicKey  # 33 bytes compressed secp256k1, empty until the account has signed


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """An amount of a bond account that waits for its release."""

    amount: Money
    release_at: Number


@dataclass(frozen=True, slots=True)
class BondAccount:
    """Bond coins of a validator or provider that are not locked in an order's escrow."""

    owner: Address
    free: Money
    withdrawals: Annotated[tuple[Withdrawal, ...], Many]


@dataclass(frozen=True, slots=True)
class Depositor:
    """One depositor's row of an escrow."""

    address: Address
    locked: Money
    paid: Money
    refunded: Money


class BondKind(IntEnum):
    """Which bond a row of an escrow holds."""

    JOB = 1
    SHARE = 2


@dataclass(frozen=True, slots=True)
class BondRow:
    """A bond held by an order's escrow."""

    kind: BondKind
    owner: Address
    leg: Count
    round: Count
    slot: Count
    issue: Count
    amount: Money

    def share(self, order_id: bytes) -> ShareKey:
        """Return the share that the bond stands for, where it is one of a share."""
        return ShareKey(order_id=order_id, leg=self.leg, round=self.round, slot=self.slot, issue=self.issue)


@dataclass(frozen=True, slots=True)
class Escrow:
    """The money of one order: a row per depositor, and bonds in rows of their own.

    ``withheld`` of what the depositors locked is the validator's part of the leg's verified rounds: it is paid when
    the order settles, and is the deposit's again when the leg fails.
    """

    order_id: Hash
    depositors: Annotated[tuple[Depositor, ...], Many]
    bonds: Annotated[tuple[BondRow, ...], Many]
    withheld: Money = 0


@dataclass(frozen=True, slots=True)
class Payment:
    """One payment out of an order's escrow, as the queries list it (and the second count of every coin)."""

    to: Address  # an address; a module's for "protocol", "decline_fee" and what is burnt
    # Out of deposits: "provider", "validator", "auditor", "protocol", "refund", "deposit_burn", and out of what they
    # withhold from the validator: "held_compensation", "held_burn".
    # Out of bonds: "bond_return" (into the owner's bond account), "compensation", "decline_fee", "burn".
    kind: Name
    amount: Money
    round: Annotated[int, Range(-1, 2**31 - 1)]  # -1 where no round is concerned
