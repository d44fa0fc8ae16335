"""The gas weights of governance."""

# A delegation of a voter: the votes of its validator's delegators change.
VOTE_GAS = 20_000
# A vote whose count follows a change of the voter's delegation.
FOLLOW_GAS = 8_000
# A validator of the set when votes are counted.
TALLY_GAS = 10_000
# A deposit that is returned or burnt, or a vote that is removed.
CLEANING_GAS = 10_000
# Largest gas of a proposal's messages together.
EXECUTION_GAS = 5_000_000
