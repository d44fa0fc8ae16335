"""Sending a challenge: the bond that it needs, its commitment, and its opening."""

from dataclasses import dataclass

from chain.client.client import ChainClient
from chain.client.sender import TxSender
from domain.disputes.messages import MsgChallenge, MsgOpenChallenge
from domain.disputes.params import DisputesParams
from domain.disputes.queries import DisputesRequest
from domain.disputes.records import Dispute, DisputeState
from domain.hashing import hash_fields
from domain.keys import PanelKey
from domain.ledger.messages import MsgDepositBond
from domain.ledger.queries import AccountRequest
from domain.proof.queries import OrderResponse
from domain.proof.records import Round
from domain.registry.queries import ValidatorsRequest
from pol.rules.disputes import STAGES_PAID, challenge_commitment, least_bond, needed_bond
from pol.rules.panels import audit_price
from pol.rules.tiers.table import tier_named
from validator.watch.recompute import PlaceCheck


@dataclass(frozen=True, slots=True)
class Sent:
    """A challenge that was opened: its key, its bond (uassay), and the height of its opening."""

    key: PanelKey
    bond: int
    height: int


def compute_bond(client: ChainClient, on_chain: OrderResponse, closed: Round, check: PlaceCheck) -> int:
    """Return the bond (uassay) that a challenge of a place needs now.

    The bond is computed as if all live challenges of the round and two more were open, because they may be opened
    before this one is committed to. What is too much returns.
    """
    leg = on_chain.leg(closed.leg)
    if leg is None:
        raise LookupError("a closed round has no leg")
    order = on_chain.order
    live = [known for known in _disputes(client, closed) if known.is_live]
    params = client.params().of(DisputesParams)
    cost = tier_named(leg.tier).cost(order.terms, check.place.kind, audit_price(order.params, leg.price))
    seats = STAGES_PAID * order.params.auditors
    if _is_drawn(on_chain, closed, check):
        seats = max(seats, len(client.query(ValidatorsRequest()).validators))
    least = least_bond(params.challenge_min, len(live) + 1)
    return needed_bond(cost, order.params.answer_fee, seats, len(live) + 2, least)


def send_challenge(
    client: ChainClient,
    sender: TxSender,
    secret: bytes,
    closed: Round,
    check: PlaceCheck,
    bond: int,
) -> Sent:
    """Commit to a challenge of a place and open it, with two transactions.

    The first transaction also deposits the coins that the sender's bond account lacks. The salt is derived from
    ``secret``, so a second try opens the challenge that the first one committed to, or finds that it was opened. Raise
    TxRefused if the chain refuses one of the transactions.
    """
    me = sender.address
    chain_id = client.status().chain_id
    salt = hash_fields("assay/challenge/salt", secret, chain_id, *map(str, closed.key), repr(check.place))
    made = challenge_commitment(chain_id, closed.key, check.place, check.finding, salt, me)
    known = _find(client, closed, made, me)
    if known is not None and known.state is not DisputeState.COMMITTED:
        return Sent(known.key, known.bond, client.status().height)
    if known is None:
        lacking = bond - client.query(AccountRequest(me)).bond.free
        deposits = (MsgDepositBond(me, lacking),) if lacking > 0 else ()
        challenge = MsgChallenge(
            challenger=me,
            order_id=closed.order_id,
            leg=closed.leg,
            round=closed.round,
            commitment=made,
            bond=bond,
        )
        sender.send(*deposits, challenge)
        known = _find(client, closed, made, me)
    if known is None:
        raise LookupError("the chain does not have the challenge that it accepted")
    opening = MsgOpenChallenge(
        challenger=me,
        order_id=closed.order_id,
        leg=closed.leg,
        round=closed.round,
        number=known.number,
        place=check.place,
        claim=check.finding,
        salt=salt,
    )
    receipt = sender.send(opening)
    return Sent(known.key, known.bond, receipt.height)


def _find(client: ChainClient, closed: Round, commitment: bytes, challenger: str) -> Dispute | None:
    """Return the challenger's challenge with this commitment, or None.

    An expired one can be replaced, so it does not count. Another account may have copied the commitment.
    """
    own = (known for known in _disputes(client, closed) if known.challenger == challenger)
    usable = (known for known in own if known.state is not DisputeState.EXPIRED)
    return next((known for known in usable if known.commitment == commitment), None)


def _disputes(client: ChainClient, closed: Round) -> list[Dispute]:
    """Return the disputes about a round, by number."""
    disputes = client.query(DisputesRequest(closed.order_id)).disputes
    return [known for known in disputes if known.round_key == closed.key]


def _is_drawn(on_chain: OrderResponse, closed: Round, check: PlaceCheck) -> bool:
    panel = on_chain.panel(closed.leg, closed.round)
    return panel is not None and any(drawn.place == check.place for drawn in panel.places)
