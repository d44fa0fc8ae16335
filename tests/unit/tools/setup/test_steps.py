import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.setup import steps
from tools.setup.steps import Stop


@pytest.fixture(autouse=True)
def scratch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(steps, "ROOT", tmp_path)
    monkeypatch.setattr(steps, "STAMPS", tmp_path / "stamps")
    return tmp_path


def counting(runs: list[str]) -> Callable[[], None]:
    return lambda: runs.append("run")


def test_step_runs_once_for_a_key_and_again_for_another() -> None:
    runs: list[str] = []
    steps.step("a step", "1", lambda: True, counting(runs))
    steps.step("a step", "1", lambda: True, counting(runs))
    assert len(runs) == 1
    steps.step("a step", "2", lambda: True, counting(runs))
    assert len(runs) == 2


def test_step_runs_again_when_its_result_is_gone() -> None:
    runs: list[str] = []
    steps.step("a step", "1", lambda: True, counting(runs))
    steps.step("a step", "1", lambda: False, counting(runs))
    assert len(runs) == 2


def test_failed_step_leaves_no_stamp() -> None:
    def fail() -> None:
        raise Stop("no")

    steps.step("a step", "1", lambda: True, lambda: None)
    with pytest.raises(Stop):
        steps.step("a step", "2", lambda: True, fail)
    runs: list[str] = []
    steps.step("a step", "1", lambda: True, counting(runs))
    assert runs


@pytest.mark.parametrize(
    ("output", "remedy"),
    [
        ("dial tcp: lookup example.org: no such host", "check the connection"),
        ("error: Failed to fetch: `x`\n  Caused by: dns error", "check the connection"),
        ("cause: invalid peer certificate: UnknownIssuer\nerror sending request", "SSL_CERT_FILE"),
        ("OSError: [Errno 28] No space left on device", "free some space"),
        ("first\nthe last words.\n\n", "(the last words): see .assay-setup.log"),
        ("", "see .assay-setup.log"),
    ],
)
def test_failed_child_is_one_sentence_with_a_remedy(output: str, remedy: str, scratch: Path) -> None:
    command = [sys.executable, "-c", f"import sys; sys.stderr.write({output!r}); sys.exit(3)"]
    with pytest.raises(Stop) as stopped:
        steps.run(command, "this")
    sentence = str(stopped.value)
    assert sentence.startswith("this failed ")
    assert remedy in sentence
    assert "\n" not in sentence
    assert (scratch / ".assay-setup.log").read_text() == output


def test_child_that_succeeds_leaves_no_log(scratch: Path) -> None:
    steps.run([sys.executable, "-c", "print('noise')"], "this")
    assert list(scratch.iterdir()) == []


def test_of_several_children_the_failure_of_one_ends_all(scratch: Path) -> None:
    waits = [sys.executable, "-c", "import time; time.sleep(60)"]
    fails = [sys.executable, "-c", "import sys; sys.exit('the last words')"]
    start = time.monotonic()
    with pytest.raises(Stop, match="the last words"):
        steps.run_all([fails, waits], "this")
    assert time.monotonic() - start < 30


def test_each_of_several_children_runs(scratch: Path) -> None:
    files = [scratch / str(number) for number in range(9)]
    code = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()"
    steps.run_all([[sys.executable, "-c", code, str(file)] for file in files], "this")
    assert sorted(scratch.iterdir()) == files
