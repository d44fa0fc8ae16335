"""The vocabulary of the disputes component."""

from domain.disputes.events import (
    ChallengeCommitted,
    ChallengeJoined,
    ChallengeOpened,
    ChallengerRewarded,
    ChallengesWaived,
    DisputeEnded,
    StandOpened,
)
from domain.disputes.messages import MsgAppeal, MsgChallenge, MsgOpenChallenge, MsgStand, MsgWaive
from domain.disputes.params import LOCAL, DisputesParams
from domain.disputes.queries import DisputesRequest
from domain.words import Words

WORDS = Words(
    name="disputes",
    messages=(MsgChallenge, MsgOpenChallenge, MsgStand, MsgWaive, MsgAppeal),
    events=(
        ChallengeCommitted,
        ChallengeOpened,
        ChallengeJoined,
        ChallengesWaived,
        DisputeEnded,
        ChallengerRewarded,
        StandOpened,
    ),
    queries=(DisputesRequest,),
    message_packages=("assay.disputes.v1",),
    query_packages=("assay.disputes.v1",),
    params=DisputesParams,
    local_params=LOCAL,
)
