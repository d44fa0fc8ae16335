"""The table of mint."""

from chain.state_machine.store import Overlay
from chain.state_machine.tables import Table
from domain.mint.records import Minter

MINTER = Table(0x6F, "minter", Minter, lambda _: ())


def get_minter(store: Overlay) -> Minter:
    """Return the inflation after the last block; an empty record while nothing is minted."""
    return MINTER.get(store) or Minter()
