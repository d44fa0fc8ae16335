"""MsgCommitTraces: put commitments to shares of the open round on chain.

A committed share can be rejected, but it can never be changed. After the commitment, the provider shows the validator
the roots that the commitment hides. The chain sees the roots when the round is closed. Rejections are applied first, so
that their slots become free. If a share is bad, it is skipped with a reason, and the other shares are committed.
"""

from dataclasses import dataclass, replace

from chain.state_machine.context import Context
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.ledger.balances import apply_transfer
from chain.state_machine.ledger.order_money import lock_bond
from chain.state_machine.ledger.tables import BALANCES, get_bond_account
from chain.state_machine.legs.checks import check_open_round, find_round_duty, get_assigned
from chain.state_machine.market.orders import get_parties
from chain.state_machine.proof.deliveries import charge_unshown, check_silence
from chain.state_machine.proof.gas import CLOSE_GAS, SKIP_GAS
from chain.state_machine.proof.lots import open_lot
from chain.state_machine.proof.replicas import is_published, note_committed
from chain.state_machine.proof.shares import (
    count_share,
    get_last_issue,
    get_live_issue,
    put_last_issue,
    put_share,
    reject_share,
)
from chain.state_machine.proof.starts import get_local_root
from chain.state_machine.proof.tables import DELIVERIES, SHARES, SharesSubject
from chain.state_machine.proof.taking import is_awaited
from chain.state_machine.registry.tables import PROVIDERS
from chain.state_machine.store import Overlay
from domain.errors import BAD_FIELD, LIMIT_REACHED, WRONG_STATE, Refusal
from domain.ledger.moves import FEE
from domain.ledger.params import LedgerParams
from domain.ledger.records import BondKind, BondRow
from domain.legs.records import Leg, LegState
from domain.limits import SHARES_PER_MESSAGE_MAX
from domain.market.records import Order
from domain.moves import Transfer
from domain.proof.events import ShareCommitted, ShareSkipped
from domain.proof.messages import MsgCommitTraces, Rejection, SignedShare
from domain.proof.reasons import MISMATCHES, SILENCES, ShareReason
from domain.proof.records import Share, ShareClaim, ShareState
from escrow.settle import share_bond
from pol.rules.commitment import share_sign_bytes
from pol.rules.inclusion import HELD_ISSUES_FROM, is_included
from pol.rules.schedule import share_work
from pol.rules.tiers.table import least_multiple

VERDICTS = tuple(sorted(SILENCES | MISMATCHES))
"""Reasons for which a validator may reject a share."""


@dataclass(frozen=True, slots=True)
class CheckedCommit:
    """The records of a checked message: the order, the leg, and the shares to reject with their rejections."""

    order: Order
    leg: Leg
    rejected: tuple[tuple[Share, Rejection], ...]


def check_stateless(message: MsgCommitTraces) -> None:
    """Check the number of shares and rejections, that no share is rejected twice, and that the reasons are allowed."""
    if not message.shares and not message.rejections:
        reason = "is empty, and rejections is empty too"
        raise Refusal(BAD_FIELD, "shares", reason, "send at least one share or rejection")
    count = len(message.shares) + len(message.rejections)
    if count > SHARES_PER_MESSAGE_MAX:
        reason = f"and rejections are {count} together, but a message has at most {SHARES_PER_MESSAGE_MAX}"
        raise Refusal(LIMIT_REACHED, "shares", reason, "send the rest in another message")
    refs = [rejection.ref for rejection in message.rejections]
    if len(set(refs)) != len(refs):
        raise Refusal(BAD_FIELD, "rejections", "have a share twice", "reject each share once")
    for rejection in message.rejections:
        if rejection.reason not in VERDICTS:
            known = [int(reason) for reason in VERDICTS]
            problem = f"{rejection.reason} is not a reason to reject"
            raise Refusal(BAD_FIELD, "rejections.reason", problem, f"use one of {known}")


def check_state(ctx: Context, message: MsgCommitTraces) -> CheckedCommit:
    """Return the order, the leg and the shares to reject.

    Refuse the message if its round is not the open round of a leg that the signer runs, or if a share to reject is not
    live.
    """
    order, leg = get_assigned(ctx, message.order_id, message.leg, message.validator, LegState.RUNNING)
    check_open_round(leg, message.round)
    rejected = []
    for rejection in message.rejections:
        ref = rejection.ref
        key = leg.open_round.share(ref.slot, ref.issue)
        share = SHARES.need(ctx.store, *key)
        if share.state is not ShareState.COMMITTED:
            reason = f"share {ref.slot}/{ref.issue} is {share.state.name.lower()}"
            raise Refusal(WRONG_STATE, "rejections", reason, "reject only committed shares")
        if ShareReason(rejection.reason) in SILENCES:
            check_silence(ctx, share)
        rejected.append((share, rejection))
    return CheckedCommit(order, leg, tuple(rejected))


def apply(ctx: Context, message: MsgCommitTraces, checked: CheckedCommit) -> None:
    """Reject shares, commit valid new shares, and open a lot.

    The lot draws the segments of the new shares in a later block.
    """
    order = checked.order
    leg = checked.leg
    for share, rejection in checked.rejected:
        reason = ShareReason(rejection.reason)
        reject_share(ctx, share, reason, rejection.segment)
        if reason in SILENCES:
            charge_unshown(ctx, order, share)
    committed = False
    for signed in message.shares:
        problem = find_problem(ctx, order, leg, signed)
        if problem is ShareReason.NONE:
            commit_share(ctx, order, leg, signed)
            committed = True
        else:
            fee = _charge_skip(ctx, message.validator)
            ctx.emit(
                ShareSkipped(
                    share=signed.claim.key,
                    provider=signed.claim.provider,
                    reason=int(problem),
                    fee=fee,
                )
            )
    note_committed(ctx, order, leg)
    if committed:
        subject = SharesSubject(leg.open_round, ctx.height)
        open_lot(ctx, subject, get_parties(ctx, order, leg.validator), order.params.lot_wait)


def _charge_skip(ctx: Context, validator: str) -> int:
    """Take the fee for a skipped share, or the whole balance if that is less; return the amount.

    The fee is not counted as gas. Otherwise, a share that is skipped only when the block is applied could exceed the
    gas limit. In this way, a provider could make the commitments of other providers fail.
    """
    price = ctx.block.params.of(LedgerParams).min_gas_price_millionths
    fee = min(SKIP_GAS * price // 1_000_000, BALANCES.get(ctx.store, validator, ctx.block.denom))
    apply_transfer(ctx, Transfer(move=FEE, source=validator, target="", amount=fee))
    return fee


def find_problem(ctx: Context, order: Order, leg: Leg, signed: SignedShare) -> ShareReason:
    """Return the reason why a share cannot be committed, or NONE. The signature is checked after all cheap checks."""
    claim = signed.claim
    if not _is_well_formed(order, leg, signed):
        return ShareReason.MALFORMED
    if claim.slot not in leg.served_slots:
        return ShareReason.BAD_SLOT
    if get_live_issue(ctx, leg.open_round, claim.slot) or is_awaited(ctx, leg, claim.slot):
        return ShareReason.SLOT_TAKEN
    # Issue numbers may have gaps: if a slot's provider does not answer, the validator issues the slot again without a
    # message to the chain.
    if claim.issue <= get_last_issue(ctx, claim.key):
        return ShareReason.WRONG_ISSUE
    known = SHARES.get(ctx.store, *claim.key)
    if known is not None:
        return _find_included_problem(ctx, known, claim)
    provider = PROVIDERS.get(ctx.store, claim.provider)
    if provider is None or not provider.is_in(leg.validator):
        return ShareReason.NOT_IN_CLUSTER
    document = share_sign_bytes(ctx.block.chain_id, claim)
    if not ctx.crypto.signature(provider.pub_key, document, signed.signature):
        return ShareReason.BAD_SIGNATURE
    bond = share_bond(share_work(order.terms), leg.price, claim.multiple)
    if get_bond_account(ctx.store, claim.provider).free < bond:
        return ShareReason.NO_BOND
    return ShareReason.NONE


def _find_included_problem(ctx: Context, included: Share, claim: ShareClaim) -> ShareReason:
    """Return the reason why a share that its provider included cannot be committed, or NONE.

    Its signature was checked before, and its bond is locked. Its provider may have left the cluster: the validator pays
    for the share in any case, so it can use it.
    """
    if included.claim != claim:
        return ShareReason.OTHER_COMMITMENT
    delivery = DELIVERIES.get(ctx.store, *claim.key)
    is_wrong = delivery is not None and delivery.is_wrong
    return ShareReason.NONE if is_included(included) and not is_wrong else ShareReason.WRONG_ISSUE


def _is_well_formed(order: Order, leg: Leg, signed: SignedShare) -> bool:
    """Return whether the claim is of this order, leg and round, and has a bond and an issue number that a task can
    have.
    """
    claim = signed.claim
    is_of_round = (claim.order_id, claim.leg, claim.round) == (order.id, leg.number, leg.round)
    is_backed = claim.multiple >= least_multiple(order, leg)
    return is_of_round and is_backed and 0 < claim.issue < HELD_ISSUES_FROM


def commit_share(ctx: Context, order: Order, leg: Leg, signed: SignedShare) -> None:
    """Store a committed share, and lock its provider's bond.

    If the provider included the share itself, its bond is locked already, and it no longer counts as rejected.
    """
    included = SHARES.get(ctx.store, *signed.claim.key)
    if included is None:
        share = _make_share(ctx, order, leg, signed)
        _lock(ctx, share)
    else:
        share = replace(
            included,
            state=ShareState.COMMITTED,
            reason=int(ShareReason.NONE),
            committed_at=ctx.clock,
            committed_height=ctx.height,
        )
        count_share(ctx, share.claim.provider, rejected=-1)
    put_share(ctx, share)
    put_last_issue(ctx, share.claim.key)
    ctx.emit(
        ShareCommitted(
            share=share.claim.key,
            provider=share.claim.provider,
            commitment=share.claim.commitment,
            signature=share.signature,
            bond=share.bond,
            committed_at=share.committed_at,
            committed_height=share.committed_height,
            was_included=included is not None,
            multiple=share.claim.multiple,
            cover=share.claim.cover,
            late=share.late,
        )
    )


def _make_share(ctx: Context, order: Order, leg: Leg, signed: SignedShare) -> Share:
    work = share_work(order.terms)
    return Share(
        claim=signed.claim,
        signature=signed.signature,
        local_in=get_local_root(ctx, order, leg, signed.claim.slot),
        work=work,
        bond=share_bond(work, leg.price, signed.claim.multiple),
        state=ShareState.COMMITTED,
        reason=int(ShareReason.NONE),
        committed_at=ctx.clock,
        committed_height=ctx.height,
        drawn=(),
        roots=None,
        late=is_published(ctx.store, order, leg.round),
    )


def _lock(ctx: Context, share: Share) -> None:
    claim = share.claim
    row = BondRow(
        kind=BondKind.SHARE,
        owner=claim.provider,
        leg=claim.leg,
        round=claim.round,
        slot=claim.slot,
        issue=claim.issue,
        amount=share.bond,
    )
    lock_bond(ctx, claim.order_id, row)


def find_duty(store: Overlay, message: MsgCommitTraces) -> Duty | None:
    """Return the duty to make progress, or None if the round is not an open round of the signer."""
    return find_round_duty(store, message.order_id, message.leg, message.round, message.validator)


def weigh(_: Context, __: MsgCommitTraces, checked: CheckedCommit) -> int:
    """Return the gas of finding out whether the replicas of the order have committed."""
    return CLOSE_GAS * checked.leg.slots * checked.order.replicas


HANDLER = Handler(
    message=MsgCommitTraces,
    check_state=check_state,
    apply=apply,
    check_fields=check_stateless,
    weight=weigh,
    duty=find_duty,
)
