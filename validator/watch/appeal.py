"""The appeals of a watchtower: rulings against rounds that it finds to be right."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chain.client.client import ChainClient
from chain.client.sender import TxSender
from domain.disputes.messages import MsgAppeal
from domain.disputes.params import DisputesParams
from domain.ledger.messages import MsgDepositBond
from domain.ledger.queries import AccountRequest
from domain.proof.queries import OrderResponse
from domain.proof.records import AuditPlace, Panel, Round, Ruling
from domain.registry.queries import ValidatorsRequest
from pol.rules.disputes import appeal_bond
from pol.rules.panels import audit_price
from pol.rules.tiers.table import tier_named
from validator.watch.choose import Watch, may_watch


@dataclass(frozen=True, slots=True)
class RuledRound:
    """A round whose panel ruled against the chain, before its last stage; the ruling can be appealed now."""

    on_chain: OrderResponse
    closed: Round
    panel: Panel

    @property
    def wrong(self) -> tuple[AuditPlace, ...]:
        """The places that the panel found wrong."""
        return tuple(place.place for place in self.panel.places if place.ruling is Ruling.WRONG)


def find_rulings(orders: Sequence[OrderResponse], clock: int, watch: Watch) -> Iterator[RuledRound]:
    """Yield the rulings that a watchtower may appeal now."""
    for on_chain in orders:
        for panel in on_chain.panels:
            leg = on_chain.leg(panel.leg)
            closed = on_chain.round(panel.leg, panel.round)
            left = panel.appeal_until - clock
            if not panel.awaits_appeal or left <= watch.margin or leg is None or closed is None:
                continue
            if may_watch(on_chain, leg, watch):
                yield RuledRound(on_chain, closed, panel)


def compute_appeal_bond(client: ChainClient, ruled: RuledRound) -> int:
    """Return the most (uassay) that an appeal can need. The chain locks less if it lists fewer auditors."""
    leg = ruled.on_chain.leg(ruled.panel.leg)
    if leg is None:
        raise LookupError("a closed round has no leg")
    order = ruled.on_chain.order
    price, cost = audit_price(order.params, leg.price), tier_named(leg.tier).cost
    asked = (place for place in ruled.panel.places if place.ruling in (Ruling.WRONG, Ruling.OPEN))
    costs = (cost(order.terms, place.place.kind, price) for place in asked)
    seats = len(client.query(ValidatorsRequest()).validators)
    least = client.params().of(DisputesParams).challenge_min
    return appeal_bond(costs, order.params.answer_fee, seats, least)


def send_appeal(client: ChainClient, sender: TxSender, ruled: RuledRound, bond: int) -> None:
    """Appeal a ruling, and deposit the coins that the sender's bond account lacks. Raise TxRefused if it is refused."""
    me, panel = sender.address, ruled.panel
    lacking = bond - client.query(AccountRequest(me)).bond.free
    deposits = (MsgDepositBond(me, lacking),) if lacking > 0 else ()
    appeal = MsgAppeal(appellant=me, order_id=panel.order_id, leg=panel.leg, round=panel.round, dispute=panel.dispute)
    sender.send(*deposits, appeal)
