"""The deliveries whose keys come on the chain when no round waits for them any longer.

A provider can show its key after its validator rejected the share as unanswered, or after the leg failed. If the
delivery is not what the share commits to, the validator shows a wrong piece of it. Otherwise, it would pay for a share
that it never got.
"""

from dataclasses import replace

from domain.keys import ShareKey
from domain.legs.records import Leg, LegState
from domain.proof.messages import MsgShowChunk
from domain.proof.records import ShownDelivery
from pol.rules.stands import is_left_open
from validator.decide.actions import NEVER, Action, OpenDelivery, SendTx
from validator.decide.records import LocalOrder, LocalRound, SlotWork, WrongPieces, share_key
from validator.decide.view import View


def take_key(work: SlotWork, known: ShownDelivery | None) -> SlotWork:
    """Return the work of a share with the key that its provider showed to the chain."""
    if known is None or not known.key or work.offer is None or work.secret:
        return work
    return replace(work, secret=known.key, roots=known.roots)


def show_wrong(key: str, view: View, share: ShareKey, wrong: WrongPieces, by: int = NEVER) -> SendTx:
    """Return the action that shows a wrong piece of a delivery to the chain."""
    message = MsgShowChunk(
        validator=view.me,
        order_id=share.order_id,
        leg=share.leg,
        round=share.round,
        slot=share.slot,
        issue=share.issue,
        piece=wrong.piece,
        parent=wrong.parent,
    )
    return SendTx(key, (message,), by)


def decide_late(local: LocalOrder, view: View, leg: Leg, prefix: str) -> tuple[LocalOrder, list[Action]]:
    """Decrypt the deliveries of shares that the leg left open, and show wrong pieces of these and of rejected ones."""
    actions: list[Action] = []
    for current in local.rounds:
        closed = view.on_chain.round(local.leg, current.round)
        if closed is not None and closed.verified:
            continue
        works: list[SlotWork] = []
        for work in current.works:
            decided, more = _decide_work(local, view, leg, current, work, prefix)
            works.append(decided)
            actions += more
        local = local.put(replace(current, works=tuple(works)))
    return local, actions


def _decide_work(
    local: LocalOrder, view: View, leg: Leg, current: LocalRound, work: SlotWork, prefix: str
) -> tuple[SlotWork, list[Action]]:
    key = share_key(local, current, work)
    share, known = view.on_chain.share(key), view.on_chain.delivery(key)
    if share is None or known is None or not share.is_received:
        return work, []
    name = f"{prefix}/{current.round}/{work.slot}/{work.issue}"
    is_left = leg.state is LegState.FAILED and is_left_open(share)
    if work.wrong is not None and (work.verdict or is_left):
        return work, [show_wrong(f"{name}/wrong", view, key, work.wrong)]
    if not is_left or work.verdict or work.packet is not None:
        return work, []
    work = take_key(work, known)
    return work, [OpenDelivery(f"{name}/open", key, view.on_chain.order.terms)] if work.secret else []
