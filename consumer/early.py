"""Taking the states of a round before the round is verified. A consumer that does this gives up refunds."""

from dataclasses import dataclass

from chain.client.client import ChainClient
from chain.client.sender import TxSender
from consumer.result import SERVING, handed_over
from domain.measures import coins
from domain.proof.messages import MsgTakeEarly
from domain.proof.queries import OrderRequest, OrderResponse
from domain.readable import Readable
from pol.rules.fees import compute_round_cost


@dataclass(frozen=True, slots=True)
class EarlyTake(Readable):
    """The refunds that a consumer gives up if it takes the states of a round early.

    ``first`` and ``last`` are the first and last round whose refund is given up. ``refund`` (uassay) is the sum of
    these refunds.
    """

    message: MsgTakeEarly
    first: int
    last: int
    refund: int

    def __str__(self) -> str:
        """Return the sentences that a consumer reads before it decides."""
        if self.first == self.last:
            rounds, them = f"round {self.last} is", "it becomes"
        else:
            rounds, them = f"rounds {self.first} to {self.last} are", "they become"
        return (
            f"{rounds} not verified yet. If you take the states now and {them} void, {coins(self.refund)} of your"
            " deposit is burnt instead of refunded. This also holds if the validator or a provider is at fault, if no"
            " one is, and if the validator does not send the states."
        )


def early_take(answer: OrderResponse, round: int | None = None) -> EarlyTake | None:
    """Return the refunds that a consumer gives up by taking a round early; None if the round is verified or was already
    taken.

    ``round`` is the number of the round; the default is the job's last round. Raise ConsumerError if the leg does not
    hand over the round.
    """
    leg, closed = handed_over(answer, round)
    if closed.verified or leg.is_taken(closed.round) or leg.state not in SERVING:
        return None
    order = answer.order
    first = max(leg.next_round, leg.taken_end)
    return EarlyTake(
        message=MsgTakeEarly(consumer=order.consumer, order_id=order.id, leg=leg.number, round=closed.round),
        first=first,
        last=closed.round,
        refund=(closed.round + 1 - first) * compute_round_cost(order, leg),
    )


def take_early(client: ChainClient, sender: TxSender, order_id: bytes, round: int | None = None) -> EarlyTake | None:
    """Take the states of a round before the round is verified, and return the refunds that the consumer gave up by
    this.

    Send nothing and return None if the round is verified or was already taken.
    """
    take = early_take(client.query(OrderRequest(order_id)), round)
    if take is not None:
        sender.send(take.message)
    return take
