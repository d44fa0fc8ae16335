"""Events that the mint component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change
from domain.mint.records import Minter


@dataclass(frozen=True, slots=True)
class CoinsMinted(Change):
    """A block made ``amount`` new coins (uassay), which are shared like fees."""

    KIND: ClassVar[str] = "mint.minted"
    amount: int
    minter: Minter
