"""Handlers of fee grants: make, revoke, and remove those that have expired."""

from chain.state_machine.context import Context
from chain.state_machine.feegrant.gas import PRUNE_GAS
from chain.state_machine.feegrant.grants import end_grant, get_expired, is_expired, put_grant, remove_grant
from chain.state_machine.feegrant.tables import FEE_GRANTS
from chain.state_machine.handler import Handler
from chain.state_machine.ledger.balances import ensure_account, is_module
from domain.errors import (
    GRANT_NOT_FOUND,
    INVALID_ADDRESS,
    INVALID_COINS,
    INVALID_DURATION,
    INVALID_REQUEST,
    NO_ALLOWED_MESSAGES,
    UNAUTHORIZED,
    Refusal,
)
from domain.feegrant.events import FeeGrantRevoked, FeesGranted
from domain.feegrant.messages import (
    PRUNED_MAX,
    AllowedMsgAllowance,
    BasicAllowance,
    MsgGrantAllowance,
    MsgPruneAllowances,
    MsgRevokeAllowance,
    PeriodicAllowance,
)
from domain.feegrant.records import FeeGrant, FeePeriod
from domain.ledger.records import Coin

# --- MsgGrantAllowance ---------------------------------------------------------------------------


def check_grant_fields(message: MsgGrantAllowance) -> None:
    """Check the accounts, and each limit of the allowance."""
    if message.granter == message.grantee:
        reason = "is the granter: cannot self-grant fee authorization"
        raise Refusal(INVALID_ADDRESS, "grantee", reason, "name another account")
    if is_module(message.grantee):
        reason = "is a module's address, which pays no fees"
        raise Refusal(UNAUTHORIZED, "grantee", reason, "name the address of a key")
    basic, periodic, allowed = _parts(message)
    if allowed is not None and not allowed:
        remedy = "name a type of message, or use the inner allowance alone"
        raise Refusal(NO_ALLOWED_MESSAGES, "allowance.allowed_messages", "is empty: allowed messages are empty", remedy)
    _check_limit(basic.spend_limit, "allowance.spend_limit")
    if basic.expiration is not None and basic.expiration.seconds < 0:
        reason = "is before 1970: expiration time cannot be negative"
        raise Refusal(INVALID_REQUEST, "allowance.expiration", reason, "use a later time, or leave it out")
    if periodic is None:
        return
    if not periodic.period_spend_limit:
        reason = "is empty: spend limit must be positive"
        raise Refusal(INVALID_COINS, "allowance.period_spend_limit", reason, "say how much each period allows")
    _check_limit(periodic.period_spend_limit, "allowance.period_spend_limit")
    if not periodic.period.ns:
        raise Refusal(
            INVALID_DURATION, "allowance.period", "is 0: invalid duration", "use a period of a second or more"
        )


def _parts(message: MsgGrantAllowance) -> tuple[BasicAllowance, PeriodicAllowance | None, tuple[str, ...] | None]:
    """Return the limits of the whole, those of each period, and the types of messages if there is such a list."""
    whole = message.allowance
    allowed = whole.allowed_messages if isinstance(whole, AllowedMsgAllowance) else None
    inner = whole.allowance if isinstance(whole, AllowedMsgAllowance) else whole
    if isinstance(inner, PeriodicAllowance):
        return inner.basic, inner, allowed
    return inner, None, allowed


def _check_limit(coins: tuple[Coin, ...], field: str) -> None:
    if coins and not coins[0].amount:
        raise Refusal(INVALID_COINS, field, "is 0: spend limit must be positive", "use 1 or more, or leave it out")


def check_grant(ctx: Context, message: MsgGrantAllowance) -> FeeGrant:
    """Return the new fee grant.

    Refuse coins of another denomination, a time that is over, and a second fee grant to the same account.
    """
    basic, periodic, allowed = _parts(message)
    limit = _amount(ctx, basic.spend_limit, "allowance.spend_limit")
    expires = None if basic.expiration is None else basic.expiration.ns
    if expires is not None and expires < ctx.time_ns:
        reason = "expiration is before current block time"
        raise Refusal(INVALID_REQUEST, "allowance.expiration", reason, "use a later time, or leave it out")
    old = FEE_GRANTS.get(ctx.store, message.grantee, message.granter)
    if old is not None and not is_expired(old, ctx.time_ns):
        reason = "fee allowance already exists"
        raise Refusal(INVALID_REQUEST, "grantee", reason, "revoke it first with `assay tx feegrant revoke`")
    period = None
    if periodic is not None:
        each = _amount(ctx, periodic.period_spend_limit, "allowance.period_spend_limit")
        first = _amount(ctx, periodic.period_can_spend, "allowance.period_can_spend")
        period = FeePeriod(
            length_ns=periodic.period.ns,
            limit=each or 0,
            left=first or 0,
            resets_ns=0 if periodic.period_reset is None else periodic.period_reset.ns,
        )
    return FeeGrant(
        granter=message.granter,
        grantee=message.grantee,
        spend_limit=limit,
        expires_ns=expires,
        period=period,
        allowed=allowed or (),
    )


def _amount(ctx: Context, coins: tuple[Coin, ...], field: str) -> int | None:
    if not coins:
        return None
    if coins[0].denom != ctx.block.denom:
        reason = f"{coins[0].denom} is not the coin of this chain"
        raise Refusal(INVALID_COINS, f"{field}.denom", reason, f"use {ctx.block.denom}")
    return coins[0].amount


def apply_grant(ctx: Context, message: MsgGrantAllowance, grant: FeeGrant) -> None:
    """Store the fee grant, and make an account for the grantee, which may have no coins."""
    old = FEE_GRANTS.get(ctx.store, grant.grantee, grant.granter)
    if old is not None:
        end_grant(ctx, old)
    ensure_account(ctx.store, grant.grantee)
    put_grant(ctx.store, grant)
    ctx.note("set_feegrant", ("granter", grant.granter), ("grantee", grant.grantee))
    ctx.emit(FeesGranted(grant))


# --- MsgRevokeAllowance --------------------------------------------------------------------------


def check_revoke(ctx: Context, message: MsgRevokeAllowance) -> FeeGrant:
    """Return the fee grant; refuse if there is none."""
    grant = FEE_GRANTS.get(ctx.store, message.grantee, message.granter)
    if grant is None:
        remedy = "list yours with `assay query feegrant grants-by-granter`"
        raise Refusal(GRANT_NOT_FOUND, "grantee", "fee-grant not found: not found", remedy)
    return grant


def apply_revoke(ctx: Context, message: MsgRevokeAllowance, grant: FeeGrant) -> None:
    """Remove the fee grant."""
    remove_grant(ctx.store, grant)
    ctx.note("revoke_feegrant", ("granter", grant.granter), ("grantee", grant.grantee))
    ctx.emit(FeeGrantRevoked(grant.granter, grant.grantee))


# --- MsgPruneAllowances --------------------------------------------------------------------------


def check_prune(ctx: Context, message: MsgPruneAllowances) -> list[FeeGrant]:
    """Return the fee grants to remove."""
    return get_expired(ctx, PRUNED_MAX)


def weigh_prune(ctx: Context, message: MsgPruneAllowances, expired: list[FeeGrant]) -> int:
    """Return the gas of the removals."""
    return PRUNE_GAS * len(expired)


def apply_prune(ctx: Context, message: MsgPruneAllowances, expired: list[FeeGrant]) -> None:
    """Remove the fee grants."""
    for grant in expired:
        end_grant(ctx, grant)
    ctx.note("prune_feegrant", ("pruner", message.pruner))


HANDLERS = (
    Handler(message=MsgGrantAllowance, check_state=check_grant, apply=apply_grant, check_fields=check_grant_fields),
    Handler(MsgRevokeAllowance, check_revoke, apply_revoke),
    Handler(MsgPruneAllowances, check_prune, apply_prune, weight=weigh_prune),
)
