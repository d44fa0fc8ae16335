"""The vocabulary of the slashing component."""

from domain.slashing.events import EvidenceAccepted, JailBegun, SigningStarted, StakeSlashed
from domain.slashing.messages import MsgUnjail
from domain.slashing.moves import MOVES
from domain.slashing.params import LOCAL, SlashingParams
from domain.words import Words

WORDS = Words(
    name="slashing",
    messages=(MsgUnjail,),
    events=(SigningStarted, EvidenceAccepted, JailBegun, StakeSlashed),
    moves=MOVES,
    message_packages=("cosmpy.protos.cosmos.slashing.v1beta1",),
    params=SlashingParams,
    local_params=LOCAL,
)
