"""Gas of the proof's due work and messages (:mod:`chain.state_machine.gas`)."""

# Rejection or drop of a share. It covers the share's record, its bond, its provider's track record, and an event.
REJECT_GAS = 55_000
# Taking over of a share. It covers two records of the share, its bond, the numbers of its slot, and an event.
TAKE_GAS = 110_000
# List of one accepted share when its round is closed.
CLOSE_GAS = 2_000
# Draw of the segments of one share.
DRAW_GAS = 20_000
# A ticket that the lot of a share throws onto the segments of its round.
TICKET_GAS = 200
# Read of a record that does not change.
READ_GAS = 6_000
# Consideration of one validator in a draw.
VALIDATOR_GAS = 500
# Draw, cut or dismissal of a seat.
SEAT_GAS = 20_000
# Read of one answer of a seat at the end of a stage.
VOTE_GAS = 1_000

# Skip of a share that cannot be committed. Its validator pays it as an additional fee at the chain's lowest gas price.
# So the share costs five times its weight, and shares that change nothing cannot fill blocks cheaply.
SKIP_GAS = 200_000

LOTS_PERCENT = 20
"""Percent of ``due_gas`` for the draws of complete lots."""
