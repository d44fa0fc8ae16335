"""Markets from seeds: whatever people do there, what must always hold does, and everything ends."""

from dataclasses import replace
from random import Random

import pytest

from chain.state_machine.invariant import InvariantBroken
from chain.state_machine.market.tables import BIDS
from chain.state_machine.registry.tables import PROVIDERS
from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.market.records import Conditions, OrderState
from domain.proof.events import HandoverFoundWrong, SeatSilent, ShareAccepted, SlashVoteEnded, SlashVoteOpened
from domain.vocabulary import changes_of
from localnet.simulator.behaviours import (
    VALIDATOR_CHEATS,
    Forger,
    Hider,
    HonestValidator,
    LocalNoiseSeller,
    NoiseSeller,
)
from localnet.simulator.coalitions import COALITIONS, make_market, scheme, with_validators
from localnet.simulator.play import kind_of, play
from localnet.simulator.setups import Kind, Shape, make_job, make_setup
from localnet.simulator.world import Outage, World
from pol.rules.orders import least_deposit
from tests.support.chain_market import PRICE

SEEDS, ORDERS = 4, 25
"""Each kind of run once; ``make nightly`` plays a hundred seeds."""


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_what_must_always_hold(seed: int) -> None:
    played = play(seed, ORDERS)
    assert not played.failure
    assert played.closed["settled"] > 0
    if kind_of(seed) is Kind.HONEST:
        assert set(played.closed) <= {"settled", "expired", "cancelled"}
        assert played.lost == 0


def test_a_seed_plays_the_same_run_again() -> None:
    worlds = [World(make_setup(3, Kind.MIXED, Shape(orders=6, spread=20))) for _ in range(2)]
    for world in worlds:
        world.run()
    assert worlds[0].clock.now == worlds[1].clock.now
    assert worlds[0].chain.everything() == worlds[1].chain.everything()


def test_what_changes_is_checked_again() -> None:
    """Though nothing is that read only what has not changed."""
    world = World(make_setup(3, Kind.HONEST, Shape(orders=4, spread=20)))
    while world.chain.height < 30:
        world.clock.step()
    chain = world.chain
    (bid, *_) = BIDS.scan(chain.overlay())
    right, wrong = chain.overlay(), chain.overlay()
    BIDS.put(right, bid)
    chain.commit(right)
    chain.check_state()
    BIDS.put(wrong, replace(bid, reserved=bid.reserved + 1))
    chain.commit(wrong)
    for _ in range(2):
        with pytest.raises(InvariantBroken, match="reserves a wrong amount"):
            chain.check_state()


def test_who_comes_later_is_measured_admitted_and_given_work() -> None:
    setup = make_setup(13, Kind.HONEST, Shape(orders=14, spread=90))
    world = World(setup)
    world.run()
    store = world.chain.overlay()
    later = [PROVIDERS.must(store, plan.address) for plan in setup.providers if plan.joins]
    assert later
    for provider in later:
        assert provider.admitted
        assert provider.capability is not None
    assert any(provider.shares_accepted for provider in later)


def test_a_round_of_more_than_a_hundred_slots_closes_in_parts() -> None:
    """Validators crash, messages get lost, and each share is accepted once all the same."""
    slots = 140
    setup = make_setup(5, Kind.HONEST, Shape(orders=1, spread=1))
    # No provider is a newcomer for long: one slot after the other would take longer than the order may.
    used = setup.params.replace(newcomer_slots=slots, progress_base=600)
    (plan,) = setup.orders
    job = make_job(Random(1), "large", slots=slots, rounds=1, round_steps=1, segment_steps=1, step_work=5 * 10**6)
    message = replace(
        plan.message,
        terms=job.terms,
        conditions=Conditions(),
        price_limit=3 * PRICE,
        deposit=least_deposit(job.terms, 3 * PRICE, used),
        deadline=900,
    )
    plan = replace(plan, message=message, job=job, habits=replace(plan.habits, cancel_after=None))
    world = World(replace(setup, params=used, orders=(plan,), checked=False))
    world.run()
    answer = world.order(world.orders[0].order_id)
    assert answer.order.close_reason == CloseReason.SETTLED
    assert [ref.slot for ref in answer.rounds[0].shares] == list(range(slots))
    accepted = [change.share.slot for change in changes_of(ShareAccepted, world.chain.events)]
    assert accepted == list(range(slots))
    world.chain.check_state()


@pytest.mark.parametrize("cheat", VALIDATOR_CHEATS, ids=lambda cheat: str(cheat.__name__))
def test_a_validator_that_cheats_costs_nobody_else_anything(cheat: type[HonestValidator]) -> None:
    """Whatever it does, its own rounds are the only ones that are not verified."""
    setup = make_setup(5, Kind.HONEST, Shape(orders=12, spread=30))
    world = World(with_validators(setup, {"v1": cheat()}))
    world.run()
    for order in world.orders:
        on_chain = world.order(order.order_id)
        for closed in on_chain.rounds:
            leg = on_chain.leg(closed.leg)
            assert leg is not None
            assert not closed.void or leg.validator == "v1"


def test_who_hands_over_noise_sells_nothing() -> None:
    """Panels do not draw the chunk, so rounds are verified and providers paid; its own part and its bond are gone."""
    setup = make_setup(3, Kind.HONEST, Shape(orders=12, spread=30))
    world = World(with_validators(setup, {"v1": NoiseSeller()}))
    world.run()
    answers = [world.order(order.order_id) for order in world.orders]
    noisy = [answer for answer in answers if answer.current and answer.current.validator == "v1"]
    wrong = {change.round.order_id for change in changes_of(HandoverFoundWrong, world.chain.events)}
    assert {answer.order.id for answer in noisy} == wrong != set()
    for answer in noisy:
        assert LegEnd(answer.legs[-1].end_reason) is LegEnd.WRONG_HANDOVER
        assert all(closed.verified for closed in answer.rounds)
        kinds = {payment.kind for payment in answer.payments}
        assert {"provider", "compensation"} <= kinds
        assert "validator" not in kinds
    assert any(answer.order.close_reason == CloseReason.SETTLED for answer in answers)


def test_who_forges_rounds_is_slashed_by_a_vote_after_its_orders_are_closed() -> None:
    """Its daemon goes on serving the states, and the others recompute, commit and reveal, though nothing else waits."""
    setup = make_setup(6, Kind.HONEST, Shape(orders=8, spread=20, validators=12, providers=24))
    world = World(with_validators(setup, {"v1": Forger()}))
    world.run()
    votes = list(changes_of(SlashVoteOpened, world.chain.events))
    ended = list(changes_of(SlashVoteEnded, world.chain.events))
    assert votes
    assert {change.validator for change in votes} == {"v1"}
    assert len(ended) == len(votes)
    assert all(change.slashed for change in ended)


def test_who_takes_its_results_early_gives_up_refunds() -> None:
    """A round that is not verified is served to nobody else; what becomes void of those that were taken is burnt."""
    setup = make_setup(3, Kind.HONEST, Shape(orders=12, spread=30))
    orders = [replace(o, habits=replace(o.habits, early=at > 4)) for at, o in enumerate(setup.orders)]
    world = World(with_validators(replace(setup, orders=tuple(orders)), {"v1": Hider()}))
    world.run()
    burnt, kept = 0, 0
    for order in world.orders:
        answer = world.order(order.order_id)
        taken = {leg.number: leg.taken_end for leg in answer.legs}
        assert order.plan.habits.early or not any(taken.values())
        burns = [payment.round for payment in answer.payments if payment.kind == "refund_burn"]
        void = [closed for closed in answer.rounds if closed.void]
        assert sorted(burns) == sorted(closed.round for closed in void if closed.round < taken[closed.leg])
        burnt, kept = burnt + len(burns), kept + len(void) - len(burns)
    assert burnt
    assert kept


def test_who_hands_over_noise_in_a_chunk_that_is_drawn_is_found_by_the_panel() -> None:
    setup = make_setup(4, Kind.HONEST, Shape(orders=6, spread=30))
    world = World(with_validators(setup, {"v1": LocalNoiseSeller()}))
    world.run()
    answers = [world.order(order.order_id) for order in world.orders]
    void = [closed for answer in answers for closed in answer.rounds if closed.void]
    assert any(closed.ciphertext_root for closed in void)
    for answer in answers:
        for closed in answer.rounds:
            leg = answer.leg(closed.leg)
            assert leg is not None
            sold = leg.validator == "v1" and closed.ciphertext_root != b""
            assert not (sold and closed.verified)
            assert not closed.void or leg.validator == "v1"


def test_slander_is_refused_and_costs_nobody_else_anything() -> None:
    setup = make_setup(6, Kind.HONEST, Shape(orders=12, spread=30))
    orders = [replace(plan, habits=replace(plan.habits, slanders=True)) for plan in setup.orders]
    world = World(replace(setup, orders=tuple(orders)))
    world.run()
    assert not list(changes_of(HandoverFoundWrong, world.chain.events))
    settled = [o for o in world.orders if world.order(o.order_id).order.close_reason == CloseReason.SETTLED]
    slander = [refusal for refusal in world.refused if refusal.startswith("MsgComplain: opened.ciphertext")]
    assert len(slander) >= len(settled) > 0


def test_who_waits_for_a_winner_that_serves_nothing_is_never_late() -> None:
    """All its seats end in the same second; in half of the time their answers still come together, and in time."""
    setup = make_setup(5, Kind.HONEST, Shape(orders=12, spread=30))
    steady = tuple(replace(plan, crashes=()) for plan in setup.validators)  # a crash may take a seat its time
    setup = replace(setup, params=setup.params.replace(stage_base=12), validators=steady)
    world = World(with_validators(setup, {"v1": Hider()}))
    world.run()
    assert any(closed.void for o in world.orders for closed in world.order(o.order_id).rounds)
    assert not list(changes_of(SeatSilent, world.chain.events))


def test_an_outsider_that_fills_every_block_makes_nobody_late() -> None:
    """Duties have a lane, and it pays ever more for the rest; what others send takes the place that it leaves."""
    setup = make_setup(2, Kind.HONEST, Shape(orders=12, spread=30))
    world = World(replace(setup, spam=12))
    world.run()
    chain = world.chain
    assert max(int(event.get("price_millionths")) for event in chain.seen("gas.price_changed")) > 100_000
    assert not list(changes_of(SeatSilent, chain.events))
    reasons = [world.order(o.order_id).order.close_reason for o in world.orders if o.order_id]
    assert CloseReason.SETTLED in reasons
    assert set(reasons) <= {CloseReason.SETTLED, CloseReason.EXPIRED, CloseReason.CANCELLED}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] if at % 3 else []) for at, name in enumerate(COALITIONS)]
)
def test_a_coalition_breaks_nothing(name: str) -> None:
    coalition = COALITIONS[name]
    setup = make_market(1, replace(coalition.shape, orders=6, spread=20))
    world = World(scheme(setup, coalition, coalition.known[0]))
    world.run()
    assert all(world.order(order.order_id).order.state is OrderState.CLOSED for order in world.orders)


@pytest.mark.parametrize("seconds", [1, 100])
def test_an_outage_of_half_of_the_validators_is_nobodys_fault(seconds: int) -> None:
    """No block is made meanwhile, so no deadline passes; those that were there lose nothing, and orders go on."""
    setup = make_setup(2, Kind.HONEST, Shape(orders=10, spread=30))
    outage = Outage(40_000, 1_000 * seconds, ("v0", "v2", "v4", "v6"))
    world = World(replace(setup, outages=(outage,)))
    world.run()
    assert world.absent == set(outage.names)
    reasons = [world.order(o.order_id).order.close_reason for o in world.orders if o.order_id]
    assert CloseReason.SETTLED in reasons
    assert set(reasons) <= {CloseReason.SETTLED, CloseReason.EXPIRED, CloseReason.CANCELLED}


@pytest.mark.parametrize("kind", Kind)
def test_calls_that_arrive_twice_do_nothing_twice(kind: Kind) -> None:
    setup = make_setup(4, kind, Shape(orders=8, spread=30))
    world = World(replace(setup, twice=200, loss=20))
    world.run()
    assert CloseReason.SETTLED in {world.order(o.order_id).order.close_reason for o in world.orders if o.order_id}
