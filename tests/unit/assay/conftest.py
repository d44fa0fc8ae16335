"""A job made by hand and trained here once, without torch."""

import shutil
from pathlib import Path

import pytest

from pol.local.run import run_locally
from tests.unit.pol.mlp import write_mlp_job


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job directory with a run and all its states; not to be written to."""
    directory = tmp_path_factory.mktemp("made") / "job"
    directory.mkdir()
    write_mlp_job(directory)
    run_locally(directory, out=directory / "run", keep_states=True)
    return directory


@pytest.fixture
def job(made: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    copy = tmp_path / "job"
    shutil.copytree(made, copy)
    return copy
