"""Inclusion: a validator that keeps a commitment off the chain, and a provider that includes what it never delivered.

The provider puts its commitment on chain itself, with the task that the validator signed. The share keeps no slot, and
it is paid only if the validator had its content.
"""

from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.proof.handlers.include_share import find_duty
from domain.errors import (
    ALREADY_EXISTS,
    BAD_FIELD,
    BAD_PROOF,
    DEADLINE_PASSED,
    INSUFFICIENT_BOND,
    NOT_FOUND,
    WRONG_STATE,
)
from domain.ledger.messages import MsgWithdrawBond
from domain.proof.reasons import ShareReason
from domain.proof.records import ShareState
from domain.registry.messages import MsgDismissProvider
from tests.support.chain_market import BOND, Trace, sign_share
from tests.support.delivered import spoil
from tests.support.included import InclusionMarket, sign_task

VALUE = 38_000


def begun() -> tuple[InclusionMarket, bytes, Trace]:
    """Return a market in which ``v0p0`` has trained slot 0, and its validator has committed only slot 1."""
    market = InclusionMarket(validators=6, providers=4)
    order_id = market.run()
    trace = market.delivered_trace(order_id, 0, provider="v0p0")
    market.commit(order_id, market.delivered_trace(order_id, 1, provider="v0p1"))
    return market, order_id, trace


def give_on(market: InclusionMarket, order_id: bytes, work: str = "right") -> None:
    """Give the slot to an accomplice, and close the round with its share."""
    market.commit(order_id, market.delivered_trace(order_id, 0, work, issue=2, provider="v0p2"))
    close(market, order_id)


def close(market: InclusionMarket, order_id: bytes) -> None:
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))


def verify(market: InclusionMarket, order_id: bytes) -> None:
    market.answer_all(order_id, 0)
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified


def worth(market: InclusionMarket, name: str) -> int:
    return market.chain.worth(name) + market.chain.bond(name)


# --- what it is for ---


def test_a_validator_that_had_the_content_and_kept_the_share_off_the_chain_pays() -> None:
    market, order_id, trace = begun()
    sent = market.send(order_id, trace)
    before = worth(market, "v0p0")
    market.chain.ok(market.include(trace))
    assert market.share_of(order_id, trace).reason == ShareReason.INCLUDED
    market.chain.ok(market.show_key(sent))
    give_on(market, order_id)
    verify(market, order_id)
    assert market.share_of(order_id, trace).state is ShareState.RIGHT
    assert worth(market, "v0p0") == before + VALUE


def test_a_share_is_included_after_a_later_issue_and_after_the_close() -> None:
    market, order_id, trace = begun()
    sent = market.send(order_id, trace)
    message = market.include(trace, deadline=market.chain.clock + 10**6)
    before = worth(market, "v0p0")
    give_on(market, order_id)
    market.chain.ok(message, market.show_key(sent))
    verify(market, order_id)
    assert market.share_of(order_id, trace).state is ShareState.RIGHT
    assert worth(market, "v0p0") == before + VALUE


def test_a_validator_can_still_commit_an_included_share() -> None:
    """An honest validator whose transactions came late loses nothing, and its slot is served."""
    market, order_id, trace = begun()
    market.chain.ok(market.include(trace))
    locked = BOND - market.chain.bond("v0p0")
    market.commit(order_id, trace)
    share = market.share_of(order_id, trace)
    assert (share.state, share.reason, BOND - market.chain.bond("v0p0")) == (ShareState.COMMITTED, 0, locked)
    before = market.chain.worth("v0p0")
    close(market, order_id)
    verify(market, order_id)
    assert market.share_of(order_id, trace).state is ShareState.ACCEPTED
    assert market.chain.bond("v0p0") == BOND
    assert market.chain.worth("v0p0") > before


def test_a_validator_can_commit_an_included_share_whose_provider_left() -> None:
    """Otherwise a provider leaves, includes its share, and its validator pays for it and for another one."""
    market, order_id, trace = begun()
    market.chain.ok(MsgDismissProvider("v0", "v0p0"))
    market.chain.ok(market.include(trace))
    market.commit(order_id, trace)
    assert not market.skipped()
    close(market, order_id)
    verify(market, order_id)
    assert market.share_of(order_id, trace).state is ShareState.ACCEPTED
    assert market.chain.bond("v0p0") == BOND


def test_a_dismissed_provider_can_include_its_share() -> None:
    """Otherwise a validator would dismiss each provider whose share it keeps off the chain."""
    market, order_id, trace = begun()
    market.chain.ok(MsgDismissProvider("v0", "v0p0"))
    market.chain.ok(market.include(trace))
    give_on(market, order_id)
    verify(market, order_id)
    assert market.chain.bond("v0p0") == BOND


# --- what must not be gained by it ---


@pytest.mark.parametrize("work", ["right", "made up"])
def test_a_provider_that_delivered_nothing_is_not_paid_and_loses_nothing(work: str) -> None:
    """The silent twin: another account of its owner delivered the same work."""
    market, order_id, trace = begun()
    before = worth(market, "v0p0")
    market.chain.ok(market.include(trace))
    give_on(market, order_id, work)
    verify(market, order_id)
    assert worth(market, "v0p0") == before
    assert market.chain.bond("v0p0") == BOND


def test_an_included_share_takes_no_slot_and_stalls_nothing() -> None:
    market, order_id, trace = begun()
    market.chain.ok(market.include(trace))
    market.commit(order_id, market.delivered_trace(order_id, 0, issue=2, provider="v0p2"))
    assert not market.skipped()
    close(market, order_id)
    verify(market, order_id)


def test_a_share_is_included_once_and_not_after_it_was_committed() -> None:
    market, order_id, trace = begun()
    message = market.include(trace)
    market.chain.ok(message)
    market.chain.refused(ALREADY_EXISTS, message)
    market.commit(order_id, trace)
    market.chain.refused(ALREADY_EXISTS, message)
    market.commit(order_id, reject=[(trace.ref, int(ShareReason.NO_ANSWER))])
    market.chain.refused(ALREADY_EXISTS, message)
    market.commit(order_id, trace)
    assert market.skipped() == [ShareReason.WRONG_ISSUE]


def test_a_task_of_another_share_provider_or_validator_includes_nothing() -> None:
    market, _, trace = begun()
    key, until = trace.claim.key, market.chain.clock + 60

    def refused(signature: bytes, **changes: Any) -> None:
        message = market.include(trace, deadline=until, task_signature=signature, **changes)
        market.chain.refused(BAD_PROOF, message, field="task_signature")

    for other in (
        replace(key, slot=1),
        replace(key, issue=2),
        replace(key, round=1),
        replace(key, leg=2),
        replace(key, order_id=bytes(32)),
    ):
        refused(sign_task(other, "v0p0", until))
    refused(sign_task(key, "v0p3", until))
    refused(sign_task(key, "v0p0", until, by="v1"))
    refused(sign_task(key, "v0p0", until, by="v0p0"))
    refused(sign_task(key, "v0p0", until - 1))
    refused(sign_task(key, "v0p0", until), every=1)
    market.chain.refused(BAD_PROOF, market.include(trace, commitment=bytes(32)), field="signature")
    market.chain.ok(market.include(trace, deadline=until))


def test_a_share_is_not_included_after_the_deadline_or_without_a_bond() -> None:
    market, _, trace = begun()
    market.chain.refused(DEADLINE_PASSED, market.include(trace, deadline=market.chain.clock))
    market.chain.refused(BAD_FIELD, market.include(trace, issue=0))
    market.chain.refused(NOT_FOUND, market.include(trace, slot=2))
    market.chain.refused(WRONG_STATE, market.include(trace, round=1))
    market.chain.ok(MsgWithdrawBond("v0p0", BOND - VALUE + 1))
    market.chain.refused(INSUFFICIENT_BOND, market.include(trace))


def test_a_share_is_not_included_in_the_second_half_of_a_window() -> None:
    """No key could be shown for it, and each block could delay the verification of the round."""
    market, order_id, trace = begun()
    message = market.include(trace, deadline=market.chain.clock + 10**6)
    give_on(market, order_id)
    closed = market.round(order_id, 0)
    market.chain.pass_until(closed.window_ends - market.order(order_id).window // 2)
    market.chain.refused(WRONG_STATE, message, field="round")
    verify(market, order_id)
    market.chain.refused(WRONG_STATE, message, field="round")


def test_a_provider_that_includes_another_commitment_than_it_handed_in_gets_no_second_share() -> None:
    market, order_id, trace = begun()
    other = sign_share(replace(trace.claim, commitment=bytes(32)))
    market.chain.ok(market.include(replace(trace, signed=other)))
    market.commit(order_id, trace)
    assert market.skipped() == [ShareReason.OTHER_COMMITMENT]
    give_on(market, order_id)
    verify(market, order_id)
    assert market.chain.bond("v0p0") == BOND


def test_noise_for_an_included_share_earns_nothing() -> None:
    market, order_id, trace = begun()
    sent = spoil(market.send(order_id, trace), market.content(order_id, 0))
    before = worth(market, "v0p0")
    market.chain.ok(market.include(trace), market.show_key(sent))
    market.chain.ok(market.show_chunk(sent, 0))
    market.commit(order_id, trace)
    assert market.skipped() == [ShareReason.WRONG_ISSUE]
    give_on(market, order_id)
    verify(market, order_id)
    assert worth(market, "v0p0") == before - 100


def test_bonds_of_included_shares_return_when_their_leg_fails() -> None:
    market, order_id, trace = begun()
    market.chain.ok(market.include(trace))
    market.chain.pass_until(market.leg(order_id).progress_deadline + 1)
    assert market.chain.bond("v0p0") == BOND


def test_many_included_shares_are_compared_in_steps_before_the_round_is_verified() -> None:
    """Each needs a task that the validator signed, and locks a bond."""
    market, order_id, _ = begun()
    until = market.chain.clock + 10**6
    for issue in range(3, 73):
        trace = market.delivered_trace(order_id, 0, provider="v0p0", issue=issue)
        market.chain.ok(market.include(trace, deadline=until))
    give_on(market, order_id)
    verify(market, order_id)
    rejected = [share for share in market.shares(order_id) if share.claim.issue > 2]
    assert len(rejected) == 70
    assert {share.state for share in rejected} == {ShareState.RIGHT}
    assert market.chain.bond("v0p0") == BOND


def test_only_a_member_whose_share_is_not_on_chain_has_a_place_in_the_lane() -> None:
    """The lane looks up the state and checks no signature, so it would be full of others' messages."""
    market, order_id, trace = begun()
    message = market.include(trace)
    store = market.chain.overlay()
    duty = find_duty(store, message)
    assert duty is not None
    assert duty.deadline == market.leg(order_id).progress_deadline
    assert find_duty(store, replace(message, provider="v1p0")) is None
    assert find_duty(store, replace(message, provider="stranger")) is None
    assert find_duty(store, replace(message, round=1)) is None
    market.chain.ok(message)
    assert find_duty(market.chain.overlay(), message) is None
