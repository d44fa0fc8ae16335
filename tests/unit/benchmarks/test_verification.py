"""The figures on verification follow from the rules, and their goals are those of the documentation."""

import pytest

from benchmarks import verification
from benchmarks.capture import Court
from domain.params import Params


def test_a_panel_misses_what_it_does_not_draw() -> None:
    assert verification.missed_in_round(100, 0, 5) == 1
    assert verification.missed_in_round(100, 100, 1) == 0
    assert verification.missed_in_round(4, 2, 1) == 0.5
    assert verification.missed_in_round(100, 10, 2) == pytest.approx(90 * 89 / (100 * 99))


@pytest.mark.parametrize("for_chain", [True, False])
def test_a_coalition_captures_more_with_more_stake_and_never_by_a_first_stage_alone(*, for_chain: bool) -> None:
    params = Params().for_order()
    parts = [verification.captured(percent, params, for_chain=for_chain, tries=400) for percent in (0, 10, 33, 100)]
    assert parts == sorted(parts)
    assert parts[0] == 0
    assert parts[-1] == 1
    assert parts[2] < verification.CAPTURE_GOAL


def test_every_job_has_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "TRIES", 100)
    monkeypatch.setattr(verification, "DRAWN_TRIES", 20)
    figures = verification.run()
    rows = {row.case: row for row in figures.rows}
    for case in verification.CASES:
        panel, both = (
            rows[f"{case.name}: 10% skipped, not found by {name}"]
            for name in ("a panel of the job", "a panel or the duty")
        )
        assert 0 <= both.value < panel.value < 1
        is_large = case.slots * case.segments >= verification.LARGE
        assert not is_large or both.value < verification.MISS_GOAL
        cost = rows[f"{case.name}: panel and duty, of the training"].ratio
        assert not is_large or (cost or 1) < verification.COST_GOAL
        assert rows[f"{case.name}: panel, of the training"].value > 0
    # A round of 500 segments is the smallest one with a goal.
    assert verification.LARGE in [case.slots * case.segments for case in verification.CASES]
    # The panel of a large round draws more than the least number of segments.
    assert (rows["wide: panel and duty, of the training"].columns["groups"] or 0) > 1


def test_panels_that_the_state_machine_draws_are_captured_as_often() -> None:
    params = Params().for_order()
    court = Court(params)
    for side in (True, False):
        assert court.captured(0, for_chain=side, tries=5) == 0
        assert court.captured(100, for_chain=side, tries=5) == 1
        simulated = verification.captured(45, params, for_chain=side, tries=800)
        assert court.captured(45, for_chain=side, tries=80) == pytest.approx(simulated, abs=0.15)
