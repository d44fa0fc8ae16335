"""Challenges for the page of an order: what happened from the claim to the ruling, and where each coin went."""

from typing import Any

from console import words
from console.story import DisputeStory, OrderStory, RoundStory
from domain.disputes.records import DisputeState
from domain.ledger.records import CHALLENGE_SLOT
from domain.proof.moves import FINDER_REWARD
from domain.proof.records import AnswerKind, Finding, Ruling
from pol.rules.states import RESULT, STATES

_ENDS = {
    DisputeState.UPHELD: "The challenge was right: the round is void, and the bond returns.",
    DisputeState.FAILED: "The challenge was wrong: its bond pays the auditors and the validator; the rest is burnt.",
    DisputeState.UNDECIDED: "The panel could not decide, and the bond returns.",
    DisputeState.EXPIRED: "The challenge was not opened in time with a sufficient bond, and loses the least bond.",
    DisputeState.DROPPED: "The round was decided without the challenge, and the bond returns.",
}
_RULINGS = {
    Ruling.RIGHT: "The auditors found what the chain has",
    Ruling.WRONG: "The auditors found that the chain is wrong",
    Ruling.UNDECIDED: "The auditors could not decide",
}
_STATES = {
    DisputeState.UPHELD: "No validator could fetch the states: the validator that asked pays nothing.",
    DisputeState.FAILED: "The auditors have the states and serve them; the validator that asked pays the auditors.",
    DisputeState.UNDECIDED: "The panel could not decide, and no one pays.",
}
_RESULTS = {
    DisputeState.UPHELD: "No validator could fetch the result: this is the validator's fault, and its job bond pays.",
    DisputeState.FAILED: "The auditors have the result and serve it to the consumer, which pays the auditors.",
    DisputeState.UNDECIDED: "The panel could not decide, and no one pays.",
}
_COINS = {
    "compensation": "paid to an auditor or to the accused validator",
    "burn": "burnt",
    "bond_return": "returned to the challenger",
    FINDER_REWARD.name: "reward, from the bond of the party at fault",
}


def describe_steps(dispute: DisputeStory, answered: int) -> list[dict[str, Any]]:
    """Return the steps of a challenge, or of a panel about states, each with a height and a sentence.

    ``answered`` is the number of seats whose answers are on the chain.
    """
    if dispute.place in (STATES, RESULT):
        asked = "The validator of the next leg could not fetch the states that this round left, and asked a panel."
        ends = _STATES
        if dispute.place == RESULT:
            asked = "The consumer was not served the encrypted result of this round, and asked a panel."
            ends = _RESULTS
        steps = [_step(dispute.committed_height, asked), *_stages(dispute)]
        if dispute.state in ends:
            steps.append(_step(dispute.ended_height, ends[dispute.state]))
        return steps
    bond = words.assay(dispute.bond)
    steps = [_step(dispute.committed_height, f"Someone committed to a challenge, with a bond of {bond} ASSAY.")]
    if dispute.place is not None:
        again = ", which a panel had decided before" if dispute.again else ""
        text = f"It names the {words.place(dispute.place)}{again}, and claims {_claim(dispute.claim)}."
        steps.append(_step(dispute.opened_height, text))
    if dispute.joins:
        steps.append(
            _step(dispute.opened_height, f"Challenge {dispute.joins} names the same place; one panel decides.")
        )
    steps += _stages(dispute)
    for place in dispute.places:
        if place.ruling is not Ruling.OPEN:
            root = f": {place.root.hex()[:12]}" if place.root else ""
            steps.append(_step(0, f"{_RULINGS[place.ruling]}, in stage {place.stage} of {answered} answers{root}."))
    if dispute.state in _ENDS:
        steps.append(_step(dispute.ended_height, _ENDS[dispute.state]))
    return steps


def _stages(dispute: DisputeStory) -> list[dict[str, Any]]:
    steps = []
    for stage in dispute.stages:
        seats = sum(seat.stage == stage.number for seat in dispute.seats)
        last = ", the last one, has all validators that are left" if stage.is_last else f" has {seats} auditors"
        steps.append(_step(stage.height, f"Stage {stage.number}{last}."))
    return steps


def find_coins(story: OrderStory, leg: int, round: RoundStory, dispute: DisputeStory) -> list[dict[str, Any]]:
    """Return where the coins of a challenge's bond went, and the reward that the challenger got."""
    coins = [
        _coin(paid.kind, paid.to, paid.amount)
        for paid in story.payments
        if (paid.leg, paid.round, paid.slot, paid.issue) == (leg, round.number, CHALLENGE_SLOT, dispute.number)
    ]
    if dispute.reward:
        coins.append(_coin(FINDER_REWARD.name, dispute.challenger, dispute.reward))
    return coins


def _step(height: int, text: str) -> dict[str, Any]:
    return {"height": height, "text": text}


def _coin(kind: str, to: str, amount: int) -> dict[str, Any]:
    return {"kind": kind, "what": _COINS.get(kind, kind), "to": to, "amount": amount}


def _claim(claim: Finding | None) -> str:
    if claim is None:
        return "another result"
    match claim.kind:
        case AnswerKind.FINISHED:
            return f"the result {claim.root.hex()[:12]}"
        case AnswerKind.STOPPED:
            return f"that the job stops there after {claim.step} steps"
        case AnswerKind.UNAVAILABLE:
            return "that the validator does not serve it"
        case AnswerKind.WITHIN:
            return "that the result is within the job's thresholds"
        case AnswerKind.OUTSIDE:
            return "that the result is outside the job's thresholds"
