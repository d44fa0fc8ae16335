"""MsgDeclineOrder: decline a matched order with a reason."""

from chain.state_machine.checks import get_assigned
from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.market.attempts import decline_attempt
from domain.errors import BAD_FIELD, Refusal
from domain.messages import MsgDeclineOrder
from domain.reasons import AttemptEnd
from domain.records import Assignment, AssignmentState, Order

REASONS = (
    AttemptEnd.PAYLOAD_NOT_DELIVERED,
    AttemptEnd.DECLINED_BAD_JOB,
    AttemptEnd.DECLINED_WORK_MISMATCH,
    AttemptEnd.DECLINED_NO_CAPACITY,
)


def check_stateless(message: MsgDeclineOrder) -> None:
    """A reason that a validator may give."""
    if message.reason not in REASONS:
        known = [int(reason) for reason in REASONS]
        raise Refusal(BAD_FIELD, "reason", f"{message.reason} is none", f"one of {known}")


def check_state(ctx: Context, message: MsgDeclineOrder) -> tuple[Order, Assignment]:
    """The signer is matched, in time."""
    return get_assigned(
        ctx, message.order_id, message.attempt, message.validator, AssignmentState.MATCHED
    )


def apply(ctx: Context, message: MsgDeclineOrder, found: tuple[Order, Assignment]) -> None:
    """End the match; the order opens again without this validator."""
    order, assignment = found
    decline_attempt(ctx, order, assignment, AttemptEnd(message.reason))


HANDLER = Handler(MsgDeclineOrder, check_state, apply, check_stateless)
