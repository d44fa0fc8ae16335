"""Replicas of an order: their match, the moment at which roots become public, and the comparison of their rounds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.market.tables import ORDER_PARTIES
from chain.state_machine.proof.tables import AWAITING, COMPARING, DEPARTURES, DIFFERENCES, SHOWN_TRACES
from chain.state_machine.registry.tables import CLUSTERS
from chain.state_machine.store import Overlay
from domain.errors import BAD_FIELD, BAD_PROOF, INSUFFICIENT_FUNDS, NOT_FOUND, NOT_YET, Code
from domain.legs.records import LegState
from domain.market.messages import MsgCancelOrder, MsgSubmitOrder
from domain.market.reasons import CloseReason
from domain.market.records import Conditions, OrderState
from domain.params import Params, local_params
from domain.proof.messages import MsgShowTrace
from domain.proof.reasons import Comparison, ShareReason
from domain.proof.records import AuditKind, AuditPlace, Ruling
from pol.rules.commitment import leaf_hashes
from pol.rules.replicas import replica_id
from tests.support.chain_market import CONSUMER, PRICE, Market, Trace, bid, make_terms, submit
from tests.support.delivered import DeliveryMarket, spoil
from tests.support.included import TASK_SECONDS, InclusionMarket, sign_task

TIERS = ("replicated",)


def make_market(
    *bidders: str, validators: int = 6, kind: type[Market] = Market, params: Params | None = None
) -> Market:
    market = kind(params, validators=validators, bidders=())
    market.chain.ok(*(bid(name, tiers=TIERS) for name in bidders))
    return market


def ordered(replicas: int = 2, **changes: Any) -> MsgSubmitOrder:
    return submit(conditions=Conditions(tiers=TIERS), replicas=replicas, **changes)


def ids(first: bytes, replicas: int = 2) -> list[bytes]:
    return [replica_id(first, number) for number in range(replicas)]


def run(replicas: int = 2, strangers: int = 4, **changes: int) -> tuple[Market, list[bytes]]:
    """Return a market with an order whose replicas are accepted. ``changes`` are other values of parameters."""
    params = local_params().replace(**changes)
    market = make_market(*(f"v{number}" for number in range(replicas)), validators=replicas + strangers, params=params)
    orders = ids(market.submit(ordered(replicas)), replicas)
    for order_id in orders:
        market.accept(order_id)
    return market, orders


def commit(market: Market, order_id: bytes, *works: str) -> None:
    """Commit a share of each slot of the open round; slots without a name for their work have the right one."""
    named = dict(enumerate(works))
    traces = [market.trace(order_id, slot, named.get(slot, "right")) for slot in range(2)]
    market.commit(order_id, *traces)


def close(market: Market, order_id: bytes, **changes: Any) -> None:
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id, **changes))


def train(market: Market, orders: list[bytes], works: dict[bytes, tuple[str, ...]] | None = None) -> None:
    """Let all replicas commit to the open round, then accept and close it."""
    for order_id in orders:
        commit(market, order_id, *(works or {}).get(order_id, ()))
    for order_id in orders:
        close(market, order_id)
    market.chain.block()


def outcomes(market: Market) -> list[Comparison]:
    return [Comparison(int(event.get("outcome"))) for event in market.chain.seen("round.compared")]


def show_message(market: Market, order_id: bytes, slot: int = 0, round: int = 0) -> MsgShowTrace:
    leg = market.leg(order_id)
    ref = next(ref for ref in market.round(order_id, round).shares if ref.slot == slot)
    trace = market.trace_of(order_id, leg.number, round, ref)
    return MsgShowTrace(leg.validator, order_id, leg.number, round, tuple(leaf_hashes(trace.leaves)))


def audit(market: Market, order_id: bytes, round: int = 0) -> None:
    """If a round has a panel, let its seats find what the chain has."""
    panels = [panel for panel in market.all_of(order_id).panels if panel.round == round]
    if panels:
        market.answer_all(order_id, round)


def is_nothing_left(market: Market) -> bool:
    store = market.chain.overlay()
    tables = (AWAITING, COMPARING, DIFFERENCES, SHOWN_TRACES, DEPARTURES)
    return not any(True for table in tables for _ in table.keys(store))


# --- the match -----------------------------------------------------------------------------------


def test_replicas_are_matched_together_with_different_validators() -> None:
    market, orders = run()
    first, second = (market.leg(order_id) for order_id in orders)
    assert {first.validator, second.validator} == {"v0", "v1"}
    assert first.tier == second.tier == "replicated"
    assert market.order(orders[1]).first_replica == orders[0]
    # No winner sits in a panel about another winner's work.
    assert ORDER_PARTIES.has(market.chain.overlay(), orders[0], second.validator)
    assert ORDER_PARTIES.has(market.chain.overlay(), orders[1], first.validator)


def test_no_replica_is_matched_before_all_of_them_can_be() -> None:
    market = make_market("v0")
    orders = ids(market.submit(ordered()))
    assert [market.order(order_id).state for order_id in orders] == [OrderState.OPEN] * 2
    assert market.order(orders[0]).unmatched == (("excluded", 1),)
    market.chain.ok(bid("v1", tiers=TIERS, price=PRICE - 1))
    market.auction()
    assert {market.leg(order_id).validator for order_id in orders} == {"v0", "v1"}


def test_validators_of_one_cluster_do_not_serve_two_replicas() -> None:
    market = make_market()
    market.chain.change(lambda store: CLUSTERS.mark(store, "v0", "v1"))
    market.chain.ok(bid("v0", tiers=TIERS), bid("v1", tiers=TIERS))
    orders = ids(market.submit(ordered()))
    assert market.order(orders[0]).state is OrderState.OPEN
    market.chain.ok(bid("v2", tiers=TIERS))
    market.auction()
    assert "v2" in {market.leg(order_id).validator for order_id in orders}


def _in_cluster(winner: str, name: str) -> Callable[[Overlay], None]:
    return lambda store: CLUSTERS.mark(store, winner, name)


def test_no_provider_of_a_winner_sits_in_a_panel_about_a_replica() -> None:
    market, (first, second) = run(audit_rate_min=10_000)
    winner = market.leg(second).validator
    strangers = [name for name in market.validators if name not in ("v0", "v1")]
    for name in strangers[1:]:
        market.chain.change(_in_cluster(winner, name))
    train(market, [first, second])
    market.wait_stage(first)
    assert market.seated(first) == strangers[:1]


def test_replicas_wait_and_are_cancelled_together() -> None:
    market = make_market()
    before = market.chain.balance(CONSUMER)
    orders = ids(market.submit(ordered(3)), 3)
    market.chain.ok(MsgCancelOrder(CONSUMER, orders[2]))
    assert {CloseReason(market.order(order_id).close_reason) for order_id in orders} == {CloseReason.CANCELLED}
    fees = before - market.chain.balance(CONSUMER)
    assert fees < 400_000


def test_all_replicas_know_why_none_of_them_is_matched() -> None:
    """The one that leads is in the book; the others wait beside it, for the same reasons."""
    market = make_market("v0")
    first = market.submit(ordered(3))
    market.chain.block()
    known = {market.order(order_id).unmatched for order_id in ids(first, 3)}
    assert len(known) == 1
    assert dict(known.pop())
    told = [bytes.fromhex(event.get("order")) for event in market.chain.events if event.type == "order.unmatched"]
    assert told == ids(first, 3)


def test_replicas_expire_together() -> None:
    market = make_market()
    orders = ids(market.submit(ordered()))
    market.chain.pass_time(101)
    assert {CloseReason(market.order(order_id).close_reason) for order_id in orders} == {CloseReason.EXPIRED}


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"replicas": 1}, BAD_FIELD, "replicas"),
        ({"replicas": 0}, BAD_FIELD, "replicas"),
        ({"replicas": 2, "conditions": Conditions(tiers=("exact",))}, BAD_FIELD, "conditions.tiers"),
        ({"replicas": 2, "conditions": Conditions(tiers=("replicated", "exact"))}, BAD_FIELD, "conditions.tiers"),
        ({"replicas": 2, "conditions": Conditions()}, BAD_FIELD, "conditions.tiers"),
    ],
)
def test_only_tiers_that_replicate_have_replicas(changes: dict[str, Any], code: Code, field: str) -> None:
    market = make_market()
    market.chain.refused(code, replace(ordered(), **changes), field=field)


def test_each_replica_locks_the_deposit() -> None:
    market = make_market()
    balance = market.chain.balance(CONSUMER)
    market.chain.refused(INSUFFICIENT_FUNDS, ordered(2, deposit=balance // 2 + 1))


# --- when roots become public --------------------------------------------------------------------


def test_no_validator_publishes_roots_before_the_others_have_committed() -> None:
    market, orders = run()
    first, second = orders
    commit(market, first)
    market.wait_drawn(first)
    market.chain.refused(NOT_YET, market.accept_message(first), field="round")
    market.commit(second, market.trace(second, 0))
    market.chain.refused(NOT_YET, market.accept_message(first), field="round")
    market.commit(second, market.trace(second, 1))
    market.chain.ok(market.accept_message(first))
    assert len(market.chain.seen("replicas.awaited")) == len(market.chain.seen("replicas.ready")) == 1


def test_a_leg_that_waits_for_another_does_not_fail() -> None:
    market, orders = run()
    first, second = orders
    commit(market, first)
    deadline = market.leg(first).progress_deadline
    market.chain.pass_until(market.leg(second).progress_deadline + 2)
    assert market.leg(second).state is LegState.FAILED
    assert market.leg(first).state is LegState.RUNNING
    assert market.leg(first).progress_deadline > deadline
    close(market, first)
    market.chain.block()
    assert outcomes(market) == [Comparison.ALONE]
    market.answer_all(first, 0)
    market.settle(first)
    assert CloseReason(market.order(first).close_reason) is CloseReason.SETTLED
    assert CloseReason(market.order(second).close_reason) is CloseReason.FAILED
    assert is_nothing_left(market)


def test_a_validator_that_rejects_a_share_is_the_one_that_is_late() -> None:
    market, orders = run()
    first, second = orders
    commit(market, first)
    share = market.shares(first)[0]
    market.commit(first, reject=[(share.key.ref, int(ShareReason.SEGMENT_MISMATCH))])
    assert not any(True for _ in AWAITING.keys(market.chain.overlay()))
    commit(market, second)
    market.chain.pass_until(market.leg(first).progress_deadline + 2)
    assert market.leg(first).state is LegState.FAILED
    assert market.leg(second).state is LegState.RUNNING


def test_a_share_that_comes_after_roots_are_public_confirms_nothing() -> None:
    """A validator could let a provider commit to anything, and copy the roots of the others in the next issue."""
    market, orders = run()
    first, second = orders
    commit(market, first)
    commit(market, second, "made up")
    market.wait_drawn(first)
    market.chain.ok(*market.close_messages(first))
    made_up = next(share for share in market.shares(second) if share.key.slot == 0)
    copied = market.trace(second, 0, issue=2)
    market.commit(second, copied, reject=[(made_up.key.ref, int(ShareReason.NO_ANSWER))])
    market.chain.block()
    # The first one does not wait for a round that cannot confirm its own.
    assert outcomes(market) == [Comparison.ALONE]
    close(market, second)
    market.chain.block()
    assert market.round(second, 0).late
    assert not market.round(first, 0).late
    assert outcomes(market) == [Comparison.ALONE, Comparison.ALONE]
    for order_id in orders:
        assert market.panel(order_id, 0).wanted


def test_roots_that_only_a_mempool_has_cannot_be_copied() -> None:
    """As soon as all have committed, roots are on their way. A share that comes before them in a block is late, too."""
    market, orders = run()
    first, second = orders
    commit(market, first)
    commit(market, second, "made up")
    market.wait_drawn(first)
    made_up = next(share for share in market.shares(second) if share.key.slot == 0)
    reject = [(made_up.key.ref, int(ShareReason.SEGMENT_MISMATCH))]
    copied = market.commit_message(second, market.trace(second, 0, issue=2), reject=reject)
    market.chain.ok(copied, *market.close_messages(first))
    close(market, second)
    market.chain.block()
    assert market.round(second, 0).late
    assert outcomes(market) == [Comparison.ALONE] * 2


def test_a_validator_that_accepts_as_soon_as_it_may_no_longer_waits() -> None:
    """The last commitment of the others, and its own acceptance and close, are in one block."""
    market, orders = run()
    first, second = orders
    commit(market, first)
    market.wait_drawn(first)
    last = market.commit_message(second, *(market.trace(second, slot) for slot in range(2)))
    market.chain.ok(last, *market.close_messages(first))
    assert not any(True for _ in AWAITING.keys(market.chain.overlay()))
    assert len(market.chain.seen("replicas.awaited")) == len(market.chain.seen("replicas.ready")) == 1


def run_deliveries() -> tuple[DeliveryMarket, list[bytes], list[Trace]]:
    """Return a market in which one replica waits, and can deliver the content of its shares."""
    market = make_market("v0", "v1", kind=DeliveryMarket)
    assert isinstance(market, DeliveryMarket)
    orders = sorted(ids(market.submit(ordered())), key=lambda name: market.leg(name).validator)
    for order_id in orders:
        market.accept(order_id)
    traces = [market.delivered_trace(orders[0], slot) for slot in range(2)]
    market.commit(orders[0], *traces)
    assert any(True for _ in AWAITING.keys(market.chain.overlay()))
    return market, orders, traces


def test_a_shown_key_publishes_roots_so_that_no_replica_waits() -> None:
    market, orders, traces = run_deliveries()
    sent = market.send(orders[0], traces[0])
    market.chain.ok(market.receipt(sent))
    market.chain.ok(market.show_key(sent))
    market.chain.block()
    assert not any(True for _ in AWAITING.keys(market.chain.overlay()))
    commit(market, orders[1])
    assert all(share.late for share in market.shares(orders[1]))


def test_a_replica_whose_delivery_is_found_wrong_no_longer_waits() -> None:
    """Otherwise its validator could have it wait forever, and no deadline would end it."""
    market, orders, traces = run_deliveries()
    sent = spoil(market.send(orders[0], traces[0]), market.content(orders[0], 0))
    market.chain.ok(market.receipt(sent))
    market.chain.ok(market.show_key(sent), market.show_chunk(sent, 0))
    assert not any(True for _ in AWAITING.keys(market.chain.overlay()))
    train(market, orders[1:])
    market.chain.pass_until(market.leg(orders[0]).progress_deadline + 2)
    assert market.leg(orders[0]).state is LegState.FAILED
    assert outcomes(market) == [Comparison.ALONE]


# --- the comparison ------------------------------------------------------------------------------


def test_equal_rounds_confirm_each_other() -> None:
    market, orders = run()
    for round in range(2):
        train(market, orders)
        for order_id in orders:
            market.chain.pass_time(2)
            audit(market, order_id, round)
    assert outcomes(market) == [Comparison.CONFIRMED] * 4
    market.chain.pass_time(market.order(orders[0]).window + 2)
    for order_id in orders:
        market.pass_handover(order_id)
    assert {CloseReason(market.order(order_id).close_reason) for order_id in orders} == {CloseReason.SETTLED}
    assert is_nothing_left(market)


def test_no_round_is_verified_before_it_is_compared() -> None:
    market, orders = run()
    first = orders[0]
    for order_id in orders:
        commit(market, order_id)
    close(market, first)
    market.chain.pass_time(market.order(first).window + 2)
    assert not market.round(first, 0).verified
    assert outcomes(market) == []


def depart(slots: tuple[str, ...] = ("right", "wrong")) -> tuple[Market, list[bytes]]:
    market, orders = run()
    train(market, orders, {orders[1]: slots})
    return market, orders


def test_a_difference_brings_the_place_where_it_begins_before_panels() -> None:
    market, orders = depart()
    wanted = market.chain.seen("trace.wanted")
    assert [event.get("slot") for event in wanted] == ["1", "1"]
    for order_id in orders:
        market.chain.ok(show_message(market, order_id, slot=1))
    market.chain.block()
    assert outcomes(market) == [Comparison.DIFFERENT] * 2
    for order_id in orders:
        panel = market.wait_stage(order_id)
        issue = market.round(order_id, 0).shares[1].issue
        place = AuditPlace(kind=AuditKind.SEGMENT, slot=1, issue=issue, segment=0)
        assert place in [each.place for each in panel.places]
    right, wrong = orders
    at = [each.place.slot for each in market.panel(wrong, 0).places if each.place.kind is AuditKind.SEGMENT].index(1)
    number = [n for n, each in enumerate(market.panel(wrong, 0).places) if each.place.kind is AuditKind.SEGMENT][at]
    market.say_all(wrong, lambda: market.wrong_at(wrong, 0, number))
    market.chain.pass_time(2)
    assert market.round(wrong, 0).void
    market.say(right, dict.fromkeys(market.seated(right), market.answers(right)))
    market.chain.pass_time(market.order(right).window + 2)
    assert market.round(right, 0).verified
    assert is_nothing_left(market)


def test_a_difference_behind_equal_traces_is_in_the_update() -> None:
    market, orders = run()
    right, wrong = orders
    commit(market, right)
    trace = market.trace(wrong, 0)
    roots = replace(trace.roots, update_root=b"u" * 32)
    claim = market.claim(wrong, 0, roots=roots)
    forged = market.trace(wrong, 0, roots=roots)
    key = wrong, claim.leg, claim.round, forged.ref
    market.traces[key] = Trace(forged.signed, roots, forged.leaves)
    market.commit(wrong, market.traces[key], market.trace(wrong, 1))
    for order_id in orders:
        close(market, order_id)
    market.chain.block()
    for order_id in orders:
        market.chain.ok(show_message(market, order_id))
    market.chain.block()
    for order_id in orders:
        kinds = [(each.place.kind, each.place.slot) for each in market.wait_stage(order_id).places]
        assert (AuditKind.UPDATE, 0) in kinds


def test_a_difference_of_aggregations_needs_no_traces() -> None:
    market, orders = run()
    for order_id in orders:
        commit(market, order_id)
    close(market, orders[0])
    close(market, orders[1], next_root=b"n" * 32)
    market.chain.block()
    assert outcomes(market) == [Comparison.DIFFERENT] * 2
    assert market.chain.seen("trace.wanted") == []


def test_a_validator_that_does_not_show_its_trace_is_at_fault() -> None:
    market, orders = depart()
    honest, silent = orders
    market.chain.ok(show_message(market, honest, slot=1))
    market.chain.pass_time(market.order(honest).params.stage_base + 2)
    assert len(market.chain.seen("trace.missing")) == 1
    assert market.round(silent, 0).void
    assert market.round(silent, 0).by_validator
    assert outcomes(market) == [Comparison.ALONE]
    panel = market.wait_stage(honest)
    assert all(place.ruling is Ruling.OPEN for place in panel.places)
    market.say(honest, dict.fromkeys(market.seated(honest), market.answers(honest)))
    market.chain.pass_time(market.order(honest).window + 2)
    assert market.round(honest, 0).verified
    assert is_nothing_left(market)


@pytest.mark.parametrize(("last", "outcome"), [("right", Comparison.CONFIRMED), ("other", Comparison.DIFFERENT)])
def test_a_round_whose_comparison_is_over_shows_no_trace(last: str, outcome: Comparison) -> None:
    """Shares that a provider included in time are not late, whenever their validator commits to them."""
    market = make_market("v0", "v1", kind=InclusionMarket)
    assert isinstance(market, InclusionMarket)
    first, second = sorted(ids(market.submit(ordered())), key=lambda name: market.leg(name).validator)
    for order_id in (first, second):
        market.accept(order_id)
    traces = [market.delivered_trace(first, slot) for slot in range(2)]
    market.commit(first, *traces)
    included = [market.delivered_trace(second, slot, work) for slot, work in enumerate(("right", last))]
    until = market.chain.clock + TASK_SECONDS
    for trace in included:
        claim = trace.claim
        signature = sign_task(claim.key, claim.provider, until, by="v1", multiple=claim.multiple, cover=claim.cover)
        market.chain.ok(market.include(trace, deadline=until, task_signature=signature))
    sent = market.send(first, traces[0])
    market.chain.ok(market.receipt(sent))
    market.chain.ok(market.show_key(sent))
    close(market, first)
    market.chain.block()
    assert outcomes(market) == [Comparison.ALONE]
    audit(market, first)
    market.commit(second, *included)
    assert not any(share.late for share in market.shares(second))
    close(market, second)
    market.chain.pass_time(market.order(second).params.stage_base + 2)
    assert outcomes(market) == [Comparison.ALONE, outcome]
    assert market.chain.seen("trace.wanted") == []
    assert market.chain.seen("trace.missing") == []
    assert not market.round(first, 0).void
    if outcome is Comparison.DIFFERENT:
        assert market.wait_stage(second).seats


def run_long() -> tuple[Market, list[bytes], int]:
    """Return replicas that have closed a round, and the number of a place of the first one's panel: a segment that its
    validator did not have to replay.
    """
    params = local_params().replace(audit_rate_min=10_000, duty_segments=1)
    for blocks in range(10):
        market = make_market("v0", "v1", params=params)
        market.chain.pass_time(blocks)
        orders = ids(market.submit(ordered(terms=make_terms(round_steps=12), deposit=2_000_000)))
        for order_id in orders:
            market.accept(order_id)
        train(market, orders)
        shares = {share.key.slot: share for share in market.shares(orders[0])}
        for number, each in enumerate(market.wait_stage(orders[0]).places):
            place = each.place
            if place.kind is AuditKind.SEGMENT and place.segment not in shares[place.slot].drawn:
                return market, orders, number
    raise AssertionError("no beacon drew such a segment")


def test_a_difference_ends_with_a_round_that_becomes_void() -> None:
    """The next round with its number was not asked to show a trace, so it is not void because there is none."""
    market, orders, number = run_long()
    continued, other = orders
    for stage in (1, 2):
        panel = market.wait_stage(continued, 0, stage)
        if panel.is_last:
            train(market, orders, {other: ("wrong",)})
        wrong = market.wrong_at(continued, 0, number)
        market.say(continued, dict.fromkeys(market.seated(continued, 0, stage), wrong), 0)
    assert [event.get("round") for event in market.chain.seen("trace.wanted")] == ["1", "1"]
    market.chain.pass_time(2)
    assert market.round_of(continued, 1, 1).void
    assert market.leg(continued).number == 2
    if market.all_of(other).wanted:
        market.chain.ok(show_message(market, other, round=1))
    market.chain.pass_time(market.order(other).params.stage_base)
    for _ in range(2):
        market.train_round(continued)
    market.chain.pass_time(2)
    assert market.chain.seen("trace.missing") == []
    assert not market.round_of(continued, 2, 1).void
    assert outcomes(market)[2:] == [Comparison.ALONE] * 3


def test_only_the_leaves_of_the_share_are_taken_and_only_once() -> None:
    market, orders = depart()
    message = show_message(market, orders[0], slot=1)
    other = show_message(market, orders[0], slot=0)
    market.chain.refused(BAD_PROOF, other, field="leaves")
    market.chain.refused(BAD_PROOF, replace(message, leaves=message.leaves[:-1]), field="leaves")
    market.chain.ok(message)
    market.chain.refused(NOT_FOUND, message, field="round")


def test_one_replica_of_three_that_is_wrong_stands_alone() -> None:
    market, orders = run(3)
    train(market, orders, {orders[2]: ("wrong",)})
    for order_id in orders:
        market.chain.ok(show_message(market, order_id))
    market.chain.block()
    assert outcomes(market) == [Comparison.DIFFERENT] * 3
    for order_id in orders:
        places = [each.place for each in market.wait_stage(order_id).places]
        assert (AuditKind.SEGMENT, 0, 0) in [(place.kind, place.slot, place.segment) for place in places]


def test_two_pairs_that_differ_in_one_round_both_show_their_traces() -> None:
    """They started from other states, because they had differed before. Each pair departs at a place of its own."""
    market, orders = run(4)
    works = {orders[2]: ("other",), orders[3]: ("other",)}
    for order_id in orders:
        commit(market, order_id, *works.get(order_id, ()))
    for order_id in orders:
        close(market, order_id, **({"next_root": b"n" * 32} if order_id in works else {}))
    market.chain.block()
    for order_id in orders:
        market.chain.ok(show_message(market, order_id))
    market.chain.block()
    train(market, orders, {orders[1]: ("wrong",), orders[3]: ("right", "wrong")})
    for slot, pair in ((0, orders[:2]), (1, orders[2:])):
        for order_id in pair:
            market.chain.ok(show_message(market, order_id, slot=slot, round=1))
        market.chain.block()
    assert outcomes(market)[-4:] == [Comparison.DIFFERENT] * 4


def test_without_a_dispute_panels_are_drawn_as_rarely_as_in_sampled() -> None:
    """Over many rounds, some have a panel and some have none; those without are paid without an audit fee."""
    market = make_market("v0", "v1")
    terms = replace(submit().terms, rounds=12)
    orders = ids(market.submit(ordered(terms=terms, deposit=10**8, deadline=100_000)))
    for order_id in orders:
        market.accept(order_id)
    for round in range(12):
        train(market, orders)
        for order_id in orders:
            market.chain.pass_time(3)
            audit(market, order_id, round)
        market.chain.pass_time(market.order(orders[0]).window + 2)
    assert set(outcomes(market)) == {Comparison.CONFIRMED}
    skipped = len(market.chain.seen("panel.skipped"))
    assert 0 < skipped < 24
