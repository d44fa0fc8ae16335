"""The component of the market: bids, orders in the book, and the auction."""

from chain.state_machine.component import Component
from chain.state_machine.market import gas
from chain.state_machine.market.auction import apply_auction
from chain.state_machine.market.book import get_reserved_stake, on_backing, on_bid
from chain.state_machine.market.handlers import HANDLERS
from chain.state_machine.market.holds import on_hold
from chain.state_machine.market.invariants import INVARIANTS
from chain.state_machine.market.orders import (
    on_close,
    on_order,
    on_time_to_live,
    weigh_end,
    weigh_order,
)
from chain.state_machine.market.queries import ANSWERS
from chain.state_machine.market.tables import (
    BID_DUE,
    BIDS,
    BIDS_OF,
    CLOSE_DUE,
    DIRTY_ORDERS,
    HELD_TIMES,
    HOLD_DUE,
    HOLDS,
    LOADS,
    OPEN_ORDERS,
    ORDER_AUDITORS,
    ORDER_DUE,
    ORDER_PARTIES,
    ORDERS,
    ORDERS_OF_CONSUMER,
    ORDERS_OF_VALIDATOR,
    SWEEP,
    TIME_TO_LIVE_DUE,
)
from chain.state_machine.queue import Effect
from chain.state_machine.staking.hooks import BACKING_CHANGED, RESERVED
from chain.state_machine.steps import END

COMPONENT = Component(
    name="market",
    tables=(
        LOADS,
        BIDS,
        BIDS_OF,
        ORDERS,
        ORDER_AUDITORS,
        ORDER_PARTIES,
        HOLDS,
        HELD_TIMES,
        ORDERS_OF_CONSUMER,
        ORDERS_OF_VALIDATOR,
        OPEN_ORDERS,
        DIRTY_ORDERS,
        SWEEP,
    ),
    handlers=HANDLERS,
    effects=(
        Effect(TIME_TO_LIVE_DUE, on_time_to_live, weigh_end),
        Effect(ORDER_DUE, on_order, weigh_order),
        Effect(CLOSE_DUE, on_close, weigh_end),
        Effect(HOLD_DUE, on_hold),
        Effect(BID_DUE, on_bid),
    ),
    hooks=(END.to(apply_auction), RESERVED.to(get_reserved_stake), BACKING_CHANGED.to(on_backing)),
    answers=ANSWERS,
    invariants=INVARIANTS,
    due_percent=gas.AUCTION_PERCENT,
    gas={
        "TRY_GAS": gas.TRY_GAS,
        "BOOK_READ_GAS": gas.BOOK_READ_GAS,
        "FILL_GAS": gas.FILL_GAS,
        "AUDITOR_GAS": gas.AUDITOR_GAS,
        "REPLICA_GAS": gas.REPLICA_GAS,
    },
)
