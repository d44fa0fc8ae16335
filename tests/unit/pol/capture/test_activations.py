"""What a step keeps for its gradients, beside what eager torch keeps, with and without checkpointing."""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from assay import SGD, JobSpec
from benchmarks import networks
from pol.capture.functions import JobFunctions, named
from pol.capture.graph.capture import capture_program
from pol.executor.fusion import grouped
from pol.executor.tape import write_tape
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.program import Program
from pol.state.arrays import Array

KEPT = 1.4
"""Of what eager keeps, at most: an exact step also holds what composed functions are made of."""
LOWERED = 1.05
"""Of the share that checkpointing leaves in eager, at most."""


class Checkpointed(nn.Sequential):
    """Runs each of its parts again for its gradient."""

    def forward(self, x: Any) -> Any:
        for part in self:
            x = checkpoint(part, x, use_reentrant=False)
        return x


Made = tuple[nn.Module, Array, Array]


def _attention(blocks: type[nn.Sequential]) -> Made:
    model = networks.GPT(32, 2, 32)
    model.blocks = blocks(*model.blocks)
    x = np.random.default_rng(0).integers(0, 65, (16, 32))
    return model, x, x


def _convolutions(blocks: type[nn.Sequential]) -> Made:
    parts = blocks(*[networks.Residual(16, 16, 1) for _ in range(3)])
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    )
    x = np.random.default_rng(0).standard_normal((32, 3, 16, 16)).astype(np.float32)
    return model, x, np.arange(32) % 10


def _perceptron(blocks: type[nn.Sequential]) -> Made:
    parts = [nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 32)) for _ in range(4)]
    x = np.random.default_rng(0).standard_normal((512, 32)).astype(np.float32)
    return nn.Sequential(blocks(*parts), nn.Linear(32, 10)), x, np.arange(512) % 10


class _Live(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of the tensors that are alive, each storage once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = self.peak = 0
        self._held: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, found)):
            if isinstance(leaf, torch.Tensor):
                self._hold(leaf.untyped_storage())
        return found

    def _hold(self, storage: torch.UntypedStorage) -> None:
        place, size = storage._cdata, storage.nbytes()
        if place in self._held:
            return
        self._held.add(place)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._drop, place, size)

    def _drop(self, place: int, size: int) -> None:
        self._held.discard(place)
        self.live -= size


def _eager(model: nn.Module, x: Array, y: Array) -> int:
    """Return the bytes that a step of eager torch has at once, with attention written out as a job has it."""
    rows, live = {"x": torch.from_numpy(x), "y": torch.from_numpy(y)}, _Live()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=False)
    with sdpa_kernel(SDPBackend.MATH), live:
        loss = networks.loss(model, rows)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return live.peak


def _step(model: nn.Module, x: Array, y: Array) -> Program:
    data = {"x": x, "y": y}
    spec = JobSpec(
        name="kept",
        model=model,
        loss=networks.loss,
        train=data,
        holdout=data,
        optimizer=SGD(),
        schedule=0.1,
        steps=1,
        batch=len(x),
    )
    state = {name: value.clone() for name, value in model.state_dict().items()}
    batch = {name: torch.from_numpy(column) for name, column in data.items()}
    counts = {STEP: torch.tensor(0), BATCH_NUMBER: torch.tensor(0)}
    return capture_program(JobFunctions(spec, 1).step, {**named("global", state), **named("batch", batch), **counts})


def _native(program: Program) -> int:
    """Return the bytes that the native executor has at once, with inputs."""
    return write_tape(program, 7, grouped).arena + sum(spec.type.size for spec in program.inputs)


@pytest.mark.parametrize("make", [_attention, _convolutions, _perceptron])
def test_activations_live_as_long_as_in_eager_and_checkpointing_lowers_the_peak_as_there(
    make: Callable[[type[nn.Sequential]], Made],
) -> None:
    kinds = nn.Sequential, Checkpointed
    eager = [_eager(*make(kind)) for kind in kinds]
    native = [_native(_step(*make(kind))) for kind in kinds]
    assert native[0] <= KEPT * eager[0]
    assert native[1] <= KEPT * eager[1]
    assert eager[1] < 0.75 * eager[0]
    assert native[1] / native[0] <= LOWERED * eager[1] / eager[0], (native, eager)
