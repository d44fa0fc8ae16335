"""The steps of a leg from state to state (protocol section 3)."""

from enum import StrEnum

from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.transitions import Transition, Transitions


class LegStep(StrEnum):
    """A step of a leg that is not a :class:`LegEnd`."""

    MATCH = "a bid wins"
    ACCEPT = "AcceptOrder"
    PROVE = "last round closed"
    SETTLE = "settled"


_DECLINED: Transition[LegState] = Transition((LegState.MATCHED,), LegState.FAILED)
_FAILED: Transition[LegState] = Transition((LegState.RUNNING,), LegState.FAILED)
_VOID: Transition[LegState] = Transition((LegState.RUNNING, LegState.PROVEN), LegState.FAILED)

LEG_STEPS: Transitions[LegState] = Transitions(
    "leg",
    LegState,
    {
        LegStep.MATCH: Transition((), LegState.MATCHED),
        LegStep.ACCEPT: Transition((LegState.MATCHED,), LegState.RUNNING),
        LegStep.PROVE: Transition((LegState.RUNNING,), LegState.PROVEN),
        LegEnd.PAYLOAD_NOT_DELIVERED: _DECLINED,
        LegEnd.DECLINED_BAD_JOB: _DECLINED,
        LegEnd.DECLINED_WORK_MISMATCH: _DECLINED,
        LegEnd.DECLINED_TOO_SLOW: _DECLINED,
        LegEnd.DECLINED_NOT_FINITE: _DECLINED,
        LegEnd.DECLINED_NO_CAPACITY: _DECLINED,
        LegEnd.STATE_UNAVAILABLE: _DECLINED,
        LegEnd.DECLINED_BY_CHOICE: _DECLINED,
        LegEnd.NOT_ACCEPTED: _DECLINED,
        LegEnd.NO_PROGRESS: _FAILED,
        LegEnd.STOPPED_BY_VALIDATOR: _FAILED,
        LegEnd.ORDER_DEADLINE: _FAILED,
        LegEnd.WRONG_ROUND: _VOID,
        LegEnd.WRONG_SHARE: _VOID,
        LegEnd.WRONG_HANDOVER: _VOID,
        LegEnd.UNDECIDED: _VOID,
        LegStep.SETTLE: Transition((LegState.PROVEN,), LegState.DONE),
        LegEnd.STOPPED_BY_JOB: Transition((LegState.PROVEN,), LegState.DONE),
    },
)
