"""The loss of an order as arrays, for comparison and plots."""

import numpy as np
from numpy.typing import NDArray

from consumer.losses import closed_rounds, round_losses
from domain.proof.queries import OrderResponse
from pol.local.history import History, make_history, make_losses
from pol.rules.schedule import first_step


def losses_of(answer: OrderResponse) -> NDArray[np.float64]:
    """Return an order's losses as an array: a row per round up to the last closed one, and a column per slot.

    NaN means that the slot has no loss in that round.
    """
    rounds = closed_rounds(answer)
    numbers = range(max(rounds, default=-1) + 1)
    losses = [round_losses(answer, rounds[n]) if n in rounds else {} for n in numbers]
    return make_losses(losses, answer.order.terms.slots)


def history_of(answer: OrderResponse) -> History:
    """Return the loss of each slot at the end of each closed round, with the number of steps since the job began."""
    terms = answer.order.terms
    rounds = closed_rounds(answer)
    return make_history(
        (first_step(terms, number + 1), slot, loss)
        for number, closed in rounds.items()
        for slot, loss in round_losses(answer, closed).items()
    )
