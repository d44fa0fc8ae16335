"""Checks that several handlers share: bounds of fields, and who may do what to an order now."""

from chain.state_machine.context import Context
from chain.state_machine.market.orders import is_ending
from chain.state_machine.tables import ASSIGNMENTS, ORDERS
from domain.amount import MONEY_MAX
from domain.errors import (
    BAD_FIELD,
    DEADLINE_PASSED,
    NOT_YOURS,
    WRONG_STATE,
    Refusal,
)
from domain.hashing import HASH_SIZE
from domain.limits import DURATION_MAX, NAME_MAX, TAGS_MAX
from domain.records import Assignment, AssignmentState, Order

COUNT_MAX = 2**32 - 1  # attempts, rounds, slots and issues travel as four bytes


def check_range(field: str, value: int, low: int, high: int) -> None:
    """Refuse a number that is not in ``low..high``."""
    if not low <= value <= high:
        raise Refusal(BAD_FIELD, field, f"{value} is not in {low}..{high}", "mend it")


def check_money(field: str, value: int) -> None:
    """Refuse what is not a positive amount of money."""
    check_range(field, value, 1, MONEY_MAX)


def check_duration(field: str, value: int) -> None:
    """Refuse what is not a positive number of seconds within bounds."""
    check_range(field, value, 1, DURATION_MAX)


def check_hash(field: str, value: bytes) -> None:
    """Refuse what is not 32 bytes."""
    if len(value) != HASH_SIZE:
        raise Refusal(BAD_FIELD, field, f"has {len(value)} bytes", f"send {HASH_SIZE}")


def check_text(field: str, value: str, most: int, least: int = 1) -> None:
    """Refuse a text outside its length in bytes."""
    size = len(value.encode())
    if not least <= size <= most:
        raise Refusal(BAD_FIELD, field, f"has {size} bytes", f"send {least} to {most}")


def check_tags(field: str, tags: tuple[str, ...]) -> None:
    """Refuse tags that are too many, too long, or not sorted without repeats."""
    if len(tags) > TAGS_MAX:
        raise Refusal(BAD_FIELD, field, f"has {len(tags)} tags", f"send at most {TAGS_MAX}")
    for tag in tags:
        check_text(field, tag, NAME_MAX)
    if list(tags) != sorted(set(tags)):
        raise Refusal(BAD_FIELD, field, "is not sorted without repeats", "sort it")


def check_attempt(field: str, value: int) -> None:
    """Refuse a number of an attempt or round that cannot be one."""
    check_range(field, value, 0, COUNT_MAX)


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
