"""Hardware arithmetic computes the same programs with other bits, and nothing that compares bits can choose it."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pol.errors import ExecutionError, NotFinite
from pol.executor import hardware_backend as module
from pol.executor.hardware import ORDERS, Hardware
from pol.executor.hardware_backend import hardware_backend
from pol.executor.interface import Backend, run
from pol.executor.known_program import KNOWN, answer
from pol.executor.names import Engine
from pol.job.program import ProgramBuilder
from pol.rules.tolerance import BF16, FP32, TF32
from pol.state.arrays import Array, dtype_name
from tests.unit.pol.executor.ops import SEED
from tests.unit.pol.executor.test_windows import forms, matrix

ENGINES = {order: hardware_backend(Hardware(order=order)) for order in ORDERS}
FEW_BITS = hardware_backend(Hardware(precision=BF16))


def apply(engine: Backend, op: str, *arrays: Array, **attrs: object) -> Array:
    """Return the result of one node."""
    builder = ProgramBuilder()
    handles = [builder.input(f"global.t{i}", dtype_name(array, op), array.shape) for i, array in enumerate(arrays)]
    builder.output("global.shown", builder.node(op, *handles, **attrs))
    inputs = {f"global.t{i}": array for i, array in enumerate(arrays)}
    return run(builder.build(), inputs, SEED, engine)["global.shown"]


def normal(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("order", ORDERS)
def test_products_and_sums_are_near_those_of_fp64(order: str) -> None:
    engine = ENGINES[order]
    a, b = normal(3, 5, 301), normal(3, 301, 7, seed=2)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(apply(engine, "matmul", a, b, bits=15), exact, atol=1e-4)
    for dims in ([], [0], [2], [0, 2], [0, 1, 2]):
        exact = a.astype(np.float64).sum(tuple(dims))
        found = apply(engine, "sum", a, dims=dims, keepdim=False)
        assert found.shape == exact.shape
        np.testing.assert_allclose(found, exact, atol=1e-3)
    kept = apply(engine, "sum", a, dims=[1], keepdim=True)
    assert kept.shape == (3, 1, 301)


def test_orders_of_summation_give_other_bits() -> None:
    a, b = normal(5, 999), normal(999, 7, seed=2)
    products = {apply(engine, "matmul", a, b, bits=15).tobytes() for engine in ENGINES.values()}
    assert len(products) == len(ORDERS)
    sums = {apply(engine, "sum", a, dims=[1], keepdim=False).tobytes() for engine in ENGINES.values()}
    assert len(sums) > 1


def test_bf16_has_8_bits_in_products_alone() -> None:
    a, b = normal(20, 40), normal(40, 20, seed=2)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = np.abs(apply(FEW_BITS, "matmul", a, b, bits=15) - exact).max()
    assert 1e-3 < error < 0.3
    assert apply(FEW_BITS, "add", a, a).tobytes() == (a + a).tobytes()


@pytest.mark.parametrize(("op", "reference"), [("exp", np.exp), ("tanh", np.tanh), ("sqrt", np.sqrt), ("log", np.log)])
def test_functions_are_those_of_torch(op: str, reference: np.ufunc) -> None:
    x = np.abs(normal(100)) + np.float32(0.1)
    np.testing.assert_allclose(apply(ENGINES["forward"], op, x), reference(x.astype(np.float64)), rtol=1e-6)


@pytest.mark.parametrize("order", ORDERS)
def test_rows_are_added(order: str) -> None:
    index, values = np.array([2, 0, 2, 2], np.int64), normal(4, 3)
    expected = np.zeros((4, 3), np.float64)
    np.add.at(expected, index, values)
    np.testing.assert_allclose(apply(ENGINES[order], "add_rows", index, values, rows=4), expected, atol=1e-6)
    with pytest.raises(ExecutionError):
        apply(ENGINES[order], "add_rows", np.array([4], np.int64), normal(1, 3), rows=4)


def test_integers_stay_exact() -> None:
    numbers = np.array([[2**53 + 1, 2**62], [1, -3]], np.int64)
    for engine in (*ENGINES.values(), FEW_BITS):
        assert apply(engine, "sum", numbers, dims=[0], keepdim=False).tolist() == [2**53 + 2, 2**62 - 3]
        assert apply(engine, "floor_divide", numbers, np.full((2, 2), 3, np.int64)).tolist() == [
            [(2**53 + 1) // 3, 2**62 // 3],
            [0, -1],
        ]
        counted = apply(engine, "sum", np.array([True, False]), dims=[], keepdim=False)
        assert str(counted.dtype) == "int64"
        assert counted.tolist() == [1, 0]
    uniform = [apply(engine, "uniform", np.array(5, np.int64), shape=[9], site=1) for engine in ENGINES.values()]
    assert len({draw.tobytes() for draw in uniform}) == 1


@settings(max_examples=40, deadline=None)
@given(forms(), st.integers(1, 2), st.integers(1, 3), st.integers(1, 4), st.booleans(), st.sampled_from(ORDERS))
@pytest.mark.parametrize("at_once", [2**24, 1])
def test_windows(
    at_once: int,
    sizes: tuple[tuple[int, ...], dict[str, list[int]]],
    groups: int,
    channels: int,
    rows: int,
    transposed: bool,
    order: str,
) -> None:
    shape, form = sizes
    x = normal(groups * channels, *shape)
    columns = matrix(x, groups, form)
    right = columns.swapaxes(-1, -2) if transposed else columns
    left = normal(groups, rows, right.shape[1], seed=2)
    assert prod(right.shape) > 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_WINDOWS_SIZE", at_once)
        engine = hardware_backend(Hardware(order=order))
        found = apply(engine, "matmul_windows", left, x, bits=15, transposed=transposed, **form)
    np.testing.assert_allclose(found, left.astype(np.float64) @ right.astype(np.float64), atol=1e-4)


def test_what_is_not_finite_ends_the_run() -> None:
    with pytest.raises(NotFinite):
        apply(ENGINES["forward"], "exp", np.array([1e4], np.float32))


def test_no_engine_names_it_and_its_bits_are_not_those_of_one() -> None:
    assert answer(ENGINES["forward"]) != KNOWN
    for name in ("hardware", FP32, BF16):
        with pytest.raises(ExecutionError):
            Engine(name).check()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"precision": "fp8"}, "precision"),
        ({"precision": TF32}, "precision"),
        ({"order": "sideways"}, "order"),
        ({"device": "tpu"}, "device"),
        ({"threads": -1}, "threads"),
    ],
)
def test_a_choice_that_no_machine_has(change: dict[str, object], field: str) -> None:
    with pytest.raises(ExecutionError) as caught:
        hardware_backend(replace(Hardware(), **change))  # type: ignore[arg-type]
    assert caught.value.field == field


def test_the_precision_of_products_is_restored() -> None:
    import torch

    before = torch.get_float32_matmul_precision()
    apply(FEW_BITS, "matmul", normal(2, 2), normal(2, 2), bits=15)
    assert torch.get_float32_matmul_precision() == before


def test_a_choice_in_words() -> None:
    assert str(Hardware(order="reversed", threads=1)) == "fp32 on cpu, 1 thread, sums reversed"
