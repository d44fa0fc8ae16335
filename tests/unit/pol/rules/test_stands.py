"""Which shares can stand, until when, for how much, and what their panels recompute."""

import pytest

from domain.proof.reasons import MISMATCHES, SILENCES, ShareReason
from domain.proof.records import AuditKind, Share, ShareClaim, ShareRoots, ShareState
from pol.rules.panels import place_cost
from pol.rules.stands import can_stand, draw_stand_places, stand_bond, stand_until
from tests.support.chain_market import Market, make_terms

TERMS = make_terms(round_steps=20)
WHOLE = ShareRoots(b"t" * 32, b"u" * 32, b"l" * 32, (), 10)
SEED = bytes(32)


def share(
    state: ShareState, reason: ShareReason = ShareReason.NONE, wrong_at: int = 0, received: bool = False
) -> Share:
    claim = ShareClaim(bytes(32), 1, 0, 3, 2, "p", bytes(32))
    return Share(
        claim=claim,
        signature=bytes(64),
        local_in=bytes(32),
        work=1,
        bond=1,
        state=state,
        reason=int(reason),
        committed_at=0,
        committed_height=0,
        drawn=(),
        roots=None,
        is_received=received,
        wrong_at=wrong_at,
    )


def test_only_what_the_validator_had_can_stand() -> None:
    for reason in MISMATCHES:
        assert can_stand(share(ShareState.REJECTED, reason))
        assert not can_stand(share(ShareState.RIGHT, reason))
    for reason in SILENCES:
        assert not can_stand(share(ShareState.REJECTED, reason, received=True))
    assert can_stand(share(ShareState.ACCEPTED, received=True))
    assert not can_stand(share(ShareState.ACCEPTED))
    assert not can_stand(share(ShareState.COMMITTED, received=True))


@pytest.mark.parametrize("wrong_at", [0, 4, 9, 10])
def test_the_place_of_the_mismatch_is_always_recomputed(wrong_at: int) -> None:
    rejected = share(ShareState.REJECTED, ShareReason.SEGMENT_MISMATCH, wrong_at)
    places = draw_stand_places(SEED, TERMS, rejected, WHOLE, 4)
    assert places[0].segment == wrong_at
    assert (places[0].kind is AuditKind.UPDATE) == (wrong_at == 10)
    assert len(set(places)) == 4
    assert {(place.slot, place.issue) for place in places} == {(3, 2)}


def test_a_place_that_the_share_has_not_is_none() -> None:
    rejected = share(ShareState.REJECTED, ShareReason.SEGMENT_MISMATCH, wrong_at=11)
    assert len(set(draw_stand_places(SEED, TERMS, rejected, WHOLE, 4))) == 4


def test_a_share_that_stopped_has_the_place_of_its_stop_and_no_update() -> None:
    stopped = ShareRoots(b"t" * 32, b"", b"", (), 2, 1)
    rejected = share(ShareState.REJECTED, ShareReason.NOT_STOPPED, wrong_at=2)
    places = draw_stand_places(SEED, TERMS, rejected, stopped, 16)
    assert [place.segment for place in places] == [2, 0, 1]
    assert {place.kind for place in places} == {AuditKind.SEGMENT}


def test_the_time_is_the_window_or_longer() -> None:
    assert stand_until(100, window=30, stand_wait=60) == 160
    assert stand_until(100, window=90, stand_wait=60) == 190


def test_the_bond_pays_two_stages_and_is_at_least_the_value() -> None:
    market = Market()
    order = market.order(market.submit())
    cost = place_cost(order.terms, AuditKind.SEGMENT, 10**12)
    seats = 3 * order.params.auditors
    assert stand_bond(order.terms, order.params, 1, 2, 10**12) == seats * (2 * cost + order.params.answer_fee)
    assert stand_bond(order.terms, order.params, 10**9, 2, 10**12) == 10**9
