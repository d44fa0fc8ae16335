"""Gas of the auction (:mod:`chain.state_machine.gas`)."""

# An order that the auction tries, a bid that it may have to look at, and an order that it matches.
TRY_GAS = 20_000
TRY_BID_GAS = 20
FILL_GAS = 160_000  # with the validators who could audit it

AUCTION_PERCENT = 15
"""The auction's share of ``due_gas``."""
