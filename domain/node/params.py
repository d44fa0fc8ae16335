"""Parameters of the node component; durations in seconds on the chain clock."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Range
from domain.limits import GAS_MAX
from domain.readable import Readable

BlockGas = Annotated[int, Range(GAS_MAX, 10**12)]
"""Gas of a block, enough for any transaction."""
DueGas = Annotated[int, Range(1, 10**12)]


@dataclass(frozen=True, slots=True)
class NodeParams(Readable):
    """The node component's limits for each block, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.NodeParams).block_gas)
    """

    # Longest time (seconds) by which a block can advance the chain clock.
    clock_step_max: Annotated[int, Range(1, 86_400)] = 60
    # Largest sum of the gas limits of a block's transactions.
    block_gas: BlockGas = 100_000_000
    # Gas for the scheduled work of a block, in addition to the gas of its transactions.
    due_gas: DueGas = 50_000_000
    # Largest change of the gas price from one block to the next (bps).
    gas_price_change_bps: Annotated[int, Range(0, 5_000)] = 1_250


def tx_gas_max(params: NodeParams) -> int:
    """Return the largest gas limit that a transaction may declare: a tenth of a block's gas."""
    return params.block_gas // 10


LOCAL = NodeParams(clock_step_max=2)
"""The values of a local network."""
