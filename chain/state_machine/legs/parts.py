"""The part that was withheld from the validator of a failed leg. It waits while the consumer can fetch the states.

A failed leg may have verified rounds. Their work is right, but it is worth nothing if no one gets the states at the end
of these rounds. So the withheld part is paid only some time after the end of the leg. It is not paid if the consumer
denies that it could fetch the states, or if enough validators could not fetch them.
"""

from chain.state_machine.context import Context
from chain.state_machine.ledger.gas import PAY_GAS
from chain.state_machine.ledger.order_money import pay_from_deposits, withhold_part
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.legs.tables import LEGS, PART_DUE
from chain.state_machine.market.orders import is_ending
from chain.state_machine.market.tables import CLOSE_DUE, ORDERS
from chain.state_machine.queue import QueueEntry, cancel, schedule
from domain.ledger.moves import VALIDATOR
from domain.legs.events import PartEnded, PartWaits
from domain.legs.moves import PART_BURN
from domain.legs.reasons import LegEnd, PartEnd
from domain.legs.records import Leg
from domain.market.records import Order, OrderState
from domain.moves import Transfer
from pol.rules.orders import handover_seconds
from pol.rules.states import is_asking

PAYS = frozenset({PartEnd.TIME, PartEnd.ACKNOWLEDGED})
"""Ends after which the validator gets its part."""


def await_part(ctx: Context, order: Order, leg: Leg, amount: int) -> None:
    """Let ``amount`` of the withheld sum wait for the validator of a failed leg."""
    waiting = TALLIES.must(ctx.store, order.id).parts_waiting
    TALLIES.update(ctx.store, order.id, parts_waiting=waiting + amount)
    _set_end(ctx, order, LEGS.update(ctx.store, order.id, leg.number, part=amount))


def _set_end(ctx: Context, order: Order, leg: Leg) -> None:
    until = ctx.clock + handover_seconds(order.terms, order.params, order.window)
    LEGS.update(ctx.store, order.id, leg.number, part_until=until)
    schedule(ctx, until, PART_DUE, order.id, leg.number)
    ctx.emit(PartWaits(order=order.id, leg=leg.number, validator=leg.validator, amount=leg.part, until=until))


def end_part(ctx: Context, leg: Leg, end: PartEnd) -> None:
    """Pay, burn or return the part of a failed leg that waits, and continue with the end of an order that waits for it.

    If the part is returned, it belongs to the depositors again.
    """
    order_id = leg.order_id
    cancel(ctx, leg.part_until, PART_DUE, order_id, leg.number)
    LEGS.update(ctx.store, order_id, leg.number, part=0, part_until=0)
    tally = TALLIES.must(ctx.store, order_id)
    TALLIES.update(ctx.store, order_id, parts_waiting=tally.parts_waiting - leg.part)
    source = order_id.hex()
    # The event comes first, so that a reader knows the payment's reason.
    ctx.emit(PartEnded(order=order_id, leg=leg.number, validator=leg.validator, amount=leg.part, end=int(end)))
    if end in PAYS:
        move = Transfer(move=VALIDATOR, source=source, target=leg.validator, amount=leg.part)
        pay_from_deposits(ctx, order_id, (move,))
    elif end is PartEnd.DENIED:
        pay_from_deposits(ctx, order_id, (Transfer(move=PART_BURN, source=source, target="", amount=leg.part),))
    else:
        withhold_part(ctx, order_id, -leg.part)
    if tally.ending:
        schedule(ctx, ctx.clock, CLOSE_DUE, order_id)


def is_continued(ctx: Context, leg: Leg) -> bool:
    """Return whether the validator of a failed leg serves the order again, after a provider's fault.

    In this case, it is responsible for the states of its new leg instead of those of the earlier leg.
    """
    order = ORDERS.must(ctx.store, leg.order_id)
    current = LEGS.must(ctx.store, order.id, order.legs)
    return current.is_live and current.validator == leg.validator


def settle_parts(ctx: Context, settled: Leg) -> None:
    """Pay the parts of earlier legs to a validator that continued its order to the end."""
    for leg in LEGS.scan(ctx.store, settled.order_id):
        if leg.part and leg.validator == settled.validator:
            end_part(ctx, leg, PartEnd.TIME)


def on_part(ctx: Context, entry: QueueEntry) -> None:
    """Pay a part whose time is over.

    The part waits longer as long as its validator continues the order, or a panel tries to fetch the states. If a
    validator could not fetch the states, the part also waits longer: until a validator accepts a leg that starts from
    these states, or until the order ends.
    """
    leg = LEGS.must(ctx.store, entry.parts[0], entry.number(1))
    if not leg.part or ctx.clock < leg.part_until:
        return
    order = ORDERS.must(ctx.store, leg.order_id)
    waits = order.state in (OrderState.OPEN, OrderState.MATCHED) and not is_ending(ctx, order)
    is_asked = is_asking(LEGS.must(ctx.store, order.id, order.legs))
    if is_continued(ctx, leg) or is_asked or (waits and get_unserved(ctx, order)):
        _set_end(ctx, order, leg)
    else:
        end_part(ctx, leg, PartEnd.TIME)


def weigh_part(_: Context, __: QueueEntry) -> int:
    """Return the gas of paying a part."""
    return PAY_GAS


def get_unserved(ctx: Context, order: Order) -> list[str]:
    """Return the validators that could not fetch the states from which the order's next leg starts."""
    current = LEGS.must(ctx.store, order.id, order.legs)
    start = current.verified_leg, order.next_round
    return [
        leg.validator
        for leg in LEGS.scan(ctx.store, order.id)
        if leg.end_reason == LegEnd.STATE_UNAVAILABLE and (leg.from_leg, leg.first_round) == start
    ]
