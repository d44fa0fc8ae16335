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
    """The node component's limits for every block, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.NodeParams).block_gas)
    """

    # Largest step of the chain clock per block.
    clock_step_max: Annotated[int, Range(1, 86_400)] = 60
    # Gas that the transactions of a block may declare together.
    block_gas: BlockGas = 100_000_000
    # Gas of the scheduled work of a block, in addition to that of its transactions.
    due_gas: DueGas = 50_000_000


LOCAL = NodeParams(clock_step_max=2)
"""The values of a local network."""
