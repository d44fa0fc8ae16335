"""The vocabulary of the legs component."""

from domain.legs.events import (
    LegDeadlinesMoved,
    LegFailed,
    OrderAccepted,
    OrderDeclined,
    OrderMatched,
    OrderProven,
    OrderRestarted,
    OrderSettled,
    PartEnded,
    PartReturned,
    PartWaits,
    ProgressRestarted,
    SlotStarted,
    StatesLacked,
)
from domain.legs.messages import MsgAcceptOrder, MsgAckState, MsgDeclineOrder, MsgStopOrder
from domain.legs.moves import MOVES
from domain.legs.params import LOCAL, LegsParams
from domain.legs.queries import LiveLegsRequest
from domain.words import Words

WORDS = Words(
    name="legs",
    messages=(
        MsgAcceptOrder,
        MsgDeclineOrder,
        MsgStopOrder,
        MsgAckState,
    ),
    events=(
        OrderMatched,
        SlotStarted,
        OrderAccepted,
        ProgressRestarted,
        LegDeadlinesMoved,
        OrderProven,
        OrderDeclined,
        LegFailed,
        OrderSettled,
        PartReturned,
        PartWaits,
        PartEnded,
        StatesLacked,
        OrderRestarted,
    ),
    queries=(LiveLegsRequest,),
    moves=MOVES,
    message_packages=("assay.market.v1",),
    query_packages=("assay.market.v1",),
    params=LegsParams,
    local_params=LOCAL,
)
