"""The story of the demo's orders: one sentence per important event."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.cli.output import money, price, short
from console.words import leg_end, share_reason
from consumer.disputes import stand_verdict
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import Round, Share, ShareState
from pol.rules.tiers.table import tier_named

_REJECTED = (ShareState.REJECTED, ShareState.WRONG)
_PAID = ("provider", "auditor", "protocol")
_STOOD = {
    "": "",
    "wrong": "; it stood for its share all the same, and a panel found the share wrong, so its bond is lost",
    "right": "; it stood for its share, and a panel did not find the share wrong",
    "undecided": "; it stood for its share, and the panel could not decide",
}
"""Ends of the sentence about the demo's cheat, by the verdict on its stand."""
_VERDICTS = {
    "right": "the panel found it right, and its validator pays",
    "wrong": "the panel found it wrong, and the bond is lost",
    "undecided": "the panel could not decide",
}


@dataclass
class OrderFollower:
    """A reporter of one order's events: it returns one sentence per event, and reports each event once."""

    # Name that sentences use for the order.
    order: str
    # Names of validators and providers by address.
    names: dict[str, str]
    _reported: set[tuple[object, ...]] = field(default_factory=set)

    def news(self, on_chain: OrderResponse, loss: float | None = None) -> list[str]:
        """Return sentences about the events since the last call.

        ``loss`` is the order's loss at the end of its last closed round.
        """
        lines = self._matched(on_chain)
        lines += [line for share in on_chain.shares for line in self._rejected(share)]
        lines += [line for share in on_chain.shares for line in self._stood(on_chain, share)]
        lines += self._ended(on_chain)
        for each in on_chain.rounds_of(on_chain.order.legs):
            lines += self._closed(on_chain, each, loss)
            lines += self._verified(on_chain, each)
        if on_chain.order.close_reason and self._is_new("closed"):
            reason = CloseReason(on_chain.order.close_reason).name.lower()
            lines.append(f"{self.order} is {reason}: the unspent deposit is refunded")
        return lines

    def _matched(self, on_chain: OrderResponse) -> list[str]:
        current, state = on_chain.current, on_chain.order.state
        if current is None or state < OrderState.MATCHED:
            return []
        validator = self._name(current.validator)
        key = current.number
        lines: list[str] = []
        if self._is_new("matched", key):
            lines.append(f"{self.order} goes to {validator}, the cheapest that fits: {price(current.price)}")
        if state >= OrderState.RUNNING and self._is_new("running", key):
            lines.append(f"{validator} has tested the job and accepts {self.order}: its providers train")
        return lines

    def _rejected(self, share: Share) -> list[str]:
        claim = share.claim
        if share.state not in _REJECTED or share.reason == ShareReason.LEG_ENDED:
            return []
        if not self._is_new("rejected", share.key):
            return []
        where = f"{self._name(claim.provider)}'s share of round {claim.round}, slot {claim.slot}"
        return [f"{where} is rejected: {share_reason(share.reason)}; another provider trains the slot"]

    def _stood(self, on_chain: OrderResponse, share: Share) -> list[str]:
        """Return sentences about a provider that stands for its share: when it begins, and how it ends."""
        if not share.stand:
            return []
        claim = share.claim
        name = self._name(claim.provider)
        where = f"its share of round {claim.round}, slot {claim.slot}"
        lines = []
        if self._is_new("stands", share.key):
            lines.append(f"{name} stands for {where} with a bond, so a panel recomputes places of the share")
        verdict = stand_verdict(on_chain, share)
        if verdict and self._is_new("stood", share.key):
            lines.append(f"{name} stood for {where}: {_VERDICTS[verdict]}")
        return lines

    def _ended(self, on_chain: OrderResponse) -> list[str]:
        """Return sentences about the legs that have failed since the last call."""
        return [
            f"{self._name(tried.validator)} loses {self.order}: {leg_end(tried.end_reason)}"
            for tried in on_chain.legs
            if tried.end_reason and self._is_new("ended", tried.number)
        ]

    def _closed(self, on_chain: OrderResponse, round: Round, loss: float | None) -> list[str]:
        if not self._is_new("round", round.key):
            return []
        accepted = set(round.share_keys)
        providers = [s.claim.provider for s in on_chain.shares if s.key in accepted]
        text = f"{self._round(round)} is closed, trained by {self._names(providers)}"
        # The value of ``loss`` belongs to the newest round only.
        newest = round is on_chain.rounds_of(round.leg)[-1]
        return [f"{text}; loss {loss:.3f}" if loss is not None and newest else text]

    def _verified(self, on_chain: OrderResponse, round: Round) -> list[str]:
        if not round.verified or not self._is_new("verified", round.key):
            return []
        paid = [p for p in on_chain.payments if p.round == round.round and p.kind in _PAID]
        auditors = self._names([p.to for p in paid if p.kind == "auditor"])
        panel = on_chain.panel(round.leg, round.round)
        places = len(panel.places) if panel else 0
        found = f"{auditors} recomputed {places} drawn places and agree" if places else "no panel was drawn"
        return [f"{self._round(round)} is verified: {found}; {money(sum(p.amount for p in paid))} paid"]

    def _round(self, round: Round) -> str:
        return f"round {round.round} of {self.order}"

    def _name(self, address: str) -> str:
        return self.names.get(address, short(address))

    def _names(self, addresses: Iterable[str]) -> str:
        return ", ".join(sorted({self._name(address) for address in addresses})) or "no one"

    def _is_new(self, *what: object) -> bool:
        is_new = what not in self._reported
        self._reported.add(what)
        return is_new


def tier_sentence(tier: str, panels: int, rounds: int) -> str:
    """Return a sentence about the rounds of the demo's first order that strangers recomputed, and the reason.

    ``panels`` of its ``rounds`` verified rounds had a panel.
    """
    told = tier_named(tier).description.recomputed
    if panels == rounds:
        return f"tier {tier}: {told}; strangers recomputed places of all {rounds} rounds"
    return (
        f"tier {tier}: {told}; strangers recomputed places of {panels} of {rounds} rounds; the validator's own replay"
        " catches the cheat whatever the lot draws, and its rejection brings a panel for that round"
    )


def cheat_sentence(cheat: Mapping[str, Any], names: Mapping[str, str], segment_steps: int, round_steps: int) -> str:
    """Return a sentence about the provider that cheats in the demo.

    The sentence names the steps that the provider did not train. It also says how the provider was caught, or why the
    provider was not caught. ``names`` maps the addresses of validators and providers to their names.
    """
    cheater = names[cheat["meant"]]
    if not cheat["provider"]:
        return (
            f"the cheat: {cheater} committed its untrained share too late, so the share was not checked this time; "
            "run the demo again when fewer other programs run"
        )
    first = cheat["round"] * round_steps + cheat["segment"] * segment_steps
    in_steps = cheat["segment"] < round_steps // segment_steps
    place = f"steps {first} to {first + segment_steps - 1}" if in_steps else "the update at its end"
    return (
        f"the cheat: {cheater} claimed to have trained slot {cheat['slot']} of round {cheat['round']}, but had not; "
        f"after it had committed to its states, the lot fell on {place}; its validator recomputed that and got another "
        f"state; another provider trained the slot, and {cheater} was not paid{_STOOD[cheat.get('stood', '')]}"
    )
