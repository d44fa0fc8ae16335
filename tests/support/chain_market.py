"""A small market on the chain harness: validators with bonds and bids, clusters, and orders that can be driven on.

One consumer ``carol``; validators ``v0`` ... with providers ``v0p0``, ``v0p1`` ... each. The default job has
2 rounds of 4 segments; a segment is 2 steps, and a round costs 80,000 uassay at the price of 10^12 per PFLOP.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import Any

from domain import queries as q
from domain.block import BlockResult
from domain.codec import encode
from domain.hashing import merkle_path, merkle_root
from domain.messages import (
    Message,
    MsgAcceptOrder,
    MsgAnswerAudit,
    MsgCloseRound,
    MsgCommitTraces,
    MsgDepositBond,
    MsgPlaceBid,
    MsgProve,
    MsgRegisterProvider,
    MsgReportProvider,
    MsgSubmitOrder,
    Rejection,
    SignedShare,
)
from domain.params import Params
from domain.reasons import ShareReason
from domain.records import (
    Assignment,
    Audit,
    AuditAnswer,
    AuditKind,
    Conditions,
    JobTerms,
    Offer,
    Order,
    Place,
    Round,
    Share,
    ShareClaim,
    ShareRef,
    ShareState,
    TraceLeaf,
)
from pol.rules.commitment import (
    boundary_root,
    possession_sign_bytes,
    share_sign_bytes,
    trace_leaf,
    update_claim,
)
from pol.rules.schedule import first_step, segments_of
from tests.support.chain_harness import CHAIN_ID, Chain, make_genesis, pub_key, sign

CONSUMER = "carol"
PRICE = 10**12
BOND = 10**9
ANY = Conditions()
OFFERED = {field.name for field in fields(Offer)}


def digest(*parts: object) -> bytes:
    """Return 32 bytes that stand for something."""
    return sha256(repr(parts).encode()).digest()


def make_terms(**changes: Any) -> JobTerms:
    """Return the terms of the default job."""
    terms = JobTerms(
        job_id=digest("job"),
        payload_bytes=1_000_000,
        global_root=digest("global"),
        local_root=digest("local"),
        data_root=digest("data"),
        rounds=2,
        samples_per_round=16,
        batch=2,
        segment_length=2,
        work_per_step=10_000_000,
        result_chunks=3,
        executor_version=1,
    )
    return replace(terms, **changes)


def submit(consumer: str = CONSUMER, **changes: Any) -> MsgSubmitOrder:
    """Return the submission of an order; ``terms`` may be given, and the key proof fits whatever is."""
    terms: JobTerms = changes.pop("terms", make_terms())
    key = pub_key("order key of " + consumer)
    proof = sign(key, possession_sign_bytes(CHAIN_ID, consumer, terms.job_id, key))
    message = MsgSubmitOrder(
        consumer=consumer,
        order_key=key,
        key_proof=proof,
        terms=terms,
        conditions=ANY,
        price_limit=PRICE,
        deposit=200_000,
        time_to_live=100,
        deadline=1_000,
        rematch=True,
    )
    return replace(message, **changes)


def bid(validator: str, **changes: Any) -> MsgPlaceBid:
    """Return a bid that fits the default order; ``changes`` are of the offer or of the message."""
    offer = Offer(
        price=PRICE,
        speed=10**9,
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
    """A share with everything that its provider would keep."""

    signed: SignedShare
    leaves: tuple[TraceLeaf, ...]

    @property
    def claim(self) -> ShareClaim:
        return self.signed.claim

    @property
    def ref(self) -> ShareRef:
        return ShareRef(self.claim.slot, self.claim.issue)


def make_trace(order: Order, claim: ShareClaim) -> Trace:
    """Return a claim with a trace of made-up states, its root, and its signature."""
    step = first_step(order.terms, claim.round, claim.first)
    name = (claim.order_id, claim.attempt, claim.round, claim.slot, claim.issue, claim.provider)
    roots = [boundary_root(claim.global_in, claim.local_in)]
    roots += [digest("boundary", name, index) for index in range(1, claim.segments + 1)]
    steps = [step + index * order.terms.segment_length for index in range(claim.segments + 1)]
    metrics = (0x3F800000,)
    hashes = [
        trace_leaf(CHAIN_ID, claim.key, claim.provider, index, steps[index], root, metrics)
        for index, root in enumerate(roots)
    ]
    claim = replace(claim, trace_root=merkle_root(hashes))
    leaves = tuple(
        TraceLeaf(index, steps[index], root, metrics, merkle_path(hashes, index))
        for index, root in enumerate(roots)
    )
    return Trace(sign_share(claim), leaves)


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
        self.clusters = {
            name: tuple(f"{name}p{number}" for number in range(providers))
            for name in self.validators
        }
        everybody = [provider for cluster in self.clusters.values() for provider in cluster]
        genesis = make_genesis((*consumers, *everybody), self.validators, params, stake=stake)
        self.chain = chain(genesis, checked=checked)
        bonds = [MsgDepositBond(name, BOND) for name in (*self.validators, *everybody)]
        joins = [
            MsgRegisterProvider(provider, name)
            for name, cluster in self.clusters.items()
            for provider in cluster
        ]
        self.chain.ok(*bonds, *joins)
        for name in bidders:
            self.chain.ok(bid(name))
        self.traces: dict[tuple[bytes, int, int, ShareRef], Trace] = {}

    # --- looking ---

    def all_of(self, order_id: bytes) -> q.OrderResponse:
        found: q.OrderResponse = self.chain.ask(q.OrderRequest(order_id))
        return found

    def order(self, order_id: bytes) -> Order:
        return self.all_of(order_id).order

    def assignment(self, order_id: bytes) -> Assignment:
        """Return the current attempt."""
        return self.all_of(order_id).assignments[-1]

    def shares(self, order_id: bytes) -> tuple[Share, ...]:
        return self.all_of(order_id).shares

    def round(self, order_id: bytes, round: int) -> Round:
        """Return a closed round of the current attempt."""
        attempt = self.order(order_id).attempt
        rounds = self.all_of(order_id).rounds
        return next(r for r in rounds if (r.attempt, r.round) == (attempt, round))

    def audit(self, order_id: bytes, round: int) -> Audit:
        attempt = self.order(order_id).attempt
        audits = self.all_of(order_id).audits
        return next(a for a in audits if (a.attempt, a.round) == (attempt, round))

    # --- driving an order ---

    def submit(self, message: MsgSubmitOrder | None = None) -> bytes:
        """Submit an order and return its id; a bid that fits takes it in the same block."""
        result = self.chain.ok(message or submit())
        ((_, order_id),) = result.tx_results[0].responses
        return order_id

    def accept(self, order_id: bytes) -> BlockResult:
        assignment = self.assignment(order_id)
        return self.chain.ok(MsgAcceptOrder(assignment.validator, order_id, assignment.attempt))

    def run(self, message: MsgSubmitOrder | None = None) -> bytes:
        """Submit an order that is matched at once, and accept it."""
        order_id = self.submit(message)
        self.accept(order_id)
        return order_id

    def claim(
        self,
        order_id: bytes,
        slot: int = 0,
        first: int = 0,
        count: int = 16,
        issue: int = 1,
        provider: str | None = None,
        **changes: Any,
    ) -> ShareClaim:
        """Return a claim that holds, in the open round."""
        order, assignment = self.order(order_id), self.assignment(order_id)
        cluster = self.clusters[assignment.validator]
        claim = ShareClaim(
            order_id=order_id,
            attempt=assignment.attempt,
            round=assignment.round,
            slot=slot,
            issue=issue,
            first=first,
            count=count,
            provider=provider or cluster[slot % len(cluster)],
            global_in=assignment.global_in,
            local_in=self.local_in(order_id, slot),
            local_out=digest("local out", assignment.round, slot, issue),
            segments=segments_of(order.terms, count),
            trace_root=bytes(32),
            update_root=digest("update", assignment.round, slot, issue),
            executor_version=order.terms.executor_version,
        )
        return replace(claim, **changes)

    def local_in(self, order_id: bytes, slot: int) -> bytes:
        """Return the local state that the slot's last accepted share left, or the order's initial one."""
        attempt = self.order(order_id).attempt
        left = [
            share.claim.local_out
            for share in self.shares(order_id)
            if share.claim.attempt == attempt
            and share.claim.slot == slot
            and share.state is ShareState.ACCEPTED
        ]
        return left[-1] if left else self.order(order_id).terms.local_root

    def trace(
        self, order_id: bytes, slot: int = 0, first: int = 0, count: int = 16, **more: Any
    ) -> Trace:
        """Return a trace that holds, in the open round, and remember it for audits."""
        trace = make_trace(self.order(order_id), self.claim(order_id, slot, first, count, **more))
        claim = trace.claim
        self.traces[order_id, claim.attempt, claim.round, trace.ref] = trace
        return trace

    def commit_message(
        self,
        order_id: bytes,
        *traces: Trace | SignedShare,
        reject: Sequence[tuple[ShareRef, int]] = (),
    ) -> MsgCommitTraces:
        assignment = self.assignment(order_id)
        return MsgCommitTraces(
            validator=assignment.validator,
            order_id=order_id,
            attempt=assignment.attempt,
            round=assignment.round,
            rejections=tuple(Rejection(ref, reason) for ref, reason in reject),
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
            if all(share.drawn for share in standing):
                return
            self.chain.block()
        raise AssertionError("shares are not drawn")

    def close_message(self, order_id: bytes, **changes: Any) -> MsgCloseRound:
        assignment = self.assignment(order_id)
        standing = [
            ShareRef(share.claim.slot, share.claim.issue)
            for share in self.shares(order_id)
            if share.state is ShareState.COMMITTED
        ]
        message = MsgCloseRound(
            validator=assignment.validator,
            order_id=order_id,
            attempt=assignment.attempt,
            round=assignment.round,
            shares=tuple(standing),
            next_root=digest("next", order_id, assignment.attempt, assignment.round),
        )
        return replace(message, **changes)

    def train_round(self, order_id: bytes) -> None:
        """Commit a round in two halves, wait for the draws, close it."""
        half = self.order(order_id).terms.samples_per_round // 2
        first = self.trace(order_id, 0, 0, half)
        second = self.trace(order_id, 1, half, half)
        self.commit(order_id, first, second)
        self.wait_drawn(order_id)
        self.chain.ok(self.close_message(order_id))

    def prove_message(self, order_id: bytes, **changes: Any) -> MsgProve:
        assignment = self.assignment(order_id)
        message = MsgProve(
            validator=assignment.validator,
            order_id=order_id,
            attempt=assignment.attempt,
            final_root=assignment.global_in,
            ciphertext_root=digest("ciphertext", order_id),
            chunks=self.order(order_id).terms.result_chunks,
        )
        return replace(message, **changes)

    def prove(self, order_id: bytes) -> BlockResult:
        return self.chain.ok(self.prove_message(order_id))

    # --- audits ---

    def wait_seats(self, order_id: bytes, round: int, draw: int = 1) -> Audit:
        """Make blocks until a draw of the round's audit has seats."""
        for _ in range(60):
            audit = self.audit(order_id, round)
            if audit.draw >= draw:
                return audit
            self.chain.block()
        raise AssertionError("no seats were drawn")

    def right_answer(self, order_id: bytes, round: int, place: Place) -> AuditAnswer:
        """Return the answer of an auditor who finds what the chain has."""
        closed = self.round(order_id, round)
        work = digest("inner", encode(place))
        if place.kind is AuditKind.AGGREGATION:
            return AuditAnswer(closed.next_root, work)
        ref = ShareRef(place.slot, place.issue)
        trace = self.traces[order_id, closed.attempt, round, ref]
        if place.kind is AuditKind.UPDATE:
            claim = trace.claim
            return AuditAnswer(update_claim(claim.update_root, claim.local_out), work)
        leaf = trace.leaves[place.segment + 1]
        return AuditAnswer(leaf.boundary_root, work, leaf)

    def answer_message(self, order_id: bytes, round: int, auditor: str) -> MsgAnswerAudit:
        audit = self.audit(order_id, round)
        answers = tuple(self.right_answer(order_id, round, place) for place in audit.places)
        return MsgAnswerAudit(auditor, order_id, audit.attempt, round, answers)

    def answer_all(self, order_id: bytes, round: int) -> None:
        """Let every seat that waits answer rightly."""
        audit = self.wait_seats(order_id, round)
        waiting = [seat.validator for seat in audit.seats if not seat.answers and not seat.missed]
        messages: list[Message] = [self.answer_message(order_id, round, name) for name in waiting]
        if messages:
            self.chain.ok(*messages)

    # --- reports ---

    def report_message(
        self, order_id: bytes, trace: Trace, segment: int = 0, **changes: Any
    ) -> MsgReportProvider:
        """Return a report with evidence that holds."""
        claim = trace.claim
        is_update = segment == claim.segments
        indices = (0, claim.segments) if is_update else (segment, segment + 1)
        message = MsgReportProvider(
            validator=self.assignment(order_id).validator,
            order_id=order_id,
            attempt=claim.attempt,
            round=claim.round,
            ref=trace.ref,
            segment=segment,
            leaves=tuple(trace.leaves[index] for index in indices),
            replayed_root=digest("replayed"),
        )
        return replace(message, **changes)

    def settle(self, order_id: bytes) -> None:
        """Take a running order to its end: rounds, proof, audits, windows."""
        rounds = self.order(order_id).terms.rounds
        for round in range(self.assignment(order_id).round, rounds):
            self.train_round(order_id)
            self.answer_all(order_id, round)
        self.prove(order_id)
        self.chain.pass_time(self.order(order_id).params.round_window + 2)
