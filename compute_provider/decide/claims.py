"""Checks of a validator's task against the chain, so that the provider need not trust the validator.

These are pure functions over the answer to the order query. A provider trains only for a running order, in its open leg
and round, for its own validator. The task's initial states must have the roots that the chain has, and the escrow must
still cover the share's price.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from domain.amount import PFLOP, in_assay, price_ceil
from domain.hashing import merkle_path
from domain.keys import RoundKey, ShareKey
from domain.ledger.records import BondKind, BondRow
from domain.legs.reasons import LegEnd
from domain.legs.records import Leg, LegState
from domain.limits import EXECUTOR_VERSION
from domain.market.records import JobTerms, OrderState
from domain.proof.queries import OrderResponse
from domain.proof.reasons import UNANSWERED
from domain.proof.records import (
    AuditKind,
    AuditPlace,
    Panel,
    ReceiptAsk,
    Round,
    Ruling,
    Share,
    ShareClaim,
    ShareState,
    TraceLeaf,
)
from link.types import AuditOpening, DeliveryReceipt, OpenedState, PayloadFile, TrainTask
from pol.rules import stands
from pol.rules.commitment import leaf_hashes, share_commitment
from pol.rules.cover import count_covered, earned_by_share
from pol.rules.delivery import largest_delivery
from pol.rules.inclusion import count_witnesses, is_asking, is_included, task_sign_bytes
from pol.rules.panels import audit_price
from pol.rules.schedule import share_segments, share_work
from pol.rules.tiers.table import least_multiple, tier_of

INCLUDE_SECONDS, INCLUDE_SECONDS_MIN, INCLUDE_PART = 60, 10, 4
"""Chain seconds before a task's deadline at which a provider includes a share that is not on chain: a part of the time
that the task left, but at least ``INCLUDE_SECONDS_MIN`` and at most ``INCLUDE_SECONDS``.
"""
_REJECTED = (ShareState.REJECTED, ShareState.RIGHT, ShareState.WRONG)


def problem(task: TrainTask, order: OrderResponse, validator: str) -> str:
    """Return why the task contradicts the chain; an empty string if it does not."""
    terms = order.order.terms
    leg = order.leg(task.key.leg)
    if leg is None or leg.validator != validator:
        return "the chain has no leg with this number for this validator"
    for holds, reason in (
        (order.order.state is OrderState.RUNNING, "the order is not running"),
        (order.order.legs == task.key.leg, "the leg is not the order's current leg"),
        (leg.state is LegState.RUNNING, "the leg is not running"),
        (leg.round == task.key.round, "the round is not the leg's open round"),
        (terms.executor_version == EXECUTOR_VERSION, "the order needs another executor version"),
        (task.key.slot in leg.served_slots, "the leg does not serve the slot"),
        (task.multiple >= least_multiple(order.order, leg), "the task's bond is too small for the tier"),
        (leg.global_in == task.global_in.root, "the task's global_in is not the global state on the chain"),
        (_local_root(order, task) == task.local_in.root, "the task's local_in is not the slot's last accepted state"),
        (_job_file(task) == terms.job_id, "the task's job.json is not the order's job.json"),
        (_payload_bytes(task) <= terms.delivered_bytes, "the task's files are larger than the order's payload"),
        (task.global_in.blob.size == terms.global_bytes, "the task's global_in does not have the order's state size"),
        (task.local_in.blob.size == terms.local_bytes, "the task's local_in does not have the order's state size"),
        (_free(order) >= price(terms, leg), "the escrow does not cover the share's price"),
    ):
        if not holds:
            return reason
    return ""


def is_hardware(order: OrderResponse, number: int) -> bool:
    """Return whether the tier of a leg has hardware arithmetic, by what the chain has of the leg.

    The seats of its panels compare the end states of segments, so they need them.
    """
    leg = order.leg(number)
    return leg is not None and tier_of(leg).hardware


def task_problem(
    task: TrainTask,
    provider: str,
    chain_id: str,
    clock: int,
    is_signed: Callable[[bytes, bytes], bool],
    seconds: int = 0,
) -> str:
    """Return why the provider could not include the share of a task, at the chain's ``clock`` (seconds).

    The text is empty if it could. ``is_signed`` returns whether a signature of a document is the validator's. The
    provider needs at least ``seconds`` to train the share.
    """
    document = task_sign_bytes(chain_id, task.key, provider, task.every, task.deadline, task.multiple, task.cover)
    if not task.signature or not is_signed(document, task.signature):
        return "the task does not have the validator's signature"
    if clock >= task.deadline:
        return f"the task's deadline was {task.deadline} on the chain clock"
    left = task.deadline - clock
    return "" if seconds < left else f"the task's deadline leaves {left} s, but this machine trains for {seconds} s"


def training_seconds(order: OrderResponse, flops: int) -> int:
    """Return the seconds that a machine with ``flops`` FLOP/s trains a share; 0 if its speed is not known."""
    return share_work(order.order.terms) // flops if flops else 0


def price(terms: JobTerms, leg: Leg) -> int:
    """Return the price of a share (uassay). Its bond is a multiple of it."""
    return price_ceil(share_work(terms), leg.price)


def income(order: OrderResponse, leg: Leg) -> int:
    """Return the amount (uassay) that a leg pays its providers per PFLOP of work, after the protocol and audit fees."""
    return earned_by_share(order.order, leg, PFLOP)


def income_problem(task: TrainTask, order: OrderResponse, least: int) -> str:
    """Return why the task pays less than the ``least`` income per PFLOP (uassay); empty if it pays enough."""
    leg = order.leg(task.key.leg)
    paid = income(order, leg) if leg else 0
    if paid >= least:
        return ""
    return f"the leg pays its providers {in_assay(paid)} per PFLOP, but --least-income is {in_assay(least)}"


def exposure(orders: Iterable[OrderResponse], provider: str) -> int:
    """Return the bonds (uassay) of the provider's committed shares that these orders have not paid.

    The bond of a share is at least its price, and stays locked until the share is paid or void.
    """
    return sum(
        bond.amount
        for order in orders
        for bond in order.escrow.bonds
        if (bond.kind, bond.owner) == (BondKind.SHARE, provider)
    )


def bond_of(task: TrainTask, order: OrderResponse) -> int:
    """Return the bond that the share will need (uassay); 0 if its leg does not exist."""
    leg = order.leg(task.key.leg)
    return task.multiple * price(order.order.terms, leg) if leg else 0


def covered_rounds(order: OrderResponse, leg: Leg, task: TrainTask) -> int:
    """Return how many rounds may be closed and not verified while bonds and cover pay the share of a task."""
    unverified = (share.claim.multiple for share in order.shares if share.key.leg == leg.number)
    return count_covered(order.order, leg, min([task.multiple, *unverified]), task.cover)


def cover_problem(task: TrainTask, order: OrderResponse) -> str:
    """Return why bonds and cover would not pay the share of a task if another provider's fault made it void.

    The text is empty if they would.
    """
    leg = order.leg(task.key.leg)
    if leg is None:
        return ""
    ahead, most = leg.closed - leg.verified, covered_rounds(order, leg, task)
    if ahead <= most:
        return ""
    return (
        f"{ahead} rounds are closed and not verified, but bonds and a cover of {task.cover / 100:g} % would pay void"
        f" shares for {most} only; the provider continues when a round is verified (to take all: --take any)"
    )


def trace_bytes(task: TrainTask, order: OrderResponse) -> int:
    """Return the disk space (bytes) for the share's payload, boundary states, update and encrypted delivery."""
    terms = order.order.terms
    states = task.global_in.blob.size + task.local_in.blob.size
    boundaries = share_segments(terms) + 1
    return terms.delivered_bytes + (boundaries + 1) * states + largest_delivery(terms, task.every)


def has_committed(order: OrderResponse, claim: ShareClaim) -> bool:
    """Return whether exactly the commitment ``claim`` is on the chain and was not rejected.

    If so, no other provider can claim the work.
    """
    share = order.share(claim.key)
    return share is not None and share.claim == claim and share.state is ShareState.COMMITTED


def is_over(task: ShareKey, provider: str, order: OrderResponse, clock: int) -> bool:
    """Return whether it is too late, at the chain's ``clock`` (seconds), for any party to ask for the states of the
    share that a provider has for its task.
    """
    if order.order.state is OrderState.CLOSED:
        return True
    key = order.held(task, provider)
    share = order.share(key)
    closed = order.round(key.leg, key.round)
    may_go_on = share is not None and is_included(share) and closed is None
    if share is not None and share.state in _REJECTED and not may_go_on:
        return not (_may_have_to_stand(order, share, closed) or _may_show(order, share, clock))
    if closed is not None:
        accepted = key.ref in closed.shares
        if accepted and _may_be_taken_over(order, key, closed):
            return False
        return not accepted or (clock >= closed.window_ends and (closed.verified or closed.void))
    # The round has not closed. It will never close if its leg has ended. If the validator left it open, the provider
    # may stand for its share as soon as the chain has dropped it.
    left = _left_round(order, key)
    if share is not None and left is not None and left.by_validator:
        return False
    leg = order.leg(key.leg)
    return leg is None or leg.state in (LegState.FAILED, LegState.DONE)


def _left_round(order: OrderResponse, key: ShareKey) -> Round | None:
    """Return the round of a share as a void round, if it was open when its leg failed; otherwise None."""
    leg = order.leg(key.leg)
    left = stands.left_round(leg) if leg is not None else None
    return left if left is not None and left.round == key.round else None


def _may_be_taken_over(order: OrderResponse, key: ShareKey, closed: Round) -> bool:
    """Return whether the next leg may take over a share of a void round. The share's bond is locked until then."""
    rows = (row for row in order.escrow.bonds if row.kind is BondKind.SHARE)
    return closed.void and not closed.by_validator and any(row.share(key.order_id) == key for row in rows)


def must_show(order: OrderResponse, claim: ShareClaim, receipt: DeliveryReceipt | None, clock: int) -> bool:
    """Return whether the provider has to show the key of a delivery to the chain, at the chain's ``clock`` (seconds).

    This is so if a receipt was posted, if the validator rejected the share as unanswered or left it open, or if it
    does not sign for the key. The receipt must still be valid.
    """
    key = order.held(claim.key, claim.provider)
    share, leg = order.share(key), order.leg(key.leg)
    if share is None or leg is None or share.claim != claim or share.is_received:
        return False
    if not _may_show(order, share, clock):
        return False
    is_valid = receipt is not None and (receipt.was_shown or clock < receipt.at + order.order.params.show_wait)
    if share.state is ShareState.COMMITTED and _left_round(order, key) is None:
        half = order.order.params.show_wait // 2
        is_valid = is_valid and receipt is not None and not receipt.was_shown and clock >= receipt.at + half
    return is_valid or _is_posted(order, key, clock)


def _may_show(order: OrderResponse, share: Share, clock: int) -> bool:
    """Return whether the chain takes the key of a share's delivery, if its provider has a receipt."""
    key, window = share.key, order.order.window
    known = order.delivery(key)
    if share.is_received or (known is not None and known.is_wrong):
        return False
    is_silent = share.state is ShareState.REJECTED and share.reason in UNANSWERED
    is_showable = share.state is ShareState.COMMITTED or is_silent
    left = _left_round(order, key)
    if left is not None:
        return left.by_validator and clock < left.void_at + window and (is_showable or stands.is_left_open(share))
    closed, leg = order.round(key.leg, key.round), order.leg(key.leg)
    if closed is not None:
        in_time = clock < closed.window_ends - window // 2 or _is_posted(order, key, clock)
        return is_showable and in_time and not (closed.verified or closed.void)
    return is_showable and leg is not None and leg.state is LegState.RUNNING


def _is_posted(order: OrderResponse, key: ShareKey, clock: int) -> bool:
    """Return whether a receipt for a share was posted, and its key may still be shown."""
    known = order.delivery(key)
    return known is not None and clock < known.show_by


def must_include(order: OrderResponse, task: TrainTask, claim: ShareClaim, clock: int) -> bool:
    """Return whether the provider has to put its commitment on chain itself, at the chain's ``clock`` (seconds).

    This is so if the commitment is not on chain, and the task's deadline is near, or the round or the slot goes on
    without it. A share whose validator has not signed the task cannot be included.
    """
    leg = order.leg(claim.leg)
    if leg is None or not task.signature or clock >= task.deadline:
        return False
    if order.share_of(claim.key, claim.provider) is not None:
        return False
    closed = order.round(claim.leg, claim.round)
    if closed is not None:
        return not (closed.verified or closed.void) and clock < closed.window_ends - order.order.window // 2
    if leg.state is not LegState.RUNNING or leg.round != claim.round:
        return False
    others = (share for share in order.shares_of(claim.leg, claim.round).values() if share.claim.slot == claim.slot)
    is_taken = any(share.state in (ShareState.COMMITTED, ShareState.ACCEPTED) for share in others)
    return is_taken or clock >= task.deadline - _spare(task)


def _spare(task: TrainTask) -> int:
    """Return the chain seconds before a task's deadline at which its provider acts without its validator."""
    return max(INCLUDE_SECONDS_MIN, min(INCLUDE_SECONDS, task.seconds_left // INCLUDE_PART))


def must_ask(
    order: OrderResponse, task: TrainTask, claim: ShareClaim, receipt: DeliveryReceipt | None, clock: int
) -> bool:
    """Return whether the provider has to ask for a receipt of witnesses, at the chain's ``clock`` (seconds).

    This is so if its share is on chain, it has no receipt, and the task's deadline is near, or its validator said that
    it did not answer. The share must be worth more than the witnesses cost.
    """
    key, params = claim.key, order.order.params
    share, leg = order.share_of(key, claim.provider), order.leg(key.leg)
    if share is None or leg is None or share.claim != claim or share.is_received or receipt is not None:
        return False
    if not task.signature or clock >= task.deadline:
        return False
    if find_ask(order, claim) is not None or order.delivery(share.key) is not None:
        return False
    cost = count_witnesses(params.auditors) * params.answer_fee
    if not params.auditors or price(order.order.terms, leg) <= cost:
        return False
    closed = order.round(key.leg, key.round)
    if closed is not None:
        if closed.verified or closed.void or clock >= closed.window_ends - order.order.window // 2:
            return False
    elif leg.state is not LegState.RUNNING or leg.round != key.round:
        return False
    is_near = closed is not None or clock >= task.deadline - _spare(task) // 2
    is_rejected = share.state is ShareState.REJECTED and share.reason in UNANSWERED
    is_denied = is_rejected and not is_included(share)
    return is_denied or (is_near and (is_rejected or share.state is ShareState.COMMITTED))


def find_ask(order: OrderResponse, claim: ShareClaim) -> ReceiptAsk | None:
    """Return the request for a receipt of witnesses for a provider's share, or None."""
    share = order.share_of(claim.key, claim.provider)
    return order.ask(share.first_key) if share is not None else None


def open_ask(order: OrderResponse, claim: ShareClaim, clock: int) -> ReceiptAsk | None:
    """Return the request for a receipt whose witnesses still wait for a share's delivery, or None."""
    share, ask = order.share_of(claim.key, claim.provider), find_ask(order, claim)
    if ask is None or share is None or share.claim != claim or not is_asking(ask, clock):
        return None
    return None if ask.until and len(ask.signed) == len(ask.witnesses) else ask


def _may_have_to_stand(order: OrderResponse, share: Share, closed: Round | None) -> bool:
    """Return whether it is not known yet if the provider has to stand for a share that its validator rejected.

    This shows when the round is closed and verified or void.
    """
    if share.state is not ShareState.REJECTED or share.stand or not stands.is_mismatch(share):
        return False
    if closed is not None:
        return not (closed.verified or closed.void)
    leg = order.leg(share.key.leg)
    return leg is not None and leg.state is LegState.RUNNING


def has_to_stand(order: OrderResponse, claim: ShareClaim, chain_id: str) -> bool:
    """Return whether the provider is paid for this share only if it stands for it.

    The validator rejected the share as a mismatch, and the chain does not find it right by comparing it with the
    accepted one. Or the share's round is void, by the fault of the validator or of another provider, or was open when
    the validator's leg failed.
    """
    key = order.held(claim.key, claim.provider)
    share = order.share(key)
    closed = order.round(key.leg, key.round) or _left_round(order, key)
    if share is None or closed is None or order.order.state is OrderState.CLOSED or not order.order.params.auditors:
        return False
    if share.claim != claim or share.stand or not stands.can_stand(share):
        return False
    if closed.void:
        return stands.is_mismatch(share) or closed.by_validator or _may_be_covered(order, share, closed)
    if not stands.is_mismatch(share):
        return False
    ref = next((ref for ref in closed.shares if ref.slot == claim.slot), None)
    accepted = order.share(closed.key.share(ref.slot, ref.issue)) if ref is not None else None
    if accepted is None or accepted.roots is None or accepted.claim.provider == claim.provider:
        return False
    opening = (closed.global_in, share.local_in)
    version = order.order.terms.executor_version
    same = share_commitment(chain_id, claim.key, claim.provider, opening, version, accepted.roots)
    return share.state is ShareState.WRONG or same != claim.commitment


def _may_be_covered(order: OrderResponse, share: Share, closed: Round) -> bool:
    """Return whether bonds may pay a share that became void by another provider's fault.

    The bonds are still locked, and the shares of the first void round are not taken over.
    """
    leg = order.leg(closed.leg)
    if leg is None or leg.end_reason == LegEnd.UNDECIDED or closed.round >= leg.round:
        return False
    following = order.leg(leg.number + 1)
    if closed.round == leg.next_round and following is not None and following.validator == leg.validator:
        return False
    panels = (panel for panel in order.panels if panel.leg == leg.number and panel.standing is None)
    wrong = {
        (panel.round, place.place.slot, place.place.issue)
        for panel in panels
        for place in panel.places
        if place.ruling is Ruling.WRONG
    }
    key = share.key
    if (key.round, key.slot, key.issue) in wrong:
        return False
    kinds = {row.kind for row in order.escrow.bonds if row.leg == leg.number and _may_pay(row, wrong)}
    return BondKind.SHARE in kinds or (BondKind.JOB in kinds and share.claim.cover > 0)


def may_stand_later(order: OrderResponse, task: ShareKey, provider: str) -> bool:
    """Return whether a share became void by another provider's fault, so that the chain may refuse a stand only because
    it is not decided yet how the order goes on.
    """
    key = order.held(task, provider)
    share, closed = order.share(key), order.round(key.leg, key.round)
    return share is not None and closed is not None and closed.void and _may_be_covered(order, share, closed)


def _may_pay(row: BondRow, wrong: Collection[tuple[int, int, int]]) -> bool:
    return row.kind is BondKind.JOB or (row.kind is BondKind.SHARE and (row.round, row.slot, row.issue) in wrong)


def stand_bond(order: OrderResponse, task: ShareKey, provider: str) -> int:
    """Return the free bond (uassay) that a stand for a share needs beyond the bond that the share has locked."""
    key = order.held(task, provider)
    leg = order.leg(key.leg)
    share = order.share(key)
    if leg is None or share is None:
        return 0
    terms, rules = order.order.terms, order.order.params
    places = rules.stand_segments
    bond = stands.stand_bond(terms, rules, price(terms, leg), places, audit_price(rules, leg.price))
    locked = sum(
        row.amount for row in order.escrow.bonds if row.kind is BondKind.SHARE and row.share(key.order_id) == key
    )
    return max(0, bond - locked)


def standing_panel(order: OrderResponse, task: ShareKey, provider: str) -> Panel | None:
    """Return the panel that recomputes a share for which the provider stands; None if it is over."""
    key = order.held(task, provider)
    share = order.share(key)
    if share is None or not share.stand:
        return None
    panel = RoundKey(key.order_id, key.leg, key.round).panel(share.stand)
    return next((known for known in order.panels if known.key == panel and not known.is_settled), None)


def place_opening(
    place: AuditPlace,
    leaves: Sequence[TraceLeaf],
    files: tuple[PayloadFile, ...],
    put: Callable[[int], OpenedState],
    *,
    with_end: bool = False,
) -> AuditOpening:
    """Return the opening of a place of a share, for a seat that recomputes it.

    ``leaves`` are those of the share's trace, without paths. ``put`` sends the states of a boundary, and returns them
    as part of an opening. If ``with_end``, a segment is opened with its end states, unless the share stops in it.
    """
    hashes = leaf_hashes(leaves)
    is_update = place.kind is AuditKind.UPDATE
    ends = (0, len(leaves)) if is_update else (place.segment, place.segment + 1)
    inside = (index for index in ends if 0 < index <= len(leaves))
    shown = ends if is_update or (with_end and ends[1] <= len(leaves)) else ends[:1]
    return AuditOpening(
        ready=True,
        retry_after_ms=0,
        payload=files,
        leaves=tuple(replace(leaves[index - 1], path=merkle_path(hashes, index - 1)) for index in inside),
        states=tuple(put(index) for index in shown),
        updates=(),
        local_out=None,
    )


def earned(order: OrderResponse, provider: str) -> int:
    """Return the amount (uassay) that the order has paid to the provider so far."""
    return sum(
        payment.amount
        for payment in order.payments
        if payment.to == provider and payment.kind in ("provider", "compensation")
    )


def _local_root(order: OrderResponse, task: TrainTask) -> bytes:
    """Return the root of the slot's last accepted local state; if there is none, the root of its initial one."""
    accepted = {
        share.claim.round: share.roots
        for share in order.shares
        if share.roots is not None
        and share.state is ShareState.ACCEPTED
        and (share.key.leg, share.key.slot) == (task.key.leg, task.key.slot)
        and share.claim.round < task.key.round
    }
    if not accepted:
        return order.opening_local(task.key.leg, task.key.slot)
    return accepted[max(accepted)].local_out


def still_promised(
    promised: dict[ShareKey, int], key: ShareKey, provider: str, order: OrderResponse
) -> dict[ShareKey, int]:
    """Return a provider's promised bonds (uassay, by share) that the chain has not locked yet and may still lock.

    Of the order that ``key`` names, two kinds of shares do not count: committed shares, whose bonds are already locked,
    and shares of another leg or round, whose bonds will never be locked.
    """
    committed = {share.claim.key for share in order.shares if share.claim.provider == provider}
    return {
        other: bond
        for other, bond in promised.items()
        if other.order_id != key.order_id
        or ((other.leg, other.round) == (key.leg, key.round) and other not in committed)
    }


def _job_file(task: TrainTask) -> bytes:
    return next((f.blob.sha256 for f in task.payload if f.path == "job.json"), b"")


def _payload_bytes(task: TrainTask) -> int:
    return sum(file.blob.size for file in task.payload)


def _free(order: OrderResponse) -> int:
    """Return the amount (uassay) that can still pay for shares: the locked deposits without the part that is withheld
    for the validator.
    """
    return sum(row.locked for row in order.escrow.depositors) - order.escrow.withheld
