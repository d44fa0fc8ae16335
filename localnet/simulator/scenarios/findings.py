"""Faults as the chain's events tell them: who did what, and how often."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from domain.disputes.events import DisputeEnded
from domain.disputes.records import DisputeState
from domain.events import Attributed, Change
from domain.legs.events import LegFailed, OrderDeclined, OrderMatched, PartEnded
from domain.legs.reasons import LegEnd, PartEnd
from domain.market.events import OrderClosed
from domain.market.reasons import CloseReason
from domain.proof.events import (
    SeatDiffered,
    SeatSilent,
    ShareCompared,
    ShareFoundWrong,
    ShareRejected,
    ShareTaken,
    StatesRuled,
)
from domain.proof.reasons import MISMATCHES, SILENCES, ShareReason
from domain.proof.records import Ruling
from domain.vocabulary import read_event

NO_ONE = "no one"
EITHER_PROVIDER = "provider or validator"
EITHER_CONSUMER = "consumer or validator"
SINGLE = ("provider", "validator", "auditor", "challenger", "consumer")
"""Roles that a finding blames alone; the others are roles between which no one can tell."""
_BLAMES = frozenset(
    {
        LegEnd.PAYLOAD_NOT_DELIVERED,
        LegEnd.DECLINED_BAD_JOB,
        LegEnd.DECLINED_WORK_MISMATCH,
        LegEnd.DECLINED_TOO_SLOW,
        LegEnd.DECLINED_NOT_FINITE,
    }
)
_NO_FAULT = frozenset(
    {
        LegEnd.UNDECIDED,
        LegEnd.WRONG_SHARE,
        LegEnd.STOPPED_BY_JOB,
        LegEnd.ORDER_DEADLINE,
        # A validator that says so without truth has declined.
        LegEnd.STATE_UNAVAILABLE,
    }
)
"""Ends of a leg that are no one's fault, or that another event blames on someone."""


@dataclass(frozen=True, order=True)
class ChainFinding:
    """A fault: ``role`` is the role of the party ``name``, which is empty if no one can tell between two."""

    role: str
    reason: str
    name: str

    def __str__(self) -> str:
        """Return role and reason, as scenarios expect them."""
        return f"{self.role}: {self.reason}"


def read_findings(events: Iterable[Attributed]) -> Counter[ChainFinding]:
    """Return the faults that numbered events tell, and how often."""
    changes = [change for event in events if (change := read_event(event)) is not None]
    right = {change.share for change in changes if isinstance(change, ShareCompared) and change.right}
    mismatched = {c.share for c in changes if isinstance(c, ShareRejected) and c.reason in MISMATCHES}
    # A share that was rejected in one leg may be compared in a later one.
    for change in reversed(changes):
        if isinstance(change, ShareTaken) and change.share in right:
            right.add(replace(change.share, leg=change.from_leg))
    validators = {(c.order, c.leg): c.validator for c in changes if isinstance(c, OrderMatched)}
    # Legs whose validators declined because a panel found that the states are lost.
    lost = {(c.panel.order_id, c.leg) for c in changes if isinstance(c, StatesRuled) and c.ruling == Ruling.WRONG}
    found: Counter[ChainFinding] = Counter()
    for change in changes:
        if isinstance(change, OrderDeclined) and (change.order, change.leg) in lost:
            continue
        if isinstance(change, ShareRejected) and change.share in right & mismatched:
            name = validators.get((change.share.order_id, change.share.leg), "")
            found[ChainFinding("validator", "rejected_right_share", name)] += 1
        else:
            found.update(_read(change))
    return found


def _read(change: Change) -> Iterator[ChainFinding]:
    match change:
        case ShareRejected(provider=provider, reason=reason) if reason in MISMATCHES:
            yield ChainFinding("provider", ShareReason(reason).name.lower(), provider)
        case ShareRejected(reason=reason) if reason in SILENCES:
            yield ChainFinding(EITHER_PROVIDER, ShareReason(reason).name.lower(), "")
        case ShareFoundWrong(provider=provider):
            yield ChainFinding("provider", "wrong_share", provider)
        case OrderDeclined(validator=validator, reason=reason):
            end = LegEnd(reason)
            role, name = (EITHER_CONSUMER, "") if end in _BLAMES else ("validator", validator)
            yield ChainFinding(role, end.name.lower(), name)
        case LegFailed(validator=validator, reason=reason) if LegEnd(reason) not in _NO_FAULT | _BLAMES:
            yield ChainFinding("validator", LegEnd(reason).name.lower(), validator)
        case SeatSilent(auditor=auditor):
            yield ChainFinding("auditor", "silent", auditor)
        case SeatDiffered(auditor=auditor):
            yield ChainFinding("auditor", "refuted", auditor)
        case DisputeEnded(challenger=challenger, state=state):
            reasons = {DisputeState.FAILED: "refuted_challenge", DisputeState.EXPIRED: "unopened_challenge"}
            if state in reasons:
                yield ChainFinding("challenger", reasons[DisputeState(state)], challenger)
        case PartEnded(end=PartEnd.DENIED):
            yield ChainFinding(EITHER_CONSUMER, "denied_states", "")
        case OrderClosed(reason=CloseReason.STOPPED_BY_JOB):
            yield ChainFinding("job", "stopped", "")


def choose_fault(expected: str, found: Iterable[ChainFinding], honest: Iterable[str]) -> str:
    """Return the fault that a scenario shows: the expected one if it was found, and no honest party was blamed alone.

    Otherwise it is the wrongly blamed party, or all that was found.
    """
    findings, names = sorted(set(found)), set(honest)
    wrong = [finding for finding in findings if finding.role in SINGLE and finding.name in names]
    if wrong:
        return f"{wrong[0]} ({wrong[0].name}, which is honest)"
    texts = list(dict.fromkeys(map(str, findings)))
    if expected in texts:
        return expected
    return ", ".join(texts) or NO_ONE
