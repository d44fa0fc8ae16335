"""Tables of legs, and the kinds of their queue entries."""

from chain.state_machine.kinds import Due
from chain.state_machine.tables import BytesTable, KeySet, Table
from domain.legs.records import Leg, SlotStart

# Initial local states of a leg's slots that differ from the local state of the order's terms.
SLOT_STARTS = Table(0x2F, "initial state of a slot", SlotStart, lambda r: (r.order_id, r.leg, r.slot))
LEGS = Table(0x30, "leg", Leg, lambda r: (r.order_id, r.number))
# Key: validator, order, leg.
LIVE_LEGS = KeySet(0x31, "live leg")
# Root of the local state after a slot's last accepted share. Key: order, leg, slot.
LOCAL_ROOTS = BytesTable(0x33, "local state root")

# Parts of an entry: order, leg.
ACCEPT_DUE = Due("accept", 10, lane=1, of_order=True)
PROGRESS_DUE = Due("progress", 11, lane=1, of_order=True)
PART_DUE = Due("part", 17, lane=1, of_order=True)
