"""Shares of rounds: their storage, the draw of their segments, and their end.

A *live* share is committed, but not yet accepted or rejected. A slot of a round has at most one live share.
"""

from typing import Any

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import get_share_bond
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.gas import DRAW_GAS, REJECT_GAS, TICKET_GAS
from chain.state_machine.proof.lots import drop_lot
from chain.state_machine.proof.tables import (
    LAST_ISSUES,
    SHARES,
    STANDING_ISSUES,
    LastIssue,
    SharesSubject,
)
from chain.state_machine.registry.tables import PROVIDERS
from chain.state_machine.tables import number_of
from domain.hashing import hash_fields, u32
from domain.keys import RoundKey, ShareKey
from domain.market.records import Order
from domain.proof.events import ShareDrawn, ShareRejected
from domain.proof.reasons import ShareReason
from domain.proof.records import Share, ShareRoots, ShareState
from pol.rules.commitment import share_commitment
from pol.rules.lots import seed
from pol.rules.schedule import served_terms
from pol.rules.tiers.table import tier_of


def share_id(key: ShareKey) -> bytes:
    """Return the identifier of a share for its seed. It gives two shares of one block different draws."""
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

    Scans read only live shares, because a round may have any number of rejected shares.
    """
    SHARES.put(ctx.store, share)
    _mark_slot(ctx, share)


def change_share(ctx: Context, key: ShareKey, **changes: Any) -> Share:
    """Change fields of a stored share, and return it. If it is no longer live, its slot becomes free."""
    share = SHARES.update(ctx.store, *key, **changes)
    _mark_slot(ctx, share)
    return share


def _mark_slot(ctx: Context, share: Share) -> None:
    *slot, _ = share.claim.key
    if share.state is ShareState.COMMITTED:
        STANDING_ISSUES.set(ctx.store, share.claim.issue, *slot)
    else:
        STANDING_ISSUES.delete(ctx.store, *slot)


def get_live_issue(ctx: Context, key: RoundKey, slot: int) -> int:
    """Return the issue number of the live share in a slot of a round; 0 if there is none."""
    return STANDING_ISSUES.get(ctx.store, *key, slot)


def get_live_shares(ctx: Context, key: RoundKey) -> list[Share]:
    """Return the live shares of a round, by slot."""
    keys = [key.share(number_of(slot), issue) for (*_, slot), issue in STANDING_ISSUES.scan(ctx.store, *key)]
    return [SHARES.must(ctx.store, *share_key) for share_key in keys]


def draw_segments(ctx: Context, subject: SharesSubject, beacon: bytes) -> None:
    """Draw the segments of every live share that the block of this subject committed.

    A share may have no drawn segment, because tickets fall on a whole round
    (:func:`pol.rules.lots.draw_duty_segments`).

    The drawn segments of a slot accumulate over its issues. Suppose that a provider does not open its drawn segments
    and is rejected: the next issue still includes these segments, so it is not easier.
    """
    order = ORDERS.must(ctx.store, subject.round.order_id)
    leg = LEGS.must(ctx.store, order.id, subject.round.leg)
    tier = tier_of(leg)
    terms = served_terms(order.terms, leg)
    for share in get_live_shares(ctx, subject.round):
        if share.committed_height != subject.height:
            continue
        key = share.claim.key
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


def count_live_shares(ctx: Context, key: RoundKey) -> int:
    """Return the number of live shares of a round."""
    return sum(1 for _ in STANDING_ISSUES.keys(ctx.store, *key))


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


def reject_share(ctx: Context, share: Share, reason: ShareReason) -> None:
    """Reject a share and free its slot; its bond stays locked until its round is verified or the leg is over."""
    claim = share.claim
    change_share(ctx, claim.key, state=ShareState.REJECTED, reason=int(reason))
    count_share(ctx, claim.provider, rejected=1)
    ctx.emit(ShareRejected(claim.key, claim.provider, int(reason)))


def drop_open_round(ctx: Context, key: RoundKey) -> None:
    """Drop the live shares of a round that will never be closed, and their lots.

    The drop does not count against a provider.
    """
    reason = int(ShareReason.LEG_ENDED)
    for share in get_live_shares(ctx, key):
        claim = share.claim
        change_share(ctx, claim.key, state=ShareState.REJECTED, reason=reason)
        bond = get_share_bond(ctx, claim.key)
        if bond is not None:
            return_bond(ctx, claim.order_id, bond)
        ctx.emit(ShareRejected(claim.key, claim.provider, reason))
        drop_lot(ctx, SharesSubject(key, share.committed_height))


def weigh_open_round(ctx: Context, key: RoundKey) -> int:
    """Return the gas of dropping an open round; it depends on the number of its live shares."""
    return REJECT_GAS * count_live_shares(ctx, key)


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
