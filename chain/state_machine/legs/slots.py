"""The local states of a leg's slots.

The first share of a slot starts from the slot's initial local state. Each later share starts from the local state of
the slot's last accepted share.
"""

from chain.state_machine.context import Context
from chain.state_machine.legs.tables import LOCAL_ROOTS, SLOT_STARTS
from domain.legs.records import Leg
from domain.market.records import Order


def get_local_root(ctx: Context, order: Order, leg: Leg, slot: int) -> bytes:
    """Return the root of the local state from which the slot's next share starts."""
    last_root = LOCAL_ROOTS.get(ctx.store, order.id, leg.number, slot)
    if last_root is not None:
        return last_root
    opening = SLOT_STARTS.get(ctx.store, order.id, leg.number, slot)
    return order.terms.local_root if opening is None else opening.local_root


def put_local_root(ctx: Context, leg: Leg, slot: int, root: bytes) -> None:
    """Store the root of the local state after an accepted share of a slot."""
    LOCAL_ROOTS.set(ctx.store, root, leg.order_id, leg.number, slot)
