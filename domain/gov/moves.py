"""The pot that holds deposits of proposals, and the reasons for which they move."""

from domain.ledger.moves import ACCOUNTS_POT, BURNT_POT
from domain.moves import Move, Pot

# Owner of these coins: the depositor. The address is that of governance, which executes proposals. It is made as in the
# Cosmos SDK, so that wallets can compute it.
GOV_POT = Pot("gov", "assay10d07y265gmmuvt4z0w9aw880jnsr700jxxpucp")

POTS = (GOV_POT,)

PROPOSAL_DEPOSIT = Move("proposal_deposit", ACCOUNTS_POT, GOV_POT)
PROPOSAL_REFUND = Move("proposal_refund", GOV_POT, ACCOUNTS_POT)
PROPOSAL_BURN = Move("proposal_burn", GOV_POT, BURNT_POT)

MOVES = (PROPOSAL_DEPOSIT, PROPOSAL_REFUND, PROPOSAL_BURN)
