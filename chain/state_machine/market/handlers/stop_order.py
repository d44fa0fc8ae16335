"""MsgStopOrder: the validator gives up a running order."""

from chain.state_machine.checks import get_assigned
from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.market.attempts import fail_attempt
from domain.messages import MsgStopOrder
from domain.reasons import AttemptEnd
from domain.records import Assignment, AssignmentState, Order


def check_state(ctx: Context, message: MsgStopOrder) -> tuple[Order, Assignment]:
    """The signer runs the order."""
    return get_assigned(
        ctx, message.order_id, message.attempt, message.validator, AssignmentState.RUNNING
    )


def apply(ctx: Context, message: MsgStopOrder, found: tuple[Order, Assignment]) -> None:
    """Fail the attempt at once, as its progress deadline would."""
    order, assignment = found
    fail_attempt(ctx, order, assignment, AttemptEnd.STOPPED_BY_VALIDATOR)


HANDLER = Handler(MsgStopOrder, check_state, apply)
