"""Every scenario ends as its row says: the fault, the coins, the time, and what the honest have."""

import pytest

from localnet.simulator.scenarios.findings import ChainFinding, choose_fault
from localnet.simulator.scenarios.playing import play_scenario
from localnet.simulator.scenarios.scenario import SUMMARY, PartyChange
from localnet.simulator.scenarios.table import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_ends_as_its_row_says(name: str) -> None:
    outcome = play_scenario(SCENARIOS[name])
    assert outcome.problem == ""
    assert outcome.fault == outcome.expected_fault
    assert not [party for party in outcome.parties if party.is_harmed]
    assert outcome.coins_conserved
    assert outcome.closed_in_time
    assert outcome.ok
    assert tuple(outcome.summary()) == SUMMARY


def test_there_are_at_least_forty() -> None:
    assert len(SCENARIOS) >= 40


def test_a_scenario_names_an_honest_party_that_is_blamed_and_what_is_found_instead() -> None:
    wrong = ChainFinding("provider", "wrong_share", "v0p0")
    silent = ChainFinding("auditor", "silent", "v1")
    assert choose_fault("provider: wrong_share", [wrong, silent], []) == "provider: wrong_share"
    assert choose_fault("provider: wrong_share", [silent], []) == "auditor: silent"
    assert choose_fault("provider: wrong_share", [], []) == "no one"
    blamed = choose_fault("provider: wrong_share", [wrong, silent], ["v1"])
    assert blamed == "auditor: silent (v1, which is honest)"


def test_fees_and_bought_work_harm_no_one_and_a_lost_coin_does() -> None:
    party = PartyChange("carol", "consumer", is_honest=True, before=10, change=-7, fees=2, bought=5)
    assert not party.is_harmed
    lost = PartyChange("carol", "consumer", is_honest=True, before=10, change=-8, fees=2, bought=5)
    assert lost.is_harmed
