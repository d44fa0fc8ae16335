"""Parameters of the registry component; durations in seconds on the chain clock."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Range
from domain.order_params import Wait
from domain.readable import Readable

Blocks = Annotated[int, Range(1, 10**9)]


@dataclass(frozen=True, slots=True)
class RegistryParams(Readable):
    """The registry's rules for validators, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.RegistryParams).promise_wait)
    """

    # Blocks from the registration of a beacon key to the first block for which the key is valid.
    beacon_delay: Blocks = 1_000
    # Time after the last halving of a validator's promise during which the validator may not raise it.
    promise_wait: Wait = 86_400
    # Time in which three faults that the last stage of a panel ruled on put a validator in jail.
    fault_period: Wait = 2_592_000
    # Time for which a validator in jail gets no matches and no seats.
    jail_time: Wait = 604_800


LOCAL = RegistryParams(beacon_delay=10, promise_wait=60, fault_period=3_600, jail_time=600)
"""The values of a local network."""
