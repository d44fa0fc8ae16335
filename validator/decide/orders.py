"""The decision about a leg that this validator won: its payload, its rounds, and the records to keep."""

from dataclasses import replace

from domain.amount import ceil_div
from domain.legs.messages import MsgAcceptOrder, MsgDeclineOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import Leg, LegState
from domain.market.records import OrderState
from domain.messages import Message
from pol.rules.schedule import trial_work
from pol.rules.states import is_asking, may_ask
from validator.decide.actions import (
    Action,
    FetchStates,
    ForgetLeg,
    NoteVerdicts,
    SendTx,
    TakeInitialStates,
    Tidy,
    TryJob,
)
from validator.decide.appeals import appeals
from validator.decide.initial import (
    describe_missing,
    get_sizes,
    initial_states_from,
    lacking,
    refusal,
    sources_of,
)
from validator.decide.late import decide_late
from validator.decide.records import LegKey, LocalOrder, PayloadStage
from validator.decide.replicas import show_traces
from validator.decide.retention import KEEP_SECONDS, decide_audited, fold, needed_blobs, voted_rounds
from validator.decide.rounds import decide_round, verdict_rows
from validator.decide.view import Look, View

DECLINE_SECONDS = 6
"""Chain seconds between the last moment for a decline and the deadline, so that the node has time for a restart."""


def decide_leg(local: LocalOrder, look: Look) -> tuple[LocalOrder, tuple[Action, ...]]:
    """Return the updated record of a leg, and every action whose outcome is missing.

    After an order is closed, its consumer can fetch the result for ``KEEP_SECONDS``. Then the leg's record is deleted.
    If other validators still vote on a slash for one of the order's rounds, the record is kept until that vote is over.
    """
    on_chain = look.chain.orders[local.order_id]
    clock = look.chain.clock
    name = str(local.key)
    actions: list[Action] = []
    if on_chain.order.state != OrderState.CLOSED:
        local, order_actions = decide_order(local, look.of(on_chain))
        actions += order_actions
        actions.append(NoteVerdicts(f"{name}/verdicts", local.key, verdict_rows(local, on_chain)))
    elif voted_rounds(local, look.chain.panels):
        # The seats of the vote need the same states as those of any other stage.
        local, audit_actions = decide_audited(local, look.of(on_chain), name)
        actions += audit_actions
    elif not local.closed_at:
        local = replace(local, closed_at=clock)
    elif clock - local.closed_at > KEEP_SECONDS:
        return local, (ForgetLeg(f"{name}/forget", local.key),)
    if look.chain.whole:
        actions.append(Tidy(f"{name}/tidy", local.key, needed_blobs(local, on_chain, look.chain.panels, clock)))
    return local, tuple(actions)


def decide_order(local: LocalOrder, view: View) -> tuple[LocalOrder, tuple[Action, ...]]:
    """Return the updated record of a leg of an open order, and every action whose outcome is missing."""
    on_chain = view.on_chain
    leg = on_chain.leg(local.leg)
    if leg is None or on_chain.order.state == OrderState.CLOSED:
        return local, ()
    if any(known.round > leg.round for known in local.rounds):
        return local, ()  # the node is behind an earlier look
    prefix = str(local.key)
    if leg.state == LegState.MATCHED:
        local = refuse_foreign(local, view, leg)
        return local, _decide_matched(local, view, leg, prefix)
    local = fold(local, on_chain, view.panels, view.clock)
    actions: list[Action] = []
    if leg.state == LegState.RUNNING:
        states = None if local.rounds else take_or_fetch(local, view, leg)
        if states is not None:
            return local, (states,)
        local, round_actions = decide_round(local, view, leg, prefix)
        actions += round_actions
    if leg.state != LegState.DONE:
        local, audit_actions = decide_audited(local, view, prefix)
        actions += audit_actions
        local, late_actions = decide_late(local, view, leg, prefix)
        actions += late_actions
        actions += appeals(local, view, leg, prefix)
        actions += show_traces(local, view, prefix)
    return local, tuple(actions)


def refuse_foreign(local: LocalOrder, view: View, leg: Leg) -> LocalOrder:
    """Record the reason to decline a leg: it serves only some slots, or its initial states did not arrive in time."""
    if local.payload.stage is PayloadStage.BAD:
        return local
    text = refusal(view.on_chain, leg)
    if text:
        return refuse_with(local, LegEnd.DECLINED_BY_CHOICE, text)
    missing = lacking(local, view.on_chain, leg) - view.held.keys()
    if missing and view.clock >= fetch_by(leg) and not is_asking(leg) and not asks_panel(view, leg):
        reason = LegEnd.STATE_UNAVAILABLE if leg.from_leg and not leg.asked else LegEnd.DECLINED_BY_CHOICE
        return refuse_with(local, reason, describe_missing(leg, missing))
    return local


def asks_panel(view: View, leg: Leg) -> bool:
    """Return whether this validator may ask a panel if it lacks the states from which a leg starts."""
    return view.on_chain.order.params.auditors > 0 and may_ask(leg)


def refuse_with(local: LocalOrder, reason: LegEnd, text: str) -> LocalOrder:
    """Return the record of a leg that will be declined."""
    payload = replace(local.payload, stage=PayloadStage.BAD, decline=int(reason), text=text)
    return replace(local, payload=payload)


def fetch_by(leg: Leg) -> int:
    """Return the chain second until which the initial states of a leg may arrive: two thirds of the leg's time to
    accept. This time begins again if a panel found the states.
    """
    begun = max(leg.matched_at, leg.asked_at)
    return begun + (leg.accept_deadline - begun) * 2 // 3


def take_or_fetch(local: LocalOrder, view: View, leg: Leg) -> Action | None:
    """Return the action for the initial states of a leg that come from an earlier leg; None if they are here."""
    foreign = lacking(local, view.on_chain, leg)
    if not foreign:
        return None
    missing = foreign - view.held.keys()
    if missing:
        return FetchStates(
            key=f"{local.key}/fetch-states",
            leg=local.key,
            source=leg.from_leg,
            sources=sources_of(view.on_chain, leg, view.finders.get(LegKey(leg.order_id, leg.from_leg), ())),
            roots=missing,
            sizes=get_sizes(view.on_chain),
        )
    earlier, slots = initial_states_from(view.on_chain, leg, view.held)
    return TakeInitialStates(key=f"{local.key}/initial-states", leg=local.key, earlier_global=earlier, slots=slots)


def _decide_matched(local: LocalOrder, view: View, leg: Leg, prefix: str) -> tuple[Action, ...]:
    """Return the action for a matched leg: take its states, try its job, accept it, or decline it.

    A missed deadline costs the whole job bond, and a decline costs only a fee, so the validator declines a little
    before the deadline. The payload must be here early enough for the trial. If it is not, the validator declines, and
    gives the consumer's late delivery as the reason.
    """
    order = view.on_chain.order
    deadline = leg.accept_deadline
    time_given = deadline - leg.matched_at
    margin = max(min(DECLINE_SECONDS, time_given // 2), time_given // 5)
    ends = deadline - margin - time_given // 10
    trial = ceil_div(trial_work(order.terms), leg.slot_speed)
    deliver_by = ends - max(min(trial, (ends - leg.matched_at) // 2), time_given // 10)

    def send(name: str, message: Message) -> SendTx:
        return SendTx(f"{prefix}/{name}", (message,), deadline)

    def decline(reason: int, name: str = "decline") -> SendTx:
        message = MsgDeclineOrder(validator=view.me, order_id=local.order_id, leg=local.leg, reason=reason)
        return send(name, message)

    states = take_or_fetch(local, view, leg)
    waits = () if states is None else (states,)
    if states is not None and is_asking(leg):
        return waits
    if states is not None and view.clock >= fetch_by(leg) and local.payload.stage is not PayloadStage.BAD:
        # The leg does not end: a panel decides whether the states can be fetched, and this validator goes on trying.
        return (*waits, decline(LegEnd.STATE_UNAVAILABLE, f"lack/{leg.asked}"))
    match local.payload.stage:
        case _ if view.clock >= deadline or is_asking(leg):
            return ()
        case PayloadStage.BAD:
            return (decline(local.payload.decline),)
        case PayloadStage.LOADED if states is not None:
            return waits
        case PayloadStage.LOADED:
            return (send("accept", MsgAcceptOrder(view.me, local.order_id, local.leg)),)
        case PayloadStage.COMPLETE:
            if view.clock >= deadline - margin:
                return (decline(LegEnd.DECLINED_NO_CAPACITY),)
            return (TryJob(key=f"{prefix}/try", leg=local.key, order=order, matched=leg, ends=ends), *waits)
        case _:
            late = view.clock >= deliver_by
            return (decline(LegEnd.PAYLOAD_NOT_DELIVERED),) if late else waits
