"""Shares of rounds: how they are found, and how they end."""

from dataclasses import replace

from chain.state_machine import keys
from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import get_share_bond, return_bond
from chain.state_machine.proof.lots import drop_lot
from chain.state_machine.tables import PROVIDERS, SHARES, get_number, number_of
from domain.hashing import hash_fields, u32, u64
from domain.reasons import ShareReason
from domain.records import Lot, Share, ShareClaim, ShareState

SHARES_LOT = "shares"
ISSUES = 2**32  # issue numbers travel as four bytes


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


def put_share(ctx: Context, share: Share) -> None:
    """Store a share, and mark its slot of the round as taken for exactly as long as it stands.

    What does not stand any more is never scanned: a round may have seen any number of rejections.
    """
    SHARES.put(ctx.store, share)
    claim = share.claim
    standing = keys.standing_share(claim.order_id, claim.attempt, claim.round, claim.slot)
    if share.state is ShareState.COMMITTED:
        ctx.store.put(standing, claim.issue)
    else:
        ctx.store.delete(standing)


def get_shares_of_lot(ctx: Context, lot: Lot) -> list[Share]:
    """Return the shares that were committed with this lot and still stand."""
    order_id, rest = lot.id[:-24], lot.id[-24:]
    attempt, round, height = (number_of(rest[at : at + 8]) for at in (0, 8, 16))
    shares = get_live_shares(ctx, order_id, attempt, round)
    return [share for share in shares if share.committed_height == height]


def get_live_shares(ctx: Context, order_id: bytes, attempt: int, round: int) -> list[Share]:
    """Return the shares of a round that stand, by slot."""
    prefix = keys.standing_share(order_id, attempt, round)
    found = [
        (number_of(keys.parts_of(key)[3]), issue)
        for key, issue in ctx.store.scan_records(int, prefix)
    ]
    return [SHARES.must(ctx.store, order_id, attempt, round, slot, issue) for slot, issue in found]


def get_last_issue(ctx: Context, claim: ShareClaim) -> int:
    """Return the highest issue number that the claim's slot committed in its round, 0 before the first."""
    number = get_number(ctx.store, keys.last_issue(claim.order_id, claim.attempt, claim.slot))
    round, issue = divmod(number, ISSUES)
    return issue if round == claim.round else 0


def put_last_issue(ctx: Context, claim: ShareClaim) -> None:
    """Remember that a slot committed this issue, which is its highest so far."""
    key = keys.last_issue(claim.order_id, claim.attempt, claim.slot)
    ctx.store.put(key, claim.round * ISSUES + claim.issue)


def reject_share(ctx: Context, share: Share, reason: ShareReason) -> None:
    """Reject a share without a report: its range is free again, and its bond returns."""
    put_share(ctx, replace(share, state=ShareState.REJECTED, reason=int(reason)))
    bond = get_share_bond(ctx, share.claim.key)
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
