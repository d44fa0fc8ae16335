"""A validator's decisions, as pure functions of its records, its look at the chain, and the chain's clock."""
