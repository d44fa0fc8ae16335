"""A validator's record of one attempt, and a chain that says what a test wants: real records, made by hand."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from domain.hashing import merkle_root
from domain.params import local_params
from domain.queries import OrderResponse
from domain.records import (
    Assignment,
    AssignmentState,
    Audit,
    AuditKind,
    Escrow,
    Order,
    OrderState,
    Place,
    Round,
    Seat,
    Share,
    ShareClaim,
    ShareKey,
    ShareRef,
    ShareState,
)
from link.types import BlobRef, Leaf, PayloadFile, ShareSubmission, StateRef
from pol.rules.commitment import boundary_root
from pol.rules.schedule import first_step, segments_of
from tests.support.chain_market import ANY, digest, make_terms
from validator.decide.plan import Worker
from validator.decide.receive import job_loaded, payload_complete, payload_offered
from validator.decide.records import LocalOrder, PayloadStage, SlotWork, new_order
from validator.decide.traces import leaf_hashes
from validator.decide.view import View

CHAIN_ID = "assay-test"
ME, OTHER, CONSUMER = "v0", "v1", "carol"
ORDER_ID = digest("order")
TERMS = make_terms(samples_per_round=32, batch=2, segment_length=2, rounds=2)
PARAMS = local_params().for_order()
GLOBAL, LOCAL = BlobRef(TERMS.global_root, 100), BlobRef(TERMS.local_root, 50)
FILES = (
    PayloadFile("job.json", BlobRef(TERMS.job_id, 10)),
    PayloadFile("global.state", GLOBAL),
    PayloadFile("local.state", LOCAL),
)
WORKERS = (Worker("p0", 10**9, 64), Worker("p1", 10**9, 64))


def order(**changes: Any) -> Order:
    made = Order(
        id=ORDER_ID,
        consumer=CONSUMER,
        order_key=bytes(33),
        terms=TERMS,
        conditions=ANY,
        price_limit=10**12,
        time_to_live=100,
        deadline=10_000,
        rematch=True,
        state=OrderState.RUNNING,
        attempt=1,
        failures=0,
        opened_at=0,
        opened_height=0,
        expires_at=100,
        excluded=(),
        close_reason=0,
        unmatched=(),
        work_verified=0,
        params=PARAMS,
    )
    return replace(made, **changes)


def assignment(**changes: Any) -> Assignment:
    made = Assignment(
        order_id=ORDER_ID,
        attempt=1,
        validator=ME,
        bid_id=bytes(32),
        price=10**12,
        work=10**9,
        job_bond=100,
        providers_bps=7_000,
        speed=10**9,
        state=AssignmentState.RUNNING,
        end_reason=0,
        matched_at=0,
        accept_deadline=20,
        progress_deadline=300,
        round=0,
        global_in=TERMS.global_root,
        ciphertext_root=b"",
        final_root=b"",
    )
    return replace(made, **changes)


def chain(**changes: Any) -> OrderResponse:
    """Return an order that this validator runs; ``assigned`` and ``ordered`` change parts."""
    assigned, ordered = changes.pop("assigned", {}), changes.pop("ordered", {})
    made = OrderResponse(
        order(**ordered), (assignment(**assigned),), (), (), (), (), Escrow(ORDER_ID, (), ()), ()
    )
    return replace(made, **changes)


def view(chain: OrderResponse, clock: int = 10, **changes: Any) -> View:
    made = View(chain, clock, -1_000, ME, CHAIN_ID, WORKERS, b"secret")
    return replace(made, **changes)


def loaded() -> LocalOrder:
    """Return the record of an attempt whose job is loaded."""
    local = payload_complete(payload_offered(new_order(ORDER_ID, 1), FILES))
    return job_loaded(local, TERMS, TERMS, "")


def claim_of(local: LocalOrder, work: SlotWork, round: int = 0, **changes: Any) -> ShareClaim:
    current = next(r for r in local.rounds if r.round == round)
    claim = ShareClaim(
        order_id=ORDER_ID,
        attempt=1,
        round=round,
        slot=work.slot,
        issue=work.issue,
        first=work.first,
        count=work.count,
        provider=work.provider,
        global_in=current.global_in.root,
        local_in=work.local_in.root,
        local_out=digest("local out", work.slot),
        segments=segments_of(TERMS, work.count),
        trace_root=bytes(32),
        update_root=digest("update", work.slot),
        executor_version=1,
    )
    return replace(claim, **changes)


def packet_of(local: LocalOrder, work: SlotWork, round: int = 0, **changes: Any) -> ShareSubmission:
    """Return a share as its provider would send it; ``changes`` are of its claim."""
    claim = claim_of(local, work, round, **changes)
    start = first_step(TERMS, round, work.first)
    roots = [boundary_root(claim.global_in, claim.local_in)]
    roots += [digest("boundary", work.slot, i) for i in range(1, claim.segments + 1)]
    leaves = tuple(
        Leaf(i, start + i * TERMS.segment_length, root, (0x3F800000,) if i else ())
        for i, root in enumerate(roots)
    )
    blobs = (BlobRef(digest("update", work.slot), 90), BlobRef(digest("out", work.slot), 50))
    packet = ShareSubmission(claim, bytes(64), leaves, *blobs)
    if "trace_root" not in changes:
        root = merkle_root(leaf_hashes(CHAIN_ID, packet))
        packet = replace(packet, claim=replace(claim, trace_root=root))
    return packet


def share_of(packet: ShareSubmission, **changes: Any) -> Share:
    """Return a share on chain: committed, and drawn unless ``drawn`` says otherwise."""
    share = Share(packet.claim, bytes(64), 1, 1, ShareState.COMMITTED, 0, 1, 1, (1,))
    return replace(share, **changes)


def closed(round: int = 0, **changes: Any) -> Round:
    made = Round(
        order_id=ORDER_ID,
        attempt=1,
        round=round,
        global_in=TERMS.global_root,
        next_root=digest("next", round),
        shares=(ShareRef(0, 1), ShareRef(1, 1)),
        work=1,
        closed_at=10,
        closed_height=10,
        window_ends=20,
        verified=False,
        void=False,
    )
    return replace(made, **changes)


def audit(*places: Place, round: int = 0, **changes: Any) -> Audit:
    made = Audit(
        ORDER_ID, 1, round, 1, places, (Seat(OTHER, (), 0, missed=False),), 15, agreed=False
    )
    return replace(made, **changes)


def segment(index: int, slot: int = 0) -> Place:
    return Place(AuditKind.SEGMENT, slot, 1, index)


def state(name: str, size: int = 100) -> StateRef:
    return StateRef(digest(name), BlobRef(digest(name), size))


def works(local: LocalOrder) -> Iterator[SlotWork]:
    for current in local.rounds:
        yield from current.works


def share_key(slot: int = 0, issue: int = 1, round: int = 0) -> ShareKey:
    return ShareKey(ORDER_ID, 1, round, slot, issue)


assert loaded().payload.stage == PayloadStage.LOADED
