"""Events that the component of fee grants emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change
from domain.feegrant.records import FeeGrant


@dataclass(frozen=True, slots=True)
class FeesGranted(Change):
    """An account lets another pay fees with its coins."""

    KIND: ClassVar[str] = "feegrant.granted"
    record: FeeGrant


@dataclass(frozen=True, slots=True)
class FeeGrantUsed(Change):
    """A granter paid a fee (uassay) for a grantee. ``record`` is the fee grant after it."""

    KIND: ClassVar[str] = "feegrant.used"
    fee: int
    record: FeeGrant


@dataclass(frozen=True, slots=True)
class FeeGrantRevoked(Change):
    """A granter ended a fee grant."""

    KIND: ClassVar[str] = "feegrant.revoked"
    granter: str
    grantee: str


@dataclass(frozen=True, slots=True)
class FeeGrantEnded(Change):
    """A fee grant ended, because its time was over or because its last coin was spent."""

    KIND: ClassVar[str] = "feegrant.ended"
    granter: str
    grantee: str
