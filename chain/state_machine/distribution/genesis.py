"""Distribution's part of the first state: the powers of the first validator set."""

from chain.state_machine.distribution.tables import REWARDS, TOTALS
from chain.state_machine.staking.tables import POWERS_GIVEN
from chain.state_machine.store import Overlay
from domain.block import ValidatorUpdate
from domain.distribution.records import DistributionTotals, ValidatorRewards
from domain.genesis import Genesis


def write_distribution(overlay: Overlay, _: Genesis) -> tuple[ValidatorUpdate, ...]:
    """Let the validators of the first set earn by their power."""
    total = 0
    for (operator,), power in POWERS_GIVEN.scan(overlay):
        REWARDS.put(overlay, ValidatorRewards(operator.decode(), power=power))
        total += power
    TOTALS.put(overlay, DistributionTotals(power=total))
    return ()
