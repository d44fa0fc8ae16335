"""A validator that continues takes the right shares of its void round over, and cannot replace, drop or pay them twice.

A panel that found one share wrong made the whole round void: the providers of the other shares trained them again, for
nothing, and the validator could choose again whose share it takes.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from chain.state_machine.ledger.tables import BONDED_SHARES
from chain.state_machine.proof import taking
from chain.state_machine.proof.tables import ROUNDS, SHARES, TAKING
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.errors import WRONG_STATE
from domain.legs.messages import MsgStopOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.market.messages import MsgWithdrawBid
from domain.market.reasons import CloseReason
from domain.params import local_params
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, Share, ShareState
from tests.support.chain_market import BOND, Market, make_terms, submit

MISMATCH = ShareReason.SEGMENT_MISMATCH


def started(
    *, rounds: int = 3, window: int = 20, bidders: tuple[str, ...] = ("v0",), due_gas: int = 0, **changes: Any
) -> tuple[Market, bytes]:
    """Return a market whose order has rounds of two slots; each of two providers serves one."""
    used = {"due_gas": due_gas} if due_gas else {}
    market = Market(local_params().replace(duty_segments=1, round_window=window, **used), validators=6, bidders=bidders)
    terms = make_terms(rounds=rounds, round_steps=12, slots=2)
    order = submit(terms=terms, deposit=6_000_000, **{"deadline": 100_000, "rematch": False, **changes})
    return market, market.run(order)


def find_wrong(market: Market, order_id: bytes, round: int) -> int | None:
    """Let the panel of a closed round find a segment wrong for which only the provider is liable; return its slot.

    Return None if no beacon drew such a segment; the round is then right.
    """
    market.wait_stage(order_id, round)
    panel = market.panel(order_id, round)
    for number, place in enumerate(panel.places):
        where = place.place
        if where.kind is AuditKind.SEGMENT:
            share = SHARES.must(market.chain.overlay(), *panel.round_key.share(where.slot, where.issue))
            if where.segment not in share.drawn:
                market.say_all(order_id, partial(market.wrong_at, order_id, round, number), round)
                return where.slot
    market.answer_all(order_id, round)
    return None


def voided(*, rejects: str = "", **changes: Any) -> tuple[Market, bytes, int]:
    """Return a market in which a share of the first round was found wrong, and the slot of this share.

    If ``rejects`` is set, the validator rejected a first issue of both slots with this work as a mismatch.
    """
    for waited in range(20):
        market, order_id = started(**changes)
        market.chain.pass_time(waited)  # so that other beacons draw
        if rejects:
            firsts = [market.trace(order_id, slot, work=rejects, provider=f"v0p{1 - slot}") for slot in range(2)]
            market.commit(order_id, *firsts)
            again = [market.trace(order_id, slot, issue=2, provider=f"v0p{slot}") for slot in range(2)]
            market.commit(order_id, *again, reject=[(first.ref, int(MISMATCH), 0) for first in firsts])
            market.wait_drawn(order_id)
            market.chain.ok(*market.close_messages(order_id))
        else:
            market.train_round(order_id)
        slot = find_wrong(market, order_id, 0)
        if slot is not None:
            return market, order_id, slot
    raise AssertionError("no beacon drew a segment outside the duty")


def settle_taking(market: Market, order_id: bytes) -> None:
    """Let the new leg begin, and take over what it can."""
    market.chain.pass_time(market.order(order_id).window + 2)
    for _ in range(20):
        leg = market.leg(order_id)
        if leg.number == 2 and not TAKING.has(market.chain.overlay(), order_id, leg.number):
            return
        market.chain.block()
    raise AssertionError("the next leg does not begin")


def shares_of(market: Market, order_id: bytes, leg: int) -> dict[tuple[int, int], Share]:
    return market.all_of(order_id).shares_of(leg, 0)


def payments(market: Market, order_id: bytes, kind: str) -> list[tuple[str, int]]:
    return [(paid.to, paid.amount) for paid in market.all_of(order_id).payments if paid.kind == kind]


def locked(market: Market, order_id: bytes) -> list[tuple[int, int]]:
    """Return leg and slot of the bonds of shares that are locked."""
    return [(row.leg, row.slot) for row in market.all_of(order_id).escrow.bonds if row.kind.name == "SHARE"]


def end(market: Market, order_id: bytes) -> None:
    leg = market.leg(order_id)
    for round in range(leg.round, leg.end_round):
        market.train_round(order_id)
        market.answer_all(order_id, round)
    market.chain.pass_time(market.order(order_id).window + 2)
    market.pass_handover(order_id)


def test_a_right_share_is_taken_over_with_its_bond_and_paid_once() -> None:
    market, order_id, wrong = voided()
    right = 1 - wrong
    before = shares_of(market, order_id, 1)[right, 1]
    settle_taking(market, order_id)
    taken = shares_of(market, order_id, 2)[right, 1]
    assert (taken.state, taken.claim, taken.roots) == (ShareState.ACCEPTED, before.claim, before.roots)
    assert taken.drawn == before.drawn
    assert shares_of(market, order_id, 1)[right, 1].state is ShareState.TAKEN
    assert locked(market, order_id) == [(2, right)]
    owner = before.claim.provider
    bonded = [tuple(parts[1:]) for parts in BONDED_SHARES.keys(market.chain.overlay(), owner)]
    assert [number_of(leg) for _, leg, *_ in bonded] == [2]
    end(market, order_id)
    assert market.order(order_id).close_reason == CloseReason.SETTLED
    paid = [to for to, _ in payments(market, order_id, "provider")]
    assert (len(paid), paid.count(owner)) == (6, 3)
    assert market.chain.bond(owner) == BOND
    assert not locked(market, order_id)
    assert market.order(order_id).work_verified == sum(r.work for r in market.all_of(order_id).rounds if r.verified)


def test_only_the_wrong_slot_is_issued_again_and_its_numbers_go_on() -> None:
    market, order_id, wrong = voided()
    settle_taking(market, order_id)
    right = 1 - wrong
    market.commit(order_id, market.trace(order_id, right, issue=2))
    assert market.skipped()[-1] is ShareReason.SLOT_TAKEN
    market.commit(order_id, market.trace(order_id, wrong, issue=1))
    assert market.skipped()[-1] is ShareReason.WRONG_ISSUE
    drawn = shares_of(market, order_id, 1)[wrong, 1].drawn
    market.commit(order_id, market.trace(order_id, wrong, issue=2))
    market.wait_drawn(order_id)
    assert set(drawn) <= set(shares_of(market, order_id, 2)[wrong, 2].drawn)


def half_taken(monkeypatch: pytest.MonkeyPatch) -> tuple[Market, bytes]:
    """Return a market whose second leg has taken over no share yet, and takes one in each block from the next on.

    The first slot has the wrong share.
    """
    monkeypatch.setattr(taking, "TAKEN_PER_CALL", 1)
    for waited in range(30):
        market, order_id = started(due_gas=1, rematch=True)
        market.chain.pass_time(waited)
        market.train_round(order_id)
        if find_wrong(market, order_id, 0) == 0:
            break
    else:
        raise AssertionError("no beacon drew a segment outside the duty")
    for _ in range(60):
        if market.leg(order_id).number == 2:
            return market, order_id
        market.chain.block()
    raise AssertionError("the next leg does not begin")


def test_a_validator_cannot_replace_a_share_that_is_not_taken_over_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    market, order_id = half_taken(monkeypatch)
    market.commit(order_id, market.trace(order_id, 1, issue=7))
    assert market.skipped() == [ShareReason.SLOT_TAKEN]
    settle_taking(market, order_id)
    assert shares_of(market, order_id, 2)[1, 1].state is ShareState.ACCEPTED


def test_a_validator_cannot_reject_a_share_that_it_took_over() -> None:
    market, order_id, wrong = voided()
    settle_taking(market, order_id)
    ref = shares_of(market, order_id, 2)[1 - wrong, 1].key.ref
    market.chain.refused(WRONG_STATE, market.commit_message(order_id, reject=[(ref, int(MISMATCH), 0)]))
    old = replace(market.commit_message(order_id, reject=[(ref, int(MISMATCH), 0)]), leg=1)
    market.chain.refused(WRONG_STATE, old)


def test_a_rejected_share_is_compared_under_the_key_that_its_provider_signed() -> None:
    """The validator accepted the same work of others, so it pays for both shares that it called wrong."""
    market, order_id, wrong = voided(rejects="right")
    settle_taking(market, order_id)
    rejected = [share for share in shares_of(market, order_id, 2).values() if share.claim.issue == 1]
    assert {(share.state, share.claim.leg) for share in rejected} == {(ShareState.REJECTED, 1)}
    market.commit(order_id, market.trace(order_id, wrong, issue=3, provider=f"v0p{wrong}"))
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    market.answer_all(order_id, 0)
    market.chain.pass_time(market.order(order_id).window + 2)
    compared = [shares_of(market, order_id, 2)[slot, 1].state for slot in range(2)]
    assert compared == [ShareState.RIGHT, ShareState.RIGHT]
    events = [event for event in market.chain.seen("share.compared") if int(event.get("paid"))]
    assert len(events) == 2


def test_a_leg_that_fails_returns_the_bonds_of_what_it_took_over() -> None:
    market, order_id, _ = voided()
    settle_taking(market, order_id)
    leg = market.leg(order_id)
    market.chain.ok(MsgStopOrder(leg.validator, order_id, leg.number))
    market.chain.pass_time(3)
    assert not locked(market, order_id)
    assert not payments(market, order_id, "provider")


def test_a_leg_that_fails_at_once_returns_the_bonds_that_it_had_not_taken_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    market, order_id = half_taken(monkeypatch)
    market.chain.ok(MsgStopOrder("v0", order_id, 2))
    for _ in range(20):
        market.chain.block()
    assert shares_of(market, order_id, 1)[1, 1].state is ShareState.ACCEPTED
    assert not locked(market, order_id)
    assert not TAKING.has(market.chain.overlay(), order_id, 2)


def test_a_share_is_taken_over_again_and_its_round_can_become_void_again() -> None:
    for waited in range(20):
        market, order_id, _ = voided()
        market.chain.pass_time(waited)
        settle_taking(market, order_id)
        market.train_round(order_id)
        second = find_wrong(market, order_id, 0)
        if second is None:
            continue
        market.chain.pass_time(market.order(order_id).window + 2)
        leg = market.leg(order_id)
        assert leg.number == 3
        held = shares_of(market, order_id, 3)
        assert [slot for slot, _ in held] == [1 - second]
        assert locked(market, order_id) == [(3, 1 - second)]
        end(market, order_id)
        assert market.order(order_id).close_reason == CloseReason.SETTLED
        return
    raise AssertionError("no beacon drew a segment outside the duty twice")


def test_shares_of_later_rounds_are_trained_again() -> None:
    """They began from a state that no panel has verified."""
    for waited in range(20):
        market, order_id = started()
        market.chain.pass_time(waited)
        market.train_round(order_id)
        market.train_round(order_id)
        wrong = find_wrong(market, order_id, 0)
        if wrong is None:
            continue
        settle_taking(market, order_id)
        assert set(shares_of(market, order_id, 2)) == {(1 - wrong, 1)}
        assert not market.all_of(order_id).shares_of(2, 1)
        assert locked(market, order_id) == [(2, 1 - wrong)]
        return
    raise AssertionError("no beacon drew a segment outside the duty")


def test_nothing_is_taken_over_where_the_validator_is_at_fault() -> None:
    market, order_id = started(rematch=True)
    market.train_round(order_id)
    market.fault_round(order_id)
    market.chain.pass_time(market.order(order_id).window + 2)
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.WRONG_ROUND
    assert all(share.state is ShareState.ACCEPTED for share in shares_of(market, order_id, 1).values())
    assert not locked(market, order_id)


def test_a_round_that_its_validator_made_void_is_not_taken_over() -> None:
    """Its leg may have ended as a provider's fault before, because of a later round."""
    for waited in range(20):
        market, order_id = started(window=300)
        market.chain.pass_time(waited)
        market.train_round(order_id)
        market.answer_all(order_id, 0)
        market.train_round(order_id)
        if find_wrong(market, order_id, 1) is None or market.leg(order_id).number > 1:
            continue

        def blame(overlay: Overlay, order_id: bytes = order_id) -> None:
            ROUNDS.put(overlay, replace(ROUNDS.must(overlay, order_id, 1, 1), by_validator=True))

        market.chain.change(blame)
        settle_taking(market, order_id)
        assert not [share for share in market.shares(order_id) if share.state is ShareState.TAKEN]
        return
    raise AssertionError("no beacon drew a segment outside the duty")


def test_another_validator_takes_nothing_over() -> None:
    """It has not checked these shares, so all bonds return, and all slots are issued again."""
    for waited in range(20):
        market, order_id = started(rematch=True, bidders=("v0", "v1"))
        market.chain.pass_time(waited)
        market.train_round(order_id)
        leg = market.leg(order_id)
        market.chain.ok(MsgWithdrawBid(leg.validator, leg.bid_id))
        if find_wrong(market, order_id, 0) is None:
            continue
        market.chain.pass_time(market.order(order_id).window + 2)
        market.accept(order_id)
        assert market.leg(order_id).validator != leg.validator
        assert not shares_of(market, order_id, 2)
        assert not locked(market, order_id)
        end(market, order_id)
        assert market.order(order_id).close_reason == CloseReason.SETTLED
        return
    raise AssertionError("no beacon drew a segment outside the duty")


def test_the_order_gets_the_time_of_the_void_round_back_once() -> None:
    for waited in range(20):
        market, order_id = started(rounds=1)
        market.chain.pass_time(waited)
        market.train_round(order_id)
        closed = market.round_of(order_id, 1, 0)
        market.move_deadline(order_id, market.chain.clock + 2)
        if find_wrong(market, order_id, 0) is None:
            continue
        assert market.chain.clock > closed.closed_at + 2  # the deadline passed while the panel worked
        settle_taking(market, order_id)
        order, leg = market.order(order_id), market.leg(order_id)
        assert (leg.number, leg.state) == (2, LegState.RUNNING)
        # As much time is left as at the close of the void round, and one round beside it.
        assert closed.time_left < order.deadline - leg.matched_at < closed.time_left + 60
        market.train_round(order_id)
        assert market.round_of(order_id, 2, 0).time_left < closed.time_left + 60
        return
    raise AssertionError("no beacon drew a segment outside the duty")


def test_a_validator_whose_own_round_is_wrong_does_not_continue_behind_a_wrong_share() -> None:
    """A later round is void by its provider's fault first. The validator would go on without an auction."""
    for waited in range(20):
        market, order_id = started(rematch=True, bidders=("v0", "v1"))
        market.chain.pass_time(waited)  # so that other beacons draw
        market.train_round(order_id)
        market.train_round(order_id)
        winner = market.leg(order_id).validator
        if find_wrong(market, order_id, 1) is None:
            continue
        assert market.leg(order_id).end_reason == LegEnd.WRONG_SHARE
        market.fault_round(order_id, 0)
        leg = market.all_of(order_id).legs[0]
        assert leg.end_reason == LegEnd.WRONG_ROUND
        market.chain.pass_time(3)
        order = market.order(order_id)
        assert winner in order.excluded
        assert order.failures == 1
        return
    raise AssertionError("no beacon drew a segment outside the duty")
