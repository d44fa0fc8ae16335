"""Numbers, times and codes as people say them. Whatever is cut or rounded here is whole in the page's JSON."""

from collections.abc import Mapping
from datetime import UTC, datetime
from math import floor, log10
from types import MappingProxyType
from typing import Any, Final

from consumer.words import CLOSED, ENDS
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, Place, ShareState
from matching_engine.conditions import CONDITIONS

UASSAY: Final = 1_000_000
"""uassay in one ASSAY."""
TEXT_MAX: Final = 48
"""Characters of a stranger's text that are shown."""
_FLOPS: Final = ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP", "YFLOP")
_BYTES: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


def assay(amount: int) -> str:
    """Write coins in ASSAY with the digits that matter: four, and none of what is whole."""
    if amount == 0:
        return "0 ASSAY"
    value = abs(amount) / UASSAY
    places = 0 if value >= 1000 else 2 if value >= 10 else 3
    if value < 1:
        places = min(6, 3 - floor(log10(value)))
    text = f"{amount / UASSAY:,.{places}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} ASSAY"


def assay_exact(amount: int) -> str:
    """Write coins to the last uassay, so that a column of them can be added up."""
    sign, whole = "−" if amount < 0 else "", abs(amount)
    return f"{sign}{whole // UASSAY:,}.{whole % UASSAY:06}"


def flops(work: int) -> str:
    """Write work: FLOP, kFLOP … YFLOP."""
    return _scaled(work, _FLOPS, 1000)


def speed(flops_a_second: int) -> str:
    """Write a speed: 1.35 GFLOP/s."""
    return f"{flops(flops_a_second)}/s"


def size(count: int) -> str:
    """Write bytes: 12.4 MiB."""
    return _scaled(count, _BYTES, 1024)


def _scaled(value: int, units: tuple[str, ...], step: int) -> str:
    left, at = float(value), 0
    while abs(left) >= 999.5 * step / 1000 and at < len(units) - 1:
        left, at = left / step, at + 1
    return f"{left:.3g} {units[at]}"


def price(uassay_per_pflop: int) -> str:
    """Write a price in the one unit that prices have everywhere: 1,000,000 ASSAY/PFLOP."""
    return f"{assay(uassay_per_pflop)}/PFLOP"


def duration(seconds: float) -> str:
    """Write a span of time: 4.2 s, 90 s, 15 min, 5.5 h, 12.3 days."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}".replace(".0 ", " ")
    return f"{seconds:.0f} s"


def moment(time_ns: int) -> str:
    """Write a time of the calendar, in UTC."""
    try:
        made = datetime.fromtimestamp(time_ns / 1e9, UTC)
    except (ValueError, OverflowError, OSError):
        # No calendar has it.
        return "–"
    return made.strftime("%Y-%m-%d %H:%M:%S") if time_ns else "–"


def number(value: int) -> str:
    """Write a count with separators."""
    return f"{value:,}"


def percent(part: float) -> str:
    """Write a part of one."""
    return f"{100 * part:.3g} %"


def short(value: str) -> str:
    """Shorten an id or an address to what tells it from others."""
    if len(value) <= 16:
        return value
    return f"{value[:9]}…{value[-4:]}" if value.startswith("assay1") else value[:12]


def cut(text: str, limit: int = TEXT_MAX) -> str:
    """Cut a stranger's text, and show what cannot be seen: it may be long, and pretend to be something else."""
    seen = "".join(letter if letter.isprintable() else "·" for letter in text[: limit + 1])
    return f"{seen[:limit]}…" if len(seen) > limit else seen


STATES: Final = MappingProxyType(
    {
        OrderState.OPEN: "open",
        OrderState.MATCHED: "matched",
        OrderState.RUNNING: "running",
        OrderState.PROVEN: "proven",
        OrderState.CLOSED: "closed",
    }
)
SHARE_REASONS: Final = MappingProxyType(
    {
        ShareReason.NONE: "",
        ShareReason.NO_ANSWER: "never came, or was not shown when it was asked for",
        ShareReason.LATE: "came too late",
        ShareReason.SEGMENT_MISMATCH: "training again from one of its states gives another state than it claims",
        ShareReason.UPDATE_MISMATCH: "its update is not what its first and last state give",
        ShareReason.NOT_FINITE: "it goes on where training has no result",
        ShareReason.NOT_STOPPED: "it ends where training goes on",
        ShareReason.MALFORMED: "what was sent cannot be read",
        ShareReason.TRACE_NOT_BOUND: "what was sent is not what was committed to",
        ShareReason.OPENING_MISMATCH: "a state that it opened is not the one that it committed to",
        ShareReason.BAD_SIGNATURE: "its signature is wrong",
        ShareReason.NOT_IN_CLUSTER: "its provider is not in the cluster",
        ShareReason.BAD_SLOT: "the order has no such slot",
        ShareReason.SLOT_TAKEN: "another share stands there",
        ShareReason.NO_BOND: "its provider had too few coins for the bond",
        ShareReason.WRONG_ISSUE: "its issue number is used",
        ShareReason.LEG_ENDED: "the leg ended, and its bond returned",
    }
)
SHARES: Final = MappingProxyType(
    {
        ShareState.COMMITTED: "committed",
        ShareState.ACCEPTED: "accepted",
        ShareState.REJECTED: "rejected",
        ShareState.RIGHT: "rejected, but right",
        ShareState.WRONG: "wrong",
    }
)
PAYMENTS: Final = MappingProxyType(
    {
        "provider": "to providers, for their shares",
        "validator": "to the validator, for its part",
        "auditor": "to auditors, for recomputing",
        "protocol": "to the community pool",
        "refund": "back to the consumer",
        "deposit_burn": "burnt of the deposit",
        "held_compensation": "from the validator's part, to a provider that it wronged",
        "held_burn": "burnt of the validator's part",
        "bond_return": "back to who stood bond",
        "compensation": "from a bond, to who was harmed",
        "decline_fee": "from a bond, for declining",
        "burn": "burnt of a bond",
    }
)
_KINDS: Final = MappingProxyType(
    {
        "validator.endpoint": "A validator says where it serves",
        "validator.beacon_key": "A validator has a new beacon key",
        "validator.beacon_key_revoked": "A validator revoked a beacon key",
        "validator.audits_promised": "What a validator promises as an auditor changed",
        "provider.registered": "A provider asks to be in a cluster",
        "provider.left": "A provider left its cluster",
        "provider.admitted": "A provider is in a cluster",
        "provider.dismissed": "A provider was dismissed",
        "provider.certified": "A provider was measured",
        "bond.deposited": "Coins came into a bond account",
        "bond.withdrawing": "Coins of a bond account wait for their release",
        "bond.released": "Coins of a bond account returned",
        "bid.placed": "A bid is in the book",
        "bid.changed": "A bid has another price or capacity",
        "bid.closed": "A bid left the book",
        "order.submitted": "An order came, and its deposit is locked",
        "order.opened": "The order is in the book",
        "order.matched": "A bid took the order",
        "order.excluded": "A validator gets this order no more",
        "order.unmatched": "No bid fits the order yet",
        "order.accepted": "The validator accepted: training begins",
        "order.progress": "The open round has a new deadline",
        "leg.slot": "A slot of the leg starts from a state of its own",
        "leg.deadlines": "The leg has more time, because its order was held",
        "order.declined": "The validator declined",
        "order.failed": "The leg failed",
        "order.proven": "The last round is closed",
        "order.verified": "All rounds are verified",
        "order.deadline_moved": "The order has more time, because it stood still",
        "order.settled": "The order is settled",
        "order.closed": "The order is closed",
        "share.committed": "A provider committed to its work",
        "share.skipped": "A share could not be committed",
        "share.rejected": "A share was rejected",
        "share.drawn": "Segments of a share were drawn",
        "share.accepted": "A share is in a closed round",
        "share.compared": "A rejected share was compared with the accepted one",
        "share.wrong": "A panel found a share wrong",
        "round.closed": "A round is closed",
        "round.stopped": "The job stops in this round",
        "round.verified": "A round is verified and paid",
        "round.void": "A round will never be verified",
        "panel.stage": "Auditors were drawn",
        "panel.stage_ended": "A stage of a panel is over",
        "panel.skipped": "A round was not drawn to be recomputed",
        "panel.waits": "A panel waits for auditors with room",
        "panel.room": "A panel takes or gives back auditors' time",
        "panel.place": "A place was drawn to be recomputed",
        "panel.committed": "An auditor committed to its answers",
        "panel.answer": "An auditor showed an answer",
        "panel.revealed": "An auditor has shown all its answers",
        "panel.leaf": "A leaf of a trace was shown",
        "panel.silent": "An auditor was silent, and lost stake",
        "panel.differed": "An auditor differed from the ruling, and lost stake",
        "panel.ruled": "A place is decided",
        "panel.paid": "An auditor was paid",
        "panel.ended": "A panel is over",
        "part.returned": "What was withheld is the deposit's again",
        "payment": "Coins left the order's escrow",
    }
)
_CONDITIONS: Final = MappingProxyType({row.name: row for row in CONDITIONS})


def kind(name: str) -> str:
    """Say what happened."""
    return _KINDS.get(name, name)


def close_reason(code: int) -> str:
    """Say why an order closed; empty while it lives."""
    return _say(CLOSED, code)


def order_state(state: OrderState, reason: int) -> str:
    """Name the state of an order; of a closed one, why it closed: settled, cancelled, expired."""
    if state is not OrderState.CLOSED:
        return state.name.lower()
    return CloseReason(reason).name.lower() if reason in CLOSED else f"reason {reason}"


def leg_end(code: int) -> str:
    """Say why a leg ended; empty while it lives."""
    return _say(ENDS, code)


def share_reason(code: int) -> str:
    """Say why a share was skipped or rejected."""
    return _say(SHARE_REASONS, code)


def _say(words: Mapping[Any, str], code: int) -> str:
    return words.get(code, f"reason {code}") if code else ""


def condition(name: str) -> tuple[str, str]:
    """Return what a condition of the book asks of a bid, and what helps whom it keeps from a match."""
    row = _CONDITIONS.get(name)
    return (row.passes, row.helps) if row is not None else (name, "")


def place(found: Place) -> str:
    """Say what a place is."""
    match found.kind:
        case AuditKind.AGGREGATION:
            return "aggregation"
        case AuditKind.UPDATE:
            return f"update of slot {found.slot}"
        case AuditKind.SEGMENT:
            return f"segment {found.segment} of slot {found.slot}"


def message_kind(name: str) -> str:
    """Write the name of a kind of message as words: SubmitOrder is submit order."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
