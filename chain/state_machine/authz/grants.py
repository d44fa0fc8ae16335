"""The life of an authorization: made, used, changed by each use, and removed."""

from dataclasses import replace
from itertools import islice

from chain.state_machine.authz.tables import AUTHORIZATION_ENDS, AUTHORIZATIONS, AUTHORIZATIONS_BY
from chain.state_machine.context import NS, Context
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.authz.events import AuthorizationEnded, AuthorizationUsed
from domain.authz.records import AuthorizationGrant
from domain.errors import (
    AUTHORIZATION_EXPIRED,
    AUTHORIZATION_NOT_FOUND,
    INSUFFICIENT_FUNDS,
    UNAUTHORIZED,
    Refusal,
)
from domain.ledger.messages import MsgSend
from domain.messages import Message, signer_of

REMOVED_MAX = 32
"""Most expired authorizations that the end of a block removes."""


def put_grant(store: Overlay, grant: AuthorizationGrant) -> None:
    """Store an authorization with the keys that find it; the earlier one must be removed."""
    AUTHORIZATIONS.put(store, grant)
    AUTHORIZATIONS_BY.mark(store, grant.granter, grant.grantee, grant.url)
    if grant.expires_ns is not None:
        AUTHORIZATION_ENDS.mark(store, end_second(grant.expires_ns), grant.grantee, grant.granter, grant.url)


def remove_grant(store: Overlay, grant: AuthorizationGrant) -> None:
    """Remove an authorization and the keys that find it."""
    AUTHORIZATIONS.delete(store, grant.grantee, grant.granter, grant.url)
    AUTHORIZATIONS_BY.delete(store, grant.granter, grant.grantee, grant.url)
    if grant.expires_ns is not None:
        AUTHORIZATION_ENDS.delete(store, end_second(grant.expires_ns), grant.grantee, grant.granter, grant.url)


def end_grant(ctx: Context, grant: AuthorizationGrant) -> None:
    """Remove an authorization whose time is over, or whose last coin was sent."""
    remove_grant(ctx.store, grant)
    ctx.emit(AuthorizationEnded(grant.granter, grant.grantee, grant.url))


def end_second(expires_ns: int) -> int:
    """Return the first whole second at which an authorization has expired."""
    return expires_ns // NS + 1


def is_expired(grant: AuthorizationGrant, time_ns: int) -> bool:
    """Return whether the time of an authorization is over."""
    return grant.expires_ns is not None and grant.expires_ns < time_ns


def remove_expired(ctx: Context) -> None:
    """Remove some authorizations whose time is over. The last step of a block does this."""
    second = ctx.time_ns // NS
    expired = []
    for due, grantee, granter, url in islice(AUTHORIZATION_ENDS.keys(ctx.store), REMOVED_MAX):
        if number_of(due) > second:
            break
        expired.append(AUTHORIZATIONS.must(ctx.store, grantee.decode(), granter.decode(), url.decode()))
    for grant in expired:
        end_grant(ctx, grant)


def use_grant(ctx: Context, grantee: str, message: Message) -> None:
    """Write down that ``grantee`` sends a message for its signer; refuse it if the signer did not allow it."""
    granter = signer_of(message)
    if granter == grantee:
        return
    grant = AUTHORIZATIONS.get(ctx.store, grantee, granter, message.URL)
    if grant is None:
        reason = f"{granter} does not allow {grantee} to send {message.URL}: authorization not found"
        raise Refusal(AUTHORIZATION_NOT_FOUND, "msgs", reason, "ask it for an authorization")
    if is_expired(grant, ctx.time_ns):
        raise Refusal(AUTHORIZATION_EXPIRED, "msgs", "authorization expired", "ask the granter for a new one")
    used = _after(grant, message)
    if used is None:
        end_grant(ctx, grant)
        return
    if used != grant:
        AUTHORIZATIONS.put(ctx.store, used)
    ctx.emit(AuthorizationUsed(used))


def _after(grant: AuthorizationGrant, message: Message) -> AuthorizationGrant | None:
    """Return an authorization after a message; None if its last coin is sent. Refuse what it does not allow."""
    if grant.spend_limit is None or not isinstance(message, MsgSend):
        return grant
    if grant.allow_list and message.to_address not in grant.allow_list:
        reason = f"cannot send to {message.to_address} address: unauthorized"
        raise Refusal(UNAUTHORIZED, "msgs.to_address", reason, "send to an account of the authorization's list")
    left = grant.spend_limit - message.amount[0].amount
    if left < 0:
        reason = "requested amount is more than spend limit: insufficient funds"
        raise Refusal(INSUFFICIENT_FUNDS, "msgs.amount", reason, "send less, or ask the granter for more")
    return replace(grant, spend_limit=left) if left else None
