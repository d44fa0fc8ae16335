"""Activation checkpointing: the same job as without it, with the weights of the step and one draw for each mask."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from assay import SGD, JobSpec
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.program import Program
from pol.tracing.functions import JobFunctions, named
from pol.tracing.trace import trace_program


class Model(nn.Module):
    def __init__(self, is_checkpointed: bool) -> None:
        super().__init__()
        self.inner, self.score = nn.Linear(4, 4), nn.Linear(4, 3)
        self.is_checkpointed = is_checkpointed

    def part(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(F.relu(self.inner(x)).exp(), 0.3, self.training)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.dropout(x, 0.1, self.training)
        x = checkpoint(self.part, x, use_reentrant=False) if self.is_checkpointed else self.part(x)
        scores: torch.Tensor = self.score(F.dropout(x, 0.2, self.training))
        return scores


def _step(model: nn.Module) -> Program:
    data = {"x": np.zeros((4, 4), np.float32), "y": np.array([0, 1, 2, 0])}
    spec = JobSpec(
        name="checkpoints", model=model, loss=lambda m, b: F.cross_entropy(m(b["x"]), b["y"]), train=data,
        holdout=data, optimizer=SGD(), schedule=0.1, steps=1, batch=4,
    )  # fmt: skip
    state = {name: p.detach().clone() for name, p in model.named_parameters()}
    batch = {name: torch.from_numpy(column) for name, column in data.items()}
    numbers = {STEP: torch.tensor(0), BATCH_NUMBER: torch.tensor(0)}
    return trace_program(
        JobFunctions(spec, 1).step, {**named("global", state), **named("batch", batch), **numbers}
    )


def test_a_checkpointed_part_is_the_part_itself() -> None:
    plain, checkpointed = (_step(Model(is_checkpointed)) for is_checkpointed in (False, True))
    assert [node.attrs["site"] for node in plain.nodes if node.op == "uniform"] == [0, 1, 2]
    assert (checkpointed.nodes, checkpointed.outputs) == (plain.nodes, plain.outputs)
    assert checkpointed.constants == plain.constants
