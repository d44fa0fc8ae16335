"""The second books of authorizations, as the events tell them."""

from functools import singledispatchmethod
from typing import Any

from domain.authz.events import AuthorizationEnded, AuthorizationRevoked, AuthorizationUsed, MessagesAuthorized
from domain.authz.records import AuthorizationGrant

AuthzChange = MessagesAuthorized | AuthorizationUsed | AuthorizationRevoked | AuthorizationEnded


class AuthzBooks:
    """The authorizations by grantee, granter and type of message."""

    def __init__(self) -> None:
        self.grants: dict[tuple[str, str, str], AuthorizationGrant] = {}

    @singledispatchmethod
    def take(self, change: Any) -> None:
        """Change the books as an event tells."""
        raise AssertionError(f"the books of authorizations have no row for {type(change).__name__}")

    @take.register
    def _(self, change: MessagesAuthorized | AuthorizationUsed) -> None:
        record = change.record
        self.grants[record.grantee, record.granter, record.url] = record

    @take.register
    def _(self, change: AuthorizationRevoked | AuthorizationEnded) -> None:
        del self.grants[change.grantee, change.granter, change.url]
