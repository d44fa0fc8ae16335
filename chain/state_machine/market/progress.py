"""The progress deadline of a running attempt."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.queue import Due, cancel, schedule
from chain.state_machine.tables import ASSIGNMENTS
from domain.amount import ceil_div
from domain.records import Assignment, Order
from pol.rules.schedule import round_work

SLACK = 3  # times what a round takes at the speed of the bid


def restart_progress(ctx: Context, order: Order, assignment: Assignment) -> None:
    """Store the assignment with a new progress deadline, for the round that is open now or for the proof."""
    cancel(ctx, assignment.progress_deadline, Due.PROGRESS, order.id, assignment.attempt)
    expected = ceil_div(SLACK * round_work(order.terms), assignment.speed)
    deadline = ctx.clock + order.params.progress_base + expected
    ASSIGNMENTS.put(ctx.store, replace(assignment, progress_deadline=deadline))
    schedule(ctx, deadline, Due.PROGRESS, order.id, assignment.attempt)
