"""Parameters of the mint component."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Range
from domain.readable import Readable
from domain.staking.records import ONE, Rate


@dataclass(frozen=True, slots=True)
class MintParams(Readable):
    """The bounds of inflation, with the defaults of a public network: no coins are minted.

    Rates are in units of 10^-18 a year.

    Example::

        print(assay.Params().of(assay.MintParams).inflation_max)
    """

    # Largest change of the inflation in a year.
    inflation_rate_change: Rate = 0
    # Largest inflation. No coins are minted while it is 0.
    inflation_max: Rate = 0
    # Least inflation, at most `inflation_max`.
    inflation_min: Rate = 0
    # Part of all coins that should be bonded. Below it, the inflation rises; above it, the inflation falls.
    goal_bonded: Annotated[int, Range(ONE // 100, ONE)] = ONE * 67 // 100


LOCAL = MintParams()
"""The values of a local network."""
