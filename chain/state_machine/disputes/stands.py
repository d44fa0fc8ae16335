"""MsgStand: a provider has places of its own share recomputed, because the validator rejected it, made it void, or left
it open.

The stand is a dispute with a panel of its own. It does not hold the round.
"""

from dataclasses import dataclass, replace

from chain.state_machine.context import Context
from chain.state_machine.disputes.tables import DISPUTES, LAST_DISPUTES, LIVE_STANDS
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.ledger.gas import BOND_GAS
from chain.state_machine.ledger.order_money import get_share_bond, lock_bond, merge_bond
from chain.state_machine.ledger.tables import ESCROWS, get_bond_account
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.orders import check_before
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.covers import count_stands, may_claim, note_stand
from chain.state_machine.proof.gas import READ_GAS
from chain.state_machine.proof.left import find_round, get_stand_end
from chain.state_machine.proof.panels import open_stand_panel
from chain.state_machine.proof.replicas import publish
from chain.state_machine.proof.room import weigh_ask
from chain.state_machine.proof.shares import change_share, get_last_issue, make_commitment
from chain.state_machine.proof.stands import is_by_provider
from chain.state_machine.proof.tables import ROUNDS, SHARES, WRONG_PROVIDERS
from chain.state_machine.store import Overlay
from domain.amount import in_assay, price_floor
from domain.disputes.events import StandOpened
from domain.disputes.messages import MsgStand
from domain.disputes.records import Dispute, DisputeState
from domain.errors import BAD_FIELD, BAD_PROOF, INSUFFICIENT_BOND, NOT_FOUND, NOT_YET, NOT_YOURS, WRONG_STATE, Refusal
from domain.keys import ShareRef
from domain.ledger.records import CHALLENGE_SLOT, BondKind, BondRow
from domain.legs.records import Leg
from domain.market.records import Order, OrderState
from domain.proof.records import Round, Share, ShareState
from pol.rules.panels import audit_price
from pol.rules.stands import can_stand, is_mismatch, stand_bond
from pol.rules.stops import check_roots, done_work
from pol.rules.tiers.table import tier_of


@dataclass(frozen=True, slots=True)
class CheckedStand:
    """The records of a checked stand, and its bond (uassay), of which ``added`` comes from the bond account."""

    order: Order
    closed: Round
    share: Share
    work: int
    bond: int
    added: int


def check(ctx: Context, message: MsgStand) -> CheckedStand:
    """Return the share; refuse a stand that is too late, whose share cannot stand, or whose bond is missing."""
    order = ORDERS.need(ctx.store, message.order_id)
    share = SHARES.need(ctx.store, *message.share)
    if share.claim.provider != message.provider:
        raise Refusal(NOT_YOURS, "issue", "is another provider's share", "stand for a share of your own")
    if order.state is OrderState.CLOSED or not order.params.auditors:
        raise Refusal(
            WRONG_STATE, "order_id", "the order is closed, or has no auditors", "no further action is possible"
        )
    closed = find_round(ctx.store, share.key.round_key)
    if closed is None:
        reason = "is neither closed nor left open by a leg that failed"
        raise Refusal(
            NOT_FOUND, "round", reason, "stand for a share when its round is closed or void, or its leg failed"
        )
    leg = LEGS.must(ctx.store, message.order_id, message.leg)
    _check_share(ctx, order, leg, closed, share)
    check_before(ctx, "end of the time to stand", get_stand_end(order, closed))
    _check_roots(ctx, order, leg, closed, share, message)
    work = done_work(order.terms, message.roots)
    bond = _needed(ctx, order, leg, work)
    locked = get_share_bond(ctx, share.key)
    added = max(0, bond - (locked.amount if locked is not None else 0))
    free = get_bond_account(ctx.store, message.provider).free
    if free < added:
        reason = f"the stand needs a bond of {in_assay(added)} more, but the bond account has {in_assay(free)}"
        raise Refusal(INSUFFICIENT_BOND, "provider", reason, "deposit more first (assay tx deposit-bond)")
    bond = added + (locked.amount if locked is not None else 0)
    return CheckedStand(order=order, closed=closed, share=share, work=work, bond=bond, added=added)


def _check_share(ctx: Context, order: Order, leg: Leg, closed: Round, share: Share) -> None:
    """Refuse a share that stands already, that its validator need not pay, or whose provider may not be paid."""
    if share.stand or not can_stand(share):
        reason = "stands already, or was not received by its validator, or was rejected as unanswered"
        raise Refusal(WRONG_STATE, "issue", reason, "stand once, for a share that its validator had")
    if share.state is ShareState.ACCEPTED and not ROUNDS.has(ctx.store, *closed.key):
        reason = "is left open since its leg failed, and its shares are not dropped yet"
        raise Refusal(NOT_YET, "round", reason, "send the stand again when the share has the event share.rejected")
    by_validator = closed.void and closed.by_validator
    if not is_mismatch(share) and not by_validator and not may_claim(ctx, order, leg, closed):
        reason = "is neither void nor left open by the fault of its validator, nor void by that of another provider"
        raise Refusal(WRONG_STATE, "round", reason, "no stand is needed, or none is possible")
    provider = share.claim.provider
    paying = {order.consumer, *(row.address for row in ESCROWS.must(ctx.store, order.id).depositors)}
    if provider in paying or WRONG_PROVIDERS.has(ctx.store, order.id, share.key.leg, provider):
        reason = "paid for the order, or has a share of this leg that a panel found wrong"
        raise Refusal(WRONG_STATE, "provider", reason, "no stand is possible")
    if is_mismatch(share) and _has_other(ctx, closed, share):
        reason = "the provider has another share in the slot, which is accepted or can stand"
        raise Refusal(WRONG_STATE, "issue", reason, "no stand is needed")


def _has_other(ctx: Context, closed: Round, share: Share) -> bool:
    """Return whether the provider of a rejected share is paid for the last share of the slot, or may stand for it.

    Both shares have the same work, which is paid once.
    """
    key = share.key
    refs = [ref for ref in closed.shares if ref.slot == key.slot] or [ShareRef(key.slot, get_last_issue(ctx, key))]
    last = SHARES.get(ctx.store, *closed.key.share(refs[0].slot, refs[0].issue))
    if last is None or last.key == key or last.claim.provider != share.claim.provider:
        return False
    return not closed.void or (closed.by_validator and can_stand(last) and not is_mismatch(last))


def _check_roots(
    ctx: Context,
    order: Order,
    leg: Leg,
    closed: Round,
    share: Share,
    message: MsgStand,
) -> None:
    """Refuse roots that the share's commitment does not hide, or with which the chain itself compares the share."""
    problem = check_roots(order.terms, message.roots)
    if problem:
        raise Refusal(BAD_FIELD, "roots", problem, "send the roots of the share")
    claim = share.claim
    made = make_commitment(ctx, order, claim.key, claim.provider, closed.global_in, share.local_in, message.roots)
    if made != claim.commitment:
        raise Refusal(BAD_PROOF, "roots", "do not hash to the commitment of the share", "send the roots of the share")
    if closed.void or share.state is ShareState.WRONG or not is_mismatch(share):
        return
    ref = next(ref for ref in closed.shares if ref.slot == claim.slot)
    accepted = SHARES.must(ctx.store, *closed.key.share(ref.slot, ref.issue)).roots
    if accepted is None:
        raise LookupError("an accepted share has no roots")
    same = make_commitment(ctx, order, claim.key, claim.provider, closed.global_in, share.local_in, accepted)
    if tier_of(leg).is_same_share(claim.commitment, same):
        reason = "are those of the accepted share, so the chain compares the share when the round is verified"
        raise Refusal(WRONG_STATE, "roots", reason, "no stand is needed")


def _needed(ctx: Context, order: Order, leg: Leg, work: int) -> int:
    places = order.params.stand_segments
    price = audit_price(order.params, leg.price)
    return stand_bond(order.terms, order.params, price_floor(work, leg.price), places, price)


def apply(ctx: Context, message: MsgStand, checked: CheckedStand) -> None:
    """Lock the bond, and let a panel recompute places of the share."""
    key = message.share
    round_key = checked.closed.key
    number = LAST_DISPUTES.get(ctx.store, *round_key) + 1
    LAST_DISPUTES.set(ctx.store, number, *round_key)
    waited = checked.share.state is ShareState.WRONG
    publish(ctx, checked.order, key.round)
    change_share(ctx, key, stand=number, roots=message.roots, work=checked.work)
    dispute = Dispute(
        order_id=key.order_id,
        leg=key.leg,
        round=key.round,
        number=number,
        challenger=message.provider,
        commitment=checked.share.claim.commitment,
        bond=checked.bond,
        least=0,
        opens_until=0,
        open_before=0,
        state=DisputeState.OPEN,
        share=key.ref,
    )
    DISPUTES.put(ctx.store, dispute)
    LIVE_STANDS.mark(ctx.store, *dispute.key)
    _lock(ctx, dispute, checked)
    if is_by_provider(ctx, checked.share):
        note_stand(ctx, key, 1)
    # A share whose bond would be burnt soon is counted already.
    if not waited:
        count_stands(ctx, key.order_id, 1)
    ctx.emit(
        StandOpened(
            dispute=dispute.key,
            share=key,
            provider=message.provider,
            commitment=dispute.commitment,
            bond=dispute.bond,
            added=checked.added,
            trace_root=message.roots.trace_root,
            update_root=message.roots.update_root,
            local_out=message.roots.local_out,
            metrics=message.roots.metrics,
            segments=message.roots.segments,
            steps=message.roots.steps,
        )
    )
    open_stand_panel(ctx, checked.order, dispute.key, key.ref)


def _lock(ctx: Context, dispute: Dispute, checked: CheckedStand) -> None:
    """Make one bond of the bond of the share, if it is still locked, and of what the provider adds."""
    order_id = dispute.order_id
    row = BondRow(
        kind=BondKind.CHALLENGE,
        owner=dispute.challenger,
        leg=dispute.leg,
        round=dispute.round,
        slot=CHALLENGE_SLOT,
        issue=dispute.number,
        amount=checked.added,
    )
    lock_bond(ctx, order_id, row)
    of_share = get_share_bond(ctx, checked.share.key)
    if of_share is not None:
        merge_bond(ctx, order_id, of_share, replace(row, amount=dispute.bond))


def weigh(ctx: Context, _: MsgStand, __: CheckedStand) -> int:
    """Return the gas of opening the panel of a stand."""
    return READ_GAS + 3 * BOND_GAS + weigh_ask(ctx)


def find_duty(store: Overlay, message: MsgStand) -> Duty | None:
    """Return the duty to stand for a share, or None if the signer has no such share that can stand."""
    share = SHARES.get(store, *message.share)
    if share is None or share.claim.provider != message.provider or share.stand or not can_stand(share):
        return None
    closed = find_round(store, share.key.round_key)
    if closed is None:
        return None
    return Duty(get_stand_end(ORDERS.must(store, message.order_id), closed))


HANDLER = Handler(message=MsgStand, check_state=check, apply=apply, weight=weigh, duty=find_duty)
