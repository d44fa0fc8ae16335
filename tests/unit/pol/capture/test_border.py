"""Borders of a model: values and gradients are compared with a prototype in FP64; other inputs are refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import assay
from pol.capture.author.spec import JobSpec
from pol.capture.build import build
from pol.capture.graph.capture import Tensors, capture_program
from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import NATIVE, NUMPY, Engine
from pol.job.load import load_job
from pol.local.run import run_locally
from pol.split.costs import cost_of
from pol.split.machine import Machine
from pol.split.plan import make_plan
from pol.split.virtual import VirtualMachines

SHAPE = 3, 5, 11
ROWS = 7
WIDTH = 64


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


class RememberedPrototype:
    """A border with a memory in FP64: what crosses is the difference to the last activation of the same row."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.memory = np.zeros((ROWS, *SHAPE[1:]))

    def visit(self, values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the activations behind the border."""
        self.memory[rows] += prototype(values - self.memory[rows], self.bits)
        return self.memory[rows]


class Remembering(torch.nn.Module):
    """Two layers with a border between them, with or without a memory."""

    def __init__(self, bits: int, remembers: bool) -> None:
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Linear(6, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH))
        self.second = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, 3))
        self.memory = assay.BorderMemory(32, (WIDTH,), bits) if remembers else None
        self.bits = bits

    def forward(self, x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.first(x))
        x = assay.border(x, self.bits) if self.memory is None else self.memory(x, row)
        result: torch.Tensor = self.second(x)
        return result


def remembering_job(bits: int, remembers: bool = True, **changes: Any) -> JobSpec:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((32, 6)).astype(np.float32)
    data = {"x": x, "row": np.arange(32), "y": (x[:, 0] > 0).astype(np.int64)}
    made = JobSpec(
        name="remembering",
        model=Remembering(bits, remembers),
        loss=lambda model, batch: torch.nn.functional.cross_entropy(model(batch["x"], batch["row"]), batch["y"]),
        train=data,
        holdout=data,
        batch=8,
        steps=12,
    )
    return replace(made, **changes)


@pytest.mark.parametrize("bits", [8, 4])
def test_a_border_with_a_memory_sends_differences(bits: int) -> None:
    """Captured visits of the same rows agree with a prototype, and both sides remember the same."""
    border, wanted = assay.BorderMemory(ROWS, SHAPE[1:], bits), RememberedPrototype(bits)

    def visit(inputs: Tensors) -> dict[str, torch.Tensor]:
        border.sent, border.received = inputs["sent"].clone(), inputs["received"].clone()
        leaf = inputs["x"].detach().requires_grad_()
        crossed = border(leaf, inputs["rows"])
        (gradient,) = torch.autograd.grad((crossed * inputs["weights"]).sum(), [leaf])
        outputs = {"crossed": crossed.detach(), "gradient": gradient}
        return {**outputs, "sent": border.sent, "received": border.received}

    rng = np.random.default_rng(bits)
    activations = rng.standard_normal((ROWS, *SHAPE[1:])).astype(np.float32)
    arrays: dict[str, NDArray[Any]] = {
        "x": activations[:3],
        "weights": rng.standard_normal(SHAPE).astype(np.float32),
        "rows": np.array([4, 0, 6]),
        "sent": np.zeros((ROWS, *SHAPE[1:]), np.float32),
        "received": np.zeros((ROWS, *SHAPE[1:]), np.float32),
    }
    program = capture_program(visit, {name: torch.from_numpy(array) for name, array in arrays.items()})
    errors = []
    for rows in ([4, 0, 6], [4, 6, 1], [0, 4, 6], [4, 6, 0]):
        activations += 0.001 * rng.standard_normal(activations.shape).astype(np.float32)
        arrays["x"], arrays["rows"] = activations[rows], np.array(rows)
        found, again = (run(program, arrays, 0, backend(Engine(name))) for name in (NUMPY, NATIVE))
        assert np.allclose(found["crossed"], wanted.visit(arrays["x"].astype(np.float64), arrays["rows"]), atol=1e-5)
        assert np.allclose(found["gradient"], prototype(arrays["weights"], bits), rtol=1e-6, atol=1e-7)
        assert found["sent"].tobytes() == found["received"].tobytes()
        assert all(found[name].tobytes() == again[name].tobytes() for name in found)
        arrays["sent"], arrays["received"] = found["sent"], found["received"]
        errors.append(np.abs(found["crossed"] - arrays["x"]).max())
    assert np.allclose(arrays["sent"], wanted.memory, atol=1e-5)
    # a row that was seen before crosses almost as it is, although it has as few bits
    assert errors[-1] < 0.3 * errors[0]


def test_a_job_remembers_in_training_only(tmp_path: Path) -> None:
    build(remembering_job(bits=4), tmp_path)
    loaded = load_job(tmp_path)
    assert {"memory.sent", "memory.received"} < set(loaded.global_state)
    evaluate = loaded.job.document.eval
    read = {argument for node in evaluate.nodes for argument in node.args}
    assert not any("memory" in spec.name for at, spec in enumerate(evaluate.inputs) if at in read)
    report = run_locally(tmp_path)
    assert report.after["loss"] < report.before["loss"]


def test_only_codes_cross_between_two_stages(tmp_path: Path) -> None:
    """Each machine has a memory of its own, so the plan sends little more than it does without a memory."""
    sent = {}
    for remembers in (False, True):
        build(remembering_job(bits=4, remembers=remembers), tmp_path / str(remembers))
        loaded = load_job(tmp_path / str(remembers))
        step = loaded.job.document.step
        plan = make_plan(step, [Machine(speed=10**9, memory=2**33, bandwidth=10**8)] * 2, stages=2)
        sent[remembers] = cost_of(plan).bytes
    assert plan.homes["global.memory.sent"] != plan.homes["global.memory.received"]
    # the activations of a batch, and their gradients, have 2,048 bytes each
    assert sent[False] < 1024
    assert sent[False] < sent[True] < sent[False] + 256
    inputs: dict[str, NDArray[Any]] = {"step": np.array(3), "batch_number": np.array(3)}
    inputs |= {f"global.{name}": array for name, array in loaded.global_state.items()}
    inputs |= {f"local.{name}": array for name, array in loaded.local_state.items()}
    inputs |= {f"batch.{name}": np.array(column[:8]) for name, column in remembering_job(4).train.items()}
    found, whole = VirtualMachines(plan, 7).run(inputs), run(step, inputs, 7, backend(Engine(NUMPY)))
    assert {name: array.tobytes() for name, array in found.items()} == {n: whole[n].tobytes() for n in whole}
    # the rows of the batch are remembered, and no other
    assert whole["global.memory.sent"].any(1).tolist() == [True] * 8 + [False] * 24


def test_a_memory_of_several_slots_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"activations that model.memory remembers") as refused:
        build(remembering_job(bits=4, slots=2), tmp_path)
    assert refused.value.field == "slots"


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: assay.BorderMemory(3, (2,), bits=2), "border.bits"),
        (lambda: assay.BorderMemory(0, (2,)), "border.rows"),
        (lambda: assay.BorderMemory(3, ()), "border.rows"),
        (lambda: assay.BorderMemory(3, (2,))(torch.zeros(2, 2), torch.zeros(1, dtype=torch.int64)), "border.rows"),
        (lambda: assay.BorderMemory(3, (2,))(torch.zeros(1, 2).long(), torch.zeros(1).long()), "border.values"),
    ],
)
def test_a_memory_that_makes_no_sense(make: Callable[[], object], field: str) -> None:
    with pytest.raises(JobError) as refused:
        make()
    assert refused.value.field == field
