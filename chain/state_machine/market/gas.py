"""Gas of orders and of the auction (:mod:`chain.state_machine.gas`)."""

# An order that the auction tries, whatever the size of the book.
TRY_GAS = 10_000
# One read beyond the reads of every try: a bid, or something that takes as long. The protocol lists what counts as a
# read.
BOOK_READ_GAS = 200
# An order that the auction matches.
FILL_GAS = 120_000

# A validator in the list of those that can audit an order. The order keeps this list, and its event has it too.
AUDITOR_GAS = 300
# An order that a message opens beside the first one, as its replica.
REPLICA_GAS = 30_000

AUCTION_PERCENT = 15
"""The auction's share of ``due_gas``: a half for tries, three eighths for matches, an eighth for reads."""
