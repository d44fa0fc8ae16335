"""Tables of legs, and the kinds of their entries in the queue."""

from chain.state_machine.kinds import Due
from chain.state_machine.tables import BytesTable, KeySet, Table
from domain.legs.records import Leg, SlotOpening

# Local states that slots of a leg start from, if these are not the order's own.
SLOT_OPENINGS = Table(0x2F, "opening of a slot", SlotOpening, lambda r: (r.order_id, r.leg, r.slot))
LEGS = Table(0x30, "leg", Leg, lambda r: (r.order_id, r.number))
# Validator, order, leg.
LIVE_LEGS = KeySet(0x31, "live leg")
# The local state root that a slot's last accepted share left: order, leg, slot.
LOCAL_ROOTS = BytesTable(0x33, "local state root")

# Order, leg.
ACCEPT_DUE = Due("accept", 10, lane=1, of_order=True)
PROGRESS_DUE = Due("progress", 11, lane=1, of_order=True)
