"""The loss of an order's training, as the chain has it: of each slot at the end of each closed round."""

from domain.proof.queries import OrderResponse
from domain.proof.records import Round
from pol.values import metric_values


def closed_rounds(answer: OrderResponse) -> dict[int, Round]:
    """Return the closed rounds by number: of a round that several legs closed, that of the last one."""
    return {found.round: found for found in answer.rounds if not found.void}


def round_losses(answer: OrderResponse, found: Round) -> dict[int, float]:
    """Return the loss by slot at the end of a closed round; a slot whose share has none is left out."""
    shares = answer.shares_of(found.leg, found.round)
    roots = {ref.slot: shares[ref.slot, ref.issue].roots for ref in found.shares}
    return {slot: metric_values(r.metrics)[0] for slot, r in roots.items() if r and r.metrics}


def last_loss(answer: OrderResponse) -> float | None:
    """Return the mean loss over the slots at the end of the last closed round; None before that."""
    rounds = closed_rounds(answer)
    if not rounds:
        return None
    losses = round_losses(answer, rounds[max(rounds)])
    return sum(losses.values()) / len(losses) if losses else None
