"""Shares of rounds: how they are found and drawn, and how they end."""

from typing import Any

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import get_share_bond
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.lots import drop_lot
from chain.state_machine.proof.tables import LAST_ISSUES, SHARES, STANDING_ISSUES, SharesSubject
from chain.state_machine.registry.tables import PROVIDERS
from chain.state_machine.tables import number_of
from domain.events import ShareDrawn, ShareRejected
from domain.hashing import hash_fields, u32
from domain.reasons import ShareReason
from domain.records import RoundKey, Share, ShareKey, ShareState
from pol.rules.lots import draw, seed

ISSUES = 2**32
"""One more than the highest issue number, because they travel as four bytes."""


def share_id(key: ShareKey) -> bytes:
    """Return what stands for a share in its seed, so that two shares of one block draw apart."""
    return hash_fields(
        "assay/share/id",
        key.order_id,
        u32(key.attempt),
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


def get_live_shares(ctx: Context, key: RoundKey) -> list[Share]:
    """Return the shares of a round that stand, by slot."""
    found = [
        key.share(number_of(slot), issue)
        for (*_, slot), issue in STANDING_ISSUES.scan(ctx.store, *key)
    ]
    return [SHARES.must(ctx.store, *share) for share in found]


def draw_segments(ctx: Context, subject: SharesSubject, hashes: tuple[bytes, ...]) -> None:
    """Draw the segments of every share that this commitment put on chain and nobody rejected since."""
    count = ORDERS.must(ctx.store, subject.round.order_id).params.segments_drawn
    for share in get_live_shares(ctx, subject.round):
        if share.committed_height != subject.height:
            continue
        key = share.claim.key
        drawn = draw(seed(subject.PURPOSE, share_id(key), hashes), share.claim.segments, count)
        change_share(ctx, key, drawn=drawn)
        ctx.emit(ShareDrawn(key, drawn))


def get_last_issue(ctx: Context, key: ShareKey) -> int:
    """Return the highest issue number that the share's slot committed in its round, 0 before the first."""
    round, issue = divmod(LAST_ISSUES.get(ctx.store, key.order_id, key.attempt, key.slot), ISSUES)
    return issue if round == key.round else 0


def put_last_issue(ctx: Context, key: ShareKey) -> None:
    """Remember that a slot committed this issue, which is its highest so far."""
    number = key.round * ISSUES + key.issue
    LAST_ISSUES.set(ctx.store, number, key.order_id, key.attempt, key.slot)


def reject_share(ctx: Context, share: Share, reason: ShareReason) -> None:
    """Reject a share without a report: its range is free again, and its bond returns."""
    change_share(ctx, share.claim.key, state=ShareState.REJECTED, reason=int(reason))
    bond = get_share_bond(ctx, share.claim.key)
    if bond is not None:
        return_bond(ctx, share.claim.order_id, bond)
    if reason is not ShareReason.ATTEMPT_ENDED:
        count_share(ctx, share.claim.provider, rejected=1)
    ctx.emit(ShareRejected(share.claim.key, share.claim.provider, int(reason)))


def drop_open_round(ctx: Context, key: RoundKey) -> None:
    """Reject the shares of a round that will never be closed, which is nobody's verdict, and drop their lots."""
    for share in get_live_shares(ctx, key):
        reject_share(ctx, share, ShareReason.ATTEMPT_ENDED)
        drop_lot(ctx, SharesSubject(key, share.committed_height))


def count_share(
    ctx: Context, provider: str, accepted: int = 0, rejected: int = 0, reported: int = 0
) -> None:
    """Add to a provider's track record."""
    record = PROVIDERS.must(ctx.store, provider)
    PROVIDERS.update(
        ctx.store,
        provider,
        shares_accepted=record.shares_accepted + accepted,
        shares_rejected=record.shares_rejected + rejected,
        shares_reported=record.shares_reported + reported,
    )
