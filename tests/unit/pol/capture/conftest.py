"""Jobs that several tests look at, built once."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pol.capture.build import build_job
from pol.errors import JobError
from pol.job.document import Job

EXAMPLES = Path(__file__).parents[4] / "examples"


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Job]:
    folder = tmp_path_factory.mktemp("digits")
    return folder, build_job(EXAMPLES / "digits.py", folder)


_INTERNAL = re.compile(
    r"\baten\b|\bprims\b|torch\.ops|assay::|_(tensor|param)_constant|\bsym_|\bSym(Int|Float|Bool)\b"
    r"|FakeTensor|ProxyTensor|FunctionalTensor|functionaliz|StorageImpl|TensorImpl|GraphModule"
    r"|\bbuiltins\b|<locals>|0x[0-9a-f]{6}|\bu\d+\b"
)
"""Names that only the tracer and torch itself know."""
_GENERAL = "lists what works"
"""Part of the remedy where there is no better one."""


@pytest.fixture(autouse=True)
def sentences_for_people(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test in which a refusal shows an internal name, or puts general advice behind a better one."""
    refusals: list[JobError] = []
    made = JobError.__init__

    def noted(self: JobError, field: str, reason: str, remedy: str) -> None:
        made(self, field, reason, remedy)
        refusals.append(self)

    monkeypatch.setattr(JobError, "__init__", noted)
    yield
    # a field may quote the line of the person
    said = [f"{refusal.reason}; {refusal.remedy}" for refusal in refusals]
    assert [text for text in said if _INTERNAL.search(text)] == []
    assert [r.remedy for r in refusals if _GENERAL in r.remedy and ";" in r.remedy] == []
