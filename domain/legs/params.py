"""Parameters of the legs component; durations in seconds on the chain clock."""

from dataclasses import dataclass

from domain.bounds import Bps, Money
from domain.order_params import Legs, NewcomerSlots, Rate, RoundsAhead, Wait
from domain.readable import Readable


@dataclass(frozen=True, slots=True)
class LegsParams(Readable):
    """What the legs component asks of the two sides of a match, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.LegsParams).accept_max)
    """

    # To accept a match: this, and the time that payload and data take at `accept_rate`, at most `accept_max`.
    accept_base: Wait = 600
    accept_rate: Rate = 1_000_000  # bytes/s at which a validator is expected to fetch payload and data
    accept_max: Wait = 86_400  # the longest time to accept a match
    # To close a round: this, and three times what the round takes at the promised speed.
    progress_base: Wait = 3_600
    max_attempts: Legs = 3  # failed legs after which an order closes unserved
    job_bond_bps: Bps = 1_000  # of the work's price: what the winner locks for finishing it
    decline_fee_bps: Bps = 1_000  # of the job bond
    payload_fee: Money = 50_000  # burnt of both sides, where nobody can tell whose fault it was
    rounds_ahead: RoundsAhead = 16  # rounds that are closed and not verified, at most
    # That a provider serves at a time of which no share was accepted yet.
    newcomer_slots: NewcomerSlots = 1


LOCAL = LegsParams(
    accept_base=60,
    accept_rate=10_000_000,
    accept_max=300,
    progress_base=180,
    payload_fee=500,
    newcomer_slots=2,
)
"""Those of a local network."""
