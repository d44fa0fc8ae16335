"""What depends on neither weights nor data may decide shapes, forward and backward; what does is refused."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from pol.capture.author.spec import Batch, JobSpec
from pol.capture.build import build
from pol.capture.graph import folding
from pol.capture.graph.capture import Tensors, capture_program
from pol.capture.idioms.rewritten import Rewriting
from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import NUMPY, Engine
from pol.job.dataset import batch_at
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.load import load_job
from pol.job.program import program_json
from pol.local.run import run_locally
from tests.unit.pol.capture.compared import Cases, compare

EDGES = torch.tensor(np.random.default_rng(0).integers(0, 6, (2, 40)))
"""Pairs of six nodes, some of them of one node twice."""


def _others(t: Tensors) -> torch.Tensor:
    """SimCLR's usual line: all similarities but those with oneself."""
    other = ~torch.eye(len(t["z"]), dtype=torch.bool)
    return (t["z"] @ t["z"].T)[other].view(len(t["z"]), -1).logsumexp(1)


def _edges(t: Tensors) -> torch.Tensor:
    """A fixed graph without the edges from a node to itself."""
    source, target = EDGES[:, EDGES[0] != EDGES[1]]
    return (t["z"][source] - t["z"][target]).square().sum(1)


def _pairs(t: Tensors) -> torch.Tensor:
    first, second = torch.ones(6, 6).triu(1).nonzero().T
    return t["z"][first] * t["z"][second]


def _where(t: Tensors) -> torch.Tensor:
    """A mask that is written in place, and by a view of it."""
    mask = torch.ones(6, 6)
    mask.fill_diagonal_(0)
    mask[0, 2] = 0
    mask.T[4] = 0
    first, second = torch.where(mask)
    return t["z"][first] * t["z"][second]


def _unique(t: Tensors) -> torch.Tensor:
    nodes, places = torch.unique(EDGES[0], return_inverse=True)
    return t["z"][nodes][places]


def _by_branch(t: Tensors) -> torch.Tensor:
    if int((EDGES[0] > 2).sum()) > 3 and EDGES.float().mean().item() > 1 and bool((EDGES < 6).all()):
        return t["z"] * 2
    return t["z"]


def _split(t: Tensors) -> torch.Tensor:
    sizes = torch.tensor([0, 2, 6]).diff().tolist()
    parts = torch.split_with_sizes(t["z"], sizes)
    return torch.cat([part * at for at, part in enumerate(parts)])


def _put(t: Tensors) -> torch.Tensor:
    scores = (t["z"] @ t["z"].T).clone()
    is_own = torch.eye(6, dtype=torch.bool)
    scores[is_own] = t["z"][:, 0]
    scores[is_own.flip(0)] += 1
    return scores


def _rows(t: Tensors) -> torch.Tensor:
    is_even = torch.arange(6) % 2 == 0
    both = t["z"][is_even, torch.tensor([0, 1, 2])]
    return t["z"][is_even, 1:][:, torch.tensor([True, False, True])] * both[:, None]


def _nodes(t: Tensors) -> torch.Tensor:
    nodes = torch.unique(EDGES[0])
    return torch.stack([t["z"][EDGES[0, :6] == node].sum() for node in nodes])


def _numpy(t: Tensors) -> torch.Tensor:
    weights = (EDGES[0, :6] > 2).numpy() + np.asarray(EDGES[1, :6])
    return t["z"] * torch.from_numpy(weights).to(t["z"].dtype)[:, None]


CASES: Cases = {
    "others": _others,
    "edges": _edges,
    "masked_select": lambda t: torch.masked_select(t["z"] @ t["z"].T, torch.ones(6, 6).triu(1) > 0),
    "nonzero": _pairs,
    "where": _where,
    "unique": _unique,
    "bincount": lambda t: t["z"].repeat_interleave(torch.bincount(EDGES[0])[:6], 0),
    "branch": _by_branch,
    "split": _split,
    "put": _put,
    "rows": _rows,
    "nodes": _nodes,
    "numpy": _numpy,
    "one_hot": lambda t: F.one_hot(EDGES[0]).to(t["z"].dtype)[:6, :6] @ t["z"],
    "tensor_split": lambda t: torch.tensor_split(t["z"], torch.tensor([2, 3]))[1] * 2,
    "counts of data": lambda t: t["z"].repeat_interleave(t["counts"], 0, output_size=9),
}
INPUTS = {
    "z": torch.randn(6, 4, generator=torch.Generator().manual_seed(1)),
    "counts": torch.tensor([1, 2, 0, 3, 2, 1]),
}


def test_values_that_are_known_decide_shapes() -> None:
    with Rewriting():
        compare(CASES, INPUTS, products=["others", "masked_select", "put", "one_hot"])


def test_many_places_are_found_by_primitives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_BYTES", 0)
    compare({"others": _others, "where": _where}, INPUTS, products=["others"])
    program = capture_program(lambda t: {"out": _others(t)}, INPUTS)
    assert "argsort" in {node.op for node in program.nodes}


def _margin(t: Tensors) -> torch.Tensor:
    """A margin at the true class, as losses that begin at a cosine have it: the mask is written by labels."""
    mask = torch.zeros(6, 4, dtype=t["z"].dtype)
    mask[torch.arange(6), t["counts"] - 1] = 1
    true = t["z"][mask == 1]
    return t["z"] + mask * (true.square() - true)[:, None]


def _margin_in_place(t: Tensors) -> torch.Tensor:
    is_true = torch.zeros_like(t["z"], dtype=torch.bool).scatter_(1, t["counts"][:, None], True)
    scores = t["z"].clone()
    scores[is_true] = scores[is_true].exp()
    scores[~is_true] -= 0.5
    return scores


def _others_of_each(t: Tensors) -> torch.Tensor:
    """All classes but the true one, by a mask that begins as numbers; a write to another tensor changes nothing."""
    marks = F.one_hot(t["counts"].int().long(), 4).to(t["z"].dtype)
    (marks + 0).fill_(0)
    return t["z"][(1 - marks).gt(0.5)].view(6, 3).logsumexp(1)


def _sequence(t: Tensors) -> torch.Tensor:
    marks = F.one_hot(t["counts"].view(2, 3), 4)
    one, two, three = torch.where(marks.bool())
    return t["z"].view(2, 3, 4)[one, two, three] * t["z"].view(2, 3, 4)[marks > 0]


OF_LABELS: Cases = {
    "margin": _margin,
    "margin in place": _margin_in_place,
    "others of each": _others_of_each,
    "sequence": _sequence,
    "masked_select": lambda t: t["z"].masked_select(F.one_hot(t["counts"], 4) == 1),
    "nonzero": lambda t: t["z"][:, :2] * F.one_hot(t["counts"], 4).nonzero(),
    "of ones": lambda t: t["z"][torch.zeros(6, 4).scatter(1, t["counts"][:, None], torch.ones(6, 1)) > 0],
}


def test_a_mask_of_labels_selects_one_element_of_each_row() -> None:
    with Rewriting():
        compare(OF_LABELS, INPUTS)


def _marked(t: Tensors) -> torch.Tensor:
    mask = torch.zeros(6, 4)
    mask[torch.arange(6), t["counts"]] = 1
    return mask


def _twice(t: Tensors) -> torch.Tensor:
    mask = _marked(t)
    mask[torch.arange(6), t["counts"].flip(0)] = 1
    return t["z"][mask == 1]


def _through_a_view(t: Tensors) -> torch.Tensor:
    mask = _marked(t)
    mask[0].fill_(0)
    return t["z"][mask == 1]


def _labels_after(t: Tensors) -> torch.Tensor:
    labels = t["counts"].clone()
    mask = F.one_hot(labels, 4)
    labels.fill_(0)
    return t["z"][mask == 1]


def _rows_twice(t: Tensors) -> torch.Tensor:
    mask = torch.zeros(6, 4)
    mask[torch.tensor([0, 1, 2, 3, 4, 4]), t["counts"]] = 1
    return t["z"][mask == 1]


@pytest.mark.parametrize(
    "function",
    [
        _twice,
        _through_a_view,
        _labels_after,
        _rows_twice,
        # a label that is none of these has no place
        lambda t: t["z"][t["counts"][:, None] == torch.arange(4)],
        lambda t: t["z"][(F.one_hot(t["counts"], 4) * t["z"]) > 0],
    ],
    ids=["twice", "view", "labels", "rows", "equal", "product"],
)
def test_a_mask_that_may_select_another_number_of_elements_is_refused(
    function: Callable[[Tensors], torch.Tensor],
) -> None:
    with (
        Rewriting(),
        pytest.raises(JobError, match="the number of elements that a mask selects depends on values"),
    ):
        capture_program(lambda t: {"out": function(t)}, INPUTS)


def test_a_package_that_looks_at_values_is_named_with_what_can_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    (folder / "pair_losses").mkdir(parents=True)
    (folder / "pair_losses" / "__init__.py").touch()
    (folder / "pair_losses" / "pairs.py").write_text(
        "def pairs(z, y):\n"
        "    one, other = (y[:, None] == y).nonzero().T\n"
        "    return (z[one] - z[other]).abs() if len(one) else z\n"
    )
    monkeypatch.syspath_prepend(folder)
    pairs = importlib.import_module("pair_losses.pairs").pairs
    with pytest.raises(JobError, match=r"belongs to the package pair_losses.*known.*torch\.arange") as caught:
        capture_program(lambda t: {"out": pairs(t["z"], t["counts"])}, INPUTS)
    assert "pairs.py:3 `return (z[one] - z[other]).abs() if len(one) else z`" in caught.value.field
    known = capture_program(lambda t: {"out": pairs(t["z"], torch.arange(3).repeat(2))}, INPUTS)
    assert known.outputs


def _late(t: Tensors) -> torch.Tensor:
    mask = torch.zeros(6, 4)
    mask.T[0].copy_(t["z"][:, 0])
    return t["z"][mask > 0]


def _called(t: Tensors) -> torch.Tensor:
    mask = torch.zeros(6, 4)
    torch.add(t["z"], 1.0, out=mask)
    return mask.nonzero() * 1.0


@pytest.mark.parametrize(
    ("function", "reason", "remedy"),
    [
        (
            lambda t: (t["z"] @ t["z"].T)[t["z"] @ t["z"].T > 0].view(6, -1),
            "the number of elements that a mask selects",
            "mask",
        ),
        (lambda t: t["z"].masked_select(t["z"] > 0).sum(), "the number of elements that a mask selects", "torch.where"),
        (_late, "the number of elements that a mask selects", "torch.where"),
        (_called, "the number of nonzero elements", "torch.where"),
        (lambda t: t["z"].argmax(1).unique() * 1.0, "the number of different elements", "count each class"),
        (lambda t: t["z"].repeat_interleave(t["counts"], 0), "the number of elements depends", "output_size="),
        (lambda t: torch.bincount(t["counts"])[:2] * 1.0, "the number of bins", "one_hot"),
        (lambda t: t["z"] if t["z"].sum() > 0 else -t["z"], "depends on values of a tensor", "torch.where"),
    ],
    ids=["view", "masked_select", "late", "out", "unique", "counts", "bincount", "branch"],
)
def test_values_that_are_not_known_are_refused_with_what_to_write(
    function: Callable[[Tensors], torch.Tensor], reason: str, remedy: str
) -> None:
    with pytest.raises(JobError) as caught:
        capture_program(lambda t: {"out": function(t)}, INPUTS)
    assert reason in caught.value.reason
    assert remedy in caught.value.remedy
    assert "docs/jobs.md" not in caught.value.remedy
    for internal in ("aten", "_tensor_constant", "sym_size"):
        assert internal not in str(caught.value)


def test_a_constant_that_is_written_to_is_not_known() -> None:
    table = torch.zeros(4)

    def function(t: Tensors) -> dict[str, torch.Tensor]:
        table.add_(1)
        return {"out": t["z"] * len(table.nonzero())}

    with pytest.raises(JobError, match="depends on values"):
        capture_program(function, INPUTS)


# --- tensors of the model that no step changes ---------------------------------------------------


X = np.random.default_rng(1).standard_normal((8, 4)).astype(np.float32)


class Masked(nn.Module):
    """Takes the features that a buffer marks, and those that a frozen parameter does."""

    mask: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.register_buffer("mask", torch.tensor([True, False, True, True, False, True]))
        self.chosen = nn.Parameter(torch.tensor([1.0, 0.0, 1.0, 1.0]), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.first(x)[:, self.mask]
        if self.mask.sum() > 2:
            found = found * found
        return found[:, self.chosen.nonzero()[:, 0]]


class Moving(Masked):
    """Changes its mask in each step."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = super().forward(x)
        self.mask = self.mask.roll(1)
        return found


class Begun(Masked):
    """Does something else in the first step."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.mask[1]:
            self.mask[1] = True
            return super().forward(x)
        return super().forward(x) * 2


class Logged(Masked):
    """Looks at a buffer that each step changes, for a log alone."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.log: list[float] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        self.log.append(self.seen.item())
        return super().forward(x) * self.seen.clone()


def _spec(model: nn.Module, **options: Any) -> JobSpec:
    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        found: torch.Tensor = model(batch["x"]).square().mean()
        return found

    return JobSpec(
        name="known",
        model=model,
        loss=loss,
        train={"x": X},
        holdout={"x": X},
        batch=4,
        steps=2,
        weights="keep",
        optimizer=torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1),
        **options,
    )


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("make", [Masked, Logged])
def test_a_buffer_that_no_step_changes_is_known(make: type[nn.Module], accumulate: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = make()
    build(_spec(model, accumulate=accumulate), tmp_path)
    loaded = load_job(tmp_path)
    state = {f"global.{name}": array for name, array in loaded.global_state.items()}
    number = np.array(0)
    batch = batch_at(loaded.data, loaded.job, 0)
    given = {**state, **batch, STEP: number, BATCH_NUMBER: number}
    found = run(loaded.job.document.step, given, loaded.job.document.seed, backend(Engine(NUMPY)))
    rows = torch.from_numpy(batch["batch.x"].copy())
    parts = [model(part).square().mean() for part in rows.chunk(accumulate)]
    loss = torch.stack(parts).mean()
    loss.backward()  # type: ignore[no-untyped-call]
    slope = dict(model.named_parameters())["first.weight"].grad
    assert slope is not None
    moved = (state["global.first.weight"] - found["global.first.weight"]) / 0.1
    np.testing.assert_allclose(found["metric.loss"], loss.detach().numpy(), rtol=1e-3)
    np.testing.assert_allclose(moved, slope.numpy(), atol=1e-3)


@pytest.mark.parametrize("make", [Moving, Begun])
def test_a_buffer_that_a_step_changes_is_not(make: type[nn.Module], tmp_path: Path) -> None:
    with pytest.raises(JobError, match="depends on values"):
        build(_spec(make()), tmp_path)


def test_a_job_that_goes_on_knows_the_buffers_of_what_it_goes_on_from(tmp_path: Path) -> None:
    torch.manual_seed(0)
    build(_spec(Masked()), tmp_path / "first")
    done = run_locally(tmp_path / "first", out=tmp_path / "run")
    steps = []
    for name in ("same", "other"):
        model = Masked()
        if name == "other":
            model.mask.fill_(True)
        build(_spec(model, resume=done), tmp_path / name)
        steps.append(program_json(load_job(tmp_path / name).job.document.step))
    assert steps[0] == steps[1]
