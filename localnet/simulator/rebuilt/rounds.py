"""The events of shares, deliveries and rounds."""

from dataclasses import replace

from domain.disputes.events import ChallengesWaived
from domain.keys import ShareKey
from domain.ledger.records import BondKind, BondRow
from domain.proof.events import (
    DeliveryFoundWrong,
    DeliveryKeyShown,
    DeliveryReceived,
    DeliveryWitnessed,
    HandoverFoundWrong,
    HandoverTaken,
    ReceiptAsked,
    ReplicasAwaited,
    ReplicasReady,
    RoundCleared,
    RoundClosed,
    RoundCompared,
    RoundStopped,
    RoundVerified,
    RoundVoid,
    ShareAccepted,
    ShareCommitted,
    ShareCompared,
    ShareDrawn,
    ShareFoundWrong,
    ShareIncluded,
    ShareRejected,
    ShareSkipped,
    ShareTaken,
    TraceMissing,
    TraceShown,
    TraceWanted,
    VoidSharePaid,
    WitnessesDrawn,
)
from domain.proof.reasons import ShareReason
from domain.proof.records import (
    AuditKind,
    AuditPlace,
    DeliveryManifest,
    ReceiptAsk,
    Round,
    Share,
    ShareClaim,
    ShareState,
    ShownDelivery,
)
from localnet.simulator.rebuilt.books import Rebuilt, roots_of, take
from pol.rules.schedule import share_work
from pol.rules.stops import done_work


@take.register
def _(change: ShareCommitted, books: Rebuilt) -> None:
    key, terms = change.share, books.orders[change.share.order_id].terms
    if change.was_included:
        books.count_shares(change.provider, rejected=-1)
        at, height = change.committed_at, change.committed_height
        books.change_share(key, state=ShareState.COMMITTED, reason=0, committed_at=at, committed_height=height)
        return
    local_in = books.locals.get((key.order_id, key.leg, key.slot), terms.local_root)
    _put_share(books, change, local_in, ShareState.COMMITTED, 0, key.issue)


@take.register
def _(change: ShareIncluded, books: Rebuilt) -> None:
    reason = int(ShareReason.INCLUDED)
    _put_share(books, change, change.local_in, ShareState.REJECTED, reason, change.task_issue)
    books.count_shares(change.provider, rejected=1)


def _put_share(
    books: Rebuilt,
    change: ShareCommitted | ShareIncluded,
    local_in: bytes,
    state: ShareState,
    reason: int,
    task_issue: int,
) -> None:
    """Store a new share, and lock its bond."""
    key = change.share
    claim = ShareClaim(
        order_id=key.order_id,
        leg=key.leg,
        round=key.round,
        slot=key.slot,
        issue=task_issue,
        provider=change.provider,
        commitment=change.commitment,
        multiple=change.multiple,
        cover=change.cover,
    )
    books.shares[key] = Share(
        claim=claim,
        signature=change.signature,
        local_in=local_in,
        work=share_work(books.orders[key.order_id].terms),
        bond=change.bond,
        state=state,
        reason=reason,
        committed_at=change.committed_at,
        committed_height=change.committed_height,
        drawn=(),
        roots=None,
        held_as=key.issue if key.issue != task_issue else 0,
        late=change.late,
    )
    row = BondRow(
        kind=BondKind.SHARE,
        owner=change.provider,
        leg=key.leg,
        round=key.round,
        slot=key.slot,
        issue=key.issue,
        amount=change.bond,
    )
    books.lock(key.order_id, row)


@take.register
def _(change: ShareSkipped, books: Rebuilt) -> None:
    books.fees += change.fee


@take.register
def _(change: ShareDrawn, books: Rebuilt) -> None:
    books.change_share(change.share, drawn=change.segments, is_drawn=True)


@take.register
def _(change: ShareRejected, books: Rebuilt) -> None:
    work = share_work(books.orders[change.share.order_id].terms)
    dropped = {"state": ShareState.REJECTED, "reason": change.reason, "roots": None, "work": work}
    books.change_share(change.share, **dropped, wrong_at=change.segment)
    if change.reason != ShareReason.LEG_ENDED:
        books.count_shares(change.provider, rejected=1)
    if change.was_accepted:
        books.count_shares(change.provider, accepted=-1)


@take.register
def _(change: ShareAccepted, books: Rebuilt) -> None:
    key = change.share
    roots = roots_of(change)
    work = done_work(books.orders[key.order_id].terms, roots)
    books.change_share(key, state=ShareState.ACCEPTED, roots=roots, work=work, is_received=True)
    if roots.is_whole:
        books.locals[key.order_id, key.leg, key.slot] = change.local_out
    books.count_shares(change.provider, accepted=1)


@take.register
def _(change: ShareCompared, books: Rebuilt) -> None:
    state = ShareState.RIGHT if change.right else ShareState.WRONG
    books.change_share(change.share, state=state)
    if change.right:
        books.count_shares(change.provider, rejected=-1)
    books.burnt += change.burnt_from_stake


@take.register
def _(change: ShareTaken, books: Rebuilt) -> None:
    key = change.share
    before = replace(key, leg=change.from_leg)
    known = books.shares[before]
    books.change_share(before, state=ShareState.TAKEN)
    books.shares[key] = replace(known, taken_by=key.leg)
    row = books.bond_rows.pop((key.order_id, before.leg, key.round, key.slot, key.issue), None)
    if row is not None:
        books.bond_rows[key.order_id, key.leg, key.round, key.slot, key.issue] = replace(row, leg=key.leg)
    delivery = books.deliveries.pop(before, None)
    if delivery is not None:
        books.deliveries[key] = replace(delivery, leg=key.leg)
    if known.state is ShareState.ACCEPTED and known.roots is not None and known.roots.is_whole:
        books.locals[key.order_id, key.leg, key.slot] = known.roots.local_out


@take.register
def _(change: DeliveryReceived, books: Rebuilt) -> None:
    manifest = _manifest_of(change)
    books.deliveries[change.share] = _delivery(change.share, manifest, change.show_by)


@take.register
def _(change: ReceiptAsked, books: Rebuilt) -> None:
    key = change.share
    manifest = _manifest_of(change)
    books.asks[key] = ReceiptAsk(
        order_id=key.order_id, leg=key.leg, round=key.round, slot=key.slot, issue=key.issue, manifest=manifest
    )


@take.register
def _(change: WitnessesDrawn, books: Rebuilt) -> None:
    known = books.asks[change.share]
    drawn = replace(known, witnesses=change.witnesses, seed=change.seed, until=change.until)
    books.asks[change.share] = drawn


@take.register
def _(change: DeliveryWitnessed, books: Rebuilt) -> None:
    known = books.asks[change.share]
    signed, paid = (*known.signed, change.witness), known.paid + change.paid
    books.asks[change.share] = replace(known, signed=signed, paid=paid)


@take.register
def _(change: DeliveryKeyShown, books: Rebuilt) -> None:
    known = books.deliveries.get(change.share)
    manifest = _manifest_of(change)
    roots = roots_of(change)
    show_by = known.show_by if known else 0
    shown = _delivery(change.share, manifest, show_by)
    books.deliveries[change.share] = replace(shown, key=change.key, roots=roots)
    books.change_share(change.share, is_received=True)


@take.register
def _(change: DeliveryFoundWrong, books: Rebuilt) -> None:
    books.deliveries[change.share] = replace(books.deliveries[change.share], is_wrong=True)
    books.change_share(change.share, is_received=False)


@take.register
def _(change: VoidSharePaid, books: Rebuilt) -> None:
    # The payments themselves are other events.
    assert change.from_bonds + change.from_cover <= change.value


@take.register
def _(change: ShareFoundWrong, books: Rebuilt) -> None:
    books.count_shares(change.provider, accepted=-1, rejected=1)


@take.register
def _(change: HandoverFoundWrong, books: Rebuilt) -> None:
    """Nothing of it stands in a record that others read: the failure and the payments have events of their own."""


@take.register
def _(change: HandoverTaken, books: Rebuilt) -> None:
    key = change.round
    books.change_leg(key.order_id, key.leg, taken_end=key.round + 1)


@take.register
def _(change: RoundClosed, books: Rebuilt) -> None:
    key = change.round
    order, leg = books.orders[key.order_id], books.legs[key.order_id, key.leg]
    accepted = sorted(
        share
        for share, found in books.shares.items()
        if found.state is ShareState.ACCEPTED and (share.order_id, share.leg, share.round) == tuple(key)
    )
    books.rounds[key] = Round(
        order_id=key.order_id,
        leg=key.leg,
        round=key.round,
        global_in=leg.global_in,
        next_root=change.next_root,
        ciphertext_root=change.ciphertext_root,
        shares=tuple(share.ref for share in accepted),
        work=sum(books.shares[share].work for share in accepted) + (order.terms.outer_work if change.next_root else 0),
        closed_at=change.closed_at,
        closed_height=change.closed_height,
        challenges_end=change.challenges_end,
        window_ends=change.window_ends,
        verified=False,
        void=False,
        mirrors=change.mirrors,
        time_left=change.time_left,
        cover=change.cover,
        late=change.late,
    )
    left = change.next_root or leg.global_in
    books.change_leg(key.order_id, key.leg, round=key.round + 1, global_in=left)
    if order.params.auditors:
        books.open_panel(key.panel())


@take.register
def _(change: RoundStopped, books: Rebuilt) -> None:
    where = AuditPlace(kind=AuditKind(change.kind), slot=change.slot, issue=change.issue, segment=change.segment)
    books.rounds[change.round] = replace(books.rounds[change.round], stopped=where)


@take.register
def _(change: ChallengesWaived, books: Rebuilt) -> None:
    waived = max(change.waived, books.legs[change.order, change.leg].waived)
    books.change_leg(change.order, change.leg, waived=waived)


@take.register
def _(change: RoundCleared, books: Rebuilt) -> None:
    key = change.round
    leg = books.legs[key.order_id, key.leg]
    books.change_leg(key.order_id, key.leg, cleared=max(leg.cleared, leg.verified) + 1)


@take.register
def _(
    change: ReplicasAwaited | ReplicasReady | RoundCompared | TraceWanted | TraceShown | TraceMissing, books: Rebuilt
) -> None:
    """Nothing of it stands in a record that others read: deadlines and panels have events of their own."""


@take.register
def _(change: RoundVerified, books: Rebuilt) -> None:
    key = change.round
    books.rounds[key] = replace(books.rounds[key], verified=True)
    done = books.orders[key.order_id].work_verified
    books.change_order(key.order_id, work_verified=done + books.rounds[key].work)
    verified = books.legs[key.order_id, key.leg].verified
    root = books.rounds[key].next_root
    books.change_leg(key.order_id, key.leg, verified=verified + 1, verified_root=root)
    rounds = books.orders[key.order_id].terms.rounds
    left = books.legs[key.order_id, key.leg].next_round if root else rounds
    books.change_order(key.order_id, next_round=left)
    books.withhold(key.order_id, change.withheld)
    for share in books.rounds[key].share_keys:
        books.change_provider(books.shares[share].claim.provider, has_verified_share=True)


@take.register
def _(change: RoundVoid, books: Rebuilt) -> None:
    key = change.round
    by_validator, at = change.by_validator, change.void_at
    books.rounds[key] = replace(books.rounds[key], void=True, void_at=at, by_validator=by_validator)
    books.change_leg(key.order_id, key.leg, void=books.legs[key.order_id, key.leg].void + 1)


def _manifest_of(change: DeliveryReceived | ReceiptAsked | DeliveryKeyShown) -> DeliveryManifest:
    return DeliveryManifest(
        root=change.root,
        key_hash=change.key_hash,
        segments=change.segments,
        update_chunks=change.update_chunks,
        every=change.every,
    )


def _delivery(share: ShareKey, manifest: DeliveryManifest, show_by: int) -> ShownDelivery:
    return ShownDelivery(
        order_id=share.order_id,
        leg=share.leg,
        round=share.round,
        slot=share.slot,
        issue=share.issue,
        manifest=manifest,
        show_by=show_by,
    )
