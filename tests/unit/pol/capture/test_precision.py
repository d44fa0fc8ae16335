"""Which bits a product of a traced job has: those of the forward pass, of an input or of a weight gradient."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from examples import digits
from pol.capture.author.spec import SGD, JobSpec, Precision
from pol.capture.build import build
from pol.capture.graph.capture import capture_program
from pol.capture.graph.precision import gradient
from pol.errors import JobError
from pol.executor.names import BACKENDS, Engine
from pol.job.program import Program
from pol.local.inspect import inspect_job, products_by_bits
from pol.local.run import run_locally

ROWS = 12
FORWARD, INPUT, WEIGHT = 8, 15, 22
APART = Precision(forward=FORWARD, input_gradient=INPUT, weight_gradient=WEIGHT)


def _step(model: nn.Module, x: np.ndarray[Any, Any], tmp_path: Path, **changes: Any) -> Program:
    """The step of a job that trains a model to make zeros."""
    data = {"x": x}
    spec = JobSpec(
        name="apart",
        model=model,
        loss=lambda model, batch: model(batch["x"]).square().mean(),
        train=data,
        holdout=data,
        optimizer=SGD(),
        steps=4,
        round_steps=2,
        batch=4,
        precision=APART,
    )
    return build(replace(spec, **changes), tmp_path).document.step


def _numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).standard_normal((ROWS, *shape)).astype(np.float32)


def _characters(length: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(0, 9, (ROWS, length))


def _bits(program: Program) -> Counter[int]:
    return Counter(node.attrs["bits"] for node in program.nodes if node.op == "matmul")


def test_layers_one_after_another(tmp_path: Path) -> None:
    """Nobody asks for the gradient of the data, so there is one input gradient less than layers."""
    layers = [nn.Linear(5, 6), nn.GELU(), nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 3)]
    step = _step(nn.Sequential(*layers), _numbers(5), tmp_path)
    assert _bits(step) == {FORWARD: 3, INPUT: 2, WEIGHT: 3}
    shapes: dict[tuple[int, ...], int] = {
        (7, 3): WEIGHT,
        (3, 7): WEIGHT,
        (6, 7): WEIGHT,
        (7, 6): WEIGHT,
        (4, 3): FORWARD,
    }
    for number, node in enumerate(step.nodes, step.first_node):
        if node.op == "matmul" and step.types[number].shape in shapes:
            assert node.attrs["bits"] == shapes[step.types[number].shape]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(9, 8), nn.Embedding(5, 8)
        self.norm, self.parts = nn.LayerNorm(8), nn.Linear(8, 24)
        self.join = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.characters(x) + self.places.weight
        parts = self.parts(self.norm(x)).view(len(x), 5, 6, 4).transpose(1, 2).chunk(3, dim=1)
        query, key, value = parts
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        joined: torch.Tensor = self.join(seen.transpose(1, 2).reshape(len(x), 5, 8))
        return joined


def test_attention_has_no_weights(tmp_path: Path) -> None:
    """Both gradients of both its products go further back, and the one that ends in a norm is no weight gradient."""
    step = _step(Attention(), _characters(5), tmp_path)
    # the gradients of rows of the embedding are added up in FP32
    assert _bits(step) == {FORWARD: 4, INPUT: 6, WEIGHT: 2}


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(3 + 4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = x.new_zeros(len(x), 4)
        for part in x.unbind(1):
            hidden = self.gate(torch.cat([part, hidden], dim=1)).tanh()
        return hidden


def test_a_weight_that_is_used_again_and_again(tmp_path: Path) -> None:
    """The gradients of the weight at all times are one product."""
    assert _bits(_step(Cell(), _numbers(4, 3), tmp_path)) == {FORWARD: 4, INPUT: 3, WEIGHT: 1}


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.direction, self.length = nn.Parameter(torch.ones(6, 5)), nn.Parameter(torch.ones(6, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norm = self.direction.square().sum(1, keepdim=True).sqrt()
        return functional.linear(x, self.direction / norm * self.length)


def test_a_weight_that_is_made_of_parameters(tmp_path: Path) -> None:
    """What makes the weight does not depend on the batch, so its way back does not hide what the product is."""
    step = _step(nn.Sequential(Scaled(), nn.Tanh(), nn.Linear(6, 2)), _numbers(5), tmp_path)
    assert _bits(step) == {FORWARD: 2, INPUT: 1, WEIGHT: 2}


def test_the_gradient_of_a_scale_is_an_input_gradient(tmp_path: Path) -> None:
    """The first norm's gain needs the gradient of what goes into the layer, times the batch."""
    step = _step(nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 6)), _numbers(5), tmp_path)
    assert _bits(step) == {FORWARD: 1, INPUT: 1, WEIGHT: 1}


def test_what_is_computed_again_for_the_backward_pass_is_forward() -> None:
    def inner(x: torch.Tensor, weight: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        return ((x @ weight).tanh() @ last).tanh()

    def function(t: Any) -> dict[str, torch.Tensor]:
        weights = [t[name].detach().requires_grad_() for name in ("global.v", "global.w")]
        loss = checkpoint(inner, t["batch.x"], *weights, use_reentrant=False).sum()
        first, last = torch.autograd.grad(loss, weights)
        return {
            "metric.loss": loss.detach(),
            "global.v": gradient(first, "v"),
            "global.w": gradient(last, "w"),
        }

    inputs = {
        "batch.x": torch.ones(4, 3),
        "global.v": torch.ones(3, 5),
        "global.w": torch.ones(5, 2),
    }
    program = capture_program(function, inputs, precisions={"": APART})
    assert _bits(program) == {FORWARD: 2, INPUT: 1, WEIGHT: 2}


def test_products_of_an_optimizer_count_as_weight_gradients() -> None:
    def function(t: Any) -> dict[str, torch.Tensor]:
        weight = t["global.w"].detach().requires_grad_()
        loss = (t["batch.x"] @ weight).square().sum()
        (found,) = torch.autograd.grad(loss, [weight])
        found = gradient(found, "w")
        return {"metric.loss": loss.detach(), "global.w": weight.detach() - found @ found.T @ found}

    inputs = {"batch.x": torch.ones(4, 3), "global.w": torch.ones(3, 2)}
    program = capture_program(function, inputs, precisions={"": APART})
    assert _bits(program) == {FORWARD: 1, WEIGHT: 3}


def test_eval_is_forward_and_15_bits_are_the_default(tmp_path: Path) -> None:
    layers = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 2))
    data = {"x": _numbers(5)}
    spec = JobSpec(
        name="apart",
        model=layers,
        loss=lambda model, batch: model(batch["x"]).square().mean(),
        train=data,
        holdout=data,
        steps=4,
        batch=4,
    )
    plain = build(spec, tmp_path / "plain")
    assert _bits(plain.document.step) == {15: 5}
    apart = build(replace(spec, precision=APART), tmp_path / "apart")
    assert _bits(apart.document.eval) == {FORWARD: 2}
    assert inspect_job(apart).products == {"8": 2, "15": 1, "22": 2}
    assert plain.id != apart.id


def _layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3))


def test_a_module_has_its_own_precision(tmp_path: Path) -> None:
    """Of the last layer: its result, the gradient of what goes into it, and its weight's gradient."""
    step = _step(_layers(), _numbers(5), tmp_path, precision={"": 8, "4": 22})
    shapes = {
        step.types[number].shape: node.attrs["bits"]
        for number, node in enumerate(step.nodes, step.first_node)
        if node.op == "matmul"
    }
    assert _bits(step) == {8: 5, 22: 3}
    last = {shape: bits for shape, bits in shapes.items() if bits == 22}
    assert set(last) in ({(4, 3), (4, 7), (7, 3)}, {(4, 3), (4, 7), (3, 7)})


def test_the_nearest_name_counts(tmp_path: Path) -> None:
    model = nn.ModuleDict({"body": _layers(), "bodyguard": nn.Linear(3, 2)})
    spec = {"body": 8, "body.2": APART, "body.4.weight": 22}
    step = _step(
        model,
        _numbers(5),
        tmp_path,
        precision=spec,
        loss=lambda model, batch: model["bodyguard"](model["body"](batch["x"])).square().mean(),
    )
    # the first layer, that which is apart, the last of the body, and what only begins with the same letters
    of_layers = [{8: 2}, {FORWARD: 1, INPUT: 1, WEIGHT: 1}, {22: 3}, {15: 3}]
    assert _bits(step) == sum(map(Counter, of_layers), Counter())


def test_products_of_attention_belong_to_no_module(tmp_path: Path) -> None:
    modules = {"parts": 22, "join": 22, "characters": 22, "norm": 22}
    step = _step(Attention(), _characters(5), tmp_path, precision={"": 8, **modules})
    # two products and two gradients of each
    assert _bits(step) == {8: 6, 22: 6}


def test_a_weight_of_several_modules_takes_the_most_bits_of_theirs(tmp_path: Path) -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(5, 5), nn.Linear(5, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.linear(x, self.one.weight + self.two.weight)

    for precision in ({"": 8, "two": 22}, {"one": 8, "two": 22}, {"one": 22, "two": 8}):
        step = _step(Sum(), _numbers(5), tmp_path / str(precision), precision=precision)
        assert _bits(step) == {22: 2}


def test_a_module_that_is_used_again_and_again_has_one_precision(tmp_path: Path) -> None:
    model = nn.Sequential(Cell(), nn.Linear(4, 2))
    step = _step(model, _numbers(4, 3), tmp_path, precision={"": 22, "0": 8})
    # the gradients of the weight at all times are one product
    assert _bits(step) == {8: 4 + 3 + 1, 22: 3}


@pytest.mark.parametrize("name", ["hea", "1", "0.weigh", "0.weight.x"])
def test_a_module_that_is_not_there_is_refused(name: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh())
    with pytest.raises(JobError, match=f"no module with parameters that is called '{name}'"):
        _step(model, _numbers(5), tmp_path, precision={"": 8, name: 15})


def test_eval_has_the_precision_of_modules(tmp_path: Path) -> None:
    data = {"x": _numbers(5)}
    spec = JobSpec(
        name="apart",
        model=_layers(),
        loss=lambda model, batch: model(batch["x"]).square().mean(),
        train=data,
        holdout=data,
        steps=4,
        batch=4,
        precision={"": 8, "4": 15},
    )
    assert _bits(build(spec, tmp_path).document.eval) == {8: 2, 15: 1}


@pytest.mark.parametrize(
    ("precision", "field"),
    [
        (lambda: 16, "precision"),
        (lambda: True, "precision"),
        (lambda: "8", "precision"),
        (lambda: 8.0, "precision"),
        (lambda: {"": 8, "0": 16}, "precision of 0"),
        (lambda: {"": "8"}, "precision"),
        (lambda: {0: 8}, "precision"),
        (lambda: {"0": {"": 8}}, "precision of 0"),
        (lambda: Precision(forward=9), "precision.forward"),
        (lambda: Precision(input_gradient=True), "precision.input_gradient"),
        (lambda: Precision(weight_gradient=22.0), "precision.weight_gradient"),  # type: ignore[arg-type]
    ],
)
def test_other_bits_are_refused(precision: Callable[[], Any], field: str) -> None:
    with pytest.raises(JobError) as caught:
        replace(digits.job(), precision=precision())
    assert caught.value.field == field


@pytest.mark.parametrize("precision", [Precision(forward=8, input_gradient=8, weight_gradient=15), 22])
def test_a_job_trains_to_the_same_root_on_every_back_end(precision: Precision | int, tmp_path: Path) -> None:
    spec = replace(digits.job(), steps=60, epochs=None, slots=1, round_steps=20, segment_steps=10)
    job = build(replace(spec, precision=precision), tmp_path)
    assert not {"8", "22"}.isdisjoint(products_by_bits(job.document.step))
    roots = set()
    for name in BACKENDS:
        done = run_locally(tmp_path, 3, Engine(name), lambda *_: None, tmp_path / name)
        losses = [round.loss for round in done.rounds]
        assert losses[-1] < losses[0]
        roots.add(done.rounds[-1].state_root)
    assert len(roots) == 1
