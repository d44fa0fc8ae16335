import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.setup import environment
from tools.setup.environment import FULL_LOCK, HERE, NODE_LOCK, check_disk, locked
from tools.setup.steps import ROOT, Stop

LOCKS = (FULL_LOCK, NODE_LOCK, HERE / "requirements-go.lock")


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_lock_pins_everything_by_hash_and_names_no_address(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    pins = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert pins
    assert all("==" in pin and pin.endswith(" \\") for pin in pins)


def test_node_lock_is_a_part_of_the_full_lock() -> None:
    full = FULL_LOCK.read_text().splitlines()
    assert set(NODE_LOCK.read_text().splitlines()) - {""} <= {line for line in full if line}
    assert "torch==" not in NODE_LOCK.read_text()


def test_full_lock_meets_every_requirement_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["setup"]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    pins = dict(re.findall(r"^([a-z0-9-]+)==([^ ]+)", FULL_LOCK.read_text(), re.MULTILINE))
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


def test_locked_takes_one_package_with_its_hashes() -> None:
    lines = locked("uv", FULL_LOCK).splitlines()
    assert lines[0].startswith("uv==")
    assert len(lines) > 1
    assert all(line.startswith("    --hash=sha256:") for line in lines[1:])


def test_locked_refuses_what_the_lock_lacks() -> None:
    with pytest.raises(Stop, match="make lock"):
        locked("no-such-package", FULL_LOCK)


def test_full_disk_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "VENV", tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=11 * 10**9))
    check_disk(NODE_LOCK)
    with pytest.raises(Stop, match="11 GB free and 12 GB are needed"):
        check_disk(FULL_LOCK)
    (tmp_path / "lib/python3.11/site-packages/torch").mkdir(parents=True)
    check_disk(FULL_LOCK)


def test_no_python_is_one_sentence() -> None:
    result = subprocess.run(
        ["make", "setup", "PYTHON=no-such-python"],
        cwd=ROOT,
        env={**os.environ, "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode != 0
    assert "assay setup: there is no no-such-python: install Python" in result.stderr
    assert "Traceback" not in result.stderr


def test_it_needs_nothing_but_python() -> None:
    found = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(ROOT)!r}); import tools.setup.environment",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, "")
