"""The decisions about an open round of a leg.

Shares are committed, opened, replayed and judged; failed slots go to other providers; the round is aggregated, its
result is encrypted for the consumer, and the round is closed.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from domain.keys import ShareRef
from domain.legs.records import Leg
from domain.limits import SHARES_PER_MESSAGE_MAX
from domain.messages import Message
from domain.proof.messages import (
    AcceptedShare,
    MsgAcceptShares,
    MsgCloseRound,
    MsgCommitTraces,
    MsgReceipt,
    Rejection,
    SignedShare,
)
from domain.proof.queries import OrderResponse
from domain.proof.reasons import MISMATCHES, SILENCES, ShareReason
from domain.proof.records import AuditPlace, Share, ShareState
from link.types import ShareSubmission, StateRef
from pol.rules.inclusion import is_asking, is_included
from pol.rules.lots import duty_segments
from pol.rules.schedule import is_handover
from pol.rules.stops import AGGREGATION, find_stop
from validator.decide.actions import (
    NEVER,
    Action,
    Aggregate,
    CheckDelivery,
    CheckSegment,
    OpenDelivery,
    Recompute,
    Seal,
    SendTx,
)
from validator.decide.appeals import is_ruled_against
from validator.decide.assign import (
    PATIENCE,
    give_out,
    open_round,
    renew,
    transfer_seconds,
)
from validator.decide.late import show_wrong, take_key
from validator.decide.pace import note_handed_in
from validator.decide.records import (
    LocalOrder,
    LocalRound,
    SlotLocal,
    SlotWork,
    VerdictRow,
    accepted_works,
    exclude,
    share_key,
)
from validator.decide.room import has_room, is_pressed
from validator.decide.taking import found_wrong, take_over
from validator.decide.view import View

OPEN_SECONDS = 10
"""Chain seconds in which a provider must upload the states that it is asked for. For large states, it has more time."""
FORGIVEN = frozenset({ShareReason.NO_ANSWER, ShareReason.LATE, ShareReason.NO_BOND, ShareReason.SLOT_TAKEN})
"""Verdicts after which a provider may get work in the same order again, although providers that failed less often come
first.
"""
_LIVE = (ShareState.COMMITTED, ShareState.ACCEPTED)

Shares = dict[tuple[int, int], Share]


def decide_round(local: LocalOrder, view: View, leg: Leg, prefix: str) -> tuple[LocalOrder, list[Action]]:
    """Plan the open round if it is new, advance every share, and close the round when all shares are correct."""
    local = open_round(local, view, leg)
    current = local.find(leg.round)
    if current is None:
        return local, []
    key = f"{prefix}/{current.round}"
    known = view.on_chain.shares_of(local.leg, current.round)
    local = exclude(take_over(local, leg, current, known), *found_wrong(view.on_chain, leg))
    current = local.find(leg.round) or current
    # A share that its provider included is not committed yet.
    shares = {ref: share for ref, share in known.items() if not is_included(share)}
    actions: list[Action] = []
    works: list[SlotWork] = []
    for work in current.works:
        ref = work.slot, work.issue
        share = shares.get(ref)
        taken = take_included(work, known[ref]) if ref in known and share is None else work
        advanced, share_actions = _advance(local, current, taken, share, view, key, leg.tier)
        works.append(advanced)
        actions += share_actions
    works = _end_overtaken(works, shares)
    bad = [w.provider for w in works if w.verdict and w.verdict not in FORGIVEN]
    local = exclude(local.put(replace(current, works=tuple(works))), *bad)
    proven = {
        (work.slot, work.issue) for work in works if is_verified(current, work, shares.get((work.slot, work.issue)))
    }
    if not is_ruled_against(view.on_chain, leg):
        works += give_out(local, view, leg, works, proven)
    current = replace(current, works=tuple(works))
    local = local.put(current)
    actions += _commit(local, view, current, shares, key)
    current = _suspect_stop(current, view, leg, shares)
    local = local.put(current)
    actions += _close(local, view, leg, current, shares, key)
    return local, actions


def take_included(work: SlotWork, share: Share) -> SlotWork:
    """Return the work of a share that its provider put on chain itself.

    This validator commits it as if the provider had handed it in. If the provider handed in another commitment, the
    included one takes its place, because the chain skips any other one.
    """
    if work.verdict:
        return work
    if share.claim.provider != work.provider:
        return replace(work, verdict=ShareReason.OTHER_COMMITMENT, settled=True)
    if work.signed is not None and work.signed.claim == share.claim:
        return replace(work, skipped=0)
    signed = ShareSubmission(share.claim, share.signature)
    return replace(work, signed=signed, offer=None, offer_holds=False, skipped=0)


def _advance(
    local: LocalOrder,
    current: LocalRound,
    work: SlotWork,
    share: Share | None,
    view: View,
    key: str,
    tier: str,
) -> tuple[SlotWork, list[Action]]:
    """Return the updated work of a share, and the actions that it needs now.

    The function handles a share from its assignment until its verdict is on the chain.
    """
    work = _revive(note_handed_in(work, view), share)
    if work.verdict:
        # A share that is not on the chain yet may still get into a block. Then the share is rejected on the chain.
        is_known = share is not None and share.state != ShareState.COMMITTED
        return replace(work, settled=work.settled or is_known), []
    actions: list[Action] = []
    if work.offer is not None and not work.offer_holds:
        name = f"{key}/{work.slot}/{work.issue}/delivery"
        actions.append(CheckDelivery(name, share_key(local, current, work), view.on_chain.order.terms))
    if work.signed is None:
        work = renew(local, work, view)
        # Providers could not answer while this daemon was down, so a restart gives them more time.
        late = view.clock >= max(work.answer_by, view.since + PATIENCE)
        return (replace(work, verdict=ShareReason.NO_ANSWER, settled=True) if late else work), []
    if share is not None and share.state is ShareState.ACCEPTED:
        # The round is about to close, and accepted shares stay as they are.
        return work, []
    if share is not None and share.state != ShareState.COMMITTED:
        # The share was ended by a message that this record does not have.
        return replace(work, verdict=share.reason or ShareReason.NO_ANSWER, settled=True), []
    if share is None:
        ended = work.skipped and view.clock >= work.answer_by
        return (replace(work, verdict=work.skipped, settled=True) if ended else work), actions
    if work.packet is None:
        work, more = _await_delivery(local, work, share, view, key)
        return work, [*actions, *more]
    if not share.is_drawn:
        return work, []
    return _verify(local, current, work, share, view, key, tier)


def _revive(work: SlotWork, share: Share | None) -> SlotWork:
    """Take back a verdict that the chain refuses, because the provider showed its key before the rejection."""
    if work.verdict not in SILENCES or share is None:
        return work
    if share.state is not ShareState.COMMITTED or not share.is_received:
        return work
    return replace(work, verdict=ShareReason.NONE, settled=False)


def _end_overtaken(works: Sequence[SlotWork], shares: Shares) -> list[SlotWork]:
    """End the works of slots that have a share on chain of an issue before them.

    The work of such a share comes last in its slot, so that it counts as the slot's latest issue.
    """
    kept = {
        work.slot: work.issue
        for work in works
        if not work.verdict and (share := shares.get((work.slot, work.issue))) and share.state in _LIVE
    }
    ended = [
        replace(work, verdict=ShareReason.SLOT_TAKEN, settled=True)
        if not work.verdict and work.issue > kept.get(work.slot, work.issue)
        else work
        for work in works
    ]
    return sorted(ended, key=lambda work: kept.get(work.slot) == work.issue)


def _await_delivery(
    local: LocalOrder, work: SlotWork, share: Share, view: View, key: str
) -> tuple[SlotWork, list[Action]]:
    """Return the work of a committed share until its delivery is decrypted, and the actions that it needs now.

    The ciphertext has to be here, and the provider has to ask for the receipt, before a deadline. Then it has
    ``show_wait`` to show the key. If it does not show the key over the link, this validator posts the receipt after
    half of that time. It rejects the share only when the time that the posted receipt gives is over. If the
    delivery is wrong, the validator posts the receipt at once. When the key is on the chain, it shows a wrong piece.
    Without that, the provider could deliver the right share to witnesses.
    """
    name = f"{key}/{work.slot}/{work.issue}"
    where = share.claim.key
    known = view.on_chain.delivery(where)
    if known is not None and work.offer is not None and work.offer.manifest != known.manifest:
        # Witnesses have another delivery, and pass it on.
        work = replace(work, offer=None, offer_holds=False, secret=b"", roots=None, wrong=None)
    work = take_key(work, known)
    if work.wrong is not None and share.is_received:
        return work, [show_wrong(f"{name}/wrong", view, where, work.wrong, _ends(local, view))]
    if work.secret and work.wrong is None:
        return work, [OpenDelivery(f"{name}/open", where, view.on_chain.order.terms)]
    patience = OPEN_SECONDS + transfer_seconds(view, states=2 + len(work.anchors))
    if not work.deliver_by:
        # Until the deadline of its task, the provider can ask for witnesses, and is then paid for a right share.
        work = replace(work, deliver_by=max(view.clock + patience, work.answer_by))
    if share.is_received:
        # Witnesses stated that the ciphertext arrived, and they pass it on. If none of them does, the slot goes to
        # another provider, and this validator pays for the share if it is right.
        ends = max(known.show_by if known is not None else 0, view.since) + patience
        is_lacking = work.offer is None and view.clock >= ends
        return (replace(work, verdict=ShareReason.SEGMENT_MISMATCH) if is_lacking else work), []
    if known is not None:
        return (replace(work, verdict=ShareReason.NO_ANSWER) if view.clock >= known.show_by else work), []
    if not work.receipt_at:
        ask = view.on_chain.ask(where)
        is_open = ask is not None and is_asking(ask, view.clock)
        late = view.clock >= max(work.deliver_by, view.since + patience) and not is_open
        return (replace(work, verdict=ShareReason.NO_ANSWER) if late else work), []
    wait = view.on_chain.order.params.show_wait
    # Only the posted receipt sets a time after which the chain accepts the rejection.
    is_due = work.wrong is not None or view.clock >= work.receipt_at + wait // 2
    if work.offer is not None and is_due:
        message = MsgReceipt(
            validator=view.me,
            order_id=where.order_id,
            leg=where.leg,
            round=where.round,
            slot=where.slot,
            issue=where.issue,
            manifest=work.offer.manifest,
            signature=work.offer.signature,
        )
        return work, [_send(f"{name}/receipt", local, view, message)]
    return work, []


def _verify(
    local: LocalOrder,
    current: LocalRound,
    work: SlotWork,
    share: Share,
    view: View,
    key: str,
    tier: str,
) -> tuple[SlotWork, list[Action]]:
    """Set the deadline for the openings of the segments to check, and replay the segments whose states have arrived."""
    segments = segments_to_check(current, work, share)
    patience = OPEN_SECONDS + transfer_seconds(view, states=len(boundaries_to_open(current, work, share)))
    if not work.open_by:
        work = replace(work, open_by=view.clock + patience)
    failed = [done for done in work.checked if done.reason]
    if failed:
        return replace(work, verdict=failed[0].reason), []
    if work.broken:
        return replace(work, verdict=ShareReason.SEGMENT_MISMATCH), []
    checked = {done.segment for done in work.checked}
    arrived = {opening.index for opening in work.openings}
    actions: list[Action] = []
    # The provider has delivered the share, so it can no longer be rejected for states that it does not send.
    is_late = view.clock >= max(work.open_by, view.since + patience)
    for segment in segments:
        if segment in checked:
            continue
        index = opening_index(segment)
        if index and index not in arrived:
            if is_late or index in work.alone:
                name = f"{key}/{work.slot}/{work.issue}/recompute/{index}"
                actions.append(Recompute(name, share_key(local, current, work), index))
        else:
            name = f"{key}/{work.slot}/{work.issue}/check/{segment}"
            actions.append(CheckSegment(key=name, share=share_key(local, current, work), segment=segment, tier=tier))
    return work, actions


def segments_to_check(current: LocalRound, work: SlotWork, share: Share) -> tuple[int, ...]:
    """Return the segments of a delivered share that this validator replays, sorted: drawn segments and its own picks.

    All segments of a suspect are replayed. A suspect is the first share in which the job stops, or any share of a round
    whose updates do not aggregate.
    """
    if work.packet is None:
        return ()
    if ShareRef(work.slot, work.issue) in current.suspects:
        return tuple(range(len(work.packet.boundaries) + 1))
    return duty_of(work, share)


def duty_of(work: SlotWork, share: Share) -> tuple[int, ...]:
    """Return the segments of a delivered share that are always replayed, sorted: drawn segments and own picks.

    There are more picks if the share has an alarm.
    """
    segments = len(work.packet.boundaries) if work.packet else 0
    chosen = (*work.picks, *work.spare) if work.alarms else work.picks
    picks = (pick for pick in chosen if pick < segments)
    return tuple(sorted({*duty_segments(segments, share.drawn), *picks}))


def anchors_in(work: SlotWork) -> set[int]:
    """Return those anchors of a delivered share that lie within the share, because a share that stopped may end before
    some of them.
    """
    segments = len(work.packet.boundaries) if work.packet else 0
    return {index for index in work.anchors if index <= segments}


def boundaries_to_open(current: LocalRound, work: SlotWork, share: Share) -> set[int]:
    """Return the boundaries of a share whose states its provider has to send. The initial states are here already."""
    starts = {opening_index(segment) for segment in segments_to_check(current, work, share)}
    return starts - {0} - set(work.alone)


def opening_index(segment: int) -> int:
    """Return the boundary from whose states a segment is recomputed. Segment n stands for the update."""
    return segment  # segment i starts at boundary i; the update is computed from boundary n


def is_verified(current: LocalRound, work: SlotWork, share: Share | None) -> bool:
    """Return whether all segments of a share that must be replayed were replayed and are correct."""
    return share is not None and _holds(work, share, segments_to_check(current, work, share))


def _holds(work: SlotWork, share: Share | None, segments: Collection[int]) -> bool:
    """Return whether three conditions are met: the share is committed and its segments are drawn; these segments were
    replayed and are correct; and the states of its anchors are here.
    """
    if work.verdict or work.packet is None or share is None:
        return False
    if share.state not in _LIVE or not share.is_drawn:
        return False
    correct = {done.segment for done in work.checked if not done.reason}
    verified = {opening.index for opening in work.openings if opening.verified}
    return correct.issuperset(segments) and verified >= anchors_in(work)


# Messages to the chain


def _rejection_reason(verdict: int) -> int:
    """Return the reason that a rejection on the chain gives for a verdict.

    A mismatch is reported only if the commitment itself shows that the share is wrong. A provider that committed to the
    right share and delivered something else counts as not answering. If this validator reported a mismatch and the
    share was later found right, this would cost the validator more.
    """
    reason = ShareReason(verdict)
    return reason if reason in MISMATCHES or reason in SILENCES else ShareReason.NO_ANSWER


def _rejection(work: SlotWork) -> Rejection:
    """Return the rejection of a share, with the place at which this validator found the mismatch.

    The panel of a stand recomputes this place. If no replay found it, the metrics at the last boundary did.
    """
    reason = _rejection_reason(work.verdict)
    segments = len(work.packet.boundaries) if work.packet else 0
    place = next((done.segment for done in work.checked if done.reason == work.verdict), max(0, segments - 1))
    return Rejection(ShareRef(work.slot, work.issue), reason, place if reason in MISMATCHES else 0)


def _commit(local: LocalOrder, view: View, current: LocalRound, shares: Shares, key: str) -> list[Action]:
    """Return the action that sends all rejections and shares that are not on the chain yet. Rejections come first."""
    open_verdicts = [w for w in current.works if w.verdict and not w.settled and _can_reject(w, shares)]
    rejected = open_verdicts[:SHARES_PER_MESSAGE_MAX]
    blocked = {w.slot for w in open_verdicts[SHARES_PER_MESSAGE_MAX:]}
    signed = [
        SignedShare(work.signed.claim, work.signed.signature)
        for work in current.works
        if work.signed is not None
        and not (work.verdict or work.skipped)
        and (work.slot, work.issue) not in shares
        and work.slot not in blocked
    ]
    if not rejected and not signed:
        return []
    message = MsgCommitTraces(
        validator=view.me,
        order_id=local.order_id,
        leg=local.leg,
        round=current.round,
        rejections=tuple(_rejection(work) for work in rejected),
        shares=tuple(signed[: SHARES_PER_MESSAGE_MAX - len(rejected)]),
    )
    return [_send(f"{key}/commit", local, view, message)]


def _can_reject(work: SlotWork, shares: Shares) -> bool:
    """Return whether the chain accepts a rejection of a share with its verdict.

    A share whose key is on the chain is not rejected as silent; a wrong piece of its delivery is shown instead.
    """
    share = shares.get((work.slot, work.issue))
    if share is None:
        return False
    return not share.is_received or ShareReason(_rejection_reason(work.verdict)) not in SILENCES


def _are_done(current: LocalRound, leg: Leg, shares: Shares) -> bool:
    """Return whether every slot of the leg has a share whose drawn and picked segments are replayed and correct."""
    accepted = accepted_works(current)
    pairs = ((work, shares.get((work.slot, work.issue))) for work in accepted)
    every = tuple(work.slot for work in accepted) == tuple(leg.served_slots)
    return every and all(share and _holds(work, share, duty_of(work, share)) for work, share in pairs)


def _first_stop(current: LocalRound, view: View) -> AuditPlace:
    """Return the first place where the job stops itself, according to the round's shares.

    Return AGGREGATION if no share has such a place.
    """
    return find_stop(
        view.on_chain.order.terms,
        ((work.slot, work.issue, work.packet.roots) for work in accepted_works(current) if work.packet is not None),
    )


def _suspect_stop(current: LocalRound, view: View, leg: Leg, shares: Shares) -> LocalRound:
    """Mark the first share in which the job stops as a suspect, if the round is ready for that.

    It is ready when the drawn and picked segments of all shares are replayed and correct.
    """
    if not _are_done(current, leg, shares):
        return current
    stop = _first_stop(current, view)
    if stop == AGGREGATION:
        return current
    return suspect(current, (ShareRef(stop.slot, stop.issue),))


def suspect(current: LocalRound, refs: tuple[ShareRef, ...]) -> LocalRound:
    """Mark shares as suspects, so that all their places are replayed; their providers are asked for states again."""
    if refs == current.suspects:
        return current
    works = tuple(
        replace(work, open_by=0) if ShareRef(work.slot, work.issue) in refs else work for work in current.works
    )
    return replace(current, suspects=refs, works=works)


def _close(
    local: LocalOrder,
    view: View,
    leg: Leg,
    current: LocalRound,
    shares: Shares,
    key: str,
) -> list[Action]:
    """Return the next action to close the round: aggregate it, seal it, or send its close.

    The round is aggregated as soon as the latest issue of each slot is verified. A hand-over round is sealed before it
    closes, because its close names the encrypted result. If the job stops itself, the round is closed with the place of
    the stop. Before that, all places of the suspects are replayed if there is enough time, because a wrong segment
    would end the order.
    """
    if not _are_done(current, leg, shares):
        return []
    accepted = accepted_works(current)
    verified = (is_verified(current, w, shares.get((w.slot, w.issue))) for w in accepted)
    if not (all(verified) or (current.suspects and is_pressed(view, leg))):
        return []
    stop = _first_stop(current, view)
    refs = tuple(ShareRef(work.slot, work.issue) for work in accepted)
    if stop != AGGREGATION or (current.next_global is None and refs == current.suspects):
        return _send_close(local, view, current, shares, key, stop)
    if current.next_global is None:
        return [Aggregate(f"{key}/aggregate", local.key.round(current.round))]
    order = view.on_chain.order
    where = local.key.round(current.round)
    if current.sealed is None and is_handover(order.terms, order.params.handover_every, current.round):
        return [Seal(f"{key}/seal", where, order.order_key)]
    return _send_close(local, view, current, shares, key, None)


def _send_close(
    local: LocalOrder,
    view: View,
    current: LocalRound,
    shares: Shares,
    key: str,
    stop: AuditPlace | None,
) -> list[Action]:
    """Return the action that closes a round, with its next state or with the place where the job stops itself.

    The same transaction accepts the last shares. If the round has more shares than fit in a message, return the action
    that accepts the next of them. The chain has the list of the shares that it has accepted, so a restarted daemon
    continues after the last of them.
    """
    if view.on_chain.holds_back:
        return []  # accepting shares publishes their roots, which other replicas could copy
    accepts = [
        AcceptedShare(work.slot, work.issue, work.packet.roots)
        for work in accepted_works(current)
        if work.packet is not None and not _is_accepted(work, shares)
    ]
    accept = MsgAcceptShares(
        validator=view.me,
        order_id=local.order_id,
        leg=local.leg,
        round=current.round,
        shares=tuple(accepts[:SHARES_PER_MESSAGE_MAX]),
    )
    if len(accepts) > SHARES_PER_MESSAGE_MAX:
        return [_send(f"{key}/accept", local, view, accept)]
    if not has_room(local, view):
        return []
    close = MsgCloseRound(
        validator=view.me,
        order_id=local.order_id,
        leg=local.leg,
        round=current.round,
        next_root=current.next_global.root if current.next_global and stop is None else b"",
        ciphertext_root=current.sealed.ciphertext_root if current.sealed and stop is None else b"",
        stopped=stop,
        mirrors=view.mirrors,
    )
    messages = (accept, close) if accepts else (close,)
    return [_send(f"{key}/close", local, view, *messages)]


def _is_accepted(work: SlotWork, shares: Shares) -> bool:
    """Return whether the chain has accepted a share."""
    share = shares.get((work.slot, work.issue))
    return share is not None and share.state is ShareState.ACCEPTED


def _send(key: str, local: LocalOrder, view: View, *messages: Message) -> SendTx:
    """Return the action that sends messages in one transaction before the leg's progress deadline."""
    return SendTx(key, messages, _ends(local, view))


def _ends(local: LocalOrder, view: View) -> int:
    """Return the leg's progress deadline."""
    leg = view.on_chain.leg(local.leg)
    return leg.progress_deadline if leg else NEVER


def aggregated(local: LocalOrder, round: int, next_global: StateRef) -> LocalOrder:
    """Record the aggregation of a round, and the local states that its slots continue with."""
    current = local.find(round)
    if current is None:
        return local
    after = {item.slot: item for item in local.locals}
    for work in accepted_works(current):
        if work.packet is not None and work.packet.local_out is not None:
            state = StateRef(work.packet.roots.local_out, work.packet.local_out)
            after[work.slot] = SlotLocal(work.slot, state)
    local = replace(local, locals=tuple(after[slot] for slot in sorted(after)))
    return local.put(replace(current, next_global=next_global))


def not_aggregated(local: LocalOrder, round: int) -> LocalOrder:
    """Record that a round's updates do not aggregate: all shares of the round become suspects."""
    current = local.find(round)
    if current is None:
        return local
    refs = tuple(ShareRef(work.slot, work.issue) for work in accepted_works(current))
    return local.put(suspect(current, refs))


def verdict_rows(local: LocalOrder, on_chain: OrderResponse) -> tuple[VerdictRow, ...]:
    """Return a row for each share that has a verdict."""
    rows: list[VerdictRow] = []
    for current in local.rounds:
        accepted = current.next_global is not None
        shares = {} if accepted else on_chain.shares_of(local.leg, current.round)
        for work in current.works:
            share = shares.get((work.slot, work.issue))
            if not (work.verdict or accepted or is_verified(current, work, share)):
                continue
            failed = [d.segment for d in work.checked if d.reason and d.reason == work.verdict]
            rows.append(
                VerdictRow(
                    order_id=local.order_id,
                    leg=local.leg,
                    round=current.round,
                    slot=work.slot,
                    issue=work.issue,
                    provider=work.provider,
                    segments=len(work.packet.boundaries) if work.packet else 0,
                    checked=len(work.checked),
                    reason=int(work.verdict),
                    segment=failed[0] if failed else -1,
                )
            )
    return tuple(rows)
