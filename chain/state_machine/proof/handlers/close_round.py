"""MsgCloseRound: close the open round with its accepted shares and the next global state root."""

from dataclasses import dataclass

from chain.state_machine.checks import get_assigned
from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.market.attempts import restart_progress
from chain.state_machine.proof.audits import open_audit
from chain.state_machine.proof.rounds import check_open_round
from chain.state_machine.proof.shares import change_share, count_share, get_live_shares
from chain.state_machine.proof.tables import LOCAL_ROOTS, ROUNDS
from chain.state_machine.queue import Due, schedule
from domain.errors import BAD_FIELD, NOT_COVERED, NOT_FOUND, NOT_YET, Refusal
from domain.events import RoundClosed
from domain.messages import MsgCloseRound
from domain.records import Assignment, AssignmentState, Order, Round, Share, ShareState
from pol.rules.schedule import covers, disjoint


@dataclass(frozen=True, slots=True)
class Found:
    """What the check found: the order, the assignment, and the accepted shares in slot order."""

    order: Order
    assignment: Assignment
    shares: tuple[Share, ...]


def check_stateless(message: MsgCloseRound) -> None:
    """Shares in slot order."""
    slots = [ref.slot for ref in message.shares]
    if slots != sorted(set(slots)):
        raise Refusal(BAD_FIELD, "shares", "are not in slot order", "one share a slot, ascending")


def check_state(ctx: Context, message: MsgCloseRound) -> Found:
    """The shares named are those that stand; all are drawn; together they are exactly the round."""
    order, assignment = get_assigned(
        ctx, message.order_id, message.attempt, message.validator, AssignmentState.RUNNING
    )
    check_open_round(order, assignment, message.round)
    shares = get_live_shares(ctx, assignment.open_round)
    standing = tuple(share.claim.key.ref for share in shares)
    for ref in message.shares:
        if ref not in standing:
            reason = f"share {ref.slot}/{ref.issue} does not stand in this round"
            raise Refusal(NOT_FOUND, "shares", reason, "name the shares that stand")
    ranges = [(share.claim.first, share.claim.count) for share in shares]
    complete = covers(ranges, order.terms.samples_per_round) and disjoint(ranges)
    if standing != message.shares or not complete:
        reason = "are not exactly the round's samples"
        raise Refusal(
            NOT_COVERED, "shares", reason, "accept or reject every share; fill every range"
        )
    if not all(share.drawn for share in shares):
        reason = "the segments of a share are not drawn yet"
        raise Refusal(NOT_YET, "shares", reason, "wait for share.drawn")
    return Found(order, assignment, tuple(shares))


def apply(ctx: Context, message: MsgCloseRound, found: Found) -> None:
    """Accept the shares, open the next round from the new state, and start the window and the audit."""
    order, assignment = found.order, found.assignment
    for share in found.shares:
        _accept(ctx, share)
    closed = Round(
        order_id=order.id,
        attempt=assignment.attempt,
        round=message.round,
        global_in=assignment.global_in,
        next_root=message.next_root,
        shares=message.shares,
        work=sum(share.work for share in found.shares),
        closed_at=ctx.clock,
        closed_height=ctx.height,
        window_ends=ctx.clock + order.params.round_window,
        verified=False,
        void=False,
    )
    ROUNDS.put(ctx.store, closed)
    schedule(ctx, closed.window_ends, Due.WINDOW, *closed.key)
    opened = restart_progress(
        ctx, order, assignment, round=message.round + 1, global_in=message.next_root
    )
    ctx.emit(RoundClosed(closed.key, closed.next_root, closed.window_ends))
    open_audit(ctx, order, opened, closed)


def _accept(ctx: Context, share: Share) -> None:
    """Accept a share; its slot goes on from the local state that it left."""
    claim = share.claim
    change_share(ctx, claim.key, state=ShareState.ACCEPTED)
    LOCAL_ROOTS.set(ctx.store, claim.local_out, claim.order_id, claim.attempt, claim.slot)
    count_share(ctx, claim.provider, accepted=1)


HANDLER = Handler(MsgCloseRound, check_state, apply, check_stateless)
