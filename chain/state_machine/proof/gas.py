"""Gas of the proof's due work and messages (:mod:`chain.state_machine.gas`)."""

# A share that is rejected or dropped: its record, its bond, its provider's track record, an event.
REJECT_GAS = 55_000
# A share whose segments are drawn.
DRAW_GAS = 20_000
# A record that is read, but not changed.
READ_GAS = 6_000
# A validator that a draw considers.
VALIDATOR_GAS = 500
# A seat that is drawn, cut or dismissed.
SEAT_GAS = 20_000
# An answer of a seat that is read when a stage ends.
VOTE_GAS = 1_000

LOTS_PERCENT = 20
"""Percent of ``due_gas`` for the draws of complete lots."""
