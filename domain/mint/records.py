"""Records that the mint component keeps."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Number, Range
from domain.staking.records import Rate

YEAR = 31_557_600
"""Seconds in a year of 365.25 days, as the Cosmos SDK counts its blocks of a year."""

Provisions = Annotated[int, Range(0, 2**128 - 1)]
"""An amount in units of 10^-18 uassay."""


@dataclass(frozen=True, slots=True)
class Minter:
    """The inflation after a block. There is no such record while nothing is minted."""

    inflation: Rate = 0
    annual_provisions: Provisions = 0  # coins of a year at this inflation, in units of 10^-18 uassay
    clock: Number = 0  # time of the chain clock up to which coins are minted
