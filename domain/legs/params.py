"""Parameters of the legs component; durations in seconds on the chain clock."""

from dataclasses import dataclass
from typing import Annotated

from domain.amount import MONEY_MAX
from domain.bounds import Bps, Range
from domain.order_params import Legs, NewcomerSlots, Rate, RoundsAhead, Wait
from domain.readable import Readable

FEES_IN_DEPOSIT = 10
"""Least deposit of an order, as a multiple of ``payload_fee``. With a smaller deposit, declines could burn most of
it.
"""

PayloadFee = Annotated[int, Range(0, MONEY_MAX // FEES_IN_DEPOSIT)]
"""A fee (uassay). Its bound leaves room for a deposit of ``FEES_IN_DEPOSIT`` times the fee."""


@dataclass(frozen=True, slots=True)
class LegsParams(Readable):
    """The legs component's requirements for both sides of a match, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.LegsParams).accept_max)
    """

    # Fixed part of the time to accept a match. The time that payload and data take at `accept_rate` is added, and the
    # sum is at most `accept_max`.
    accept_base: Wait = 600
    # Rate (bytes/s) at which a validator should fetch payload and data.
    accept_rate: Rate = 1_000_000
    # Longest time to accept a match.
    accept_max: Wait = 86_400
    # Fixed part of the time to close a round. Three times the round's duration at the promised speed is added.
    progress_base: Wait = 3_600
    # Number of failed legs after which an order closes unserved.
    max_attempts: Legs = 3
    # Part of the work's price (bps) that the winner locks as job bond until it has finished the work.
    job_bond_bps: Bps = 1_000
    # Part of the job bond (bps) that a validator pays if it declines a match by its own choice.
    decline_fee_bps: Bps = 1_000
    # Amount (uassay) burnt from the job bond and from the deposit if a validator declines and blames the job, because
    # the chain cannot find out which side is at fault.
    payload_fee: PayloadFee = 50_000
    # Part of the total stake (bps). An order closes if at least `max_attempts` validators blame its job and they
    # together hold at least this part.
    decline_stake_bps: Bps = 1_000
    # Number of rounds of a leg that may be closed and not yet verified.
    rounds_ahead: RoundsAhead = 16
    # Slots that a provider may serve at once before its first share is accepted.
    newcomer_slots: NewcomerSlots = 1


LOCAL = LegsParams(
    accept_base=60,
    accept_rate=10_000_000,
    accept_max=300,
    progress_base=180,
    payload_fee=500,
    newcomer_slots=2,
)
"""The values of a local network."""
