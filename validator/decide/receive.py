"""Pure functions that apply an arrival to the record of a leg. Each function returns the new record."""

from collections.abc import Callable, Collection
from dataclasses import replace

from domain.keys import ShareKey
from domain.legs.reasons import LegEnd
from domain.market.records import JobTerms
from domain.proof.events import ShareSkipped
from domain.proof.queries import OrderResponse
from domain.proof.reasons import MISMATCHES, SILENCES, ShareReason
from domain.proof.records import ShareClaim
from link.types import (
    BlobRef,
    DeliveryOffer,
    OpeningSubmission,
    PayloadFile,
    ShareDelivery,
    ShareSubmission,
    ShownKey,
    StateRef,
)
from pol.rules.commitment import share_commitment
from pol.rules.delivery import delivery_key_hash
from pol.rules.stops import check_roots
from pol.work.trials import Trial
from validator.decide.alarms import find_alarms
from validator.decide.records import (
    GLOBAL_FILE,
    LOCAL_FILE,
    CheckedSegment,
    LocalOrder,
    Opening,
    PayloadStage,
    SealedResult,
    SlotWork,
    WrongPieces,
    exclude,
)
from validator.decide.traces import check_packet

_INCLUDABLE = frozenset({ShareReason.NO_BOND, ShareReason.NOT_IN_CLUSTER, ShareReason.OTHER_COMMITMENT})
"""Reasons for which the chain skips a commitment, although its provider may still put a share on chain itself."""


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
    """Record the commitment to a share, or return the reason to refuse it.

    A wrong signature is refused, and so are other numbers about its bonds than the task states. They end nothing: until
    the deadline of its task, the provider can put the right share on chain itself.
    """
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
    if (claim.multiple, claim.cover) != (work.backing.multiple, work.backing.cover):
        reason = ShareReason.MALFORMED
    return (local if reason else at.put(replace(work, signed=submission))), reason


def delivery_offered(
    local: LocalOrder, provider: str, offer: DeliveryOffer, signature_holds: Callable[[ShareClaim], bool]
) -> tuple[LocalOrder, ShareReason]:
    """Record an encrypted delivery, or return the reason to refuse it. It can come before its commitment is on chain.

    A wrong signature ends nothing: another delivery may follow.
    """
    at = local.share(offer.key)
    if at is None or at.work.provider != provider or at.work.signed is None:
        return local, ShareReason.MALFORMED
    work = at.work
    if work.offer is not None:
        return local, ShareReason.NONE if work.offer == offer else ShareReason.SLOT_TAKEN
    if work.verdict:
        return local, ShareReason.LATE
    if not signature_holds(at.work.signed.claim):
        return local, ShareReason.BAD_SIGNATURE
    return at.put(replace(work, offer=offer)), ShareReason.NONE


def delivery_passed(local: LocalOrder, offer: DeliveryOffer) -> tuple[LocalOrder, ShareReason]:
    """Record an encrypted delivery that a witness passes on, or return the reason to refuse it.

    Its manifest is the one on chain, and the provider may have sent another one, or no ciphertext for it. So what a
    witness has replaces any delivery that was not complete.
    """
    at = local.share(offer.key)
    if at is None or at.work.signed is None:
        return local, ShareReason.MALFORMED
    work = at.work
    is_here = work.offer is not None and work.offer_holds and work.offer.manifest == offer.manifest
    if work.offer == offer or is_here:
        return local, ShareReason.NONE
    if work.verdict or work.secret:
        return local, ShareReason.LATE
    return at.put(replace(work, offer=offer, offer_holds=False)), ShareReason.NONE


def delivery_checked(local: LocalOrder, key: ShareKey, *, holds: bool) -> LocalOrder:
    """Record whether the blob of an offer is the complete ciphertext of its manifest.

    If it is not, the offer is forgotten. Until the deadline of its task, the provider may send another one, here or to
    witnesses.
    """
    at = local.share(key)
    if at is None or at.work.verdict or at.work.offer is None:
        return local
    return at.put(replace(at.work, offer_holds=True) if holds else replace(at.work, offer=None))


def receipt_signed(local: LocalOrder, key: ShareKey, clock: int) -> LocalOrder | None:
    """Record that a receipt for a ciphertext is signed at a chain second; return None if it must not be signed.

    The provider has some time to ask for receipts. Otherwise it could ask for another one again and again, and its
    validator would wait for the key without end.
    """
    at = local.share(key)
    if at is None or at.work.verdict or not at.work.offer_holds or not at.work.deliver_by:
        return None
    if clock >= at.work.deliver_by and not at.work.receipt_at:
        return None
    if clock >= at.work.deliver_by:
        return local
    return at.put(replace(at.work, receipt_at=clock))


def key_shown(
    local: LocalOrder, terms: JobTerms, chain_id: str, provider: str, shown: ShownKey
) -> tuple[LocalOrder, ShareReason]:
    """Record the key of a delivery, or return the reason to refuse it.

    A wrong key ends nothing, because the provider may still show the right one on the chain.
    """
    at = local.share(shown.key)
    if at is None or at.work.provider != provider or at.work.signed is None:
        return local, ShareReason.MALFORMED
    if at.work.offer is None or not at.work.receipt_at:
        return local, ShareReason.MALFORMED
    work, manifest, roots = at.work, at.work.offer.manifest, shown.roots
    if work.secret:
        return local, ShareReason.NONE if work.secret == shown.secret else ShareReason.SLOT_TAKEN
    if work.verdict:
        return local, ShareReason.LATE
    if check_roots(terms, roots) or delivery_key_hash(shown.secret) != manifest.key_hash:
        return local, ShareReason.MALFORMED
    if (roots.segments, roots.is_whole) != (manifest.segments, manifest.update_chunks > 0):
        return local, ShareReason.MALFORMED
    claim = at.work.signed.claim
    commitment = share_commitment(chain_id, claim.key, claim.provider, at.opening, terms.executor_version, roots)
    if commitment != claim.commitment:
        return local, ShareReason.TRACE_NOT_BOUND
    return at.put(replace(work, secret=shown.secret, roots=roots)), ShareReason.NONE


def delivery_opened(
    local: LocalOrder,
    terms: JobTerms,
    chain_id: str,
    packet: ShareDelivery,
    openings: tuple[Opening, ...],
    reason: ShareReason = ShareReason.NONE,
    no_states: Collection[int] = (),
) -> LocalOrder:
    """Record the content of a delivery, whose pieces all have their hashes, and the states at its boundaries.

    ``reason`` is a mismatch that the decryption showed. The commitment binds whatever else is wrong here, so that is
    also a mismatch. ``no_states`` are the boundaries at which the delivery has bytes that are no states, for example
    because of a NaN. No segment ends in these, so the segments before them are wrong.
    """
    at = local.share(packet.key)
    if at is None or at.work.signed is None or at.work.packet is not None or at.work.verdict:
        return local
    work = at.work
    reason = reason or check_packet(chain_id, terms, at.work.signed.claim, at.opening, packet)
    if reason == ShareReason.NONE and not _sizes_hold(terms, packet):
        reason = ShareReason.UPDATE_MISMATCH
    if reason:
        verdict = reason if reason in MISMATCHES else ShareReason.SEGMENT_MISMATCH
        return at.put(replace(work, verdict=verdict))
    alarms = tuple(alarm.value for alarm in find_alarms(local, at.current, work, packet))
    wrong = sorted(index - 1 for index in no_states)
    checked = tuple(CheckedSegment(segment, int(ShareReason.SEGMENT_MISMATCH), b"") for segment in wrong)
    return at.put(replace(work, packet=packet, openings=openings, alarms=alarms, checked=checked))


def delivery_wrong(local: LocalOrder, key: ShareKey, wrong: WrongPieces) -> LocalOrder:
    """Record a piece of a delivery that is not what the commitment promises."""
    at = local.share(key)
    return local if at is None or at.work.verdict else at.put(replace(at.work, wrong=wrong))


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
    sent for the second time. If the provider lacks the bond, has left the cluster, or put another commitment on chain,
    the slot stays its own until the deadline of the task: until then, it can put the share on chain itself and be paid.
    """
    at = local.share(skipped.share)
    if at is None or at.work.verdict or on_chain.share(skipped.share) is not None:
        return local
    if skipped.reason in _INCLUDABLE:
        return at.put(replace(at.work, skipped=skipped.reason))
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

    Such a share is wrong. If its round is closed, the validator can no longer reject the share on the chain. In any
    case, its provider gets no more work in this order.
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
    if checked.reason == ShareReason.OPENING_MISMATCH:
        # The provider has delivered the share, so wrong states are no reason to reject it.
        others = tuple(opening for opening in work.openings if opening.index != checked.segment)
        return at.put(replace(work, openings=others, alone=tuple(sorted({*work.alone, checked.segment}))))
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
