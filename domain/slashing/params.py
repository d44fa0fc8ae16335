"""Parameters of the slashing component; durations in seconds on the chain clock."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Duration, Range
from domain.readable import Readable
from domain.staking.records import ONE, Rate

WINDOW_MAX = 100_000


@dataclass(frozen=True, slots=True)
class SlashingParams(Readable):
    """The rules for validators that sign twice or do not sign, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.SlashingParams).signed_blocks_window)
    """

    # Number of blocks over which a validator's absences are counted.
    signed_blocks_window: Annotated[int, Range(10, WINDOW_MAX)] = 10_000
    # Least part of these blocks that a validator has to sign, in units of 10^-18.
    min_signed_per_window: Rate = ONE // 2
    # Time after which a validator that was jailed for absence may unjail itself.
    downtime_jail_duration: Duration = 600
    # Part of its stake that a validator loses for two signatures at one height, in units of 10^-18.
    slash_fraction_double_sign: Rate = ONE // 20
    # Part of its stake that a validator loses when it is jailed for absence, in units of 10^-18.
    slash_fraction_downtime: Rate = ONE // 100
    # Age up to which evidence of two signatures counts.
    evidence_max_age: Duration = 21 * 86_400


LOCAL = SlashingParams(signed_blocks_window=2_000, downtime_jail_duration=60, evidence_max_age=600)
"""The values of a local network."""
