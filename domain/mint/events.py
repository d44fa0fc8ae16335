"""Events that the mint component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change
from domain.mint.records import Minter


@dataclass(frozen=True, slots=True)
class CoinsMinted(Change):
    """A block minted ``amount`` (uassay), which it shares like fees. ``minter`` is empty if minting ended."""

    KIND: ClassVar[str] = "mint.minted"
    amount: int
    minter: Minter
