"""Shares of rounds: their storage, the draw of their segments, and their end.

A *live* share is committed or accepted: it is not rejected. A slot of a round has at most one live share.
"""

from dataclasses import replace
from itertools import islice
from typing import Any

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import get_share_bond
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.gas import DRAW_GAS, REJECT_GAS, TICKET_GAS
from chain.state_machine.proof.left import await_stands
from chain.state_machine.proof.lots import drop_lot
from chain.state_machine.proof.tables import (
    DROP_DUE,
    HELD_COUNTS,
    HELD_ISSUES,
    LAST_ISSUES,
    OPEN_ROUNDS,
    SHARES,
    STANDING_ISSUES,
    LastIssue,
    OpenRound,
    SharesSubject,
)
from chain.state_machine.queue import QueueEntry, schedule
from chain.state_machine.registry.tables import PROVIDERS
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.hashing import hash_fields, u32
from domain.keys import RoundKey, ShareKey, ShareRef
from domain.legs.records import Leg
from domain.market.records import Order
from domain.proof.events import ShareDrawn, ShareRejected
from domain.proof.reasons import ShareReason
from domain.proof.records import Share, ShareRoots, ShareState
from pol.rules.commitment import share_commitment
from pol.rules.inclusion import HELD_ISSUES_FROM
from pol.rules.lots import seed
from pol.rules.schedule import served_terms, share_work
from pol.rules.stops import stop_of
from pol.rules.tiers.table import tier_of

DROPPED_PER_CALL = 64
"""Most shares of an open round that are dropped in one step; the queue drops the rest in later steps."""
LIVE = (ShareState.COMMITTED, ShareState.ACCEPTED)
"""States in which a share keeps its slot."""


def share_id(key: ShareKey) -> bytes:
    """Return the identifier of a share that goes into its seed, so that two shares of one block get different draws."""
    return hash_fields(
        "assay/share/id",
        key.order_id,
        u32(key.leg),
        u32(key.round),
        u32(key.slot),
        u32(key.issue),
    )


def put_share(ctx: Context, share: Share) -> None:
    """Store a share, and mark its slot of the round as taken as long as the share is live.

    Scans read only live shares, because a round may have any number of rejected shares. An accepted share keeps its
    slot, so that the slot is not issued again.
    """
    SHARES.put(ctx.store, share)
    _mark_slot(ctx, share)


def change_share(ctx: Context, key: ShareKey, **changes: Any) -> Share:
    """Change fields of a stored share, and return it. If it is no longer live, its slot becomes free."""
    share = SHARES.update(ctx.store, *key, **changes)
    _mark_slot(ctx, share)
    return share


def _mark_slot(ctx: Context, share: Share) -> None:
    *slot, _ = share.key
    issue = share.key.issue
    if share.state in LIVE:
        STANDING_ISSUES.set(ctx.store, issue, *slot)
    elif STANDING_ISSUES.get(ctx.store, *slot) == issue:
        STANDING_ISSUES.delete(ctx.store, *slot)


def add_accepted(ctx: Context, order: Order, leg: Leg, shares: list[Share]) -> None:
    """Add accepted shares to the numbers of a leg's open round."""
    if not shares:
        return
    before = OPEN_ROUNDS.get(ctx.store, *leg.open_round)
    stops = [before.stopped] if before is not None else []
    roots = ((share.claim, share.roots) for share in shares)
    stops += [stop_of(order.terms, claim.slot, claim.issue, of) for claim, of in roots if of is not None]
    places = [stop for stop in stops if stop is not None]
    OPEN_ROUNDS.put(
        ctx.store,
        OpenRound(
            order_id=order.id,
            leg=leg.number,
            round=leg.round,
            accepted=len(shares) + (before.accepted if before is not None else 0),
            work=sum(share.work for share in shares) + (before.work if before is not None else 0),
            # The first place in slot order.
            stopped=min(places, key=lambda place: place.slot) if places else None,
            cover=max(before.cover if before is not None else 0, *(share.claim.cover for share in shares)),
            late=any(share.late for share in shares) or (before is not None and before.late),
        ),
    )


def get_live_issue(ctx: Context, key: RoundKey, slot: int) -> int:
    """Return the issue number of the live share in a slot of a round; 0 if there is none."""
    return STANDING_ISSUES.get(ctx.store, *key, slot)


def get_live_refs(ctx: Context, key: RoundKey, limit: int | None = None) -> list[ShareRef]:
    """Return the slots and issues of a round's live shares, by slot; at most ``limit``, or all if it is None."""
    marks = islice(STANDING_ISSUES.scan(ctx.store, *key), limit)
    return [ShareRef(number_of(slot), issue) for (*_, slot), issue in marks]


def get_live_shares(ctx: Context, key: RoundKey) -> list[Share]:
    """Return the live shares of a round, by slot."""
    return [SHARES.must(ctx.store, *key.share(ref.slot, ref.issue)) for ref in get_live_refs(ctx, key)]


def draw_segments(ctx: Context, subject: SharesSubject, beacon: bytes) -> None:
    """Draw the segments of every live share that the block of this subject committed.

    A share may have no drawn segment, because tickets fall on a whole round
    (:func:`pol.rules.lots.draw_duty_segments`).

    The drawn segments of a slot accumulate over its issues. Suppose that a provider does not open its drawn segments,
    and its share is rejected. The next issue of the slot is then still checked at these segments, so it is not easier
    to cheat in it.
    """
    order = ORDERS.must(ctx.store, subject.round.order_id)
    leg = LEGS.must(ctx.store, order.id, subject.round.leg)
    tier = tier_of(leg)
    terms = served_terms(order.terms, leg)
    for share in get_live_shares(ctx, subject.round):
        if share.committed_height != subject.height:
            continue
        key = share.key
        lot = seed(subject.PURPOSE, share_id(key), beacon)
        is_new = not PROVIDERS.must(ctx.store, share.claim.provider).has_verified_share
        own = tier.draw_duty(lot, terms, is_new, order.params)
        slot = (key.order_id, key.leg, key.slot)
        before = LAST_ISSUES.must(ctx.store, *slot).drawn
        drawn = tuple(sorted({*own, *before}))
        LAST_ISSUES.update(ctx.store, *slot, drawn=drawn)
        change_share(ctx, key, drawn=drawn, is_drawn=True)
        ctx.emit(ShareDrawn(key, drawn))


def weigh_segments(ctx: Context, subject: SharesSubject) -> int:
    """Return the gas of drawing segments; it depends on the live shares of the round, and on the tickets of each."""
    tickets = ORDERS.must(ctx.store, subject.round.order_id).params.duty_segments
    return (DRAW_GAS + TICKET_GAS * tickets) * count_live_shares(ctx, subject.round)


def find_share(store: Overlay, task: ShareKey, provider: str) -> Share | None:
    """Return the share that a provider has for its task, or None.

    The issue of the task may have a share of another provider, or one that a later leg has taken over.
    """
    share = SHARES.get(store, *task)
    if share is not None and share.claim.key == task and share.claim.provider == provider:
        return share
    issue = HELD_ISSUES.get(store, *task, provider)
    return SHARES.must(store, *replace(task, issue=issue)) if issue else None


def hold_issue(ctx: Context, task: ShareKey, provider: str) -> int:
    """Return the issue under which the share of a task is held: 0 if it can have that of its task.

    Otherwise it gets the next number that the order has for such shares. A number of the order is never used twice,
    so later legs can take the share over.
    """
    if not SHARES.has(ctx.store, *task):
        return 0
    count = HELD_COUNTS.get(ctx.store, task.order_id)
    HELD_COUNTS.set(ctx.store, count + 1, task.order_id)
    issue = HELD_ISSUES_FROM + count
    HELD_ISSUES.set(ctx.store, issue, *task, provider)
    return issue


def count_live_shares(ctx: Context, key: RoundKey) -> int:
    """Return the number of live shares of a round."""
    return sum(1 for _ in STANDING_ISSUES.keys(ctx.store, *key))


def has_live_shares(ctx: Context, key: RoundKey) -> bool:
    """Return whether a round has live shares."""
    return bool(get_live_refs(ctx, key, 1))


def get_last_issue(ctx: Context, key: ShareKey) -> int:
    """Return the highest issue number that was committed for a share's slot in its round; 0 if none was."""
    last = LAST_ISSUES.get(ctx.store, key.order_id, key.leg, key.slot)
    return last.issue if last is not None and last.round == key.round else 0


def put_last_issue(ctx: Context, key: ShareKey) -> None:
    """Store the issue number of a committed share, which is the highest so far for the slot in this round."""
    last = LAST_ISSUES.get(ctx.store, key.order_id, key.leg, key.slot)
    drawn = last.drawn if last is not None and last.round == key.round else ()
    LAST_ISSUES.put(
        ctx.store,
        LastIssue(
            order_id=key.order_id,
            leg=key.leg,
            slot=key.slot,
            round=key.round,
            issue=key.issue,
            drawn=drawn,
        ),
    )


def make_commitment(
    ctx: Context,
    order: Order,
    key: ShareKey,
    provider: str,
    global_in: bytes,
    local_in: bytes,
    roots: ShareRoots,
) -> bytes:
    """Return the provider's commitment to ``roots`` and to the other values that the chain has for the share."""
    return share_commitment(
        ctx.block.chain_id,
        key,
        provider,
        (global_in, local_in),
        order.terms.executor_version,
        roots,
    )


def reject_share(ctx: Context, share: Share, reason: ShareReason, segment: int) -> None:
    """Reject a share and free its slot; its bond stays locked until its round is verified or the leg is over.

    ``segment`` is the place at which the validator found a mismatch.
    """
    claim = share.claim
    change_share(ctx, share.key, state=ShareState.REJECTED, reason=int(reason), wrong_at=segment)
    count_share(ctx, claim.provider, rejected=1)
    ctx.emit(ShareRejected(share.key, claim.provider, int(reason), was_accepted=False, segment=segment))


def drop_open_round(ctx: Context, key: RoundKey) -> None:
    """Let the queue drop the live shares of a round that will never be closed.

    If the validator is at fault for that, the providers of shares that it received may stand for them.
    """
    OPEN_ROUNDS.delete(ctx.store, *key)
    await_stands(ctx, key)
    schedule(ctx, ctx.clock, DROP_DUE, *key)


def drop_shares(ctx: Context, key: RoundKey) -> None:
    """Drop the next live shares of a round that will never be closed, and their lots.

    A dropped share does not count against its provider. If the share had been accepted, it no longer counts for its
    provider, either.
    """
    reason = int(ShareReason.LEG_ENDED)
    work = share_work(ORDERS.must(ctx.store, key.order_id).terms)
    for ref in get_live_refs(ctx, key, DROPPED_PER_CALL):
        share = SHARES.must(ctx.store, *key.share(ref.slot, ref.issue))
        claim = share.claim
        was_accepted = share.state is ShareState.ACCEPTED
        if was_accepted:
            count_share(ctx, claim.provider, accepted=-1)
        change_share(ctx, share.key, state=ShareState.REJECTED, reason=reason, roots=None, work=work)
        bond = get_share_bond(ctx, share.key)
        if bond is not None:
            return_bond(ctx, claim.order_id, bond)
        ctx.emit(ShareRejected(share.key, claim.provider, reason, was_accepted=was_accepted))
        drop_lot(ctx, SharesSubject(key, share.committed_height))


def weigh_drop(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of one step of dropping an open round; it depends on the number of the round's live shares."""
    return REJECT_GAS * len(get_live_refs(ctx, entry.round_key, DROPPED_PER_CALL))


def note_verified(ctx: Context, provider: str) -> None:
    """Record that a provider has a share in a verified round, so that lots may draw nothing in its later shares."""
    if not PROVIDERS.must(ctx.store, provider).has_verified_share:
        PROVIDERS.update(ctx.store, provider, has_verified_share=True)


def count_share(ctx: Context, provider: str, accepted: int = 0, rejected: int = 0) -> None:
    """Add to the counts of accepted and rejected shares in a provider's record."""
    record = PROVIDERS.must(ctx.store, provider)
    PROVIDERS.update(
        ctx.store,
        provider,
        shares_accepted=record.shares_accepted + accepted,
        shares_rejected=record.shares_rejected + rejected,
    )
