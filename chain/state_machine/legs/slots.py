"""The local states at the end of the last accepted share of each slot of a leg."""

from chain.state_machine.context import Context
from chain.state_machine.legs.tables import LOCAL_ROOTS
from domain.legs.records import Leg


def put_local_root(ctx: Context, leg: Leg, slot: int, root: bytes) -> None:
    """Store the root of the local state after an accepted share of a slot."""
    LOCAL_ROOTS.set(ctx.store, root, leg.order_id, leg.number, slot)
