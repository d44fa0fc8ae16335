"""The vocabulary of the staking component."""

from domain.staking.events import (
    RedelegationCompleted,
    RedelegationCut,
    StakeCut,
    StakeDelegated,
    StakeRedelegated,
    StakeUndelegated,
    UnbondingCancelled,
    UnbondingCompleted,
    ValidatorBonded,
    ValidatorCreated,
    ValidatorEdited,
    ValidatorJailed,
    ValidatorReady,
    ValidatorUnbonded,
    ValidatorUnbonding,
)
from domain.staking.messages import (
    MsgBeginRedelegate,
    MsgCancelUnbondingDelegation,
    MsgCreateValidator,
    MsgDelegate,
    MsgEditValidator,
    MsgUndelegate,
)
from domain.staking.moves import MOVES, POTS
from domain.staking.params import LOCAL, StakingParams
from domain.words import Words

WORDS = Words(
    name="staking",
    messages=(
        MsgCreateValidator,
        MsgEditValidator,
        MsgDelegate,
        MsgUndelegate,
        MsgBeginRedelegate,
        MsgCancelUnbondingDelegation,
    ),
    events=(
        ValidatorCreated,
        ValidatorEdited,
        StakeDelegated,
        StakeUndelegated,
        UnbondingCompleted,
        UnbondingCancelled,
        StakeRedelegated,
        RedelegationCompleted,
        StakeCut,
        RedelegationCut,
        ValidatorReady,
        ValidatorBonded,
        ValidatorUnbonding,
        ValidatorUnbonded,
        ValidatorJailed,
    ),
    pots=POTS,
    moves=MOVES,
    message_packages=("cosmpy.protos.cosmos.staking.v1beta1",),
    params=StakingParams,
    local_params=LOCAL,
)
