"""Parameters of the market component; durations in seconds on the chain clock."""

from dataclasses import dataclass

from domain.bounds import Duration, Money
from domain.readable import Readable


@dataclass(frozen=True, slots=True)
class MarketParams(Readable):
    """What the market component asks of orders, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.MarketParams).ttl_max)
    """

    order_min: Money = 200_000  # the smallest deposit of an order
    ttl_max: Duration = 7 * 86_400  # the longest time to live of an order without a match


LOCAL = MarketParams(order_min=2_000)
"""Those of a local network."""
