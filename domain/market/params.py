"""Parameters of the market component; durations in seconds on the chain clock."""

from dataclasses import dataclass

from domain.bounds import ByteCount, Duration, Money
from domain.limits import STATE_HEADER_MAX
from domain.readable import Readable


@dataclass(frozen=True, slots=True)
class MarketParams(Readable):
    """The market's requirements for orders, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.MarketParams).ttl_max)
    """

    # Smallest deposit (uassay) of an order. A genesis with less than ten times `payload_fee` is refused.
    order_min: Money = 500_000
    # Longest time that an order may stay in the book without a match.
    ttl_max: Duration = 7 * 86_400
    # Largest size (bytes) of an order's global state, and of the local state of each slot.
    state_max: ByteCount = 64 * 2**30 + STATE_HEADER_MAX


LOCAL = MarketParams(order_min=5_000)
"""The values of a local network."""
