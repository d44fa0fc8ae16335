"""Places where coins can be and the reasons why they move, as values that components declare.

Each component that keeps a pot or causes a move declares it in its file ``moves.py`` and lists it in its words.
:mod:`domain.vocabulary` folds them. A move that is not declared there does not happen: the ledger of the state machine
checks each one.
"""

from dataclasses import dataclass
from enum import Enum, auto


@dataclass(frozen=True, slots=True)
class Pot:
    """A part of the state that holds coins. The sum over all of them is the supply.

    ``name`` is in the key of its count and never changes. ``address`` is what events show as the owner of its coins and
    plain transfers must not use; it is empty where each owner's own address is shown.
    """

    name: str
    address: str = ""


class Uses(Enum):
    """What of an order's escrow a move uses up."""

    DEPOSIT = auto()
    # What an order withholds from its validator, which is part of the deposit.
    WITHHELD = auto()
    BOND = auto()


@dataclass(frozen=True, slots=True)
class Move:
    """Why coins move, and from where to where.

    ``name`` is the kind of a payment in the state and in events, and never changes. ``uses`` says what of an order's
    escrow the move uses up, and is None for one that takes from another pot.
    """

    name: str
    source: Pot
    target: Pot
    uses: Uses | None = None

    @property
    def from_deposit(self) -> bool:
        """Whether it uses up a deposit, of which what is withheld is part."""
        return self.uses in (Uses.DEPOSIT, Uses.WITHHELD)


@dataclass(frozen=True, slots=True)
class Transfer:
    """Coins that move for a reason; the reason says from which pot to which."""

    move: Move
    source: str  # owner in the pot that the move takes from
    target: str  # owner in the pot that it goes to
    amount: int  # uassay
