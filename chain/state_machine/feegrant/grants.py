"""The life of a fee grant: made, used, changed by each use, and removed.

A fee grant is used in the ante, before the messages of the block. So it pays for a transaction even if an earlier
message of the same block revokes it.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice

from chain.state_machine.context import NS, Context
from chain.state_machine.feegrant.tables import FEE_GRANT_ENDS, FEE_GRANTS, FEE_GRANTS_BY
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.errors import FEE_ALLOWANCE_EXPIRED, FEE_LIMIT_EXCEEDED, GRANT_NOT_FOUND, MESSAGE_NOT_ALLOWED, Refusal
from domain.feegrant.events import FeeGrantEnded, FeeGrantUsed
from domain.feegrant.records import FeeGrant, FeePeriod
from domain.tx import Tx

REMOVED_MAX = 32
"""Most expired fee grants that the end of a block removes."""


def put_grant(store: Overlay, grant: FeeGrant) -> None:
    """Store a new fee grant with the keys that find it."""
    FEE_GRANTS.put(store, grant)
    FEE_GRANTS_BY.mark(store, grant.granter, grant.grantee)
    if grant.expires_ns is not None:
        FEE_GRANT_ENDS.mark(store, end_second(grant.expires_ns), grant.grantee, grant.granter)


def remove_grant(store: Overlay, grant: FeeGrant) -> None:
    """Remove a fee grant and the keys that find it."""
    FEE_GRANTS.delete(store, grant.grantee, grant.granter)
    FEE_GRANTS_BY.delete(store, grant.granter, grant.grantee)
    if grant.expires_ns is not None:
        FEE_GRANT_ENDS.delete(store, end_second(grant.expires_ns), grant.grantee, grant.granter)


def end_grant(ctx: Context, grant: FeeGrant) -> None:
    """Remove a fee grant whose time is over, or whose last coin was spent."""
    remove_grant(ctx.store, grant)
    ctx.emit(FeeGrantEnded(grant.granter, grant.grantee))


def end_second(expires_ns: int) -> int:
    """Return the first whole second at which a fee grant has expired."""
    return expires_ns // NS + 1


def is_expired(grant: FeeGrant, time_ns: int) -> bool:
    """Return whether the time of a fee grant is over."""
    return grant.expires_ns is not None and grant.expires_ns < time_ns


def get_expired(ctx: Context, limit: int) -> list[FeeGrant]:
    """Return the first fee grants whose time is over, at most ``limit``."""
    second = ctx.time_ns // NS
    found = []
    for due, grantee, granter in islice(FEE_GRANT_ENDS.keys(ctx.store), limit):
        if number_of(due) > second:
            break
        found.append(FEE_GRANTS.must(ctx.store, grantee.decode(), granter.decode()))
    return found


def remove_expired(ctx: Context) -> None:
    """Remove some fee grants whose time is over. The last step of a block does this."""
    for grant in get_expired(ctx, REMOVED_MAX):
        end_grant(ctx, grant)


# --- use -----------------------------------------------------------------------------------------


def check_use(ctx: Context, tx: Tx, grantee: str, fee: int) -> Callable[[], None]:
    """Return the function that writes down that a fee grant pays a fee; refuse what it does not allow."""
    granter = tx.fee_granter
    grant = FEE_GRANTS.get(ctx.store, grantee, granter)
    if grant is None:
        reason = f"{granter} does not allow to pay fees for {grantee}: fee-grant not found: not found"
        raise Refusal(GRANT_NOT_FOUND, "fee.granter", reason, "ask it for a fee grant, or leave it out")
    if is_expired(grant, ctx.time_ns):
        remedy = "ask the granter for a new fee grant"
        raise Refusal(FEE_ALLOWANCE_EXPIRED, "fee.granter", "fee allowance expired", remedy)
    if grant.allowed:
        for message in tx.messages:
            if message.URL not in grant.allowed:
                reason = f"{message.URL} is not in the fee grant: message not allowed"
                raise Refusal(MESSAGE_NOT_ALLOWED, "fee.granter", reason, "pay the fee of this transaction yourself")
    used = spend(grant, fee, ctx.time_ns)
    return lambda: _use(ctx, used, fee)


def spend(grant: FeeGrant, fee: int, time_ns: int) -> FeeGrant:
    """Return a fee grant after it paid a fee; refuse a fee above what is left."""
    period = grant.period and renew(grant, grant.period, time_ns)
    if period is not None:
        if fee > period.left:
            raise _exceeded(fee, period.left, "in this period")
        period = replace(period, left=period.left - fee)
    limit = grant.spend_limit
    if limit is not None:
        if fee > limit:
            raise _exceeded(fee, limit, "in all")
        limit -= fee
    return replace(grant, spend_limit=limit, period=period)


def _exceeded(fee: int, left: int, when: str) -> Refusal:
    reason = f"the fee is {fee}uassay, but {left}uassay are left {when}: fee limit exceeded"
    return Refusal(FEE_LIMIT_EXCEEDED, "fee.granter", reason, "pay a lower fee, or pay it yourself")


def renew(grant: FeeGrant, period: FeePeriod, time_ns: int) -> FeePeriod:
    """Return the period that runs at a time, as the Cosmos SDK computes it.

    The next period begins where the last one ended. After a longer pause it begins now.
    """
    if time_ns < period.resets_ns:
        return period
    left = period.limit if grant.spend_limit is None else min(period.limit, grant.spend_limit)
    resets = period.resets_ns + period.length_ns
    return replace(period, left=left, resets_ns=resets if resets >= time_ns else time_ns + period.length_ns)


def _use(ctx: Context, used: FeeGrant, fee: int) -> None:
    FEE_GRANTS.put(ctx.store, used)
    if ctx.is_check:
        return  # the mempool stores only what bounds later transactions
    ctx.note("use_feegrant", ("granter", used.granter), ("grantee", used.grantee))
    ctx.emit(FeeGrantUsed(fee, used))
    if used.spend_limit == 0:
        end_grant(ctx, used)
