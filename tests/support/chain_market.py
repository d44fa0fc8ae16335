"""A small market on the chain harness: validators with bonds and bids, clusters, and orders that can be driven on.

One consumer ``carol``; validators ``v0`` ... with providers ``v0p0``, ``v0p1`` ... each. The default job has
2 rounds of 2 slots with 2 segments each, and a segment is 2 steps. At the price of 10^12 per PFLOP a round costs
80,000 uassay: 38,000 for each share, and 4,000 for the aggregation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from chain.state_machine import gas
from chain.state_machine.ledger.gas import PAY_GAS
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.market.gas import AUCTION_PERCENT, FILL_GAS, TRY_GAS
from chain.state_machine.market.tables import ORDER_DUE, ORDERS
from chain.state_machine.proof.shares import LIVE
from chain.state_machine.proof.tables import LAST_ISSUES, STANDING_ISSUES, TAKING
from chain.state_machine.queue import DEADLINES
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.store import Overlay
from domain.block import BlockResult
from domain.hashing import merkle_path
from domain.keys import PanelKey, ShareRef
from domain.ledger.messages import MsgDepositBond
from domain.legs.messages import MsgAcceptOrder
from domain.legs.records import Leg
from domain.limits import SHARES_PER_MESSAGE_MAX
from domain.market.messages import MsgPlaceBid, MsgSubmitOrder
from domain.market.records import Conditions, JobTerms, Offer, Order
from domain.params import Params
from domain.proof.messages import (
    AcceptedShare,
    MsgAcceptShares,
    MsgCloseRound,
    MsgCommitAnswer,
    MsgCommitTraces,
    MsgRevealAnswer,
    Rejection,
    SignedShare,
)
from domain.proof.queries import OrderRequest, OrderResponse, SeatsRequest
from domain.proof.reasons import ShareReason
from domain.proof.records import (
    AnswerKind,
    AuditKind,
    AuditPlace,
    Panel,
    PanelSeat,
    Round,
    SeatAnswer,
    Share,
    ShareClaim,
    ShareRoots,
    ShareState,
    ShownLeaf,
    TraceLeaf,
)
from domain.registry.messages import MsgAdmitProvider, MsgRegisterProvider
from localnet.simulator import memory_chain
from pol.rules.commitment import (
    compute_trace_root,
    leaf_hashes,
    share_commitment,
    share_sign_bytes,
    update_claim,
)
from pol.rules.orders import handover_seconds
from pol.rules.schedule import first_step, is_handover, share_segments
from pol.rules.stands import stand_until
from pol.rules.stops import find_stop, stop_step
from pol.rules.tiers.table import least_multiple, tier_of
from tests.support.chain_harness import CHAIN_ID, UNPROVEN, Chain, make_genesis, pub_key, sign

digest = memory_chain.digest
CONSUMER = "carol"
PRICE = 10**12
BOND = 10**9
ANY = Conditions()
OFFERED = {field.name for field in fields(Offer)}


def due_gas(*, entries: int = 0, tries: int = 0, fills: int = 0) -> int:
    """Return the ``due_gas`` with which a block takes so many ends of orders, or tries or matches so many orders."""
    of_orders = entries * (gas.DUE_GAS + PAY_GAS) * 100 // gas.LANE_PERCENT[1]
    auction = max(2 * tries * TRY_GAS, -(-8 * fills * FILL_GAS // 3))
    return max(of_orders, -(-auction * 100 // AUCTION_PERCENT))


def make_terms(**changes: Any) -> JobTerms:
    """Return the terms of the default job."""
    terms = JobTerms(
        job_id=digest("job"),
        payload_bytes=600_000,
        data_bytes=400_000,
        global_root=digest("global"),
        local_root=digest("local"),
        data_root=digest("data"),
        rounds=2,
        slots=2,
        round_steps=4,
        batch=2,
        segment_steps=2,
        step_work=9_000_000,
        outer_work=4_000_000,
        global_bytes=600_000,
        local_bytes=400_000,
        update_bytes=500_000,
        global_chunks=3,
        local_chunks=2,
        executor_version=1,
    )
    return replace(terms, **changes)


def submit(consumer: str = CONSUMER, **changes: Any) -> MsgSubmitOrder:
    """Return the submission of an order; the proof of its key is made with the transaction that it comes into."""
    terms: JobTerms = changes.pop("terms", make_terms())
    key = pub_key("order key of " + consumer)
    message = MsgSubmitOrder(
        consumer=consumer,
        order_key=key,
        key_proof=UNPROVEN,
        terms=terms,
        conditions=ANY,
        price_limit=PRICE,
        deposit=400_000,
        time_to_live=100,
        deadline=1_000,
        rematch=True,
    )
    return replace(message, **changes)


def slow_auditors(market: "Market", speed: int = 10**6) -> None:
    """Let all validators promise so little that the places of a panel (46 M FLOPs) take 46 s, and hold their room."""

    def slow(overlay: Overlay) -> None:
        for name in market.validators:
            VALIDATORS.update(overlay, name, audit_speed=speed)

    market.chain.change(slow)


def bid(validator: str, **changes: Any) -> MsgPlaceBid:
    """Return a bid that fits the default order; ``changes`` are of the offer or of the message."""
    offer = Offer(
        price=PRICE,
        slot_speed=10**9,
        slots=2,
        device_class="cpu",
        memory=10**9,
        tiers=("exact",),
        providers_bps=7_000,
    )
    offered = {name: changes.pop(name) for name in OFFERED & changes.keys()}
    message = MsgPlaceBid(validator, replace(offer, **offered), capacity=10**12, duration=100_000)
    return replace(message, **changes)


@dataclass
class Trace:
    """A share with everything that its provider would keep; ``leaves`` are of boundaries 1 to n."""

    signed: SignedShare
    roots: ShareRoots
    leaves: tuple[TraceLeaf, ...]

    @property
    def claim(self) -> ShareClaim:
        return self.signed.claim

    @property
    def ref(self) -> ShareRef:
        return ShareRef(self.claim.slot, self.claim.issue)

    @property
    def accepted(self) -> AcceptedShare:
        return AcceptedShare(self.claim.slot, self.claim.issue, self.roots)


def make_work(
    order: Order, round: int, slot: int, work: str, stop: int | None = None, steps: int = 0
) -> tuple[ShareRoots, tuple[TraceLeaf, ...]]:
    """Return what training a slot in a round gives, made up: the same for everybody whose ``work`` is of one name.

    Where the job stops in segment ``stop``, or behind the last one in the update, there is what came before: also
    ``steps`` of that segment.
    """
    first = first_step(order.terms, round)
    count = share_segments(order.terms) if stop is None else stop
    name = (order.first_replica or order.id, round, slot, work)
    stated = [
        TraceLeaf(index, first + index * order.terms.segment_steps, digest("boundary", name, index))
        for index in range(1, count + 1)
    ]
    hashes = leaf_hashes(stated)
    roots = ShareRoots(
        trace_root=compute_trace_root(stated) if stated else b"",
        update_root=digest("update", name) if stop is None else b"",
        local_out=digest("local out", name) if stop is None else b"",
        metrics=(0x3F800000,) if stated else (),
        segments=count,
        steps=steps,
    )
    leaves = (replace(leaf, path=merkle_path(hashes, leaf.index - 1)) for leaf in stated)
    return roots, tuple(leaves)


def sign_share(claim: ShareClaim, by: str | None = None) -> SignedShare:
    """Return a claim with the signature of its provider, or of somebody else."""
    key = pub_key(by or claim.provider)
    return SignedShare(claim, sign(key, share_sign_bytes(CHAIN_ID, claim)))


class Market:
    """A chain with a market on it."""

    def __init__(
        self,
        params: Params | None = None,
        *,
        validators: int = 4,
        providers: int = 2,
        consumers: tuple[str, ...] = (CONSUMER,),
        bidders: Sequence[str] = ("v0",),
        checked: bool = True,
        stake: int = 10**10,
        chain: type[Chain] = Chain,
    ) -> None:
        self.validators = tuple(f"v{number}" for number in range(validators))
        self.clusters = {name: tuple(f"{name}p{number}" for number in range(providers)) for name in self.validators}
        everybody = [provider for cluster in self.clusters.values() for provider in cluster]
        genesis = make_genesis((*consumers, *everybody), self.validators, params, stake=stake)
        self.chain = chain(genesis, checked=checked)
        bonds = [MsgDepositBond(name, BOND) for name in (*self.validators, *everybody)]
        joins = [MsgRegisterProvider(provider, name) for name, cluster in self.clusters.items() for provider in cluster]
        admissions = [MsgAdmitProvider(join.validator, join.provider) for join in joins]
        self.chain.ok(*bonds, *joins, *admissions)
        for name in bidders:
            self.chain.ok(bid(name))
        self.traces: dict[tuple[bytes, int, int, ShareRef], Trace] = {}
        # The dispute whose panel is meant; 0 is the panel of the round itself.
        self.about = 0
        # The leg whose round is meant; 0 is the current leg.
        self.about_leg = 0

    # --- looking ---

    def all_of(self, order_id: bytes) -> OrderResponse:
        found: OrderResponse = self.chain.ask(OrderRequest(order_id))
        return found

    def order(self, order_id: bytes) -> Order:
        return self.all_of(order_id).order

    def leg(self, order_id: bytes) -> Leg:
        """Return the current leg."""
        return self.all_of(order_id).legs[-1]

    def shares(self, order_id: bytes) -> tuple[Share, ...]:
        return self.all_of(order_id).shares

    def round(self, order_id: bytes, round: int) -> Round:
        """Return a closed round of the current leg."""
        leg = self.order(order_id).legs
        rounds = self.all_of(order_id).rounds
        return next(r for r in rounds if (r.leg, r.round) == (leg, round))

    def round_of(self, order_id: bytes, leg: int, round: int) -> Round:
        """Return a closed round of any leg."""
        found = self.all_of(order_id).round(leg, round)
        if found is None:
            raise AssertionError("the round is not closed")
        return found

    def order_fee(self, order_id: bytes) -> int:
        """Return the least fee for placing an order, as far as it is not compensated yet."""
        return TALLIES.must(self.chain.overlay(), order_id).fee

    # --- driving an order ---

    def move_deadline(self, order_id: bytes, deadline: int) -> None:
        """Move the deadline of an order to where its match would not have left room for it."""

        def move(overlay: Overlay) -> None:
            moved = ORDERS.update(overlay, order_id, deadline=deadline)
            kind = ORDER_DUE
            DEADLINES.mark(overlay, kind.lane, moved.deadline, kind.number, order_id)

        self.chain.change(move)

    def submit(self, message: MsgSubmitOrder | None = None) -> bytes:
        """Submit an order and return its id; a bid that stands and fits takes it, in a second block of no time."""
        result = self.chain.ok(message or submit())
        ((_, order_id),) = result.tx_results[0].responses
        self.auction()
        return order_id

    def auction(self) -> BlockResult:
        """Make a block of no time, whose auction tries what the block before has opened."""
        return self.chain.block(seconds=0)

    def accept(self, order_id: bytes) -> BlockResult:
        leg = self.leg(order_id)
        return self.chain.ok(MsgAcceptOrder(leg.validator, order_id, leg.number))

    def run(self, message: MsgSubmitOrder | None = None) -> bytes:
        """Submit an order that is matched at once, and accept it."""
        order_id = self.submit(message)
        self.accept(order_id)
        return order_id

    def claim(
        self,
        order_id: bytes,
        slot: int = 0,
        issue: int = 1,
        provider: str | None = None,
        roots: ShareRoots | None = None,
        opening: tuple[bytes, bytes] | None = None,
        version: int = 0,
        **changes: Any,
    ) -> ShareClaim:
        """Return a claim that holds, in the open round; ``opening`` and ``version`` are what it commits to."""
        order, leg = self.order(order_id), self.leg(order_id)
        cluster = self.clusters[leg.validator]
        name = provider or cluster[slot % len(cluster)]
        key = leg.open_round.share(slot, issue)
        made = share_commitment(
            CHAIN_ID,
            key,
            name,
            opening or (leg.global_in, self.local_in(order_id, slot)),
            version or order.terms.executor_version,
            roots or make_work(order, leg.round, slot, "right")[0],
        )
        least = least_multiple(order, leg)
        claim = ShareClaim(order_id, key.leg, key.round, slot, issue, name, made, multiple=least)
        return replace(claim, **changes)

    def local_in(self, order_id: bytes, slot: int) -> bytes:
        """Return the local state that the slot's last accepted share left, or the one that the slot starts from."""
        leg = self.order(order_id).legs
        left = [
            share.roots.local_out
            for share in self.shares(order_id)
            if share.roots
            and share.state is ShareState.ACCEPTED
            and (share.key.leg, share.key.slot) == (leg, slot)
            and share.key.round < self.leg(order_id).round
        ]
        return left[-1] if left else self.all_of(order_id).opening_local(leg, slot)

    def trace(
        self,
        order_id: bytes,
        slot: int = 0,
        work: str = "right",
        stop: int | None = None,
        steps: int = 0,
        **more: Any,
    ) -> Trace:
        """Return a trace with a claim that holds, in the open round, and remember it for audits.

        ``work`` is the same for all who trained rightly; whoever did something else has another one. The job stops in
        segment ``stop``, if one is given, after ``steps`` of its steps.
        """
        round = self.leg(order_id).round
        roots, leaves = make_work(self.order(order_id), round, slot, work, stop, steps)
        claim = self.claim(order_id, slot, **{"roots": roots, **more})
        trace = Trace(sign_share(claim), roots, leaves)
        self.traces[order_id, claim.leg, claim.round, trace.ref] = trace
        return trace

    def traces_of_round(self, order_id: bytes) -> list[Trace]:
        """Return a trace that holds for each slot of the open round that has no share."""
        leg = self.leg(order_id)
        free = (s for s in leg.served_slots if not STANDING_ISSUES.get(self.chain.overlay(), *leg.open_round, s))
        return [self.trace(order_id, slot, issue=self.next_issue(order_id, slot)) for slot in free]

    def next_issue(self, order_id: bytes, slot: int) -> int:
        """Return the least number that a new issue of a slot of the open round may have."""
        leg = self.leg(order_id)
        last = LAST_ISSUES.get(self.chain.overlay(), order_id, leg.number, slot)
        return 1 + (last.issue if last is not None and last.round == leg.round else 0)

    def trace_of(self, order_id: bytes, leg: int, round: int, ref: ShareRef) -> Trace:
        """Return the trace of a share of a leg, which may have taken the share over from an earlier leg."""
        legs = (number for number in range(leg, 0, -1) if (order_id, number, round, ref) in self.traces)
        return self.traces[order_id, next(legs, leg), round, ref]

    def commit_message(
        self,
        order_id: bytes,
        *traces: Trace | SignedShare,
        reject: Sequence[tuple[ShareRef, int] | tuple[ShareRef, int, int]] = (),
    ) -> MsgCommitTraces:
        leg = self.leg(order_id)
        return MsgCommitTraces(
            validator=leg.validator,
            order_id=order_id,
            leg=leg.number,
            round=leg.round,
            rejections=tuple(Rejection(*rejected) for rejected in reject),
            shares=tuple(t.signed if isinstance(t, Trace) else t for t in traces),
        )

    def commit(self, order_id: bytes, *traces: Trace | SignedShare, **more: Any) -> BlockResult:
        return self.chain.ok(self.commit_message(order_id, *traces, **more))

    def skipped(self) -> list[ShareReason]:
        """Return why shares were skipped, over the whole life of the chain."""
        return [ShareReason(int(event.get("reason"))) for event in self.chain.seen("share.skipped")]

    def wait_drawn(self, order_id: bytes) -> None:
        """Make blocks until every share that stands is drawn."""
        for _ in range(20):
            standing = [s for s in self.shares(order_id) if s.state is ShareState.COMMITTED]
            if all(share.is_drawn for share in standing):
                return
            self.chain.block()
        raise AssertionError("shares are not drawn")

    def standing(self, order_id: bytes) -> list[Trace]:
        """Return the traces of the shares of the open round that can be accepted."""
        leg = self.leg(order_id)
        return [
            self.trace_of(order_id, leg.number, leg.round, share.key.ref)
            for share in self.shares(order_id)
            if share.state is ShareState.COMMITTED
        ]

    def is_of_open_round(self, order_id: bytes, share: Share) -> bool:
        """Return whether a share keeps its slot of the open round."""
        leg, key = self.leg(order_id), share.key
        return (key.leg, key.round) == (leg.number, leg.round) and share.state in LIVE

    def accept_message(self, order_id: bytes, *accepted: AcceptedShare, **changes: Any) -> MsgAcceptShares:
        """Return the message that accepts these shares, or all that can be accepted."""
        leg = self.leg(order_id)
        message = MsgAcceptShares(
            validator=leg.validator,
            order_id=order_id,
            leg=leg.number,
            round=leg.round,
            shares=accepted or tuple(trace.accepted for trace in self.standing(order_id)),
        )
        return replace(message, **changes)

    def accept_shares(self, order_id: bytes) -> None:
        """Accept all shares of the open round that can be accepted, as many at once as a message may have."""
        shares = self.accept_message(order_id).shares
        for at in range(0, len(shares), SHARES_PER_MESSAGE_MAX):
            self.chain.ok(self.accept_message(order_id, *shares[at : at + SHARES_PER_MESSAGE_MAX]))

    def close_messages(self, order_id: bytes, **changes: Any) -> tuple[MsgAcceptShares, MsgCloseRound]:
        """Return the messages that accept the shares of the open round and close it."""
        return self.accept_message(order_id), self.close_message(order_id, **changes)

    def close_message(self, order_id: bytes, **changes: Any) -> MsgCloseRound:
        leg = self.leg(order_id)
        message = MsgCloseRound(
            validator=leg.validator,
            order_id=order_id,
            leg=leg.number,
            round=leg.round,
            next_root=self.next_root(order_id, leg.number, leg.round),
            ciphertext_root=self.sealed_root(order_id, leg.round),
        )
        return replace(message, **changes)

    def stop_message(self, order_id: bytes, **changes: Any) -> MsgCloseRound:
        """Return the message that closes the open round where the job stops by the shares that stand."""
        message = self.close_message(order_id, next_root=b"", ciphertext_root=b"")
        leg = self.leg(order_id)
        shares = (
            (ref.slot, ref.issue, self.trace_of(order_id, leg.number, leg.round, ref).roots)
            for ref in (s.key.ref for s in self.shares(order_id) if self.is_of_open_round(order_id, s))
        )
        stop = find_stop(self.order(order_id).terms, shares)
        return replace(message, stopped=stop, **changes)

    def stop_messages(self, order_id: bytes) -> tuple[MsgAcceptShares, MsgCloseRound]:
        """Return the messages that accept the shares of the open round and close it where the job stops."""
        return self.accept_message(order_id), self.stop_message(order_id)

    def stop_round(self, order_id: bytes, *stops: int | None) -> None:
        """Commit a round in which each slot stops in a segment, or goes to its end (None), and close it."""
        traces = [self.trace(order_id, slot, stop=stop) for slot, stop in enumerate(stops)]
        self.commit(order_id, *traces)
        self.wait_drawn(order_id)
        self.chain.ok(*self.stop_messages(order_id))

    def train_round(self, order_id: bytes) -> None:
        """Commit a round, wait for the draws, close it. Slots whose shares were taken over are not trained again."""
        while TAKING.has(self.chain.overlay(), order_id, self.leg(order_id).number):
            self.chain.block()
        self.commit(order_id, *self.traces_of_round(order_id))
        self.wait_drawn(order_id)
        self.chain.ok(*self.close_messages(order_id))

    def next_root(self, order_id: bytes, leg: int, round: int) -> bytes:
        """Return what the aggregation of a round gives where everything was right; replicas have the same."""
        return digest("next", self.order(order_id).first_replica or order_id, leg, round)

    def sealed_root(self, order_id: bytes, round: int) -> bytes:
        """Return the root of the encrypted states that a round leaves, where it is a hand-over round."""
        order = self.order(order_id)
        due = is_handover(order.terms, order.params.handover_every, round)
        return digest("ciphertext", order_id, round) if due else b""

    def pass_handover(self, order_id: bytes) -> None:
        """Let the time pass that an order waits for its settlement once all rounds are verified."""
        order = self.order(order_id)
        self.chain.pass_time(handover_seconds(order.terms, order.params, order.window) + 2)

    def pass_stands(self, order_id: bytes) -> None:
        """Let the time pass in which providers may stand for shares; the order closes then."""
        order = self.order(order_id)
        begun = max(max(closed.closed_at, closed.void_at) for closed in self.all_of(order_id).rounds)
        until = stand_until(begun, order.window, order.params.stand_wait)
        if self.chain.clock < until + 2:
            self.chain.pass_until(until + 2)

    def let_stand(self, order_id: bytes, round: int = 0) -> None:
        """Let the time pass in which the ruling about a round of the current leg can be appealed."""
        panel = self.panel(order_id, round)
        assert panel.awaits_appeal
        self.chain.pass_until(panel.appeal_until)

    # --- panels ---

    def panel(self, order_id: bytes, round: int) -> Panel:
        """Return the panel of a round: its own one, or that of the dispute ``about``.

        The round is one of the current leg, or of the leg ``about_leg``.
        """
        key = PanelKey(order_id, self.about_leg or self.order(order_id).legs, round, self.about)
        found = next((panel for panel in self.all_of(order_id).panels if panel.key == key), None)
        if found is None:
            raise AssertionError("the round has no panel")
        return found

    def seats(self, order_id: bytes, round: int, stage: int = 0) -> tuple[PanelSeat, ...]:
        """Return the seats of a round's panel, of one stage if given."""
        key = self.panel(order_id, round).key
        found = self.chain.ask(SeatsRequest(*key)).seats
        return tuple(seat for seat in found if stage in (0, seat.stage))

    def seated(self, order_id: bytes, round: int = 0, stage: int = 0) -> list[str]:
        """Return who sits in a round's panel, by number."""
        return [seat.validator for seat in self.seats(order_id, round, stage)]

    def first_seats(self, order_id: bytes) -> list[str]:
        """Return who sat in the panel of the very first round."""
        found = self.chain.ask(SeatsRequest(order_id, 1, 0)).seats
        return [seat.validator for seat in found]

    def wait_stage(self, order_id: bytes, round: int = 0, stage: int = 1) -> Panel:
        """Make blocks until a stage of the round's panel has begun."""
        # A stage whose seats are silent lasts until its end.
        for _ in range(60 + self.order(order_id).params.stage_base):
            panel = self.panel(order_id, round)
            if panel.stage >= stage:
                return panel
            self.chain.block()
        raise AssertionError("the stage did not begin")

    def right_root(self, order_id: bytes, round: int, place: AuditPlace) -> bytes:
        """Return what recomputing a place gives, where everything was right."""
        leg = self.panel(order_id, round).leg
        if place.kind is AuditKind.AGGREGATION:
            return self.next_root(order_id, leg, round)
        if place.kind is AuditKind.HANDOVER:
            return self.sealed_root(order_id, round)
        ref = ShareRef(place.slot, place.issue)
        trace = self.trace_of(order_id, leg, round, ref)
        if place.kind is AuditKind.UPDATE:
            return update_claim(trace.roots.update_root, trace.roots.local_out, trace.roots.metrics)
        return trace.leaves[place.segment].boundary_root

    def answers(self, order_id: bytes, round: int = 0, places: Sequence[int] | None = None) -> tuple[SeatAnswer, ...]:
        """Return the answers of a seat of the open stage who finds what the chain has."""
        panel = self.panel(order_id, round)
        found = []
        for number in panel.undecided if places is None else places:
            place, made = panel.places[number], digest("work", panel.seed, number)
            earlier = tuple(digest("work", seed, number) for seed in panel.earlier_seeds)
            if place.stops:
                ref = ShareRef(place.place.slot, place.place.issue)
                trace = self.traces.get((order_id, panel.leg, round, ref))
                step = stop_step(self.order(order_id).terms, round, place.place, trace.roots if trace else None)
                found.append(SeatAnswer(number, AnswerKind.STOPPED, b"", made, step, earlier))
            else:
                root = self.right_root(order_id, round, place.place)
                found.append(SeatAnswer(number, AnswerKind.FINISHED, root, made, 0, earlier))
        return tuple(found)

    def wrong_at(self, order_id: bytes, round: int, number: int) -> tuple[SeatAnswer, ...]:
        """Return the right answers, but for one place that of other work."""
        made = digest("other work")
        return tuple(
            replace(answer, root=digest("elsewhere"), digest=made, earlier=(made,) * len(answer.earlier))
            if answer.place == number
            else answer
            for answer in self.answers(order_id, round)
        )

    def leaves(self, order_id: bytes, round: int = 0) -> tuple[ShownLeaf, ...]:
        """Return the leaves of the accepted traces behind the segments of the open stage."""
        panel = self.panel(order_id, round)
        found = []
        for number in panel.undecided:
            place = panel.places[number].place
            if place.kind is AuditKind.SEGMENT and not panel.places[number].stops:
                ref = ShareRef(place.slot, place.issue)
                trace = self.trace_of(order_id, panel.leg, round, ref)
                found.append(ShownLeaf(number, trace.leaves[place.segment]))
        return tuple(found)

    def commit_answer(
        self, order_id: bytes, round: int, auditor: str, answers: tuple[SeatAnswer, ...]
    ) -> MsgCommitAnswer:
        panel = self.panel(order_id, round)
        commit = tier_of(self.leg(order_id)).commitment
        made = commit(CHAIN_ID, panel.key, panel.stage, auditor, digest("salt", auditor), answers)
        return MsgCommitAnswer(auditor, panel.order_id, panel.leg, panel.round, panel.stage, made, panel.dispute)

    def reveal_answer(
        self,
        order_id: bytes,
        round: int,
        auditor: str,
        answers: tuple[SeatAnswer, ...],
        leaves: tuple[ShownLeaf, ...] | None = None,
    ) -> MsgRevealAnswer:
        panel = self.panel(order_id, round)
        return MsgRevealAnswer(
            auditor,
            panel.order_id,
            panel.leg,
            panel.round,
            panel.stage,
            digest("salt", auditor),
            answers,
            self.leaves(order_id, round) if leaves is None else leaves,
            panel.dispute,
        )

    def say(
        self,
        order_id: bytes,
        said: Mapping[str, tuple[SeatAnswer, ...]],
        round: int = 0,
        leaves: tuple[ShownLeaf, ...] | None = None,
    ) -> None:
        """Let seats of the open stage commit and reveal; whoever is not named is silent. The stage is over then."""
        if said:
            self.chain.ok(*(self.commit_answer(order_id, round, name, found) for name, found in said.items()))
        panel = self.panel(order_id, round)
        if self.chain.clock < panel.commits_end:
            self.chain.pass_until(panel.commits_end)
        if said:
            self.chain.ok(*(self.reveal_answer(order_id, round, name, found, leaves) for name, found in said.items()))

    def answer_all(self, order_id: bytes, round: int) -> None:
        """Let every seat of the first stage answer rightly."""
        self.wait_stage(order_id, round)
        right = self.answers(order_id, round)
        self.say(order_id, dict.fromkeys(self.seated(order_id, round), right), round)

    def answer_groups(self, order_id: bytes, round: int) -> None:
        """Let every seat of the open stage answer rightly for the places of its group."""
        for step in ("commit", "reveal"):
            for seat in self.seats(order_id, round, self.panel(order_id, round).stage):
                answers = self.answers(order_id, round, seat.places)
                if step == "commit":
                    self.chain.ok(self.commit_answer(order_id, round, seat.validator, answers))
                else:
                    leaves = tuple(leaf for leaf in self.leaves(order_id, round) if leaf.place in seat.places)
                    self.chain.ok(self.reveal_answer(order_id, round, seat.validator, answers, leaves))

    def unavailable(self, order_id: bytes, round: int = 0) -> tuple[SeatAnswer, ...]:
        """Return the answers of a seat of the open stage to whom nothing was served."""
        return tuple(
            SeatAnswer(number, AnswerKind.UNAVAILABLE, b"", b"", 0) for number in self.panel(order_id, round).undecided
        )

    def say_all(
        self,
        order_id: bytes,
        said: Callable[[], tuple[SeatAnswer, ...]],
        round: int = 0,
        leaves: Callable[[], tuple[ShownLeaf, ...]] | None = None,
    ) -> None:
        """Let every seat of every stage say the same, until each place is decided, and no one appeal the ruling."""
        leg = self.order(order_id).legs
        for stage in range(1, 7):
            self.wait_stage(order_id, round, stage)
            answers, shown = said(), None if leaves is None else leaves()
            self.say(order_id, dict.fromkeys(self.seated(order_id, round, stage), answers), round, shown)
            key = PanelKey(order_id, leg, round, self.about)
            panels = {panel.key: panel for panel in self.all_of(order_id).panels}
            if key in panels and panels[key].awaits_appeal:
                self.chain.pass_until(panels[key].appeal_until)
                return
            if key not in panels or panels[key].is_settled or not panels[key].undecided:
                return
        raise AssertionError("the panel does not end")

    def fault_round(self, order_id: bytes, round: int = 0) -> None:
        """Let every seat of every stage say that nothing is served, which makes the round void."""
        self.say_all(order_id, lambda: self.unavailable(order_id, round), round, leaves=lambda: ())

    def settle(self, order_id: bytes) -> None:
        """Take a running order to its end: rounds, audits, windows, hand-over."""
        leg = self.leg(order_id)
        for round in range(leg.round, leg.end_round):
            self.train_round(order_id)
            self.answer_all(order_id, round)
        self.chain.pass_time(self.order(order_id).window + 2)
        self.pass_handover(order_id)
