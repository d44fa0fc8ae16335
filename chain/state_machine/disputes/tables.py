"""Tables of the disputes component."""

from chain.state_machine.kinds import Due
from chain.state_machine.tables import KeySet, Numbers, Table
from domain.disputes.records import Dispute

# Key: order, leg, round, number.
DISPUTES = Table(0x50, "dispute", Dispute, lambda r: r.key)
# Disputes that have not ended. Key: order, leg, round, number.
LIVE_DISPUTES = KeySet(0x51, "live dispute")
# Stands that have not ended. Key: order, leg, round, number.
LIVE_STANDS = KeySet(0x53, "live stand")
# The number of a round's last dispute. Key: order, leg, round.
LAST_DISPUTES = Numbers(0x52, "number of the last dispute")

# The round before which an account will challenge no round of a leg. Key: order, leg, account.
WAIVERS = Numbers(0x54, "waiver")

# A challenge was not opened in time. Parts of an entry: order, leg, round, number.
EXPIRY_DUE = Due("expiry", 7, lane=0, of_order=True)
