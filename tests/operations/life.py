"""Messages of an order's life that random fields never make, because they need signatures, keys or earlier messages.

They are about deliveries and their receipts, shares that providers put on chain themselves, witnesses, challenges,
stands, appeals, waivers, results that are not served, and traces of replicas that differ. Each is made from the records
of an order and from what its parties would keep, and is right or nearly right.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeVar

from chain.state_machine.attest.tables import ATTEST_POLICIES, LIVE_POLICIES
from chain.state_machine.store import Overlay
from domain.amount import ASSAY
from domain.attest.evidence import Evidence, Measurement, Policy, Register
from domain.attest.messages import MsgAttest, MsgCommitVerdict, MsgReleaseCredential, MsgRevealVerdict
from domain.attest.queries import AttestBeaconRequest, AttestDutiesRequest, CredentialsRequest
from domain.attest.records import AttestAnswer, AttestPolicy
from domain.disputes.messages import MsgAppeal, MsgChallenge, MsgOpenChallenge, MsgStand, MsgWaive
from domain.disputes.queries import DisputesRequest
from domain.hashing import merkle_root
from domain.keys import ShareRef
from domain.ledger.messages import MsgDepositBond
from domain.legs.messages import MsgAckState, MsgStopOrder
from domain.legs.records import Leg, LegState
from domain.market.queries import OrdersRequest
from domain.market.records import OrderState
from domain.messages import Message
from domain.proof.messages import MsgNeverServed, MsgShowTrace
from domain.proof.queries import OrderResponse, WitnessDutiesRequest
from domain.proof.records import AnswerKind, AuditKind, AuditPlace, Finding, Round, Share, ShareState
from pol.rules.attest import answer_commitment
from pol.rules.commitment import leaf_hashes
from pol.rules.disputes import challenge_commitment
from pol.rules.states import is_fetched
from tests.operations.governance import Governance
from tests.support.chain_harness import CHAIN_ID, COINS
from tests.support.chain_market import Trace, digest
from tests.support.delivered import Content, Sent, leaves_of, spoil
from tests.support.handed_over import HandoverMarket
from tests.support.included import TASK_SECONDS, InclusionMarket, sign_task

T = TypeVar("T")
SALT = digest("salt of a challenge")
DELIVERED = 0.5
"""Part of the shares that have a content, which can be delivered."""
SPOILT = 0.3
"""Part of the deliveries that are noise."""
STOPS = 0.1
"""Chance in a block that a validator stops a leg that has a verified round."""
FAILING = 0.2
"""Part of the orders whose legs stop as soon as their first round is verified, so that a part waits for an answer."""
ATTESTS = 0.2
"""Chance in a block that an account asks for a credential."""
POLICY_NAME = "tpm"
POLICY = Policy(
    technology="tpm",
    roots=(digest("root"),),
    measurements=(Measurement((Register("sha256:0", bytes(32)),)),),
    executors=(digest("executor"),),
    max_age=10_000,
)
ODDS = 0.3
"""Part of the messages that could be sent in a block and are."""


class LifeMarket(HandoverMarket, InclusionMarket):
    """A market whose shares have contents that can be delivered, and states that are handed over."""

    def content(self, order_id: bytes, slot: int, work: str = "right") -> Content:
        """Return a content that leaves the local state which the round hands over."""
        content = super().content(order_id, slot, work)
        leg = self.leg(order_id)
        chunks = self.chunks(order_id, leg.round, 1 + slot - leg.first_slot)
        states = [content.states[0], chunks, *content.states[2:]]
        return replace(content, states=states, roots=replace(content.roots, local_out=merkle_root(leaves_of(chunks))))

    def trace_of(self, order_id: bytes, leg: int, round: int, ref: ShareRef) -> Trace:
        """Return the trace of a share. One whose issue the chain gave has a trace of its slot."""
        same = [
            trace
            for (order, at, within, other), trace in self.traces.items()
            if (order, within, other.slot) == (order_id, round, ref.slot) and at <= leg
        ]
        try:
            return super().trace_of(order_id, leg, round, ref)
        except KeyError:
            return same[-1]

    def right_root(self, order_id: bytes, round: int, place: AuditPlace) -> bytes:
        """Return what recomputing or fetching a place gives."""
        return self.sealed_root(order_id, round) if is_fetched(place) else super().right_root(order_id, round, place)


@dataclass
class Kept:
    """A share's delivery as its provider keeps it. ``issue`` of its key is that of its task."""

    trace: Trace
    sent: Sent
    is_spoilt: bool


def _add_policy(overlay: Overlay) -> None:
    ATTEST_POLICIES.put(overlay, AttestPolicy(name=POLICY_NAME, policy=POLICY, valid_for=40, added_at=0))
    LIVE_POLICIES.set(overlay, 1)


class Life:
    """Makes the messages that a market's orders could have next."""

    def __init__(self, market: LifeMarket, consumers: Sequence[str], dice: Random) -> None:
        """Begin without a delivery; consumers get bonds with the first messages."""
        self.market, self.consumers, self.dice = market, consumers, dice
        self.kept: list[Kept] = []
        self._openings: list[tuple[MsgChallenge, MsgOpenChallenge]] = []
        self._bonded = False
        self.is_calm = False  # all train rightly and stay, and few challenge
        self.governance = Governance(market, consumers, POLICY, dice)
        # As if a vote had added it. Random proposals rarely have a policy that evidence could fit.
        market.chain.change(_add_policy)

    def trace(self, order_id: bytes, slot: int, provider: str) -> Trace:
        """Return a new share whose content can be delivered, and keep its delivery."""
        market = self.market
        work = "right" if self.is_calm else self.dice.choice(("right", "right", "other"))
        issue = market.next_issue(order_id, slot)
        trace = market.delivered_trace(order_id, slot, work, issue=issue, provider=provider)
        sent = market.send(order_id, trace, work)
        is_spoilt = self.dice.random() < SPOILT
        self.kept.append(
            Kept(trace, spoil(sent, market.content(order_id, slot, work)) if is_spoilt else sent, is_spoilt)
        )
        return trace

    def is_failing(self, leg: Leg) -> bool:
        """Return whether a leg waits until its first round is verified, and then stops."""
        fate = Random(f"fate of {leg.order_id.hex()}").random()
        return fate < FAILING and leg.state is LegState.RUNNING and leg.round > leg.first_round

    def stop(self, leg: Leg) -> Message | None:
        """Return the message that stops a failing leg; None before its first round is verified."""
        is_verified = any(closed.verified for closed in self.market.all_of(leg.order_id).rounds_of(leg.number))
        return MsgStopOrder(leg.validator, leg.order_id, leg.number) if is_verified else None

    def messages(self) -> list[Message]:
        """Return some of the messages that orders could have now."""
        found: list[Message] = []
        if not self._bonded:
            self._bonded = True
            found += [MsgDepositBond(name, COINS // 10) for name in self.consumers]
        found += self._openings_due()
        for order in self.market.chain.ask(OrdersRequest("", "", 0, 0, b"")).orders:
            of_order = self.market.all_of(order.id)
            found += self._answers(of_order)
            if order.state in (OrderState.RUNNING, OrderState.PROVEN):
                makers = (
                    self._deliveries,
                    self._inclusions,
                    self._challenges,
                    self._stands,
                    self._others,
                    self._traces,
                )
                for make in makers:
                    found += make(of_order)
        return [*found, *self._witnesses(), *self._attests(), *self.governance.messages()]

    def _attests(self) -> Iterator[Message]:
        """Yield requests for credentials, what their seats owe, and releases."""
        chain, dice = self.market.chain, self.dice
        providers = [name for cluster in self.market.clusters.values() for name in cluster]
        kept = chain.ask(AttestBeaconRequest()).beacon
        if kept is not None and dice.random() < ATTESTS:
            yield MsgAttest(
                owner=dice.choice((*providers, *self.market.validators)),
                policy=POLICY_NAME,
                credential=digest("device", dice.randrange(5)),
                executor=POLICY.executors[0],
                beacon=kept.beacon,
                evidence=Evidence(POLICY.technology, b"a quote"),
            )
        for name in self.market.validators:
            for duty in chain.ask(AttestDutiesRequest(name)).duties:
                seat, attestation = duty.seat, duty.attestation
                # Most seats say the same about an attestation, so that verdicts come.
                answer = AttestAnswer.OK if attestation.number % 3 else AttestAnswer.EXPIRED
                if not seat.commitment:
                    sealed = answer_commitment(CHAIN_ID, seat.owner, seat.number, name, SALT, answer)
                    if dice.random() < 0.8:
                        yield MsgCommitVerdict(name, seat.owner, seat.number, sealed)
                elif chain.clock >= attestation.commits_end:
                    yield MsgRevealVerdict(name, seat.owner, seat.number, answer, SALT)
        for name in providers:
            for credential in chain.ask(CredentialsRequest(name)).in_force:
                if dice.random() < ATTESTS / 4:
                    yield MsgReleaseCredential(name, credential)

    def _answers(self, found: OrderResponse) -> Iterator[Message]:
        """Yield answers about the states of failed legs whose part waits."""
        for leg in found.legs:
            if leg.part and self.dice.random() < ODDS:
                yield MsgAckState(found.order.consumer, leg.order_id, leg.number, self.dice.random() < 0.5)

    def _some(self, items: Sequence[T]) -> Iterator[T]:
        return (item for item in items if self.dice.random() < ODDS)

    def _kept_of(self, share: Share) -> Kept | None:
        return next((kept for kept in self.kept if kept.trace.claim == share.claim), None)

    # --- deliveries ---

    def _deliveries(self, found: OrderResponse) -> Iterator[Message]:
        """Yield receipts, keys, and pieces of wrong deliveries."""
        for share in self._some(found.shares):
            kept, leg = self._kept_of(share), found.leg(share.claim.leg)
            if kept is None or leg is None:
                continue
            key, sent = share.key, kept.sent
            own: dict[str, Any] = {
                "order_id": key.order_id,
                "leg": key.leg,
                "round": key.round,
                "slot": key.slot,
                "issue": key.issue,
            }
            shown = found.delivery(key)
            if shown is not None and shown.key and (kept.is_spoilt or self.dice.random() < 0.1):
                yield self.market.show_chunk(sent, 0, validator=leg.validator, **own)
            elif shown is None and share.state is ShareState.COMMITTED and self.dice.random() < 0.5:
                yield self.market.receipt(sent, validator=leg.validator, **own)
            elif not share.is_received:
                at, is_shown = self.market.chain.clock, self.dice.random() < 0.3
                signature = self.market.sign_receipt(sent, at, shown=is_shown, by=leg.validator)
                yield self.market.show_key(sent, at=at, shown=is_shown, signature=signature, **own)

    # --- shares that providers put on chain ---

    def _inclusions(self, found: OrderResponse) -> Iterator[Message]:
        """Yield shares that no validator commits, and requests for witnesses of shares whose receipt is missing."""
        leg = found.current
        if leg is None or leg.state is not LegState.RUNNING:
            return
        slots = self.market.clusters.get(leg.validator, ())
        for slot in self._some(leg.served_slots) if self.dice.random() < ODDS and slots else ():
            trace = self.trace(found.order.id, slot, self.dice.choice(slots))
            yield self.market.include(trace, **self._task(trace, leg))
        for share in self._some(found.shares):
            kept = self._kept_of(share)
            if kept is not None and share.claim.leg == leg.number and not share.is_received:
                yield self.market.ask(kept.sent, **self._task(kept.trace, leg))

    def _task(self, trace: Trace, leg: Leg) -> dict[str, Any]:
        """Return the deadline of a task, and the signature of the leg's validator."""
        claim, until = trace.claim, self.market.chain.clock + TASK_SECONDS
        more = {"multiple": claim.multiple, "cover": claim.cover}
        signature = sign_task(claim.key, claim.provider, until, by=leg.validator, **more)
        return {"deadline": until, "task_signature": signature}

    def _witnesses(self) -> Iterator[Message]:
        for name in self.market.validators:
            for ask in self._some(self.market.chain.ask(WitnessDutiesRequest(name)).asks):
                sent = next((kept.sent for kept in self.kept if kept.sent.manifest == ask.manifest), None)
                if sent is not None:
                    yield self.market.witness(sent, name)

    # --- replicas ---

    def _traces(self, found: OrderResponse) -> Iterator[Message]:
        """Yield the traces that replicas have to show, some of them of another share."""
        for wanted in self._some(found.wanted):
            closed, leg = found.round(wanted.leg, wanted.round), found.leg(wanted.leg)
            if closed is None or leg is None:
                continue
            same = [ref for ref in closed.shares if ref.slot == wanted.slot]
            ref = self.dice.choice((*same, *same, *same, *closed.shares))
            leaves = leaf_hashes(self.market.trace_of(found.order.id, wanted.leg, wanted.round, ref).leaves)
            yield MsgShowTrace(leg.validator, found.order.id, wanted.leg, wanted.round, tuple(leaves))

    # --- disputes ---

    def _challenges(self, found: OrderResponse) -> Iterator[Message]:
        """Yield challenges, most of them of right work; they are opened in a later block."""
        for closed in found.rounds:
            is_open = not (closed.verified or closed.void) and found.order.params.auditors > 0
            if closed.shares and self.dice.random() < (ODDS / 2 if is_open and not self.is_calm else 0.01):
                yield self._challenge(found, closed)

    def _challenge(self, found: OrderResponse, closed: Round) -> Message:
        ref = self.dice.choice(closed.shares)
        segment = AuditPlace(AuditKind.SEGMENT, ref.slot, ref.issue, self.dice.randrange(2))
        place = self.dice.choice((segment, AuditPlace(AuditKind.AGGREGATION, 0, 0, 0)))
        name = self.dice.choice((found.order.consumer, *self.market.validators))
        claim = Finding(AnswerKind.FINISHED, digest("elsewhere", closed.round), 0)
        made = challenge_commitment(CHAIN_ID, closed.key, place, claim, SALT, name)
        order, leg, number = closed.order_id, closed.leg, closed.round
        message = MsgChallenge(name, order, leg, number, made, 10 * ASSAY)
        self._openings.append((message, MsgOpenChallenge(name, order, leg, number, 0, place, claim, SALT)))
        return message

    def _openings_due(self) -> Iterator[Message]:
        """Yield the openings of challenges that the chain has."""
        waiting, self._openings = self._openings, []
        for committed, opening in waiting:
            key = (committed.order_id, committed.leg, committed.round)
            dispute = next(
                (
                    each
                    for each in self.market.chain.ask(DisputesRequest(committed.order_id)).disputes
                    if (each.commitment, each.challenger) == (committed.commitment, committed.challenger)
                    and (each.order_id, each.leg, each.round) == key
                ),
                None,
            )
            if dispute is not None and self.dice.random() < 0.9:
                yield replace(opening, number=dispute.number)

    def _stands(self, found: OrderResponse) -> Iterator[Message]:
        """Yield the stands of providers for rejected shares, and for those of void rounds."""
        if not found.order.params.auditors:
            return
        for share in self._some(found.shares):
            trace = self.market.traces.get((found.order.id, share.claim.leg, share.claim.round, share.key.ref))
            is_over = share.state is ShareState.REJECTED or share.state is ShareState.ACCEPTED
            if trace is not None and is_over and not share.stand:
                key = share.key
                own = (key.order_id, key.leg, key.round, key.slot, key.issue)
                yield MsgStand(share.claim.provider, *own, trace.roots)

    def _others(self, found: OrderResponse) -> Iterator[Message]:
        """Yield appeals, waivers, complaints that a result was never served, and ends of legs with verified rounds."""
        order, clock = found.order, self.market.chain.clock
        for panel in found.panels:
            if panel.awaits_appeal and clock < panel.appeal_until and self.dice.random() < ODDS:
                accused = [share.claim.provider for share in found.shares if share.claim.round == panel.round]
                name = self.dice.choice((order.consumer, *self.market.validators, *accused))
                yield MsgAppeal(name, order.id, panel.leg, panel.round, panel.dispute)
        leg = found.current
        if leg is None:
            return
        if order.challenges.wait and self.dice.random() < ODDS:
            name = self.dice.choice((order.consumer, *self.market.validators))
            yield MsgWaive(name, order.id, leg.number, self.dice.randrange(leg.first_round, leg.end_round))
        is_begun = leg.state is LegState.RUNNING and any(closed.verified for closed in found.rounds_of(leg.number))
        if is_begun and self.dice.random() < STOPS:
            yield MsgStopOrder(leg.validator, order.id, leg.number)
        verified = [closed for closed in found.rounds_of(leg.number) if closed.verified and closed.ciphertext_root]
        if verified and leg.is_live and self.dice.random() < ODDS:
            yield MsgNeverServed(order.consumer, order.id, leg.number, verified[-1].round)
