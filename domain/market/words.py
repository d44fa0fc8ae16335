"""The vocabulary of the market component."""

from domain.market.events import (
    BidChanged,
    BidClosed,
    BidPlaced,
    DeadlineMoved,
    OrderClosed,
    OrderExcluded,
    OrderHeld,
    OrderOpened,
    OrderReleased,
    OrderSubmitted,
    OrderUnmatched,
)
from domain.market.messages import (
    MsgCancelOrder,
    MsgChangeBid,
    MsgPlaceBid,
    MsgSubmitOrder,
    MsgWithdrawBid,
)
from domain.market.params import LOCAL, MarketParams
from domain.market.queries import BidsRequest, OrdersRequest, SimulateMatchRequest
from domain.words import Words

WORDS = Words(
    name="market",
    messages=(
        MsgPlaceBid,
        MsgChangeBid,
        MsgWithdrawBid,
        MsgSubmitOrder,
        MsgCancelOrder,
    ),
    events=(
        BidPlaced,
        BidChanged,
        BidClosed,
        OrderSubmitted,
        OrderOpened,
        OrderExcluded,
        OrderHeld,
        OrderReleased,
        DeadlineMoved,
        OrderUnmatched,
        OrderClosed,
    ),
    queries=(
        BidsRequest,
        OrdersRequest,
        SimulateMatchRequest,
    ),
    message_packages=("assay.market.v1",),
    query_packages=("assay.market.v1",),
    params=MarketParams,
    local_params=LOCAL,
)
