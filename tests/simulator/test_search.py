"""Strategies of coalitions, the search for the best one, and the shrinking of what fails."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from pickle import dumps
from random import Random
from typing import Any

import pytest

from localnet.simulator import search as searching
from localnet.simulator.behaviours import Forger, HonestValidator, NeverCloses
from localnet.simulator.coalitions import COALITIONS, make_market, scheme, with_validators
from localnet.simulator.schemers import SchemingValidator
from localnet.simulator.search import Failure, Found, Outcome, search, shrink_scheme, try_strategy
from localnet.simulator.setups import Kind, Shape, make_setup
from localnet.simulator.shrink import FAULTS, Cuts, bad_parties, cut, same_failure, shrink
from localnet.simulator.strategies import (
    HONEST,
    Mind,
    Strategy,
    describe,
    honest_option,
    make_random,
    mutate,
    options_of,
)
from localnet.simulator.world import World

SMALL = Shape(orders=3, spread=10, providers=21)


class Here(Executor):
    """Runs everything at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_strategies_name_options_that_there_are() -> None:
    random = Random(1)
    for coalition in COALITIONS.values():
        strategy: Strategy = HONEST
        for known in coalition.known:
            assert all(set(bag) <= set(options_of(key)) for key, bag in known.items())
            assert set(known) <= set(coalition.decisions)
        for _ in range(200):
            strategy = mutate(strategy, random, coalition.decisions)
            for found in (strategy, make_random(random, coalition.decisions)):
                assert set(found) <= set(coalition.decisions)
                assert all(set(bag) <= set(options_of(key)) for key, bag in found.items())
                assert all(set(bag) != {honest_option(key)} for key, bag in found.items())


def test_a_mind_draws_the_same_again() -> None:
    strategy = {"provider delivers": ("hidden", "send"), "v0p1: provider delivers": ("hidden",)}
    mind, other = (Mind(name, strategy, 7, frozenset()) for name in ("v0p0", "v0p1"))
    draws = [mind.choose("provider delivers", number) for number in range(40)]
    assert draws == [mind.choose("provider delivers", number) for number in range(40)]
    assert set(draws) == {"hidden", "send"}
    assert {other.choose("provider delivers", number) for number in range(40)} == {"hidden"}
    assert mind.choose("provider hands in") == "send"
    assert describe(strategy) == "provider delivers: hidden 1/2, send 1/2; v0p1: provider delivers: hidden"


@pytest.mark.parametrize("number", range(3))
def test_whatever_a_coalition_does_breaks_nothing(number: int) -> None:
    """Random strategies of the coalitions that can do most."""
    name = ("consumer, validator and cluster", "two seats and a provider", "two of seven validators")[number]
    strategy = make_random(Random(f"strategy {number}"), COALITIONS[name].decisions)
    (outcome,) = try_strategy(name, strategy, range(number, number + 1), SMALL)
    assert not outcome.failure, describe(strategy)


def test_a_search_climbs_to_the_strategy_that_gains_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gain here is a sum over decisions, so the best strategy is known."""
    wanted = {"validator closes": "never", "validator aggregates": "wrong", "proposer": "withholds"}

    def gain(name: str, strategy: Strategy, draws: range) -> list[Outcome]:
        del name
        right = sum(strategy.get(key) == (option,) for key, option in wanted.items())
        return [Outcome(10 * right - len(strategy) + draw % 2, 5) for draw in draws]

    monkeypatch.setattr(searching, "try_strategy", gain)
    found = list(search(Here(), 1, lambda tried: tried >= 3_000, 4, ("a validator alone",)))
    (best,) = found
    assert isinstance(best, Found)
    assert best.strategy == {key: (option,) for key, option in wanted.items()}
    assert best.tried == 3_000
    assert best.gain.low > 20


def test_a_search_in_which_all_lose_plays_honest_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in other processes, to which only plain values go."""

    def loses(name: str, strategy: Strategy, draws: range) -> list[Outcome]:
        del name
        dumps(strategy)
        return [Outcome(-10 * bool(strategy), 10) for _ in draws]

    monkeypatch.setattr(searching, "try_strategy", loses)
    (found,) = search(Here(), 1, lambda tried: tried >= 20, 2, ("two providers",))
    assert isinstance(found, Found)
    assert (found.strategy, found.gain.mean, found.tried) == ({}, 0, 20)


def test_a_search_tells_what_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(name: str, strategy: Strategy, draws: range) -> list[Outcome]:
        del name, strategy
        return [Outcome(failure="Broken: v3, honest, has 5 of its stake of 9") for _ in draws]

    monkeypatch.setattr(searching, "try_strategy", breaks)
    found = list(search(Here(), 1, lambda tried: tried >= 1, 1, ("two providers",)))
    assert {type(each) for each in found} == {Failure}


def test_an_honest_strategy_gains_nothing() -> None:
    """The two runs are the same, block for block."""
    (outcome,) = try_strategy("consumer and validator", HONEST, range(1, 2), SMALL)
    assert outcome.gain == 0


# --- shrinking -----------------------------------------------------------------------------------


def test_what_fails_is_shrunk_to_the_parts_that_it_needs() -> None:
    setup = make_setup(3, Kind.ROUGH, Shape(orders=40))
    setup = with_validators(setup, {"v1": NeverCloses(), "v4": Forger(), "v5": Forger()})

    def fails(cuts: Cuts) -> str:
        left = cut(setup, cuts)
        bad = {plan.name for plan in left.validators if not plan.behaviour.honest}
        needed = (
            {setup.orders[7].at, setup.orders[23].at} <= {plan.at for plan in left.orders} and "v4" in bad and left.lag
        )
        return f"Broken: v2, honest, has {len(left.orders)} of its bond" if needed else ""

    cuts, failure = shrink(setup, fails(Cuts()), fails)
    assert cuts.orders == (7, 23)
    assert cuts.bad == ("v4",)
    assert set(cuts.without) == set(FAULTS) - {"lag"}
    assert failure == "Broken: v2, honest, has 2 of its bond"
    assert str(cuts).startswith("--only-orders 7,23 --only-bad v4 --without crashes,stops")


def test_cuts_of_a_run_leave_honest_people() -> None:
    setup = make_setup(2, Kind.ROUGH, Shape(orders=12))
    assert bad_parties(setup)
    left = cut(setup, Cuts(orders=(0, 1), bad=(), without=FAULTS))
    assert not bad_parties(left)
    assert len(left.orders) == 2
    assert (left.loss, left.lag, left.failing, left.spam, left.outages, left.challengers) == (0, 0, 0, 0, (), ())
    assert not World(left).crashes


def test_failures_are_the_same_if_they_differ_in_names_and_numbers() -> None:
    assert same_failure("Broken: v1, honest, has 3 of 4", "Broken: v22, honest, has 13 of 4")
    assert same_failure("Broken: share of v1p0 in 0a1b2c3d", "Broken: share of v0p2 in ffff0000")
    assert not same_failure("Broken: v1, honest", "Unending: v1, honest")
    assert not same_failure("", "")


def test_a_strategy_that_breaks_something_is_made_simpler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it is a breach if a leg of the coalition's validator fails."""
    strategy = {"validator aggregates": ("wrong",), "validator judges friends": ("accept",)}
    market = make_market(1, COALITIONS["a validator alone"].shape)

    def run(world: World) -> str:
        bad = [p.behaviour for p in world.setup.validators if isinstance(p.behaviour, SchemingValidator)]
        return "Broken: wrong" if any(b.mind.choose("validator aggregates") == "wrong" for b in bad) else ""

    monkeypatch.setattr(searching, "run", run)
    monkeypatch.setattr(searching, "COALITIONS", {"one": replace(COALITIONS["a validator alone"], shape=SMALL)})
    simpler, orders, what = shrink_scheme(Failure("one", strategy, 1, "Broken: wrong"))
    assert simpler == {"validator aggregates": ("wrong",)}
    assert len(orders) == 1
    assert what == "Broken: wrong"
    assert isinstance(scheme(market, COALITIONS["a validator alone"], HONEST).validators[0].behaviour, HonestValidator)
