"""Descriptions of the challenges of an order's rounds: each claim, its challenger, and the payments from its bond."""

from collections.abc import Iterable

from chain.client.client import ChainClient
from consumer.panels import name_place
from domain.amount import in_assay
from domain.disputes.queries import DisputesRequest
from domain.disputes.records import Dispute, DisputeState
from domain.keys import RoundKey
from domain.measures import duration
from domain.proof.queries import OrderResponse
from domain.proof.records import AnswerKind, Ruling, Share


def read_disputes(client: ChainClient, order_id: bytes) -> tuple[Dispute, ...]:
    """Return the challenges of an order's rounds, by leg, round and number."""
    return client.query(DisputesRequest(order_id)).disputes


def describe_dispute(dispute: Dispute, now: int) -> str:
    """Return a sentence about a challenge or a stand, at the time ``now`` of the chain's clock."""
    if dispute.share is not None:
        return _describe_stand(dispute)
    name = f"challenge {dispute.number} of round {dispute.round} of leg {dispute.leg}"
    who = dispute.challenger
    place = name_place(dispute.place) if dispute.place is not None else "its place"
    match dispute.state:
        case DisputeState.COMMITTED:
            left = duration(max(0, dispute.opens_until - now))
            return f"{name}: {who} locked {in_assay(dispute.bond)}, and has another {left} to name the place"
        case DisputeState.OPEN:
            return f"{name}: {who} {_claim(dispute)} the {place}, and a panel recomputes it"
        case DisputeState.UPHELD:
            reward = f", and gets {in_assay(dispute.reward)}" if dispute.reward else ""
            return f"{name} was right: the {place} is wrong; {who} has its bond back{reward}"
        case DisputeState.FAILED:
            spent = dispute.bond - dispute.burnt
            return (
                f"{name} was wrong: the {place} is right; of the bond of {who}, {in_assay(spent)} paid the panel and"
                f" the validator, and {in_assay(dispute.burnt)} were burnt"
            )
        case DisputeState.UNDECIDED:
            return f"{name}: the panel could not decide about the {place}; {who} has its bond back"
        case DisputeState.EXPIRED:
            return f"{name} was not opened in time with a sufficient bond; {who} lost {in_assay(dispute.burnt)}"
        case DisputeState.DROPPED:
            return f"{name} ended without a ruling, because its round was decided without it; {who} has its bond back"


def _describe_stand(dispute: Dispute) -> str:
    """Return a sentence about a provider that stands for its share."""
    slot = dispute.share.slot if dispute.share is not None else 0
    share = f"its share of slot {slot} in round {dispute.round} of leg {dispute.leg}"
    who = dispute.challenger
    match dispute.state:
        case DisputeState.UPHELD:
            return f"{who} stood for {share}: a panel found it right, so the validator paid it; the bond is back"
        case DisputeState.FAILED:
            spent = dispute.bond - dispute.burnt
            return (
                f"{who} stood for {share}: a panel found it wrong; of the bond, {in_assay(spent)} paid the panel and"
                f" the validator, and {in_assay(dispute.burnt)} were burnt"
            )
        case DisputeState.UNDECIDED:
            return f"{who} stood for {share}: the panel could not decide, so the bond is back"
        case _:
            return f"{who} stands for {share} with a bond of {in_assay(dispute.bond)}, and a panel recomputes it"


def _place(dispute: Dispute) -> str:
    if dispute.share is not None:
        return f"own share of slot {dispute.share.slot}"
    return name_place(dispute.place) if dispute.place is not None else "-"


def stand_verdict(on_chain: OrderResponse, share: Share) -> str:
    """Return the verdict of the panel of a stand: ``right``, ``wrong`` or ``undecided``; empty while it is open."""
    at = share.key
    key = RoundKey(at.order_id, at.leg, at.round).panel(share.stand)
    panel = next((panel for panel in on_chain.panels if panel.key == key and panel.is_settled), None)
    if panel is None or not share.stand:
        return ""
    rulings = {place.ruling for place in panel.places}
    if Ruling.WRONG in rulings:
        return "wrong"
    return "right" if rulings == {Ruling.RIGHT} else "undecided"


def dispute_rows(disputes: Iterable[Dispute]) -> list[tuple[object, ...]]:
    """Return a row for each challenge: leg, round, number, place, challenger, state, and amounts in ASSAY."""
    return [
        (
            dispute.leg,
            dispute.round,
            dispute.number,
            _place(dispute),
            dispute.challenger,
            dispute.state.name.lower(),
            in_assay(dispute.bond),
            in_assay(dispute.reward),
            in_assay(dispute.burnt),
        )
        for dispute in disputes
    ]


def _claim(dispute: Dispute) -> str:
    if dispute.claim is not None and dispute.claim.kind is AnswerKind.UNAVAILABLE:
        return "says that the validator does not serve"
    return "has another result for"
