"""Events that the slashing component emits. Amounts are in uassay."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change
from domain.slashing.records import Evidence


@dataclass(frozen=True, slots=True)
class SigningStarted(Change):
    """A validator has to sign blocks from ``start_height`` on. Its absences over ``window`` blocks are counted anew."""

    KIND: ClassVar[str] = "slashing.started"
    operator: str
    start_height: int
    window: int


@dataclass(frozen=True, slots=True)
class EvidenceAccepted(Change):
    """The consensus proved that a validator signed twice. The validator is tombstoned: it stays in jail for good."""

    KIND: ClassVar[str] = "slashing.evidence"
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class JailBegun(Change):
    """A validator was jailed for a ``fault`` (a ``Fault``). It may unjail itself at ``until`` (chain clock)."""

    KIND: ClassVar[str] = "slashing.jailed"
    operator: str
    fault: int
    until: int


@dataclass(frozen=True, slots=True)
class StakeSlashed(Change):
    """A validator, and the coins that were behind it, lost ``amount`` for a ``fault``. The coins are burnt."""

    KIND: ClassVar[str] = "slashing.slashed"
    operator: str
    fault: int
    amount: int
