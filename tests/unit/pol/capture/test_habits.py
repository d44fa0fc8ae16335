"""What people write in models, losses and data: it does what it does in plain torch, or ends in a sentence."""

import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention.flex_attention import flex_attention

from pol.capture.author.spec import Batch, JobSpec
from pol.capture.build import build
from pol.capture.loops.repeating import repeat
from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import NATIVE, Engine
from pol.job.dataset import batch_at
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.load import load_job

STEPS, ROWS = 2, 8
X = np.random.default_rng(1).standard_normal((ROWS, 4)).astype(np.float32)
Y = np.random.default_rng(2).integers(0, 3, ROWS)


def _loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"])


def _spec(model: nn.Module, loss: Any = _loss, **options: Any) -> JobSpec:
    data = {"x": X, "y": Y}
    settings: dict[str, Any] = {"optimizer": torch.optim.SGD(model.parameters(), 0.1)} | options
    return JobSpec(
        name="habit",
        model=model,
        loss=loss,
        train=data,
        holdout=data,
        batch=4,
        steps=STEPS,
        weights="keep",
        **settings,
    )


def _trained(make: Callable[[], nn.Module], loss: Any, folder: Path) -> None:
    """Train a job and the loop of plain torch, and compare all that the model has."""
    torch.manual_seed(3)
    plain = make()
    torch.manual_seed(3)
    build(_spec(make(), loss), folder)
    loaded, native = load_job(folder), backend(Engine(NATIVE))
    state = {f"global.{name}": array for name, array in loaded.global_state.items()}
    optimizer = torch.optim.SGD(plain.parameters(), 0.1)
    for step in range(STEPS):
        batch = batch_at(loaded.data, loaded.job, step)
        number = np.array(step)
        given = {**state, **batch, STEP: number, BATCH_NUMBER: number}
        found = run(loaded.job.document.step, given, loaded.job.document.seed, native)
        state |= {name: found[name] for name in state if name in found}
        optimizer.zero_grad()
        rows = {n.removeprefix("batch."): torch.from_numpy(c.copy()) for n, c in batch.items()}
        loss(plain, rows).backward()
        optimizer.step()
    for name, tensor in [*plain.named_parameters(), *plain.named_buffers()]:
        mine = state[f"global.{name}"]
        np.testing.assert_allclose(mine, tensor.detach().numpy(), atol=1e-3, err_msg=name)


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 3)
        self.mean: torch.Tensor
        self.register_buffer("mean", torch.zeros(4))
        self.calls, self.last = 0, torch.zeros(())
        self.total = torch.zeros(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.two(self.one(x).tanh())
        return found


class _Assigns(_Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.one(x)
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * h.detach().mean(0)
        found: torch.Tensor = self.two(h - self.mean)
        return found


class _AssignsData(_Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.one.weight.data = F.normalize(self.one.weight.data, dim=1)
        return super().forward(x)


def _hooked() -> nn.Module:
    model = _Net()
    hook: Any = model.one.weight.register_hook
    hook(lambda gradient: gradient * torch.arange(4.0))
    return model


class _Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5, 4, max_norm=1.0, sparse=False)
        self.rare = nn.Embedding(5, 4, sparse=True)
        self.score = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        place = x.argmax(1)
        found: torch.Tensor = self.score(self.words(place) + self.rare(place))
        return found


def _by_gradient(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The loss after a step of its own, as meta-learning has it."""
    weights: dict[str, torch.Tensor] = dict(model.named_parameters())
    inner = F.cross_entropy(torch.func.functional_call(model, weights, (batch["x"],)), batch["y"])
    slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
    moved = {name: w - 0.1 * s for (name, w), s in zip(weights.items(), slopes, strict=True)}
    outputs = torch.func.functional_call(model, moved, (batch["x"].flip(0),))
    return F.cross_entropy(outputs, batch["y"])


def _likelihood(model: nn.Module, batch: Batch) -> torch.Tensor:
    classes: Any = torch.distributions.Categorical(logits=model(batch["x"]))
    found: torch.Tensor = -classes.log_prob(batch["y"]).mean()
    return found


@pytest.mark.parametrize(
    ("make", "loss"),
    [
        (_Assigns, _loss),
        (_AssignsData, _loss),
        (_hooked, _loss),
        (_Words, _loss),
        (_Net, _by_gradient),
        (_Net, _likelihood),
    ],
    ids=["buffer", "data", "hook", "embeddings", "gradient", "distribution"],
)
def test_a_habit_trains_as_in_plain_torch(make: Callable[[], nn.Module], loss: Any, tmp_path: Path) -> None:
    _trained(make, loss, tmp_path / "job")


def test_casts_to_narrow_types_are_left_out_with_a_word(tmp_path: Path) -> None:
    told: list[str] = []

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        return F.cross_entropy(model(batch["x"].bfloat16()).float(), batch["y"])

    build(_spec(_Net().bfloat16(), loss), tmp_path / "job", told.append)
    line = "the job computes in float32 what the loss computes in bfloat16 (by autocast or a cast)"
    assert line in told


class _Counts(_Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x) * self.calls


class _Logs(_Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.last = x.mean()
        return super().forward(x)


class _Remembers(_Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = super().forward(x)
        if self.training:
            found = found + self.last
            self.last = found.detach().mean()
        return found


class _Adds(_Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.mean(0))
        return super().forward(x + self.total)


class _DropsByPython(_Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        share = random.random()
        return super().forward(x * share)


def _by_numpy(model: nn.Module, batch: Batch) -> torch.Tensor:
    share = np.random.beta(0.4, 0.4)  # noqa: NPY002
    return share * _loss(model, batch)


def _backward(model: nn.Module, batch: Batch) -> torch.Tensor:
    loss = _loss(model, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss


def _scaled(model: nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = torch.amp.GradScaler("cpu").scale(_loss(model, batch))
    return found


def _detached(model: nn.Module, batch: Batch) -> torch.Tensor:
    return _loss(model, batch).detach()


def _late() -> nn.Module:
    model = _Net()
    hook: Any = model.one.weight.register_post_accumulate_grad_hook
    hook(lambda parameter: None)
    return model


@pytest.mark.parametrize(
    ("make", "loss", "told"),
    [
        (_Counts, _loss, ("self.calls += 1", "depends on a Python value of an earlier step", "register_buffer")),
        (_Remembers, _loss, ("found = found + self.last", "an earlier call or turn computed", "register_buffer")),
        (_Adds, _loss, ("self.total.add_", "in place that is not a buffer of the model", "register_buffer")),
        (_DropsByPython, _loss, ("share = random.random()", "Python's random draws numbers there", "torch.rand")),
        (_Net, _by_numpy, ("share = np.random.beta", "NumPy's random draws numbers there", "torch.rand")),
        (_Net, _backward, ("loss.backward()", "the code calls backward() there", "return the loss")),
        (_Net, _scaled, ("GradScaler", "scales the loss there", "leave the GradScaler out")),
        (_Net, _detached, ("loss", "does not depend on any trained weight", "leave .detach()")),
        (_late, _loss, ("model.one.weight", "has a hook that runs after its gradient", "register_hook")),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_a_habit_that_cannot_work_ends_in_a_sentence(
    make: Callable[[], nn.Module], loss: Any, told: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(JobError) as error:
        build(_spec(make(), loss), tmp_path / "job")
    for part in told:
        assert part in str(error.value)


def test_what_a_step_does_not_depend_on_may_be_kept(tmp_path: Path) -> None:
    model = _Logs()
    build(_spec(model), tmp_path / "job")
    assert type(model.last) is torch.Tensor


def _fails(step: int) -> float:
    return 1 / (step - 1)


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        (torch.optim.lr_scheduler.StepLR, "StepLR is a class; give the object"),
        (_fails, "fails for step 1: ZeroDivisionError"),
    ],
)
def test_a_schedule_that_is_none_is_told(schedule: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=told):
        build(_spec(_Net(), schedule=schedule), tmp_path / "job")


class _Damaged(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, number: int) -> Any:
        if number == 5:
            raise ValueError("no image")
        return X[number], Y[number]


def test_a_data_set_that_fails_is_told_with_the_item(tmp_path: Path) -> None:
    spec = JobSpec(name="d", model=_Net(), loss=_loss, train=_Damaged(), holdout={"x": X, "y": Y}, batch=4, steps=1)
    with pytest.raises(JobError, match="item 5 cannot be read: ValueError: no image"):
        build(spec, tmp_path / "job")


def test_a_table_of_pandas_has_its_columns(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"x": X[:, 0], "y": Y})

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        return F.cross_entropy(model(batch["x"][:, None].expand(-1, 4)), batch["y"])

    spec = JobSpec(name="t", model=_Net(), loss=loss, train=table, holdout=table, batch=4, steps=1, weights="keep")
    build(spec, tmp_path / "job")
    data = load_job(tmp_path / "job").data
    assert batch_at(data, load_job(tmp_path / "job").job, 0)["batch.x"].shape == (4,)


def test_a_name_that_no_tensor_of_a_job_can_have_is_named(tmp_path: Path) -> None:
    for key, reason in (
        ("layer\x07", r"model\.layer.*\.bias: its name '.*' has characters that cannot be printed"),
        ("x" * 200, "its name has 212 characters in a job, and at most 160"),
        ("-" * 40, "its name has 212 characters in a job, and at most 160"),
    ):
        model = nn.Sequential(OrderedDict({key: nn.Linear(4, 3)}))
        with pytest.raises(JobError, match=f"{reason}.*rename the attribute"):
            build(_spec(model), tmp_path)


def test_a_column_is_named_as_it_is_written(tmp_path: Path) -> None:
    data: Any = {0: X, "y": Y}
    number: Any = 0
    loss: Any = lambda model, batch: model(batch[number]).mean()  # noqa: E731
    spec = replace(_spec(nn.Linear(4, 3), loss), train=data, holdout=data)
    with pytest.raises(JobError, match="no column 0; use one of its columns: '0', 'y'"):
        build(spec, tmp_path)


class _Pools(_Net):
    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.FractionalMaxPool2d((1, 2), output_size=(1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.repeat(1, 3)[:, None, None]
        return super().forward(self.pool(wide)[:, 0, 0])


class _Scans(_Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        last, _ = scan(lambda h, row: (h + row, h * 1.0), torch.zeros(4), self.one(x))
        return super().forward(x + last)


class _Chooses(_Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.cond(x.sum() > 0, lambda v: v, lambda v: -v, (x,)))


class _Attends(_Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.one(x).reshape(1, 1, -1, 1).expand(-1, -1, -1, 16)
        found: Any = flex_attention(heads, heads, heads)
        return super().forward(found.mean(3).reshape(-1, 4))


class _Normalizes(_Net):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, _ = repeat(lambda h, _: (self.norm(self.one(h)), None), x, count=3)
        return super().forward(x)


@pytest.mark.parametrize(
    ("make", "where", "reason", "remedy"),
    [
        (_Pools, r"model\.pool .*pool\(wide\)", "draws its windows", "use AdaptiveMaxPool"),
        (_Scans, r"last, _ = scan\(", "torch's scan", "assay.repeat"),
        (_Chooses, r"torch\.cond\(", "torch's cond", "torch.where"),
        (_Attends, r"flex_attention\(heads", "torch's flex_attention", "scaled_dot_product"),
        (_Normalizes, r"model\.norm .*self\.norm\(self", "does not carry", "all steps at once"),
    ],
)
@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_what_no_step_has_is_said_with_the_line_and_what_to_write(
    make: Callable[[], nn.Module], where: str, reason: str, remedy: str, tmp_path: Path
) -> None:
    with pytest.raises(JobError, match=f"{where}.*{reason}.*{remedy}"):
        build(_spec(make()), tmp_path)
