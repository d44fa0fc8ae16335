"""The gas weights of staking."""

# A loss of stake: the validator, a pool or a redelegation, and the records that follow them.
STAKE_GAS = 40_000
