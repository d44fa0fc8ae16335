"""MsgTakeEarly: the consumer takes the states of a hand-over round before the round is verified.

A validator hands over the states of verified rounds, which are paid. Otherwise a consumer could fetch its result and
then keep the round from being verified, for example by filling blocks until all seats are silent. A round that is never
verified is never paid, so the result would be free. The consumer may still take a round earlier, if it gives up the
refund. The states after a round contain the work of all rounds before it. So the consumer gives up the refunds of all
unverified rounds up to that round.
"""

from dataclasses import dataclass

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.orders import is_ending
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.tables import ROUNDS
from domain.errors import ALREADY_EXISTS, NOT_FOUND, NOT_YOURS, WRONG_STATE, Refusal
from domain.legs.records import Leg
from domain.market.records import Order
from domain.proof.events import HandoverTaken
from domain.proof.messages import MsgTakeEarly
from domain.proof.records import Round
from pol.rules.fees import compute_round_cost


@dataclass(frozen=True, slots=True)
class TakenRound:
    """The records of a round that the consumer takes: the order, its current leg, and the round."""

    order: Order
    leg: Leg
    closed: Round


def check_state(ctx: Context, message: MsgTakeEarly) -> TakenRound:
    """Return the records of the round. Refuse a round that the leg does not hand over, or hands over without this
    message.
    """
    order = ORDERS.need(ctx.store, message.order_id)
    if order.consumer != message.consumer:
        raise Refusal(NOT_YOURS, "consumer", "another account placed the order", "take a round of an order of your own")
    if message.leg != order.legs or message.leg == 0:
        reason = f"the current leg is {order.legs}" if order.legs else "the order has no leg yet"
        raise Refusal(WRONG_STATE, "leg", reason, "read the order again and use its current leg")
    leg = LEGS.must(ctx.store, order.id, message.leg)
    if not leg.is_live or is_ending(ctx, order):
        reason = f"its leg is {leg.state.name.lower()}"
        raise Refusal(WRONG_STATE, "order_id", reason, "take a round while the leg is running or proven")
    closed = ROUNDS.get(ctx.store, order.id, message.leg, message.round)
    if closed is None or not closed.ciphertext_root:
        reason = "the leg has no closed hand-over round of this number"
        raise Refusal(NOT_FOUND, "round", reason, "name a closed hand-over round of the leg")
    if closed.verified:
        raise Refusal(WRONG_STATE, "round", "is verified", "fetch the states of the round; they cost nothing more")
    if leg.is_taken(closed.round):
        reason = f"the states of all rounds before {leg.taken_end} are already taken"
        raise Refusal(ALREADY_EXISTS, "round", reason, "fetch the states of the round; they cost nothing more")
    return TakenRound(order, leg, closed)


def apply(ctx: Context, message: MsgTakeEarly, taken: TakenRound) -> None:
    """Give up the refunds of the round and of the unverified rounds before it that were not taken yet."""
    order, leg, closed = taken.order, taken.leg, taken.closed
    rounds = closed.round + 1 - max(leg.next_round, leg.taken_end)
    LEGS.update(ctx.store, order.id, leg.number, taken_end=closed.round + 1)
    ctx.emit(HandoverTaken(closed.key, rounds * compute_round_cost(order, leg)))


HANDLER = Handler(message=MsgTakeEarly, check_state=check_state, apply=apply)
