"""The formulas give the values that were published with them."""

from math import inf

import pytest

from pol.policy import formulas


@pytest.mark.parametrize(("stake", "published"), [(0, 1.0), (1, 0.50), (10, 0.091), (100, 0.0099)])
def test_proof_of_sampling(stake: float, published: float) -> None:
    """C/R = 0.9, r = 0.1; the stake in rewards."""
    assert formulas.least_sampling(0.9, 1.0, stake, 0.1) == pytest.approx(published, rel=0.01)


def test_least_stake_is_where_deterrence_begins() -> None:
    reward, gain, chance = 1.0, 0.9, 0.05
    stake = formulas.least_stake(chance, gain, reward)
    assert stake == pytest.approx(17.0)
    assert formulas.is_deterred(chance, gain, reward, stake + 1e-9)
    assert not formulas.is_deterred(chance, gain, reward, stake - 1e-9)
    future = formulas.future_income(1.0, 0.9, 0.96)
    assert future == pytest.approx(2.4)
    assert formulas.least_stake(chance, gain, reward, future) == pytest.approx(14.6)
    assert formulas.least_stake(0.0, gain, reward) == inf
    assert formulas.least_stake(0.0, 0.0, reward) == 0.0


def test_sampling_of_a_tenth() -> None:
    assert formulas.detection(0.1, 44) == pytest.approx(0.9903, abs=5e-5)


@pytest.mark.parametrize(
    ("part", "published"),
    [
        (0.5, (5, 7, 10)),
        (0.2, (14, 21, 31)),
        (0.1, (29, 44, 66)),
        (0.05, (59, 90, 135)),
        (0.01, (299, 459, 688)),
        (0.001, (2995, 4603, 6905)),
    ],
)
def test_number_of_checks(part: float, published: tuple[int, ...]) -> None:
    chances = (0.95, 0.99, 0.999)
    assert tuple(formulas.least_checks(part, chance) for chance in chances) == published
    assert all(formulas.detection(part, c) >= chance for c, chance in zip(published, chances, strict=True))


def test_one_wrong_segment_is_found_in_proportion() -> None:
    assert formulas.detection_of(400, 1, 4) == pytest.approx(4 / 400)
    assert formulas.detection_of(10, 10, 1) == 1.0


def test_without_planted_errors_some_lies_remain() -> None:
    assert formulas.equilibrium_fraud(1.0, 100.0) == pytest.approx(0.01)
    assert formulas.equilibrium_fraud(1.0, 0.0) == inf
    assert formulas.equilibrium_checks(0.9, 1.0, 17.0) == pytest.approx(0.05)


def test_planted_errors_of_one_in_a_hundred_need_a_jackpot_of_a_hundred_checks() -> None:
    assert formulas.least_jackpot(1.0, 0.01) == pytest.approx(100)
    assert formulas.least_jackpot(1.0, 0.01, claimants=3) == pytest.approx(300)


@pytest.mark.parametrize(
    ("seats", "published"), [(3, (0.028, 0.104, 0.255)), (5, (0.0086, 0.058, 0.205)), (7, (0.0027, 0.033, 0.168))]
)
def test_capture_of_a_majority(seats: int, published: tuple[float, ...]) -> None:
    for part, value in zip((0.1, 0.2, 0.33), published, strict=True):
        assert formulas.majority_capture(part, seats) == pytest.approx(value, rel=0.03)


@pytest.mark.parametrize(
    ("seats", "published"), [(2, (0.01, 0.04, 0.109)), (3, (0.001, 0.008, 0.036)), (4, (0.0001, 0.0016, 0.012))]
)
def test_capture_of_unanimous_seats(seats: int, published: tuple[float, ...]) -> None:
    for part, value in zip((0.1, 0.2, 0.33), published, strict=True):
        assert formulas.unanimous_capture(part, seats) == pytest.approx(value, rel=0.02)


# evML's own example: p = 0.05, R = 0.5, C = C1 = 0.45, g = 0.96, K = 1,000, W = U = 1
REWARD, COST, CHANCE = 0.5, 0.45, 0.05


def test_values_of_a_device() -> None:
    assert formulas.honest_device(REWARD, COST, 0.96) == pytest.approx(1.25)
    assert formulas.snooping_device(REWARD, COST, 0.96, 1.0) - 1000 == pytest.approx(-973.75)
    once = formulas.lying_once(REWARD, COST, COST, 0.96, CHANCE, snooped=1.0, side=1.0)
    assert once - 1000 == pytest.approx(-974.09, abs=0.005)


@pytest.mark.parametrize(("discount", "published"), [(0.96, 25), (0.99, 100), (0.999, 1_000), (0.9999, 10_000)])
def test_the_cost_of_a_device_that_deters_follows_from_the_horizon(discount: float, published: float) -> None:
    found = formulas.least_device_cost(REWARD, COST, COST, discount, CHANCE, snooped=1.0, side=1.0)
    assert found == pytest.approx(published)


def test_a_lazy_device_is_deterred_by_what_it_would_earn_later() -> None:
    lazy = [formulas.least_device_cost(REWARD, COST, 0.0, g, CHANCE) for g in (0.96, 0.999)]
    assert lazy[0] == pytest.approx(4.15, abs=0.005)
    assert lazy[1] == 0.0


def test_a_large_side_profit_pays_for_a_device_of_a_thousand() -> None:
    low, high = (formulas.lying_device(REWARD, COST, 0.96, CHANCE, side=side) - 1_000 for side in (92.6, 92.8))
    assert low < formulas.honest_device(REWARD, COST, 0.96) < high


def test_the_overhead_of_sampling_is_a_function_of_its_inputs() -> None:
    """The published 0.735 % names no stake; this stake gives it."""
    stake = 0.9 * 1.0 / (0.9 * 0.00735) - 1.0
    chance = formulas.least_sampling(0.9, 1.0, stake, 0.1)
    assert formulas.sampling_overhead(chance, 1.0, 1.0) == pytest.approx(0.00735)
