"""The component of staking: validators' stakes and the validator set, delegations, and stake that leaves."""

from chain.state_machine.component import Component
from chain.state_machine.queue import Effect
from chain.state_machine.staking import gas
from chain.state_machine.staking.delegations import on_redelegation, on_unbonding
from chain.state_machine.staking.genesis import write_staking
from chain.state_machine.staking.handlers import HANDLERS
from chain.state_machine.staking.invariants import INVARIANTS
from chain.state_machine.staking.stakes import on_params, on_unbonded, take_updates
from chain.state_machine.staking.tables import (
    CANDIDATES,
    DELEGATIONS,
    DELEGATIONS_OF,
    NEXT_VALIDATOR,
    OPERATORS,
    POWERS_GIVEN,
    REDELEGATION_COUNTS,
    REDELEGATION_DUE,
    REDELEGATIONS,
    SET_CHANGED,
    UNBONDED_DUE,
    UNBONDING_DUE,
    UNBONDING_POOLS,
    UNBONDINGS,
    VALIDATOR_STAKES,
)
from chain.state_machine.steps import PARAMS_CHANGED, POWERS

COMPONENT = Component(
    name="staking",
    tables=(
        VALIDATOR_STAKES,
        OPERATORS,
        NEXT_VALIDATOR,
        DELEGATIONS,
        DELEGATIONS_OF,
        UNBONDING_POOLS,
        UNBONDINGS,
        REDELEGATIONS,
        REDELEGATION_COUNTS,
        CANDIDATES,
        POWERS_GIVEN,
        SET_CHANGED,
    ),
    handlers=HANDLERS,
    effects=(
        Effect(UNBONDING_DUE, on_unbonding),
        Effect(REDELEGATION_DUE, on_redelegation),
        Effect(UNBONDED_DUE, on_unbonded),
    ),
    hooks=(POWERS.to(take_updates), PARAMS_CHANGED.to(on_params)),
    invariants=INVARIANTS,
    genesis=write_staking,
    gas={"STAKE_GAS": gas.STAKE_GAS},
)
