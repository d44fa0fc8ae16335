"""Checks that several handlers share: who may do what to an order now."""

from chain.state_machine.context import Context
from chain.state_machine.market.orders import is_ending
from chain.state_machine.market.tables import ASSIGNMENTS, ORDERS
from domain.errors import DEADLINE_PASSED, NOT_YOURS, WRONG_STATE, Refusal
from domain.records import Assignment, AssignmentState, Order


def get_assigned(
    ctx: Context, order_id: bytes, attempt: int, validator: str, state: AssignmentState
) -> tuple[Order, Assignment]:
    """Return an order and its current assignment, which must be the validator's, in ``state``, before its deadlines."""
    order = ORDERS.need(ctx.store, order_id)
    if attempt != order.attempt or attempt == 0:
        reason = f"the current attempt is {order.attempt}"
        raise Refusal(WRONG_STATE, "attempt", reason, "read the order again")
    assignment = ASSIGNMENTS.must(ctx.store, order_id, attempt)
    if assignment.validator != validator:
        raise Refusal(NOT_YOURS, "validator", "the order is matched to somebody else", "leave it")
    if assignment.state is not state or is_ending(ctx, order):
        reason = f"the attempt is {assignment.state.name.lower()}"
        raise Refusal(WRONG_STATE, "order_id", reason, f"it must be {state.name.lower()}")
    matched = state is AssignmentState.MATCHED
    check_before(
        ctx,
        "accept deadline" if matched else "progress deadline",
        assignment.accept_deadline if matched else assignment.progress_deadline,
    )
    check_before(ctx, "order's deadline", order.deadline)
    return order, assignment


def check_before(ctx: Context, name: str, deadline: int) -> None:
    """Refuse when the chain clock has reached ``deadline``, whatever the queue has done yet."""
    if ctx.clock >= deadline:
        reason = f"the {name} passed at {deadline} (now {ctx.clock})"
        raise Refusal(DEADLINE_PASSED, "order_id", reason, "nothing can be done any more")
