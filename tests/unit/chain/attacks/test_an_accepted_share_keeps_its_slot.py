"""A validator cannot replace, reject, or count again a share that it accepted while the round is open."""

from dataclasses import replace

from chain.state_machine.registry.tables import PROVIDERS
from domain.errors import SLOT_MISSING, WRONG_STATE
from domain.legs.messages import MsgStopOrder
from domain.proof.reasons import ShareReason
from domain.proof.records import ShareState
from tests.support.chain_market import BOND, Market


def accepted_first(market: Market) -> bytes:
    """Return an order in whose open round only the share of slot 0 is accepted."""
    order_id = market.run()
    market.commit(order_id, *market.traces_of_round(order_id))
    market.wait_drawn(order_id)
    message = market.accept_message(order_id)
    market.chain.ok(replace(message, shares=message.shares[:1]))
    return order_id


def counts(market: Market) -> list[int]:
    """Return the counts of accepted shares of the providers of v0."""
    return [PROVIDERS.must(market.chain.overlay(), name).shares_accepted for name in market.clusters["v0"]]


def test_its_slot_is_not_issued_again() -> None:
    """A second share of the slot, by a friend, would be paid instead of the first, or beside it."""
    market = Market()
    order_id = accepted_first(market)
    market.commit(order_id, market.trace(order_id, 0, issue=2, provider="v0p1"))
    assert market.skipped() == [ShareReason.SLOT_TAKEN]
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    assert [(ref.slot, ref.issue) for ref in market.round(order_id, 0).shares] == [(0, 1), (1, 1)]


def test_it_cannot_be_rejected() -> None:
    market = Market()
    order_id = accepted_first(market)
    first, _ = market.shares(order_id)
    reject = market.commit_message(order_id, reject=[(first.claim.key.ref, 10_105)])
    refused = market.chain.refused(WRONG_STATE, reject, field="rejections")
    assert "share 0/1 is accepted" in refused.log


def test_it_does_not_count_for_another_slot() -> None:
    """As many accepted shares as slots close a round only if they are of different slots."""
    market = Market()
    order_id = accepted_first(market)
    first, _ = market.shares(order_id)
    again = market.accept_message(order_id, market.traces[order_id, 1, 0, first.claim.key.ref].accepted)
    market.chain.refused(WRONG_STATE, again, field="shares")
    market.chain.refused(SLOT_MISSING, market.close_message(order_id), field="round")


def test_accepting_wins_no_time() -> None:
    """Or a validator would hold its providers' bonds for as many times the deadline as there are slots."""
    market = Market()
    order_id = market.run()
    deadline = market.leg(order_id).progress_deadline
    market.commit(order_id, *market.traces_of_round(order_id))
    market.wait_drawn(order_id)
    for trace in market.standing(order_id):
        market.chain.ok(market.accept_message(order_id, trace.accepted))
    assert market.leg(order_id).progress_deadline == deadline
    market.chain.pass_until(deadline + 1)
    assert {share.reason for share in market.shares(order_id)} == {ShareReason.LEG_ENDED}
    assert [market.chain.bond(name) for name in market.clusters["v0"]] == [BOND, BOND]


def test_a_leg_that_stops_makes_no_track_record() -> None:
    """Accepted shares of a round that never closes were checked by no panel, so they say nothing about a provider."""
    market = Market()
    order_id = accepted_first(market)
    assert counts(market) == [1, 0]
    market.chain.ok(MsgStopOrder("v0", order_id, 1))
    market.chain.block()
    assert counts(market) == [0, 0]
    assert [share.state for share in market.shares(order_id)] == [ShareState.REJECTED] * 2
    assert [share.roots for share in market.shares(order_id)] == [None] * 2
    assert [market.chain.bond(name) for name in market.clusters["v0"]] == [BOND, BOND]
