"""Batches in parts: one part is traced, and the program is as large for hundreds of them as for two."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from assay import SGD, AdamW, JobSpec, Precision, repeat
from pol.capture.author.spec import Batch
from pol.capture.functions import JobFunctions, named
from pol.capture.graph.capture import capture_program
from pol.errors import JobError
from pol.executor.interface import run
from pol.executor.names import BACKENDS
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.program import Program
from pol.job.unroll import unroll
from pol.limits import MAX_OPERANDS
from pol.state.arrays import Array
from tests.unit.pol.executor.ops import bits, get

ROWS, TIME, WIDTH = 3, 4, 6


class Model(nn.Module):
    """A recurrence, statistics of batches, something that is drawn, and a parameter that nothing reads."""

    def __init__(self, p: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.dropout = nn.Dropout(p)
        self.head = nn.Linear(WIDTH, 1)
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        seen, _ = self.layers(x)
        found: Tensor = self.head(self.dropout(self.norm(seen[:, -1])))
        return found


def _loss(model: nn.Module, batch: Batch) -> Tensor:
    found: Tensor = (model(batch["x"])[:, 0] - batch["y"]).square().mean()
    return found


def _spec(model: nn.Module, count: int, **options: object) -> JobSpec:
    random = np.random.default_rng(5)
    shape = (count * ROWS, TIME, WIDTH)
    data = {
        "x": random.standard_normal(shape).astype(np.float32),
        "y": random.standard_normal(count * ROWS).astype(np.float32),
    }
    spec = JobSpec(
        name="parts",
        model=model,
        loss=_loss,
        train=data,
        holdout=data,
        steps=1,
        batch=count * ROWS,
        accumulate=count,
        optimizer=SGD(),
        schedule=0.1,
    )
    return replace(spec, **options)  # type: ignore[arg-type]


def _inputs(spec: JobSpec, functions: JobFunctions) -> dict[str, Tensor]:
    tensors = {**dict(spec.model.named_parameters()), **dict(spec.model.named_buffers())}
    state = {name: value.detach().clone() for name, value in tensors.items()}
    assert isinstance(spec.train, dict)
    return {
        **named("global", state),
        **named("local", functions.initial_local(state)),
        **named("batch", {name: torch.from_numpy(column) for name, column in spec.train.items()}),
        STEP: torch.tensor(0),
        BATCH_NUMBER: torch.tensor(3),
    }


def _traced(spec: JobSpec) -> tuple[Program, dict[str, Array]]:
    functions = JobFunctions(spec, 1)
    inputs = _inputs(spec, functions)
    program = capture_program(functions.step, inputs, precisions=spec.precisions)
    return program, {name: value.numpy() for name, value in inputs.items()}


@cache
def _of_model(count: int) -> tuple[Program, dict[str, Array]]:
    return _traced(_spec(Model(0.4), count, optimizer=AdamW()))


def test_hundreds_of_parts_are_as_many_nodes_as_two() -> None:
    few, many = (_of_model(count)[0] for count in (2, 200))
    assert len(few.nodes) == len(many.nodes)
    assert [(len(body.nodes), at) for body, at in few.bodies] == [(len(body.nodes), 2) for body, _ in many.bodies]
    assert [at for _, at in many.bodies] == [200]


@pytest.mark.parametrize("name", BACKENDS)
def test_parts_are_their_unrolling_on_every_executor(name: str) -> None:
    program, inputs = _of_model(2)
    expected = run(unroll(program), inputs, 7, get("numpy"))
    found = run(program, inputs, 7, get(name))
    assert {n: bits(v) for n, v in found.items()} == {n: bits(v) for n, v in expected.items()}


class Checkpointed(nn.Module):
    """Parts that draw, and one in a turn; none has statistics, which torch moves again."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.inner, self.outer = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.layers = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.again = again

    def part(self, x: Tensor) -> Tensor:
        found: Tensor = functional.dropout(torch.tanh(self.inner(x)), 0.3) + self.outer(x)
        return found

    def kept(self, x: Tensor) -> Tensor:
        found: Tensor = checkpoint(self.part, x, use_reentrant=False) if self.again else self.part(x)
        return found

    def forward(self, x: Tensor) -> Tensor:
        def turn(h: Tensor, x: Tensor) -> tuple[Tensor, None]:
            seen, _ = self.layers(torch.stack([h, x], 1))
            return self.kept(seen[:, -1]), None

        found: Tensor = repeat(turn, self.kept(x[:, 0]), x.transpose(0, 1))[0]
        return found


@cache
def _checkpointed(again: bool) -> tuple[Program, dict[str, Array]]:
    return _traced(_spec(Checkpointed(again), 2, optimizer=AdamW()))


@cache
def _of_no_checkpoints() -> dict[str, object]:
    program, inputs = _checkpointed(again=False)
    return {n: bits(v) for n, v in run(unroll(program), inputs, 5, get("numpy")).items()}


@pytest.mark.parametrize("name", BACKENDS)
def test_checkpoints_and_loops_in_parts_change_nothing(name: str) -> None:
    """A recurrent layer in a turn in a part: three repeats within one another."""
    program, inputs = _checkpointed(again=True)
    assert program.nested == 3
    found = run(program, inputs, 5, get(name))
    assert {n: bits(v) for n, v in found.items()} == _of_no_checkpoints()


class Many(nn.Module):
    """So many tensors that two operands of each are more than another node takes."""

    def __init__(self, tensors: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.scales = nn.ParameterList(torch.randn(WIDTH) for _ in range(tensors))

    def forward(self, x: Tensor) -> Tensor:
        return x[:, -1] * torch.stack(list(self.scales)).sum(0)


@pytest.mark.parametrize("tensors", [40, pytest.param(520, marks=pytest.mark.nightly)])
def test_networks_of_many_tensors_are_accumulated(tensors: int) -> None:
    program, inputs = _traced(_spec(Many(tensors), 2))
    assert max(len(node.args) for node in program.nodes) > 2 * tensors > MAX_OPERANDS
    plain, native = (run(program, inputs, 5, get(name)) for name in ("numpy", "native"))
    assert {n: bits(v) for n, v in native.items()} == {n: bits(v) for n, v in plain.items()}


@pytest.mark.parametrize("count", [2, 30])
def test_parts_train_as_in_eager_torch(count: int) -> None:
    """Sums of gradients, the mean of losses, and statistics that each part moves."""
    spec = _spec(Model(0.0), count)
    program, inputs = _traced(spec)
    found = run(program, inputs, 7, get("native"))
    model = Model(0.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for part in range(count):
        rows = slice(part * ROWS, (part + 1) * ROWS)
        batch = {name: torch.from_numpy(inputs[f"batch.{name}"][rows].copy()) for name in "xy"}
        loss = _loss(model, batch) / count
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(loss.item())
    optimizer.step()
    assert found["metric.loss"] == pytest.approx(sum(losses), rel=1e-3)
    expected = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for key in ("layers.weight_hh_l0", "norm.weight", "norm.running_var", "head.bias"):
        begun, end = inputs[f"global.{key}"], expected[key].detach().numpy()
        moved = float(np.abs(end - begun).max())
        assert moved > 1e-4, key
        assert float(np.abs(found[f"global.{key}"] - end).max()) < 5e-3 * moved + 1e-6, key
    assert "global.unused" not in program.changed_outputs()


class _Masked(nn.Module):
    """Its gradient is what was kept of ones, twice as large."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(256))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x[:, 0, :1] * 0 + 1 * self.weight, 0.5)


def test_each_part_and_each_batch_draws_its_own() -> None:
    spec = _spec(_Masked(), 4, loss=lambda model, batch: model(batch["x"])[0].sum())
    program, inputs = _traced(spec)
    found = []
    for number in (3, 4):
        inputs[BATCH_NUMBER] = np.array(number)
        weight = run(program, inputs, 7, get("native"))["global.weight"]
        found.append(np.round((1 - weight) / 0.1 * 2).astype(int))
    # the same in all parts would be 0 or 4
    assert set(found[0].tolist()) == {0, 1, 2, 3, 4}
    assert np.corrcoef(found[0], found[1])[0, 1] < 0.3


def test_products_have_the_bits_of_their_pass() -> None:
    precision = Precision(forward=8, input_gradient=22, weight_gradient=15)
    model = nn.Sequential(nn.Flatten(), nn.Linear(TIME * WIDTH, 5), nn.Linear(5, 1))
    program, _ = _traced(_spec(model, 2, precision=precision))
    ((body, _),) = program.bodies
    found = [node.attrs["bits"] for node in body.nodes if "bits" in node.attrs]
    assert sorted(found) == [8, 8, 15, 15, 22]


class _Counting(nn.Module):
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, 1)
        self.register_buffer("seen", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += 1
        found: Tensor = self.head(x[:, 0])
        return found


def test_integers_that_parts_would_change_are_told() -> None:
    with pytest.raises(JobError, match=r"seen"):
        _traced(_spec(_Counting(), 2))
