"""How the record changes when something arrives: pure functions from (record, what came) to the new record."""

from collections.abc import Callable
from dataclasses import replace

from chain.types.reasons import AttemptEnd, ShareReason
from chain.types.records import JobTerms, ShareClaim
from cluster.types import BlobRef, OpeningSubmission, PayloadFile, ShareSubmission, StateRef
from validator.decide import find_round, replace_round
from validator.records import (
    Checked,
    LocalOrder,
    Opening,
    PayloadStage,
    SealedResult,
    SlotWork,
)
from validator.tasks import find_work
from validator.traces import check_packet

GLOBAL_FILE, LOCAL_FILE, JOB_FILE = "global.state", "local.state", "job.json"


def payload_offered(local: LocalOrder, files: tuple[PayloadFile, ...]) -> LocalOrder:
    """Record the files that the consumer is going to send."""
    payload = replace(local.payload, stage=PayloadStage.OFFERED, files=files)
    return replace(local, payload=payload)


def payload_complete(local: LocalOrder) -> LocalOrder:
    """Record that all blobs are here."""
    return replace(local, payload=replace(local.payload, stage=PayloadStage.COMPLETE))


def job_loaded(
    local: LocalOrder, ordered: JobTerms, terms: JobTerms | None, text: str
) -> LocalOrder:
    """Record what loading found: the job agrees with the order, or the reason to decline."""
    payload = local.payload
    if terms == ordered:
        blobs = {file.path: file.blob for file in payload.files}
        payload = replace(
            payload,
            stage=PayloadStage.LOADED,
            initial_global=StateRef(ordered.global_root, blobs[GLOBAL_FILE]),
            initial_local=StateRef(ordered.local_root, blobs[LOCAL_FILE]),
        )
    elif terms is None:
        payload = replace(
            payload,
            stage=PayloadStage.BAD,
            decline=int(AttemptEnd.DECLINED_BAD_JOB),
            text=text[:512],
        )
    else:
        odd = [
            name for name in JobTerms.__slots__ if getattr(terms, name) != getattr(ordered, name)
        ]
        payload = replace(
            payload,
            stage=PayloadStage.BAD,
            decline=int(AttemptEnd.DECLINED_WORK_MISMATCH),
            text=f"the job differs from the order in {', '.join(odd)}",
        )
    return replace(local, payload=payload)


def share_received(
    local: LocalOrder,
    terms: JobTerms,
    chain_id: str,
    packet: ShareSubmission,
    signature_holds: Callable[[], bool],
) -> tuple[LocalOrder, ShareReason]:
    """Take a share, or say what is wrong with it; a share that is wrong on its face ends its issue."""
    claim = packet.claim
    current = find_round(local, claim.round)
    work = find_work(current, claim.slot, claim.issue) if current else None
    if current is None or work is None or work.provider != claim.provider:
        return local, ShareReason.MALFORMED
    if work.packet is not None:
        return local, ShareReason.NONE if work.packet == packet else ShareReason.SLOT_TAKEN
    if work.verdict:
        return local, ShareReason.LATE
    expected = ShareClaim(
        order_id=local.order_id,
        attempt=local.attempt,
        round=current.number,
        slot=work.slot,
        issue=work.issue,
        first=work.first,
        count=work.count,
        provider=work.provider,
        global_in=current.global_in.root,
        local_in=work.local_in.root,
        local_out=b"",
        segments=0,
        trace_root=b"",
        update_root=b"",
        executor_version=terms.executor_version,
    )
    reason = check_packet(chain_id, terms, expected, packet)
    if reason == ShareReason.NONE and not signature_holds():
        reason = ShareReason.BAD_SIGNATURE
    ended = replace(work, verdict=reason, settled=True)
    changed = ended if reason else replace(work, packet=packet)
    return _with_work(local, claim.round, changed), reason


def late_share(local: LocalOrder, packet: ShareSubmission) -> bool:
    """Tell whether a share came for an issue that was given up because nothing had come."""
    current = find_round(local, packet.claim.round)
    work = find_work(current, packet.claim.slot, packet.claim.issue) if current else None
    return work is not None and work.verdict in (ShareReason.NO_ANSWER, ShareReason.LATE)


def mark_late(local: LocalOrder, packet: ShareSubmission) -> LocalOrder:
    """Record that an answer came after all, too late: the issue ended with NO_ANSWER until now."""
    current = find_round(local, packet.claim.round)
    work = find_work(current, packet.claim.slot, packet.claim.issue) if current else None
    if work is None or work.verdict != ShareReason.NO_ANSWER or work.packet is not None:
        return local
    return _with_work(local, packet.claim.round, replace(work, verdict=ShareReason.LATE))


def share_skipped(local: LocalOrder, number: int, slot: int, issue: int, reason: int) -> LocalOrder:
    """Record that the chain skipped a share of a commitment."""
    current = find_round(local, number)
    work = find_work(current, slot, issue) if current else None
    if work is None or work.verdict:
        return local
    return _with_work(local, number, replace(work, verdict=reason, settled=True))


def opening_received(local: LocalOrder, opening: OpeningSubmission) -> LocalOrder | None:
    """Record the states at a boundary; None if the share is not known."""
    key = opening.key
    current = find_round(local, key.round)
    work = find_work(current, key.slot, key.issue) if current else None
    if work is None:
        return None
    return state_at_hand(
        local, key.round, work, opening.index, opening.global_state, opening.local_state
    )


def state_at_hand(
    local: LocalOrder,
    number: int,
    work: SlotWork,
    index: int,
    global_state: BlobRef,
    local_state: BlobRef,
) -> LocalOrder:
    """Record that the states at a boundary are held (from the provider, or recomputed)."""
    if any(held.index == index for held in work.openings):
        return local
    opening = Opening(index, global_state, local_state)
    return _with_work(local, number, replace(work, openings=(*work.openings, opening)))


def place_checked(
    local: LocalOrder, number: int, slot: int, issue: int, checked: Checked
) -> LocalOrder:
    """Record the outcome of a replay."""
    current = find_round(local, number)
    work = find_work(current, slot, issue) if current else None
    if work is None or any(done.place == checked.place for done in work.checked):
        return local
    return _with_work(local, number, replace(work, checked=(*work.checked, checked)))


def sealed(local: LocalOrder, result: SealedResult) -> LocalOrder:
    """Record the encrypted result."""
    return replace(local, result=result)


def _with_work(local: LocalOrder, number: int, changed: SlotWork) -> LocalOrder:
    current = find_round(local, number)
    if current is None:
        return local
    works = tuple(
        changed if (w.slot, w.issue) == (changed.slot, changed.issue) else w for w in current.works
    )
    return replace_round(local, replace(current, works=works))
