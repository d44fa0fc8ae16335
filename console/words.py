"""Numbers, times and codes in the form that pages show. The page's JSON has the full values."""

from collections.abc import Mapping
from datetime import UTC, datetime
from math import floor, log10
from types import MappingProxyType
from typing import Any, Final

from consumer.words import CLOSED, ENDS
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, AuditPlace, ShareState
from matching_engine.conditions import CONDITIONS

UASSAY: Final = 1_000_000
"""uassay in one ASSAY."""
TEXT_MAX: Final = 48
"""Maximum number of characters that are shown of a text that another user wrote."""
_FLOPS: Final = ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP", "YFLOP")
_BYTES: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


def assay(amount: int) -> str:
    """Format an amount of coins (uassay) in ASSAY with about four significant digits, without trailing zeros."""
    if amount == 0:
        return "0 ASSAY"
    value = abs(amount) / UASSAY
    places = 0 if value >= 1000 else 2 if value >= 10 else 3
    if value < 1:
        places = min(6, 3 - floor(log10(value)))
    text = f"{amount / UASSAY:,.{places}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} ASSAY"


def assay_exact(amount: int) -> str:
    """Format an amount of coins in ASSAY with all six decimal places, so that columns add up."""
    sign = "−" if amount < 0 else ""
    whole = abs(amount)
    return f"{sign}{whole // UASSAY:,}.{whole % UASSAY:06}"


def flops(work: int) -> str:
    """Format an amount of work: FLOP, kFLOP … YFLOP."""
    return _scaled(work, _FLOPS, 1000)


def speed(flops_a_second: int) -> str:
    """Format a speed: 1.35 GFLOP/s."""
    return f"{flops(flops_a_second)}/s"


def size(count: int) -> str:
    """Format a number of bytes: 12.4 MiB."""
    return _scaled(count, _BYTES, 1024)


def _scaled(value: int, units: tuple[str, ...], step: int) -> str:
    scaled = float(value)
    at = 0
    while abs(scaled) >= 999.5 * step / 1000 and at < len(units) - 1:
        scaled /= step
        at += 1
    return f"{scaled:.3g} {units[at]}"


def price(uassay_per_pflop: int) -> str:
    """Format a price in the project's unit of prices: 1,000,000 ASSAY/PFLOP."""
    return f"{assay(uassay_per_pflop)}/PFLOP"


def duration(seconds: float) -> str:
    """Format a duration: 4.2 s, 90 s, 15 min, 5.5 h, 12.3 days."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}".replace(".0 ", " ")
    return f"{seconds:.0f} s"


def moment(time_ns: int) -> str:
    """Format a time (ns since the epoch) as date and time in UTC; a dash for 0 and for times out of range."""
    try:
        date = datetime.fromtimestamp(time_ns / 1e9, UTC)
    except (ValueError, OverflowError, OSError):
        return "–"
    return date.strftime("%Y-%m-%d %H:%M:%S") if time_ns else "–"


def number(value: int) -> str:
    """Format a count with thousands separators."""
    return f"{value:,}"


def percent(part: float) -> str:
    """Format a fraction of 1 as a percentage."""
    return f"{100 * part:.3g} %"


def short(value: str) -> str:
    """Shorten an id to its first digits, or an address to its first and last digits."""
    if len(value) <= 16:
        return value
    return f"{value[:9]}…{value[-4:]}" if value.startswith("assay1") else value[:12]


def cut(text: str, limit: int = TEXT_MAX) -> str:
    """Shorten a text, and replace its invisible characters.

    The author of the text is not trusted, so it may be long or misleading.
    """
    visible = "".join(letter if letter.isprintable() else "·" for letter in text[: limit + 1])
    return f"{visible[:limit]}…" if len(visible) > limit else visible


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
        ShareReason.NO_ANSWER: "it never came, or its drawn segments were not shown",
        ShareReason.LATE: "it came too late",
        ShareReason.SEGMENT_MISMATCH: "training again from one of its states gives another state than it claims",
        ShareReason.UPDATE_MISMATCH: "its update does not follow from its first and last state",
        ShareReason.NOT_FINITE: "it continues after a step whose result is not finite",
        ShareReason.NOT_STOPPED: "it ends early, although training continues",
        ShareReason.MALFORMED: "its files cannot be read",
        ShareReason.TRACE_NOT_BOUND: "the trace that was sent is not the one that was committed to",
        ShareReason.OPENING_MISMATCH: "a state that it showed is not the one that it committed to",
        ShareReason.BAD_SIGNATURE: "its signature is not valid",
        ShareReason.NOT_IN_CLUSTER: "its provider is not in the cluster",
        ShareReason.BAD_SLOT: "the order has no such slot",
        ShareReason.SLOT_TAKEN: "its slot already has a share",
        ShareReason.NO_BOND: "its provider had too few coins for the bond",
        ShareReason.WRONG_ISSUE: "its issue number is already used",
        ShareReason.LEG_ENDED: "the leg ended, and its bond was returned",
        ShareReason.INCLUDED: "its provider put it on chain itself",
        ShareReason.OTHER_COMMITMENT: "its provider put another commitment for it on chain",
    }
)
SHARES: Final = MappingProxyType(
    {
        ShareState.COMMITTED: "committed",
        ShareState.ACCEPTED: "accepted",
        ShareState.REJECTED: "rejected",
        ShareState.RIGHT: "rejected, but right",
        ShareState.WRONG: "wrong",
        ShareState.TAKEN: "taken over by the next leg",
    }
)
PAYMENTS: Final = MappingProxyType(
    {
        "provider": "to providers, for their shares",
        "validator": "to the validator, as its part",
        "auditor": "to auditors, for recomputing",
        "protocol": "to the community pool",
        "refund": "back to the consumer",
        "deposit_burn": "burnt from the deposit",
        "refund_burn": "burnt instead of refunded, because the consumer took the round early",
        "withheld_compensation": "from the validator's part, to a provider whose share it wrongly rejected",
        "withheld_burn": "burnt from the validator's part",
        "part_burn": "burnt from the part of a validator that, as the consumer says, did not serve its states",
        "bond_return": "bond returned to its owner",
        "compensation": "from a bond, as compensation",
        "decline_fee": "from a bond, as the fee for declining",
        "burn": "burnt from a bond",
    }
)
_KINDS: Final = MappingProxyType(
    {
        "feegrant.granted": "An account lets another pay fees with its coins",
        "feegrant.used": "A granter paid a fee for another account",
        "feegrant.revoked": "A granter ended a fee grant",
        "feegrant.ended": "A fee grant ended: its time or its coins were over",
        "authz.granted": "An account lets another send messages for it",
        "authz.used": "A message was sent for another account",
        "authz.revoked": "An account ended an authorization",
        "authz.ended": "An authorization ended: its time or its coins were over",
        "staking.validator_created": "An account became a validator",
        "staking.validator_edited": "A validator changed its description or commission",
        "staking.delegated": "Coins were delegated to a validator",
        "staking.undelegated": "Delegated coins leave a validator",
        "staking.unbonding_completed": "Coins that left a validator were paid",
        "staking.unbonding_cancelled": "Coins that were leaving a validator were delegated again",
        "staking.redelegated": "Delegated coins moved to another validator",
        "staking.redelegation_completed": "Redelegated coins can leave again",
        "staking.cut": "A validator lost stake",
        "staking.redelegation_cut": "A slash reached redelegated coins",
        "staking.ready": "A validator has a valid beacon key, or lost it",
        "staking.bonded": "A validator entered the validator set",
        "staking.unbonding": "A validator left the validator set",
        "staking.unbonded": "The unbonding of a validator is over",
        "staking.jailed": "A validator was jailed, or is free again",
        "mint.minted": "New coins were minted",
        "distribution.shared": "Fees were shared among the validators",
        "distribution.totals": "The sums of rewards changed",
        "distribution.rewards": "The rewards of a validator changed",
        "distribution.started": "A delegation earns rewards from here on",
        "distribution.withdrawn": "Rewards of a delegation were paid",
        "distribution.commission_withdrawn": "A validator's commission was paid",
        "distribution.withdraw_address": "A delegator chose an account for its rewards",
        "distribution.community_funded": "Coins were given to the community pool",
        "distribution.community_spent": "Coins of the community pool were paid",
        "slashing.started": "A validator's absences are counted anew",
        "slashing.evidence": "A validator signed two blocks of one height",
        "slashing.jailed": "A validator was jailed, because it signed twice or was absent",
        "slashing.slashed": "A validator lost stake, because it signed twice or was absent",
        "gov.proposal_submitted": "A proposal was made",
        "gov.deposited": "Coins were deposited for a proposal",
        "gov.voting_started": "The voting on a proposal began",
        "gov.voted": "An account voted on a proposal",
        "gov.proposal_ended": "The voting on a proposal ended",
        "gov.deposit_returned": "A deposit of a proposal was returned or burnt",
        "gov.votes_removed": "Votes on a proposal that is over were removed",
        "gov.proposal_dropped": "A proposal did not get its deposits in time",
        "gov.parameter_changed": "A parameter of the chain changed",
        "validator.endpoint": "A validator published its endpoint",
        "validator.beacon_key": "A validator set a new beacon key",
        "validator.beacon_key_revoked": "A validator revoked a beacon key",
        "validator.fault": "A fault of a validator was counted",
        "validator.released": "The jail of a validator is over",
        "validator.audits_promised": "A validator changed the audit speed that it promises",
        "provider.registered": "A provider applied to a cluster",
        "provider.left": "A provider left its cluster",
        "provider.admitted": "A provider was admitted to a cluster",
        "provider.dismissed": "A provider was dismissed from its cluster",
        "provider.certified": "A provider's speed was certified",
        "bond.deposited": "Coins were deposited in a bond account",
        "bond.withdrawing": "A withdrawal from a bond account began",
        "bond.released": "A withdrawal from a bond account was paid out",
        "bid.placed": "A bid was placed",
        "bid.changed": "A bid changed its price or capacity",
        "bid.closed": "A bid was closed",
        "order.submitted": "An order was submitted, and its deposit is locked",
        "order.opened": "The order entered the book",
        "order.matched": "A bid took the order",
        "order.excluded": "A validator can no longer win this order",
        "order.unmatched": "No bid fits the order yet",
        "order.accepted": "The validator accepted: training begins",
        "order.progress": "The open round has a new deadline",
        "leg.slot": "A slot of the leg starts from its own initial state",
        "leg.deadlines": "The deadlines of the leg were extended, because its order was held",
        "order.declined": "The validator declined the order",
        "order.failed": "The leg failed",
        "order.proven": "The last round is closed",
        "order.verified": "All rounds are verified",
        "order.deadline_moved": "The deadline of the order was extended, because it was held",
        "order.settled": "The order is settled",
        "order.closed": "The order is closed",
        "share.committed": "A provider committed to its share",
        "share.skipped": "A share could not be committed",
        "share.included": "A provider put its commitment on chain itself",
        "delivery.received": "A validator has a delivery without its key",
        "delivery.shown": "A provider showed the key of its delivery",
        "delivery.wrong": "A validator showed that a piece of a delivery is wrong",
        "receipt.asked": "A provider asked for witnesses of its delivery, because its validator signs no receipt",
        "receipt.drawn": "Witnesses of a delivery were drawn",
        "receipt.witnessed": "A witness stated that a delivery arrived, and was paid",
        "share.rejected": "A share was rejected",
        "share.drawn": "Segments of a share were drawn",
        "share.accepted": "A share was accepted",
        "share.taken": "The next leg took a share over",
        "share.compared": "A rejected share was compared with the accepted one",
        "share.wrong": "A panel found a share wrong",
        "share.void_paid": "Bonds paid a right share that another provider made void",
        "round.closed": "A round is closed",
        "round.stopped": "The job stops in this round",
        "round.verified": "A round is verified and paid",
        "round.void": "A round will never be verified",
        "handover.wrong": "The consumer proved that the validator handed over a wrong chunk",
        "handover.taken": "The consumer took a round before it was verified, and gave up its refund",
        "panel.stage": "Auditors were drawn",
        "panel.stage_ended": "A stage of a panel ended",
        "panel.skipped": "A round was not drawn to be recomputed",
        "panel.recalled": "A round is recomputed after all, because a provider put its share on chain itself",
        "panel.states": "A panel tries to fetch the states from which the next leg starts",
        "states.lacked": "The validator of the leg could not fetch the states from which it starts",
        "states.ruled": "A panel ruled whether the states can be fetched",
        "result.missed": "The consumer was not served a result, and a panel tries to fetch it",
        "result.ruled": "A panel ruled whether the result can be fetched",
        "order.restarted": "The order goes back to an earlier round, because later states are lost",
        "panel.waits": "A panel waits for auditors with free capacity",
        "panel.room": "A panel reserved or released auditors' capacity",
        "panel.place": "A place was drawn to be recomputed",
        "panel.committed": "An auditor committed to its answers",
        "panel.answer": "An auditor revealed an answer",
        "panel.revealed": "An auditor revealed all its answers",
        "panel.leaf": "A leaf of a trace was shown",
        "panel.silent": "An auditor did not answer, and lost stake",
        "panel.differed": "An auditor's answer differed from the ruling, and it lost stake",
        "panel.ruled": "A panel ruled on a place",
        "panel.slash_vote": "All validators vote on a slash",
        "panel.ruling_waits": "A ruling against a round can be appealed for some time",
        "panel.appealed": "Someone appealed a ruling, so all other validators decide again",
        "panel.slash_vote_ended": "The vote on a slash is over",
        "panel.slashed": "A validator lost stake, because its round was wrong",
        "panel.paid": "An auditor was paid",
        "panel.ended": "A panel ended",
        "part.returned": "The validator's withheld part returned to the deposit",
        "part.waits": "The withheld part of a failed leg waits while its states can be fetched",
        "part.ended": "The withheld part of a failed leg no longer waits",
        "round.cleared": "A round waits only for challenges",
        "challenge.committed": "Someone committed to a challenge of a round",
        "challenge.opened": "A challenge names its place and its claim",
        "challenge.joined": "A challenge names the same place as another",
        "challenge.waived": "An account will not challenge rounds of a leg",
        "challenge.rewarded": "A challenger was rewarded",
        "dispute.ended": "A challenge ended",
        "payment": "Coins left the order's escrow",
    }
)
_CONDITIONS: Final = MappingProxyType({row.name: row for row in CONDITIONS})


def kind(name: str) -> str:
    """Return a sentence that describes a kind of event; return ``name`` itself if the kind is not known."""
    return _KINDS.get(name, name)


def close_reason(code: int) -> str:
    """Return the reason why an order closed as a text; empty for code 0, which means that it is not closed."""
    return _reason(CLOSED, code)


def order_state(state: OrderState, reason: int) -> str:
    """Return the state of an order as a word. If the order is closed, return the name of the reason instead."""
    if state is not OrderState.CLOSED:
        return state.name.lower()
    return CloseReason(reason).name.lower() if reason in CLOSED else f"reason {reason}"


def leg_end(code: int) -> str:
    """Return the reason why a leg ended as a text; empty for code 0, which means that it has no reason."""
    return _reason(ENDS, code)


def share_reason(code: int) -> str:
    """Return the reason why a share was skipped or rejected as a text; empty for code 0."""
    return _reason(SHARE_REASONS, code)


def _reason(words: Mapping[Any, str], code: int) -> str:
    return words.get(code, f"reason {code}") if code else ""


def condition(name: str) -> tuple[str, str]:
    """Return the requirement that a condition puts on a bid, and a remedy for the case that bids fail it."""
    row = _CONDITIONS.get(name)
    return (row.passes, row.helps) if row is not None else (name, "")


def place(place: AuditPlace) -> str:
    """Return the name of a place, such as "segment 3 of slot 1"."""
    match place.kind:
        case AuditKind.AGGREGATION:
            return "aggregation"
        case AuditKind.UPDATE:
            return f"update of slot {place.slot}"
        case AuditKind.SEGMENT:
            return f"segment {place.segment} of slot {place.slot}"
        case AuditKind.HANDOVER:
            return f"encrypted chunk {place.chunk}"
        case AuditKind.STATES:
            return "states that the round left"
        case AuditKind.RESULT:
            return "encrypted result of the round"


def message_kind(name: str) -> str:
    """Return the name of a kind of message in words: SubmitOrder becomes submit order."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
