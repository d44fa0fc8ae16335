"""Changes of the state that the node component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change


@dataclass(frozen=True, slots=True)
class RulesChanged(Change):
    """A new version of the rules is in force from this block on."""

    KIND: ClassVar[str] = "rules.changed"
    version: int


@dataclass(frozen=True, slots=True)
class GasPriceChanged(Change):
    """From the next block on, transactions that are not duties pay at least a new gas price. ``price_millionths`` is in
    millionths of uassay per unit of gas.
    """

    KIND: ClassVar[str] = "gas.price_changed"
    price_millionths: int
