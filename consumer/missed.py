"""Results that were never served: the message that asks a panel, and its bond."""

from chain.client.client import ChainClient, TxReceipt
from chain.client.sender import TxSender
from consumer.errors import ConsumerError
from consumer.result import handed_over
from domain.legs.records import Leg
from domain.proof.messages import MsgNeverServed
from domain.proof.queries import OrderRequest, OrderResponse
from domain.proof.records import AuditKind
from pol.rules.disputes import STAGES_PAID, needed_bond
from pol.rules.panels import audit_price
from pol.rules.tiers.table import tier_of


def result_bond(answer: OrderResponse, leg: Leg) -> int:
    """Return the bond (uassay) of the first panel about a result of a leg."""
    params = answer.order.params
    cost = tier_of(leg).cost(answer.order.terms, AuditKind.RESULT, audit_price(params, leg.price))
    return needed_bond(cost, params.answer_fee, STAGES_PAID * params.auditors, 0, 1)


def may_ask(client: ChainClient, order_id: bytes, round: int | None = None) -> bool:
    """Return whether a panel can be asked about the result of a hand-over round, and has not been asked yet."""
    answer = client.query(OrderRequest(order_id))
    leg, closed = handed_over(answer, round)
    asked = any(panel.asker and panel.round_key == closed.key for panel in answer.panels)
    return leg.is_live and closed.verified and not asked


def never_served(client: ChainClient, order_id: bytes, round: int | None = None, *, sender: TxSender) -> TxReceipt:
    """Report that the result of a hand-over round was never served, so that a panel fetches it; return the receipt.

    ``round`` is the number of the round; the default is the job's last round. Its seats then serve the result to
    :func:`consumer.result.fetch_result`. The panel costs the consumer the pay of its seats, or its validator the job
    bond if the result is unavailable. Raise ConsumerError if the round has no result that a validator has to serve.
    """
    answer = client.query(OrderRequest(order_id))
    leg, closed = handed_over(answer, round)
    if not closed.verified:
        reason = f"round {closed.round} is closed, but not verified yet, so its validator need not serve it"
        raise ConsumerError(reason, "wait until it is verified (assay order watch)")
    return sender.send(
        MsgNeverServed(consumer=answer.order.consumer, order_id=order_id, leg=leg.number, round=closed.round)
    )
