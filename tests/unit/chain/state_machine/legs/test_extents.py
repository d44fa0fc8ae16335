"""Legs that serve a part of their order: later rounds, or some of the slots."""

from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.legs.creation import LegExtent
from chain.state_machine.market.hooks import Match
from chain.state_machine.market.tables import BIDS
from domain.amount import ceil_div
from domain.errors import BAD_PROOF, NOT_FOUND, SLOT_MISSING, WRONG_STATE
from domain.legs.messages import MsgStopOrder
from domain.legs.records import LegState
from domain.market.reasons import CloseReason
from domain.market.records import JobTerms, OrderState
from domain.params import Params, local_params
from domain.proof.reasons import ShareReason
from pol.rules.schedule import progress_seconds, round_work, served_terms, share_work
from tests.support.chain_market import BOND, Market, digest, make_terms, submit
from tests.support.partial_legs import partial_chain

TERMS = make_terms(rounds=5, slots=4)
OPENING = digest("opening global")
LOCALS = {1: digest("opening local", 1), 2: digest("opening local", 2)}
LATER = LegExtent(3, 2, 0, 4, OPENING, LOCALS)
"""The last two of five rounds, all slots; slots 0 and 3 start from the order's own local state."""
SLICE = LegExtent(0, 5, 1, 2, TERMS.global_root)
"""All rounds of two of four slots."""
PART = LegExtent(2, 2, 2, 2, OPENING, {2: LOCALS[2]})
"""Rounds 2 and 3 of slots 2 and 3: neither the first round nor the last."""


def running(
    extent: LegExtent, params: Params | None = None, terms: JobTerms = TERMS, **more: Any
) -> tuple[Market, bytes]:
    """Return a market with an order that a leg of this extent serves; the leg is accepted."""
    market = Market(params or quiet(), chain=partial_chain(lambda _: extent))
    return market, market.run(submit(terms=terms, deposit=4_000_000, **more))


def quiet(**changes: Any) -> Params:
    """Return parameters of a chain without auditors, on which windows alone pass."""
    return local_params().replace(auditors=0, round_window=20, **changes)


@pytest.mark.parametrize("extent", [LATER, SLICE, PART], ids=["later", "slice", "part"])
def test_a_leg_is_served_from_its_first_round_to_its_last(extent: LegExtent) -> None:
    """With panels: each closed round is audited, verified and paid, and the order settles."""
    market, order_id = running(extent, local_params())
    leg = market.leg(order_id)
    assert (leg.round, leg.end_round) == (extent.first_round, extent.first_round + extent.rounds)
    assert leg.global_in == leg.initial_root == extent.initial_root
    market.settle(order_id)
    found = market.all_of(order_id)
    served = served_terms(TERMS, extent)
    assert [closed.round for closed in found.rounds] == list(range(leg.first_round, leg.end_round))
    slots = list(range(extent.first_slot, extent.first_slot + extent.slots))
    assert all([ref.slot for ref in closed.shares] == slots for closed in found.rounds)
    assert found.order.work_verified == found.legs[0].work == served.rounds * round_work(served)
    assert found.order.close_reason == CloseReason.SETTLED
    assert (found.legs[0].verified, found.legs[0].state) == (extent.rounds, LegState.DONE)
    assert market.chain.bond("v0") == BOND


def test_the_first_shares_of_a_leg_start_from_its_opening_roots() -> None:
    market, order_id = running(LATER)
    market.train_round(order_id)
    found = market.all_of(order_id)
    assert found.rounds[0].global_in == OPENING
    locals_in = {share.claim.slot: share.local_in for share in found.shares}
    own = TERMS.local_root
    assert locals_in == {0: own, 1: LOCALS[1], 2: LOCALS[2], 3: own}
    assert {(o.slot, o.local_root) for o in found.starts} == set(LOCALS.items())
    market.train_round(order_id)
    left = [share for share in market.shares(order_id) if share.claim.round == 4]
    assert all(share.local_in not in (own, *LOCALS.values()) for share in left)


def test_a_share_from_another_opening_cannot_be_accepted() -> None:
    """What is committed from the order's own state, as in round 0, does not hash to the leg's opening."""
    market, order_id = running(LATER)
    traces = market.traces_of_round(order_id)
    traces[1] = market.trace(order_id, 1, opening=(OPENING, TERMS.local_root))
    market.commit(order_id, *traces)
    market.wait_drawn(order_id)
    refused = market.chain.refused(BAD_PROOF, market.accept_message(order_id))
    assert "do not hash to its commitment" in refused.log


def test_nobody_commits_or_closes_outside_the_slots_of_a_leg() -> None:
    market, order_id = running(SLICE)
    outside = [market.trace(order_id, slot) for slot in (0, 3)]
    market.commit(order_id, *market.traces_of_round(order_id), *outside)
    assert market.skipped() == [ShareReason.BAD_SLOT] * 2
    market.wait_drawn(order_id)
    accept, close = market.close_messages(order_id)
    more = (replace(accept.shares[0], slot=0), *accept.shares)
    refused = market.chain.refused(NOT_FOUND, replace(accept, shares=more), field="shares")
    assert "a share of slot 0, but the leg serves slots 1 to 2" in refused.log
    market.chain.refused(SLOT_MISSING, market.chain.tx(replace(accept, shares=accept.shares[1:]), close))
    market.chain.ok(accept, close)


@pytest.mark.parametrize("round", [0, 1, 4, 9])
def test_no_round_is_open_but_those_of_the_leg(round: int) -> None:
    market, order_id = running(PART)
    commit = market.commit_message(order_id, *market.traces_of_round(order_id))
    refused = market.chain.refused(WRONG_STATE, replace(commit, round=round), field="round")
    assert "the leg serves rounds 2 to 3" in refused.log
    for _ in range(2):
        market.train_round(order_id)
    market.chain.refused(WRONG_STATE, replace(commit, round=4))


@pytest.mark.parametrize("closed", [0, 1])
def test_a_failed_leg_pays_for_the_rounds_of_its_own_that_it_did_not_close(closed: int) -> None:
    """Two rounds from round 3 on: with one of them closed half of the job bond is cut, not a fifth."""
    market, order_id = running(LATER, rematch=False)
    leg = market.leg(order_id)
    for _ in range(closed):
        market.train_round(order_id)
    market.chain.ok(MsgStopOrder("v0", order_id, 1))
    cut = sum(
        int(event.get("amount"))
        for event in market.chain.seen("payment")
        if event.get("kind") in ("compensation", "burn")
    )
    assert cut == ceil_div(leg.job_bond * (2 - closed), 2) > 0
    market.chain.pass_time(60)
    assert market.order(order_id).close_reason == CloseReason.FAILED


def test_what_a_consumer_paid_a_failed_leg_is_that_of_its_own_rounds_and_slots() -> None:
    """The job bond makes good no more than the leg was paid: a slice costs half of a round, not a whole one."""
    params = quiet(job_bond_bps=10_000)
    market, order_id = running(SLICE, params, rematch=False)
    market.train_round(order_id)
    market.chain.pass_time(30)
    assert market.leg(order_id).verified == 1
    paid = sum(p.amount for p in market.all_of(order_id).payments if p.kind in ("provider", "protocol"))
    market.chain.ok(MsgStopOrder("v0", order_id, 1))
    market.chain.pass_time(60)
    compensated = sum(p.amount for p in market.all_of(order_id).payments if p.kind == "compensation")
    fee = compensated - paid
    assert 0 <= fee < 1_000, "it gets back what it paid, and the fee of ordering"


def test_progress_is_due_for_the_slots_of_the_leg_alone() -> None:
    market, order_id = running(SLICE, quiet(progress_base=10))
    leg, clock = market.leg(order_id), market.chain.clock
    whole = progress_seconds(TERMS, 10, leg.slot_speed, leg.slots_at_once)
    own = progress_seconds(served_terms(TERMS, leg), 10, leg.slot_speed, leg.slots_at_once)
    assert leg.progress_deadline == clock + own <= clock + whole


def test_a_void_round_of_a_later_leg_takes_those_behind_it_along() -> None:
    """Its first round is found wrong: both are void, nothing is paid, and the order opens again."""
    market, order_id = running(LATER, local_params())
    market.train_round(order_id)
    market.train_round(order_id)
    market.fault_round(order_id, 3)
    market.chain.pass_time(3)
    leg = market.all_of(order_id).legs[0]
    assert (leg.verified, leg.void, leg.closed) == (0, 2, 2)
    assert leg.state is LegState.FAILED
    assert [closed.void for closed in market.all_of(order_id).rounds] == [True, True]
    assert market.order(order_id).work_verified == 0
    assert market.order(order_id).state in (OrderState.OPEN, OrderState.MATCHED)


def test_a_rejected_share_of_a_slice_is_compared_with_that_of_its_slot() -> None:
    """Slot 2 is the second of the leg: a right share that was rejected is found right by its own slot."""
    market, order_id = running(SLICE)
    right = market.trace(order_id, 2)
    market.commit(order_id, market.trace(order_id, 1), right)
    again = market.trace(order_id, 2, issue=2, provider="v0p1")
    market.commit(order_id, again, reject=[(right.ref, ShareReason.SEGMENT_MISMATCH)])
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    market.chain.pass_time(30)
    compared = market.chain.seen("share.compared")
    assert [(event.get("slot"), event.get("right")) for event in compared] == [("2", "true")]


@pytest.mark.parametrize(
    "extent",
    [
        LegExtent(0, 6, 0, 4, OPENING),
        LegExtent(5, 1, 0, 4, OPENING),
        LegExtent(0, 0, 0, 4, OPENING),
        LegExtent(-1, 2, 0, 4, OPENING),
        LegExtent(0, 5, 3, 2, OPENING),
        LegExtent(0, 5, 0, 0, OPENING),
        LegExtent(0, 5, 1, 2, OPENING, {0: OPENING}),
    ],
)
def test_no_leg_opens_that_is_not_a_part_of_its_order(extent: LegExtent) -> None:
    def make(_: Match) -> LegExtent:
        return extent

    market = Market(quiet(), chain=partial_chain(make))
    with pytest.raises(ValueError, match="is not a part of 5 rounds of 4 slots"):
        market.submit(submit(terms=TERMS, deposit=4_000_000))


def test_a_part_reserves_its_own_work_of_the_bid() -> None:
    market, order_id = running(PART)
    leg, overlay = market.leg(order_id), market.chain.overlay()
    assert leg.work == 2 * (2 * share_work(TERMS) + TERMS.outer_work)
    assert BIDS.must(overlay, leg.bid_id).reserved == leg.work
    market.chain.ok(MsgStopOrder("v0", order_id, 1))
    assert BIDS.must(market.chain.overlay(), leg.bid_id).reserved == 0
