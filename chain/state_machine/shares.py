"""Shares of rounds: how they are found, and how they end."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.lots import drop_lot
from chain.state_machine.money import get_share_bond, return_bond
from chain.state_machine.state import PROVIDERS, SHARES, number_of
from chain.types.hashing import hash_fields, u32, u64
from chain.types.reasons import ShareReason
from chain.types.records import Lot, Share, ShareClaim, ShareState

SHARES_LOT = "shares"


def lot_id(order_id: bytes, attempt: int, round: int, height: int) -> bytes:
    """Return the id of the lot of all shares that a block commits in one round: its parts, so that they can be read."""
    return order_id + u64(attempt) + u64(round) + u64(height)


def share_id(claim: ShareClaim) -> bytes:
    """Return what stands for a share in its seed, so that two shares of one block draw apart."""
    return hash_fields(
        "assay/share/id",
        claim.order_id,
        u32(claim.attempt),
        u32(claim.round),
        u32(claim.slot),
        u32(claim.issue),
    )


def get_shares_of_lot(ctx: Context, lot: Lot) -> list[Share]:
    """Return the shares that were committed with this lot."""
    order_id, rest = lot.id[:-24], lot.id[-24:]
    attempt, round, height = (number_of(rest[at : at + 8]) for at in (0, 8, 16))
    shares = SHARES.scan(ctx.store, order_id, attempt, round)
    return [share for share in shares if share.committed_height == height]


def get_live_shares(ctx: Context, order_id: bytes, attempt: int, round: int) -> list[Share]:
    """Return the shares of a round that stand, by slot and issue."""
    shares = SHARES.scan(ctx.store, order_id, attempt, round)
    return [share for share in shares if share.state is ShareState.COMMITTED]


def reject_share(ctx: Context, share: Share, reason: ShareReason) -> None:
    """Reject a share without a report: its range is free again, and its bond returns."""
    SHARES.put(ctx.store, replace(share, state=ShareState.REJECTED, reason=int(reason)))
    bond = get_share_bond(ctx, share.claim)
    if bond is not None:
        return_bond(ctx, share.claim.order_id, bond)
    if reason is not ShareReason.ATTEMPT_ENDED:
        count_share(ctx, share.claim.provider, rejected=1)
    emit_share(ctx, "share.rejected", share.claim, ("reason", int(reason)))


def drop_open_round(ctx: Context, order_id: bytes, attempt: int, round: int) -> None:
    """Reject the shares of a round that will never be closed, which is nobody's verdict, and drop their lots."""
    for share in get_live_shares(ctx, order_id, attempt, round):
        reject_share(ctx, share, ShareReason.ATTEMPT_ENDED)
        drop_lot(ctx, SHARES_LOT, lot_id(order_id, attempt, round, share.committed_height))


def count_share(
    ctx: Context, provider: str, accepted: int = 0, rejected: int = 0, reported: int = 0
) -> None:
    """Add to a provider's track record."""
    record = PROVIDERS.must(ctx.store, provider)
    PROVIDERS.put(
        ctx.store,
        replace(
            record,
            shares_accepted=record.shares_accepted + accepted,
            shares_rejected=record.shares_rejected + rejected,
            shares_reported=record.shares_reported + reported,
        ),
    )


def emit_share(
    ctx: Context, kind: str, claim: ShareClaim, *more: tuple[str, str | int | bytes]
) -> None:
    """Emit an event about a share, with everything that names it."""
    ctx.emit(
        kind,
        ("order", claim.order_id),
        ("attempt", claim.attempt),
        ("round", claim.round),
        ("slot", claim.slot),
        ("issue", claim.issue),
        ("provider", claim.provider),
        *more,
    )
