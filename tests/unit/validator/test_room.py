"""How many rounds a validator lets wait for their panels, and for how long."""

from dataclasses import replace
from typing import Any

import pytest

from domain.proof.queries import OrderResponse
from domain.proof.records import ShareState
from domain.registry.records import Capability, Provider
from link.types import ShareSubmission
from pol.rules.schedule import progress_seconds, round_seconds, served_terms
from tests.unit.validator.support import ME, TERMS, chain, claim_of, loaded, share_of, view, works
from validator.decide.orders import decide_order as decide
from validator.decide.records import LocalOrder
from validator.decide.room import PRESSED_PART, has_room
from validator.decide.view import ChainView, Look, Member, View
from validator.observer import member_of

LOCAL: LocalOrder = decide(loaded(), view(chain()))[0]
OLD = frozenset({"p0"})


def waiting(*, state: ShareState = ShareState.ACCEPTED, **assigned: Any) -> OrderResponse:
    """Return a leg whose first round is closed, and whose second one is open. ``p0`` and ``p1`` trained the first."""
    signed = (ShareSubmission(claim_of(LOCAL, work), bytes(64)) for work in works(LOCAL))
    shares = tuple(share_of(each, state=state) for each in signed)
    return chain(shares=shares, assigned={"round": 1, **assigned})


def seen(on_chain: OrderResponse, clock: int = 10, **changes: Any) -> View:
    return view(on_chain, clock, **{"verified_providers": OLD, **changes})


def test_a_round_waits_while_a_newcomers_share_is_not_verified() -> None:
    assert {share.claim.provider for share in waiting().shares} == {"p0", "p1"}
    assert not has_room(LOCAL, seen(waiting()))
    assert has_room(LOCAL, seen(waiting(), verified_providers=OLD | {"p1"}))
    assert has_room(LOCAL, seen(waiting(round=0)))  # nothing is closed
    assert has_room(LOCAL, seen(waiting(verified=1)))


@pytest.mark.parametrize("state", [ShareState.COMMITTED, ShareState.REJECTED, ShareState.RIGHT, ShareState.WRONG])
def test_a_share_that_is_no_part_of_its_round_delays_none(state: ShareState) -> None:
    assert has_room(LOCAL, seen(waiting(state=state)))


def test_a_provider_that_left_is_waited_for_like_a_newcomer() -> None:
    """Otherwise it would leave with its wrong share, and the rounds after it would close."""
    providers = {"p0": Member(1, due=False, newcomer=False, verified=True)}
    look = Look(ChainView(10, {}, {}, providers), ME, "local", b"")
    assert look.of(waiting()).verified_providers == OLD
    assert not has_room(LOCAL, look.of(waiting()))


def test_an_operator_may_let_more_rounds_wait() -> None:
    assert has_room(LOCAL, seen(waiting(), newcomer_rounds=2))
    look = Look(ChainView(10, {}, {}, {}), ME, "local", b"", newcomer_rounds=2)
    assert has_room(LOCAL, look.of(waiting()))


def test_rounds_that_wait_only_for_challenges_delay_none() -> None:
    assert has_room(LOCAL, seen(waiting(cleared=1)))


def test_the_wait_costs_no_leg() -> None:
    """In the last part of its progress time, and of the order's time, the round closes."""
    on_chain = waiting()
    (leg,) = on_chain.legs
    order = on_chain.order
    progress = progress_seconds(TERMS, order.params.progress_base, leg.slot_speed, leg.slots_at_once)
    latest = leg.progress_deadline - progress // PRESSED_PART
    assert not has_room(LOCAL, seen(on_chain, latest - 1))
    assert has_room(LOCAL, seen(on_chain, latest))


def test_the_wait_costs_no_order() -> None:
    """Rounds that are left need their time, and the last one a window."""
    terms = replace(TERMS, rounds=100)
    assigned = {"round": 1, "rounds": 100, "slot_speed": 10**3, "progress_deadline": 10**9}
    on_chain = replace(waiting(), legs=chain(assigned=assigned).legs)
    order = replace(on_chain.order, terms=terms, deadline=10**8)
    (leg,) = on_chain.legs
    rest = 98 * round_seconds(served_terms(terms, leg), leg.slot_speed, leg.slots_at_once)
    tight, loose = replace(order, deadline=10 + 2 * rest), replace(order, deadline=10_000 + 2 * rest)
    assert has_room(LOCAL, seen(replace(on_chain, order=tight)))
    assert not has_room(LOCAL, seen(replace(on_chain, order=loose)))


def test_a_provider_counts_as_verified_after_a_verified_round() -> None:
    capability = Capability("cpu", 7, 1, 1, 10**6)
    known = Provider("p0", ME, bytes(33), capability, shares_accepted=3, shares_rejected=0, admitted=True)
    assert not member_of(known, 0).verified
    assert member_of(replace(known, has_verified_share=True), 0).verified
