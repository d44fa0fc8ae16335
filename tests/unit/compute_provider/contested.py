"""An order in which a panel has ruled against segments of a provider's share, and the ruling can be appealed."""

from dataclasses import replace

from domain.proof.queries import OrderResponse
from domain.proof.records import (
    AnswerKind,
    AuditKind,
    AuditPlace,
    Finding,
    Panel,
    PanelPlace,
    Ruling,
    Share,
    ShareClaim,
    ShareRoots,
    ShareState,
)
from tests.unit.compute_provider import support as s

KEY = s.task().key
CLAIM = ShareClaim(
    order_id=KEY.order_id,
    leg=KEY.leg,
    round=KEY.round,
    slot=KEY.slot,
    issue=KEY.issue,
    provider=s.PROVIDER.address,
    commitment=bytes(32),
)
UNTIL = 100
FOUND = Finding(AnswerKind.FINISHED, bytes(32), 0)
ROOTS = ShareRoots(trace_root=bytes(32), update_root=bytes(32), local_out=bytes(32), metrics=(), segments=5)


def place(segment: int = 2, **changes: object) -> PanelPlace:
    where = AuditPlace(kind=AuditKind.SEGMENT, slot=KEY.slot, issue=KEY.issue, segment=segment)
    known = PanelPlace(place=where, claim=b"\1" * 32, ruling=Ruling.WRONG, stage=2, finding=FOUND)
    return replace(known, **changes)  # type: ignore[arg-type]


def ruled(*places: PanelPlace, dispute: int = 0, **changes: object) -> OrderResponse:
    panel = Panel(
        order_id=KEY.order_id,
        leg=KEY.leg,
        round=KEY.round,
        places=places,
        stage=2,
        seed=bytes(32),
        commits_end=0,
        reveals_end=0,
        is_last=False,
        is_open=False,
        wanted=(0,),
        seats=9,
        first_seat=3,
        committed=6,
        revealed=6,
        is_settled=False,
        eligible=9,
        stake=9,
        load=0,
        dispute=dispute,
        appeal_until=UNTIL,
    )
    share = Share(CLAIM, bytes(64), bytes(32), 1, 1, ShareState.ACCEPTED, 0, 0, 0, (1,), ROOTS, is_received=True)
    known = replace(panel, **changes)  # type: ignore[arg-type]
    return replace(s.order(), shares=(share,), panels=(known,))
