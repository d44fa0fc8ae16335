"""The auction of a block: it matches orders of earlier blocks with the book, which already has the bids of this block.

A block tries two groups of orders. The first group is the new orders. The second group exists only after a change of
the book. It has the open orders whose price limit is at least the price of a changed bid. A *sweep* tries all orders of
the second group, over one or more blocks. Half of the auction's gas is for tries, however large the book is. Three
eighths are for matches. One eighth is for the reads that some tries need in addition to the reads that every try needs.
Orders that the block does not reach wait in the state for the next blocks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby, islice, takewhile
from operator import attrgetter
from typing import NamedTuple

from chain.state_machine.context import Context
from chain.state_machine.ledger.tables import ESCROWS
from chain.state_machine.market.book import LivingBook, Version, mark_book_changed
from chain.state_machine.market.gas import AUCTION_PERCENT, BOOK_READ_GAS, FILL_GAS, TRY_GAS
from chain.state_machine.market.hooks import MATCHED, Match
from chain.state_machine.market.orders import exclude, leave_book
from chain.state_machine.market.tables import (
    BIDS,
    DIRTY_ORDERS,
    OPEN_ORDERS,
    ORDER_PARTIES,
    ORDERS,
    SWEEP,
    Sweep,
)
from chain.state_machine.registry.members import get_active, get_promised
from chain.state_machine.registry.tables import CLUSTERS
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.amount import MONEY_MAX, ceil_div
from domain.market.events import OrderUnmatched
from domain.market.records import ChallengeTerms, Conditions, JobTerms, Order, OrderState
from domain.node.params import NodeParams
from domain.order_params import OrderParams
from escrow.deposits import affordable_price
from matching_engine.match import Reads, match
from matching_engine.records import AuctionOrder, Fill
from pol.rules.panels import Promised, batch_seconds, verify_seconds
from pol.rules.replicas import replica_ids
from pol.rules.schedule import rest_terms, share_work, trial_work
from pol.rules.tiers.table import highest_floor, longest_wait, single_tiers, tier_named


class AuctionBudget(NamedTuple):
    """The limits of one auction: the largest numbers of orders to try, of orders to match, and of additional reads."""

    tries: int
    fills: int
    reads: int


def share_of(due_gas: int) -> AuctionBudget:
    """Return the limits of an auction, from the gas that a block has for due work.

    Half of the auction's gas is for tries, three eighths for matches, and an eighth for reads.
    """
    gas = due_gas * AUCTION_PERCENT // 100
    return AuctionBudget(
        tries=max(1, gas // 2 // TRY_GAS),
        fills=max(1, gas * 3 // 8 // FILL_GAS),
        reads=max(1, gas // 8 // BOOK_READ_GAS),
    )


def apply_auction(ctx: Context) -> None:
    """Match orders with bids; for each order that was tried and not matched, record the conditions that bids failed."""
    sweep = SWEEP.get(ctx.store)
    if sweep is None and next(DIRTY_ORDERS.keys(ctx.store), None) is None:
        return
    book = ctx.memory.of(LivingBook)
    standing = book.at(ctx.store, Version(ctx.height - 1, ctx.block.previous_hash))
    share = share_of(ctx.block.params.of(NodeParams).due_gas)
    swept, fresh = take_orders(ctx, share.tries)
    matched = match(
        [get_asked(ctx.store, order, ctx.clock) for order in (*swept, *fresh)],
        standing,
        ctx.block.previous_beacon,
        ctx.clock,
        share.fills,
        Reads(share.reads, frozenset(order.id for order in swept if fresh)),
        partial(get_related, ctx.store),
    )
    auditors = Auditors(ctx)
    for _, fills in groupby(matched.fills, key=attrgetter("first")):
        apply_fills(ctx, list(fills), auditors)
    carried = dict.fromkeys(matched.carried)
    if sweep is not None and any(order.id in carried for order in swept):
        # These orders must not become new orders, because they would then come before other orders. Another sweep tries
        # them again.
        mark_book_changed(ctx, sweep.price)
    for order in fresh:
        if order.id in carried:
            DIRTY_ORDERS.mark(ctx.store, order.opened_height, order.id)
    for order_id, histogram in matched.unmatched:
        order = ORDERS.must(ctx.store, order_id)
        if histogram != order.unmatched or order.opened_height == ctx.height - 1:
            # Replicas wait beside the book for the one that leads, and for the same reasons.
            for name in replica_ids(order) if order.replicas and not order.legs else (order_id,):
                ORDERS.update(ctx.store, name, unmatched=histogram)
                ctx.emit(OrderUnmatched(name, histogram))


def take_orders(ctx: Context, limit: int) -> tuple[list[Order], list[Order]]:
    """Return the orders that this block tries: orders of the sweep over the book, and new orders.

    New orders are taken from earlier blocks only. So a validator that sees an order in the mempool cannot place a bid
    for it in the order's own block. Half of the tries are reserved for new orders, so many old orders that no bid fits
    cannot delay the new ones. If a block has only one try, every second block reserves this try.
    """
    reserved = limit // 2 if limit > 1 else ctx.height % 2
    fresh = sum(1 for _ in islice(_new_orders(ctx), reserved))
    swept = _take_swept(ctx, limit - fresh)
    new = list(islice(_new_orders(ctx), limit - len(swept)))
    for opened, order_id in new:
        DIRTY_ORDERS.delete(ctx.store, opened, order_id)
    return _still_open(ctx, swept), _still_open(ctx, [order_id for _, order_id in new])


def _still_open(ctx: Context, order_ids: list[bytes]) -> list[Order]:
    orders = (ORDERS.must(ctx.store, order_id) for order_id in sorted(order_ids))
    return [order for order in orders if order.state is OrderState.OPEN and ctx.clock < order.expires_at]


def _new_orders(ctx: Context) -> Iterator[tuple[bytes, ...]]:
    """Yield the keys of the orders that were opened in earlier blocks and not tried yet, the oldest first."""
    keys = DIRTY_ORDERS.keys(ctx.store)
    return takewhile(lambda key: number_of(key[0]) < ctx.height, keys)


def _take_swept(ctx: Context, limit: int) -> list[bytes]:
    """Return the next open orders of the sweep over the book, and store its position.

    The sweep skips orders whose price limit is below the cheapest changed bid, however many there are.
    """
    sweep = SWEEP.get(ctx.store)
    if sweep is None or not limit:
        return []
    after = (sweep.below, sweep.height, sweep.order_id) if sweep.order_id else ()
    lowest = MONEY_MAX - sweep.price
    keys = takewhile(lambda key: number_of(key[0]) <= lowest, OPEN_ORDERS.keys(ctx.store, after=after))
    swept = list(islice((key for key in keys if number_of(key[1]) < ctx.height), limit))
    if len(swept) == limit:
        below, opened, order_id = swept[-1]
        position = {"below": number_of(below), "height": number_of(opened), "order_id": order_id}
        SWEEP.update(ctx.store, **position)
    elif sweep.again:
        SWEEP.put(ctx.store, Sweep(sweep.again, again=0))
    else:
        SWEEP.delete(ctx.store)
    # This block tries them, so they must not be tried again as new orders.
    for _, opened, order_id in swept:
        DIRTY_ORDERS.delete(ctx.store, opened, order_id)
    return [order_id for *_, order_id in swept]


def get_asked(store: Overlay, order: Order, clock: int) -> AuctionOrder:
    """Return an open order in the form that the auction reads, with the highest price limit that its escrow can pay."""
    escrow = ESCROWS.must(store, order.id)
    asked = ask_rest(order)
    floor = highest_floor(order.conditions.tiers, order.terms, order.price_limit, order.params)
    # The part that an earlier leg's validator may still get is locked in the deposits, but cannot be used.
    reserved = asked.rounds * floor + escrow.withheld
    return replace(
        asked,
        order_id=order.id,
        price_limit=affordable_price(escrow, asked.work, order.price_limit, reserved),
        excluded=order.excluded,
        seconds_left=order.deadline - clock,
        opened_height=order.opened_height,
        replicas=() if order.legs else replica_ids(order)[1:],
    )


def ask_rest(order: Order) -> AuctionOrder:
    """Return the part of an order that is left to train, in the form that the auction reads.

    If some rounds are verified, the winner also has to fetch the states at the end of the last one. So the bytes of
    these states count like those of the payload.
    """
    terms = rest_terms(order.terms, order.next_round)
    asked = make_auction_order(terms, order.conditions, order.params, order.audit_ms, order.window, order.challenges)
    if not order.next_round:
        return asked
    size = terms.delivered_bytes + terms.result_bytes
    seconds = order.params.accept_base + ceil_div(size, order.params.accept_rate)
    return replace(asked, payload_bytes=size, accept_seconds=seconds)


def make_auction_order(
    terms: JobTerms, conditions: Conditions, params: OrderParams, audit_ms: int, window: int, challenges: ChallengeTerms
) -> AuctionOrder:
    """Return an order in the form that the auction reads. Fields that these arguments do not determine are empty.

    The caller fills in the other fields. At most ``rounds_ahead`` rounds may be closed but not verified. Further rounds
    wait for a window, or for a stage of full length if a seat was silent. The last round also waits
    for challenges, as long as the slowest allowed tier says. ``verify_seconds`` includes this waiting time. An order
    that names no tier allows every tier in which one validator serves it.
    """
    conditions = conditions if conditions.tiers else replace(conditions, tiers=single_tiers())
    return AuctionOrder(
        order_id=bytes(32),
        rounds=terms.rounds,
        slots=terms.slots,
        share_work=share_work(terms),
        outer_work=terms.outer_work,
        price_limit=0,
        conditions=conditions,
        excluded=(),
        seconds_left=0,
        verify_seconds=longest_wait(conditions.tiers, challenges, params)
        + verify_seconds(params, audit_ms, window)
        + (terms.rounds - 1) // params.rounds_ahead * batch_seconds(params, audit_ms, window),
        job_bond_bps=params.job_bond_bps,
        opened_height=0,
        payload_bytes=terms.delivered_bytes,
        trial_work=trial_work(terms),
        accept_seconds=params.accept_base + ceil_div(terms.delivered_bytes, params.accept_rate),
        accept_max=params.accept_max,
        payload_fee=params.payload_fee,
    )


class Auditors:
    """A cache of the validators that could audit an order, for all fills of a block.

    Orders with the same tier, terms, parameters and audit time have the same auditors. A fill does not change the
    auditors.
    """

    def __init__(self, ctx: Context) -> None:
        """Start with an empty cache."""
        self._ctx = ctx
        self._promised: list[Promised] | None = None
        self._eligible: dict[tuple[str, JobTerms, OrderParams, int], list[str]] = {}

    def has_stranger(self, order: Order, winners: Sequence[str], tier: str) -> bool:
        """Return whether at least one possible auditor would not be a party to the order, if ``winners`` won it and its
        replicas in ``tier``.
        """
        if not order.params.auditors:
            return True
        escrow = ESCROWS.must(self._ctx.store, order.id)
        named = {*winners, order.consumer, *(row.address for row in escrow.depositors)}
        servers = [name.decode() for _, name in ORDER_PARTIES.keys(self._ctx.store, order.id)]
        heads = (*winners, *servers) if order.replicas else winners
        return any(
            operator not in named
            and not any(CLUSTERS.has(self._ctx.store, head, operator) for head in heads)
            and operator not in servers
            for operator in self._of(order, tier)
        )

    def _of(self, order: Order, tier: str) -> list[str]:
        """Return the operators of the validators that may audit an order in a tier."""
        key = tier, order.terms, order.params, order.audit_ms
        if key not in self._eligible:
            if self._promised is None:
                self._promised = get_promised(self._ctx.store)
            may_sit = tier_named(tier).may_sit
            self._eligible[key] = [
                auditor.operator for auditor in self._promised if may_sit(order, auditor.speed, auditor.rate)
            ]
        return self._eligible[key]


def get_related(store: Overlay, validator: str) -> frozenset[str]:
    """Return the operators that may not serve a replica beside a validator: those of its cluster, and the validator of
    the cluster in which it is a provider.
    """
    operators = (active.operator for active in get_active(store))
    return frozenset(
        name for name in operators if CLUSTERS.has(store, validator, name) or CLUSTERS.has(store, name, validator)
    )


def apply_fills(ctx: Context, fills: list[Fill], auditors: Auditors) -> None:
    """Match an order, with its replicas, with the bids of their fills: they leave the book, and their legs open."""
    winners = [fill.validator for fill in fills]
    for fill in fills:
        order = ORDERS.must(ctx.store, fill.order_id)
        if not auditors.has_stranger(order, winners, fill.tier):
            # Each possible auditor is a party: a winner, a member of its cluster, a depositor or the consumer.
            leading = ORDERS.must(ctx.store, fills[0].order_id)
            exclude(ctx, leading, winners[-1])
            DIRTY_ORDERS.mark(ctx.store, leading.opened_height, leading.id)
            return
    for fill in fills:
        order = ORDERS.must(ctx.store, fill.order_id)
        bid = BIDS.must(ctx.store, fill.bid_id)
        leave_book(ctx, order)
        MATCHED(ctx, Match(order=order, bid=bid, price=fill.price, job_bond=fill.job_bond, tier=fill.tier))
        for other in fills:
            if other is not fill:
                # The winner of a replica has an interest in what a panel finds.
                ORDER_PARTIES.mark(ctx.store, order.id, other.validator)
