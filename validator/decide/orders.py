"""What a validator does about an order that it won: a pure function of what it holds, the chain says, and the time.

``decide`` is asked again and again, with whatever has arrived since. It returns the new record and every action whose
outcome is still missing; actions have keys, and the shell (:mod:`host.lanes`) does not start one twice while it
is under way. So a restart needs nothing but the record: what was under way is simply asked for again.
"""

from domain.messages import Message, MsgAcceptOrder, MsgDeclineOrder, MsgProve
from domain.reasons import AttemptEnd
from domain.records import Assignment, AssignmentState, OrderState
from validator.decide.actions import Action, LoadJob, Seal, SendTx, View
from validator.decide.assign import can_be_served
from validator.decide.audited import decide_audited
from validator.decide.lookup import find_round
from validator.decide.records import LocalOrder, PayloadStage
from validator.decide.retention import fold
from validator.decide.rounds import decide_round

DECLINE_SECONDS = 6
"""Chain seconds before the deadline in which a decline still comes through, also over a restart of the node."""


def decide(local: LocalOrder, view: View) -> tuple[LocalOrder, tuple[Action, ...]]:
    """Return the record as it is now, and every action whose outcome is missing."""
    chain = view.chain
    assignment = chain.assignment(local.attempt)
    if assignment is None or chain.order.state == OrderState.CLOSED:
        return local, ()
    if any(known.number > assignment.round for known in local.rounds):
        return local, ()  # the node is behind what it said before
    prefix = f"{local.order_id.hex()}/{local.attempt}"
    if assignment.state == AssignmentState.MATCHED:
        return local, _decide_matched(local, view, assignment, prefix)
    local = fold(local, chain, view.clock)
    actions: list[Action] = []
    if assignment.state == AssignmentState.RUNNING:
        if assignment.round < chain.order.terms.rounds:
            local, found = decide_round(local, view, assignment, prefix)
        else:
            found = _decide_result(local, view, prefix)
        actions += found
    if assignment.state != AssignmentState.DONE:
        local, found = decide_audited(local, view, prefix)
        actions += found
    return local, tuple(actions)


def _decide_matched(
    local: LocalOrder, view: View, assignment: Assignment, prefix: str
) -> tuple[Action, ...]:
    """Take the payload, load it, accept or decline.

    A missed deadline costs the whole job bond, a decline a fee: give up a little before.
    """
    deadline = assignment.accept_deadline
    time_given = deadline - assignment.matched_at
    margin = max(min(DECLINE_SECONDS, time_given // 2), time_given // 5)
    ending = view.clock >= deadline - margin

    def send(name: str, message: Message) -> SendTx:
        return SendTx(f"{prefix}/{name}", (message,))

    def decline(reason: int) -> SendTx:
        message = MsgDeclineOrder(view.me, local.order_id, local.attempt, reason)
        return send("decline", message)

    match local.payload.stage:
        case _ if view.clock >= deadline:
            return ()
        case _ if not can_be_served(view.chain.order):
            return (decline(AttemptEnd.DECLINED_NO_CAPACITY),)
        case PayloadStage.LOADED:
            return (send("accept", MsgAcceptOrder(view.me, local.order_id, local.attempt)),)
        case PayloadStage.BAD:
            return (decline(local.payload.decline),)
        case PayloadStage.COMPLETE:
            load = LoadJob(f"{prefix}/load")
            return (load, decline(AttemptEnd.DECLINED_NO_CAPACITY)) if ending else (load,)
        case _:
            return (decline(AttemptEnd.PAYLOAD_NOT_DELIVERED),) if ending else ()


def _decide_result(local: LocalOrder, view: View, prefix: str) -> list[Action]:
    last = find_round(local, view.chain.order.terms.rounds - 1)
    if last is None or last.next_global is None:
        return []
    if local.result is None:
        return [Seal(f"{prefix}/seal")]
    prove = MsgProve(
        view.me,
        local.order_id,
        local.attempt,
        last.next_global.root,
        local.result.ciphertext_root,
        len(local.result.points),
    )
    return [SendTx(f"{prefix}/prove", (prove,))]
