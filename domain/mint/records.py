"""Records that the mint component keeps."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Range
from domain.staking.records import Rate

Provisions = Annotated[int, Range(0, 2**128 - 1)]
"""An amount in units of 10^-18 uassay."""


@dataclass(frozen=True, slots=True)
class Minter:
    """The inflation of the last block (units of 10^-18), and the coins of a year at this rate (10^-18 uassay)."""

    inflation: Rate = 0
    annual_provisions: Provisions = 0
