"""The vocabulary of the distribution component."""

from domain.distribution.events import (
    CommissionWithdrawn,
    CommunityFunded,
    CommunitySpent,
    FeesShared,
    RewardsChanged,
    RewardsStarted,
    RewardsWithdrawn,
    TotalsChanged,
    WithdrawAddressSet,
)
from domain.distribution.messages import (
    MsgCommunityPoolSpend,
    MsgFundCommunityPool,
    MsgSetWithdrawAddress,
    MsgWithdrawDelegatorReward,
    MsgWithdrawValidatorCommission,
)
from domain.distribution.moves import MOVES, POTS
from domain.distribution.params import LOCAL, DistributionParams
from domain.words import Words

WORDS = Words(
    name="distribution",
    messages=(
        MsgSetWithdrawAddress,
        MsgWithdrawDelegatorReward,
        MsgWithdrawValidatorCommission,
        MsgFundCommunityPool,
        MsgCommunityPoolSpend,
    ),
    events=(
        FeesShared,
        TotalsChanged,
        RewardsChanged,
        RewardsStarted,
        RewardsWithdrawn,
        CommissionWithdrawn,
        WithdrawAddressSet,
        CommunityFunded,
        CommunitySpent,
    ),
    pots=POTS,
    moves=MOVES,
    message_packages=("cosmpy.protos.cosmos.distribution.v1beta1",),
    params=DistributionParams,
    local_params=LOCAL,
)
