"""The life of an order: how it opens, waits in the book, and closes."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

from chain.state_machine.context import Context
from chain.state_machine.ledger.gas import BOND_GAS, PAY_GAS
from chain.state_machine.ledger.order_money import (
    apply_payments,
    cut_bond,
    get_job_bond,
    get_withheld,
    pay_part,
    withhold_part,
)
from chain.state_machine.ledger.tables import BOND_ROWS, ESCROWS, TALLIES
from chain.state_machine.market.book import mark_if_bidder, return_bond
from chain.state_machine.market.holds import drop_holds, get_held_seconds, stands_still
from chain.state_machine.market.tables import (
    ACCEPT_DUE,
    BIDS,
    CLOSE_DUE,
    DIRTY_ORDERS,
    LEGS,
    LIVE_LEGS,
    LOADS,
    OPEN_ORDERS,
    ORDER_DUE,
    ORDERS,
    PROGRESS_DUE,
    TIME_TO_LIVE_DUE,
    get_load,
    open_key,
)
from chain.state_machine.queue import Entry, cancel, schedule
from chain.state_machine.registry.members import cut_stake
from chain.state_machine.registry.tables import CLUSTERS, VALIDATORS
from domain.amount import price_ceil
from domain.errors import DEADLINE_PASSED, NOT_YOURS, WRONG_STATE, Refusal
from domain.ledger.records import BondKind, BondRow
from domain.legs.events import OrderSettled, PartReturned, ProgressRestarted
from domain.legs.reasons import LegEnd
from domain.legs.records import Leg, LegState
from domain.market.events import OrderClosed, OrderExcluded, OrderOpened
from domain.market.reasons import CloseReason
from domain.market.records import Order, OrderState
from escrow.moves import Move, Transfer, locked, refund
from pol.rules.schedule import progress_seconds, total_work

BONDS_PER_CALL = 32
"""Bonds that the end of an order or leg returns at once; the queue carries the rest to the next block."""


def open_order(ctx: Context, order: Order) -> None:
    """Put a stored order into the book, for the first time or again; its time to live starts here."""
    expires = min(ctx.clock + order.time_to_live, order.deadline)
    order = ORDERS.update(
        ctx.store,
        order.id,
        state=OrderState.OPEN,
        opened_at=ctx.clock,
        opened_height=ctx.height,
        expires_at=expires,
        unmatched=(),
    )
    OPEN_ORDERS.mark(ctx.store, *open_key(order))
    DIRTY_ORDERS.mark(ctx.store, ctx.height, order.id)
    schedule(ctx, expires, TIME_TO_LIVE_DUE, order.id)
    work, deposit = total_work(order.terms), locked(ESCROWS.must(ctx.store, order.id))
    ctx.emit(
        OrderOpened(
            order.id,
            order.consumer,
            work,
            order.price_limit,
            deposit,
            order.legs,
            order.opened_at,
            order.opened_height,
            order.expires_at,
        )
    )


def exclude(ctx: Context, order: Order, validator: str) -> Order:
    """Let an order be matched with a validator no more."""
    excluded = tuple(sorted({*order.excluded, validator}))
    ctx.emit(OrderExcluded(order.id, validator))
    return ORDERS.update(ctx.store, order.id, excluded=excluded)


def leave_book(ctx: Context, order: Order) -> None:
    """Take an order out of the book, because it is matched or ends."""
    OPEN_ORDERS.delete(ctx.store, *open_key(order))
    DIRTY_ORDERS.delete(ctx.store, order.opened_height, order.id)
    cancel(ctx, order.expires_at, TIME_TO_LIVE_DUE, order.id)


def take_capacity(ctx: Context, leg: Leg) -> None:
    """Reserve what a leg takes of its bid and its validator."""
    reserved = BIDS.must(ctx.store, leg.bid_id).reserved
    BIDS.update(ctx.store, leg.bid_id, reserved=reserved + leg.work)
    _change_load(ctx, leg, 1)
    LIVE_LEGS.mark(ctx.store, leg.validator, leg.order_id, leg.number)


def restart_progress(ctx: Context, order: Order, leg: Leg, **changes: Any) -> Leg:
    """Change a running leg, which gets a new progress deadline for the open round."""
    cancel(ctx, leg.progress_deadline, PROGRESS_DUE, order.id, leg.number)
    # What is held now is added when it is released.
    deadline = (
        ctx.clock
        - get_held_seconds(ctx, order.id)
        + progress_seconds(
            order.terms, order.params.progress_base, leg.slot_speed, leg.slots_at_once
        )
    )
    schedule(ctx, deadline, PROGRESS_DUE, order.id, leg.number)
    ctx.emit(ProgressRestarted(order.id, leg.number, deadline))
    key = (order.id, leg.number)
    return LEGS.update(ctx.store, *key, progress_deadline=deadline, **changes)


def end_leg(ctx: Context, leg: Leg, state: LegState, reason: int) -> Leg:
    """End a leg and release its capacity; one that has ended stays as it is."""
    if not leg.is_live:
        return leg
    cancel(ctx, leg.accept_deadline, ACCEPT_DUE, leg.order_id, leg.number)
    cancel(ctx, leg.progress_deadline, PROGRESS_DUE, leg.order_id, leg.number)
    key = (leg.order_id, leg.number)
    ended = LEGS.update(ctx.store, *key, state=state, end_reason=reason)
    LIVE_LEGS.delete(ctx.store, leg.validator, *key)
    _change_load(ctx, leg, -1)
    # The bid may have left the book meanwhile.
    bid = BIDS.get(ctx.store, leg.bid_id)
    if bid is not None:
        BIDS.update(ctx.store, bid.id, reserved=bid.reserved - leg.work)
    mark_if_bidder(ctx, leg.validator)
    return ended


def end_order(ctx: Context, order: Order, reason: CloseReason) -> None:
    """Decide how an order ends, and close it. No share stands in its open round: it has none, or was dropped before."""
    if order.state is OrderState.OPEN:
        leave_book(ctx, order)
    cancel(ctx, order.deadline, ORDER_DUE, order.id)
    drop_holds(ctx, order.id)
    if order.legs:
        _stop_leg(ctx, order, reason)
    close_order(ctx, order.id, reason)


def close_order(ctx: Context, order_id: bytes, reason: CloseReason) -> None:
    """Close an order: the rest of the deposit and all bonds return.

    Of bonds, a bounded number in a block; the queue carries the rest, and the order closes when the last has returned.
    """
    escrow, moves = refund(ESCROWS.must(ctx.store, order_id))
    ESCROWS.put(ctx.store, escrow)
    apply_payments(ctx, order_id, moves)
    if not _return_some(ctx, order_id, BOND_ROWS.iterate(ctx.store, order_id)):
        TALLIES.update(ctx.store, order_id, ending=int(reason))
        schedule(ctx, ctx.clock, CLOSE_DUE, order_id)
        return
    order = ORDERS.update(ctx.store, order_id, state=OrderState.CLOSED, close_reason=int(reason))
    refunded = sum(row.refunded for row in escrow.depositors)
    ctx.emit(OrderClosed(order_id, int(reason), refunded, order.unmatched))


def _return_some(ctx: Context, order_id: bytes, rows: Iterable[BondRow]) -> bool:
    """Return the first bonds of an order, and tell whether these were all."""
    found = list(islice(rows, BONDS_PER_CALL + 1))
    for row in found[:BONDS_PER_CALL]:
        return_bond(ctx, order_id, row)
    return len(found) <= BONDS_PER_CALL


def weigh_end(ctx: Context, entry: Entry) -> int:
    """Return the gas of what may end an order: the bonds that return at once, and its depositors."""
    return weigh_close(ctx, entry.parts[0])


def weigh_close(ctx: Context, order_id: bytes) -> int:
    """Return the gas of a step of :func:`close_order`."""
    rows = islice(BOND_ROWS.keys(ctx.store, order_id), BONDS_PER_CALL)
    depositors = ESCROWS.must(ctx.store, order_id).depositors
    return BOND_GAS * sum(1 for _ in rows) + PAY_GAS * len(depositors)


def is_ending(ctx: Context, order: Order) -> bool:
    """Tell whether the order's end is decided, and only the return of bonds is waited for."""
    return TALLIES.must(ctx.store, order.id).ending != 0


def get_waited(ctx: Context, order: Order) -> int:
    """Return how long an order has stood still by now, which moves its deadline (seconds).

    Panels of it wait for audit room, or it is held; both at a time count once.
    """
    tally = TALLIES.must(ctx.store, order.id)
    waited = ctx.clock - tally.waits_since if tally.waiting else 0
    return max(waited, get_held_seconds(ctx, order.id))


def clear_leg(ctx: Context, order: Order, leg: Leg) -> bool:
    """Return what a leg left behind before the order opens again: what was withheld, and bonds.

    A bounded number of bonds each time. False where some are left: then it has to be called again.
    """
    _lose_part(ctx, order, leg)
    bond = get_job_bond(ctx, order.id, leg.number)
    if bond is not None:
        return_bond(ctx, order.id, bond)
    rows = BOND_ROWS.iterate(ctx.store, order.id, leg.number, int(BondKind.SHARE))
    return _return_some(ctx, order.id, rows)


def on_time_to_live(ctx: Context, entry: Entry) -> None:
    """End an order that found no match in time."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    if order.state is not OrderState.OPEN or ctx.clock < order.expires_at or is_ending(ctx, order):
        return
    if stands_still(ctx, order.id):
        return  # the release comes back to it
    late = ctx.clock >= order.deadline
    end_order(ctx, order, CloseReason.DEADLINE if late else CloseReason.EXPIRED)


def on_close(ctx: Context, entry: Entry) -> None:
    """Go on with the return of bonds, and close the order when the last has returned."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    tally = TALLIES.must(ctx.store, order.id)
    if order.state is not OrderState.CLOSED and tally.ending:
        close_order(ctx, order.id, CloseReason(tally.ending))


def _stop_leg(ctx: Context, order: Order, reason: CloseReason) -> None:
    leg = LEGS.must(ctx.store, order.id, order.legs)
    if reason in (CloseReason.SETTLED, CloseReason.STOPPED_BY_JOB):
        stopped = reason is CloseReason.STOPPED_BY_JOB
        end = int(LegEnd.STOPPED_BY_JOB) if stopped else 0
        ctx.emit(OrderSettled(order.id, leg.number, leg.validator, end))
        pay_part(ctx, order.id, leg.validator)
        end_leg(ctx, leg, LegState.DONE, end)
    else:
        _lose_part(ctx, order, leg)
        # What failed by itself has ended with its own reason.
        end_leg(ctx, leg, LegState.FAILED, int(LegEnd.ORDER_DEADLINE))


def _lose_part(ctx: Context, order: Order, leg: Leg) -> None:
    """Give what is withheld back to the deposit, because the leg has failed, whoever was at fault.

    What rejected shares that were right took of it before, the validator makes good from job bond and stake. Else it
    could pay itself out of what it is going to lose: reject what its own people did right, and then stop.
    """
    part, taken = get_withheld(ctx, order.id), TALLIES.must(ctx.store, order.id).righted
    if not part and not taken:
        return
    withhold_part(ctx, order.id, -part)
    TALLIES.update(ctx.store, order.id, righted=0)
    row = get_job_bond(ctx, order.id, leg.number)
    of_bond = min(taken, row.amount if row else 0)
    if row is not None:
        move = Transfer(Move.COMPENSATION, order.id.hex(), order.consumer, of_bond)
        cut_bond(ctx, order.id, row, (move,))
    of_stake = min(taken - of_bond, VALIDATORS.must(ctx.store, leg.validator).stake)
    cut_stake(ctx, leg.validator, of_stake, Move.STAKE_COMPENSATION, order.consumer)
    ctx.emit(PartReturned(order.id, leg.number, part, of_bond + of_stake, of_stake))


def _change_load(ctx: Context, leg: Leg, sign: int) -> None:
    load = get_load(ctx.store, leg.validator)
    value = price_ceil(leg.work, leg.price)
    LOADS.put(
        ctx.store,
        replace(load, work=load.work + sign * leg.work, value=load.value + sign * value),
    )


# --- who may do what to an order now -------------------------------------------------------------


def get_parties(ctx: Context, order: Order, winner: str) -> tuple[str, ...]:
    """Return the operators who are a party to an order that ``winner`` has, or would have.

    The operator itself, providers of its cluster, the consumer, and whoever deposited.
    """
    parties = {winner, order.consumer}
    escrow = ESCROWS.must(ctx.store, order.id)
    parties.update(row.address for row in escrow.depositors)
    return tuple(
        validator.operator
        for validator in VALIDATORS.scan(ctx.store)
        if validator.operator in parties or CLUSTERS.has(ctx.store, winner, validator.operator)
    )


def get_assigned(
    ctx: Context, order_id: bytes, number: int, validator: str, state: LegState
) -> tuple[Order, Leg]:
    """Return an order and its current leg, which must be the validator's, in ``state``, before its deadlines."""
    order = ORDERS.need(ctx.store, order_id)
    if number != order.legs or number == 0:
        reason = f"the current leg is {order.legs}"
        raise Refusal(WRONG_STATE, "leg", reason, "read the order again")
    leg = LEGS.must(ctx.store, order_id, number)
    if leg.validator != validator:
        raise Refusal(NOT_YOURS, "validator", "the order is matched to somebody else", "leave it")
    if leg.state is not state or is_ending(ctx, order):
        reason = f"the leg is {leg.state.name.lower()}"
        raise Refusal(WRONG_STATE, "order_id", reason, f"it must be {state.name.lower()}")
    matched = state is LegState.MATCHED
    check_before(
        ctx,
        "accept deadline" if matched else "progress deadline",
        (leg.accept_deadline if matched else leg.progress_deadline)
        + get_held_seconds(ctx, order_id),
    )
    check_before(ctx, "order's deadline", order.deadline + get_waited(ctx, order))
    return order, leg


def check_before(ctx: Context, name: str, deadline: int) -> None:
    """Refuse when the chain clock has reached ``deadline``, whatever the queue has done yet."""
    if ctx.clock >= deadline:
        reason = f"the {name} passed at {deadline} (now {ctx.clock})"
        raise Refusal(DEADLINE_PASSED, "order_id", reason, "nothing can be done any more")
