"""The component of legs: the parts of orders that bids serve, from their match to their end."""

from chain.state_machine.component import Component
from chain.state_machine.legs.creation import open_rest
from chain.state_machine.legs.ends import (
    on_accept,
    on_overdue,
    on_progress,
)
from chain.state_machine.legs.genesis import check_fees
from chain.state_machine.legs.handlers import HANDLERS
from chain.state_machine.legs.invariants import INVARIANTS
from chain.state_machine.legs.parts import on_part, weigh_part
from chain.state_machine.legs.progress import move_deadlines
from chain.state_machine.legs.queries import ANSWERS
from chain.state_machine.legs.tables import (
    ACCEPT_DUE,
    LEGS,
    LIVE_LEGS,
    LOCAL_ROOTS,
    PART_DUE,
    PROGRESS_DUE,
    SLOT_STARTS,
)
from chain.state_machine.market.hooks import MATCHED, OVERDUE, PAUSE_ENDED
from chain.state_machine.market.orders import weigh_end
from chain.state_machine.queue import Effect

COMPONENT = Component(
    name="legs",
    tables=(LEGS, LIVE_LEGS, SLOT_STARTS, LOCAL_ROOTS),
    check_params=check_fees,
    handlers=HANDLERS,
    effects=(
        Effect(ACCEPT_DUE, on_accept, weigh_end),
        Effect(PROGRESS_DUE, on_progress),
        Effect(PART_DUE, on_part, weigh_part),
    ),
    hooks=(
        MATCHED.to(open_rest),
        OVERDUE.to(on_overdue),
        PAUSE_ENDED.to(move_deadlines),
    ),
    answers=ANSWERS,
    invariants=INVARIANTS,
)
