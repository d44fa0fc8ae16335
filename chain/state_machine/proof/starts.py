"""The local states from which a leg's slots start their next share.

The first share of a slot starts from the slot's initial local state. Each later share starts from the local state at
the end of the slot's last accepted share.
"""

from chain.state_machine.context import Context
from chain.state_machine.legs.tables import LOCAL_ROOTS, SLOT_STARTS
from chain.state_machine.proof.tables import ROUNDS, SHARES
from chain.state_machine.store import Overlay
from domain.legs.records import Leg, SlotStart
from domain.market.records import Order


def get_local_root(ctx: Context, order: Order, leg: Leg, slot: int) -> bytes:
    """Return the root of the local state from which the slot's next share starts."""
    last_root = LOCAL_ROOTS.get(ctx.store, order.id, leg.number, slot)
    if last_root is not None:
        return last_root
    if leg.from_leg:
        return _get_left_root(ctx.store, leg, slot)
    opening = SLOT_STARTS.get(ctx.store, order.id, leg.number, slot)
    return order.terms.local_root if opening is None else opening.local_root


def get_starts(store: Overlay, order: Order, legs: tuple[Leg, ...]) -> tuple[SlotStart, ...]:
    """Return the local states from which slots of an order's legs start. Slots that start from the payload's local
    state are left out.
    """
    starts = list(SLOT_STARTS.scan(store, order.id))
    for leg in legs:
        for slot in leg.served_slots if leg.from_leg else ():
            root = _get_left_root(store, leg, slot)
            if root != order.terms.local_root:
                starts.append(SlotStart(order_id=order.id, leg=leg.number, slot=slot, local_root=root))
    return tuple(starts)


def _get_left_root(store: Overlay, leg: Leg, slot: int) -> bytes:
    """Return the root of a slot's local state at the end of the round before ``leg``, which continues another leg."""
    before = ROUNDS.must(store, leg.order_id, leg.from_leg, leg.first_round - 1)
    share = SHARES.must(store, *before.share_keys[slot - leg.first_slot])
    if share.roots is None:
        raise LookupError("an accepted share has no roots")
    return share.roots.local_out
