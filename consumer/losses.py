"""The training loss on the chain: one value per slot at the end of each closed round."""

from domain.proof.queries import OrderResponse
from domain.proof.records import Round
from pol.values import metric_values


def closed_rounds(answer: OrderResponse) -> dict[int, Round]:
    """Return the closed rounds by number, without void ones. If several legs closed a round, return the last leg's."""
    return {round.round: round for round in answer.rounds if not round.void}


def round_losses(answer: OrderResponse, round: Round) -> dict[int, float]:
    """Return the training loss at the end of a closed round, by slot. Leave out a slot if its share has no loss."""
    shares = answer.shares_of(round.leg, round.round)
    roots = {ref.slot: shares[ref.slot, ref.issue].roots for ref in round.shares}
    return {slot: metric_values(r.metrics)[0] for slot, r in roots.items() if r and r.metrics}


def last_loss(answer: OrderResponse) -> float | None:
    """Return the mean loss over the slots at the end of the last closed round; None if there is no loss yet."""
    rounds = closed_rounds(answer)
    if not rounds:
        return None
    losses = round_losses(answer, rounds[max(rounds)])
    return sum(losses.values()) / len(losses) if losses else None
