"""Legs that begin later than round 0 or serve some of the slots: what they start from, and what a validator does."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.legs.messages import MsgAcceptOrder, MsgDeclineOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState, SlotStart
from domain.proof.messages import MsgCloseRound
from domain.proof.queries import OrderResponse
from link.blobs import BlobStore
from link.types import BlobRef, StateRef
from tests.unit.validator.support import (
    ME,
    ORDER_ID,
    PARAMS,
    TERMS,
    chain,
    leg,
    loaded,
    packet_of,
    share_of,
    signed_of,
    state,
    view,
)
from validator.decide import actions as do
from validator.decide.initial import states_of
from validator.decide.orders import decide_order as decide
from validator.decide.orders import fetch_by
from validator.decide.records import (
    CheckedSegment,
    LegKey,
    LocalOrder,
    PayloadStage,
    SlotLocal,
    new_order,
)
from validator.decide.retention import needed_blobs
from validator.decide.rounds import aggregated, segments_to_check
from validator.ledger import Ledger
from validator.store import ValidatorStore

GLOBAL, LOCAL = state("after round 0"), state("left by slot 1", 50)
HELD = {GLOBAL.root: GLOBAL, LOCAL.root: LOCAL}
LATER = {
    "first_round": 1,
    "rounds": 1,
    "round": 1,
    "initial_root": GLOBAL.root,
    "global_in": GLOBAL.root,
}
STARTS = (SlotStart(ORDER_ID, 1, 1, LOCAL.root),)
KEY = LegKey(ORDER_ID, 1)


def later(rounds: int = 2, **assigned: object) -> OrderResponse:
    """Return an order of so many rounds whose leg begins with round 1; slot 1 starts from a state of its own."""
    extent = {**LATER, "rounds": rounds - 1, **assigned}
    ordered = {
        "terms": replace(TERMS, rounds=rounds),
        "params": replace(PARAMS, handover_every=2**20),
    }
    return chain(assigned=extent, ordered=ordered, starts=STARTS)


def messages(actions: tuple[do.Action, ...]) -> list[object]:
    return [m for a in actions if isinstance(a, do.SendTx) for m in a.messages]


def taken(local: LocalOrder) -> LocalOrder:
    """Return the record once it has the states that the leg starts from."""
    return replace(local, earlier_global=GLOBAL, locals=(SlotLocal(1, LOCAL),))


# Before it is accepted


def test_a_leg_that_begins_later_takes_states_of_another_leg_and_is_accepted() -> None:
    matched = later(state=LegState.MATCHED)
    after, actions = decide(loaded(), view(matched, held=HELD))
    assert after == loaded()
    name = f"{ORDER_ID.hex()}/1/initial-states"
    assert actions == (do.TakeInitialStates(name, KEY, GLOBAL, (SlotLocal(1, LOCAL),)),)
    # Once they are in the record, the other leg may go.
    _, actions = decide(taken(loaded()), view(matched))
    assert messages(actions) == [MsgAcceptOrder(ME, ORDER_ID, 1)]


@pytest.mark.parametrize("lost", [GLOBAL.root, LOCAL.root], ids=["global", "local"])
def test_states_that_are_not_held_are_fetched_until_it_is_time_to_decline(lost: bytes) -> None:
    held = {root: found for root, found in HELD.items() if root != lost}
    matched = later(state=LegState.MATCHED)
    late = fetch_by(matched.legs[0])
    for local in (new_order(ORDER_ID, 1), loaded()):
        after, actions = decide(local, view(matched, matched.legs[0].matched_at, held=held))
        assert after == local
        (fetch,) = [action for action in actions if isinstance(action, do.FetchStates)]
        assert (fetch.leg, fetch.roots) == (KEY, frozenset({lost}))
        assert MsgAcceptOrder not in {type(message) for message in messages(actions)}
        refused, actions = decide(local, view(matched, late, held=held))
        assert refused.payload.stage is PayloadStage.BAD
        assert "starts from round 1, and this validator lacks 1 of its initial states" in refused.payload.text
        assert lost.hex()[:12] in refused.payload.text
        assert messages(actions) == [MsgDeclineOrder(ME, ORDER_ID, 1, LegEnd.DECLINED_BY_CHOICE)]
        # It stays so, whatever is held later: one leg is declined once.
        assert decide(refused, view(matched, late, held=HELD)) == (refused, actions)


def test_a_leg_with_some_of_the_slots_is_declined_until_updates_are_exchanged() -> None:
    matched = chain(assigned={"state": LegState.MATCHED, "first_slot": 1, "slots": 1})
    refused, actions = decide(loaded(), view(matched))
    assert "serves 1 of 2 slots" in refused.payload.text
    assert messages(actions) == [MsgDeclineOrder(ME, ORDER_ID, 1, LegEnd.DECLINED_BY_CHOICE)]


# Rounds


def trained(local: LocalOrder, on_chain: OrderResponse, round: int) -> tuple[LocalOrder, OrderResponse]:
    """Return the record and the order once all shares of the open round are delivered, replayed and right."""
    current = local.find(round)
    assert current is not None
    works = tuple(
        replace(
            work,
            signed=signed_of(local, work, round),
            packet=packet_of(local, work, round),
            picks=(),
        )
        for work in current.works
    )
    local = local.put(replace(current, works=works))
    shares = tuple(share_of(w.signed) for w in works if w.signed)
    done = []
    for work, share in zip(works, shares, strict=True):
        places = segments_to_check(current, work, share)
        done.append(replace(work, checked=tuple(CheckedSegment(p, 0, b"") for p in places)))
    return local.put(replace(current, works=tuple(done))), replace(on_chain, shares=shares)


def test_a_leg_that_begins_later_plans_and_closes_its_own_rounds() -> None:
    on_chain = later(4)
    local, _ = decide(taken(loaded()), view(on_chain))
    (current,) = local.rounds
    assert (current.round, current.global_in) == (1, GLOBAL)
    initial = loaded().payload.initial_local
    assert [(w.slot, w.local_in) for w in current.works] == [(0, initial), (1, LOCAL)]
    local, now = trained(local, on_chain, 1)
    _, actions = decide(local, view(now))
    assert actions == (do.Aggregate(f"{ORDER_ID.hex()}/1/1/aggregate", KEY.round(1)),)
    local = aggregated(local, 1, state("after round 1"))
    _, close = messages(decide(local, view(now))[1])
    assert isinstance(close, MsgCloseRound)
    assert (close.round, close.next_root) == (1, state("after round 1").root)
    # The next one goes on from there, and its slots from what they left.
    following = later(4, round=2, global_in=state("after round 1").root)
    local, _ = decide(local, view(following))
    assert local.rounds[-1].global_in == state("after round 1")
    left = {w.slot: w.local_in.root for w in local.rounds[-1].works}
    assert left == {w.slot: w.packet.roots.local_out for w in local.rounds[0].works if w.packet}


def test_a_round_is_not_begun_from_a_state_with_another_root() -> None:
    for local in (loaded(), replace(loaded(), earlier_global=state("another"))):
        assert decide(local, view(later()))[0].rounds == ()


@given(st.integers(0, 1), st.integers(0, TERMS.rounds - 1))
def test_a_leg_serves_its_slots_and_no_others(first: int, round: int) -> None:
    """Whatever part of an order a leg is: it plans its slots, and its round is done when these have shares."""
    opening = GLOBAL if round else StateRef(TERMS.global_root, BlobRef(TERMS.global_root, 100))
    extent = {"first_slot": first, "slots": 1, "first_round": round, "rounds": 1, "round": round}
    roots = {"initial_root": opening.root, "global_in": opening.root}
    on_chain = chain(assigned={**extent, **roots})
    local, _ = decide(replace(loaded(), earlier_global=opening), view(on_chain))
    (current,) = local.rounds
    assert [work.slot for work in current.works] == [first]
    local, now = trained(local, on_chain, round)
    _, actions = decide(local, view(now))
    assert [type(action) for action in actions] == [do.Aggregate]
    # A share of a slot that the leg does not serve makes no round whole.
    wider = replace(on_chain, legs=(leg(**{**extent, **roots, "first_slot": 1 - first}),))
    _, actions = decide(local, view(replace(wider, shares=now.shares)))
    assert do.Aggregate not in {type(action) for action in actions}


# What is held


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    blobs = BlobStore(tmp_path / "blobs", 1 << 20)
    opened = Ledger(ValidatorStore(tmp_path / "v.db"), blobs, Event())
    yield opened
    opened.store.close()
    blobs.close()


def test_states_of_an_earlier_leg_are_found_and_held_for_the_later_one(ledger: Ledger) -> None:
    here, gone = ledger.blobs.add(b"global"), BlobRef(b"\x07" * 32, 50)
    held, lost = StateRef(GLOBAL.root, here), StateRef(LOCAL.root, gone)
    ledger.store.save(replace(new_order(ORDER_ID, 1), earlier_global=held, locals=(SlotLocal(1, lost),)))
    ledger.blobs.hold(here.sha256, str(KEY))
    second = leg(**{**LATER, "number": 2, "state": LegState.MATCHED})
    order = chain(ordered={"legs": 2})
    starts = (SlotStart(ORDER_ID, 2, 1, LOCAL.root),)
    on_chain = replace(order, legs=(*order.legs, second), starts=starts)
    # What is no longer here is not held, whatever the record of the earlier leg names.
    assert ledger.held_initial_states([on_chain], ME) == {GLOBAL.root: held}
    assert ledger.held_initial_states([on_chain], "v9") == {}
    later = LegKey(ORDER_ID, 2)
    ledger.begin(ORDER_ID, 2)
    ledger.take_initial_states(later, held, ())
    known = ledger.load(ORDER_ID, 2)
    assert known is not None
    assert list(states_of(known)) == [held]
    assert here.sha256 in needed_blobs(known, on_chain, {}, 10)
    ledger.forget(KEY)
    assert ledger.blobs.has(here.sha256)


def test_states_that_went_in_the_meantime_are_not_taken(ledger: Ledger) -> None:
    ledger.begin(ORDER_ID, 1)
    ledger.take_initial_states(KEY, GLOBAL, ())
    assert ledger.load(ORDER_ID, 1) == new_order(ORDER_ID, 1)
