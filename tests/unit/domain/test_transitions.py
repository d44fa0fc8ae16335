"""A step leads from the states that its table names to the state after it, and from no other state."""

from typing import Any

import pytest

from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.legs.transitions import LEG_STEPS, LegStep
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.market.transitions import ORDER_STEPS, OrderStep
from domain.proof.records import PanelState
from domain.proof.transitions import PANEL_STEPS, PanelStep, RoundStep
from domain.transitions import Transitions
from tools.references.states import STATES


def test_a_step_leads_to_the_state_after_it() -> None:
    assert ORDER_STEPS.after(OrderStep.SUBMIT) is OrderState.OPEN
    assert ORDER_STEPS.after(OrderStep.REOPEN, OrderState.PROVEN) is OrderState.OPEN
    assert LEG_STEPS.after(LegEnd.UNDECIDED, LegState.RUNNING) is LegState.FAILED
    PANEL_STEPS.check(PanelStep.SKIP, PanelState.WAITING, None)


def test_no_step_leads_from_another_state() -> None:
    with pytest.raises(LookupError, match=r"settled is not possible in state <OrderState.OPEN: 1> of the order"):
        ORDER_STEPS.after(CloseReason.SETTLED, OrderState.OPEN)
    with pytest.raises(LookupError, match="SubmitOrder is not possible"):
        ORDER_STEPS.after(OrderStep.SUBMIT, OrderState.OPEN)
    with pytest.raises(LookupError, match="a bid wins is not possible"):
        ORDER_STEPS.after(OrderStep.MATCH)
    with pytest.raises(LookupError, match="no step CloseRound of the leg"):
        LEG_STEPS.after(RoundStep.CLOSE, LegState.RUNNING)


def test_what_a_step_leads_to_is_what_the_table_says() -> None:
    with pytest.raises(LookupError, match="the step lot: no panel removes the panel"):
        PANEL_STEPS.after(PanelStep.SKIP, PanelState.WAITING)
    with pytest.raises(LookupError, match="leads the panel to"):
        PANEL_STEPS.check(PanelStep.PAY, PanelState.DECIDED, PanelState.OPEN)


def test_every_reason_to_end_is_a_step() -> None:
    assert set(CloseReason) <= set(ORDER_STEPS.rows)
    assert set(LegEnd) | set(LegStep) == set(LEG_STEPS.rows)


@pytest.mark.parametrize("steps", STATES.values(), ids=STATES)
def test_every_state_has_a_way_to_it_and_only_ends_have_none_from_it(steps: Transitions[Any]) -> None:
    rows = steps.rows.values()
    assert {row.after for row in rows if row.after is not None} == set(steps.states)
    ends = set(steps.states) - {state for row in rows for state in row.before}
    assert {state.name for state in ends} <= {"CLOSED", "FAILED", "DONE", "VERIFIED", "VOID", "SETTLED"}
