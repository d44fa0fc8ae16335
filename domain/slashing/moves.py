"""The reason for which slashing moves coins."""

from domain.ledger.moves import BURNT_POT
from domain.moves import Move
from domain.staking.moves import STAKES_POT

# The coins are burnt, so that no one gains by the fault of a validator.
FAULT_BURN = Move("fault_burn", STAKES_POT, BURNT_POT)

MOVES = (FAULT_BURN,)
