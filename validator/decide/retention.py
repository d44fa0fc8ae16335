"""The retention of rounds and blobs (protocol 4.7 and 6.2), and the preparation of the states that seats ask for."""

from collections.abc import Iterator
from dataclasses import replace

from domain.keys import RoundKey
from domain.legs.records import LegState
from domain.market.records import OrderState
from domain.proof.queries import OrderResponse
from link.types import BlobRef
from pol.rules.panels import STAGE_TIMES, commit_seconds
from pol.rules.stands import left_round
from pol.rules.states import RESULT
from validator.decide.actions import Action, Recompute, VerifyOpening
from validator.decide.records import (
    LocalOrder,
    LocalRound,
    PastFailures,
    SlotWork,
    accepted_works,
)
from validator.decide.taking import begins, may_be_taken_over
from validator.decide.view import Panels, View

KEEP_SECONDS = 7 * 86_400
"""Chain seconds for which a result is served after its order closed (protocol section 6.2)."""


def is_over(on_chain: OrderResponse, panels: Panels, leg: int, round: int, clock: int) -> bool:
    """Return whether a round is over, so that no other party can request its data.

    This is the case when its window has ended, its panels have no open stage, and the round is paid or will never be
    paid. The next leg may take over shares of a void round. After that, a vote on a slash may follow once
    all rounds of the leg are decided.
    """
    closed = on_chain.round(leg, round)
    if closed is None or clock < closed.window_ends or not (closed.verified or closed.void):
        return False
    if may_be_taken_over(on_chain, closed):
        return False
    served = on_chain.leg(leg)
    if closed.void and served is not None and served.verified + served.void < served.closed:
        return False
    own = (about for key, about in panels.items() if key.round_key == closed.key)
    return not any(about.is_open or about.votes_on_slash for about in own)


def voted_rounds(local: LocalOrder, panels: Panels) -> tuple[LocalRound, ...]:
    """Return the void rounds about which others vote on a slash.

    Their states are served even after the order has closed.
    """
    voted = {key.round_key for key, about in panels.items() if about.votes_on_slash}
    return tuple(known for known in local.rounds if RoundKey(local.order_id, local.leg, known.round) in voted)


def fold(local: LocalOrder, on_chain: OrderResponse, panels: Panels, clock: int) -> LocalOrder:
    """Drop the rounds that are over from the record, except the last round and rounds whose states are served.

    The record keeps the number of each provider's failures in the dropped rounds.
    """
    served = (*served_rounds(local, on_chain), *newest_verified(local, on_chain))
    over = [
        known
        for known in local.rounds[:-1]
        if is_over(on_chain, panels, local.leg, known.round, clock) and known not in served
    ]
    if not over:
        return local
    counts = {item.provider: item.count for item in local.failures}
    for known in over:
        for work in known.works:
            if work.verdict:
                counts[work.provider] = counts.get(work.provider, 0) + 1
    failures = tuple(PastFailures(provider, counts[provider]) for provider in sorted(counts))
    rounds = tuple(known for known in local.rounds if known not in over)
    return replace(local, rounds=rounds, failures=failures)


def served_rounds(local: LocalOrder, on_chain: OrderResponse) -> tuple[LocalRound, ...]:
    """Return the hand-over rounds that the consumer can fetch.

    These are the newest verified round, and the later rounds that the consumer took early. A round about whose result a
    panel was asked is served to its seats. Any other round that may
    still become void is not served: the consumer could then have both the round's result and its deposit. For a failed
    leg, return only rounds taken early. For a closed order, return only the last of these rounds, because the rounds of
    a closed order are no longer read from the chain.
    """
    leg = on_chain.leg(local.leg)
    if leg is None:
        return ()
    sealed = [known for known in local.rounds if known.sealed is not None]
    asked = {key.round for key in asked_results(on_chain) if key.leg == leg.number}
    if leg.state == LegState.FAILED:
        taken = [known for known in sealed if leg.is_taken(known.round)][-1:]
        return tuple(known for known in sealed if known in taken or known.round in asked)
    if on_chain.order.state == OrderState.CLOSED:
        return tuple(sealed[-1:])
    rounds = {known.round: on_chain.round(local.leg, known.round) for known in sealed}
    newest = max((number for number, closed in rounds.items() if closed and closed.verified), default=-1)
    return tuple(
        known
        for known in sealed
        if known.round == newest or known.round in asked or (known.round > newest and leg.is_taken(known.round))
    )


def asked_results(on_chain: OrderResponse) -> frozenset[RoundKey]:
    """Return the rounds of an order about whose encrypted results a panel is not over."""
    asked = (panel for panel in on_chain.panels if panel.asker and not panel.is_settled)
    return frozenset(panel.round_key for panel in asked if panel.places[0].place == RESULT)


def newest_verified(local: LocalOrder, on_chain: OrderResponse) -> tuple[LocalRound, ...]:
    """Return the last verified round of a leg, whose states are served until the order closes; empty if none is here.

    The validator of the next leg starts from these states, and the consumer can fetch them.
    """
    leg = on_chain.leg(local.leg)
    known = local.find(leg.next_round - 1) if leg is not None and leg.verified else None
    return () if known is None else (known,)


def needed_blobs(local: LocalOrder, on_chain: OrderResponse, panels: Panels, clock: int) -> frozenset[bytes]:
    """Return the digests of the blobs that a leg still needs."""
    return frozenset(blob.sha256 for blob in _needed(local, on_chain, panels, clock))


def _needed(local: LocalOrder, on_chain: OrderResponse, panels: Panels, clock: int) -> Iterator[BlobRef]:
    leg = on_chain.leg(local.leg)
    if leg is None:
        return
    yield from (r.sealed.blob for r in served_rounds(local, on_chain) if r.sealed is not None)
    if on_chain.order.state == OrderState.CLOSED:
        voted = voted_rounds(local, panels)
        if voted:
            yield from (file.blob for file in local.payload.files)
        for known in voted:
            yield from blobs_of(known)
        return
    for known in newest_verified(local, on_chain):
        yield from _left_by(known)
    if not leg.verified:
        yield from (state.blob for state in (*local.fetched, *local.offered))
    live = leg.is_live
    rounds = [
        known
        for known in local.rounds
        if not is_over(on_chain, panels, local.leg, known.round, clock)
        # If the leg failed, its open round will never close, and its blobs are not needed.
        and (live or on_chain.round(local.leg, known.round) is not None)
    ]
    if live or rounds:
        yield from (file.blob for file in local.payload.files)
    left = left_round(leg)
    if left is not None and left.by_validator:
        yield from _left_deliveries(local, left.round)
    for known in rounds:
        yield from blobs_of(known)
    if live and begins(leg):
        for known in local.left:
            yield from blobs_of(known) if known.round == leg.first_round else ()
    if live:
        yield from (item.state.blob for item in local.locals)
        if local.earlier_global is not None:
            yield local.earlier_global.blob
        if local.rounds and local.rounds[-1].next_global is not None:
            yield local.rounds[-1].next_global.blob


def _left_deliveries(local: LocalOrder, round: int) -> Iterator[BlobRef]:
    """Yield the deliveries of a round that its leg left open and that are not decrypted, with the files to do so.

    Their providers may still show the keys, and stand for the shares until the order closes.
    """
    current = local.find(round)
    blobs = [
        work.offer.ciphertext
        for work in (current.works if current is not None else ())
        if work.offer is not None and work.packet is None and work.wrong is None and not work.verdict
    ]
    if blobs:
        yield from (file.blob for file in local.payload.files)
        yield from blobs


def _left_by(known: LocalRound) -> Iterator[BlobRef]:
    """Yield the states at the end of a round: the global state, and the local states of the accepted shares."""
    if known.next_global is not None:
        yield known.next_global.blob
    for work in accepted_works(known):
        if work.packet is not None and work.packet.local_out is not None:
            yield work.packet.local_out


def blobs_of(known: LocalRound) -> Iterator[BlobRef]:
    """Yield the blobs that the record of a round names."""
    yield known.global_in.blob
    if known.sealed is not None:
        yield known.sealed.blob
        # Seats ask for one of the chunks that were encrypted.
        if known.next_global is not None:
            yield known.next_global.blob
    for work in known.works:
        yield work.local_in.blob
        if work.packet is not None:
            yield from work.packet.blobs
        elif work.offer is not None and work.wrong is None:
            yield work.offer.ciphertext
        for opening in work.openings:
            yield opening.global_state
            yield opening.local_state


# --- the winner's side of a panel ----------------------------------------------------------------

Boundaries = dict[tuple[int, int, int], set[int]]
"""Boundary numbers by (round, slot, issue)."""


def audited_boundaries(local: LocalOrder, panels: Panels) -> Boundaries:
    """Return the boundaries that seats need and whose states this validator does not have, or has not verified."""
    wanted: Boundaries = {}
    for key, about in panels.items():
        if (key.order_id, key.leg) != (local.order_id, local.leg):
            continue
        current = local.find(key.round)
        if current is None:
            continue
        for place in about.asked:
            work = current.find(place.slot, place.issue)
            if work is None or place.segment == 0:
                # The place is not in a share, or needs boundary 0: the share's initial state, which is here.
                continue
            if place.segment not in {opening.index for opening in work.openings if opening.verified}:
                share = (key.round, place.slot, place.issue)
                wanted.setdefault(share, set()).add(place.segment)
    return wanted


def wanted_of_provider(local: LocalOrder, panels: Panels) -> Boundaries:
    """Return the audited boundaries to ask providers for: those whose states no provider has sent yet."""
    wanted: Boundaries = {}
    for (round, slot, issue), indices in audited_boundaries(local, panels).items():
        at = local.at(round, slot, issue)
        if at is None or at.work.provider in local.excluded:
            continue
        missing = indices - {opening.index for opening in at.work.openings} - set(at.work.broken)
        if missing:
            wanted[round, slot, issue] = missing
    return wanted


def ask_seconds(view: View) -> int:
    """Return the chain seconds in which a provider may send audited states, before the validator recomputes them.

    This is half of the time that a seat's own replay may take. It is so short because a seat that waits for too long
    answers "unavailable".
    """
    order = view.on_chain.order
    return max(1, commit_seconds(order.params, order.audit_ms) // (2 * STAGE_TIMES))


def decide_audited(local: LocalOrder, view: View, prefix: str) -> tuple[LocalOrder, list[Action]]:
    """Return the actions for the states that seats need: verify the states that were sent, recompute the other states.

    The validator recomputes a state only after ``ask_seconds``, or if its provider cannot send it.
    """
    actions: list[Action] = []
    for (round, slot, issue), indices in sorted(audited_boundaries(local, view.panels).items()):
        at = local.at(round, slot, issue)
        if at is None:
            continue
        current = at.current
        work = at.work
        if not current.audit_by:
            current = replace(current, audit_by=view.clock + ask_seconds(view))
            local = local.put(current)
        asked = _is_asked(local, work, view) and view.clock < current.audit_by
        sent = {opening.index for opening in work.openings}
        key = f"{prefix}/{round}/{slot}/{issue}"
        share = at.key
        for index in sorted(indices):
            if index in sent:
                name = f"{key}/verify/{index}"
                actions.append(VerifyOpening(name, share, index))
            elif not asked and index not in work.broken:
                name = f"{key}/recompute/{index}"
                actions.append(Recompute(name, share, index))
    return local, actions


def _is_asked(local: LocalOrder, work: SlotWork, view: View) -> bool:
    present = any(worker.address == work.provider for worker in view.workers)
    return present and work.provider not in local.excluded
