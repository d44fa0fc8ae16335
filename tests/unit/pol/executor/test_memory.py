"""A program takes no more memory than it declares, on either executor.

NumPy's allocations are what tracemalloc counts, torch's what its profiler does. Functions work in blocks, which are
made small here so that a temporary array of a whole operand shows.
"""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pol.executor.interface import run
from pol.job.cost import BLOCKS_SIZE
from pol.job.program import Program, ProgramBuilder
from pol.ops import elementwise, philox
from pol.ops.table import PRIMITIVES
from pol.state.arrays import NUMPY_DTYPES, Array
from tests.support.bodies import moved, recurrence
from tests.unit.pol.executor.ops import get

SMALL_BLOCK = 2**12
ALLOWED = 2 * 2**20
"""Bytes of small blocks, of what a product packs, and of Python's own."""

Operands = list[tuple[str, tuple[int, ...]]]
SIDE = 1_024
MATRIX: tuple[int, int] = (SIDE, SIDE)


def _cases() -> dict[str, tuple[str, Operands, dict[str, object]]]:
    cases: dict[str, tuple[str, Operands, dict[str, object]]] = {}

    def add(op: str, operands: Operands, **attrs: object) -> None:
        cases[f"{op} {operands} {attrs}"] = op, operands, attrs

    for op in ("add", "div", "maximum", "minimum", "eq"):
        add(op, [("f32", MATRIX)] * 2)
        add(op, [("f32", (SIDE, 1)), ("f32", (1, SIDE))])
    for op in ("neg", "abs", "sqrt", "exp", "log", "tanh", "erf"):
        add(op, [("f32", MATRIX)])
    add("logical_and", [("bool", MATRIX)] * 2)
    add("logical_not", [("bool", MATRIX)])
    for dtype in ("f32", "i64", "bool"):
        add("where", [("bool", MATRIX), (dtype, MATRIX), (dtype, ())])
        add("sum", [(dtype, MATRIX)], dims=[0, 1], keepdim=False)
        for target in ("f32", "i64", "bool"):
            add("cast", [(dtype, MATRIX)], dtype=target)
    for dtype, dim in (("f32", 0), ("f32", 1), ("i64", 1)):
        for op in ("sum", "amax"):
            add(op, [(dtype, MATRIX)], dims=[dim], keepdim=False)
        add("argmax", [(dtype, MATRIX)], dim=dim, keepdim=False)
    # one more than a power of two: the halving sum keeps nearly all of it
    add("sum", [("f32", (2**20 + 1,))], dims=[0], keepdim=False)
    add("argmax", [("f32", (2**19, 2))], dim=1, keepdim=False)
    for left, right in ((MATRIX, MATRIX), ((SIDE, 1), (1, SIDE)), ((2**19, 2), (2, 2))):
        add("matmul", [("f32", left), ("f32", right)], bits=15)
    # several blocks of the summed dimension, and more rows than a block has
    for left, right in (((SIDE, 2_049), (2_049, SIDE)), ((5_000, 2_049), (2_049, 600))):
        add("matmul", [("f32", left), ("f32", right)], bits=22)
    # nine times the operand would be 36 MiB
    windows = {"strides": [1, 1], "kernel": [3, 3], "steps": [1, 1], "starts": [0, 0]}
    for precision, channels, groups, summed, rows in (
        (15, 1, (1, 2, 9), False, 1_022),
        (15, 4, (4, 3, 126 * 1_022), True, 126),
        (22, 4, (4, 3, 126 * 1_022), True, 126),
    ):
        add(
            "matmul_windows",
            [("f32", groups), ("f32", (channels, *MATRIX))],
            bits=precision,
            transposed=summed,
            counts=[rows, 1_022],
            **windows,
        )
    add("permute", [("f32", MATRIX)], dims=[1, 0])
    add("slice", [("f32", MATRIX)], starts=[0, 0], stops=[SIDE, SIDE], steps=[1, 2])
    add("concat", [("f32", MATRIX)] * 2, dim=1)
    add("pad", [("f32", MATRIX)], low=[1, 1], high=[0, 0], value="00000000")
    add("take", [("f32", (4, 1)), ("i64", (2**20,))])
    add("floor_divide", [("i64", MATRIX)] * 2)
    add("add_rows", [("i64", (2**20,)), ("f32", (2**20,))], rows=4)
    add("add_rows", [("i64", (SIDE,)), ("f32", MATRIX)], rows=SIDE)
    for dtype, dim in (("f32", 0), ("f32", 1), ("i64", 0)):
        add("argsort", [(dtype, MATRIX)], dim=dim)
    add("argsort", [("f32", (2**20,))], dim=0)
    add("reshape", [("f32", MATRIX)], shape=[2**20])
    add("broadcast", [("f32", (SIDE, 1))], shape=list(MATRIX))
    add("iota", [], size=2**20)
    add("full", [], shape=list(MATRIX), dtype="f32", value="00000000")
    add("uniform", [("i64", ())], shape=list(MATRIX), site=0)
    shape = (SIDE // 4, SIDE)
    repeated = {"count": 4, "reverse": False}
    add(
        "repeat",
        [("f32", shape), ("f32", (4, *shape)), ("f32", shape)],
        body=recurrence(shape),
        **repeated,
    )
    add("repeat", [("f32", shape), ("f32", (4, *shape))], body=moved(shape), **repeated)
    return cases


CASES = _cases()


def _prepared(op: str, operands: Operands, attrs: dict[str, object]) -> tuple[Program, dict[str, Array]]:
    builder = ProgramBuilder()
    handles = [builder.input(f"global.t{i}", *operand) for i, operand in enumerate(operands)]
    builder.output("global.y", builder.node(op, *handles, **attrs))
    inputs = {f"global.t{i}": np.ones(shape, NUMPY_DTYPES[dtype]) for i, (dtype, shape) in enumerate(operands)}
    return builder.build(), inputs


def _numpy_peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def _torch_peak(work: Callable[[], object]) -> int:
    """Torch's own allocations; NumPy's at the ends of a run are seen by the other executor."""
    with torch.profiler.profile(profile_memory=True) as profile:
        work()
    results: Any = profile.profiler
    moves = [event for event in results.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(moves, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from pol.executor import torch_backend

    monkeypatch.setattr(elementwise, "_BLOCK", SMALL_BLOCK)
    monkeypatch.setattr(torch_backend, "_BLOCK", SMALL_BLOCK)
    monkeypatch.setattr(philox, "_PART", SMALL_BLOCK // 4)


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("name", ["numpy", "torch"])
@pytest.mark.parametrize("case", CASES)
def test_a_node_takes_no_more_than_it_declares(case: str, name: str) -> None:
    program, inputs = _prepared(*CASES[case])
    executor, measure = get(name), {"numpy": _numpy_peak, "torch": _torch_peak}[name]
    run(program, inputs, 1, executor)
    held = sum(array.nbytes for array in inputs.values())
    # the caller's own inputs are counted, and here before
    assert measure(lambda: run(program, inputs, 1, executor)) <= program.peak_size - held + ALLOWED


@pytest.mark.parametrize("name", ["numpy", "torch"])
@pytest.mark.parametrize("case", [case for case in CASES if case.split()[0] in ("erf", "uniform")])
def test_blocks_fit_what_is_said_of_them(case: str, name: str) -> None:
    program, inputs = _prepared(*CASES[case])
    executor, measure = get(name), {"numpy": _numpy_peak, "torch": _torch_peak}[name]
    peak = measure(lambda: run(program, inputs, 1, executor))
    assert peak <= program.peak_size + BLOCKS_SIZE


def test_what_is_allocated_is_seen() -> None:
    size = 4 * 2**20
    assert _numpy_peak(lambda: np.ones(2**20, np.float32)) >= size
    assert _torch_peak(lambda: torch.ones(2**20)) >= size


def test_each_kind_of_memory_is_shown() -> None:
    shown = {(row.scratch, row.scratch_result) for row in map(PRIMITIVES.get, _names()) if row}
    assert shown == {(row.scratch, row.scratch_result) for row in PRIMITIVES.values()}


def _names() -> list[str]:
    return [case.split()[0] for case in CASES]
