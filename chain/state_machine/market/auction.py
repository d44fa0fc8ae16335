"""The auction of a block: every bid of the block is in the book first, then orders that are due for a try.

Tried are orders that just opened, and all open orders after the book changed, oldest first. A block tries a bounded
number; the rest waits in the state for the next blocks.
"""

from itertools import islice

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import lock_bond
from chain.state_machine.ledger.tables import ESCROWS, TALLIES
from chain.state_machine.market.book import LivingBook, Version
from chain.state_machine.market.orders import leave_book, take_capacity
from chain.state_machine.market.tables import (
    ASSIGNMENTS,
    BIDS,
    DIRTY_ORDERS,
    OPEN_ORDERS,
    ORDERS,
    ORDERS_OF_VALIDATOR,
    SWEEP,
    Sweep,
)
from chain.state_machine.queue import Due, schedule
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.amount import ceil_div
from domain.events import OrderMatched, OrderUnmatched
from domain.records import (
    Assignment,
    AssignmentState,
    BondKind,
    BondRow,
    Order,
    OrderState,
)
from escrow.account import affordable_price
from matching_engine.match import match
from matching_engine.records import Asked, Fill
from pol.rules.schedule import total_work


def apply_auction(ctx: Context, book: LivingBook) -> None:
    """Match what can be matched, and tell the others why not."""
    orders = take_orders(ctx)
    if not orders:
        return
    asked = [get_asked(ctx.store, order, ctx.clock) for order in orders]
    matched = match(
        asked,
        book.at(ctx.store, Version(ctx.height - 1, ctx.block.previous_hash)),
        ctx.block.previous_hash,
        ctx.clock,
        ctx.block.params.matches_per_block,
    )
    for fill in matched.fills:
        apply_fill(ctx, fill)
    for order_id, histogram in matched.unmatched:
        order = ORDERS.must(ctx.store, order_id)
        if histogram != order.unmatched or order.opened_height == ctx.height:
            ORDERS.update(ctx.store, order_id, unmatched=histogram)
            ctx.emit(OrderUnmatched(order_id, histogram))


def take_orders(ctx: Context) -> list[Order]:
    """Take the orders that this block tries: those of the sweep over the book first, then new ones.

    Half of the places are kept for new ones: a book full of old orders that nobody wants cannot hold up the others.
    """
    limit = ctx.block.params.matches_per_block
    fresh = sum(1 for _ in islice(DIRTY_ORDERS.keys(ctx.store), limit // 2))
    found = _take_swept(ctx, limit - fresh)
    for opened, order_id in list(islice(DIRTY_ORDERS.keys(ctx.store), limit - len(found))):
        found.append(order_id)
        DIRTY_ORDERS.delete(ctx.store, opened, order_id)
    orders = []
    for order_id in sorted(set(found)):
        order = ORDERS.must(ctx.store, order_id)
        if order.state is OrderState.OPEN and ctx.clock < order.expires_at:
            orders.append(order)
    return orders


def _take_swept(ctx: Context, limit: int) -> list[bytes]:
    """Return the next open orders of the pass over the book, and remember where it stands."""
    sweep = SWEEP.get(ctx.store)
    if sweep is None:
        return []
    after = (sweep.height, sweep.order_id) if sweep.order_id else ()
    found = list(islice(OPEN_ORDERS.keys(ctx.store, after=after), limit))
    if len(found) == limit:
        opened, order_id = found[-1]
        SWEEP.update(ctx.store, height=number_of(opened), order_id=order_id)
    elif sweep.again:
        SWEEP.put(ctx.store, Sweep(0, b"", again=False))
    else:
        SWEEP.delete(ctx.store)
    # Tried now, so not again as a new one.
    for opened, order_id in found:
        DIRTY_ORDERS.delete(ctx.store, opened, order_id)
    return [order_id for _, order_id in found]


def get_asked(store: Overlay, order: Order, clock: int) -> Asked:
    """Return an open order as the auction sees it: never more than its escrow can pay."""
    work = total_work(order.terms)
    return Asked(
        order_id=order.id,
        work=work,
        price_limit=affordable_price(ESCROWS.must(store, order.id), work, order.price_limit),
        conditions=order.conditions,
        excluded=order.excluded,
        seconds_left=order.deadline - clock,
        window_seconds=order.params.round_window,
        job_bond_bps=order.params.job_bond_bps,
        opened_height=order.opened_height,
    )


def apply_fill(ctx: Context, fill: Fill) -> None:
    """Match an order: the job bond moves, the bid's capacity is reserved, the time to accept runs."""
    order, bid = ORDERS.must(ctx.store, fill.order_id), BIDS.must(ctx.store, fill.bid_id)
    leave_book(ctx, order)
    attempt = order.attempt + 1
    order = ORDERS.update(
        ctx.store, order.id, state=OrderState.MATCHED, attempt=attempt, unmatched=()
    )
    TALLIES.update(ctx.store, order.id, verified=0)
    terms = order.terms
    wait = order.params.accept_base + ceil_div(terms.payload_bytes, order.params.accept_rate)
    assignment = Assignment(
        order_id=order.id,
        attempt=attempt,
        validator=bid.validator,
        bid_id=bid.id,
        price=fill.price,
        work=fill.work,
        job_bond=fill.job_bond,
        providers_bps=bid.offer.providers_bps,
        speed=bid.offer.speed,
        state=AssignmentState.MATCHED,
        end_reason=0,
        matched_at=ctx.clock,
        accept_deadline=ctx.clock + wait,
        progress_deadline=0,
        round=0,
        global_in=terms.global_root,
        ciphertext_root=b"",
        final_root=b"",
    )
    ASSIGNMENTS.put(ctx.store, assignment)
    take_capacity(ctx, assignment)
    ORDERS_OF_VALIDATOR.mark(ctx.store, bid.validator, order.id)
    schedule(ctx, assignment.accept_deadline, Due.ACCEPT, order.id, attempt)
    ctx.emit(OrderMatched(order.id, attempt, bid.validator, bid.id, fill.price, fill.job_bond))
    row = BondRow(BondKind.JOB, bid.validator, attempt, 0, 0, 0, fill.job_bond)
    lock_bond(ctx, order.id, row)
