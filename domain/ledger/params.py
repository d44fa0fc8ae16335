"""Parameters of the ledger component; durations in seconds on the chain clock."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Range
from domain.order_params import Wait
from domain.readable import Readable


@dataclass(frozen=True, slots=True)
class LedgerParams(Readable):
    """What the ledger component asks of accounts, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.LedgerParams).bond_wait)
    """

    # Consensus minimum, millionths of uassay per gas unit.
    min_gas_price_millionths: Annotated[int, Range(0, 10**12)] = 1_000
    bond_wait: Wait = 14 * 86_400  # from the withdrawal of free bonds until the coins arrive


LOCAL = LedgerParams(bond_wait=60)
"""Those of a local network."""
