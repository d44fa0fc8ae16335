"""The steps of a closed round and of its panel from state to state (protocol section 5)."""

from enum import StrEnum

from domain.proof.records import PanelState, RoundState
from domain.transitions import Transition, Transitions


class RoundStep(StrEnum):
    """A step of a round."""

    CLOSE = "CloseRound"
    VERIFY = "every place right, window over"
    VOID = "a place wrong or undecided, here or earlier"


class PanelStep(StrEnum):
    """A step of a panel."""

    ASK = "CloseRound"
    OPEN_DISPUTE = "OpenChallenge or Stand"
    SKIP = "lot: no panel"
    BEGIN = "room for its seats"
    MISS = "trace not shown"
    DRAW = "seed known: seats drawn"
    GO_ON = "a place without a ruling"
    DECIDE = "every place has a ruling"
    RULE = "ruling against the chain"
    APPEAL = "Appeal"
    PAY = "round verified"
    END_DISPUTE = "dispute without a void round"
    STOP = "round void"
    VOTE = "vote on a slash"
    END_VOTE = "vote over"


ROUND_STEPS: Transitions[RoundState] = Transitions(
    "round",
    RoundState,
    {
        RoundStep.CLOSE: Transition((), RoundState.CLOSED),
        RoundStep.VERIFY: Transition((RoundState.CLOSED,), RoundState.VERIFIED),
        RoundStep.VOID: Transition((RoundState.CLOSED,), RoundState.VOID),
    },
)

_GOING_ON = (PanelState.WAITING, PanelState.DRAWING, PanelState.OPEN, PanelState.DECIDED)

PANEL_STEPS: Transitions[PanelState] = Transitions(
    "panel",
    PanelState,
    {
        PanelStep.ASK: Transition((), PanelState.WAITING),
        PanelStep.OPEN_DISPUTE: Transition((), PanelState.WAITING),
        PanelStep.SKIP: Transition((PanelState.WAITING,), None),
        PanelStep.MISS: Transition((PanelState.WAITING,), PanelState.WAITING),
        PanelStep.BEGIN: Transition((PanelState.WAITING,), PanelState.DRAWING),
        PanelStep.DRAW: Transition((PanelState.DRAWING,), PanelState.OPEN),
        PanelStep.GO_ON: Transition((PanelState.OPEN,), PanelState.DRAWING),
        PanelStep.DECIDE: Transition((PanelState.OPEN, PanelState.DRAWING), PanelState.DECIDED),
        PanelStep.RULE: Transition((PanelState.DRAWING, PanelState.DECIDED), PanelState.DECIDED),
        PanelStep.APPEAL: Transition((PanelState.DECIDED,), PanelState.DRAWING),
        PanelStep.PAY: Transition((PanelState.DECIDED,), PanelState.SETTLED),
        PanelStep.END_DISPUTE: Transition((PanelState.DRAWING, PanelState.DECIDED), PanelState.SETTLED),
        PanelStep.STOP: Transition(_GOING_ON, PanelState.SETTLED),
        PanelStep.VOTE: Transition((PanelState.SETTLED,), PanelState.DRAWING),
        PanelStep.END_VOTE: Transition((PanelState.DECIDED,), PanelState.SETTLED),
    },
)
