"""MsgProve: the proof of execution, when the last round is closed."""

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.market.orders import get_assigned
from chain.state_machine.market.tables import ASSIGNMENTS, ORDERS
from chain.state_machine.proof.settlement import advance
from chain.state_machine.queue import Due, cancel
from domain.errors import BAD_PROOF, NOT_YET, Refusal
from domain.events import OrderProven
from domain.messages import MsgProve
from domain.records import Assignment, AssignmentState, Order, OrderState


def check_state(ctx: Context, message: MsgProve) -> tuple[Order, Assignment]:
    """All rounds are closed, and state and size of the result are the chain's."""
    order, assignment = get_assigned(
        ctx, message.order_id, message.attempt, message.validator, AssignmentState.RUNNING
    )
    if assignment.round != order.terms.rounds:
        reason = f"round {assignment.round} of {order.terms.rounds} is open"
        raise Refusal(NOT_YET, "order_id", reason, "close every round first")
    if message.final_root != assignment.global_in:
        reason = "is not the state that the last round left"
        raise Refusal(BAD_PROOF, "final_root", reason, "send its next_root")
    if message.chunks != order.terms.result_chunks:
        reason = f"the order has {order.terms.result_chunks}"
        raise Refusal(BAD_PROOF, "chunks", reason, "encrypt every chunk of the state")
    return order, assignment


def apply(ctx: Context, message: MsgProve, found: tuple[Order, Assignment]) -> None:
    """Store the roots; what remains is that the last windows pass."""
    order, assignment = found
    cancel(ctx, assignment.progress_deadline, Due.PROGRESS, order.id, assignment.attempt)
    ORDERS.update(ctx.store, order.id, state=OrderState.PROVEN)
    ASSIGNMENTS.update(
        ctx.store,
        order.id,
        assignment.attempt,
        state=AssignmentState.PROVEN,
        final_root=message.final_root,
        ciphertext_root=message.ciphertext_root,
    )
    ctx.emit(OrderProven(order.id, assignment.attempt, message.ciphertext_root))
    advance(ctx, order.id)


HANDLER = Handler(MsgProve, check_state, apply)
