"""A GPU gives the bits of the reference, and so does a processor that computes in a GPU's way.

``.venv/bin/python -m pytest tests/gpu`` is what to run on a machine with a GPU; ``ASSAY_GPU`` names one of several
(``cuda:1``). Where there is none its half is skipped, and pytest says why.
"""

import json
import os
from collections.abc import Callable
from math import prod

import numpy as np
import pytest
import torch
from torch import Tensor

from pol.errors import ExecutionError, NotFinite, OutOfRange
from pol.executor import backend as backends
from pol.executor.backend import backend, torch_on
from pol.executor.integer_products import Speeds, always, in_digits, in_floats, measured
from pol.executor.interface import Backend, run, run_held
from pol.executor.known_program import KNOWN, answer
from pol.executor.names import NUMPY, TORCH, Engine
from pol.executor.row_guard import RowGuard
from pol.executor.row_sums import SumRows, in_passes
from pol.executor.torch_backend import TorchBackend, chains_on, sums_on
from pol.job.program import Program, ProgramBuilder
from pol.limits import MAX_SUMMED
from pol.ops.order import nowhere
from pol.ops.product import BITS, BLOCK, largest_digit
from pol.state.arrays import Array
from pol.state.held import on_host
from tests.support.chains import random_chain
from tests.support.programs import observed, outcome, shown
from tests.unit.pol.executor.ops import HOSTILE, NOT_FINITE, get
from tests.unit.pol.executor.stand_in import exact
from tests.unit.pol.executor.test_stand_ins import PINNED
from tests.vectors.arithmetic.cases import FAMILIES, asked, read
from tests.vectors.arithmetic.cases import answer as answer_to
from tests.vectors.arithmetic.check import compare
from tests.vectors.builders import training
from tests.vectors.kinds import first_difference, path_of

PROCESSOR = "cpu"
GPU = os.environ.get("ASSAY_GPU", "cuda")
PROGRAMS = {PROCESSOR: 12, GPU: 1_000}
GRAPHS = 60
CHAINS = 40
"""Each of them is a few kernels to compile."""
SECONDS = 900
"""What kernels take, which are compiled one after another."""
LARGEST = {PROCESSOR: 2_000, GPU: 2**62}
"""Elements of an operand of a vector that is asked: a processor is slow at products of digits."""

SHAPES = [(1, 1, 1), (16, 8, 8), (17, 8, 8), (3, 9, 5), (32, 32, 32), (33, 31, 65), (2, 130, 40)]


@pytest.fixture(params=[PROCESSOR, GPU], scope="module")
def device(request: pytest.FixtureRequest) -> str:
    if request.param != PROCESSOR and not torch.cuda.is_available():
        pytest.skip("torch finds no GPU on this machine")
    return str(request.param)


@pytest.fixture(scope="module")
def executor(device: str) -> Backend:
    """On a processor, one that goes a GPU's way."""
    return TorchBackend(PROCESSOR, on_gpu=True) if device == PROCESSOR else backend(Engine(TORCH, device))


@pytest.fixture(autouse=True)
def what_gpus_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse matrices of digits that CUDA refuses, and a layout that not every GPU has, on a processor, too."""
    multiply: Callable[[Tensor, Tensor], Tensor] = torch._int_mm

    def checked(left: Tensor, right: Tensor) -> Tensor:
        rows, summed = left.shape
        assert rows > 16
        assert summed % 8 == 0
        assert right.shape[1] % 8 == 0
        assert left.is_contiguous()
        assert right.t().is_contiguous()
        return multiply(left, right)

    monkeypatch.setattr(torch, "_int_mm", checked)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_vectors(family: str, executor: Backend, device: str) -> None:
    wrong = {
        (index, case["op"]): difference
        for index, case in enumerate(read(family))
        if all(prod(operand["shape"]) <= LARGEST[device] for operand in case["operands"])
        and (difference := compare(case, answer_to(executor, asked(case))))
    }
    assert not wrong


def test_the_job_of_the_vectors(executor: Backend) -> None:
    wanted = json.loads(path_of("training").read_text(encoding="utf-8"))
    assert first_difference(wanted, training.build(executor)) == ""


@pytest.mark.parametrize("device", [GPU], indirect=True)
def test_training_steps_and_large_products(executor: Backend) -> None:
    assert exact(executor) == PINNED


def test_the_known_program(executor: Backend) -> None:
    assert answer(executor) == KNOWN


@pytest.mark.timeout(SECONDS)
def test_random_programs(executor: Backend, device: str) -> None:
    for seed in range(PROGRAMS[device]):
        program, inputs = shown(np.random.default_rng(seed))
        wanted, found = (observed(one, program, inputs) for one in (get(NUMPY), executor))
        assert found == wanted, f"the program of seed {seed}"


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("device", [GPU], indirect=True)
def test_chains_are_kernels_with_the_bits_of_the_reference(device: str, caplog: pytest.LogCaptureFixture) -> None:
    """Of single nodes, too, and more of them than a process makes otherwise."""
    pytest.importorskip("triton", reason="Triton is not installed here")
    from pol.executor import triton_chains

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(triton_chains, "KERNELS_MAX", 10_000)
        patched.setattr(triton_chains, "STEPS_MIN", 1)
        executor = TorchBackend(device, chains=chains_on(device))
        for family in ("elementwise", "functions"):
            for index, case in enumerate(read(family)):
                assert not compare(case, answer_to(executor, asked(case))), f"{family} {index}"
        for seed in range(CHAINS):
            program, inputs = random_chain(np.random.default_rng(seed))
            wanted, found = (outcome(one, program, inputs) for one in (get(NUMPY), executor))
            assert found == wanted, f"the chain of seed {seed}"
    assert executor.in_chains, caplog.text


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("device", [GPU], indirect=True)
def test_random_programs_node_by_node(device: str) -> None:
    """As they run where no kernel can be made, with graphs or without."""
    sums = sums_on(device)
    executor, graphed = TorchBackend(device), TorchBackend(device, sum_rows=sums, in_graphs=sums is not None)
    for seed in range(GRAPHS):
        program, inputs = shown(np.random.default_rng(seed))
        wanted = ended(get(NUMPY), program, inputs)
        for turn in range(3):
            assert ended(graphed, program, inputs) == wanted, f"the program of seed {seed}, run {turn}"
    for seed in range(PROGRAMS[device] // 4):
        program, inputs = shown(np.random.default_rng(seed))
        wanted, found = (observed(one, program, inputs) for one in (get(NUMPY), executor))
        assert found == wanted, f"the program of seed {seed}"


def ended(executor: Backend, program: Program, inputs: dict[str, Array]) -> object:
    """The outputs of a run in canonical form, or how it ended."""
    try:
        found = run(program, inputs, 7, executor)
    except (NotFinite, OutOfRange) as error:
        return str(error)
    return {name: (value.tobytes(), value.shape, value.dtype) for name, value in found.items()}


def rows_taken() -> Program:
    """A program that uses row numbers, and may end with numbers that are not finite."""
    builder = ProgramBuilder()
    table, index = builder.input("table", "f32", (9, 40)), builder.input("index", "i64", (30,))
    taken = builder.node("take", table, index)
    builder.output("added", builder.node("add_rows", index, builder.node("mul", taken, taken), rows=9))
    builder.output("index", index)
    return builder.build()


@pytest.mark.parametrize("device", [GPU], indirect=True)
def test_a_program_that_runs_often_is_a_graph_with_the_same_bits(device: str) -> None:
    """Also for rows that do not exist, and for results that are not finite, and with later inputs."""
    executor, program, rng = backend(Engine(TORCH, device)), rows_taken(), np.random.default_rng(1)
    assert isinstance(executor, TorchBackend)
    before = executor.graphs
    for turn in range(12):
        table = rng.standard_normal((9, 40)).astype(np.float32)
        index = rng.integers(0, 9, 30)
        if turn % 4 == 2:
            index[turn] = 9
        if turn % 4 == 3:
            table[index[0]] = 1e30
        inputs: dict[str, Array] = {"table": table, "index": index}
        wanted, found = (ended(one, program, inputs) for one in (get(NUMPY), executor))
        assert found == wanted, turn
    assert executor.graphs == before + 1


@pytest.mark.parametrize("device", [GPU], indirect=True)
def test_results_of_a_graph_stay_when_it_runs_again(device: str) -> None:
    executor, program = backend(Engine(TORCH, device)), rows_taken()
    held = [
        run_held(program, {"table": np.full((9, 40), turn, np.float32), "index": np.arange(30) % 9}, 0, executor)
        for turn in range(5)
    ]
    sums = [float(on_host(outputs["added"])[8, 0]) for outputs in held]
    assert sums == [3.0 * turn * turn for turn in range(5)]


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("device", [GPU], indirect=True)
def test_random_programs_in_graphs(device: str) -> None:
    executor = backend(Engine(TORCH, device))
    assert isinstance(executor, TorchBackend)
    before = executor.graphs
    for seed in range(GRAPHS):
        program, inputs = shown(np.random.default_rng(seed))
        wanted = ended(get(NUMPY), program, inputs)
        for turn in range(4):
            assert ended(executor, program, inputs) == wanted, f"the program of seed {seed}, run {turn}"
    assert executor.graphs > before


def test_rows_are_checked_at_once_or_after_the_run(device: str) -> None:
    guard = RowGuard()
    right, wrong = (torch.tensor(rows, device=device) for rows in ([0, 4], [0, 5]))
    assert guard.checked(right, 5, nowhere).tolist() == [0, 4]
    with pytest.raises(OutOfRange, match="row 5"):
        guard.checked(wrong, 5, nowhere)
    with guard.noting() as noted:
        assert guard.checked(right, 5, nowhere).tolist() == [0, 4]
        assert guard.checked(wrong, 5, nowhere).tolist() == [0, 4]
        assert guard.checked(-wrong, 5, nowhere).tolist() == [0, 0]
    assert [bool(sign) for sign in noted] == [True, False, False]
    with pytest.raises(OutOfRange, match="row -5"):
        guard.checked(-wrong, 5, nowhere)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("shape", SHAPES)
def test_digits_give_the_sums(shape: tuple[int, int, int], bits: int, device: str) -> None:
    """Of any integers, of the largest ones, in batches, and of operands that are turned."""
    rows, summed, columns = shape
    generator = np.random.default_rng(bits)
    most = largest_digit(bits)
    left = generator.integers(-most, most + 1, (2, 3, rows, summed))
    right = generator.integers(-most, most + 1, (2, 3, columns, summed))
    left[0, 0], left[0, 1], right[0, :2] = most, -most, most
    a, b = (torch.from_numpy(x.astype(np.float64)).to(device) for x in (left, right))
    found = in_digits(a, b.transpose(-1, -2), bits).cpu().numpy()
    assert np.array_equal(found, left @ right.swapaxes(-1, -2))


@pytest.mark.parametrize(("bits", "summed"), [(8, MAX_SUMMED), (15, MAX_SUMMED), (22, BLOCK)])
def test_the_largest_sums(bits: int, summed: int, device: str) -> None:
    """No INT32 overflows, and a unit less is seen."""
    most = largest_digit(bits)
    a = torch.full((1, summed), float(most), dtype=torch.float64, device=device)
    b = a.t().clone()
    b[-1] -= 1
    assert int(in_digits(a, b, bits)) == summed * most**2 - most
    assert int(in_digits(-a, b, bits)) == most - summed * most**2


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 3, 0), (0, 0, 0)])
def test_products_without_elements(shape: tuple[int, int, int], device: str) -> None:
    rows, summed, columns = shape
    a, b = (torch.zeros(size, dtype=torch.float64, device=device) for size in ((rows, summed), (summed, columns)))
    assert in_digits(a, b, 15).shape == in_floats(a, b, 15).shape


def in_turn(rows: Array, added: Array, count: int) -> Array:
    """The sums, one row after another."""
    total = np.zeros((count, added.shape[1]), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for row, values in zip(rows, added, strict=True):
            total[row] += values
    return total


def sums_of_rows(device: str) -> list[SumRows]:
    kernel = sums_on(device)
    return [in_passes] if kernel is None else [in_passes, kernel]


@pytest.mark.parametrize("count", [1, 3, 50])
def test_rows_are_added_in_their_order(count: int, device: str) -> None:
    generator = np.random.default_rng(count)
    rows = generator.integers(0, count, 90)
    hostile = np.concatenate([HOSTILE, NOT_FINITE[:1]])
    for added in (
        generator.choice(hostile, (90, 4)),
        # their sums are below what is normal, and are no zeros
        np.full((90, 4), 1e-45, np.float32),
        generator.standard_normal((90, 4)).astype(np.float32),
        generator.standard_normal((90, 300)).astype(np.float32),
        generator.standard_normal((90, 0)).astype(np.float32),
    ):
        for sum_rows in sums_of_rows(device):
            total = sum_rows(torch.from_numpy(rows).to(device), torch.from_numpy(added).to(device), count)
            assert np.array_equal(total.cpu().numpy(), in_turn(rows, added, count), equal_nan=True)


@pytest.mark.parametrize("device", [GPU], indirect=True)
def test_both_ways_to_multiply_are_measured_and_used(executor: Backend, device: str) -> None:
    """A GPU that multiplies in FP64, and one that multiplies digits, have the same bits."""
    speeds = measured(device)
    assert min(speeds.small, speeds.digits, speeds.floats) > 0
    for multiply in (in_digits, in_floats):
        assert exact(TorchBackend(device, products=always(multiply))) == PINNED


def test_small_matrices_are_multiplied_in_fp64_and_large_ones_where_it_is_faster() -> None:
    slow_fp64 = Speeds(small=1e-4, digits=1e14, floats=1e12)
    assert slow_fp64.choose(2 * 32**3, 15) is in_floats
    assert slow_fp64.choose(2 * 4096**3, 15) is in_digits
    fast_fp64 = Speeds(small=1e-4, digits=1e14, floats=6e13)
    assert fast_fp64.choose(2 * 4096**3, 22) is in_floats
    assert fast_fp64.choose(2 * 4096**3, 8) is in_digits


def test_a_gpu_that_is_not_there_is_named() -> None:
    with pytest.raises(ExecutionError, match="torch cannot compute on 'cuda:93'"):
        backend(Engine(TORCH, "cuda:93"))


def test_a_device_that_computes_wrongly_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No device is at hand that does: another answer is what it has to give."""
    monkeypatch.setattr(backends, "KNOWN", "0" * 64)
    with pytest.raises(ExecutionError, match="computes wrong results on cpu:0"):
        torch_on("cpu:0")


def test_a_device_that_cannot_multiply_digits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(executor: Backend) -> str:
        raise RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED\nand how to debug it")

    monkeypatch.setattr(backends, "answer", fails)
    with pytest.raises(ExecutionError, match=r"on cpu:0: CUBLAS_STATUS_NOT_SUPPORTED$"):
        torch_on("cpu:0")
