"""Pots that hold coins, and the reasons for which coins move between them. Components declare both as values.

Each component that keeps a pot or causes a move declares it in its file ``moves.py`` and lists it in its vocabulary.
:mod:`domain.vocabulary` collects them. The ledger of the state machine checks each move and refuses one that is not
declared.
"""

from dataclasses import dataclass
from enum import Enum, auto


@dataclass(frozen=True, slots=True)
class Pot:
    """A part of the state that holds coins. The sum of all pots is the supply.

    ``name`` never changes, because it is part of the key under which the state counts the pot's coins. Events show
    ``address`` as the owner of these coins; plain transfers to this address are refused. ``address`` is empty if events
    show each owner's own address.
    """

    name: str
    address: str = ""


class Uses(Enum):
    """The part of an order's escrow that a move takes from."""

    DEPOSIT = auto()
    # The coins withheld from the validator, which are part of the deposit.
    WITHHELD = auto()
    BOND = auto()


@dataclass(frozen=True, slots=True)
class Move:
    """A reason for which coins move. It names the pot that the coins leave and the pot that they reach.

    ``name`` never changes, because the state and events contain it as the kind of a payment. ``uses`` is the part of an
    order's escrow that the move takes from; it is None for a move from another pot.
    """

    name: str
    source: Pot
    target: Pot
    uses: Uses | None = None

    @property
    def from_deposit(self) -> bool:
        """True if the move takes from a deposit, which includes the withheld coins."""
        return self.uses in (Uses.DEPOSIT, Uses.WITHHELD)


@dataclass(frozen=True, slots=True)
class Transfer:
    """Coins that move for a reason. The reason names the pot that they leave and the pot that they reach."""

    move: Move
    source: str  # owner of the coins in the pot that they leave
    target: str  # owner of the coins in the pot that they reach
    amount: int  # uassay
