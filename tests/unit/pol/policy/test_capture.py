"""Coalitions of seats: the exact chances, compared with simulated panels and with the published formula."""

import pytest

from benchmarks.verification import captured
from domain.params import Params
from pol.policy.capture import capture_chance
from pol.policy.formulas import unanimous_capture
from pol.rules.tiers.exact import EXACT

TRIES = 1_500


@pytest.mark.parametrize("for_chain", [True, False])
@pytest.mark.parametrize("percent", [10, 33, 50])
def test_simulated_panels_agree(percent: int, for_chain: bool) -> None:
    exact = capture_chance(EXACT, 3, 100, percent, for_chain=for_chain)
    drawn = captured(percent, Params().for_order(), for_chain=for_chain, tries=TRIES)
    deviation = (exact * (1 - exact) / TRIES) ** 0.5
    assert abs(drawn - exact) <= 4 * deviation + 1 / TRIES


def test_all_seats_of_a_first_stage_are_a_part_of_it() -> None:
    for percent in (10, 20, 33):
        exact = capture_chance(EXACT, 3, 10_000, 100 * percent, for_chain=True)
        assert exact > unanimous_capture(percent / 100, 3)


def test_no_coalition_captures_nothing_and_all_validators_everything() -> None:
    assert capture_chance(EXACT, 3, 100, 0, for_chain=True) == 0.0
    assert capture_chance(EXACT, 3, 100, 100, for_chain=True) == pytest.approx(1.0)
    assert capture_chance(EXACT, 3, 100, 100, for_chain=False) == pytest.approx(1.0)
    assert capture_chance(EXACT, 0, 0, 0, for_chain=True) == 0.0


def test_more_stake_captures_more() -> None:
    for side in (True, False):
        chances = [capture_chance(EXACT, 3, 30, count, for_chain=side) for count in range(31)]
        assert chances == sorted(chances)


def test_the_last_stage_of_few_validators_decides_by_stake() -> None:
    """Two seats of three disagree, so the third decides; a place that one of three confirms is decided rightly."""
    assert capture_chance(EXACT, 2, 3, 1, for_chain=True) == 0.0
    assert capture_chance(EXACT, 2, 3, 2, for_chain=True) == pytest.approx(1.0)
