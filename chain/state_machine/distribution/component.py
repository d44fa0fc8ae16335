"""The component of distribution: rewards, commission and the community pool."""

from chain.state_machine.component import Component
from chain.state_machine.distribution.genesis import write_distribution
from chain.state_machine.distribution.handlers import HANDLERS
from chain.state_machine.distribution.invariants import INVARIANTS
from chain.state_machine.distribution.rewards import (
    on_delegation_changed,
    on_delegation_changing,
    on_edit,
    on_power,
    share_fees,
)
from chain.state_machine.distribution.tables import REWARDS, STARTS, TOTALS, WITHDRAW_ADDRESSES
from chain.state_machine.staking.hooks import (
    DELEGATION_CHANGED,
    DELEGATION_CHANGING,
    POWER_CHANGED,
    VALIDATOR_EDITED,
)
from chain.state_machine.steps import END

COMPONENT = Component(
    name="distribution",
    tables=(TOTALS, REWARDS, STARTS, WITHDRAW_ADDRESSES),
    handlers=HANDLERS,
    hooks=(
        END.to(share_fees),
        POWER_CHANGED.to(on_power),
        VALIDATOR_EDITED.to(on_edit),
        DELEGATION_CHANGING.to(on_delegation_changing),
        DELEGATION_CHANGED.to(on_delegation_changed),
    ),
    invariants=INVARIANTS,
    genesis=write_distribution,
)
