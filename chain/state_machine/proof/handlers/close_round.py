"""MsgCloseRound: close the open round with its accepted shares, their roots, and the next global state root.

In a hand-over round the message also has the root of the encrypted states, which the consumer can fetch. The last round
is a hand-over round. When the last round is closed, the order is proven. If the job stopped, the message names the
place of the stop instead of a next root. Then shares may end at that place, and no further round opens.
"""

from dataclasses import dataclass

from chain.state_machine.context import Context
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.legs.checks import check_open_round, find_round_duty, get_assigned, is_far_ahead
from chain.state_machine.legs.progress import open_next_round
from chain.state_machine.legs.slots import put_local_root
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.panels import open_panel
from chain.state_machine.proof.room import weigh_ask
from chain.state_machine.proof.shares import (
    change_share,
    count_share,
    get_live_issue,
    make_commitment,
)
from chain.state_machine.proof.tables import ROUNDS, SHARES, WINDOW_DUE
from chain.state_machine.queue import schedule
from chain.state_machine.store import Overlay
from domain.errors import BAD_FIELD, BAD_PROOF, NOT_FOUND, NOT_YET, SLOT_MISSING, Refusal
from domain.keys import RoundKey
from domain.legs.records import Leg, LegState
from domain.market.records import Order
from domain.proof.events import RoundClosed, RoundStopped, ShareAccepted
from domain.proof.messages import AcceptedShare, MsgCloseRound
from domain.proof.records import AuditPlace, Round, Share, ShareRoots, ShareState
from domain.proof.transitions import ROUND_STEPS, RoundStep
from pol.rules.schedule import is_handover
from pol.rules.stops import AGGREGATION, check_roots, done_work, find_stop


@dataclass(frozen=True, slots=True)
class CheckedClose:
    """The records of a checked message: the order, the leg, and the accepted shares in slot order, with their roots."""

    order: Order
    leg: Leg
    shares: tuple[tuple[Share, ShareRoots], ...]


def check_stateless(message: MsgCloseRound) -> None:
    """Check that shares are in slot order, and that the message has either ``next_root`` or ``stopped``."""
    slots = [accepted.slot for accepted in message.shares]
    if slots != sorted(set(slots)):
        raise Refusal(BAD_FIELD, "shares", "are not in slot order", "list one share per slot, by ascending slot")
    if bool(message.next_root) == (message.stopped is not None):
        reason = "must be set if next_root is empty, and left out otherwise"
        raise Refusal(BAD_FIELD, "stopped", reason, "send either next_root, or stopped if the job has no result")


def check_state(ctx: Context, message: MsgCloseRound) -> CheckedClose:
    """Return the order, the leg and the shares; refuse the message if these shares cannot close the round.

    The message must list one live share for each slot of the leg. The segments of all these shares must be drawn, and
    their commitments must match the roots in the message. The cheapest checks come first. Shares are read only if all
    of them are live.
    """
    order, leg = get_assigned(ctx, message.order_id, message.leg, message.validator, LegState.RUNNING)
    check_open_round(leg, message.round)
    if is_far_ahead(order, leg):
        reason = f"{order.params.rounds_ahead} rounds are closed, but not verified"
        raise Refusal(NOT_YET, "round", reason, "wait until the first of them is verified")
    _check_handover(order, message)
    _check_slots(message.shares, leg)
    _check_ends(order, message)
    key = leg.open_round
    for accepted in message.shares:
        if get_live_issue(ctx, key, accepted.slot) != accepted.issue:
            reason = f"share {accepted.slot}/{accepted.issue} is not committed in this round, or was rejected"
            raise Refusal(NOT_FOUND, "shares", reason, "list only committed shares that were not rejected")
    shares = [_get_drawn(ctx, key, accepted) for accepted in message.shares]
    for share, accepted in zip(shares, message.shares, strict=True):
        _check_roots(ctx, order, leg, share, accepted.roots)
    roots = (accepted.roots for accepted in message.shares)
    return CheckedClose(order, leg, tuple(zip(shares, roots, strict=True)))


def _check_handover(order: Order, message: MsgCloseRound) -> None:
    """Check that hand-over rounds have a root of encrypted states, and that other rounds have none."""
    every = order.params.handover_every
    due = message.stopped is None and is_handover(order.terms, every, message.round)
    if due and not message.ciphertext_root:
        reason = f"is empty, but round {message.round} is a hand-over round, as every {every}th and the last are"
        remedy = "encrypt the states after this round, and send their root"
        raise Refusal(BAD_FIELD, "ciphertext_root", reason, remedy)
    if message.ciphertext_root and not due:
        reason = f"is set, but round {message.round} is not a hand-over round"
        raise Refusal(BAD_FIELD, "ciphertext_root", reason, "leave it empty")


def _check_slots(shares: tuple[AcceptedShare, ...], leg: Leg) -> None:
    """Check that the shares, in slot order, have exactly the slots that the leg serves."""
    served = f"the leg serves slots {leg.first_slot} to {leg.end_slot - 1}"
    named = {accepted.slot for accepted in shares}
    missing = next((slot for slot in leg.served_slots if slot not in named), None)
    if missing is not None:
        reason = f"have no share of slot {missing}, but {served}"
        raise Refusal(SLOT_MISSING, "shares", reason, "accept one share of each of these slots")
    beyond = next((a.slot for a in shares if a.slot not in leg.served_slots), None)
    if beyond is not None:
        reason = f"have a share of slot {beyond}, but {served}"
        raise Refusal(NOT_FOUND, "shares", reason, "list only shares of these slots")


def _check_ends(order: Order, message: MsgCloseRound) -> None:
    """Check that each share is whole or ends where the job stopped, and that ``stopped`` names the first such place."""
    for accepted in message.shares:
        problem = check_roots(order.terms, accepted.roots)
        if problem:
            reason = f"the roots of share {accepted.slot}/{accepted.issue} {problem}"
            raise Refusal(BAD_FIELD, "shares", reason, "send the roots that its provider delivered")
    stop = find_stop(order.terms, ((a.slot, a.issue, a.roots) for a in message.shares))
    if message.stopped is None and stop != AGGREGATION:
        reason = f"share {stop.slot}/{stop.issue} ends where the job stopped"
        raise Refusal(BAD_FIELD, "stopped", reason, f"set it to {_name(stop)}, and leave out next_root")
    if message.stopped is not None and message.stopped != stop:
        reason = f"is {_name(message.stopped)}, but its shares show that the round stopped at {_name(stop)}"
        raise Refusal(BAD_FIELD, "stopped", reason, f"set it to {_name(stop)}, the first place without a result")


def _name(place: AuditPlace) -> str:
    return f"{place.kind.name.lower()} {place.slot}/{place.issue}/{place.segment}"


def _get_drawn(ctx: Context, key: RoundKey, accepted: AcceptedShare) -> Share:
    """Return a share of the round; refuse one whose segments are not drawn yet."""
    share = SHARES.must(ctx.store, *key.share(accepted.slot, accepted.issue))
    if not share.is_drawn:
        reason = f"the segments of share {accepted.slot}/{accepted.issue} are not drawn yet"
        raise Refusal(NOT_YET, "shares", reason, "wait for its event share.drawn")
    return share


def _check_roots(ctx: Context, order: Order, leg: Leg, share: Share, roots: ShareRoots) -> None:
    """Refuse the roots of a share if they do not hash to its provider's commitment."""
    claim = share.claim
    commitment = make_commitment(ctx, order, claim.key, claim.provider, leg.global_in, share.local_in, roots)
    if commitment != claim.commitment:
        reason = f"the roots of share {claim.slot}/{claim.issue} do not hash to its commitment"
        remedy = "send the roots that its provider delivered, or reject the share"
        raise Refusal(BAD_PROOF, "shares", reason, remedy)


def apply(ctx: Context, message: MsgCloseRound, checked: CheckedClose) -> None:
    """Accept the shares, open the next round from the new state, and start the window and the panel.

    After the last round, and after a round in which the job stopped, no round opens: the order is proven.
    """
    order = checked.order
    leg = checked.leg
    works = [_accept(ctx, order, leg, share, roots) for share, roots in checked.shares]
    closed = Round(
        order_id=order.id,
        leg=leg.number,
        round=message.round,
        global_in=leg.global_in,
        next_root=message.next_root,
        ciphertext_root=message.ciphertext_root,
        shares=tuple(share.claim.key.ref for share, _ in checked.shares),
        # A stopped round has no aggregation, so its work is that of its shares.
        work=sum(works) + (0 if message.stopped else order.terms.outer_work),
        closed_at=ctx.clock,
        closed_height=ctx.height,
        window_ends=ctx.clock + order.window,
        verified=False,
        void=False,
        stopped=message.stopped,
    )
    ROUNDS.put(ctx.store, closed.enter(ROUND_STEPS.after(RoundStep.CLOSE)))
    schedule(ctx, closed.window_ends, WINDOW_DUE, *closed.key)
    ctx.emit(
        RoundClosed(
            round=closed.key,
            next_root=closed.next_root,
            ciphertext_root=closed.ciphertext_root,
            window_ends=closed.window_ends,
            closed_at=closed.closed_at,
            closed_height=closed.closed_height,
        )
    )
    if closed.stopped is not None:
        where = closed.stopped
        ctx.emit(
            RoundStopped(
                round=closed.key,
                kind=int(where.kind),
                slot=where.slot,
                issue=where.issue,
                segment=where.segment,
            )
        )
    global_out = message.next_root or leg.global_in
    open_next_round(ctx, order, leg, global_out, stops=message.stopped is not None)
    open_panel(ctx, ORDERS.must(ctx.store, order.id), closed)


def _accept(ctx: Context, order: Order, leg: Leg, share: Share, roots: ShareRoots) -> int:
    """Accept a share, and publish its roots; return the work (FLOPs) that it completed.

    The next share of the slot starts from the local state that this share left.
    """
    claim = share.claim
    work = done_work(order.terms, roots)
    change_share(ctx, claim.key, state=ShareState.ACCEPTED, roots=roots, work=work)
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
    return work


def weigh(ctx: Context, _: MsgCloseRound, __: CheckedClose) -> int:
    """Return the gas of asking for audit room for the panel, which may begin at once."""
    return weigh_ask(ctx)


def find_duty(store: Overlay, message: MsgCloseRound) -> Duty | None:
    """Return the duty to make progress, or None if the round is not an open round of the signer."""
    return find_round_duty(store, message.order_id, message.leg, message.round, message.validator)


HANDLER = Handler(
    message=MsgCloseRound,
    check_state=check_state,
    apply=apply,
    check_fields=check_stateless,
    weight=weigh,
    duty=find_duty,
)
