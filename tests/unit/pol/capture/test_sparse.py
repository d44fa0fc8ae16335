"""Sparse constants are dense in a job, with a line; products by group have a fixed size."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from pol.capture.author.spec import Batch, JobSpec
from pol.capture.build import build
from pol.capture.graph.capture import Tensors, capture_program
from pol.capture.idioms.rewritten import Rewriting, grouped_mm
from pol.errors import JobError
from pol.job.load import load_job
from tests.unit.pol.capture.compared import Cases, compare

_GENERATOR = torch.Generator().manual_seed(0)
LINKS = (torch.rand(6, 6, generator=_GENERATOR) < 0.4).float().to_sparse()
with pytest.warns(UserWarning, match="beta"):
    ROWS = LINKS.to_sparse_csr()
PAIRS = torch.tensor([[0, 1, 2, 0, 5], [1, 1, 3, 1, 0]])
EXPERTS = torch.randn(4, 4, 8, generator=_GENERATOR)
WIDE = torch.randn(4, 6, 4, generator=_GENERATOR)
INPUTS = {
    "z": torch.randn(6, 4, generator=_GENERATOR),
    "weights": torch.randn(5, generator=_GENERATOR),
    "ends": torch.tensor([2, 2, 5, 6]),
}


def _like(x: torch.Tensor, t: Tensors) -> torch.Tensor:
    return x.to(t["z"].dtype)


def _learned(t: Tensors) -> torch.Tensor:
    """A sparse matrix of attention that is learned, as graph networks write it."""
    made = torch.sparse_coo_tensor(PAIRS, t["weights"], (6, 6)).coalesce()
    found: torch.Tensor = torch.sparse.mm(made, t["z"])
    return found


def _normed(t: Tensors) -> torch.Tensor:
    degree = torch.sparse.sum(LINKS, 1).to_dense().clamp(min=1)
    normed = torch.diag(1 / degree).to_sparse() @ LINKS
    found: torch.Tensor = torch.sparse.mm(normed, t["z"].float())
    return found.to(t["z"].dtype)


SPARSE: Cases = {
    "spmm": lambda t: torch.spmm(_like(LINKS, t), t["z"]),
    "mm": lambda t: torch.sparse.mm(_like(LINKS, t), t["z"]),
    "at": lambda t: _like(LINKS, t).t() @ t["z"],
    "rows": lambda t: _like(ROWS, t) @ t["z"] + _like(ROWS, t).matmul(t["z"]),
    "addmm": lambda t: torch.sparse.addmm(t["z"], _like(LINKS, t), t["z"], alpha=0.5),
    "entries": lambda t: t["z"][LINKS.coalesce().indices()[0]] * LINKS.coalesce().values()[:, None],
    "normed": _normed,
    "learned": _learned,
}


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_products_with_sparse_constants() -> None:
    compare(SPARSE, INPUTS, products=list(SPARSE))


def _by_group(left: torch.Tensor, right: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Torch's own in FP32; it has no FP64, of which the formula is tested by that."""
    form = F.grouped_mm if left.dtype == torch.float32 else grouped_mm
    return form(left, right, offs=ends.int())


GROUPED: Cases = {
    "rows": lambda t: _by_group(t["z"], _like(EXPERTS, t), t["ends"]),
    "inside": lambda t: _by_group(t["z"].T, t["z"], t["ends"]),
    "columns": lambda t: _by_group(_like(WIDE, t), t["z"].T, t["ends"]),
}


def test_products_by_group() -> None:
    with Rewriting():
        compare(GROUPED, INPUTS, products=list(GROUPED))
    for left, right in (
        (INPUTS["z"], EXPERTS),
        (INPUTS["z"].T, INPUTS["z"]),
        (WIDE, INPUTS["z"].T),
    ):
        ends = INPUTS["ends"].int()
        torch.testing.assert_close(grouped_mm(left, right, offs=ends), F.grouped_mm(left, right, offs=ends))


def test_entries_of_what_a_step_computes_are_refused() -> None:
    def function(t: Tensors) -> dict[str, torch.Tensor]:
        return {"out": torch.sparse_coo_tensor(PAIRS, t["weights"], (6, 6)).coalesce().values()}

    with pytest.raises(JobError, match=r"entries of a sparse tensor.*next to the tensor"):
        capture_program(function, INPUTS)


class _Graph(nn.Module):
    links: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("links", LINKS.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.spmm(self.links, self.layer(x)) + torch.spmm(LINKS, self.layer(x))


def _loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = model(batch["x"][0]).square().mean()
    return found


def test_a_line_says_what_becomes_dense(tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((2, 6, 4)).astype(np.float32)
    options: dict[str, Any] = {"weights": "keep", "batch": 1, "steps": 2}
    model, told = _Graph(), list[str]()
    spec = JobSpec(name="graph", model=model, loss=_loss, train={"x": x}, holdout={"x": x}, **options)
    build(spec, tmp_path, told.append)
    assert told.count("LINKS is sparse; the job has it as a dense tensor, 6×6") == 1
    assert "the buffer links is sparse; the job has it as a dense tensor, 6×6" in told
    np.testing.assert_array_equal(load_job(tmp_path).global_state["links"], LINKS.to_dense().numpy())
