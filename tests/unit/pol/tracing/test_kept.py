"""What a person hands over with a model is trained on, and what forward changes is handed on, as in a loop of torch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import NATIVE
from pol.job.dataset import batch_at
from pol.job.document import BATCH_NUMBER, STEP, Job
from pol.job.load import load_job
from pol.tracing.build import build
from pol.tracing.model import own_tensors
from pol.tracing.spec import Batch, JobSpec

ROWS, STEPS = 64, 4
X = np.random.default_rng(0).normal(1, 2, (ROWS, 8)).astype(np.float32)
Y = (X[:, 0] > 1).astype(np.int64)
Make = Callable[[], JobSpec]


def spec_of(model: nn.Module, loss: Any, optimizer: Any = None, **options: Any) -> JobSpec:
    data = {"x": X, "y": Y}
    settings: dict[str, Any] = {"precision": 22, "weights": "keep"} | options
    return JobSpec(
        name="kept", model=model, loss=loss, train=data, holdout=data, batch=16, steps=STEPS,
        optimizer=optimizer or torch.optim.SGD(model.parameters(), 0.1), **settings,
    )  # fmt: skip


def classes(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"])


def by_itself(model: nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = model(batch["x"])
    return found


def trained(folder: Path, steps: int = STEPS) -> tuple[list[float], dict[str, np.ndarray]]:
    """Take steps of a job in one slot; return losses and the global state."""
    loaded, native = load_job(folder), backend(NATIVE)
    document = loaded.job.document
    state = {f"global.{name}": array for name, array in loaded.global_state.items()}
    state |= {f"local.{name}": array for name, array in loaded.local_state.items()}
    losses = []
    for step in range(steps):
        number = np.array(step)
        given = {**state, **batch_at(loaded.data, loaded.job, step)}
        found = run(
            document.step, {**given, STEP: number, BATCH_NUMBER: number}, document.seed, native
        )
        losses.append(float(found["metric.loss"]))
        state |= {name: found[name] for name in state if name in found}
    return losses, {n.partition(".")[2]: v for n, v in state.items() if n.startswith("global.")}


def by_hand(spec: JobSpec, folder: Path, steps: int = STEPS) -> tuple[list[float], nn.Module]:
    """Take the same steps as a loop of plain torch does, with the model and the optimizer as they are."""
    loaded, model, optimizer = load_job(folder), spec.model, spec.optimizer
    assert isinstance(optimizer, torch.optim.Optimizer)
    scheduler: Any = spec.schedule
    losses = []
    for step in range(steps):
        rows = batch_at(loaded.data, loaded.job, step)
        batch = {n.removeprefix("batch."): torch.from_numpy(c.copy()) for n, c in rows.items()}
        optimizer.zero_grad()
        total = 0.0
        for part in range(spec.accumulate):
            size = spec.batch // spec.accumulate
            cut = slice(part * size, (part + 1) * size)
            loss = spec.loss(model, {n: c[cut] for n, c in batch.items()}) / spec.accumulate
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        losses.append(total)
    return losses, model


def agrees(make: Make, folder: Path, told: list[str] | None = None) -> Job:
    """Train what is made as a job and by hand, and compare losses and all that the model has."""
    job = build(make(), folder, told.append if told is not None else None)
    losses, state = trained(folder)
    expected, model = by_hand(make(), folder)
    np.testing.assert_allclose(losses, expected, rtol=2e-4, atol=2e-5)
    for name, tensor in own_tensors(model).items():
        if not name.endswith("num_batches_tracked"):
            right = tensor.detach().numpy()
            np.testing.assert_allclose(state[name], right, rtol=2e-3, atol=2e-4, err_msg=name)
    return job


# --- state that forward changes -----------------------------------------------------------------


class Follower(nn.Module):
    """A key network that follows a query network, moved in forward."""

    def __init__(self, spelling: str, frozen: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key = nn.Linear(8, 4), nn.Linear(8, 4)
        self.key.load_state_dict(self.query.state_dict())
        self.key.requires_grad_(not frozen)
        self.steps = nn.Parameter(torch.zeros(1), requires_grad=not frozen)
        self.spelling = spelling

    def follow(self, key: nn.Parameter, query: nn.Parameter, place: nn.Module, name: str) -> None:
        if self.spelling == "data =":
            key.data = 0.5 * key.data + 0.5 * query.data
        elif self.spelling == "data.mul_":
            key.data.mul_(0.5).add_(query.data, alpha=0.5)
        elif self.spelling == "mul_":
            key.mul_(0.5).add_(query, alpha=0.5)
        elif self.spelling == "copy_":
            key.copy_(0.5 * key + 0.5 * query)
        elif self.spelling == "lerp_":
            key.lerp_(query, 0.5)
        elif self.spelling == "set":
            key[...] = 0.5 * key + 0.5 * query
        else:
            setattr(place, name, nn.Parameter(0.5 * key + 0.5 * query, requires_grad=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            with torch.no_grad():
                self.steps.add_(1.0)
                for name in ("weight", "bias"):
                    key, query = getattr(self.key, name), getattr(self.query, name)
                    self.follow(key, query, self.key, name)
        apart = F.mse_loss(self.query(x), self.key(x + 0.5).detach() + 1)
        return apart + self.steps.detach().clone().mean()


def _follower(spelling: str, frozen: bool = True, **options: Any) -> JobSpec:
    model = Follower(spelling, frozen)
    optimizer = torch.optim.SGD(model.query.parameters(), 0.3)
    return spec_of(model, by_itself, optimizer, **options)


@pytest.mark.parametrize(
    "spelling", ["data =", "data.mul_", "mul_", "copy_", "lerp_", "set", "self.x ="]
)
def test_a_frozen_parameter_that_forward_moves_is_handed_on(spelling: str, tmp_path: Path) -> None:
    job = agrees(lambda: _follower(spelling), tmp_path)
    assert {"key.weight", "key.bias", "steps"} <= {spec.name for spec in job.updated}


def test_a_parameter_that_no_group_holds_and_forward_moves_is_handed_on(tmp_path: Path) -> None:
    agrees(lambda: _follower("data.mul_", frozen=False), tmp_path)


def test_each_part_of_a_batch_hands_on_what_forward_moves(tmp_path: Path) -> None:
    agrees(lambda: _follower("mul_", accumulate=4), tmp_path)
    _, state = trained(tmp_path)
    assert state["steps"].tolist() == [4.0 * STEPS]


class Shared(nn.Module):
    """A part that a model holds under two names and calls twice, with a buffer and a frozen weight that it moves."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        part = nn.Linear(8, 8)
        part.register_buffer("calls", torch.zeros(8))
        part.register_parameter("scale", nn.Parameter(torch.ones(8), requires_grad=False))
        self.one, self.two = part, part
        self.score = nn.Linear(8, 2)

    def _part(self, part: Any, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            with torch.no_grad():
                part.calls = part.calls + x.mean(0)
                part.scale.mul_(0.9)
        found: torch.Tensor = part(x) + part.scale + part.calls
        return found

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.score(self._part(self.two, self._part(self.one, x).tanh()))
        return found


class Tied(nn.Module):
    """One tensor under two names, a frozen one too; forward writes to both under the second name."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two, self.score = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.two.weight, self.two.bias = self.one.weight, self.one.bias
        self.one.bias.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.two.weight.clamp_(-0.3, 0.3)
            self.two.bias.add_(0.1)
        found: torch.Tensor = self.score(self.two(self.one(x).tanh()))
        return found


class Unread(nn.Module):
    """A weight that the optimizer holds and the loss does not need, changed by forward alone."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.score, self.largest = nn.Linear(8, 2), nn.Parameter(torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.largest.copy_(torch.maximum(self.largest, x.amax(0)))
        found: torch.Tensor = self.score(x)
        return found


@pytest.mark.parametrize("make", [Shared, Tied, Unread])
def test_what_forward_writes_is_handed_on_wherever_it_is(
    make: Callable[[], nn.Module], tmp_path: Path
) -> None:
    agrees(lambda: spec_of(make(), classes), tmp_path)


def test_building_leaves_a_part_with_two_names_as_it_was(tmp_path: Path) -> None:
    model = Shared()
    before = {name: tensor.clone() for name, tensor in own_tensors(model).items()}
    build(spec_of(model, classes), tmp_path)
    for name, tensor in own_tensors(model).items():
        assert type(tensor) in (torch.Tensor, nn.Parameter)
        assert torch.equal(tensor, before[name]), name


def test_an_average_that_would_not_follow_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"model\.largest.*has no gradient.*requires_grad_\(False\)"):
        build(spec_of(Unread(), classes, ema=0.9), tmp_path)


class Writes(nn.Module):
    """A classifier with a tensor more, and a forward pass that does something to it."""

    def __init__(self, tensor: torch.Tensor, write: Callable[[Any], None]) -> None:
        super().__init__()
        self.score, self.write = nn.Linear(8, 2), write
        self.again = self.score
        self.register_buffer("seen", tensor)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.write(self)
        found: torch.Tensor = self.score(x)
        return found


def _counts(model: Any) -> None:
    model.seen += 1


def _grows(model: Any) -> None:
    model.seen = torch.cat([model.seen, model.seen])


def _drops(model: Any) -> None:
    model.seen = None


@pytest.mark.parametrize(
    ("tensor", "write", "words"),
    [
        (torch.zeros(1, dtype=torch.int64), _counts, r"model\.seen.*integers cannot be averaged.*float32"),
        (torch.zeros(1, dtype=torch.int32), _counts, r"model\.seen.*integers cannot be averaged.*float32"),
        (torch.zeros(2), _grows, r"model\.seen.*shape \[4\].*was.*shape \[2\].*keep its shape"),
        (torch.zeros(2), _drops, r"model\.seen.*takes it out of the model.*zeros"),
    ],
    ids=["counter", "narrow", "grows", "drops"],
)  # fmt: skip
def test_what_no_step_can_hand_on_is_refused_by_its_name(
    tensor: torch.Tensor, write: Callable[[Any], None], words: str, tmp_path: Path
) -> None:
    with pytest.raises(JobError, match=words):
        build(spec_of(Writes(tensor, write), classes), tmp_path)


def test_a_name_of_a_tied_tensor_that_becomes_another_one_is_refused(tmp_path: Path) -> None:
    def write(model: Any) -> None:
        model.other.weight = nn.Parameter(model.score.weight * 0.5)

    model = Writes(torch.zeros(1), write)
    model.other = nn.Linear(8, 2)
    model.other.weight = model.score.weight
    with pytest.raises(
        JobError, match=r"model\.other\.weight: is the same tensor as score\.weight"
    ):
        build(spec_of(model, classes), tmp_path)


# --- modes of parts -----------------------------------------------------------------------------


def _normed(frozen: Callable[[Any], None]) -> JobSpec:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.BatchNorm1d(8), nn.Linear(8, 8), nn.Sequential(nn.BatchNorm1d(8), nn.Dropout(0.5)), nn.Linear(8, 2)
    )  # fmt: skip
    frozen(model)
    return spec_of(model, classes)


def _whole(model: Any) -> None:
    model.eval()


def _first(model: Any) -> None:
    model.train()
    model[0].eval().requires_grad_(False)
    model[2][1].p = 0.0


def _inner(model: Any) -> None:
    model[2].eval()


def _head_alone(model: Any) -> None:
    model.eval()
    model[0].train()


@pytest.mark.parametrize(
    ("frozen", "named"),
    [
        (_first, "0 (BatchNorm1d)"),
        (_inner, "2 (Sequential)"),
        (_head_alone, "the model itself (Sequential)"),
    ],
)
def test_a_part_in_eval_mode_trains_in_it(
    frozen: Callable[[Any], None], named: str, tmp_path: Path
) -> None:
    told: list[str] = []
    agrees(lambda: _normed(frozen), tmp_path, told)
    assert [line for line in told if "eval mode" in line and f"trains: {named};" in line]


def test_a_model_in_eval_mode_as_a_whole_trains_in_training_mode(tmp_path: Path) -> None:
    told: list[str] = []
    model = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 2)).eval()
    job = build(spec_of(model, classes), tmp_path, told.append)
    assert "0.running_mean" in {spec.name for spec in job.updated}
    assert any("in eval mode as a whole, and trains in training mode" in line for line in told)
    assert not any(part.training for part in model.modules())


class Overrides(nn.Sequential):
    """Keeps its norm in eval mode by a train() of its own."""

    def train(self, mode: bool = True) -> "Overrides":
        super().train(mode)
        self[0].eval()
        return self


def test_a_train_of_its_own_has_its_say(tmp_path: Path) -> None:
    model = Overrides(nn.BatchNorm1d(8), nn.Linear(8, 2))
    job = build(spec_of(model, classes), tmp_path)
    assert "0.running_mean" not in {spec.name for spec in job.updated}
