"""The handler of MsgWaive: rounds wait no longer for challenges if no account will challenge them."""

from dataclasses import dataclass

from chain.state_machine.context import Context
from chain.state_machine.disputes.tables import WAIVERS
from chain.state_machine.handler import Handler
from chain.state_machine.ledger.tables import ESCROWS
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.orders import is_ending
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.gas import VALIDATOR_GAS
from chain.state_machine.proof.settlement import advance
from chain.state_machine.staking.tables import POWERS_GIVEN, bonded_operators
from domain.disputes.events import ChallengesWaived
from domain.disputes.messages import MsgWaive
from domain.errors import BAD_FIELD, NOT_YOURS, WRONG_STATE, Refusal
from domain.legs.records import Leg
from domain.limits import CHALLENGERS_MAX
from domain.market.records import Order
from pol.rules.disputes import may_challenge
from pol.rules.tiers.table import challenges_of


@dataclass(frozen=True, slots=True)
class CheckedWaiver:
    """The records of a checked waiver, and all accounts that may challenge the order's rounds."""

    order: Order
    leg: Leg
    challengers: tuple[str, ...]


def get_parties(ctx: Context, order: Order) -> set[str]:
    """Return the consumer and the depositors of an order."""
    return {order.consumer, *(row.address for row in ESCROWS.must(ctx.store, order.id).depositors)}


def check_challenger(ctx: Context, order: Order, leg: Leg, address: str, field: str) -> None:
    """Refuse an account that may not challenge rounds of a leg."""
    is_operator = POWERS_GIVEN.has(ctx.store, address)
    if not may_challenge(challenges_of(order, leg), get_parties(ctx, order), address, is_operator=is_operator):
        reason = "is neither a party of the order nor a validator, and the order does not name it"
        remedy = "use the key of the consumer, of a validator, or of an account that the order names"
        raise Refusal(NOT_YOURS, field, reason, remedy)


def check_waive(ctx: Context, message: MsgWaive) -> CheckedWaiver:
    """Return the leg; refuse a waiver that changes nothing, or of an account that may not challenge."""
    order = ORDERS.need(ctx.store, message.order_id)
    if is_ending(ctx, order) or message.leg != order.legs:
        reason = f"the current leg is {order.legs}, or the order is ending"
        raise Refusal(WRONG_STATE, "leg", reason, "waive challenges of the current leg of an active order")
    leg = LEGS.need(ctx.store, order.id, message.leg)
    terms = challenges_of(order, leg)
    if terms.anyone or not terms.wait:
        reason = "every account may challenge it, or its rounds do not wait for challenges"
        raise Refusal(WRONG_STATE, "order_id", reason, "a waiver of this order has no effect")
    check_challenger(ctx, order, leg, message.sender, "sender")
    until = WAIVERS.get(ctx.store, order.id, leg.number, message.sender)
    if not max(until, leg.first_round) <= message.round < leg.end_round:
        reason = f"is not a round from {max(until, leg.first_round)} to {leg.end_round - 1}"
        raise Refusal(BAD_FIELD, "round", reason, "name the last round that you will not challenge")
    operators = bonded_operators(ctx.store)
    challengers = {*get_parties(ctx, order), *terms.addresses, *operators}
    return CheckedWaiver(order=order, leg=leg, challengers=tuple(sorted(challengers)))


def apply_waive(ctx: Context, message: MsgWaive, checked: CheckedWaiver) -> None:
    """Record the waiver; if all accounts have waived a round, it no longer waits."""
    order, leg = checked.order, checked.leg
    WAIVERS.set(ctx.store, message.round + 1, order.id, leg.number, message.sender)
    waived = min(WAIVERS.get(ctx.store, order.id, leg.number, address) for address in checked.challengers)
    ctx.emit(
        ChallengesWaived(order=order.id, leg=leg.number, account=message.sender, until=message.round + 1, waived=waived)
    )
    if waived > leg.waived:
        LEGS.update(ctx.store, order.id, leg.number, waived=waived)
        if leg.next_round < leg.round:
            advance(ctx, order)


def weigh_waive(_: Context, __: MsgWaive, checked: CheckedWaiver) -> int:
    """Return the gas of reading the waivers of all accounts that may challenge."""
    return VALIDATOR_GAS * (2 * len(checked.challengers) + CHALLENGERS_MAX)


HANDLERS = (Handler(MsgWaive, check_waive, apply_waive, weight=weigh_waive),)
