"""Events that the ledger component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change


@dataclass(frozen=True, slots=True)
class BondDeposited(Change):
    """Coins were added to a bond account."""

    KIND: ClassVar[str] = "bond.deposited"
    owner: str
    amount: int


@dataclass(frozen=True, slots=True)
class BondWithdrawing(Change):
    """The owner of a bond account withdraws coins from it. They return to the owner at ``release_at`` (chain clock)."""

    KIND: ClassVar[str] = "bond.withdrawing"
    owner: str
    amount: int
    release_at: int


@dataclass(frozen=True, slots=True)
class BondReleased(Change):
    """Coins of a bond account were returned to the owner's account."""

    KIND: ClassVar[str] = "bond.released"
    owner: str
    amount: int


@dataclass(frozen=True, slots=True)
class PaymentMade(Change):
    """Coins left an order's escrow. ``round`` is -1 if the payment does not belong to a round.

    If the coins come from a bond, ``leg``, ``slot`` and ``issue`` name that bond; for a job bond, ``slot`` and
    ``issue`` are 0. If the coins come from the deposit, ``leg``, ``slot`` and ``issue`` are all 0.

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
