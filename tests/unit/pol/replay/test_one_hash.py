"""One SHA-256 for a segment of the demo's job on every stand-in for other hardware, where plain FP32 has several."""

import json
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from pol.tracing.build import build_job

ROOT = Path(__file__).parents[4]
CORES = {
    "Haswell": "avx2",
    "SkylakeX": "avx512f",
    "Zen": "avx2",
    "Prescott": "sse",
    "Nehalem": "sse4_2",
}
CAPABILITIES = {"default": "sse", "avx2": "avx2", "avx512": "avx512f"}
THREADS = ("1", "2")


@dataclass(frozen=True)
class Case:
    """A library, its environment, and the CPU feature without which it ends in SIGILL."""

    library: str
    setting: tuple[tuple[str, str], ...]
    needs: str

    def __str__(self) -> str:
        return "-".join((self.library, *(value for _, value in self.setting)))


CASES = [
    *(
        Case("numpy", (("OPENBLAS_CORETYPE", core), ("OPENBLAS_NUM_THREADS", threads)), CORES[core])
        for core, threads in product(CORES, THREADS)
    ),
    *(
        Case(
            "torch",
            (("ATEN_CPU_CAPABILITY", kind), ("OMP_NUM_THREADS", threads)),
            CAPABILITIES[kind],
        )
        for kind, threads in product(CAPABILITIES, THREADS)
    ),
    Case("torch", (("MKL_CBWR", "COMPATIBLE"), ("OMP_NUM_THREADS", "1")), "sse"),
]
Hashes = dict[Case, dict[str, str]]


def _features() -> set[str]:
    """Return what the CPU can do, or nothing where that cannot be known (the stand-ins are x86's)."""
    file = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not file.is_file():
        return set()
    lines = (line for line in file.read_text().splitlines() if line.startswith("flags"))
    return set(next(lines, "").split())


RUNNABLE = [case for case in CASES if case.needs in _features()]


def _hashes(folder: Path, case: Case) -> dict[str, str]:
    script = Path(__file__).parent / "segment_hash.py"
    result = subprocess.run(
        [sys.executable, str(script), str(folder), case.library],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **dict(case.setting)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{case}: {result.returncode} {result.stderr}"
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def hashes(tmp_path_factory: pytest.TempPathFactory) -> Hashes:
    folder = tmp_path_factory.mktemp("digits")
    build_job(ROOT / "examples" / "digits.py", folder)
    with ThreadPoolExecutor(2) as threads:
        found = threads.map(lambda case: _hashes(folder, case), RUNNABLE)
        return dict(zip(RUNNABLE, found, strict=True))


@pytest.mark.timeout(400)  # up to seventeen processes, seven of which import torch
@pytest.mark.parametrize("case", CASES, ids=str)
def test_exact_arithmetic_has_one_hash(case: Case, hashes: Hashes) -> None:
    if case not in hashes:
        pytest.skip(f"{case}: this CPU has no {case.needs}")
    assert hashes[case]["exact"] == hashes[RUNNABLE[0]]["exact"]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_plain_fp32_differs_somewhere(library: str, hashes: Hashes) -> None:
    """Without this, the test above would show nothing."""
    found = {result["plain"] for case, result in hashes.items() if case.library == library}
    if not found:
        pytest.skip("the stand-ins are those of x86-64")
    assert len(found) > 1
