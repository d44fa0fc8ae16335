"""A ruling of seats that were drawn by lot can be appealed before any money moves, and a false appeal is not free."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from chain.state_machine.ledger.tables import BOND_ACCOUNTS, POTS
from chain.state_machine.market.tables import HOLDS
from chain.state_machine.proof.tables import AUDIT_LOAD
from chain.state_machine.registry.tables import VALIDATORS
from domain.disputes.messages import MsgAppeal
from domain.disputes.records import DisputeState
from domain.ledger.messages import MsgDepositBond
from domain.ledger.moves import BURNT_POT
from domain.ledger.records import BondKind
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.market.records import ChallengeTerms
from domain.params import local_params
from domain.proof.records import AuditKind, Panel, Ruling, SeatAnswer
from tests.support.chain_market import CONSUMER, Market, digest, make_terms, submit
from tests.unit.chain.state_machine.disputes.test_challenges import (
    closed_round,
    commit,
    dispute,
    found_wrong,
    missed,
    opening,
    verified_by_lot,
)

STAKE = 10**10
AGGREGATION, FEE = 4_000, 100
LISTED = 30
BOND = LISTED * (AGGREGATION + FEE)
"""The bond of an appeal about the aggregation: the pay of all listed auditors for it."""


def make_market(validators: int = LISTED, **changes: int) -> Market:
    return Market(local_params().replace(**{"auditors": 3, **changes}), validators=validators)


def lie(market: Market, order_id: bytes, round: int = 0) -> tuple[SeatAnswer, ...]:
    """Return answers with another root for the aggregation, with which all seats of a coalition agree."""
    places = market.panel(order_id, round).places
    return tuple(
        replace(
            answer, root=digest("made up"), digest=digest("agreed"), earlier=(digest("agreed"),) * len(answer.earlier)
        )
        if places[answer.place].place.kind is AuditKind.AGGREGATION
        else answer
        for answer in market.answers(order_id, round)
    )


def capture(market: Market, rounds: int = 1) -> bytes:
    """Let all seats of two stages lie about round 0, so that the panel rules against a right round."""
    order_id = market.run(submit(deposit=900_000, rematch=False))
    for _ in range(rounds):
        market.train_round(order_id)
    rule(market, order_id)
    return order_id


def rule(market: Market, order_id: bytes, round: int = 0) -> None:
    for stage in (1, 2):
        market.wait_stage(order_id, round, stage)
        seats = market.seated(order_id, round, stage)
        market.say(order_id, dict.fromkeys(seats, lie(market, order_id, round)), round)
    assert market.panel(order_id, round).awaits_appeal


def test_a_ruling_beside_an_open_place_returns_all_audit_room() -> None:
    """Seats lie about one place, and contradict each other about another one. The invariants count the room."""
    market = make_market()
    order_id = market.run(submit(deposit=900_000, rematch=False))
    market.train_round(order_id)
    for stage in (1, 2):
        market.wait_stage(order_id, 0, stage)
        said = {
            name: tuple(
                answer if answer.root == digest("made up") else replace(answer, root=digest("mine", name))
                for answer in lie(market, order_id)
            )
            for name in market.seated(order_id, 0, stage)
        }
        market.say(order_id, said)
    panel = market.panel(order_id, 0)
    assert panel.awaits_appeal
    assert {Ruling.OPEN, Ruling.WRONG} <= {place.ruling for place in panel.places}
    assert panel.load == AUDIT_LOAD.get(market.chain.overlay()) == 0


def appeal(appellant: str, order_id: bytes, round: int = 0, dispute: int = 0) -> MsgAppeal:
    return MsgAppeal(appellant=appellant, order_id=order_id, leg=1, round=round, dispute=dispute)


def decide(market: Market, order_id: bytes, said: Callable[[], tuple[SeatAnswer, ...]]) -> list[str]:
    """Let all seats of the appeal say the same; return them."""
    market.wait_stage(order_id, 0, 3)
    seats = market.seated(order_id, 0, 3)
    market.say(order_id, dict.fromkeys(seats, said()))
    return seats


def free(market: Market, name: str = "v0") -> int:
    return BOND_ACCOUNTS.must(market.chain.overlay(), name).free


def burnt(market: Market) -> int:
    return POTS.get(market.chain.overlay(), BURNT_POT.name)


def stake(market: Market, name: str) -> int:
    return VALIDATORS.must(market.chain.overlay(), name).stake


def appeal_bonds(market: Market, order_id: bytes) -> int:
    return sum(row.amount for row in market.all_of(order_id).escrow.bonds if row.kind is BondKind.APPEAL)


# --- a coalition that happens to have the seats of two stages ----------------------------------------


def test_all_validators_reverse_the_ruling_of_a_coalition() -> None:
    """Nine liars rule against a right round; its validator appeals, keeps its job bond, and the round is paid."""
    market = make_market()
    before = free(market) + 0
    order_id = capture(market)
    liars = market.seated(order_id)
    assert len(liars) == 9
    market.chain.ok(appeal("v0", order_id))
    assert appeal_bonds(market, order_id) == BOND
    seats = decide(market, order_id, lambda: market.answers(order_id))
    assert len(seats) == 20
    assert {place.ruling for place in market.panel(order_id, 0).places} == {Ruling.RIGHT}
    assert appeal_bonds(market, order_id) == 0
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    market.chain.block()
    assert market.round(order_id, 0).verified
    assert market.leg(order_id).state is LegState.RUNNING
    assert free(market) == before - market.leg(order_id).job_bond
    # Each liar pays at least a third of the price of the round; that pays the seats that were right.
    assert all(STAKE - stake(market, name) == 80_000 // 3 for name in liars)
    told = [event for event in market.chain.seen("panel.paid") if event.get("auditor") in seats]
    assert {int(event.get("paid")) for event in told} == {AGGREGATION + FEE}


def test_nothing_moves_before_the_time_to_appeal_is_over() -> None:
    market = make_market()
    order_id = capture(market, rounds=2)
    panel = market.panel(order_id, 0)
    assert panel.appeal_until == market.chain.clock + 60
    deadline = market.order(order_id).deadline
    for _ in range(3):
        market.chain.pass_time(10)
        assert not market.round(order_id, 0).void
        assert market.leg(order_id).state is not LegState.FAILED
        assert all(stake(market, name) == STAKE for name in market.validators)
        assert not market.chain.seen("panel.ended")
    market.let_stand(order_id)
    assert market.round(order_id, 0).void
    assert market.leg(order_id).end_reason == LegEnd.WRONG_ROUND
    # The time in which the order could not go on is added to its deadline.
    assert market.order(order_id).deadline >= deadline + 60


def test_panels_of_later_rounds_wait_for_the_ruling() -> None:
    market = make_market()
    order_id = market.run(submit(deposit=900_000, rematch=False))
    market.train_round(order_id)
    rule(market, order_id)
    market.train_round(order_id)
    market.chain.pass_time(20)
    assert market.panel(order_id, 1).stage == 0
    market.chain.ok(appeal("v0", order_id))
    decide(market, order_id, lambda: market.answers(order_id))
    market.answer_all(order_id, 1)
    market.chain.pass_time(20)
    assert market.round(order_id, 1).verified


# --- appeals by the loser ---------------------------------------------------------------------------


def test_an_appeal_of_a_wrong_round_pays_its_seats_and_the_rest_is_burnt() -> None:
    market = make_market()
    order_id = capture(market)
    market.chain.ok(appeal("v0", order_id))
    before, lost = free(market), burnt(market)
    seats = decide(market, order_id, lambda: lie(market, order_id))
    assert market.round(order_id, 0).void
    assert market.panel(order_id, 0).is_last
    assert free(market) == before
    assert appeal_bonds(market, order_id) == 0
    assert len(seats) == 20
    assert burnt(market) > lost
    # The last stage slashes at once, so no further vote is needed.
    assert stake(market, "v0") < STAKE
    assert not market.chain.seen("panel.slash_vote")


def test_a_ruling_is_appealed_once() -> None:
    market = make_market()
    order_id = capture(market)
    market.chain.ok(MsgDepositBond(CONSUMER, BOND))
    market.chain.ok(appeal(CONSUMER, order_id))
    with pytest.raises(AssertionError, match="can be appealed now"):
        market.chain.ok(appeal("v0", order_id))
    decide(market, order_id, lambda: lie(market, order_id))
    with pytest.raises(AssertionError, match="can be appealed now"):
        market.chain.ok(appeal("v0", order_id))
    assert market.round(order_id, 0).void


def test_appeals_delay_the_end_by_one_stage_at_most() -> None:
    """Whoever appeals, the next decision is the last one, even if no seat answers."""
    market = make_market()
    order_id = capture(market)
    market.chain.ok(appeal("v0", order_id))
    begun = market.chain.clock
    market.wait_stage(order_id, 0, 3)
    market.say(order_id, {})
    market.chain.pass_until(market.panel(order_id, 0).reveals_end)
    market.chain.block()
    order = market.order(order_id)
    assert market.round(order_id, 0).void
    assert market.chain.clock - begun <= 2 * order.params.stage_base + 6 * order.audit_ms // 1_000 + 20
    assert not list(HOLDS.keys(market.chain.overlay(), order_id))


def test_an_appeal_that_cannot_be_decided_changes_nothing_and_pays_only_its_seats() -> None:
    """Otherwise an outage, or a validator that serves only some seats, would undo rulings."""
    market = make_market()
    order_id = capture(market)
    market.chain.ok(appeal("v0", order_id))
    before = free(market)
    market.wait_stage(order_id, 0, 3)
    seats = market.seated(order_id, 0, 3)
    right, wrong = market.answers(order_id), lie(market, order_id)
    nothing = market.unavailable(order_id)
    said = {name: right if at < 10 else wrong if at < 12 else nothing for at, name in enumerate(seats)}
    market.say(order_id, said)
    panel = market.panel(order_id, 0)
    assert market.round(order_id, 0).void
    assert market.leg(order_id).end_reason == LegEnd.WRONG_ROUND
    assert [place.stage for place in panel.places if place.ruling is Ruling.WRONG] == [2]
    # The first ruling refutes no seat of the last stage, and no one is slashed.
    assert all(stake(market, name) == STAKE for name in [*seats, "v0"])
    returned = free(market) - before
    assert returned == BOND - 2 * (AGGREGATION + FEE)


def test_an_appeal_without_its_bond_is_refused() -> None:
    market = make_market(challenge_min=10**13)
    order_id = capture(market)
    with pytest.raises(AssertionError, match="needs a bond"):
        market.chain.ok(appeal("v0", order_id))


def test_a_stranger_does_not_appeal() -> None:
    market = make_market()
    order_id = capture(market)
    with pytest.raises(AssertionError, match="neither a party"):
        market.chain.ok(appeal("v5p1", order_id))


def test_who_appeals_has_no_seat_in_the_last_stage() -> None:
    market = make_market()
    order_id = capture(market)
    stranger = next(name for name in market.validators if name not in {"v0", *market.seated(order_id)})
    market.chain.ok(appeal(stranger, order_id))
    market.wait_stage(order_id, 0, 3)
    assert stranger not in market.seated(order_id, 0, 3)
    assert len(market.seated(order_id, 0, 3)) == 19


def test_the_bond_covers_at_least_the_least_bond_of_a_challenge() -> None:
    market = make_market(challenge_min=BOND + 7)
    order_id = capture(market)
    market.chain.ok(appeal("v0", order_id))
    assert appeal_bonds(market, order_id) == BOND + 7


def test_what_a_panel_found_is_no_challenge_that_anyone_can_copy() -> None:
    """The answers are public while the ruling waits."""
    market = make_market()
    order_id = market.run(submit(deposit=900_000, rematch=False, challenges=ChallengeTerms(wait=400), deadline=10_000))
    market.train_round(order_id)
    rule(market, order_id)
    place = next(each for each in market.panel(order_id, 0).places if each.ruling is Ruling.WRONG)
    before = free(market, "v29")
    market.chain.ok(commit(market, order_id, place.place, place.finding, "v29"))
    market.chain.ok(opening(order_id, place.place, place.finding, "v29"))
    assert dispute(market, order_id).state is DisputeState.DROPPED
    assert free(market, "v29") == before


def test_what_the_panel_of_a_challenge_found_is_no_challenge_either() -> None:
    """The place was not drawn, so only the ruling of the first challenge says that it is wrong."""
    market, order_id = closed_round(validators=LISTED, auditors=3)
    place = missed(market, order_id)
    verified_by_lot(market, order_id)
    market.chain.ok(commit(market, order_id, place))
    market.chain.ok(opening(order_id, place))
    market.about = 1
    for stage in (1, 2):
        market.wait_stage(order_id, 0, stage)
        said = found_wrong(market, order_id)
        market.say(order_id, dict.fromkeys(market.seated(order_id, 0, stage), said))
    panel = market.panel(order_id, 0)
    assert panel.awaits_appeal
    before = free(market, "v29")
    market.chain.ok(commit(market, order_id, place, panel.places[0].finding, "v29"))
    market.chain.ok(opening(order_id, place, panel.places[0].finding, "v29", number=2))
    assert dispute(market, order_id, 2).state is DisputeState.DROPPED
    assert free(market, "v29") == before


# --- a provider's share ------------------------------------------------------------------------------


def panel_of(market: Market, order_id: bytes) -> Panel:
    return market.panel(order_id, 0)


def test_a_provider_appeals_a_ruling_about_its_own_share() -> None:
    market = make_market(duty_segments=1, audit_segments=6)
    order_id = market.run(submit(terms=make_terms(round_steps=16, slots=1), deposit=3_000_000, rematch=False))
    market.train_round(order_id)
    (share,) = market.shares(order_id)

    def found() -> tuple[SeatAnswer, ...]:
        places = market.panel(order_id, 0).places
        return tuple(
            replace(
                answer,
                root=digest("another root"),
                digest=digest("agreed"),
                earlier=(digest("agreed"),) * len(answer.earlier),
            )
            if places[answer.place].place.kind is AuditKind.SEGMENT
            and places[answer.place].place.segment not in share.drawn
            else answer
            for answer in market.answers(order_id)
        )

    for stage in (1, 2):
        market.wait_stage(order_id, 0, stage)
        market.say(order_id, dict.fromkeys(market.seated(order_id, 0, stage), found()))
    assert panel_of(market, order_id).awaits_appeal
    provider = share.claim.provider
    before = free(market, provider) + share.bond
    market.chain.ok(appeal(provider, order_id))
    decide(market, order_id, lambda: market.answers(order_id))
    assert {place.ruling for place in panel_of(market, order_id).places} == {Ruling.RIGHT}
    market.chain.block()
    assert market.round(order_id, 0).verified
    assert free(market, provider) == before
