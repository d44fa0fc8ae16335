"""The steps of an order from state to state (protocol section 3)."""

from enum import StrEnum

from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.transitions import Transition, Transitions


class OrderStep(StrEnum):
    """A step of an order that does not end it. An order ends by a :class:`CloseReason`."""

    SUBMIT = "SubmitOrder"
    MATCH = "a bid wins"
    ACCEPT = "AcceptOrder"
    PROVE = "last round closed"
    REOPEN = "opened again"


_WITHOUT_RESULT = (OrderState.RUNNING, OrderState.PROVEN)

ORDER_STEPS: Transitions[OrderState] = Transitions(
    "order",
    OrderState,
    {
        OrderStep.SUBMIT: Transition((), OrderState.OPEN),
        OrderStep.MATCH: Transition((OrderState.OPEN,), OrderState.MATCHED),
        OrderStep.ACCEPT: Transition((OrderState.MATCHED,), OrderState.RUNNING),
        OrderStep.PROVE: Transition((OrderState.RUNNING,), OrderState.PROVEN),
        OrderStep.REOPEN: Transition((OrderState.MATCHED, *_WITHOUT_RESULT), OrderState.OPEN),
        CloseReason.CANCELLED: Transition((OrderState.OPEN,), OrderState.CLOSED),
        CloseReason.EXPIRED: Transition((OrderState.OPEN,), OrderState.CLOSED),
        CloseReason.DEADLINE: Transition((OrderState.OPEN, OrderState.MATCHED), OrderState.CLOSED),
        CloseReason.UNSERVED: Transition((OrderState.MATCHED, *_WITHOUT_RESULT), OrderState.CLOSED),
        CloseReason.FAILED: Transition((OrderState.MATCHED, *_WITHOUT_RESULT), OrderState.CLOSED),
        CloseReason.UNVERIFIED: Transition((OrderState.MATCHED, *_WITHOUT_RESULT), OrderState.CLOSED),
        CloseReason.SETTLED: Transition((OrderState.PROVEN,), OrderState.CLOSED),
        CloseReason.STOPPED_BY_JOB: Transition((OrderState.PROVEN,), OrderState.CLOSED),
    },
)
