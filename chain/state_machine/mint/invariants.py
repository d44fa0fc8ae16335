"""The invariant of mint."""

from chain.state_machine.context import HEAD, NS, Running
from chain.state_machine.invariant import Invariants, ensure
from chain.state_machine.mint.tables import MINTER
from chain.state_machine.store import Overlay
from domain.staking.records import ONE


def check_minter(store: Overlay, _: Running) -> None:
    """Check that coins are minted up to the last block, and at most all coins in a year."""
    minter = MINTER.get(store)
    if minter is not None:
        ensure(minter.clock == HEAD.must(store).clock_ns // NS, "coins are minted up to another time")
        ensure(0 <= minter.inflation <= ONE, f"the inflation is {minter.inflation}")


INVARIANTS = Invariants(whole=(check_minter,))
