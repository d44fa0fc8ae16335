"""``assay localnet scenario``: one scenario with its coins, all in a table, and a bare list as JSON."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from domain.errors import Exit
from localnet import scenarios
from localnet.scenarios import Row, scenarios_of
from localnet.simulator.scenarios.scenario import SUMMARY, Outcome
from tests.unit.assay.support import assay

HELD = Outcome(
    scenario="held",
    engine="simulator",
    expected_fault="no one",
    fault="no one",
    coins_conserved=True,
    closed_in_time=True,
    honest_unharmed=True,
    ok=True,
)
BROKEN = replace(HELD, scenario="broken", fault="auditor: silent", ok=False, problem="the auditor was away")


def plays(outcome: Outcome) -> Callable[[Callable[[str], None]], Outcome]:
    return lambda _: outcome


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tuple(Row(each.scenario, "Something happens.", "no one", plays(each)) for each in (HELD, BROKEN))
    monkeypatch.setattr(scenarios, "scenarios_of", lambda _: rows)


def test_one_scenario_shows_the_fault_and_where_each_coin_went() -> None:
    shown = assay("localnet", "scenario", "wrong-update").out
    assert "fault: provider: update_mismatch" in shown
    assert "community pool" in shown
    assert "coins conserved: yes; closed in time: yes; honest parties unharmed: yes" in shown


def test_json_is_a_bare_list_of_the_named_fields() -> None:
    (told,) = assay("localnet", "scenario", "false-complaint", "--output", "json").json
    assert tuple(told) == SUMMARY
    assert told["engine"] == "simulator"
    assert told["fault"] == told["expected_fault"] == "consumer: refused_complaint"
    assert told["ok"]


@pytest.mark.usefixtures("two")
def test_all_are_shown_and_one_that_breaks_ends_the_command_with_an_error() -> None:
    ran = assay("localnet", "scenario", "--all")
    assert ran.code == 1
    assert "auditor: silent" in ran.out
    assert "1 of 2 scenarios did not end as expected: broken" in ran.err
    told = assay("localnet", "scenario", "--all", "--output", "json")
    assert [each["ok"] for each in told.json] == [True, False]


@pytest.mark.usefixtures("two")
def test_one_that_breaks_says_why() -> None:
    shown = assay("localnet", "scenario", "broken").out
    assert "fault: auditor: silent (not expected)" in shown
    assert "problem: the auditor was away" in shown


def test_the_list_has_every_scenario_of_an_engine() -> None:
    told = assay("localnet", "scenario", "--list", "--output", "json").json
    assert [each["scenario"] for each in told] == [row.name for row in scenarios_of("simulator")]
    real = assay("localnet", "scenario", "--list", "--engine", "comet", "--output", "json").json
    assert len(real) >= 6


@pytest.mark.parametrize("words", [(), ("wrong-update", "--all"), ("no-such",)])
def test_a_wrong_choice_is_refused_with_what_to_do(words: tuple[str, ...]) -> None:
    ran = assay("localnet", "scenario", *words)
    assert ran.code == Exit.USAGE
    assert "assay localnet scenario --list" in ran.err
