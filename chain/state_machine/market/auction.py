"""The auction of a block: every bid of the block is in the book first, then orders of earlier blocks that are due.

Tried are orders that just opened, and after a change of the book the open orders that would pay it. A block tries and
matches as many as its gas has room for, a half for each; the rest waits in the state for the next blocks.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, takewhile

from chain.state_machine.context import Context
from chain.state_machine.ledger.tables import ESCROWS
from chain.state_machine.market.book import LivingBook, Version
from chain.state_machine.market.gas import AUCTION_PERCENT, FILL_GAS, TRY_BID_GAS, TRY_GAS
from chain.state_machine.market.hooks import MATCHED, Match
from chain.state_machine.market.orders import exclude, get_parties, leave_book
from chain.state_machine.market.tables import (
    BIDS,
    DIRTY_ORDERS,
    OPEN_ORDERS,
    ORDERS,
    SWEEP,
    Sweep,
)
from chain.state_machine.registry.members import get_promised
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.amount import MONEY_MAX, ceil_div
from domain.market.events import OrderUnmatched
from domain.market.records import Conditions, JobTerms, Order, OrderState
from domain.params import OrderParams
from escrow.moves import affordable_price
from matching_engine.match import match
from matching_engine.records import Asked, Fill
from pol.rules.panels import batch_seconds, verify_seconds
from pol.rules.schedule import share_work, trial_work
from pol.rules.tiers.table import highest_floor, tier_named


def apply_auction(ctx: Context) -> None:
    """Match what can be matched, and tell the others why not."""
    if SWEEP.get(ctx.store) is None and next(DIRTY_ORDERS.keys(ctx.store), None) is None:
        return
    book = ctx.memory.of(LivingBook)
    standing = book.at(ctx.store, Version(ctx.height - 1, ctx.block.previous_hash))
    share = ctx.block.params.due_gas * AUCTION_PERCENT // 100
    orders = take_orders(ctx, max(1, share // 2 // (TRY_GAS + TRY_BID_GAS * len(standing))))
    asked = [get_asked(ctx.store, order, ctx.clock) for order in orders]
    seed, fills_max = ctx.block.previous_beacon, max(1, share // 2 // FILL_GAS)
    matched = match(asked, standing, seed, ctx.clock, fills_max)
    for fill in matched.fills:
        apply_fill(ctx, fill)
    for order_id in matched.carried:
        DIRTY_ORDERS.mark(ctx.store, ORDERS.must(ctx.store, order_id).opened_height, order_id)
    for order_id, histogram in matched.unmatched:
        order = ORDERS.must(ctx.store, order_id)
        if histogram != order.unmatched or order.opened_height == ctx.height - 1:
            ORDERS.update(ctx.store, order_id, unmatched=histogram)
            ctx.emit(OrderUnmatched(order_id, histogram))


def take_orders(ctx: Context, limit: int) -> list[Order]:
    """Take the orders that this block tries: those of the sweep over the book first, then new ones.

    New ones are those of the blocks before: whoever sees an order on its way cannot answer it. Half of the tries are
    kept for them: a book full of old orders that nobody wants cannot hold up the others.
    """
    fresh = sum(1 for _ in islice(_new_orders(ctx), limit // 2))
    found = _take_swept(ctx, limit - fresh)
    for opened, order_id in list(islice(_new_orders(ctx), limit - len(found))):
        found.append(order_id)
        DIRTY_ORDERS.delete(ctx.store, opened, order_id)
    orders = []
    for order_id in sorted(set(found)):
        order = ORDERS.must(ctx.store, order_id)
        if order.state is OrderState.OPEN and ctx.clock < order.expires_at:
            orders.append(order)
    return orders


def _new_orders(ctx: Context) -> Iterator[tuple[bytes, ...]]:
    """Yield the keys of orders of earlier blocks that were not tried yet, the oldest first."""
    keys = DIRTY_ORDERS.keys(ctx.store)
    return takewhile(lambda key: number_of(key[0]) < ctx.height, keys)


def _take_swept(ctx: Context, limit: int) -> list[bytes]:
    """Return the next open orders of the pass over the book, and remember where it stands.

    Orders that would not pay the price of what changed are left alone, however many there are.
    """
    sweep = SWEEP.get(ctx.store)
    if sweep is None:
        return []
    after = (sweep.below, sweep.height, sweep.order_id) if sweep.order_id else ()
    lowest = MONEY_MAX - sweep.price
    keys = takewhile(
        lambda key: number_of(key[0]) <= lowest, OPEN_ORDERS.keys(ctx.store, after=after)
    )
    found = list(islice((key for key in keys if number_of(key[1]) < ctx.height), limit))
    if len(found) == limit:
        below, opened, order_id = found[-1]
        at = {"below": number_of(below), "height": number_of(opened), "order_id": order_id}
        SWEEP.update(ctx.store, **at)
    elif sweep.again:
        SWEEP.put(ctx.store, Sweep(sweep.again, again=0))
    else:
        SWEEP.delete(ctx.store)
    # Tried now, so not again as a new one.
    for _, opened, order_id in found:
        DIRTY_ORDERS.delete(ctx.store, opened, order_id)
    return [order_id for *_, order_id in found]


def get_asked(store: Overlay, order: Order, clock: int) -> Asked:
    """Return an open order as the auction sees it: never more than its escrow can pay."""
    escrow = ESCROWS.must(store, order.id)
    asked = make_asked(order.terms, order.conditions, order.params, order.audit_ms, order.window)
    floor = highest_floor(order.conditions.tiers, order.terms, order.price_limit, order.params)
    audits = order.terms.rounds * floor
    return replace(
        asked,
        order_id=order.id,
        price_limit=affordable_price(escrow, asked.work, order.price_limit, audits),
        excluded=order.excluded,
        seconds_left=order.deadline - clock,
        opened_height=order.opened_height,
    )


def make_asked(
    terms: JobTerms, conditions: Conditions, params: OrderParams, audit_ms: int, window: int
) -> Asked:
    """Return what the auction reads of terms, conditions, parameters, audit time and window.

    The rest is the caller's to fill in. Of rounds that are closed and not verified there is a bounded number: further
    ones wait for a window, or for a stage that a silent seat makes as long as it may be.
    """
    return Asked(
        order_id=bytes(32),
        rounds=terms.rounds,
        slots=terms.slots,
        share_work=share_work(terms),
        outer_work=terms.outer_work,
        price_limit=0,
        conditions=conditions,
        excluded=(),
        seconds_left=0,
        verify_seconds=verify_seconds(params, audit_ms, window)
        + (terms.rounds - 1) // params.rounds_ahead * batch_seconds(params, audit_ms, window),
        job_bond_bps=params.job_bond_bps,
        opened_height=0,
        payload_bytes=terms.delivered_bytes,
        trial_work=trial_work(terms),
        accept_seconds=params.accept_base + ceil_div(terms.delivered_bytes, params.accept_rate),
        accept_max=params.accept_max,
        payload_fee=params.payload_fee,
    )


def _has_auditor(ctx: Context, order: Order, validator: str, tier: str) -> bool:
    """Tell whether somebody could audit an order in a tier who is no party to it when ``validator`` wins it."""
    if not order.params.auditors:
        return True
    parties = get_parties(ctx, order, validator)
    may_sit = tier_named(tier).may_sit
    return any(
        found.operator not in parties and may_sit(order, found.speed, found.rate)
        for found in get_promised(ctx.store)
    )


def apply_fill(ctx: Context, fill: Fill) -> None:
    """Match an order: it leaves the book, and what serves it opens."""
    order, bid = ORDERS.must(ctx.store, fill.order_id), BIDS.must(ctx.store, fill.bid_id)
    if not _has_auditor(ctx, order, bid.validator, fill.tier):
        # Everybody who could audit it is the validator's kin, a depositor or the consumer.
        exclude(ctx, order, bid.validator)
        DIRTY_ORDERS.mark(ctx.store, order.opened_height, order.id)
        return
    leave_book(ctx, order)
    MATCHED(ctx, Match(order, bid, fill.price, fill.job_bond, fill.tier))
