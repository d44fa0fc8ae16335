"""Events that the component of authorizations emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.authz.records import AuthorizationGrant
from domain.events import Change


@dataclass(frozen=True, slots=True)
class MessagesAuthorized(Change):
    """An account lets another send messages of a type for it. An earlier authorization for the type is replaced."""

    KIND: ClassVar[str] = "authz.granted"
    record: AuthorizationGrant


@dataclass(frozen=True, slots=True)
class AuthorizationUsed(Change):
    """A grantee sent a message for its granter. ``record`` is the authorization after it."""

    KIND: ClassVar[str] = "authz.used"
    record: AuthorizationGrant


@dataclass(frozen=True, slots=True)
class AuthorizationRevoked(Change):
    """A granter ended an authorization."""

    KIND: ClassVar[str] = "authz.revoked"
    granter: str
    grantee: str
    url: str


@dataclass(frozen=True, slots=True)
class AuthorizationEnded(Change):
    """An authorization ended, because its time was over or because its last coin was sent."""

    KIND: ClassVar[str] = "authz.ended"
    granter: str
    grantee: str
    url: str
