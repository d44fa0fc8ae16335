"""The traces that this validator has to show, because replicas of an order differ in a share."""

from domain.proof.messages import MsgShowTrace
from pol.rules.commitment import leaf_hashes
from validator.decide.actions import Action, SendTx
from validator.decide.records import LocalOrder
from validator.decide.traces import leaves_of
from validator.decide.view import View


def show_traces(local: LocalOrder, view: View, prefix: str) -> list[Action]:
    """Return the actions that show the wanted traces of a leg. Otherwise its rounds become void."""
    actions: list[Action] = []
    for wanted in view.on_chain.wanted:
        closed = view.on_chain.round(wanted.leg, wanted.round)
        current = local.find(wanted.round)
        if wanted.leg != local.leg or closed is None or current is None:
            continue
        refs = {(ref.slot, ref.issue) for ref in closed.shares if ref.slot == wanted.slot}
        work = next((work for work in current.works if (work.slot, work.issue) in refs), None)
        if work is None or work.packet is None:
            continue
        message = MsgShowTrace(
            validator=view.me,
            order_id=local.order_id,
            leg=wanted.leg,
            round=wanted.round,
            leaves=tuple(leaf_hashes(leaves_of(work.packet))),
        )
        actions.append(SendTx(f"{prefix}/{wanted.round}/trace", (message,), wanted.until))
    return actions
