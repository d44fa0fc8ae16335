"""The reasons for which coins move at the end of a leg: what the party at fault loses, and what others receive."""

from domain.ledger.moves import ACCOUNTS_POT, BURNT_POT, COMMUNITY_POT, ESCROWS_POT
from domain.moves import Move, Uses
from domain.staking.moves import STAKES_POT

DEPOSIT_BURN = Move(name="deposit_burn", source=ESCROWS_POT, target=BURNT_POT, uses=Uses.DEPOSIT)
COMPENSATION = Move(name="compensation", source=ESCROWS_POT, target=ACCOUNTS_POT, uses=Uses.BOND)
DECLINE_FEE = Move(name="decline_fee", source=ESCROWS_POT, target=COMMUNITY_POT, uses=Uses.BOND)
# Taken from the withheld part of a failed leg whose states, as its consumer says, were not served.
PART_BURN = Move(name="part_burn", source=ESCROWS_POT, target=BURNT_POT, uses=Uses.WITHHELD)
BURN = Move(name="burn", source=ESCROWS_POT, target=BURNT_POT, uses=Uses.BOND)
# Taken from the stake of a validator that rejected a right share.
STAKE_COMPENSATION = Move("stake_compensation", STAKES_POT, ACCOUNTS_POT)

MOVES = (DEPOSIT_BURN, COMPENSATION, DECLINE_FEE, PART_BURN, BURN, STAKE_COMPENSATION)
