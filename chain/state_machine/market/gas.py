"""Gas of the auction (:mod:`chain.state_machine.gas`)."""

# An order that the auction tries.
TRY_GAS = 20_000
# A standing bid, per order that the auction tries.
TRY_BID_GAS = 20
# An order that the auction matches, with the validators that could audit it.
FILL_GAS = 160_000

AUCTION_PERCENT = 15
"""The auction's share of ``due_gas``."""
