"""MsgIncludeShare: a provider puts its commitment on chain itself, because its validator did not.

The validator signed the task, and this signature is all that the provider needs. The share keeps no slot. It is kept
with its bond beside the rejected shares of its round, and it is compared like a share that was not answered
(:mod:`chain.state_machine.proof.rejections`). As long as its slot is free, the validator can still commit it.

If another provider's share has the issue of the task, the share is held under an issue that the chain gives. Otherwise
a validator could keep a share out with a share of an accomplice.
"""

from dataclasses import dataclass

from chain.state_machine.context import Context
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.ledger.order_money import lock_bond
from chain.state_machine.ledger.tables import ACCOUNTS, get_bond_account
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.orders import is_ending
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.deliveries import get_show_end
from chain.state_machine.proof.panels import doubt_round
from chain.state_machine.proof.replicas import is_published
from chain.state_machine.proof.room import weigh_ask
from chain.state_machine.proof.shares import count_share, find_share, get_live_issue, hold_issue, put_share
from chain.state_machine.proof.starts import get_local_root
from chain.state_machine.proof.tables import HELD_COUNTS, ROUNDS, SHARES
from chain.state_machine.registry.tables import PROVIDERS
from chain.state_machine.store import Overlay
from domain.amount import in_assay
from domain.errors import (
    ALREADY_EXISTS,
    BAD_FIELD,
    BAD_PROOF,
    DEADLINE_PASSED,
    INSUFFICIENT_BOND,
    LIMIT_REACHED,
    NOT_FOUND,
    WRONG_STATE,
    Refusal,
)
from domain.keys import RoundKey, ShareKey
from domain.ledger.records import BondKind, BondRow
from domain.legs.records import Leg, LegState
from domain.market.records import Order
from domain.proof.events import ShareIncluded
from domain.proof.messages import MsgAskReceipt, MsgIncludeShare
from domain.proof.reasons import ShareReason
from domain.proof.records import Share, ShareClaim, ShareState
from escrow.settle import share_bond
from pol.rules.commitment import share_sign_bytes
from pol.rules.inclusion import HELD_ISSUES_FROM, HELD_SHARES_MAX, task_sign_bytes
from pol.rules.schedule import share_work
from pol.rules.tiers.table import least_multiple


@dataclass(frozen=True, slots=True)
class CheckedInclusion:
    """The records of a checked inclusion: the claim, the local state from which it starts, its work and its bond."""

    claim: ShareClaim
    local_in: bytes
    work: int
    bond: int


@dataclass(frozen=True, slots=True)
class CheckedTask:
    """The records of a checked task: the order, the leg, and the claim of the share."""

    order: Order
    leg: Leg
    claim: ShareClaim


def check_fields(message: MsgIncludeShare | MsgAskReceipt) -> None:
    """Check that the issue number is one that a task can have."""
    if not 0 < message.issue < HELD_ISSUES_FROM:
        reason = f"is {message.issue}"
        raise Refusal(BAD_FIELD, "issue", reason, f"send the issue of the task: 1 to {HELD_ISSUES_FROM - 1}")


def check_state(ctx: Context, message: MsgIncludeShare) -> CheckedInclusion:
    """Return the claim and its records.

    Refuse a share that is on chain, and a task that its validator did not sign or whose time is over. The round must be
    open, or in the first half of its window. The signatures are checked last.
    """
    if find_share(ctx.store, key_of(message), message.provider) is not None:
        reason = "has a commitment on chain"
        raise Refusal(ALREADY_EXISTS, "issue", reason, "no further action is needed")
    task = check_task(ctx, message)
    return check_inclusion(ctx, task)


def key_of(message: MsgIncludeShare | MsgAskReceipt) -> ShareKey:
    """Return the key of the task of a message."""
    return ShareKey(
        order_id=message.order_id, leg=message.leg, round=message.round, slot=message.slot, issue=message.issue
    )


def check_task(ctx: Context, message: MsgIncludeShare | MsgAskReceipt) -> CheckedTask:
    """Return the records of a task that the leg's validator signed; refuse it if its time or its round is over."""
    order = ORDERS.need(ctx.store, message.order_id)
    leg = LEGS.need(ctx.store, message.order_id, message.leg)
    if is_ending(ctx, order):
        raise Refusal(WRONG_STATE, "order_id", "the order is ending", "no further action is possible")
    key = key_of(message)
    if message.slot not in leg.served_slots:
        served = f"the leg serves slots {leg.first_slot} to {leg.end_slot - 1}"
        raise Refusal(NOT_FOUND, "slot", served, "send the slot of the task")
    if ctx.clock >= message.deadline:
        reason = f"passed at {message.deadline} (now {ctx.clock})"
        raise Refusal(DEADLINE_PASSED, "deadline", reason, "no further action is possible")
    _check_round(ctx, order, leg, message.round)
    claim = ShareClaim(
        order_id=key.order_id,
        leg=key.leg,
        round=key.round,
        slot=key.slot,
        issue=key.issue,
        provider=message.provider,
        commitment=message.commitment,
        multiple=message.multiple,
        cover=message.cover,
    )
    _check_signatures(ctx, leg, claim, message)
    least = least_multiple(order, leg)
    if message.multiple < least:
        reason = f"is {message.multiple}, but a share's bond in the tier {leg.tier} is at least {least} times its price"
        raise Refusal(BAD_FIELD, "multiple", reason, f"take only tasks whose multiple is at least {least}")
    return CheckedTask(order=order, leg=leg, claim=claim)


def check_inclusion(ctx: Context, task: CheckedTask) -> CheckedInclusion:
    """Return what a share needs to be put on chain; refuse it if its provider lacks the bond, or no number is left."""
    if HELD_COUNTS.get(ctx.store, task.order.id) >= HELD_SHARES_MAX:
        reason = f"the order has {HELD_SHARES_MAX} shares with issues that the chain gave"
        raise Refusal(LIMIT_REACHED, "order_id", reason, "no further action is possible")
    work = share_work(task.order.terms)
    bond = share_bond(work, task.leg.price, task.claim.multiple)
    free = get_bond_account(ctx.store, task.claim.provider).free
    if free < bond:
        reason = f"the share needs a bond of {in_assay(bond)}, but the bond account has {in_assay(free)}"
        raise Refusal(INSUFFICIENT_BOND, "provider", reason, "deposit more first (assay tx deposit-bond)")
    local_in = _get_opening(ctx, task.order, task.leg, task.claim.key)
    return CheckedInclusion(claim=task.claim, local_in=local_in, work=work, bond=bond)


def _check_round(ctx: Context, order: Order, leg: Leg, round: int) -> None:
    """Refuse a round in which an included share would never be compared, or in which no key can be shown any longer."""
    closed = ROUNDS.get(ctx.store, order.id, leg.number, round)
    if closed is not None:
        if ctx.clock >= get_show_end(order, closed):
            reason = "is void, verified, or in the second half of its window"
            raise Refusal(WRONG_STATE, "round", reason, "include the share earlier")
        return
    if leg.state is not LegState.RUNNING or round != leg.round:
        reason = f"is not the open round of the leg, which is {leg.round}, and is not closed"
        raise Refusal(WRONG_STATE, "round", reason, "send the round of the task, as long as its leg runs")


def _check_signatures(ctx: Context, leg: Leg, claim: ShareClaim, message: MsgIncludeShare | MsgAskReceipt) -> None:
    """Refuse a task that the leg's validator did not sign, and a claim that the provider did not sign.

    The provider need not be in the cluster. Otherwise the validator could dismiss it before it includes its share.
    """
    validator = ACCOUNTS.must(ctx.store, leg.validator)
    task = task_sign_bytes(
        ctx.block.chain_id,
        claim.key,
        claim.provider,
        message.every,
        message.deadline,
        claim.multiple,
        claim.cover,
    )
    if not ctx.crypto.signature(validator.pub_key, task, message.task_signature):
        reason = "is not the signature of the leg's validator for this share, provider and numbers"
        raise Refusal(BAD_PROOF, "task_signature", reason, "send the signature that came with the task")
    provider = PROVIDERS.need(ctx.store, claim.provider)
    if not ctx.crypto.signature(provider.pub_key, share_sign_bytes(ctx.block.chain_id, claim), message.signature):
        reason = "is not the provider's signature of the share"
        raise Refusal(BAD_PROOF, "signature", reason, "sign the share with the key of the provider")


def _get_opening(ctx: Context, order: Order, leg: Leg, key: ShareKey) -> bytes:
    """Return the root of the local state from which a slot started in a round.

    Once a share of the slot is accepted, the slot's local root on chain is the one after the round.
    """
    round_key = RoundKey(key.order_id, key.leg, key.round)
    issue = get_live_issue(ctx, round_key, key.slot)
    if issue:
        return SHARES.must(ctx.store, *round_key.share(key.slot, issue)).local_in
    return get_local_root(ctx, order, leg, key.slot)


def weigh(ctx: Context, _: MsgIncludeShare, __: CheckedInclusion) -> int:
    """Return the gas of asking for audit room, because a closed round without a panel then gets one."""
    return weigh_ask(ctx)


def apply(ctx: Context, message: MsgIncludeShare, checked: CheckedInclusion) -> None:
    """Put the share on chain."""
    include(ctx, checked, message.signature)


def include(ctx: Context, checked: CheckedInclusion, signature: bytes) -> Share:
    """Store a share beside the rejected ones, lock its bond, and return it."""
    claim = checked.claim
    share = Share(
        claim=claim,
        signature=signature,
        local_in=checked.local_in,
        work=checked.work,
        bond=checked.bond,
        state=ShareState.REJECTED,
        reason=int(ShareReason.INCLUDED),
        committed_at=ctx.clock,
        committed_height=ctx.height,
        drawn=(),
        roots=None,
        held_as=hold_issue(ctx, claim.key, claim.provider),
        late=is_published(ctx.store, ORDERS.must(ctx.store, claim.order_id), claim.round),
    )
    key = share.key
    put_share(ctx, share)
    count_share(ctx, claim.provider, rejected=1)
    row = BondRow(
        kind=BondKind.SHARE,
        owner=claim.provider,
        leg=key.leg,
        round=key.round,
        slot=key.slot,
        issue=key.issue,
        amount=checked.bond,
    )
    lock_bond(ctx, key.order_id, row)
    ctx.emit(
        ShareIncluded(
            share=key,
            provider=claim.provider,
            commitment=claim.commitment,
            signature=share.signature,
            local_in=share.local_in,
            bond=share.bond,
            committed_at=share.committed_at,
            committed_height=share.committed_height,
            multiple=claim.multiple,
            cover=claim.cover,
            task_issue=claim.issue,
            late=share.late,
        )
    )
    doubt_round(ctx, ORDERS.must(ctx.store, key.order_id), RoundKey(key.order_id, key.leg, key.round))
    return share


def find_duty(store: Overlay, message: MsgIncludeShare) -> Duty | None:
    """Return the provider's right to include a share, or None if the share is known."""
    known = find_share(store, key_of(message), message.provider)
    return find_member_duty(store, message) if known is None else None


def find_member_duty(store: Overlay, message: MsgIncludeShare | MsgAskReceipt) -> Duty | None:
    """Return a member's right to act for its share, or None if its round is over.

    A provider that was dismissed can include its share, but not in the lane.
    """
    leg = LEGS.get(store, message.order_id, message.leg)
    provider = PROVIDERS.get(store, message.provider)
    if leg is None or provider is None or not provider.is_in(leg.validator):
        return None
    closed = ROUNDS.get(store, message.order_id, message.leg, message.round)
    if closed is not None:
        return None if closed.verified or closed.void else Duty(closed.window_ends)
    is_open = leg.state is LegState.RUNNING and leg.round == message.round
    return Duty(leg.progress_deadline) if is_open else None


HANDLER = Handler(
    message=MsgIncludeShare,
    check_state=check_state,
    apply=apply,
    check_fields=check_fields,
    weight=weigh,
    duty=find_duty,
)
