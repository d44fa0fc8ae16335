"""Borders of a model: values and gradients are compared with a prototype in FP64; other inputs are refused."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import assay
from pol.capture.graph.capture import Tensors, capture_program
from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import NATIVE, NUMPY, Engine

SHAPE = 3, 5, 11


def prototype(values: NDArray[Any], bits: int) -> NDArray[np.float64]:
    """Each row in multiples of its largest magnitude / (2^(bits-1) - 1), the nearest ones, halves upwards."""
    most = 2 ** (bits - 1) - 1
    decoded = np.zeros(values.shape)
    for place in np.ndindex(values.shape[:-1]):
        row = values[place].astype(np.float64)
        scale = np.abs(row).max() / most
        decoded[place] = np.floor(row / scale + 0.5) * scale if scale else 0.0
    return decoded


def values_and_gradients(inputs: Tensors, bits: int) -> dict[str, torch.Tensor]:
    leaf = inputs["x"].detach().requires_grad_()
    crossed = assay.border(leaf, bits)
    (gradient,) = torch.autograd.grad((crossed * inputs["weights"]).sum(), [leaf])
    return {"crossed": crossed.detach(), "gradient": gradient}


@pytest.mark.parametrize("bits", [8, 4])
def test_values_and_gradients_are_rounded_in_each_row(bits: int) -> None:
    rng = np.random.default_rng(bits)
    inputs = {name: torch.from_numpy(rng.standard_normal(SHAPE).astype(np.float32)) for name in ("x", "weights")}
    inputs["x"][1, 2] = 0
    program = capture_program(lambda tensors: values_and_gradients(tensors, bits), inputs)
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    eager = values_and_gradients(inputs, bits)
    found = {name: run(program, arrays, 0, backend(Engine(name))) for name in (NUMPY, NATIVE)}
    for name, of in (("crossed", "x"), ("gradient", "weights")):
        expected = prototype(arrays[of], bits)
        assert np.allclose(found[NUMPY][name], expected, rtol=1e-6, atol=1e-7)
        assert found[NUMPY][name].tobytes() == found[NATIVE][name].tobytes()
        assert np.array_equal(found[NUMPY][name], eager[name].numpy())
        levels = max(len(np.unique(row)) for row in found[NUMPY][name].reshape(-1, SHAPE[-1]))
        assert levels > 5


def test_a_row_that_is_not_finite_stays_so() -> None:
    rows = torch.tensor([[1.0, torch.nan], [torch.inf, 1.0], [-torch.inf, 0.0], [2.0, 1.0]])
    assert torch.isfinite(assay.border(rows)).all(1).tolist() == [False, False, False, True]


def test_a_scale_of_zero_gives_zeros() -> None:
    assert assay.border(torch.full((1, 4), 1e-45)).tolist() == [[0.0] * 4]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_type_of_activations_stays(dtype: torch.dtype) -> None:
    values = torch.tensor([[1.0, -0.5, 0.25, 3.0]], dtype=dtype, requires_grad=True)
    crossed = assay.border(values)
    assert crossed.dtype == dtype
    assert torch.allclose(crossed.float(), values.float(), atol=3.0 / 127)
    crossed.sum().backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    assert values.grad.dtype == dtype


@pytest.mark.parametrize("bits", [0, 5, 16, True, 8.0, "8"])
def test_other_bits_are_refused(bits: Any) -> None:
    with pytest.raises(JobError, match="is not a number of bits") as refused:
        assay.border(torch.zeros(2, 3), bits)
    assert refused.value.field == "border.bits"


@pytest.mark.parametrize("values", [torch.zeros(2, 3, dtype=torch.int64), torch.tensor(1.0)])
def test_what_is_no_activation_is_refused(values: torch.Tensor) -> None:
    with pytest.raises(JobError, match="cannot cross"):
        assay.border(values)
