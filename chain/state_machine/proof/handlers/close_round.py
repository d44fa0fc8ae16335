"""MsgCloseRound: close the open round, whose shares are all accepted, with the next global state root.

In a hand-over round the message also has the root of the encrypted states, which the consumer can fetch. The last round
is a hand-over round. When the last round is closed, the order is proven. If the job stopped, the message names the
place of the stop instead of a next root. Then no further round opens.
"""

from dataclasses import dataclass

from chain.state_machine.context import Context
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.legs.checks import check_open_round, find_round_duty, get_assigned, is_far_ahead
from chain.state_machine.legs.progress import open_next_round
from chain.state_machine.market.holds import get_held_seconds
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.gas import CLOSE_GAS
from chain.state_machine.proof.panels import open_panel, weigh_doubt
from chain.state_machine.proof.room import weigh_ask
from chain.state_machine.proof.shares import get_live_refs
from chain.state_machine.proof.tables import OPEN_ROUNDS, ROUNDS, WINDOW_DUE, OpenRound
from chain.state_machine.proof.witnesses import hold_asked
from chain.state_machine.queue import schedule
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.store import Overlay
from domain.errors import BAD_FIELD, NOT_YET, SLOT_MISSING, Refusal
from domain.legs.records import Leg, LegState
from domain.market.records import Order
from domain.proof.events import RoundClosed, RoundStopped
from domain.proof.messages import MsgCloseRound
from domain.proof.records import AuditPlace, Round
from domain.proof.transitions import ROUND_STEPS, RoundStep
from pol.rules.schedule import is_handover
from pol.rules.stops import AGGREGATION
from pol.rules.tiers.table import challenges_of


@dataclass(frozen=True, slots=True)
class CheckedClose:
    """The records of a checked message: the order, the leg, and the open round, whose slots are all accepted."""

    order: Order
    leg: Leg
    current: OpenRound


def check_stateless(message: MsgCloseRound) -> None:
    """Check that the message has either ``next_root`` or ``stopped``, and names each mirror once."""
    if bool(message.next_root) == (message.stopped is not None):
        reason = "must be set if next_root is empty, and left out otherwise"
        raise Refusal(BAD_FIELD, "stopped", reason, "send either next_root, or stopped if the job has no result")
    if len(set(message.mirrors)) != len(message.mirrors):
        raise Refusal(BAD_FIELD, "mirrors", "names a validator twice", "name each mirror once")
    if message.validator in message.mirrors:
        raise Refusal(BAD_FIELD, "mirrors", "names the validator that closes the round", "name other validators")


def check_state(ctx: Context, message: MsgCloseRound) -> CheckedClose:
    """Return the order, the leg and the open round; refuse the message if a slot has no accepted share.

    If accepted shares end early, the message must name the first of these ends. No share is read for these checks. A
    mirror stays eligible for the round's panel: otherwise a validator could name strangers to keep them out of it.
    """
    order, leg = get_assigned(ctx, message.order_id, message.leg, message.validator, LegState.RUNNING)
    check_open_round(leg, message.round)
    if is_far_ahead(order, leg):
        reason = f"{order.params.rounds_ahead} rounds are closed, but not verified"
        raise Refusal(NOT_YET, "round", reason, "wait until the first of them is verified")
    _check_handover(order, message)
    current = OPEN_ROUNDS.get(ctx.store, *leg.open_round)
    if current is None or current.accepted < leg.slots:
        count = current.accepted if current is not None else 0
        reason = f"has accepted shares of {count} slots, but the leg serves {leg.slots}"
        raise Refusal(SLOT_MISSING, "round", reason, "accept a share of each slot with MsgAcceptShares")
    _check_stop(current, message)
    for mirror in message.mirrors:
        if VALIDATORS.get(ctx.store, mirror) is None:
            reason = f"{mirror} is not a registered validator"
            raise Refusal(BAD_FIELD, "mirrors", reason, "name operators of registered validators")
    return CheckedClose(order, leg, current)


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


def _check_stop(current: OpenRound, message: MsgCloseRound) -> None:
    """If accepted shares end early, check that ``stopped`` names the first place at which one of them ends.

    If all shares are whole, the job may still have stopped at the aggregation.
    """
    stop = current.stopped or AGGREGATION
    if message.stopped is None and stop != AGGREGATION:
        reason = f"share {stop.slot}/{stop.issue} ends where the job stopped"
        raise Refusal(BAD_FIELD, "stopped", reason, f"set it to {_name(stop)}, and leave out next_root")
    if message.stopped is not None and message.stopped != stop:
        reason = f"is {_name(message.stopped)}, but its shares show that the round stopped at {_name(stop)}"
        raise Refusal(BAD_FIELD, "stopped", reason, f"set it to {_name(stop)}, the first place without a result")


def _name(place: AuditPlace) -> str:
    return f"{place.kind.name.lower()} {place.slot}/{place.issue}/{place.segment}"


def apply(ctx: Context, message: MsgCloseRound, checked: CheckedClose) -> None:
    """Open the next round from the new state, and start the window and the panel.

    After the last round, and after a round in which the job stopped, no round opens: the order is proven.
    """
    order = checked.order
    leg = checked.leg
    closed = Round(
        order_id=order.id,
        leg=leg.number,
        round=message.round,
        global_in=leg.global_in,
        next_root=message.next_root,
        ciphertext_root=message.ciphertext_root,
        shares=tuple(get_live_refs(ctx, leg.open_round)),
        # A stopped round has no aggregation, so its work is that of its shares.
        work=checked.current.work + (0 if message.stopped else order.terms.outer_work),
        closed_at=ctx.clock,
        closed_height=ctx.height,
        window_ends=ctx.clock + order.window,
        challenges_end=ctx.clock + order.window + challenges_of(order, leg).wait,
        verified=False,
        void=False,
        stopped=message.stopped,
        mirrors=message.mirrors,
        time_left=max(0, order.deadline + get_held_seconds(ctx, order.id) - ctx.clock),
        cover=checked.current.cover,
        late=checked.current.late,
    )
    OPEN_ROUNDS.delete(ctx.store, *closed.key)
    ROUNDS.put(ctx.store, closed.enter(ROUND_STEPS.after(RoundStep.CLOSE)))
    schedule(ctx, closed.window_ends, WINDOW_DUE, *closed.key)
    hold_asked(ctx, order, closed.key)
    ctx.emit(
        RoundClosed(
            round=closed.key,
            next_root=closed.next_root,
            ciphertext_root=closed.ciphertext_root,
            window_ends=closed.window_ends,
            closed_at=closed.closed_at,
            closed_height=closed.closed_height,
            challenges_end=closed.challenges_end,
            mirrors=closed.mirrors,
            time_left=closed.time_left,
            cover=closed.cover,
            late=closed.late,
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


def weigh(ctx: Context, _: MsgCloseRound, checked: CheckedClose) -> int:
    """Return the gas of listing the round's shares, and of the panel: its room, and whether the round is doubtful."""
    return weigh_ask(ctx) + weigh_doubt(checked.order, checked.leg) + CLOSE_GAS * checked.leg.slots


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
