"""One SHA-256 on stand-ins for other hardware, where plain FP32 has several: a small part of the benchmark."""

import platform
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from benchmarks import exactness
from benchmarks.exactness import ControlOutcome, build_jobs, measure
from pol.executor.names import BACKENDS, NUMPY, TORCH
from tests.support.controls import CONTROLS, FEW, Control

PROGRAMS = 5
Outcomes = dict[Control, ControlOutcome]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    folder = tmp_path_factory.mktemp("jobs")
    build_jobs(folder, ["digits-alone"])
    with ThreadPoolExecutor(2) as threads:
        found = threads.map(lambda control: measure(control, folder, PROGRAMS), FEW)
        return dict(zip(FEW, found, strict=True))


@pytest.mark.timeout(1_200)  # more than a dozen processes, five of which import torch
@pytest.mark.parametrize("control", FEW, ids=str)
def test_exact_arithmetic_has_one_hash(control: Control, outcomes: Outcomes) -> None:
    if outcomes[control].missing:
        pytest.skip(f"{control}: {outcomes[control].missing}")
    assert outcomes[control].exact == outcomes[Control(NUMPY)].exact


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("library", [NUMPY, TORCH])
def test_plain_fp32_differs_somewhere(library: str, outcomes: Outcomes) -> None:
    """Without this, the test above would show nothing."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("most stand-ins are those of x86-64")
    found = {
        outcome.plain for control, outcome in outcomes.items() if control.executor == library and not outcome.missing
    }
    assert len(found) > 1


def test_every_executor_has_controls() -> None:
    for controls in (CONTROLS, FEW):
        assert {control.executor for control in controls} == set(BACKENDS)


def test_another_hash_fails_and_what_is_missing_is_said() -> None:
    one, two, three = CONTROLS[:3]
    same = {one: ControlOutcome("a", "p", 1.0), two: ControlOutcome("a", "q", 1.0), three: ControlOutcome(missing="no")}
    found = exactness.figures(same)
    assert not found.failed
    assert found.notes == [f"{three}: no"]
    other = exactness.figures({**same, two: replace(same[two], exact="b")})
    assert other.failed
    assert next(row.ratio for row in other.rows if row.unit == "hashes") == 2


def test_nothing_that_could_be_done_is_no_success() -> None:
    assert exactness.figures({CONTROLS[0]: ControlOutcome(missing="no")}).failed
