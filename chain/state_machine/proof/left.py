"""Rounds that were open when their leg failed, and the time in which their providers may stand for their shares.

Such a round has no record of its own. Its leg says when it was left, and whose fault that is
(:func:`pol.rules.stands.left_round`).
"""

from chain.state_machine.context import Context
from chain.state_machine.ledger.tables import BOND_ROWS, TALLIES
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.tables import ROUNDS
from chain.state_machine.store import Overlay
from domain.keys import RoundKey
from domain.ledger.records import BondKind
from domain.market.records import Order
from domain.proof.records import Round
from pol.rules.stands import left_round, stand_until


def find_left_round(store: Overlay, key: RoundKey) -> Round | None:
    """Return the round that was open when its leg failed, as a void round; None if the round is no such round."""
    leg = LEGS.get(store, key.order_id, key.leg)
    left = left_round(leg) if leg is not None else None
    return left if left is not None and left.round == key.round else None


def find_round(store: Overlay, key: RoundKey) -> Round | None:
    """Return a closed round, or a round that was open when its leg failed; None if the round is neither."""
    return ROUNDS.get(store, *key) or find_left_round(store, key)


def must_find_round(store: Overlay, key: RoundKey) -> Round:
    """Return a round that must be closed, or left open by its leg."""
    found = find_round(store, key)
    if found is None:
        raise LookupError("the round is neither closed nor left open")
    return found


def get_stand_end(order: Order, closed: Round) -> int:
    """Return the time until which a provider may stand for a share of a round (chain clock)."""
    begun = closed.void_at if closed.void else closed.closed_at
    return stand_until(begun, order.window, order.params.stand_wait)


def await_stands(ctx: Context, key: RoundKey) -> None:
    """Let the end of an order wait until no provider may stand for a share of a round that its leg left open.

    Do nothing if the end of the leg is not its validator's fault, or if the round has no shares. The bonds of all its
    shares are still locked.
    """
    left = find_left_round(ctx.store, key)
    order = ORDERS.must(ctx.store, key.order_id)
    if left is None or not left.by_validator or not order.params.auditors:
        return
    if any(True for _ in BOND_ROWS.keys(ctx.store, order.id, key.leg, int(BondKind.SHARE), key.round)):
        TALLIES.update(ctx.store, order.id, stands_until=get_stand_end(order, left))
