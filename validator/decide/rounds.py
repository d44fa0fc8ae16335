"""One open round: shares are committed, opened, replayed and judged, failed ones given to others, what the
consumer is to have is encrypted, and it is closed.
"""

from collections.abc import Collection
from dataclasses import replace

from domain.keys import ShareRef
from domain.legs.records import Leg
from domain.messages import Message
from domain.proof.messages import (
    AcceptedShare,
    MsgCloseRound,
    MsgCommitTraces,
    Rejection,
    SignedShare,
)
from domain.proof.queries import OrderResponse
from domain.proof.reasons import MISMATCHES, SILENCES, ShareReason
from domain.proof.records import Place, Share, ShareState
from link.types import StateRef
from pol.rules.lots import duty_segments
from pol.rules.schedule import is_handover, progress_seconds, served_terms
from pol.rules.stops import AGGREGATION, find_stop
from validator.decide.actions import NEVER, Action, Aggregate, CheckSegment, Seal, SendTx
from validator.decide.assign import (
    PATIENCE,
    give_out,
    is_gone,
    note_presence,
    open_round,
    transfer_seconds,
)
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
from validator.decide.view import View

OPEN_SECONDS = 10
"""Chain seconds a provider has to upload the states it is asked for, and more where they are large."""
COMMIT_MAX = 32
"""Shares, and rejections, in one message: far below what a transaction may hold."""
FORGIVEN = frozenset({ShareReason.NO_ANSWER, ShareReason.LATE, ShareReason.NO_BOND})
"""Reasons after which a provider may be tried again in the same order, behind those that never failed."""
PRESSED_PART = 4
"""The part of the progress deadline that is kept for closing a round whose suspects are not all replayed."""

Shares = dict[tuple[int, int], Share]


def decide_round(local: LocalOrder, view: View, leg: Leg, prefix: str) -> tuple[LocalOrder, list[Action]]:
    """Plan the open round if need be, move every share on, and close the round when all hold."""
    local = open_round(local, view, leg)
    current = local.find(leg.round)
    if current is None:
        return local, []
    key = f"{prefix}/{current.round}"
    shares = view.on_chain.shares_of(local.leg, current.round)
    actions: list[Action] = []
    works: list[SlotWork] = []
    for work in current.works:
        share = shares.get((work.slot, work.issue))
        advanced, found = _advance(local, current, work, share, view, key, leg.tier)
        works.append(advanced)
        actions += found
    bad = [w.provider for w in works if w.verdict and w.verdict not in FORGIVEN]
    local = exclude(local.put(replace(current, works=tuple(works))), *bad)
    proven = {
        (work.slot, work.issue) for work in works if is_verified(current, work, shares.get((work.slot, work.issue)))
    }
    works += give_out(local, view, leg, works, proven)
    current = replace(current, works=tuple(works))
    local = local.put(current)
    actions += _commit(local, view, current, shares, key)
    current = _suspect_stop(current, view, leg, shares)
    local = local.put(current)
    actions += _close(local, view, leg, current, shares, key)
    return local, actions


def _advance(
    local: LocalOrder,
    current: LocalRound,
    work: SlotWork,
    share: Share | None,
    view: View,
    key: str,
    tier: str,
) -> tuple[SlotWork, list[Action]]:
    """Move one share on, from its arrival to its verdict, and the verdict to where the chain knows it."""
    work = note_handed_in(work, view)
    if work.verdict:
        # One that the chain does not show (yet) may be on its way into a block: then it is rejected there.
        told = share is not None and share.state != ShareState.COMMITTED
        return replace(work, settled=work.settled or told), []
    if work.signed is None:
        work = note_presence(work, view)
        # Nobody could answer while this daemon was down.
        late = view.clock >= max(work.answer_by, view.since + PATIENCE) or is_gone(local, work, view)
        return (replace(work, verdict=ShareReason.NO_ANSWER, settled=True) if late else work), []
    if share is not None and share.state != ShareState.COMMITTED:
        # Ended by a message that this record does not know of.
        return replace(work, verdict=share.reason or ShareReason.NO_ANSWER, settled=True), []
    if share is None:
        return work, []
    if work.packet is None:
        return _await_delivery(work, view), []
    if not share.drawn:
        return work, []
    return _verify(local, current, work, share, view, key, tier)


def _await_delivery(work: SlotWork, view: View) -> SlotWork:
    """Wait for what a commitment hides: its provider shows it when it sees the commitment on chain."""
    patience = OPEN_SECONDS + transfer_seconds(view, states=1)
    if not work.deliver_by:
        work = replace(work, deliver_by=view.clock + patience)
    late = view.clock >= max(work.deliver_by, view.since + patience)
    return replace(work, verdict=ShareReason.NO_ANSWER) if late else work


def _verify(
    local: LocalOrder,
    current: LocalRound,
    work: SlotWork,
    share: Share,
    view: View,
    key: str,
    tier: str,
) -> tuple[SlotWork, list[Action]]:
    """Ask for what the duty and the own picks need, and replay what has arrived."""
    segments = segments_to_check(current, work, share)
    patience = OPEN_SECONDS + transfer_seconds(view, states=len(segments))
    if not work.open_by:
        work = replace(work, open_by=view.clock + patience)
    failed = [done for done in work.checked if done.reason]
    if failed:
        return replace(work, verdict=failed[0].reason), []
    checked = {done.segment for done in work.checked}
    held = {opening.index for opening in work.openings}
    actions: list[Action] = []
    waiting = False
    for segment in segments:
        if segment in checked:
            continue
        index = opening_index(segment)
        if index and index not in held:
            waiting = True
        else:
            name = f"{key}/{work.slot}/{work.issue}/check/{segment}"
            actions.append(CheckSegment(key=name, share=share_key(local, current, work), segment=segment, tier=tier))
    if waiting and view.clock >= max(work.open_by, view.since + patience):
        return replace(work, verdict=ShareReason.NO_ANSWER), []
    return work, actions


def segments_to_check(current: LocalRound, work: SlotWork, share: Share) -> tuple[int, ...]:
    """Return the segments of a delivered share that this validator replays: its duty and its own picks, sorted.

    Of a suspect all of them: the job stops by it, or somebody's states have grown beyond what training gives.
    """
    if work.packet is None:
        return ()
    if ShareRef(work.slot, work.issue) in current.suspects:
        return tuple(range(len(work.packet.boundaries) + 1))
    return duty_of(work, share)


def duty_of(work: SlotWork, share: Share) -> tuple[int, ...]:
    """Return what is replayed of every delivered share."""
    segments = len(work.packet.boundaries) if work.packet else 0
    picks = (pick for pick in work.picks if pick < segments)
    return tuple(sorted({*duty_segments(segments, share.drawn), *picks}))


def opening_index(segment: int) -> int:
    """Return the boundary whose states a segment is replayed from: its start, and the end n for the update."""
    return segment  # segment i starts at boundary i; the update (segment n) is read from boundary n


def is_verified(current: LocalRound, work: SlotWork, share: Share | None) -> bool:
    """Tell whether everything that had to be replayed of a share was, and held."""
    return share is not None and _holds(work, share, segments_to_check(current, work, share))


def _holds(work: SlotWork, share: Share | None, segments: Collection[int]) -> bool:
    """Tell whether these segments of a share that stands and is drawn were replayed, and held."""
    if work.verdict or work.packet is None or share is None:
        return False
    if share.state != ShareState.COMMITTED or not share.drawn:
        return False
    held = {done.segment for done in work.checked if not done.reason}
    return held.issuperset(segments)


# What the chain is told


def _told(verdict: int) -> int:
    """Return what the chain is told of a verdict.

    A mismatch is what a commitment alone shows to be wrong. Somebody who committed to the right share and delivered
    something else has not answered: if the chain finds it right later, a mismatch would cost this validator more.
    """
    reason = ShareReason(verdict)
    return reason if reason in MISMATCHES or reason in SILENCES else ShareReason.NO_ANSWER


def _commit(local: LocalOrder, view: View, current: LocalRound, shares: Shares, key: str) -> list[Action]:
    """Send all rejections and all shares that the chain has not heard of, in one message: rejections come first."""
    open_verdicts = [w for w in current.works if w.verdict and not w.settled and (w.slot, w.issue) in shares]
    rejected = open_verdicts[:COMMIT_MAX]
    blocked = {w.slot for w in open_verdicts[COMMIT_MAX:]}
    signed = [
        SignedShare(work.signed.claim, work.signed.signature)
        for work in current.works
        if work.signed is not None
        and not work.verdict
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
        rejections=tuple(Rejection(ShareRef(w.slot, w.issue), _told(w.verdict)) for w in rejected),
        shares=tuple(signed[:COMMIT_MAX]),
    )
    return [_send(f"{key}/commit", message, local, view)]


def _are_done(current: LocalRound, leg: Leg, shares: Shares) -> bool:
    """Tell whether every slot of the leg has a share of which all that is replayed of any share was, and held."""
    accepted = accepted_works(current)
    found = ((work, shares.get((work.slot, work.issue))) for work in accepted)
    every = tuple(work.slot for work in accepted) == tuple(leg.served_slots)
    return every and all(share and _holds(work, share, duty_of(work, share)) for work, share in found)


def _first_stop(current: LocalRound, view: View) -> Place:
    """Return where the job stops by the shares of a round that has no next state."""
    return find_stop(
        view.on_chain.order.terms,
        ((work.slot, work.issue, work.packet.roots) for work in accepted_works(current) if work.packet is not None),
    )


def _suspect_stop(current: LocalRound, view: View, leg: Leg, shares: Shares) -> LocalRound:
    """Suspect the first share that ends where the job stops, once all that is replayed of any share holds."""
    if not _are_done(current, leg, shares):
        return current
    stop = _first_stop(current, view)
    if stop == AGGREGATION:
        return current
    return suspect(current, (ShareRef(stop.slot, stop.issue),))


def suspect(current: LocalRound, refs: tuple[ShareRef, ...]) -> LocalRound:
    """Have every place of some shares replayed: their providers are asked once more for states."""
    if refs == current.suspects:
        return current
    works = tuple(
        replace(work, open_by=0) if ShareRef(work.slot, work.issue) in refs else work for work in current.works
    )
    return replace(current, suspects=refs, works=works)


def _is_pressed(view: View, leg: Leg) -> bool:
    """Tell whether the round has to be closed now, or the leg fails."""
    order = view.on_chain.order
    given = progress_seconds(
        served_terms(order.terms, leg),
        order.params.progress_base,
        leg.slot_speed,
        leg.slots_at_once,
    )
    ends = min(leg.progress_deadline, order.deadline)
    return view.clock >= ends - given // PRESSED_PART


def _close(
    local: LocalOrder,
    view: View,
    leg: Leg,
    current: LocalRound,
    shares: Shares,
    key: str,
) -> list[Action]:
    """Aggregate when the latest issue of every slot is verified, then close the round.

    One that hands over is sealed before: its closing says what the consumer will be given. One without a next state
    is closed with the place at which the job stops, when everything that leads there was replayed, or the time is over
    for that: a share's wrong segment would end the order.
    """
    if not _are_done(current, leg, shares):
        return []
    accepted = accepted_works(current)
    verified = (is_verified(current, w, shares.get((w.slot, w.issue))) for w in accepted)
    if not (all(verified) or (current.suspects and _is_pressed(view, leg))):
        return []
    stop = _first_stop(current, view)
    refs = tuple(ShareRef(work.slot, work.issue) for work in accepted)
    if stop != AGGREGATION or (current.next_global is None and refs == current.suspects):
        return _send_close(local, view, current, key, stop)
    if current.next_global is None:
        return [Aggregate(f"{key}/aggregate", local.key.round(current.round))]
    order, where = view.on_chain.order, local.key.round(current.round)
    if current.sealed is None and is_handover(order.terms, order.params.handover_every, current.round):
        return [Seal(f"{key}/seal", where, order.order_key)]
    return _send_close(local, view, current, key, None)


def _send_close(local: LocalOrder, view: View, current: LocalRound, key: str, stop: Place | None) -> list[Action]:
    """Close a round with its next state, or with the place at which the job stops."""
    if not _has_room(local, view):
        return []
    close = MsgCloseRound(
        validator=view.me,
        order_id=local.order_id,
        leg=local.leg,
        round=current.round,
        shares=tuple(
            AcceptedShare(work.slot, work.issue, work.packet.roots)
            for work in accepted_works(current)
            if work.packet is not None
        ),
        next_root=current.next_global.root if current.next_global and stop is None else b"",
        ciphertext_root=current.sealed.ciphertext_root if current.sealed and stop is None else b"",
        stopped=stop,
    )
    return [_send(f"{key}/close", close, local, view)]


def _send(key: str, message: Message, local: LocalOrder, view: View) -> SendTx:
    """Send a message before the leg has failed for want of progress."""
    leg = view.on_chain.leg(local.leg)
    return SendTx(key, (message,), leg.progress_deadline if leg else NEVER)


def _has_room(local: LocalOrder, view: View) -> bool:
    """Tell whether one more round may be closed: so many at most are closed and not verified (protocol 4.6)."""
    waiting = [known for known in view.on_chain.rounds_of(local.leg) if not known.verified]
    return len(waiting) < view.on_chain.order.params.rounds_ahead


def aggregated(local: LocalOrder, round: int, next_global: StateRef) -> LocalOrder:
    """Record the aggregation of a round, and the local states that its slots go on with."""
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
    """Record that a round's updates lead to no next state: every place of its shares is replayed now."""
    current = local.find(round)
    if current is None:
        return local
    refs = tuple(ShareRef(work.slot, work.issue) for work in accepted_works(current))
    return local.put(suspect(current, refs))


def verdict_rows(local: LocalOrder, on_chain: OrderResponse) -> tuple[VerdictRow, ...]:
    """Return a row for each share that is judged."""
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
