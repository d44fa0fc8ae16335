"""The gas weights of staking."""

# A loss of stake: the validator, a pool or a redelegation, the records that follow them, and rewards that are paid.
STAKE_GAS = 60_000
