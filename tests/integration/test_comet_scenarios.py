"""Scenarios on real processes end as their rows say: CometBFT, four validators, four providers."""

import pytest

from localnet.comet_scenarios import COMET_SCENARIOS, play_on_comet

pytestmark = [pytest.mark.nightly, pytest.mark.network, pytest.mark.timeout(1_800)]


@pytest.mark.parametrize("name", COMET_SCENARIOS)
def test_a_scenario_ends_as_its_row_says_with_real_processes(name: str) -> None:
    outcome = play_on_comet(COMET_SCENARIOS[name], print)
    assert outcome.problem == ""
    assert outcome.fault == outcome.expected_fault
    assert outcome.ok
