"""Panels of closed rounds: who sits, stages, what is decided, what it costs, and what follows."""

from dataclasses import replace

import pytest

from chain.state_machine.ledger.tables import POTS, SUPPLY
from chain.state_machine.proof.tables import SHARES
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.store import Overlay
from domain.ledger.records import BondKind
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.params import local_params
from domain.proof.queries import PanelDutiesRequest, PanelRequest, SeatsRequest
from domain.proof.records import AuditKind, Ruling, SeatAnswer
from domain.registry.messages import MsgAdmitProvider, MsgRegisterProvider
from tests.support.chain_harness import COINS
from tests.support.chain_market import BOND, Market, digest, make_terms, submit
from tests.support.rewards import from_orders, taxes
from tests.support.stakes import cut, stake_of

STAKE = 10**10
FEE = 100
SEGMENT, UPDATE, AGGREGATION = 20_000, 2_000, 4_000
COST = 2 * SEGMENT + UPDATE + AGGREGATION
"""Of all places of the default job's rounds: two segments of the four, an update, the aggregation."""
FLOOR = 2 * (COST + FEE)


def closed_round(market: Market) -> bytes:
    """An order with one closed round and its first seats drawn; it is not matched again."""
    order_id = market.run(submit(rematch=False))
    market.train_round(order_id)
    market.wait_stage(order_id)
    return order_id


def stake(market: Market, name: str) -> int:
    return VALIDATORS.must(market.chain.overlay(), name).stake


def lost(market: Market, name: str) -> int:
    return STAKE - stake(market, name)


def elsewhere(answers: tuple[SeatAnswer, ...], *numbers: int) -> tuple[SeatAnswer, ...]:
    """Answers with another root at some places."""
    return tuple(
        replace(
            answer,
            root=digest("elsewhere"),
            digest=digest("other work"),
            earlier=(digest("other work"),) * len(answer.earlier),
        )
        if answer.place in numbers
        else answer
        for answer in answers
    )


def number_of(market: Market, order_id: bytes, kind: AuditKind) -> int:
    places = market.panel(order_id, 0).places
    return next(at for at, place in enumerate(places) if place.place.kind is kind)


def rulings(market: Market, order_id: bytes, round: int = 0) -> list[Ruling]:
    return [place.ruling for place in market.panel(order_id, round).places]


# --- who sits ------------------------------------------------------------------------------------


def test_seats_are_drawn_from_later_blocks_among_those_who_are_no_party() -> None:
    market = Market(validators=6)
    market.chain.ok(MsgRegisterProvider("v1", "v0"), MsgAdmitProvider("v0", "v1"))
    order_id = market.run(submit("v2"))
    market.train_round(order_id)
    assert market.panel(order_id, 0).stage == 0
    panel = market.wait_stage(order_id)
    assert len(market.seated(order_id)) == 2
    assert set(market.seated(order_id)) <= {"v3", "v4", "v5"}
    clock = market.chain.clock
    assert (panel.commits_end, panel.reveals_end) == (clock + 61, clock + 121)
    opened = market.chain.seen("panel.stage")[-1]
    assert opened.get("seats") == ",".join(market.seated(order_id))


def test_the_jailed_have_no_seat_and_neither_has_whoever_left_the_set() -> None:
    market = Market(validators=5)

    def change(overlay: Overlay) -> None:
        VALIDATORS.update(overlay, "v2", jailed=True)
        VALIDATORS.update(overlay, "v3", stake=10**6 - 1)

    market.chain.checked = False
    market.chain.change(change)
    order_id = closed_round(market)
    assert sorted(market.seated(order_id)) == ["v1", "v4"]


def test_who_promises_too_little_for_the_order_has_no_seat() -> None:
    market = Market(validators=6)
    market.chain.change(
        lambda overlay: (
            VALIDATORS.update(overlay, "v4", audit_speed=10**7),
            VALIDATORS.update(overlay, "v5", audit_rate=10**4),
        )
    )
    # Of six, five have more than three quarters of the stake, so that one of the slow would have to be waited for.
    slow = market.run()
    assert market.order(slow).window > 10
    market = Market(validators=8)
    market.chain.change(lambda overlay: VALIDATORS.update(overlay, "v4", audit_speed=10**4))
    order_id = market.run()
    market.train_round(order_id)
    market.say_all(order_id, lambda: market.unavailable(order_id), leaves=lambda: ())
    assert sorted(market.seated(order_id)) == ["v1", "v2", "v3", "v5", "v6", "v7"]


def test_who_promises_less_after_an_order_keeps_its_seats_in_it() -> None:
    """One silence used to end all seats of a validator in orders under way; an accomplice was the only one left."""
    market = Market(validators=6)
    order_id = market.run()
    market.chain.change(lambda overlay: VALIDATORS.update(overlay, "v4", audit_speed=10**4))
    market.train_round(order_id)
    market.say_all(order_id, lambda: market.unavailable(order_id), leaves=lambda: ())
    assert "v4" in market.seated(order_id)


def test_if_too_few_of_those_are_left_others_that_are_able_now_are_added() -> None:
    market = Market(validators=6)
    market.chain.change(lambda overlay: VALIDATORS.update(overlay, "v5", audit_speed=10**4))
    order_id = market.run()

    def change(overlay: Overlay) -> None:
        VALIDATORS.update(overlay, "v5", audit_speed=10**10)
        for name in ("v1", "v2"):
            VALIDATORS.update(overlay, name, jailed=True)

    market.chain.checked = False
    market.chain.change(change)
    market.train_round(order_id)
    market.say_all(order_id, lambda: market.unavailable(order_id), leaves=lambda: ())
    assert sorted(market.seated(order_id)) == ["v3", "v4", "v5"]


def test_the_places_are_the_aggregation_an_update_two_segments_and_a_chunk() -> None:
    """The aggregation is the model; among uniform places it was drawn in one round of many (B8)."""
    market = Market()
    order_id = closed_round(market)
    kinds = [place.place.kind for place in market.panel(order_id, 0).places]
    assert kinds == [
        AuditKind.AGGREGATION,
        AuditKind.UPDATE,
        AuditKind.SEGMENT,
        AuditKind.SEGMENT,
        AuditKind.HANDOVER,
    ]
    claims = [place.claim for place in market.panel(order_id, 0).places]
    assert claims[0] == market.round(order_id, 0).next_root
    assert claims[2:] == [b"", b"", market.round(order_id, 0).ciphertext_root]


def test_duties_show_what_is_to_do_and_nothing_else() -> None:
    market = Market()
    order_id = closed_round(market)
    first, second = market.seated(order_id)
    panel = market.panel(order_id, 0)
    (duty,) = market.chain.ask(PanelDutiesRequest(first)).duties
    assert (duty.key, duty.stage, duty.seed) == (panel.key, 1, panel.seed)
    assert [item.place for item in duty.places] == [place.place for place in panel.places]
    assert (duty.commits_end, duty.reveals_end) == (panel.commits_end, panel.reveals_end)
    assert duty.commitment == b""
    right = market.answers(order_id)
    market.chain.ok(market.commit_answer(order_id, 0, first, right))
    (duty,) = market.chain.ask(PanelDutiesRequest(first)).duties
    assert duty.commitment
    behind = PanelDutiesRequest(first, 0, duty.order_id, duty.leg, duty.round)
    assert market.chain.ask(behind).duties == ()
    market.chain.ok(market.commit_answer(order_id, 0, second, right))
    market.chain.ok(market.reveal_answer(order_id, 0, first, right))
    assert market.chain.ask(PanelDutiesRequest(first)).duties == ()
    assert len(market.chain.ask(PanelDutiesRequest(second)).duties) == 1
    found = market.chain.ask(PanelRequest(order_id, 1, 0, 0, 1))
    assert (found.validator, found.round) == ("v0", market.round(order_id, 0))
    assert [share.claim.slot for share in found.shares] == [1]
    assert [s.number for s in market.chain.ask(SeatsRequest(order_id, 1, 0, 0, 1)).seats] == [1]


# --- what verifies -------------------------------------------------------------------------------


def test_a_round_waits_for_its_window_its_panel_and_the_round_before() -> None:
    params = local_params().replace(round_window=100, progress_base=300)
    market = Market(params, validators=6)
    order_id = market.run()
    market.train_round(order_id)
    market.wait_stage(order_id)
    market.train_round(order_id)
    market.answer_all(order_id, 1)
    first, _ = market.seated(order_id)
    right = market.answers(order_id)
    market.say(order_id, {first: right})
    ends = market.round(order_id, 1).window_ends
    market.chain.pass_until(market.panel(order_id, 0).reveals_end)
    market.wait_stage(order_id, stage=2)
    right = market.answers(order_id)
    (third,) = market.seated(order_id, stage=2)
    market.say(order_id, {third: right})
    assert market.panel(order_id, 0).is_decided
    assert market.chain.clock < ends
    market.chain.pass_until(ends - 1)
    assert market.panel(order_id, 1).is_decided
    assert market.round(order_id, 0).verified  # its own window is over
    assert not market.round(order_id, 1).verified
    market.chain.block()
    assert market.round(order_id, 0).verified
    assert market.round(order_id, 1).verified
    numbers = [event.get("round") for event in market.chain.seen("round.verified")]
    assert numbers == ["0", "1"]


@pytest.mark.parametrize("window", [1, 10, 60])
def test_who_answers_in_the_last_second_of_a_stage_is_in_time_however_short_the_window(
    window: int,
) -> None:
    """A busy machine: the round waits for its stage, is paid when that ends, and nobody loses anything."""
    market = Market(local_params().replace(round_window=window, progress_base=300), validators=6)
    order_id = closed_round(market)
    right = market.answers(order_id)
    ends = market.panel(order_id, 0).commits_end
    assert market.round(order_id, 0).window_ends < ends
    seats = market.seated(order_id)
    market.chain.pass_until(ends - 2)
    market.chain.ok(*(market.commit_answer(order_id, 0, name, right) for name in seats))
    assert not market.round(order_id, 0).verified
    market.chain.pass_until(market.panel(order_id, 0).reveals_end - 2)
    leaves = market.leaves(order_id)
    market.chain.ok(*(market.reveal_answer(order_id, 0, name, right, leaves=leaves) for name in seats))
    assert market.round(order_id, 0).verified
    assert [lost(market, name) for name in market.validators] == [0] * 6


def test_a_stage_ends_as_soon_as_all_have_acted() -> None:
    market = Market(local_params().replace(round_window=40))
    order_id = closed_round(market)
    right = market.answers(order_id)
    began = market.chain.clock
    market.answer_all(order_id, 0)
    assert market.panel(order_id, 0).is_decided
    assert market.chain.clock <= began + 2
    assert right


def test_one_accomplice_verifies_nothing_where_the_honest_are_kept_busy() -> None:
    """B2: one answer was enough, and it collected what the silent had lost."""
    market = Market(local_params().replace(progress_base=600), validators=8)
    order_id = closed_round(market)
    accomplice = market.seated(order_id)[0]
    lie = elsewhere(market.answers(order_id), 0)
    market.say(order_id, {accomplice: lie})
    for stage in (2, 3, 4):
        market.wait_stage(order_id, stage=stage)
        market.say(order_id, {})
    market.chain.block()
    assert Ruling.RIGHT not in rulings(market, order_id)
    assert market.round(order_id, 0).void
    assert market.order(order_id).work_verified == 0
    assert market.chain.worth(accomplice) == COINS - BOND
    burnt = POTS.get(market.chain.overlay(), "burnt")
    assert burnt == sum(lost(market, name) for name in market.validators) > 0


def test_an_accomplice_whose_answer_is_the_chains_does_not_verify_alone_either() -> None:
    market = Market(validators=8)
    order_id = closed_round(market)
    right = market.answers(order_id)
    market.say(order_id, {market.seated(order_id)[0]: right})
    assert rulings(market, order_id) == [Ruling.OPEN] * 5
    for stage in (2, 3, 4):
        market.wait_stage(order_id, stage=stage)
        market.say(order_id, {})
    assert rulings(market, order_id) == [Ruling.UNDECIDED] * 5
    assert not market.round(order_id, 0).verified


def test_the_silent_are_replaced_and_pay_for_it() -> None:
    market = Market(validators=6)
    order_id = closed_round(market)
    first, silent = market.seated(order_id)
    market.say(order_id, {first: market.answers(order_id)})
    market.chain.pass_until(market.panel(order_id, 0).reveals_end)
    assert lost(market, silent) == COST + FEE
    told = market.chain.seen("panel.silent")[-1]
    assert (told.get("auditor"), told.get("cut")) == (silent, str(COST + FEE))
    known = VALIDATORS.must(market.chain.overlay(), silent)
    assert (known.audit_speed, known.audit_rate, known.audits_missed) == (10**10, 10**9, 1)
    market.wait_stage(order_id, stage=2)
    (third,) = market.seated(order_id, stage=2)
    worth = {name: market.chain.worth(name) for name in (first, silent, third)}
    community = from_orders(market.chain)
    burnt = POTS.get(market.chain.overlay(), "burnt")
    market.say(order_id, {third: market.answers(order_id)})
    assert rulings(market, order_id) == [Ruling.RIGHT] * 5
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified
    assert market.chain.worth(first) == worth[first] + COST + FEE
    assert market.chain.worth(third) == worth[third] + COST + FEE
    assert market.chain.worth(silent) == worth[silent]
    # The added seat is paid by the silent one: of the fee only the first seat's part is earned.
    overlay = market.chain.overlay()
    assert from_orders(market.chain) == community + 800 + FLOOR - (COST + FEE)
    assert POTS.get(overlay, "burnt") == burnt


@pytest.mark.parametrize(("wait", "halved"), [(0, True), (600, False)])
def test_the_second_silence_in_a_row_halves_a_promise(wait: int, *, halved: bool) -> None:
    params = local_params().replace(progress_base=900, promise_wait=300)
    market = Market(params, validators=3)
    for number in range(2):
        order_id = closed_round(market)
        market.say(order_id, {"v1": market.answers(order_id)})
        market.chain.pass_until(market.panel(order_id, 0).reveals_end)
        speed = VALIDATORS.must(market.chain.overlay(), "v2").audit_speed
        assert speed == (10**10 // 2 if number and halved else 10**10)
        market.chain.pass_time(wait)


def test_a_stage_without_half_of_its_seats_is_repeated_once_and_costs_nothing() -> None:
    """An outage of seconds used to cost every seat of the chain three times its places, and half its promise."""
    market = Market(validators=8)
    order_id = closed_round(market)
    seats = market.seated(order_id)
    market.say(order_id, {})
    market.wait_stage(order_id, stage=2)
    assert market.seated(order_id) == market.seated(order_id, stage=2) == seats
    assert [lost(market, name) for name in market.validators] == [0] * 8
    assert market.panel(order_id, 0).was_repeated
    before = {name: market.chain.worth(name) for name in seats}
    market.say(order_id, dict.fromkeys(seats, market.answers(order_id)))
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified
    assert {name: market.chain.worth(name) for name in seats} == {n: w + COST + FEE for n, w in before.items()}


def test_after_a_second_stage_without_half_of_its_seats_all_that_are_left_vote() -> None:
    market = Market(validators=8)
    order_id = closed_round(market)
    silent = market.seated(order_id)
    market.say(order_id, {})
    market.wait_stage(order_id, stage=2)
    market.say(order_id, {})
    panel = market.wait_stage(order_id, stage=3)
    assert panel.is_last
    assert len(market.seated(order_id, stage=3)) == 5
    assert [lost(market, name) for name in silent] == [COST + FEE] * 2
    market.say(order_id, dict.fromkeys(market.seated(order_id, stage=3), market.answers(order_id)))
    assert rulings(market, order_id) == [Ruling.RIGHT] * 5


def test_nobody_reaches_another_seats_pay_by_silencing_it() -> None:
    """What the silent lose pays an added seat's cost at most; the rest is burnt."""
    market = Market(validators=8)
    order_id = closed_round(market)
    market.say(order_id, {})
    market.wait_stage(order_id, stage=2)
    market.say(order_id, {})
    market.wait_stage(order_id, stage=3)
    right = market.answers(order_id)
    before = {name: market.chain.worth(name) for name in market.seated(order_id, stage=3)}
    market.say(order_id, dict.fromkeys(before, right))
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified
    # The fee and the cuts pay four of the five; the pool has only what the round and fees paid into it.
    earned = [market.chain.worth(name) - worth for name, worth in before.items()]
    least, *others = sorted(earned)
    assert others == [COST + FEE] * 4
    assert 800 <= least <= 800 + taxes(market.chain) < COST


def test_one_that_differs_meets_twice_as_many_and_loses() -> None:
    market = Market(validators=8)
    order_id = closed_round(market)
    liar, honest = market.seated(order_id)
    right = market.answers(order_id)
    market.say(order_id, {liar: elsewhere(right, 0), honest: right})
    assert rulings(market, order_id) == [Ruling.OPEN, *[Ruling.RIGHT] * 4]
    market.wait_stage(order_id, stage=2)
    assert market.panel(order_id, 0).undecided == (0,)
    assert len(market.seated(order_id, stage=2)) == 4
    worth = market.chain.worth(honest)
    market.say(order_id, dict.fromkeys(market.seated(order_id, stage=2), market.answers(order_id)))
    assert rulings(market, order_id) == [Ruling.RIGHT] * 5
    assert [place.stage for place in market.panel(order_id, 0).places] == [2, *[1] * 4]
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    # At least the price of the round, divided by the auditors.
    assert lost(market, liar) == 80_000 // 2
    assert market.chain.worth(honest) == worth + COST + FEE
    assert market.chain.seen("panel.differed")[-1].get("auditor") == liar


def test_the_root_without_the_work_is_another_answer() -> None:
    """A root stands in the trace; the digest does not."""
    market = Market(validators=8)
    order_id = closed_round(market)
    lazy, honest = market.seated(order_id)
    right = market.answers(order_id)
    read = tuple(replace(answer, digest=digest("made up")) for answer in right)
    market.say(order_id, {lazy: read, honest: right})
    assert rulings(market, order_id) == [Ruling.OPEN] * 5
    market.wait_stage(order_id, stage=2)
    market.say(order_id, dict.fromkeys(market.seated(order_id, stage=2), market.answers(order_id)))
    assert rulings(market, order_id) == [Ruling.RIGHT] * 5
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    # The seats of the second stage tell which one of the two computed.
    amounts = {e.get("auditor"): int(e.get("paid")) for e in market.chain.seen("panel.paid")}
    assert amounts[honest] == COST + FEE
    assert lazy not in amounts
    assert lost(market, lazy) == 3 * (COST + FEE)


def test_in_a_set_of_four_all_three_strangers_may_have_to_sit() -> None:
    market = Market()
    order_id = closed_round(market)
    first, second = market.seated(order_id)
    right = market.answers(order_id)
    market.say(order_id, {first: right, second: elsewhere(right, 0)})
    market.wait_stage(order_id, stage=2)
    assert market.panel(order_id, 0).is_last
    (third,) = market.seated(order_id, stage=2)
    market.say(order_id, {third: market.answers(order_id)})
    assert rulings(market, order_id) == [Ruling.RIGHT] * 5


def test_without_anybody_who_could_sit_a_round_is_void_and_nobody_is_at_fault() -> None:
    market = Market(validators=3)
    order_id = market.run()

    def leave(overlay: Overlay) -> None:
        for name in ("v1", "v2"):
            VALIDATORS.update(overlay, name, jailed=True)

    market.chain.change(leave)
    market.train_round(order_id)
    market.wait_stage(order_id)
    market.chain.block()
    assert market.round(order_id, 0).void
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.UNDECIDED
    assert [lost(market, name) for name in market.validators] == [0, 0, 0]


def test_without_auditors_the_window_alone_verifies() -> None:
    market = Market(local_params().replace(auditors=0))
    order_id = market.run()
    market.train_round(order_id)
    ends = market.round(order_id, 0).window_ends
    market.chain.pass_until(ends - 1)
    assert not market.round(order_id, 0).verified
    market.chain.block()
    assert market.round(order_id, 0).verified
    assert market.all_of(order_id).panels == ()


def test_a_stake_that_is_gone_is_cut_no_further() -> None:
    market = Market(local_params().replace(seat_cut_max_bps=10_000), validators=6, stake=2 * 10**6)
    order_id = closed_round(market)
    silent, other = market.seated(order_id)

    cut(market.chain, silent, 2 * 10**6 - 100)
    market.say(order_id, {other: market.answers(order_id)})
    market.wait_stage(order_id, stage=2)
    assert stake_of(market.chain, silent).tokens == 0


# --- what is not the chain's ---------------------------------------------------------------------


def test_a_wrong_aggregation_costs_the_job_bond_and_the_order_opens_again() -> None:
    market = Market(bidders=("v0", "v1"), validators=6)
    order_id = market.run()
    winner = market.leg(order_id).validator
    bond = market.leg(order_id).job_bond
    market.commit(order_id, *market.traces_of_round(order_id))
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id, next_root=digest("foreign model")))
    market.wait_stage(order_id)
    market.say_all(order_id, lambda: market.answers(order_id))
    (first,) = [a for a in market.all_of(order_id).legs if a.number == 1]
    assert first.end_reason == LegEnd.WRONG_ROUND
    assert market.round_of(order_id, 1, 0).void
    assert market.chain.bond(winner) == BOND - bond
    assert winner in market.order(order_id).excluded
    market.chain.block()
    assert market.order(order_id).state in (OrderState.OPEN, OrderState.MATCHED)
    paid = [p for p in market.all_of(order_id).payments if p.kind == "compensation"]
    # Seats come first: the bond of 16,000 is theirs, and the consumer has paid nothing yet.
    assert sum(p.amount for p in paid) == bond
    assert {p.to for p in paid} <= set(market.first_seats(order_id))


def test_a_wrong_segment_outside_the_duty_costs_its_provider_alone() -> None:
    market, order_id, provider, number = wrong_segment(outside=True)
    market.say_all(order_id, lambda: elsewhere(market.answers(order_id), number))
    assert market.round_of(order_id, 1, 0).void
    leg = market.all_of(order_id).legs[0]
    assert leg.end_reason == LegEnd.WRONG_SHARE
    assert market.chain.seen("share.wrong")[-1].get("provider") == provider
    # The job bond returned, and is locked again: the validator continues.
    second = market.leg(order_id)
    assert (second.number, second.validator, second.state) == (2, "v0", LegState.RUNNING)
    assert second.job_bond == leg.job_bond
    assert market.chain.bond("v0") == BOND - second.job_bond
    others = {p for p in market.clusters["v0"] if p != provider}
    assert market.chain.bond(provider) < BOND
    # The next leg takes over the share of the other slot with its bond.
    kept = {row.owner: row.leg for row in market.all_of(order_id).escrow.bonds if row.kind is BondKind.SHARE}
    assert all(market.chain.bond(name) == BOND for name in others - kept.keys())
    assert set(kept.values()) <= {2}


def test_a_wrong_segment_inside_the_duty_costs_the_validator() -> None:
    market, order_id, provider, number = wrong_segment(outside=False)
    market.say_all(order_id, lambda: elsewhere(market.answers(order_id), number))
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.WRONG_ROUND
    assert market.chain.bond("v0") < BOND
    assert market.chain.bond(provider) == BOND


def wrong_segment(*, outside: bool) -> tuple[Market, bytes, str, int]:
    """Return a round whose panel has a segment in or outside its validator's duty, with its provider and the place."""
    for blocks in range(10):
        market = Market(local_params().replace(duty_segments=1), validators=6)
        for _ in range(blocks):
            market.chain.block()
        terms = make_terms(round_steps=12)
        order_id = market.run(submit(terms=terms, deposit=2_000_000, rematch=False))
        market.train_round(order_id)
        market.wait_stage(order_id)
        for number, place in enumerate(market.panel(order_id, 0).places):
            where = place.place
            if where.kind is AuditKind.SEGMENT:
                key = market.panel(order_id, 0).round_key.share(where.slot, where.issue)
                share = SHARES.must(market.chain.overlay(), *key)
                if (where.segment not in share.drawn) == outside:
                    return market, order_id, share.claim.provider, number
    raise AssertionError("no beacon drew such a segment")


def test_a_leaf_that_was_shown_to_one_seat_does_for_all() -> None:
    """A winner who serves leaves to one seat alone gains nothing: the place is decided all the same."""
    market = Market(validators=6)
    order_id = closed_round(market)
    first, second = market.seated(order_id)
    right = market.answers(order_id)
    market.chain.ok(
        market.commit_answer(order_id, 0, first, right),
        market.commit_answer(order_id, 0, second, right),
    )
    market.chain.ok(
        market.reveal_answer(order_id, 0, first, right),
        market.reveal_answer(order_id, 0, second, right, leaves=()),
    )
    assert rulings(market, order_id) == [Ruling.RIGHT] * 5


def test_a_segment_whose_leaf_nobody_was_given_is_its_validators_fault() -> None:
    market = Market(validators=6)
    order_id = closed_round(market)
    market.say_all(order_id, lambda: market.answers(order_id), leaves=lambda: ())
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.WRONG_ROUND
    assert market.chain.bond("v0") < BOND
    assert all(market.chain.bond(name) == BOND for name in market.clusters["v0"])


def test_a_leaf_that_is_withheld_never_costs_the_provider() -> None:
    """A validator that serves states and no leaves would have the honest recompute a root that nobody can compare."""
    market, order_id, provider, number = wrong_segment(outside=True)
    market.say_all(
        order_id,
        lambda: market.answers(order_id),
        leaves=lambda: tuple(leaf for leaf in market.leaves(order_id) if leaf.place != number),
    )
    assert rulings(market, order_id)[number] is Ruling.WRONG
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.WRONG_ROUND
    assert market.chain.bond(provider) == BOND
    assert market.chain.bond("v0") < BOND


def test_a_void_round_takes_nothing_from_the_pool() -> None:
    """The consumer chooses the price limit, and so what a place costs: with a winner of its own it drew any sum."""
    market = Market(local_params().replace(job_bond_bps=0, payload_fee=0), validators=6)
    order_id = closed_round(market)
    assert from_orders(market.chain) == 0
    rich = 10**9

    def fill(overlay: Overlay) -> None:
        POTS.set(overlay, POTS.get(overlay, "community") + rich, "community")
        SUPPLY.set(overlay, SUPPLY.get(overlay) + rich)

    market.chain.change(fill)
    before = [market.chain.worth(name) for name in market.validators]
    market.fault_round(order_id)
    assert market.round_of(order_id, 1, 0).void
    assert from_orders(market.chain) == rich
    assert [market.chain.worth(name) for name in market.validators] == before


def test_what_was_not_served_is_the_validators_fault() -> None:
    market = Market(validators=6)
    order_id = closed_round(market)
    market.fault_round(order_id)
    assert rulings(market, order_id) == [Ruling.WRONG] * 5
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.WRONG_ROUND
    assert market.chain.bond("v0") < BOND


def test_one_that_says_unavailable_alone_is_outvoted_and_earns_nothing() -> None:
    """The seat may be right: a winner that serves some seats only used to cost the others three times the places."""
    market = Market(validators=8)
    order_id = closed_round(market)
    liar, honest = market.seated(order_id)
    market.say(order_id, {liar: market.unavailable(order_id), honest: market.answers(order_id)})
    market.wait_stage(order_id, stage=2)
    right = market.answers(order_id)
    market.say(order_id, dict.fromkeys(market.seated(order_id, stage=2), right))
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified
    assert lost(market, liar) == 0
    assert liar not in {event.get("auditor") for event in market.chain.seen("panel.paid")}


def test_rounds_behind_a_void_one_are_void_and_nobody_recomputes_them() -> None:
    market = Market(local_params().replace(round_window=40), validators=8)
    order_id = market.run(submit(terms=make_terms(rounds=3), deposit=600_000))
    market.train_round(order_id)
    market.train_round(order_id)
    market.wait_stage(order_id, 1)
    market.fault_round(order_id)
    assert market.round_of(order_id, 1, 0).void
    assert market.round_of(order_id, 1, 1).void
    for name in market.validators:
        assert market.chain.ask(PanelDutiesRequest(name)).duties == ()
    assert [event.get("round") for event in market.chain.seen("round.void")] == ["0", "1"]
    stakes = [stake(market, name) for name in market.validators]
    market.chain.pass_time(25)
    assert [stake(market, name) for name in market.validators] == stakes


def test_panels_of_two_rounds_that_rule_in_one_block_make_the_second_round_void_once() -> None:
    """The first panel makes the second round void in a step of its own, before which the second panel has its turn."""
    params = local_params().replace(
        stage_base=60, round_window=900, window_max=3_600, progress_base=900, audit_room_bps=100_000
    )
    market = Market(params, validators=8)
    order_id = market.run(submit(terms=make_terms(rounds=3), deposit=600_000))
    market.train_round(order_id)
    market.train_round(order_id)
    at = number_of(market, order_id, AuditKind.AGGREGATION)
    for stage in (1, 2):
        for number in (0, 1):
            market.wait_stage(order_id, number, stage)
        seated = [(number, name) for number in (0, 1) for name in market.seated(order_id, number, stage)]
        said = [elsewhere(market.answers(order_id, number), at) for number in (0, 1)]
        market.chain.ok(*(market.commit_answer(order_id, number, name, said[number]) for number, name in seated))
        market.chain.ok(*(market.reveal_answer(order_id, number, name, said[number]) for number, name in seated))
    market.chain.pass_until(max(market.panel(order_id, number).appeal_until for number in (0, 1)))
    market.chain.block()
    assert [event.get("round") for event in market.chain.seen("round.void")] == ["0", "1"]
    assert market.all_of(order_id).legs[0].void == 2


def test_an_leg_ends_only_when_every_round_before_a_void_one_is_decided_too() -> None:
    """Rounds have panels of their own: a later one may be found wrong first, and one between is still open."""
    params = local_params().replace(round_window=200, progress_base=300)
    market = Market(params, validators=8)
    order_id = market.run(submit(terms=make_terms(rounds=3), deposit=600_000, rematch=False))
    for _ in range(3):
        market.train_round(order_id)
    market.fault_round(order_id, 2)
    assert market.round_of(order_id, 1, 2).void
    assert market.order(order_id).state is not OrderState.CLOSED
    market.fault_round(order_id, 0)
    market.chain.block()
    assert [market.round_of(order_id, 1, number).void for number in range(3)] == [True] * 3
    market.pass_stands(order_id)
    assert market.order(order_id).close_reason == CloseReason.FAILED
    assert market.chain.ask(PanelDutiesRequest("v1")).duties == ()


def test_what_the_consumer_lost_is_compensated_once() -> None:
    """Two rounds of a leg that are found wrong one after the other would else both pay for the same loss."""
    market, order_id, number = wrong_after_paid()
    paid = market.all_of(order_id).escrow.depositors[0].paid
    market.fault_round(order_id, 3)
    bonds = market.all_of(order_id).payments
    market.say_all(order_id, lambda: elsewhere(market.answers(order_id, 1), number), 1)
    assert market.chain.seen("share.wrong")
    payments = market.all_of(order_id).payments
    assert any(payment.kind == "compensation" for payment in payments[len(bonds) :])
    compensated = [p.amount for p in payments if (p.kind, p.to) == ("compensation", "carol")]
    assert sum(compensated) <= paid + market.chain.fees["carol"]


def wrong_after_paid() -> tuple[Market, bytes, int]:
    """Return a proven order with one round verified, and a place of the next one outside its validator's duty."""
    params = local_params().replace(
        round_window=200,
        progress_base=300,
        job_bond_bps=10_000,
        duty_segments=1,
        audit_segments=1,
    )
    for blocks in range(10):
        market = Market(params, validators=8)
        for _ in range(blocks):
            market.chain.block()
        terms = make_terms(rounds=4, round_steps=60)
        order_id = market.run(submit(terms=terms, deposit=20_000_000, rematch=False))
        market.train_round(order_id)
        market.answer_all(order_id, 0)
        market.chain.pass_until(market.round(order_id, 0).window_ends)
        for _ in range(3):
            market.train_round(order_id)
        for number, place in enumerate(market.wait_stage(order_id, 1).places):
            where, key = place.place, market.panel(order_id, 1).round_key
            if where.kind is AuditKind.SEGMENT:
                share = SHARES.must(market.chain.overlay(), *key.share(where.slot, where.issue))
                if where.segment not in share.drawn:
                    return market, order_id, number
    raise AssertionError("no beacon drew such a segment")


def test_a_void_round_fails_the_leg_of_a_proven_order_at_once() -> None:
    params = local_params().replace(progress_base=300, round_window=200)
    market = Market(params, validators=6)
    order_id = market.run(submit(rematch=False))
    market.train_round(order_id)
    market.train_round(order_id)
    market.fault_round(order_id)
    market.chain.block()
    assert market.leg(order_id).end_reason == LegEnd.WRONG_ROUND
    assert market.chain.bond("v0") < BOND
    assert market.chain.bond("v0p0") == BOND
    market.pass_stands(order_id)
    order = market.order(order_id)
    assert (order.state, order.close_reason) == (OrderState.CLOSED, CloseReason.FAILED)
    assert market.chain.ask(PanelDutiesRequest("v1")).duties == ()


def test_an_undecided_round_costs_neither_side_anything() -> None:
    market = Market(validators=6)
    order_id = market.run(submit(rematch=False))
    market.train_round(order_id)
    fee = COINS - market.chain.worth("carol") - 400_000
    market.wait_stage(order_id)
    while market.panel(order_id, 0).places[0].ruling is Ruling.OPEN:
        stage = market.panel(order_id, 0).stage
        seats = market.seated(order_id, stage=stage)
        right = market.answers(order_id)
        mine = [replace(right[0], root=digest("of", name)) for name in seats]
        said = {name: (own, *right[1:]) for name, own in zip(seats, mine, strict=True)}
        market.say(order_id, said)
        if market.panel(order_id, 0).places[0].ruling is Ruling.OPEN:
            market.wait_stage(order_id, stage=stage + 1)
    assert market.panel(order_id, 0).places[0].ruling is Ruling.UNDECIDED
    market.chain.block()
    order = market.order(order_id)
    assert (order.state, order.close_reason) == (OrderState.CLOSED, CloseReason.UNVERIFIED)
    assert market.chain.bond("v0") == market.chain.bond("v0p0") == BOND
    assert market.chain.worth("carol") == COINS - fee
    assert [lost(market, name) for name in market.validators] == [0] * 6


# --- how far ahead -------------------------------------------------------------------------------


def test_only_so_many_rounds_are_closed_and_not_verified_and_waiting_fails_nobody() -> None:
    from domain.errors import NOT_YET

    params = local_params().replace(rounds_ahead=1, round_window=60, progress_base=5)
    market = Market(params, validators=6)
    order_id = market.run()
    market.train_round(order_id)
    market.answer_all(order_id, 0)
    market.commit(order_id, *market.traces_of_round(order_id))
    market.wait_drawn(order_id)
    market.chain.refused(NOT_YET, market.chain.tx(*market.close_messages(order_id)))
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified
    assert market.order(order_id).state is OrderState.RUNNING
    deadline = market.leg(order_id).progress_deadline
    assert deadline == market.chain.clock + 5 + 3
    market.chain.ok(*market.close_messages(order_id))


@pytest.mark.parametrize("shown", [True, False])
def test_leaves_are_checked_against_the_accepted_trace(shown: bool) -> None:
    from domain.errors import BAD_PROOF

    market = Market(validators=6)
    order_id = closed_round(market)
    seats, right = market.seated(order_id), market.answers(order_id)
    market.chain.ok(*(market.commit_answer(order_id, 0, name, right) for name in seats))
    leaves = market.leaves(order_id)
    other = replace(leaves[0].leaf, boundary_root=digest("mine"))
    bad = (replace(leaves[0], leaf=other), *leaves[1:])
    if shown:
        market.chain.ok(
            market.reveal_answer(order_id, 0, seats[0], right),
            market.reveal_answer(order_id, 0, seats[1], right, leaves=bad),
        )
    else:
        message = market.reveal_answer(order_id, 0, seats[0], right, leaves=bad)
        market.chain.refused(BAD_PROOF, message)
