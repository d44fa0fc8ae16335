"""Gas of fee grants (:mod:`chain.state_machine.gas`)."""

# Removal of a fee grant that has expired, with its three keys and its event.
PRUNE_GAS = 20_000
