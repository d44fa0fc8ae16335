"""A validator of a replicated order keeps its roots back, and shows the traces that differ."""

from dataclasses import replace

from domain.proof.messages import MsgAcceptShares, MsgShowTrace
from domain.proof.records import WantedTrace
from pol.rules.commitment import leaf_hashes
from tests.unit.validator.support import ORDER_ID, closed, state, view, works
from tests.unit.validator.test_decide import (
    SEALED,
    all_checked,
    messages,
    on_chain,
    planned,
    with_openings,
    with_packets,
)
from validator.decide.actions import Action, SendTx
from validator.decide.orders import decide_order as decide
from validator.decide.receive import sealed
from validator.decide.rounds import aggregated
from validator.decide.traces import leaves_of


def test_shares_are_accepted_when_the_replicas_have_committed() -> None:
    local = with_openings(with_packets(planned()), 1, 2, 3, 4)
    now = on_chain(local)
    closing = sealed(aggregated(all_checked(local, now), 0, state("next")), 0, SEALED)
    assert messages(decide(closing, view(replace(now, holds_back=True)))[1]) == []
    assert any(isinstance(message, MsgAcceptShares) for message in messages(decide(closing, view(now))[1]))


def test_a_wanted_trace_is_shown_before_its_time_is_over() -> None:
    local = with_packets(planned())
    wanted = WantedTrace(leg=1, round=0, slot=1, until=77)
    now = on_chain(local)
    asked = replace(now, legs=(replace(now.legs[0], round=1),), rounds=(closed(),), wanted=(wanted,))
    _, actions = decide(local, view(asked))
    (action,) = shown(actions)
    (message,) = action.messages
    packet = next(work.packet for work in works(local) if work.slot == 1)
    assert packet is not None
    assert message == MsgShowTrace("v0", ORDER_ID, 1, 0, tuple(leaf_hashes(leaves_of(packet))))
    assert action.by == 77
    other = replace(wanted, leg=2)
    assert not shown(decide(local, view(replace(asked, wanted=(other,))))[1])


def shown(actions: tuple[Action, ...]) -> list[SendTx]:
    return [action for action in actions if isinstance(action, SendTx) and action.key.endswith("/trace")]
