"""One hash whatever the kernels: environment variables make one machine stand for many.

The control is the same work in plain FP32, which must differ somewhere: else nothing is proven.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from pol.executor.backend import backend
from tests.unit.pol.executor.stand_in import exact

ROOT = Path(__file__).parents[4]
X86 = platform.machine() in ("x86_64", "AMD64")


def _flags() -> str:
    information = Path("/proc/cpuinfo")
    return information.read_text() if information.exists() else ""


def _cores() -> list[str]:
    """OpenBLAS core types that this processor can run."""
    if not X86:
        return ["ARMV8", "NEOVERSEN1"]
    cores = ["Prescott", "Nehalem"]
    if "avx2" in _flags():
        cores += ["Haswell", "Zen"]
    return cores + ["SkylakeX"] * ("avx512f" in _flags())


def _capabilities() -> list[str]:
    """ATen capabilities that this processor can run."""
    capabilities = ["default"] + ["avx2"] * ("avx2" in _flags())
    return capabilities + ["avx512"] * ("avx512f" in _flags())


def _run(*arguments: str, **environment: str) -> list[tuple[str, str]]:
    command = [sys.executable, "-m", "tests.unit.pol.executor.stand_in", *arguments]
    base = {name: value for name, value in os.environ.items() if "THREADS" not in name}
    variables = {**base, **environment}
    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second = zip(*(line.split() for line in done.stdout.splitlines()), strict=True)
    return list(zip(first, second, strict=True))


PINNED = "b483bf295d0163e5bd2efbc8879001ddb79c0695c80b30f6c43475b1d1512750"
"""Root of the work on any machine; it changes with the executor version only."""


def test_this_process() -> None:
    assert exact(backend("numpy")) == PINNED


@pytest.mark.timeout(900)
def test_numpy_on_other_processors() -> None:
    results = {
        (core, threads): _run("numpy", OPENBLAS_CORETYPE=core, OPENBLAS_NUM_THREADS=threads)[0]
        for core in _cores()
        for threads in ("1", "2")
    }
    assert {ours for ours, _ in results.values()} == {PINNED}
    assert len({plain for _, plain in results.values()}) > 1, "plain FP32 agreed everywhere"


@pytest.mark.timeout(900)
def test_torch_on_other_processors() -> None:
    results = {
        capability: _run("torch", "1", "2", ATEN_CPU_CAPABILITY=capability)
        for capability in _capabilities()
    }
    if X86:
        results["MKL_CBWR"] = _run("torch", "1", "2", MKL_CBWR="COMPATIBLE")
    pairs = [pair for found in results.values() for pair in found]
    assert {ours for ours, _ in pairs} == {PINNED}
    assert len({plain for _, plain in pairs}) > 1, "plain FP32 agreed everywhere"
