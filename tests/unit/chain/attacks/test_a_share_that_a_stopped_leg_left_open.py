"""Shares that are delivered when their leg fails: the validator took the work, and its round is never closed.

A validator whose owner is the consumer let its providers train, took the updates, and stopped. Each provider got its
bond back, and nothing for its work.
"""

from dataclasses import replace

import pytest

from chain.state_machine.legs.tables import LEGS
from chain.state_machine.proof.tables import WRONG_PROVIDERS
from chain.state_machine.registry.tables import VALIDATORS
from domain.disputes.messages import MsgStand
from domain.disputes.queries import DisputesRequest
from domain.disputes.records import Dispute, DisputeState
from domain.errors import BAD_PROOF, DEADLINE_PASSED, NOT_FOUND, NOT_YET, WRONG_STATE
from domain.legs.messages import MsgStopOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import Leg
from domain.market.records import OrderState
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, SeatAnswer, ShareState
from escrow.settle import compute_income
from pol.rules.commitment import update_claim
from tests.support.chain_market import BOND, Trace, submit
from tests.support.delivered import DeliveryMarket, Sent, spoil

VALUE = 38_000
STAND_WAIT = 60


def begun(*, rematch: bool = False) -> tuple[DeliveryMarket, bytes, Trace, Sent]:
    """Return a market with a committed share in each slot, and what the provider of the first one sent."""
    market = DeliveryMarket(validators=8, providers=4)
    order_id = market.run(submit(rematch=rematch))
    trace = market.delivered_trace(order_id, 0, provider="v0p0")
    market.commit(order_id, trace, market.delivered_trace(order_id, 1, provider="v0p1"))
    market.wait_drawn(order_id)
    return market, order_id, trace, market.send(order_id, trace)


def stop(market: DeliveryMarket, order_id: bytes) -> None:
    """Let the validator stop, and wait until the shares are dropped."""
    market.chain.ok(MsgStopOrder("v0", order_id, 1))
    market.chain.block()
    market.chain.block()


def stand(trace: Trace) -> MsgStand:
    claim = trace.claim
    return MsgStand(claim.provider, claim.order_id, claim.leg, claim.round, claim.slot, claim.issue, trace.roots)


def disputes(market: DeliveryMarket, order_id: bytes) -> tuple[Dispute, ...]:
    found: tuple[Dispute, ...] = market.chain.ask(DisputesRequest(order_id)).disputes
    return found


def decide(market: DeliveryMarket, trace: Trace) -> DisputeState:
    """Let the seats of the last stand recompute its places rightly; return its end."""
    order_id = trace.claim.order_id
    right = market.content(order_id, trace.claim.slot)
    market.about = disputes(market, order_id)[-1].number

    def answers() -> tuple[SeatAnswer, ...]:
        places = [place.place for place in market.panel(order_id, 0).places]
        update = update_claim(right.roots.update_root, right.roots.local_out, right.roots.metrics)
        roots = [
            update if place.kind is AuditKind.UPDATE else right.leaves[place.segment].boundary_root for place in places
        ]
        return tuple(replace(answer, root=roots[answer.place]) for answer in market.answers(order_id))

    market.say_all(order_id, answers)
    market.about = 0
    return disputes(market, order_id)[-1].state


def leg(market: DeliveryMarket, order_id: bytes) -> Leg:
    """Return the first leg of an order."""
    return market.all_of(order_id).legs[0]


def income(market: DeliveryMarket, order_id: bytes) -> int:
    """Return what a share of the order earns in a verified round."""
    params, first = market.order(order_id).params, leg(market, order_id)
    share = market.shares(order_id)[0]
    return compute_income(
        share.work,
        first.price,
        protocol_bps=params.protocol_bps,
        audit_bps=params.audit_bps,
        providers_bps=first.providers_bps,
    )


def wealth(market: DeliveryMarket, name: str = "v0p0") -> int:
    return market.chain.worth(name) + market.chain.bond(name)


def stake(market: DeliveryMarket, name: str = "v0") -> int:
    return VALIDATORS.must(market.chain.overlay(), name).stake


def seats_pay(market: DeliveryMarket) -> int:
    return sum(int(event.get("paid")) for event in market.chain.seen("panel.paid"))


def test_a_stand_in_the_block_in_which_the_leg_fails_comes_too_early() -> None:
    """The shares are dropped after it. Every node used to end in this block."""
    market, order_id, trace, _ = begun()
    message = market.accept_message(order_id)
    market.chain.ok(replace(message, shares=message.shares[:1]))
    chain = market.chain
    stopped, early = chain.block(chain.tx(MsgStopOrder("v0", order_id, 1)), chain.tx(stand(trace))).tx_results
    assert (stopped.code, early.code) == (0, NOT_YET.number)
    assert "not dropped yet" in early.log
    chain.block()
    chain.ok(stand(trace))
    assert decide(market, trace) is DisputeState.UPHELD


def test_a_share_that_was_accepted_is_paid_what_it_would_have_earned() -> None:
    market, order_id, trace, _ = begun()
    market.accept_shares(order_id)
    stop(market, order_id)
    assert market.chain.bond("v0p0") == BOND
    before, had = wealth(market), stake(market)
    market.chain.ok(stand(trace))
    assert decide(market, trace) is DisputeState.UPHELD
    earned = income(market, order_id)
    assert 0 < earned < VALUE
    assert wealth(market) == before + earned
    assert had - stake(market) == earned + seats_pay(market)
    assert market.share_of(order_id, trace).state is ShareState.RIGHT


@pytest.mark.parametrize("shown", [False, True])
def test_a_receipt_over_the_link_is_enough(shown: bool) -> None:
    """The validator stops right after it signed the receipt. Nothing but its signature shows what it got."""
    market, order_id, trace, sent = begun()
    message = market.show_key(sent, shown=shown)
    stop(market, order_id)
    market.chain.refused(WRONG_STATE, stand(trace))
    market.chain.ok(message)
    before = wealth(market)
    market.chain.ok(stand(trace))
    assert decide(market, trace) is DisputeState.UPHELD
    assert wealth(market) == before + income(market, order_id)


def test_a_key_that_is_shown_before_the_stop_counts_as_well() -> None:
    market, order_id, trace, sent = begun()
    market.chain.ok(market.show_key(sent))
    stop(market, order_id)
    market.chain.ok(stand(trace))
    assert decide(market, trace) is DisputeState.UPHELD


def test_without_a_receipt_nothing_is_owed() -> None:
    """A provider that never delivered cannot stand. Neither can one whose receipt has run out."""
    market, order_id, trace, sent = begun()
    late = market.show_key(sent)
    stop(market, order_id)
    market.chain.refused(BAD_PROOF, market.show_key(sent, signature=b"\0" * 64))
    market.chain.pass_time(11)
    market.chain.refused(WRONG_STATE, late)
    market.chain.refused(WRONG_STATE, stand(trace))


def test_the_key_is_shown_as_long_as_the_share_may_stand() -> None:
    market, order_id, _, sent = begun(rematch=True)
    message = market.show_key(sent, shown=True)
    stop(market, order_id)
    market.chain.pass_until(leg(market, order_id).left_at + market.order(order_id).window + STAND_WAIT)
    market.chain.refused(WRONG_STATE, message)


def test_noise_is_not_paid() -> None:
    """The receipt is for noise: the validator shows a wrong piece while the provider stands."""
    market, order_id, trace, sent = begun()
    noise = spoil(sent, market.content(order_id, 0))
    message = market.show_key(noise, shown=True)
    stop(market, order_id)
    market.chain.ok(message)
    market.chain.ok(stand(trace))
    market.chain.ok(market.show_chunk(noise, 0))
    assert decide(market, trace) is DisputeState.FAILED
    assert market.chain.bond("v0p0") == BOND - disputes(market, order_id)[-1].bond
    assert market.share_of(order_id, trace).state is ShareState.WRONG


def test_a_wrong_share_costs_the_bond_of_its_stand() -> None:
    market = DeliveryMarket(validators=8, providers=4)
    order_id = market.run(submit(rematch=False))
    cheat = market.delivered_trace(order_id, 0, "made up", provider="v0p0")
    market.commit(order_id, cheat, market.delivered_trace(order_id, 1, provider="v0p1"))
    market.wait_drawn(order_id)
    market.accept_shares(order_id)
    stop(market, order_id)
    had, bond = stake(market), market.chain.bond("v0p0")
    market.chain.ok(stand(cheat))
    assert decide(market, cheat) is DisputeState.FAILED
    assert market.chain.bond("v0p0") < bond
    assert stake(market) == had


def test_a_leg_without_progress_owes_what_it_received() -> None:
    """A provider is silent, and its validator does not give the slot to another one."""
    market = DeliveryMarket(validators=8, providers=4)
    order_id = market.run(submit(rematch=False))
    trace = market.delivered_trace(order_id, 0, provider="v0p0")
    market.commit(order_id, trace)
    market.wait_drawn(order_id)
    market.accept_shares(order_id)
    market.chain.pass_until(market.leg(order_id).progress_deadline)
    market.chain.block()
    assert leg(market, order_id).end_reason == LegEnd.NO_PROGRESS
    market.chain.ok(stand(trace))
    assert decide(market, trace) is DisputeState.UPHELD


def test_the_fault_of_another_provider_is_not_the_validators() -> None:
    """A segment of the first round is wrong, and its validator did not have to replay it: the open round is dropped."""
    market, order_id, trace, _ = begun()
    market.accept_shares(order_id)
    fail_by(market, order_id, LegEnd.WRONG_SHARE)
    market.chain.refused(WRONG_STATE, stand(trace))


def test_a_panel_that_cannot_decide_makes_nobody_pay() -> None:
    market, order_id, trace, _ = begun()
    market.accept_shares(order_id)
    fail_by(market, order_id, LegEnd.UNDECIDED)
    market.chain.refused(WRONG_STATE, stand(trace))


def fail_by(market: DeliveryMarket, order_id: bytes, reason: LegEnd) -> None:
    """Let the leg stop, as if it had failed for another reason."""
    stop(market, order_id)
    market.chain.change(lambda overlay: LEGS.update(overlay, order_id, 1, end_reason=int(reason)))


def test_no_share_of_a_running_leg_stands() -> None:
    market, order_id, trace, _ = begun()
    market.accept_shares(order_id)
    market.chain.refused(NOT_FOUND, stand(trace))


def test_a_share_stands_once_and_in_time() -> None:
    market, order_id, trace, _ = begun(rematch=True)
    market.accept_shares(order_id)
    stop(market, order_id)
    market.chain.ok(stand(trace))
    market.chain.refused(WRONG_STATE, stand(trace))
    assert decide(market, trace) is DisputeState.UPHELD
    market.chain.refused(WRONG_STATE, stand(trace))


def test_a_share_does_not_stand_when_its_time_is_over() -> None:
    market, order_id, trace, _ = begun(rematch=True)
    market.accept_shares(order_id)
    stop(market, order_id)
    until = leg(market, order_id).left_at + max(market.order(order_id).window, STAND_WAIT)
    market.chain.pass_until(until)
    market.chain.refused(DEADLINE_PASSED, stand(trace))


def test_an_order_closes_when_the_time_to_stand_is_over() -> None:
    market, order_id, _, _ = begun()
    market.accept_shares(order_id)
    stop(market, order_id)
    assert market.order(order_id).state is not OrderState.CLOSED
    market.chain.pass_until(leg(market, order_id).left_at + max(market.order(order_id).window, STAND_WAIT))
    market.chain.block()
    assert market.order(order_id).state is OrderState.CLOSED


def test_a_share_that_was_rejected_as_a_mismatch_stands_after_a_stop() -> None:
    """A thief rejects the share and stops, so that the chain has no accepted share to compare it with."""
    market, order_id, trace, _ = begun()
    market.commit(order_id, reject=[(trace.ref, int(ShareReason.SEGMENT_MISMATCH))])
    stop(market, order_id)
    before = wealth(market)
    market.chain.ok(stand(trace))
    assert decide(market, trace) is DisputeState.UPHELD
    assert wealth(market) == before + VALUE


def test_a_provider_is_paid_once_for_the_work_of_a_slot() -> None:
    """Its share was rejected, and it sent the same work for the next issue of the slot."""
    market, order_id, trace, _ = begun()
    again = market.delivered_trace(order_id, 0, issue=2, provider="v0p0")
    market.commit(order_id, again, reject=[(trace.ref, int(ShareReason.SEGMENT_MISMATCH))])
    market.wait_drawn(order_id)
    market.accept_shares(order_id)
    stop(market, order_id)
    market.chain.refused(WRONG_STATE, stand(trace))
    market.chain.ok(stand(again))
    assert decide(market, again) is DisputeState.UPHELD


def test_who_was_found_wrong_in_the_leg_cannot_stand() -> None:
    market, order_id, trace, _ = begun()
    market.accept_shares(order_id)
    stop(market, order_id)
    market.chain.change(lambda overlay: WRONG_PROVIDERS.mark(overlay, order_id, 1, "v0p0"))
    market.chain.refused(WRONG_STATE, stand(trace))


def test_a_stand_goes_on_while_the_next_leg_trains() -> None:
    market, order_id, trace, _ = begun(rematch=True)
    market.accept_shares(order_id)
    stop(market, order_id)
    market.chain.ok(stand(trace))
    assert market.order(order_id).state is OrderState.OPEN
    assert decide(market, trace) is DisputeState.UPHELD
