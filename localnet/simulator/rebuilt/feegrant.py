"""The second books of fee grants, as the events tell them."""

from functools import singledispatchmethod
from typing import Any

from domain.feegrant.events import FeeGrantEnded, FeeGrantRevoked, FeeGrantUsed, FeesGranted
from domain.feegrant.records import FeeGrant

FeeGrantChange = FeesGranted | FeeGrantUsed | FeeGrantRevoked | FeeGrantEnded


class FeeGrantBooks:
    """The fee grants by grantee and granter."""

    def __init__(self) -> None:
        self.grants: dict[tuple[str, str], FeeGrant] = {}

    @singledispatchmethod
    def take(self, change: Any) -> None:
        """Change the books as an event tells."""
        raise AssertionError(f"the books of fee grants have no row for {type(change).__name__}")

    @take.register
    def _(self, change: FeesGranted | FeeGrantUsed) -> None:
        self.grants[change.record.grantee, change.record.granter] = change.record

    @take.register
    def _(self, change: FeeGrantRevoked | FeeGrantEnded) -> None:
        del self.grants[change.grantee, change.granter]
