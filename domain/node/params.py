"""Parameters of the node component; durations in seconds on the chain clock."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Range
from domain.limits import GAS_MAX
from domain.readable import Readable

BlockGas = Annotated[int, Range(GAS_MAX, 10**12)]
"""A block has room for any transaction."""
DueGas = Annotated[int, Range(1, 10**12)]


@dataclass(frozen=True, slots=True)
class NodeParams(Readable):
    """What the node component asks of every block, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.NodeParams).block_gas)
    """

    # The most by which a block moves the chain clock.
    clock_step_max: Annotated[int, Range(1, 86_400)] = 60
    block_gas: BlockGas = 100_000_000  # that the transactions of a block declare
    due_gas: DueGas = 50_000_000  # of what happens by itself in a block, apart from that


LOCAL = NodeParams(clock_step_max=2)
"""Those of a local network."""
