"""What lies in docs/operate for other programs says what they and ours understand."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from host.metrics import MetricKind
from tests.lint.references import ROOT
from tests.lint.test_documented_commands import wrong
from tools.references.operator import PARTS

FOLDER = ROOT / "docs" / "operate"
UNITS = sorted(FOLDER.glob("*.service"))
INSTALLED = "/opt/assay/.venv/bin/assay"
METRICS = {metric.name: metric for _, _, metrics in PARTS for metric in metrics}


def settings(unit: Path) -> dict[str, str]:
    lines = unit.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_command_that_there_is(unit: Path) -> None:
    program, _, rest = settings(unit)["ExecStart"].partition(" ")
    assert program == INSTALLED
    assert wrong(f"assay {rest}") == ""


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_leaves_room_for_the_sandbox(unit: Path) -> None:
    """Replays and training take a user and a network namespace; a node runs nothing of strangers."""
    found = settings(unit)
    assert found["RestrictNamespaces"] == ("yes" if "node start" in found["ExecStart"] else "user net")
    assert "SystemCallFilter" not in found
    assert found["User"] == "assay"


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze on this machine")
    here = ROOT / ".venv" / "bin" / "assay"
    copies = []
    for unit in UNITS:
        copies.append(tmp_path / unit.name)
        copies[-1].write_text(unit.read_text().replace(INSTALLED, os.fspath(here)))
    done = subprocess.run([program, "verify", "--man=no", *copies], capture_output=True, text=True, check=False)
    # Only of ours: it looks at what they depend on, too.
    said = [line for line in done.stderr.splitlines() if "assay" in line]
    assert (done.returncode, said) == (0, [])
    assert len(UNITS) == 3


def rules() -> list[Any]:
    yaml: Any = pytest.importorskip("yaml", reason="PyYAML comes with the site's generator")
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_alerts_ask_for_metrics_and_labels_that_there_are() -> None:
    found = rules()
    assert len({rule["alert"] for rule in found}) == len(found) > 10
    for rule in found:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smhd]", rule.get("for", "0s")), rule
        assert rule["labels"]["severity"] in {"page", "ticket"}
        names = re.findall(r"\bassay_[a-z_]+", rule["expr"])
        assert names or rule["expr"].startswith("up{"), rule
        assert set(names) <= METRICS.keys(), rule
        assert all(METRICS[name].kind is not MetricKind.HISTOGRAM for name in names), rule
        labels = {label for name in names for label in METRICS[name].labels}
        asked = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert asked <= labels | {"instance"}, rule
        assert rule["expr"].count("(") == rule["expr"].count(")")


def test_the_page_tells_what_to_do_at_each_alert() -> None:
    told = set(re.findall(r"\*\*(\w+)\*\*", (FOLDER / "monitoring.md").read_text()))
    assert {rule["alert"] for rule in rules()} - told == set()
