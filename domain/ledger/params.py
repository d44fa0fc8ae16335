"""Parameters of the ledger component; durations in seconds on the chain clock."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Range
from domain.order_params import Wait
from domain.readable import Readable


@dataclass(frozen=True, slots=True)
class LedgerParams(Readable):
    """The ledger's requirements for accounts, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.LedgerParams).bond_wait)
    """

    # Lowest gas price that the chain accepts, in millionths of uassay per unit of gas.
    min_gas_price_millionths: Annotated[int, Range(0, 10**12)] = 1_000
    # Time from a withdrawal of free bond coins until the coins arrive in the account.
    bond_wait: Wait = 14 * 86_400


LOCAL = LedgerParams(bond_wait=60)
"""The values of a local network."""
