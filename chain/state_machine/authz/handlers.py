"""Handlers of authorizations: grant, revoke, and send messages for others."""

from chain.state_machine.authz.grants import put_grant, remove_grant, use_grant
from chain.state_machine.authz.tables import AUTHORIZATIONS
from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.ledger.balances import ensure_account, is_module
from domain.authz.events import AuthorizationRevoked, MessagesAuthorized
from domain.authz.messages import MsgExec, MsgGrant, MsgRevoke, SendAuthorization
from domain.authz.records import AuthorizationGrant
from domain.errors import (
    AUTHORIZATION_NOT_FOUND,
    GRANTEE_IS_GRANTER,
    INVALID_COINS,
    INVALID_EXPIRATION,
    INVALID_REQUEST,
    UNAUTHORIZED,
    UNKNOWN_REQUEST,
    Refusal,
)
from domain.ledger.messages import MsgSend

# --- MsgGrant ------------------------------------------------------------------------------------


def check_grant_fields(message: MsgGrant) -> None:
    """Check the accounts, and the authorization by itself."""
    if message.granter == message.grantee:
        reason = "is the granter: grantee and granter should be different"
        raise Refusal(GRANTEE_IS_GRANTER, "grantee", reason, "name another account")
    if is_module(message.grantee):
        reason = "is a module's address, which sends no messages"
        raise Refusal(UNAUTHORIZED, "grantee", reason, "name the address of a key")
    if is_module(message.granter):
        reason = "is a module's address, for which no account sends messages"
        raise Refusal(UNAUTHORIZED, "granter", reason, "grant from the address of a key")
    allowed = message.grant.authorization
    if isinstance(allowed, SendAuthorization):
        if not allowed.spend_limit[0].amount:
            reason = "is 0: spend limit must be positive"
            raise Refusal(INVALID_COINS, "grant.authorization.spend_limit", reason, "use 1 or more")
        if len(set(allowed.allow_list)) < len(allowed.allow_list):
            reason = "lists an address twice"
            raise Refusal(INVALID_REQUEST, "grant.authorization.allow_list", reason, "list each address once")
    elif allowed.msg == MsgExec.URL:
        reason = "cannot be granted, because a MsgExec cannot be inside another one"
        raise Refusal(INVALID_REQUEST, "grant.authorization.msg", reason, "grant the types of messages themselves")


def check_grant(ctx: Context, message: MsgGrant) -> AuthorizationGrant:
    """Return the new authorization.

    Refuse a type of message that the chain does not have, another denomination, and a time that is over.
    """
    allowed, expiration = message.grant.authorization, message.grant.expiration
    expires = None if expiration is None else expiration.ns
    if expires is not None and expires <= ctx.time_ns:
        reason = "expiration time of authorization should be more than current time"
        raise Refusal(INVALID_EXPIRATION, "grant.expiration", reason, "use a later time, or leave it out")
    if not isinstance(allowed, SendAuthorization):
        if not ctx.rules.has_message(allowed.msg):
            reason = f"{allowed.msg} doesn't exist: invalid type"
            raise Refusal(UNKNOWN_REQUEST, "grant.authorization.msg", reason, "use the type url of a message")
        return AuthorizationGrant(granter=message.granter, grantee=message.grantee, url=allowed.msg, expires_ns=expires)
    coin = allowed.spend_limit[0]
    if coin.denom != ctx.block.denom:
        reason = f"{coin.denom} is not the coin of this chain"
        raise Refusal(INVALID_COINS, "grant.authorization.spend_limit.denom", reason, f"use {ctx.block.denom}")
    return AuthorizationGrant(
        granter=message.granter,
        grantee=message.grantee,
        url=MsgSend.URL,
        expires_ns=expires,
        spend_limit=coin.amount,
        allow_list=allowed.allow_list,
    )


def apply_grant(ctx: Context, message: MsgGrant, grant: AuthorizationGrant) -> None:
    """Store the authorization in place of an earlier one, and make an account for the grantee."""
    old = AUTHORIZATIONS.get(ctx.store, grant.grantee, grant.granter, grant.url)
    if old is not None:
        remove_grant(ctx.store, old)
    ensure_account(ctx.store, grant.grantee)
    put_grant(ctx.store, grant)
    ctx.note(
        "cosmos.authz.v1beta1.EventGrant",
        ("msg_type_url", f'"{grant.url}"'),
        ("granter", f'"{grant.granter}"'),
        ("grantee", f'"{grant.grantee}"'),
    )
    ctx.emit(MessagesAuthorized(grant))


# --- MsgRevoke -----------------------------------------------------------------------------------


def check_revoke(ctx: Context, message: MsgRevoke) -> AuthorizationGrant:
    """Return the authorization; refuse if there is none."""
    grant = AUTHORIZATIONS.get(ctx.store, message.grantee, message.granter, message.msg_type_url)
    if grant is None:
        remedy = "list yours with `assay query authz grants-by-granter`"
        raise Refusal(AUTHORIZATION_NOT_FOUND, "msg_type_url", "authorization not found", remedy)
    return grant


def apply_revoke(ctx: Context, message: MsgRevoke, grant: AuthorizationGrant) -> None:
    """Remove the authorization."""
    remove_grant(ctx.store, grant)
    ctx.note(
        "cosmos.authz.v1beta1.EventRevoke",
        ("msg_type_url", f'"{grant.url}"'),
        ("granter", f'"{grant.granter}"'),
        ("grantee", f'"{grant.grantee}"'),
    )
    ctx.emit(AuthorizationRevoked(grant.granter, grant.grantee, grant.url))


# --- MsgExec -------------------------------------------------------------------------------------


def check_exec_fields(message: MsgExec) -> None:
    """Refuse a ``MsgExec`` inside another one."""
    if any(isinstance(inner, MsgExec) for inner in message.msgs):
        reason = "has a MsgExec inside"
        raise Refusal(INVALID_REQUEST, "msgs", reason, "put the messages themselves into one MsgExec")


def check_exec(ctx: Context, message: MsgExec) -> None:
    """Check nothing: each message is checked after the messages before it were done."""


def apply_exec(ctx: Context, message: MsgExec, _: None) -> None:
    """Do each message for its signer, if it allowed it; all of them or none."""
    try:
        for number, inner in enumerate(message.msgs, 1):
            ctx.inner_number = number
            use_grant(ctx, message.grantee, inner)
            ctx.rules.apply_message(ctx, inner)
    finally:
        ctx.inner_number = 0


HANDLERS = (
    Handler(message=MsgGrant, check_state=check_grant, apply=apply_grant, check_fields=check_grant_fields),
    Handler(message=MsgExec, check_state=check_exec, apply=apply_exec, check_fields=check_exec_fields),
    Handler(MsgRevoke, check_revoke, apply_revoke),
)
