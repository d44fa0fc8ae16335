"""The check at every build: it finds what a job would lose, names it, and leaves the person's objects as they were."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from pol.capture import check, functions
from pol.capture.author.spec import AdamW, Batch, JobSpec, Lion
from pol.capture.build import build
from pol.capture.functions import JobFunctions
from pol.capture.model.plain_model import own_tensors
from pol.capture.optim.optimizers import InnerOptimizer
from pol.capture.optim.taken import Taken
from pol.errors import JobError
from tests.unit.pol.capture.test_kept import Follower, by_itself, classes, spec_of

CHECKING = "checking one step against plain torch"


def _net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2))


def _built(spec: JobSpec, folder: Path) -> list[str]:
    told: list[str] = []
    build(spec, folder, told.append)
    assert CHECKING in told
    return [line for line in told if line.startswith("warning: not checked")]


# --- defects that are planted in what a step is made of -----------------------------------------


def _buffers_only(self: JobFunctions) -> list[str]:
    names = [name for name, _ in self._spec.model.named_buffers()]
    return [name for name in names if "num_batches" not in name]


@contextmanager
def _all_in_training(model: nn.Module) -> Iterator[None]:
    modes = [(part, part.training) for part in model.modules()]
    model.train()
    yield
    for part, mode in modes:
        part.training = mode


def _frozen_norm() -> JobSpec:
    model = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 2)).train()
    model[0].eval().requires_grad_(False)
    return spec_of(model, classes, torch.optim.SGD(model[1].parameters(), 0.01))


def _follower() -> JobSpec:
    model = Follower("data.mul_")
    # without the counter, whose change is seen first
    return spec_of(model, by_itself, torch.optim.SGD(model.query.parameters(), 0.3))


def test_it_finds_a_frozen_parameter_whose_change_is_lost(tmp_path: Path) -> None:
    with patch.object(JobFunctions, "_names_forward_may_change", _buffers_only), pytest.raises(JobError) as error:
        build(_follower(), tmp_path)
    assert error.value.field in ("model.steps", "model.key.weight", "model.key.bias")
    for words in ("a step of plain torch changes it", "but the job does not", "check=False"):
        assert words in str(error.value)


def test_it_finds_a_follower_that_is_equal_when_training_begins(tmp_path: Path) -> None:
    """As a key network is, that was copied from the query network: in the first step it would not move at all."""
    spec = _follower()
    with torch.no_grad():
        del spec.model._parameters["steps"]
    spec.model.register_buffer("steps", torch.zeros(1))
    words = r"model\.key\.weight: a step of plain torch changes it"
    lost = patch.object(JobFunctions, "_names_forward_may_change", _buffers_only)
    with lost, pytest.raises(JobError, match=words):
        build(spec, tmp_path)


def test_it_finds_a_part_whose_mode_is_lost(tmp_path: Path) -> None:
    words = (
        r"model\.0\.running_mean: a step of the job changes it.*plain torch does not.*"
        r"0 \(BatchNorm1d\) was returned in eval mode; the loss is"
    )
    with (
        patch.object(functions, "training", _all_in_training),
        pytest.raises(JobError, match=words),
    ):
        build(_frozen_norm(), tmp_path)


def test_it_finds_state_of_an_optimizer_that_is_lost(tmp_path: Path) -> None:
    model = _net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(9):
        optimizer.zero_grad()
        model(torch.randn(16, 8)).square().sum().backward()
        optimizer.step()
    spec = spec_of(model, classes, optimizer)
    lost = patch("pol.capture.optim.groups.taken_by_steps", lambda *given: [(given[2], Taken())])
    with lost, pytest.raises(JobError, match=r"but differently from plain torch|differs between"):
        build(spec, tmp_path)
    assert not _built(spec, tmp_path)


def _without_clipping(gradients: Any, largest: float) -> Any:
    return gradients


def _wrong_decay(self: InnerOptimizer, parameters: Any, *others: Any) -> Any:
    moved, kept = _UPDATE(self, parameters, *others)
    return {name: value * 0.999 for name, value in moved.items()}, kept


_UPDATE = InnerOptimizer.update


@pytest.mark.parametrize(
    "defect",
    [
        patch.object(functions, "clip", _without_clipping),
        patch.object(InnerOptimizer, "update", _wrong_decay),
        patch.object(functions, "averages", lambda share, state, moved: {f"ema.{n}": v for n, v in moved.items()}),
        patch.object(functions, "gradient", lambda value, name: value * (1.1 if name == "0.weight" else 1.0)),
    ],
    ids=["clip", "decay", "average", "gradient"],
)
def test_it_finds_other_updates(defect: Any, tmp_path: Path) -> None:
    model = _net()
    spec = spec_of(model, classes, torch.optim.SGD(model.parameters(), 0.1), clip_norm=0.01, ema=0.9)
    with defect, pytest.raises(JobError, match=r"model\..*but differently from plain torch"):
        build(spec, tmp_path / "other")
    assert not _built(spec, tmp_path / "right")


# --- what it must not refuse --------------------------------------------------------------------


class Attends(nn.Module):
    """Attention whose keys have a bias, and a linear layer before a norm: their gradients are rounding."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True)
        self.one, self.norm, self.score = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.reshape(-1, 4, 2).repeat(1, 1, 4)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        found: torch.Tensor = self.score(self.norm(self.one(x.mean(1))).relu())
        return found


def _half(model: nn.Module, batch: Batch) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return F.cross_entropy(model(batch["x"]).float(), batch["y"])


def _noisy(model: nn.Module, batch: Batch) -> torch.Tensor:
    x = batch["x"] + torch.randn_like(batch["x"]) * torch.rand(1)
    return F.cross_entropy(model(x[torch.randperm(len(x))]), batch["y"])


@pytest.mark.parametrize(
    ("make", "loss", "optimizer"),
    [
        (_net, classes, lambda p: torch.optim.Adam(p, 1e-2)),
        (Attends, classes, lambda p: torch.optim.AdamW(p, 1e-2)),
        (Attends, classes, lambda p: torch.optim.Rprop(p, 1e-2)),
        pytest.param(Attends, classes, lambda p: Lion(), marks=pytest.mark.nightly),
        pytest.param(Attends, classes, lambda p: AdamW(), marks=pytest.mark.nightly),
        (_net, _half, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
        (_net, _noisy, lambda p: torch.optim.Adagrad(p, 0.1)),
    ],
)
def test_rounding_is_no_difference(make: Callable[[], nn.Module], loss: Any, optimizer: Any, tmp_path: Path) -> None:
    model = make()
    spec = spec_of(model, loss, optimizer(model.parameters()), accumulate=2, precision=15)
    assert not _built(spec, tmp_path)


class Caches(nn.Module):
    """Makes a table in its first call and keeps it, as rotary embeddings do."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "table"):
            self.register_buffer("table", torch.arange(8.0) / 8, persistent=False)
        found: torch.Tensor = self.score(x * self.get_buffer("table"))
        return found


class Begins(Caches):
    """Takes its scale from the first batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "scale"):
            self.register_buffer("scale", x.detach().std(0))
        found: torch.Tensor = self.score(x / self.get_buffer("scale"))
        return found


def test_a_table_that_forward_makes_is_no_state(tmp_path: Path) -> None:
    model = Caches()
    assert not _built(spec_of(model, classes), tmp_path)
    assert not hasattr(model, "table")


def test_what_forward_makes_of_the_first_batch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"model\.scale: is made in a forward pass.*register_buffer"):
        build(spec_of(Begins(), classes), tmp_path)


def test_two_parameters_on_one_memory_are_refused(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2))
    model[1].weight.data = model[0].weight.data
    words = r"model\.[01]\.weight: .*shares its memory with [01]\.weight.*use one parameter for both"
    with pytest.raises(JobError, match=words):
        build(spec_of(model, classes), tmp_path)


# --- the person's objects and the options -------------------------------------------------------


def _of_numpy() -> bytes:
    state: Any = np.random.get_state()  # noqa: NPY002
    found: bytes = state[1].tobytes()
    return found


def test_everything_is_as_it_was(tmp_path: Path) -> None:
    model = _net()
    hook: Any = model.get_parameter("0.weight").register_hook
    hook(lambda gradient: gradient * 2)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    model(torch.randn(4, 8)).sum().backward()
    own = own_tensors(model)
    before = {name: (tensor.clone(), tensor._version, tensor.data_ptr()) for name, tensor in own.items()}
    gradients = {name: p.grad for name, p in model.named_parameters()}
    states = torch.get_rng_state(), random.getstate(), _of_numpy()
    assert not _built(spec_of(model, classes, optimizer, schedule=scheduler), tmp_path)
    assert {name: id(tensor) for name, tensor in own_tensors(model).items()} == {
        name: id(tensor) for name, tensor in own.items()
    }
    for name, (value, version, place) in before.items():
        assert torch.equal(own[name], value)
        assert (own[name]._version, own[name].data_ptr()) == (version, place)
    assert all(p.grad is gradients[name] for name, p in model.named_parameters())
    assert not optimizer.state
    assert scheduler.last_epoch == 0
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert _of_numpy() == states[2]


def test_building_twice_gives_the_same_job(tmp_path: Path) -> None:
    spec = spec_of(_net(), classes, AdamW(), weights=None)
    first = build(spec, tmp_path / "one")
    assert first.id == build(spec, tmp_path / "two").id
    assert first.id == build(spec, tmp_path / "three", check=False).id


def test_it_can_be_left_out(tmp_path: Path) -> None:
    told: list[str] = []
    with patch.object(JobFunctions, "_names_forward_may_change", _buffers_only):
        build(_follower(), tmp_path, told.append, check=False)
        build(spec_of(_net(), classes, check=False), tmp_path, told.append)
    assert CHECKING not in told


def test_what_would_take_too_long_is_not_checked_and_said(tmp_path: Path) -> None:
    told: list[str] = []
    with patch.object(check, "_COSTS", (1.0, 1.0, 1.0)):
        build(spec_of(_net(), classes), tmp_path, told.append)
    assert any(line.startswith("warning: not checked against plain torch: one step takes") for line in told)


class Fails(nn.Module):
    """Writes to a weight that asks for a gradient, which torch refuses, and a step has no need to."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.calls = nn.Linear(8, 2), nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1.0)
        found: torch.Tensor = self.score(x)
        return found


def test_a_step_that_plain_torch_cannot_take_is_said(tmp_path: Path) -> None:
    model = Fails()
    spec = spec_of(model, classes, torch.optim.SGD(model.score.parameters(), 0.1))
    (line,) = _built(spec, tmp_path)
    assert line.startswith("warning: not checked against plain torch: a step of plain torch fails: model (Fails")
    assert line.endswith("a weight that has a gradient is changed in place there")


def test_rounding_errors_that_are_equal_by_chance_are_not_certain() -> None:
    """The gradient of a bias before a batch norm, at four starts that hardly differ, as a processor gave it."""
    gradient = torch.tensor([2.3283064e-09, 2.3283064e-10, -7.4505806e-09, 6.9849193e-10])
    shaken = [
        torch.tensor([-1.6298145e-09, 2.3283064e-10, 0.0, 9.3132257e-10]),
        torch.tensor([9.3132257e-10, 2.3283064e-10, -7.4505806e-09, 1.2805685e-09]),
        torch.tensor([0.0, 2.3283064e-10, 0.0, -6.9849193e-10]),
    ]
    assert not torch.stack([check.are_certain(gradient, each) for each in shaken]).all(0).any()
    assert check.are_certain(torch.tensor([1.0, 1e-3, 0.0]), torch.tensor([1.0 + 1e-5, 1e-3, 0.0])).all()
