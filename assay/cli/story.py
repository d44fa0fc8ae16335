"""The story of the demo's orders: a sentence for each thing that a person would tell somebody else."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.cli.output import money, price, short
from console.words import leg_end, share_reason
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import Round, Share, ShareState

_REJECTED = (ShareState.REJECTED, ShareState.WRONG)
_PAID = ("provider", "auditor", "protocol")


@dataclass
class OrderFollower:
    """Tells of one order what is new since the last look."""

    # How the order is called, and people by address.
    order: str
    names: dict[str, str]
    _told: set[tuple[object, ...]] = field(default_factory=set)

    def tell(self, on_chain: OrderResponse, loss: float | None = None) -> list[str]:
        """Return sentences; ``loss`` is that of the last closed round."""
        lines = self._matched(on_chain)
        lines += [line for share in on_chain.shares for line in self._rejected(share)]
        lines += self._ended(on_chain)
        for found in on_chain.rounds_of(on_chain.order.legs):
            lines += self._closed(on_chain, found, loss)
            lines += self._verified(on_chain, found)
        if on_chain.order.close_reason and self._is_new("closed"):
            reason = CloseReason(on_chain.order.close_reason).name.lower()
            lines.append(f"{self.order} is {reason}: what was not spent is back")
        return lines

    def _matched(self, on_chain: OrderResponse) -> list[str]:
        current, state = on_chain.current, on_chain.order.state
        if current is None or state < OrderState.MATCHED:
            return []
        who, key = self._name(current.validator), current.number
        lines: list[str] = []
        if self._is_new("matched", key):
            lines.append(f"{self.order} goes to {who}, the cheapest that fits: {price(current.price)}")
        if state >= OrderState.RUNNING and self._is_new("running", key):
            lines.append(f"{who} has tried the job, and accepts {self.order}: its providers train")
        return lines

    def _rejected(self, share: Share) -> list[str]:
        claim = share.claim
        if share.state not in _REJECTED or share.reason == ShareReason.LEG_ENDED:
            return []
        if not self._is_new("rejected", claim.key):
            return []
        where = f"{self._name(claim.provider)}'s share of round {claim.round}, slot {claim.slot}"
        return [f"{where} is rejected: {share_reason(share.reason)}; somebody else trains the slot"]

    def _ended(self, on_chain: OrderResponse) -> list[str]:
        """Tell of legs that failed."""
        return [
            f"{self._name(tried.validator)} loses {self.order}: {leg_end(tried.end_reason)}"
            for tried in on_chain.legs
            if tried.end_reason and self._is_new("ended", tried.number)
        ]

    def _closed(self, on_chain: OrderResponse, found: Round, loss: float | None) -> list[str]:
        if not self._is_new("round", found.key):
            return []
        accepted = set(found.share_keys)
        providers = [s.claim.provider for s in on_chain.shares if s.claim.key in accepted]
        text = f"{self._round(found)} is closed, trained by {self._names(providers)}"
        # Of an earlier one the loss is another.
        newest = found is on_chain.rounds_of(found.leg)[-1]
        return [f"{text}; loss {loss:.3f}" if loss is not None and newest else text]

    def _verified(self, on_chain: OrderResponse, found: Round) -> list[str]:
        if not found.verified or not self._is_new("verified", found.key):
            return []
        paid = [p for p in on_chain.payments if p.round == found.round and p.kind in _PAID]
        auditors = self._names([p.to for p in paid if p.kind == "auditor"])
        panel = on_chain.panel(found.leg, found.round)
        places = len(panel.places) if panel else 0
        total = money(sum(p.amount for p in paid))
        return [f"{self._round(found)} is right, say {auditors}, who recomputed {places} drawn places: {total} paid"]

    def _round(self, found: Round) -> str:
        return f"round {found.round} of {self.order}"

    def _name(self, address: str) -> str:
        return self.names.get(address, short(address))

    def _names(self, addresses: Iterable[str]) -> str:
        return ", ".join(sorted({self._name(address) for address in addresses})) or "nobody"

    def _is_new(self, *what: object) -> bool:
        is_new = what not in self._told
        self._told.add(what)
        return is_new


def tell_cheat(cheat: Mapping[str, Any], names: Mapping[str, str], segment_steps: int, round_steps: int) -> str:
    """Say in a sentence what the cheat did, where, and how it was seen; or why nobody could see it."""
    who = names[cheat["meant"]]
    if not cheat["provider"]:
        return (
            f"the cheat: {who} was too late with what it had not trained, so nothing of it could be checked this time; "
            "run the demo again when less runs beside it"
        )
    first = cheat["round"] * round_steps + cheat["segment"] * segment_steps
    in_steps = cheat["segment"] < round_steps // segment_steps
    place = f"steps {first} to {first + segment_steps - 1}" if in_steps else "the update at its end"
    return (
        f"the cheat: {who} said that it had trained slot {cheat['slot']} of round {cheat['round']}, and had not; its "
        f"validator drew {place} by lot after it had committed to its states, computed them again and came to another "
        f"state; somebody else trained the slot, and {money(int(cheat['slashed']))} of the bond are gone"
    )
