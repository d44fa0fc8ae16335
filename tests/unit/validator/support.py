"""A validator's record of one leg, and a chain that says what a test wants: real records, made by hand."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from domain.keys import PanelKey, ShareKey, ShareRef
from domain.ledger.records import Escrow
from domain.legs.records import Leg, LegState
from domain.market.records import Order, OrderState
from domain.params import local_params
from domain.proof.queries import OrderResponse
from domain.proof.records import (
    AuditKind,
    AuditPlace,
    Panel,
    PanelPlace,
    PanelSeat,
    Round,
    Ruling,
    Share,
    ShareClaim,
    ShareRoots,
    ShareState,
)
from link.types import (
    BlobRef,
    PayloadFile,
    ShareDelivery,
    ShareSubmission,
    StateRef,
    TraceBoundary,
)
from pol.rules.commitment import compute_trace_root, share_commitment
from pol.rules.schedule import first_step, share_segments
from tests.support.chain_market import ANY, digest, make_terms
from validator.decide.plan import FreeProvider
from validator.decide.receive import job_loaded, payload_complete, payload_offered
from validator.decide.records import LocalOrder, PayloadStage, SlotWork, new_order
from validator.decide.traces import leaves_of
from validator.decide.view import OwnPanel, View

CHAIN_ID = "assay-test"
ME, OTHER, CONSUMER = "v0", "v1", "carol"
ORDER_ID = digest("order")
TERMS = make_terms(
    rounds=2,
    slots=2,
    round_steps=8,
    batch=2,
    segment_steps=2,
    global_bytes=100,
    local_bytes=50,
    update_bytes=90,
)
PARAMS = local_params().for_order()
GLOBAL, LOCAL = BlobRef(TERMS.global_root, 100), BlobRef(TERMS.local_root, 50)
FILES = (
    PayloadFile("job.json", BlobRef(TERMS.job_id, 10)),
    PayloadFile("global.state", GLOBAL),
    PayloadFile("local.state", LOCAL),
)
WORKERS = (FreeProvider("p0", 10**9), FreeProvider("p1", 10**9))


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
        legs=1,
        failures=0,
        opened_at=0,
        opened_height=0,
        expires_at=100,
        excluded=(),
        close_reason=0,
        unmatched=(),
        work_verified=0,
        params=PARAMS,
        audit_ms=100,
        window=PARAMS.round_window,
    )
    return replace(made, **changes)


def leg(**changes: Any) -> Leg:
    made = Leg(
        order_id=ORDER_ID,
        number=1,
        bid_id=bytes(32),
        validator=ME,
        price=10**12,
        tier="exact",
        first_round=0,
        rounds=TERMS.rounds,
        first_slot=0,
        slots=TERMS.slots,
        work=10**9,
        job_bond=100,
        providers_bps=7_000,
        slot_speed=10**9,
        slots_at_once=2,
        state=LegState.RUNNING,
        end_reason=0,
        matched_at=0,
        accept_deadline=20,
        progress_deadline=300,
        round=0,
        verified=0,
        void=0,
        initial_root=TERMS.global_root,
        global_in=TERMS.global_root,
        settles_at=0,
    )
    return replace(made, **changes)


def chain(**changes: Any) -> OrderResponse:
    """Return an order that this validator runs; ``assigned`` and ``ordered`` change parts.

    The leg has all rounds and slots of the order unless ``assigned`` says otherwise.
    """
    ordered = changes.pop("ordered", {})
    terms = ordered.get("terms", TERMS)
    assigned = {"rounds": terms.rounds, "slots": terms.slots, **changes.pop("assigned", {})}
    made = OrderResponse(order(**ordered), (leg(**assigned),), (), (), (), (), Escrow(ORDER_ID, (), ()), ())
    return replace(made, **changes)


def view(chain: OrderResponse, clock: int = 10, **changes: Any) -> View:
    made = View(chain, clock, -1_000, ME, CHAIN_ID, WORKERS, b"secret")
    return replace(made, **changes)


def loaded() -> LocalOrder:
    """Return the record of a leg whose job is loaded."""
    local = payload_complete(payload_offered(new_order(ORDER_ID, 1), FILES))
    return job_loaded(local, TERMS, TERMS, "")


def packet_of(local: LocalOrder, work: SlotWork, round: int = 0, **changes: Any) -> ShareDelivery:
    """Return what the share's provider would deliver; ``changes`` are of its roots."""
    start = first_step(TERMS, round)
    boundaries = tuple(
        TraceBoundary(start + i * TERMS.segment_steps, digest("boundary", work.slot, i), (0x3F800000,))
        for i in range(1, share_segments(TERMS) + 1)
    )
    roots = ShareRoots(
        bytes(32),
        digest("update", work.slot),
        digest("local out", work.slot),
        (0x3F800000,),
        len(boundaries),
    )
    blobs = (BlobRef(digest("update", work.slot), 90), BlobRef(digest("out", work.slot), 50))
    key = ShareKey(ORDER_ID, 1, round, work.slot, work.issue)
    packet = ShareDelivery(key, roots, boundaries, *blobs)
    bound = replace(roots, trace_root=compute_trace_root(leaves_of(packet)))
    return replace(packet, roots=replace(bound, **changes))


def ended(packet: ShareDelivery, segments: int) -> ShareDelivery:
    """Return the delivery of a share that ends after so many segments, because the job stops."""
    boundaries = packet.boundaries[:segments]
    short = replace(packet, boundaries=boundaries, update=None, local_out=None)
    root = compute_trace_root(leaves_of(short)) if boundaries else b""
    metrics = boundaries[-1].metrics if boundaries else ()
    return replace(short, roots=ShareRoots(root, b"", b"", metrics, segments))


def claim_of(local: LocalOrder, work: SlotWork, packet: ShareDelivery | None = None, **changes: Any) -> ShareClaim:
    """Return the commitment to what the share's provider would deliver."""
    packet = packet or packet_of(local, work)
    current = next(r for r in local.rounds if r.round == packet.key.round)
    made = share_commitment(
        CHAIN_ID,
        packet.key,
        work.provider,
        (current.global_in.root, work.local_in.root),
        1,
        packet.roots,
    )
    key = packet.key
    claim = ShareClaim(ORDER_ID, 1, key.round, key.slot, key.issue, work.provider, made)
    return replace(claim, **changes)


def signed_of(local: LocalOrder, work: SlotWork, round: int = 0) -> ShareSubmission:
    """Return the commitment as its provider would send it."""
    return ShareSubmission(claim_of(local, work, packet_of(local, work, round)), bytes(64))


def share_of(signed: ShareSubmission, **changes: Any) -> Share:
    """Return a share on chain: committed, and drawn unless ``is_drawn`` says otherwise."""
    share = Share(signed.claim, bytes(64), TERMS.local_root, 1, 1, ShareState.COMMITTED, 0, 1, 1, (1,), None, True)
    return replace(share, **changes)


def closed(round: int = 0, **changes: Any) -> Round:
    made = Round(
        order_id=ORDER_ID,
        leg=1,
        round=round,
        global_in=TERMS.global_root,
        next_root=digest("next", round),
        ciphertext_root=b"",
        shares=(ShareRef(0, 1), ShareRef(1, 1)),
        work=1,
        closed_at=10,
        closed_height=10,
        window_ends=20,
        verified=False,
        void=False,
    )
    return replace(made, **changes)


def panel(*places: AuditPlace, round: int = 0, **changes: Any) -> Panel:
    """Return a panel in its first stage, with one seat."""
    made = Panel(
        order_id=ORDER_ID,
        leg=1,
        round=round,
        places=tuple(PanelPlace(place, b"", Ruling.OPEN, 0, None) for place in places),
        stage=1,
        seed=digest("stage"),
        commits_end=15,
        reveals_end=20,
        is_last=False,
        is_open=True,
        wanted=(0,),
        seats=1,
        first_seat=0,
        committed=0,
        revealed=0,
        eligible=1,
        stake=1,
        load=1,
        is_settled=False,
    )
    return replace(made, **changes)


def seat(number: int = 0, validator: str = OTHER, places: tuple[int, ...] = (0,)) -> PanelSeat:
    return PanelSeat(ORDER_ID, 1, 0, number, validator, 1, 1, places, b"", (), revealed=False)


def about(*places: AuditPlace, round: int = 0, validator: str = OTHER, **changes: Any) -> dict[PanelKey, OwnPanel]:
    """Return what this validator sees of the panel about a round of its own, in which another one has a seat."""
    numbers = tuple(range(len(places)))
    seen = OwnPanel(panel(*places, round=round, **changes), (seat(0, validator, numbers),))
    return {PanelKey(ORDER_ID, 1, round, 0): seen}


def segment(index: int, slot: int = 0) -> AuditPlace:
    return AuditPlace(AuditKind.SEGMENT, slot, 1, index)


def state(name: str, size: int = 100) -> StateRef:
    return StateRef(digest(name), BlobRef(digest(name), size))


def works(local: LocalOrder) -> Iterator[SlotWork]:
    for current in local.rounds:
        yield from current.works


def share_key(slot: int = 0, issue: int = 1, round: int = 0) -> ShareKey:
    return ShareKey(ORDER_ID, 1, round, slot, issue)


assert loaded().payload.stage == PayloadStage.LOADED
