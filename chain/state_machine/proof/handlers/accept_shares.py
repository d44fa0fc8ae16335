"""MsgAcceptShares: accept shares of the open round, with the roots that their commitments hide.

A round may have more shares than fit in a transaction, so several messages may accept the shares of a round. A share
that was accepted keeps its slot: it can no longer be rejected, and the slot cannot be issued again. The round can be
closed when each slot of the leg has an accepted share. If the leg fails before the round is closed, its accepted shares
are dropped like all other shares.
"""

from dataclasses import dataclass

from chain.state_machine.context import Context
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.legs.checks import check_open_round, find_round_duty, get_assigned
from chain.state_machine.legs.slots import put_local_root
from chain.state_machine.proof.replicas import end_awaiting, may_publish, publish
from chain.state_machine.proof.shares import add_accepted, change_share, count_share, get_live_issue, make_commitment
from chain.state_machine.proof.tables import SHARES
from chain.state_machine.store import Overlay
from domain.errors import BAD_FIELD, BAD_PROOF, NOT_FOUND, NOT_YET, WRONG_STATE, Refusal
from domain.keys import RoundKey
from domain.legs.records import Leg, LegState
from domain.market.records import Order
from domain.proof.events import ShareAccepted
from domain.proof.messages import AcceptedShare, MsgAcceptShares
from domain.proof.records import Share, ShareRoots, ShareState
from pol.rules.stops import check_roots, done_work


@dataclass(frozen=True, slots=True)
class CheckedShares:
    """The records of a checked message: the order, the leg, and the shares to accept with their roots."""

    order: Order
    leg: Leg
    shares: tuple[tuple[Share, ShareRoots], ...]


def check_stateless(message: MsgAcceptShares) -> None:
    """Check that no slot has two shares."""
    slots = [accepted.slot for accepted in message.shares]
    if len(set(slots)) != len(slots):
        raise Refusal(BAD_FIELD, "shares", "have two shares of a slot", "list one share per slot")


def check_state(ctx: Context, message: MsgAcceptShares) -> CheckedShares:
    """Return the order, the leg and the shares; refuse the message if one of its shares cannot be accepted.

    Each share must be live and not accepted yet, its segments must be drawn, and its commitment must match the roots in
    the message. The cheapest checks come first. Shares are read only if all of them are live.
    """
    order, leg = get_assigned(ctx, message.order_id, message.leg, message.validator, LegState.RUNNING)
    check_open_round(leg, message.round)
    key = leg.open_round
    if not may_publish(ctx.store, order, leg.round):
        reason = "has to wait until each replica of the order has committed to a share of each slot"
        raise Refusal(NOT_YET, "round", reason, "wait for the event replicas.ready")
    for accepted in message.shares:
        _check_named(ctx, order, leg, accepted)
    shares = [_get_drawn(ctx, key, accepted) for accepted in message.shares]
    for share, accepted in zip(shares, message.shares, strict=True):
        _check_commitment(ctx, order, leg, share, accepted.roots)
    roots = (accepted.roots for accepted in message.shares)
    return CheckedShares(order, leg, tuple(zip(shares, roots, strict=True)))


def _check_named(ctx: Context, order: Order, leg: Leg, accepted: AcceptedShare) -> None:
    """Check that a share is live, and that its roots fit either a whole share or a share that ends at a stop."""
    if accepted.slot not in leg.served_slots:
        served = f"the leg serves slots {leg.first_slot} to {leg.end_slot - 1}"
        reason = f"have a share of slot {accepted.slot}, but {served}"
        raise Refusal(NOT_FOUND, "shares", reason, "list only shares of these slots")
    live = get_live_issue(ctx, leg.open_round, accepted.slot)
    if not live or live != accepted.issue:  # a slot without a live share has the issue 0
        reason = f"share {accepted.slot}/{accepted.issue} is not committed in this round, or was rejected"
        raise Refusal(NOT_FOUND, "shares", reason, "list only committed shares that were not rejected")
    problem = check_roots(order.terms, accepted.roots)
    if problem:
        reason = f"the roots of share {accepted.slot}/{accepted.issue} {problem}"
        raise Refusal(BAD_FIELD, "shares", reason, "send the roots that its provider delivered")


def _get_drawn(ctx: Context, key: RoundKey, accepted: AcceptedShare) -> Share:
    """Return a share of the round; refuse one that is accepted already, or whose segments are not drawn yet."""
    share = SHARES.must(ctx.store, *key.share(accepted.slot, accepted.issue))
    name = f"share {accepted.slot}/{accepted.issue}"
    if share.state is not ShareState.COMMITTED:
        raise Refusal(WRONG_STATE, "shares", f"{name} is accepted already", "list only shares that are not accepted")
    if not share.is_drawn:
        reason = f"the segments of {name} are not drawn yet"
        raise Refusal(NOT_YET, "shares", reason, "wait for its event share.drawn")
    return share


def _check_commitment(ctx: Context, order: Order, leg: Leg, share: Share, roots: ShareRoots) -> None:
    """Refuse the roots of a share if they do not hash to its provider's commitment."""
    claim = share.claim
    commitment = make_commitment(ctx, order, claim.key, claim.provider, leg.global_in, share.local_in, roots)
    if commitment != claim.commitment:
        reason = f"the roots of share {claim.slot}/{claim.issue} do not hash to its commitment"
        remedy = "send the roots that its provider delivered, or reject the share"
        raise Refusal(BAD_PROOF, "shares", reason, remedy)


def apply(ctx: Context, message: MsgAcceptShares, checked: CheckedShares) -> None:
    """Accept the shares, and add them to the numbers of the open round."""
    order, leg = checked.order, checked.leg
    publish(ctx, order, leg.round)
    end_awaiting(ctx, order, leg)
    add_accepted(ctx, order, leg, [_accept(ctx, order, leg, share, roots) for share, roots in checked.shares])


def _accept(ctx: Context, order: Order, leg: Leg, share: Share, roots: ShareRoots) -> Share:
    """Accept a share, and publish its roots; return the share.

    The next share of the slot starts from the local state at the end of this share.
    """
    claim = share.claim
    work = done_work(order.terms, roots)
    accepted = change_share(ctx, claim.key, state=ShareState.ACCEPTED, roots=roots, work=work, is_received=True)
    if roots.is_whole:
        put_local_root(ctx, leg, claim.slot, roots.local_out)
    count_share(ctx, claim.provider, accepted=1)
    ctx.emit(
        ShareAccepted(
            share=claim.key,
            provider=claim.provider,
            trace_root=roots.trace_root,
            update_root=roots.update_root,
            local_out=roots.local_out,
            metrics=roots.metrics,
            segments=roots.segments,
            steps=roots.steps,
        )
    )
    return accepted


def find_duty(store: Overlay, message: MsgAcceptShares) -> Duty | None:
    """Return the duty to make progress, or None if the round is not an open round of the signer."""
    return find_round_duty(store, message.order_id, message.leg, message.round, message.validator)


HANDLER = Handler(
    message=MsgAcceptShares,
    check_state=check_state,
    apply=apply,
    check_fields=check_stateless,
    duty=find_duty,
)
