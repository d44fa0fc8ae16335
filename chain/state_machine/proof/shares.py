"""Shares of rounds: how they are found and drawn, and how they end."""

from typing import Any

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import get_share_bond
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.gas import DRAW_GAS, REJECT_GAS
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
from pol.rules.schedule import share_segments
from pol.rules.tiers.table import tier_of


def share_id(key: ShareKey) -> bytes:
    """Return what stands for a share in its seed, so that two shares of one block draw apart."""
    return hash_fields(
        "assay/share/id",
        key.order_id,
        u32(key.leg),
        u32(key.round),
        u32(key.slot),
        u32(key.issue),
    )


def put_share(ctx: Context, share: Share) -> None:
    """Store a share, and mark its slot of the round as taken for exactly as long as it stands.

    What does not stand any more is never scanned: a round may have seen any number of rejections.
    """
    SHARES.put(ctx.store, share)
    _mark_slot(ctx, share)


def change_share(ctx: Context, key: ShareKey, **changes: Any) -> Share:
    """Change fields of a stored share, and return it; its slot is free when it does not stand any more."""
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
    """Return the issue number of the share that stands in a slot of a round, 0 where none does."""
    return STANDING_ISSUES.get(ctx.store, *key, slot)


def get_live_shares(ctx: Context, key: RoundKey) -> list[Share]:
    """Return the shares of a round that stand, by slot."""
    found = [key.share(number_of(slot), issue) for (*_, slot), issue in STANDING_ISSUES.scan(ctx.store, *key)]
    return [SHARES.must(ctx.store, *share) for share in found]


def draw_segments(ctx: Context, subject: SharesSubject, beacon: bytes) -> None:
    """Draw the segments of every share that this commitment put on chain and nobody rejected since.

    The lots of a slot add up: who does not open what was drawn and is rejected gets no better lot.
    """
    order = ORDERS.must(ctx.store, subject.round.order_id)
    tier = tier_of(LEGS.must(ctx.store, order.id, subject.round.leg))
    segments = share_segments(order.terms)
    for share in get_live_shares(ctx, subject.round):
        if share.committed_height != subject.height:
            continue
        key = share.claim.key
        lot = seed(subject.PURPOSE, share_id(key), beacon)
        own = tier.draw_duty(lot, segments, order.params)
        slot = (key.order_id, key.leg, key.slot)
        before = LAST_ISSUES.must(ctx.store, *slot).drawn
        drawn = tuple(sorted({*own, *before}))
        LAST_ISSUES.update(ctx.store, *slot, drawn=drawn)
        change_share(ctx, key, drawn=drawn)
        ctx.emit(ShareDrawn(key, drawn))


def weigh_segments(ctx: Context, subject: SharesSubject) -> int:
    """Return the gas of a draw: the shares of the round that stand."""
    return DRAW_GAS * count_live_shares(ctx, subject.round)


def count_live_shares(ctx: Context, key: RoundKey) -> int:
    """Return how many shares of a round stand."""
    return sum(1 for _ in STANDING_ISSUES.keys(ctx.store, *key))


def get_last_issue(ctx: Context, key: ShareKey) -> int:
    """Return the highest issue number that the share's slot committed in its round, 0 before the first."""
    last = LAST_ISSUES.get(ctx.store, key.order_id, key.leg, key.slot)
    return last.issue if last is not None and last.round == key.round else 0


def put_last_issue(ctx: Context, key: ShareKey) -> None:
    """Remember that a slot committed this issue, which is its highest so far in the round."""
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
    """Return the commitment that ``roots`` make under a provider's name, from what the chain knows of the share."""
    return share_commitment(
        ctx.block.chain_id,
        key,
        provider,
        (global_in, local_in),
        order.terms.executor_version,
        roots,
    )


def reject_share(ctx: Context, share: Share, reason: ShareReason) -> None:
    """Reject a share: its slot is free again; its bond stays until its round is verified, or the leg is over."""
    claim = share.claim
    change_share(ctx, claim.key, state=ShareState.REJECTED, reason=int(reason))
    count_share(ctx, claim.provider, rejected=1)
    ctx.emit(ShareRejected(claim.key, claim.provider, int(reason)))


def drop_open_round(ctx: Context, key: RoundKey) -> None:
    """Drop the shares of a round that will never be closed, which is nobody's verdict, and their lots."""
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
    """Return the gas of dropping a round: its shares that stand."""
    return REJECT_GAS * count_live_shares(ctx, key)


def count_share(ctx: Context, provider: str, accepted: int = 0, rejected: int = 0) -> None:
    """Add to a provider's track record."""
    record = PROVIDERS.must(ctx.store, provider)
    PROVIDERS.update(
        ctx.store,
        provider,
        shares_accepted=record.shares_accepted + accepted,
        shares_rejected=record.shares_rejected + rejected,
    )
