"""Calibration on the command line: a profile that this machine measures, checks and merges."""

import json
from pathlib import Path
from typing import Any

import pytest

from pol.replay import controls
from pol.replay.controls import HardwareControl, find_controls
from pol.rules.tolerance import PARTS
from tests.unit.assay.support import assay


@pytest.fixture
def two_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain run and one with sums reversed, so that a test takes seconds."""

    def few(*chosen: Any, **options: Any) -> tuple[HardwareControl, ...]:
        every = find_controls(*chosen, **options)
        return (every[0], next(each for each in every if each.hardware and each.hardware.order == "reversed"))

    monkeypatch.setattr(controls, "find_controls", few)


@pytest.mark.usefixtures("two_controls")
def test_a_profile_is_written_checked_and_merged(job: Path, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    value = assay("job", "calibrate", job, "--segments", "2", "-o", file, "--output", "json").json
    assert value["profile"] == str(file)
    assert len(value["segments"]) == 2
    assert value["pairs"] == 2 * 2
    assert {each["name"] for each in value["tensors"]} >= {"metric.loss"}
    assert all(each["threshold"]["mean"] < PARTS for each in value["tensors"])

    merged = tmp_path / "both.json"
    assay("job", "calibrate", job, "--merge", file, "--merge", file, "-o", merged)
    assert json.loads(merged.read_text())["pairs"] == 2 * value["pairs"]

    # Honest runs pass, but the margin is 8, so this factor calls every threshold loose.
    ran = assay("job", "calibrate", job, "--segments", "1", "--check", merged, "--factor", "7", "--output", "json")
    assert (ran.json["holds"], ran.json["rejected"], ran.json["factor"]) == (False, 0, 7)
    assert ran.json["loose"] == [each["name"] for each in value["tensors"]]
    assert "the profile is loose" in ran.refusal


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--check", "p.json", "--out", "q.json"), "--check writes no profile"),
        (("--factor", "3"), "--factor belongs to a check"),
        (("--merge", "p.json"), "only one is named"),
        (("--precision", "tf32"), "--precision: processors have no tf32"),
        (("--device", "tpu"), "--device: there is no device 'tpu'"),
        (("--margin", "0"), "--margin"),
        (("--segments", "0"), "--segments"),
    ],
)
def test_options_that_do_not_fit(made: Path, arguments: tuple[str, ...], reason: str) -> None:
    ran = assay("job", "calibrate", made, *arguments)
    assert ran.code == 2
    assert reason in ran.err


def test_a_file_that_is_no_profile(made: Path, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    assert "cannot be opened" in assay("job", "calibrate", made, "--check", file).refusal
    file.write_text("{}")
    assert "version" in assay("job", "calibrate", made, "--check", file).refusal
