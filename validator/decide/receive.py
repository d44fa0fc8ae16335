"""Pure functions that apply an arrival to the record of a leg. Each function returns the new record."""

from collections.abc import Callable
from dataclasses import replace

from domain.keys import ShareKey
from domain.legs.reasons import LegEnd
from domain.market.records import JobTerms
from domain.proof.events import ShareSkipped
from domain.proof.queries import OrderResponse
from domain.proof.reasons import SILENCES, ShareReason
from link.types import (
    BlobRef,
    OpeningSubmission,
    PayloadFile,
    ShareDelivery,
    ShareSubmission,
    StateRef,
)
from pol.work.trials import Trial
from validator.decide.records import (
    GLOBAL_FILE,
    LOCAL_FILE,
    CheckedSegment,
    LocalOrder,
    Opening,
    PayloadStage,
    SealedResult,
    SlotWork,
    exclude,
)
from validator.decide.traces import check_packet


def payload_offered(local: LocalOrder, files: tuple[PayloadFile, ...]) -> LocalOrder:
    """Record the files that the consumer will upload."""
    payload = replace(local.payload, stage=PayloadStage.OFFERED, files=files)
    return replace(local, payload=payload)


def payload_complete(local: LocalOrder) -> LocalOrder:
    """Record that all files of the payload have arrived."""
    return replace(local, payload=replace(local.payload, stage=PayloadStage.COMPLETE))


def job_loaded(local: LocalOrder, ordered: JobTerms, terms: JobTerms | None, text: str) -> LocalOrder:
    """Record the result of loading the job: it agrees with the order, or there is a reason to decline.

    ``ordered`` has the order's terms, and ``terms`` has the terms of the loaded job. If the job does not load,
    ``terms`` is None and ``text`` is the reason.
    """
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
            decline=int(LegEnd.DECLINED_BAD_JOB),
            text=text[:512],
        )
    else:
        different = [name for name in JobTerms.__slots__ if getattr(terms, name) != getattr(ordered, name)]
        payload = replace(
            payload,
            stage=PayloadStage.BAD,
            decline=int(LegEnd.DECLINED_WORK_MISMATCH),
            text=f"the job differs from the order in {', '.join(different)}",
        )
    return replace(local, payload=payload)


def job_tried(local: LocalOrder, ordered: JobTerms, trial: Trial) -> LocalOrder:
    """Record the result of a trial; a later result does not replace it."""
    if local.payload.stage is not PayloadStage.COMPLETE:
        return local
    if not trial.decline:
        return job_loaded(local, ordered, trial.terms, trial.text)
    payload = replace(local.payload, stage=PayloadStage.BAD, decline=int(trial.decline), text=trial.text[:512])
    return replace(local, payload=payload)


def share_received(
    local: LocalOrder, submission: ShareSubmission, signature_holds: Callable[[], bool]
) -> tuple[LocalOrder, ShareReason]:
    """Record the commitment to a share, or return the reason to refuse it. A wrong signature ends the issue."""
    claim = submission.claim
    at = local.share(claim.key)
    if at is None or at.work.provider != claim.provider:
        return local, ShareReason.MALFORMED
    work = at.work
    if work.signed is not None:
        return local, ShareReason.NONE if work.signed == submission else ShareReason.SLOT_TAKEN
    if work.verdict:
        return local, ShareReason.LATE
    reason = ShareReason.NONE if signature_holds() else ShareReason.BAD_SIGNATURE
    ended = replace(work, verdict=reason, settled=True)
    changed = ended if reason else replace(work, signed=submission)
    return at.put(changed), reason


def share_delivered(
    local: LocalOrder, terms: JobTerms, chain_id: str, provider: str, packet: ShareDelivery
) -> tuple[LocalOrder, ShareReason]:
    """Record the results that a commitment hides, or return the reason to refuse them.

    If the results do not hash to the commitment, or have wrong sizes, the issue ends.
    """
    at = local.share(packet.key)
    if at is None or at.work.provider != provider or at.work.signed is None:
        return local, ShareReason.MALFORMED
    work = at.work
    if work.packet is not None:
        return local, ShareReason.NONE if work.packet == packet else ShareReason.SLOT_TAKEN
    if work.verdict:
        return local, ShareReason.LATE
    opening = (at.current.global_in.root, work.local_in.root)
    reason = check_packet(chain_id, terms, at.work.signed.claim, opening, packet)
    if reason == ShareReason.NONE and not _sizes_hold(terms, packet):
        reason = ShareReason.MALFORMED
    changed = replace(work, verdict=reason) if reason else replace(work, packet=packet)
    return at.put(changed), reason


def _sizes_hold(terms: JobTerms, packet: ShareDelivery) -> bool:
    """Return whether the blobs have the sizes of an update and a local state, so that no process reads a huge blob."""
    if packet.update is None or packet.local_out is None:
        return True  # the share ends where the job stopped
    sizes = packet.update.size, packet.local_out.size
    return sizes == (terms.update_bytes, terms.local_bytes)


def late_share(local: LocalOrder, submission: ShareSubmission) -> bool:
    """Return whether a commitment is for an issue that this validator has ended because no answer had arrived."""
    at = local.share(submission.claim.key)
    if at is None or at.work.signed is not None:
        return False
    return ShareReason(at.work.verdict) in SILENCES


def mark_late(local: LocalOrder, submission: ShareSubmission) -> LocalOrder:
    """Change the verdict of an issue from NO_ANSWER to LATE, because an answer has arrived after the time was over."""
    at = local.share(submission.claim.key)
    if at is None or at.work.verdict != ShareReason.NO_ANSWER or at.work.signed is not None:
        return local
    return at.put(replace(at.work, verdict=ShareReason.LATE))


def share_skipped(local: LocalOrder, on_chain: OrderResponse, skipped: ShareSkipped) -> LocalOrder:
    """Record that the chain skipped a share when it was committed.

    Do nothing if the share is on the chain (``on_chain``), because the chain also skips a share whose commitment is
    sent for the second time.
    """
    at = local.share(skipped.share)
    if at is None or at.work.verdict or on_chain.share(skipped.share) is not None:
        return local
    return at.put(replace(at.work, verdict=skipped.reason, settled=True))


def opening_received(local: LocalOrder, opening: OpeningSubmission) -> LocalOrder | None:
    """Record the states at a boundary; return None if the share is unknown or the states have a wrong size."""
    payload = local.payload
    at = local.share(opening.key)
    if at is None or payload.initial_global is None or payload.initial_local is None:
        return None
    sizes = (payload.initial_global.blob.size, payload.initial_local.blob.size)
    if (opening.global_state.size, opening.local_state.size) != sizes:
        return None
    if any(known.index == opening.index for known in at.work.openings):
        return local
    received = Opening(opening.index, opening.global_state, opening.local_state, verified=False)
    return at.put(_with_opening(at.work, received))


def opening_verified(local: LocalOrder, key: ShareKey, index: int, *, holds: bool) -> LocalOrder:
    """Record whether states that a provider sent hash to the share's leaf.

    If not, drop the states and give the provider no more work in this order.
    """
    at = local.share(key)
    if at is None:
        return local
    if holds:
        return at.put(_with_verified(at.work, index))
    others = tuple(opening for opening in at.work.openings if opening.index != index or opening.verified)
    return exclude(at.put(replace(at.work, openings=others)), at.work.provider)


def state_recomputed(
    local: LocalOrder, key: ShareKey, index: int, states: tuple[BlobRef, BlobRef] | None
) -> LocalOrder:
    """Record states that this validator recomputed; ``states`` is None if they do not hash to the share's leaf.

    Such a share is wrong in a segment that was not drawn. The round is closed, so the validator can no longer reject
    the share on the chain. But its provider gets no more work in this order.
    """
    at = local.share(key)
    if at is None:
        return local
    if states is None:
        broken = tuple(sorted({*at.work.broken, index}))
        return exclude(at.put(replace(at.work, broken=broken)), at.work.provider)
    opening = Opening(index, *states, verified=True)
    return at.put(_with_opening(at.work, opening))


def segment_checked(local: LocalOrder, key: ShareKey, checked: CheckedSegment) -> LocalOrder:
    """Record the outcome of replaying a segment. If the segment's initial states were right, mark them as verified."""
    at = local.share(key)
    if at is None or any(done.segment == checked.segment for done in at.work.checked):
        return local
    work = at.work
    if checked.reason != ShareReason.OPENING_MISMATCH:
        # Segment i starts at boundary i.
        work = _with_verified(work, checked.segment)
    done = sorted((*work.checked, checked), key=lambda done: done.segment)
    return at.put(replace(work, checked=tuple(done)))


def _with_opening(work: SlotWork, opening: Opening) -> SlotWork:
    others = (known for known in work.openings if known.index != opening.index)
    openings = sorted((*others, opening), key=lambda each: each.index)
    return replace(work, openings=tuple(openings))


def _with_verified(work: SlotWork, index: int) -> SlotWork:
    openings = tuple(replace(each, verified=True) if each.index == index else each for each in work.openings)
    return replace(work, openings=openings)


def sealed(local: LocalOrder, round: int, result: SealedResult) -> LocalOrder:
    """Record the encrypted final states of a round."""
    current = local.find(round)
    return local if current is None else local.put(replace(current, sealed=result))
