"""Jobs that several tests look at, built once."""

from pathlib import Path

import pytest

from pol.job.document import Job
from pol.tracing.build import build_job

EXAMPLES = Path(__file__).parents[4] / "examples"


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Job]:
    folder = tmp_path_factory.mktemp("digits")
    return folder, build_job(EXAMPLES / "digits.py", folder)
