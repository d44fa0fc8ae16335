"""Calibration on the command line: a profile that this machine measures, checks and merges."""

import json
from pathlib import Path
from typing import Any

import pytest

from pol.replay import controls
from pol.replay.controls import HardwareControl, find_controls
from pol.rules.tolerance import PARTS
from tests.unit.assay.support import assay

ROOT = Path(__file__).parents[4]


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


@pytest.mark.usefixtures("two_controls")
def test_a_job_is_built_inspected_and_trained_with_its_profile(tmp_path: Path) -> None:
    file, job, other = ROOT / "examples" / "tiny.py", tmp_path / "job", tmp_path / "other"
    assay("job", "build", file, "-o", job)
    before = assay("job", "inspect", job, "--output", "json").json
    assert before["precision"] == ""
    assert "in the tier tolerance" not in assay("job", "inspect", job).out
    assay("job", "calibrate", job, "--segments", "2")
    refused = assay("job", "run", job, "--hardware")
    assert "does not consent to hardware arithmetic" in refused.refusal
    profile = job / "profile.json"
    value = assay("job", "build", file, "--tolerance", profile, "-o", job, "--output", "json").json
    assert value["precision"] == "fp32"
    assert value["thresholds"] == len(json.loads(profile.read_text())["tensors"])
    assert value["id"] != before["id"]
    assert f"fp32, {value['thresholds']} thresholds" in assay("job", "inspect", job).out
    ran = assay("job", "run", job, "--rounds", "1", "--hardware")
    assert ran.code == 0
    assert "other machines have other bits" in ran.err
    assert assay("job", "calibrate", job, "--segments", "1", "--check", profile).code in (0, 1)

    text = file.read_text().replace('name="tiny"', 'name="another"')
    assert text != file.read_text()
    (tmp_path / "another.py").write_text(text)
    refused = assay("job", "build", tmp_path / "another.py", "--tolerance", profile, "-o", other)
    assert refused.refusal.startswith("job: ")
    assert "assay job calibrate" in refused.err
    assert not other.exists()
