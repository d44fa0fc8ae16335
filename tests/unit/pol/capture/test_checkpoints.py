"""Activation checkpointing: the same bits as without it, one draw for each mask, and less memory at once."""

import tracemalloc
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from assay import SGD, JobSpec, Precision
from pol.capture.functions import JobFunctions, named
from pol.capture.graph.capture import capture_program
from pol.executor.backend import backend
from pol.executor.fusion import grouped
from pol.executor.interface import run
from pol.executor.names import NATIVE, TORCH, Engine
from pol.executor.numpy_backend import NumpyBackend
from pol.executor.tape import write_tape
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.program import Program
from pol.state.arrays import Array

WIDTH, ROWS, DEPTH = 8, 512, 8


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # begins with what its gradient computes again from x alone
        inner = F.gelu(self.inner(F.gelu(x)))
        return x + F.dropout(self.outer(inner), 0.3, self.training)


class Model(nn.Module):
    def __init__(self, run: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.run = run

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.dropout(x, 0.1, self.training)
        for block in self.blocks:
            x = self.run(block, x)
        return F.dropout(x, 0.2, self.training)


class Normed(nn.Module):
    """One block with batch norm, whose dropout comes after what the statistics are of."""

    def __init__(self, run: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.block = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Dropout(0.3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.run = run

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(self.run(self.block, x))
        return y


KINDS: dict[str, Callable[..., torch.Tensor]] = {
    "plain": lambda block, x: block(x),
    "checkpointed": lambda block, x: checkpoint(block, x, use_reentrant=False),
    "reentrant": lambda block, x: checkpoint(block, x, use_reentrant=True),
}


@cache
def _step(kind: str, made: Callable[..., nn.Module] = Model) -> tuple[Program, Mapping[str, Array]]:
    model = made(KINDS[kind])
    data = {"x": np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)}
    spec = JobSpec(
        name="checkpoints",
        model=model,
        loss=lambda m, b: m(b["x"]).square().mean(),
        train=data,
        holdout=data,
        optimizer=SGD(),
        schedule=0.1,
        steps=1,
        batch=ROWS,
        precision=Precision(forward=8),
    )
    state = {name: value.clone() for name, value in model.state_dict().items()}
    inputs = {
        **named("global", state),
        "batch.x": torch.from_numpy(data["x"]),
        STEP: torch.tensor(0),
        BATCH_NUMBER: torch.tensor(3),
    }
    program = capture_program(JobFunctions(spec, 1).step, inputs, precisions=spec.precisions)
    return program, {name: tensor.numpy() for name, tensor in inputs.items()}


def _sites(program: Program) -> list[int]:
    return [int(node.attrs["site"]) for node in program.nodes if node.op == "uniform"]


@pytest.mark.parametrize("kind", ["checkpointed", "reentrant"])
def test_a_checkpointed_part_computes_what_the_part_itself_does(kind: str) -> None:
    (plain, inputs), (program, _) = _step("plain"), _step(kind)
    sites = list(range(DEPTH + 2))
    assert _sites(plain) == sites
    # the last block's mask is drawn again first
    assert _sites(program) == [*sites, *reversed(sites[1:-1])]
    expected, found = (run(p, inputs, 7, NumpyBackend()) for p in (plain, program))
    assert {name: value.tobytes() for name, value in found.items()} == {
        name: value.tobytes() for name, value in expected.items()
    }


@pytest.mark.parametrize("kind", ["checkpointed", "reentrant"])
def test_batch_norm_in_a_checkpointed_part_moves_its_statistics_again_as_in_torch(
    kind: str,
) -> None:
    (plain, inputs), (program, _) = _step("plain", Normed), _step(kind, Normed)
    expected = run(plain, inputs, 7, NumpyBackend())
    found = run(program, inputs, 7, NumpyBackend())
    moved = {f"global.block.1.running_{name}" for name in ("mean", "var")}
    assert {name for name in found if found[name].tobytes() != expected[name].tobytes()} == moved
    model = Normed(KINDS[kind])
    # the reentrant kind runs again only for an input that has a gradient
    model(torch.from_numpy(inputs["batch.x"]).requires_grad_()).square().mean().backward()
    own = model.state_dict()
    assert own["block.1.num_batches_tracked"] == 2
    for name in moved:
        eager = own[name.removeprefix("global.")].numpy()
        np.testing.assert_allclose(found[name], eager, rtol=0, atol=3e-3)
        # once would be further away
        assert np.abs(expected[name] - eager).max() > 2e-2
    for other in (NATIVE, TORCH):
        same = run(program, inputs, 7, backend(Engine(other)))
        assert {name: value.tobytes() for name, value in same.items()} == {
            name: value.tobytes() for name, value in found.items()
        }


def test_a_checkpointed_part_keeps_its_inputs_only() -> None:
    (plain, inputs), (program, _) = _step("plain"), _step("checkpointed")
    assert program.peak_size < 0.38 * plain.peak_size
    before, after = (write_tape(p, 7, grouped).arena for p in (plain, program))
    assert after < 0.38 * before
    # beside blocks of a fixed size
    saved = plain.peak_size - program.peak_size
    assert _peak(plain, inputs) - _peak(program, inputs) > 0.9 * saved


def _peak(program: Program, inputs: Mapping[str, Array]) -> int:
    """Return the bytes that NumPy really has at once."""
    compiled = NumpyBackend().compile(program, 7)
    compiled.run(inputs)
    tracemalloc.start()
    try:
        compiled.run(inputs)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
