"""MsgNeverServed: the consumer says that it was not served the encrypted result of a hand-over round.

A consumer cannot prove that it received nothing, and a validator cannot prove that it served. So a panel of strangers
tries to fetch the result (:mod:`chain.state_machine.proof.results`).
"""

from dataclasses import dataclass

from chain.state_machine.context import Context
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.ledger.gas import BOND_GAS
from chain.state_machine.ledger.tables import get_bond_account
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.holds import check_hold
from chain.state_machine.market.orders import check_before, is_ending
from chain.state_machine.market.tables import HOLDS, ORDER_AUDITORS, ORDERS
from chain.state_machine.proof.results import HOLD_REASON, ask_result
from chain.state_machine.proof.room import weigh_ask
from chain.state_machine.proof.tables import ROUNDS, WRONG_HANDOVERS
from chain.state_machine.store import Overlay
from domain.amount import in_assay
from domain.errors import ALREADY_EXISTS, INSUFFICIENT_BOND, LIMIT_REACHED, NOT_FOUND, NOT_YOURS, WRONG_STATE, Refusal
from domain.legs.records import Leg
from domain.market.records import Order, OrderState
from domain.proof.messages import MsgNeverServed
from domain.proof.records import AuditKind, Round
from pol.rules.disputes import STAGES_PAID, needed_bond
from pol.rules.panels import audit_price
from pol.rules.schedule import is_handover
from pol.rules.states import ASKS_MAX
from pol.rules.tiers.table import tier_of


@dataclass(frozen=True, slots=True)
class CheckedMiss:
    """The records of a checked message, and the bond (uassay) that it needs."""

    order: Order
    leg: Leg
    closed: Round
    bond: int


def check_state(ctx: Context, message: MsgNeverServed) -> CheckedMiss:
    """Return the round and the bond; refuse a message about a round that no validator has to serve now."""
    order, leg, closed = _get_round(ctx, message)
    if not order.params.auditors:
        raise Refusal(WRONG_STATE, "order_id", "the order has no auditors", "ask its validator again")
    if HOLDS.has(ctx.store, order.id, 0, 0, HOLD_REASON):
        reason = "a panel already tries to fetch a result of this leg"
        raise Refusal(ALREADY_EXISTS, "round", reason, "fetch the result from its auditors (assay order result)")
    if leg.missed >= ASKS_MAX:
        reason = f"{ASKS_MAX} panels have tried to fetch results of this leg"
        raise Refusal(LIMIT_REACHED, "leg", reason, "fetch the result from their auditors (assay order result)")
    if leg.settles_at:
        check_before(ctx, "time to fetch the result", leg.settles_at)
    check_hold(ctx, order.id, HOLD_REASON)
    cost = tier_of(leg).cost(order.terms, AuditKind.RESULT, audit_price(order.params, leg.price))
    seats = STAGES_PAID * order.params.auditors
    if leg.missed:
        seats = max(seats, len(ORDER_AUDITORS.must(ctx.store, order.id).operators))
    bond = needed_bond(cost, order.params.answer_fee, seats, 0, 1)
    free = get_bond_account(ctx.store, message.consumer).free
    if free < bond:
        reason = f"the panel needs a bond of {in_assay(bond)}, but the bond account has {in_assay(free)}"
        raise Refusal(INSUFFICIENT_BOND, "consumer", reason, "deposit more first (assay tx deposit-bond)")
    return CheckedMiss(order=order, leg=leg, closed=closed, bond=bond)


def _get_round(ctx: Context, message: MsgNeverServed) -> tuple[Order, Leg, Round]:
    """Return the records of the newest verified hand-over round of the current leg, which the validator serves."""
    order = ORDERS.need(ctx.store, message.order_id)
    if order.consumer != message.consumer:
        raise Refusal(NOT_YOURS, "consumer", "another account placed the order", "name an order of your own")
    leg = LEGS.need(ctx.store, order.id, message.leg)
    if message.leg != order.legs or not leg.is_live or is_ending(ctx, order):
        reason = f"the leg is {leg.state.name.lower()}, or not the order's current one"
        remedy = "name the current leg, before the order settles; for a failed leg use assay order ack --denied"
        raise Refusal(WRONG_STATE, "leg", reason, remedy)
    if WRONG_HANDOVERS.has(ctx.store, order.id, message.leg):
        raise Refusal(ALREADY_EXISTS, "leg", "a complaint about this leg is already proven", "no action is needed")
    closed = ROUNDS.get(ctx.store, order.id, message.leg, message.round)
    if closed is None or not closed.verified or not closed.ciphertext_root or _is_old(order, leg, closed):
        reason = "is not the newest verified hand-over round of the leg"
        raise Refusal(NOT_FOUND, "round", reason, "name that round (assay order show)")
    return order, leg, closed


def _is_old(order: Order, leg: Leg, closed: Round) -> bool:
    """Return whether a later hand-over round of the leg is verified, so that the validator serves only that one."""
    every = order.params.handover_every
    later = range(closed.round + 1, min(closed.round + every, leg.next_round - 1) + 1)
    return any(is_handover(order.terms, every, number) for number in later)


def apply(ctx: Context, message: MsgNeverServed, checked: CheckedMiss) -> None:
    """Lock the bond, hold the order, and open the panel."""
    ask_result(ctx, checked.order, checked.leg, checked.closed, checked.bond)


def weigh(ctx: Context, _: MsgNeverServed, __: CheckedMiss) -> int:
    """Return the gas of locking the bond and opening the panel."""
    return 2 * BOND_GAS + weigh_ask(ctx)


def find_duty(store: Overlay, message: MsgNeverServed) -> Duty | None:
    """Return the right to ask until the order settles, or None if the message names no round of the signer's order."""
    order = ORDERS.get(store, message.order_id)
    closed = ROUNDS.get(store, message.order_id, message.leg, message.round)
    if order is None or closed is None or order.consumer != message.consumer or message.leg != order.legs:
        return None
    if not closed.verified or not closed.ciphertext_root:
        return None
    if order.state not in (OrderState.RUNNING, OrderState.PROVEN):
        return None
    leg = LEGS.must(store, order.id, message.leg)
    return Duty(leg.settles_at or order.deadline) if leg.is_live and leg.missed < ASKS_MAX else None


HANDLER = Handler(message=MsgNeverServed, check_state=check_state, apply=apply, weight=weigh, duty=find_duty)
