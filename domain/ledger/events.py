"""Events that the ledger component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change


@dataclass(frozen=True, slots=True)
class BondDeposited(Change):
    """Coins came into a bond account."""

    KIND: ClassVar[str] = "bond.deposited"
    owner: str
    amount: int


@dataclass(frozen=True, slots=True)
class BondWithdrawing(Change):
    """Coins of a bond account wait for their release."""

    KIND: ClassVar[str] = "bond.withdrawing"
    owner: str
    amount: int
    release_at: int


@dataclass(frozen=True, slots=True)
class BondReleased(Change):
    """Coins of a bond account came back to the account."""

    KIND: ClassVar[str] = "bond.released"
    owner: str
    amount: int


@dataclass(frozen=True, slots=True)
class PaymentMade(Change):
    """Coins left an order's escrow; ``round`` is -1 where none is concerned.

    ``leg``, ``slot`` and ``issue`` name the bond that they come from: of a job, of which slot and issue are 0, or
    of a share. Without a leg they come from the deposit.

    Example::

        for event in order.events():
            if isinstance(event, assay.PaymentMade):
                print(event.to, event.kind, event.amount)
    """

    KIND: ClassVar[str] = "payment"
    order: bytes
    to: str
    kind: str
    amount: int
    round: int
    leg: int
    slot: int
    issue: int
