"""Someone who recomputes places of others' closed rounds, and challenges those that differ from the chain.

Real are the choice of the place, the comparison with the chain, the bond and the messages.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from chain.client.client import ChainClient
from chain.state_machine.context import PARAMS
from domain.block import TxResult
from domain.disputes.messages import MsgChallenge, MsgOpenChallenge
from domain.disputes.queries import DisputesRequest
from domain.disputes.records import DisputeState
from domain.keys import PanelKey, RoundKey
from domain.ledger.messages import MsgDepositBond
from domain.ledger.queries import AccountRequest
from domain.messages import Message
from domain.params import Params
from domain.proof.queries import OrderResponse
from domain.proof.records import AnswerKind, AuditPlace, Finding, Round, Ruling
from link.types import AuditOpening
from localnet.simulator.behaviours import Deed, HonestChallenger
from localnet.simulator.memory_chain import CHAIN_ID, digest
from localnet.simulator.replay import recompute
from pol.rules.disputes import challenge_commitment
from pol.rules.panels import place_work
from pol.rules.tiers.exact import EXACT
from validator.decide.records import Sizes
from validator.decide.seats import find_fault, fits_sizes, shares_of
from validator.watch.challenge import compute_bond
from validator.watch.places import (
    accepted_shares,
    agrees,
    choose_place,
    compares_ends,
    find_stop,
    found_within,
    get_claim,
    to_finding,
)
from validator.watch.recompute import PlaceCheck

if TYPE_CHECKING:
    from localnet.simulator.world import World

ASK_MS = 1_000
"""Pause before a place that is not served is asked for again."""
SPEED = 10**9
"""FLOP/s with which a challenger recomputes."""
MARGIN_SECONDS = 3
"""Least time (chain seconds) that must be left to challenge a round, since the opening comes some blocks later."""


@dataclass(frozen=True)
class Node:
    """The answers of a node, from the chain of a world."""

    world: "World"

    def query(self, request: Any) -> Any:
        """Answer a query."""
        return self.world.ask(request)

    def params(self) -> Params:
        """Return the parameters of the chain."""
        return PARAMS.get(self.world.chain.overlay())


class ChallengerActor:
    """A challenger: does one thing about each closed round of others."""

    def __init__(self, world: "World", me: str, behaviour: HonestChallenger) -> None:
        self.world, self.me, self.behaviour = world, me, behaviour
        self.worked = 0  # FLOPs that it recomputed
        self.disputes: list[PanelKey] = []

    def hear(self, key: RoundKey) -> None:
        """Learn that a round was closed."""
        self.world.clock.after(self.world.network.delay(), partial(self._begin, key))

    def _find(self, key: RoundKey) -> tuple[OrderResponse, Round] | None:
        """Return the order and the record of a round that can still be challenged."""
        on_chain = self.world.order(key.order_id)
        closed = on_chain.round(key.leg, key.round)
        if closed is None or closed.void or closed.verified or self.world.chain_clock >= closed.challenges_end:
            return None
        return on_chain, closed

    def _begin(self, key: RoundKey) -> None:
        found = self._find(key)
        if found is None:
            return
        on_chain, closed = found
        leg = on_chain.leg(key.leg)
        if leg is None or leg.validator == self.me:
            return
        deed = self.behaviour.deed(key, leg.validator)
        if deed is Deed.NOTHING:
            return
        panel = on_chain.panel(key.leg, key.round)
        if deed is Deed.ASKS_AGAIN:
            decided = [known.place for known in panel.places if known.ruling is Ruling.RIGHT] if panel else []
            place = decided[0] if decided else None
        else:
            place = choose_place(on_chain, closed, digest("watched", self.me, key))
        if panel is None or not panel.places or (deed is Deed.ASKS_AGAIN and place is None):
            # Places that the panel is going to draw are judged anyway.
            self._later(partial(self._begin, key))
        elif place is None:
            return
        elif deed is Deed.LOOKS:
            self._ask(key, place)
        else:
            finding = Finding(AnswerKind.FINISHED, digest("a lie", self.me, key), 0)
            if compares_ends(leg, place):
                finding = Finding(AnswerKind.OUTSIDE, b"", 0)
            if deed is Deed.SAYS_UNSERVED:
                finding = Finding(AnswerKind.UNAVAILABLE, b"", 0)
            self._challenge(key, PlaceCheck(place, finding, b"", agrees=False), opens=deed is not Deed.OPENS_NOTHING)

    def _later(self, act: "partial[None]") -> None:
        self.world.clock.after(ASK_MS, act)

    # Looking

    def _ask(self, key: RoundKey, place: AuditPlace) -> None:
        found = self._find(key)
        if found is None:
            return
        leg = found[0].leg(key.leg)
        assert leg is not None
        service = self.world.validators[leg.validator].service
        self.world.network.call(
            lambda: service.get_place(self.me, key, place),
            partial(self._asked, key, place),
        )

    def _asked(self, key: RoundKey, place: AuditPlace, opening: AuditOpening | None) -> None:
        if opening is None or not opening.ready:
            self._later(partial(self._ask, key, place))
            return
        work = place_work(self.world.job(key.order_id).terms, place.kind)
        self.worked += work
        self.world.clock.after(50 + work * 1000 // SPEED, partial(self._recomputed, key, place, opening))

    def _recomputed(self, key: RoundKey, place: AuditPlace, opening: AuditOpening) -> None:
        found = self._find(key)
        if found is None:
            return
        on_chain, closed = found
        leg, terms = on_chain.leg(key.leg), on_chain.order.terms
        assert leg is not None
        shares = accepted_shares(on_chain, closed)
        compares = compares_ends(leg, place)
        fault = find_fault(place, opening, terms, shares, (), with_end=compares)
        if fault or not fits_sizes(opening, Sizes(terms.global_bytes, terms.local_bytes, terms.update_bytes)):
            # Such an opening is as good as none, and brings no reward.
            return
        own = shares_of(shares, place)
        result = recompute(self.world.job(key.order_id), key.round, place, opening, own, closed.global_in, [b""])
        finding, claim = to_finding(result), get_claim(closed, shares, place, opening)
        stop = find_stop(on_chain, closed, shares, place)
        if compares:
            is_right = EXACT.rule(finding, claim, stop) is Ruling.RIGHT
            finding = found_within(claim, stop) if is_right else Finding(AnswerKind.OUTSIDE, b"", 0)
        if not agrees(leg.tier, finding, claim, stop):
            self._challenge(key, PlaceCheck(place, finding, claim, agrees=False))

    # Challenging

    def _challenge(self, key: RoundKey, check: PlaceCheck, *, opens: bool = True) -> None:
        found = self._find(key)
        if found is None:
            return
        on_chain, closed = found
        if closed.challenges_end - self.world.chain_clock <= MARGIN_SECONDS:
            return
        bond = compute_bond(cast(ChainClient, Node(self.world)), on_chain, closed, check)
        salt = digest("salt", self.me, key, check.place)
        made = challenge_commitment(CHAIN_ID, key, check.place, check.finding, salt, self.me)
        account = self.world.ask(AccountRequest(self.me))
        lacking = bond - account.bond.free
        if lacking > account.balance // 2:
            return
        messages: tuple[Message, ...] = (
            MsgChallenge(
                challenger=self.me, order_id=key.order_id, leg=key.leg, round=key.round, commitment=made, bond=bond
            ),
        )
        if lacking > 0:
            messages = (MsgDepositBond(self.me, lacking), *messages)
        deposit = max(0, lacking)
        self.world.submit(messages, partial(self._committed, key, check, salt, made, opens, deposit), surely=True)

    def _committed(
        self,
        key: RoundKey,
        check: PlaceCheck,
        salt: bytes,
        made: bytes,
        opens: bool,
        deposit: int,
        result: TxResult,
    ) -> None:
        if result.code:
            return
        if deposit:
            self.world.deposits[self.me] = self.world.deposits.get(self.me, 0) + deposit
        disputes = self.world.ask(DisputesRequest(key.order_id)).disputes
        mine = (d for d in disputes if d.round_key == key and d.commitment == made)
        dispute = next((d for d in mine if d.state is DisputeState.COMMITTED), None)
        if dispute is None:
            return
        self.disputes.append(dispute.key)
        if opens:
            number, place, claim = dispute.number, check.place, check.finding
            opening = MsgOpenChallenge(
                challenger=self.me,
                order_id=key.order_id,
                leg=key.leg,
                round=key.round,
                number=number,
                place=place,
                claim=claim,
                salt=salt,
            )
            self.world.submit((opening,), lambda _: None, surely=True, in_lane=True)
