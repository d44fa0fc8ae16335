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
    """Coins of a bond account are no longer free. They return to the owner at ``release_at`` on the chain clock."""

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

    ``leg``, ``slot`` and ``issue`` name the bond that the coins come from: a share's bond, or the job bond, for which
    slot and issue are 0. A payment without a leg comes from the deposit.

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
