"""The life of an order: it opens, waits in the book, and closes."""

from collections.abc import Iterable
from itertools import islice

from chain.state_machine.context import Context
from chain.state_machine.ledger.gas import BOND_GAS, PAY_GAS
from chain.state_machine.ledger.order_money import apply_payments
from chain.state_machine.ledger.tables import BOND_ROWS, ESCROWS, TALLIES
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.holds import drop_holds, get_held_seconds, is_paused
from chain.state_machine.market.hooks import ENDED, OVERDUE
from chain.state_machine.market.tables import (
    CLOSE_DUE,
    DIRTY_ORDERS,
    OPEN_ORDERS,
    ORDER_DUE,
    ORDER_PARTIES,
    ORDERS,
    TIME_TO_LIVE_DUE,
    open_key,
)
from chain.state_machine.queue import QueueEntry, cancel, schedule
from chain.state_machine.registry.members import get_active
from chain.state_machine.registry.tables import CLUSTERS, VALIDATORS
from domain.errors import DEADLINE_PASSED, Refusal
from domain.ledger.records import BondKind, BondRow
from domain.market.events import DeadlineMoved, OrderClosed, OrderExcluded, OrderOpened
from domain.market.reasons import CloseReason
from domain.market.records import Order, OrderState
from domain.market.transitions import ORDER_STEPS, OrderStep
from escrow.deposits import locked, refund
from pol.rules.schedule import rest_terms, total_work

BONDS_PER_CALL = 32
"""Most bonds that the end of an order or leg returns in one step; the queue does the next step in a later block."""


def open_order(ctx: Context, order: Order) -> None:
    """Put a stored order into the book, for the first time or again, and start its time to live.

    A replica that does not lead waits beside the book.
    """
    expires = min(ctx.clock + order.time_to_live, order.deadline)
    is_new = order.state is OrderState.OPEN
    order = ORDERS.update(
        ctx.store,
        order.id,
        state=order.state if is_new else ORDER_STEPS.after(OrderStep.REOPEN, order.state),
        opened_at=ctx.clock,
        opened_height=ctx.height,
        expires_at=expires,
        unmatched=(),
    )
    if order.leads:
        OPEN_ORDERS.mark(ctx.store, *open_key(order))
        DIRTY_ORDERS.mark(ctx.store, ctx.height, order.id)
    schedule(ctx, expires, TIME_TO_LIVE_DUE, order.id)
    ctx.emit(
        OrderOpened(
            order=order.id,
            consumer=order.consumer,
            work=total_work(rest_terms(order.terms, order.next_round)),
            price_limit=order.price_limit,
            deposit=locked(ESCROWS.must(ctx.store, order.id)),
            leg=order.legs,
            opened_at=order.opened_at,
            opened_height=order.opened_height,
            expires_at=order.expires_at,
        )
    )


def exclude(ctx: Context, order: Order, validator: str) -> Order:
    """Exclude a validator from an order, so that the two are not matched again."""
    excluded = tuple(sorted({*order.excluded, validator}))
    ctx.emit(OrderExcluded(order.id, validator))
    return ORDERS.update(ctx.store, order.id, excluded=excluded)


def leave_book(ctx: Context, order: Order) -> None:
    """Remove an order from the book, because it is matched or ends."""
    OPEN_ORDERS.delete(ctx.store, *open_key(order))
    DIRTY_ORDERS.delete(ctx.store, order.opened_height, order.id)
    cancel(ctx, order.expires_at, TIME_TO_LIVE_DUE, order.id)


def end_order(ctx: Context, order: Order, reason: CloseReason) -> None:
    """End an order and close it; its leg must have ended before."""
    if order.state is OrderState.OPEN:
        leave_book(ctx, order)
    cancel(ctx, order.deadline, ORDER_DUE, order.id)
    drop_holds(ctx, order.id)
    close_order(ctx, order.id, reason)
    ENDED(ctx, order)


def close_order(ctx: Context, order_id: bytes, reason: CloseReason) -> None:
    """Close an order: return the rest of the deposit and all bonds.

    One step returns at most ``BONDS_PER_CALL`` bonds. The queue schedules further steps, and the order closes after the
    last bond. If a part that was withheld from the validator of a failed leg still waits, the order closes after that
    part is paid or returned. The component of legs then schedules this step again. The order also waits while a
    provider stands for a share or may still do so. Bonds that such a provider may lose, and bonds that may have to pay
    right shares, stay locked until then.
    """
    escrow, moves = refund(ESCROWS.must(ctx.store, order_id))
    ESCROWS.put(ctx.store, escrow)
    apply_payments(ctx, order_id, moves)
    tally = TALLIES.must(ctx.store, order_id)
    waits = tally.stands > 0 or ctx.clock < tally.stands_until
    kept = (BondKind.SHARE, BondKind.CHALLENGE) if tally.stands else ()
    kept = (*kept, BondKind.JOB) if tally.funds else kept
    rows = BOND_ROWS.iterate(ctx.store, order_id)
    all_returned = return_some(ctx, order_id, (row for row in rows if row.kind not in kept))
    if not all_returned or escrow.withheld or waits:
        TALLIES.update(ctx.store, order_id, ending=int(reason))
        if not all_returned:
            schedule(ctx, ctx.clock, CLOSE_DUE, order_id)
        elif not tally.stands and ctx.clock < tally.stands_until:
            schedule(ctx, tally.stands_until, CLOSE_DUE, order_id)
        return
    state = ORDER_STEPS.after(reason, ORDERS.must(ctx.store, order_id).state)
    order = ORDERS.update(ctx.store, order_id, state=state, close_reason=int(reason))
    refunded = sum(row.refunded for row in escrow.depositors)
    ctx.emit(OrderClosed(order=order_id, reason=int(reason), refunded=refunded, failed=order.unmatched))


def return_some(ctx: Context, order_id: bytes, rows: Iterable[BondRow]) -> bool:
    """Give the first bonds of an order back to their owners; return whether these were all."""
    first = list(islice(rows, BONDS_PER_CALL + 1))
    for row in first[:BONDS_PER_CALL]:
        return_bond(ctx, order_id, row)
    return len(first) <= BONDS_PER_CALL


def weigh_end(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of an entry that may end an order; it depends on the order's bonds and depositors."""
    return weigh_close(ctx, entry.parts[0])


def weigh_close(ctx: Context, order_id: bytes) -> int:
    """Return the gas of one step of :func:`close_order`; it depends on the order's bonds and depositors."""
    rows = islice(BOND_ROWS.keys(ctx.store, order_id), BONDS_PER_CALL)
    depositors = ESCROWS.must(ctx.store, order_id).depositors
    return BOND_GAS * sum(1 for _ in rows) + PAY_GAS * len(depositors)


def is_ending(ctx: Context, order: Order) -> bool:
    """Return whether the order's end is decided and only bonds remain to be returned."""
    return TALLIES.must(ctx.store, order.id).ending != 0


def get_waited(ctx: Context, order: Order) -> int:
    """Return the seconds for which an order has been waiting until now. Its deadline will move by these seconds.

    An order waits while one of its panels waits for audit room, while it waits for its replicas, and while it is held.
    If it waits for several reasons at the same time, the longer wait counts.
    """
    tally = TALLIES.must(ctx.store, order.id)
    waited = ctx.clock - tally.waits_since if tally.waiting else 0
    return max(waited, get_held_seconds(ctx, order.id))


def begin_wait(ctx: Context, order_id: bytes) -> None:
    """Let an order wait for something that is not its validator's matter. It may wait for several such things."""
    tally = TALLIES.must(ctx.store, order_id)
    since = tally.waits_since if tally.waiting else ctx.clock
    TALLIES.update(ctx.store, order_id, waiting=tally.waiting + 1, waits_since=since)


def end_wait(ctx: Context, order: Order) -> None:
    """End one wait of an order. If it was the last one, move the order's deadline by the waiting time."""
    tally = TALLIES.must(ctx.store, order.id)
    waited = 0 if tally.waiting > 1 else ctx.clock - tally.waits_since
    # If the order is held, the end of the pause adds its length to the deadline. So the pause is subtracted here.
    waited -= min(waited, get_held_seconds(ctx, order.id))
    TALLIES.update(ctx.store, order.id, waiting=tally.waiting - 1)
    if waited and order.state in (OrderState.RUNNING, OrderState.PROVEN):
        moved = ORDERS.update(ctx.store, order.id, deadline=order.deadline + waited)
        cancel(ctx, order.deadline, ORDER_DUE, order.id)
        schedule(ctx, moved.deadline, ORDER_DUE, order.id)
        ctx.emit(DeadlineMoved(order.id, moved.deadline))


def on_time_to_live(ctx: Context, entry: QueueEntry) -> None:
    """End an open order whose time to live is over."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    if order.state is not OrderState.OPEN or ctx.clock < order.expires_at or is_ending(ctx, order):
        return
    if is_paused(ctx, order.id):
        return  # the end of the pause schedules this entry again
    late = ctx.clock >= order.deadline
    end_order(ctx, order, CloseReason.DEADLINE if late else CloseReason.EXPIRED)


def on_order(ctx: Context, entry: QueueEntry) -> None:
    """End an order whose deadline has passed.

    A proven order does not end then, because it only waits for its windows.
    """
    order = ORDERS.must(ctx.store, entry.parts[0])
    if order.state in (OrderState.CLOSED, OrderState.PROVEN) or is_ending(ctx, order):
        return
    if is_paused(ctx, order.id):
        return  # the end of the pause moves the deadline
    last = order.deadline + get_waited(ctx, order)
    if ctx.clock < last:
        # A panel waits for audit room or has waited, so the deadline is later.
        schedule(ctx, last, ORDER_DUE, order.id)
    elif order.state is OrderState.OPEN:
        end_order(ctx, order, CloseReason.DEADLINE)
    else:
        OVERDUE(ctx, order)


def weigh_order(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas for handling an order's deadline. This is the gas for closing the order, or 0 if the order is
    running, because its leg then fails before the order closes.
    """
    order = ORDERS.must(ctx.store, entry.parts[0])
    return 0 if order.state is OrderState.RUNNING else weigh_end(ctx, entry)


def on_close(ctx: Context, entry: QueueEntry) -> None:
    """Return the next bonds of an ending order, and close it after the last one."""
    order = ORDERS.must(ctx.store, entry.parts[0])
    tally = TALLIES.must(ctx.store, order.id)
    if order.state is not OrderState.CLOSED and tally.ending:
        close_order(ctx, order.id, CloseReason(tally.ending))


# --- parties and deadlines -----------------------------------------------------------------------


def get_parties(ctx: Context, order: Order, winner: str) -> tuple[str, ...]:
    """Return the validators that are parties to an order that ``winner`` serves or would serve.

    Parties are the winner, the validators that accepted earlier legs, those that serve its replicas, the providers of
    the winner's cluster, the consumer, and the depositors. If the order has replicas, the providers of the clusters of
    all these validators are parties too: a replica's cluster has an interest in what a panel of another one finds.
    """
    parties = {winner, order.consumer}
    escrow = ESCROWS.must(ctx.store, order.id)
    parties.update(row.address for row in escrow.depositors)
    servers = [name.decode() for _, name in ORDER_PARTIES.keys(ctx.store, order.id)]
    parties.update(servers)
    heads = (winner, *servers) if order.replicas else (winner,)
    members = [
        validator.operator
        for validator in get_active(ctx.store)
        if any(CLUSTERS.has(ctx.store, head, validator.operator) for head in heads)
    ]
    # A party that is outside the validator set now may be in it when something is drawn.
    operators = (name for name in sorted(parties) if VALIDATORS.has(ctx.store, name))
    return tuple(sorted({*operators, *members}))


def check_before(ctx: Context, name: str, deadline: int) -> None:
    """Refuse if the chain clock has reached ``deadline``, even if the queue has not processed the deadline yet."""
    if ctx.clock >= deadline:
        reason = f"the {name} passed at {deadline} (now {ctx.clock})"
        raise Refusal(DEADLINE_PASSED, "order_id", reason, "no further action is possible")
