"""The kernel that sums rows: what it computes, run on a processor, and the instructions that GPUs get."""

import ctypes
import re
import shutil
import subprocess

import numpy as np
import pytest

from pol.executor.cuda_rows import NAME, TEXT
from pol.state.arrays import Array
from tests.unit.pol.executor.ops import HOSTILE

nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="this torch has no CUDA libraries")

from pol.executor.cuda_kernels import OPTIONS, compiled  # noqa: E402

CAPABILITIES = [75, 80, 86, 90, 120]

AROUND = """\
struct Place { long long x; };
static thread_local Place blockIdx, blockDim, threadIdx;
#define __global__
KERNEL
extern "C" void run(float *a, const long long *b, const long long *c, const float *d, long long width, long long size)
{
    blockDim.x = 4;
    for (blockIdx.x = 0; blockIdx.x <= size / 4; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < 4; ++threadIdx.x)
            sum_rows(a, b, c, d, width, size);
}
"""
"""The kernel as a function of a processor, thread after thread, with some threads too many."""


@pytest.fixture(scope="module")
def on_processor(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("kernel")
    source, library = folder / "kernel.cc", folder / "kernel.so"
    source.write_text(AROUND.replace("KERNEL", TEXT))
    command = [compiler, "-shared", "-fPIC", "-O1", "-ffp-contract=off", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def summed(library: ctypes.CDLL, rows: Array, summands: Array, count: int) -> Array:
    width = summands.shape[1]
    order = np.argsort(rows, kind="stable")
    starts = np.searchsorted(rows[order], np.arange(count + 1))
    total = np.full((count, width), np.nan, np.float32)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (total, order, starts, summands)]
    library.run(*pointers, ctypes.c_int64(width), ctypes.c_int64(total.size))
    return total


@pytest.mark.parametrize("seed", range(8))
def test_rows_are_added_in_their_order(seed: int, on_processor: ctypes.CDLL) -> None:
    rng = np.random.default_rng(seed)
    count, width = (int(rng.integers(1, most)) for most in (9, 40))
    rows, summands = rng.integers(0, count, 20), rng.choice(HOSTILE, (20, width)).astype(np.float32)
    expected = np.zeros((count, width), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for row, values in zip(rows, summands, strict=True):
            expected[row] += values
    assert np.array_equal(summed(on_processor, rows, summands, count), expected, equal_nan=True)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_kernel_compiles_without_a_gpu(capability: int) -> None:
    assert compiled(NAME, TEXT, capability)[:4] == b"\x7fELF"


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_sums_of_rows_only_add_and_round_once(capability: int) -> None:
    """No instruction is fused or approximate, and none flushes subnormal numbers."""
    _, program = nvrtc.nvrtcCreateProgram(TEXT.encode(), b"kernel.cu", 0, [], [])
    options = [option.encode() for option in (f"--gpu-architecture=compute_{capability}", *OPTIONS)]
    (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    assert code == nvrtc.nvrtcResult.NVRTC_SUCCESS
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    found = set(re.findall(r"\s([a-z][a-z.0-9]*\.f(?:32|64)[a-z.0-9]*)\s", text.decode()))
    assert {name for name in found if not name.startswith(("ld.", "st.", "mov."))} <= {"add.f32", "add.rn.f32"}
    assert any(name.startswith("add") for name in found)


def test_a_text_that_is_no_kernel_is_refused() -> None:
    with pytest.raises(RuntimeError, match="COMPILATION"):
        compiled("wrong", "no kernel", 90)
