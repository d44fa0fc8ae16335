"""Moves of legs that end: what those at fault lose, and what others get of it."""

from domain.ledger.moves import ACCOUNTS_POT, BURNT_POT, COMMUNITY_POT, ESCROWS_POT
from domain.moves import Move, Uses
from domain.registry.moves import STAKES_POT

DEPOSIT_BURN = Move("deposit_burn", ESCROWS_POT, BURNT_POT, Uses.DEPOSIT)
COMPENSATION = Move("compensation", ESCROWS_POT, ACCOUNTS_POT, Uses.BOND)
DECLINE_FEE = Move("decline_fee", ESCROWS_POT, COMMUNITY_POT, Uses.BOND)
BURN = Move("burn", ESCROWS_POT, BURNT_POT, Uses.BOND)
# Out of the stake of a validator who rejected what was right.
STAKE_COMPENSATION = Move("stake_compensation", STAKES_POT, ACCOUNTS_POT)

MOVES = (DEPOSIT_BURN, COMPENSATION, DECLINE_FEE, BURN, STAKE_COMPENSATION)
