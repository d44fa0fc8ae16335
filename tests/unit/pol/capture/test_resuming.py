"""Jobs that go on from a result: two of ten steps are one of twenty, bit for bit, or the job is refused."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim
from torch.optim import lr_scheduler

import assay
from pol.capture.author.measures import cross_entropy
from pol.capture.author.spec import SGD, AdamW, Average, JobSpec, Lion, Nesterov
from pol.capture.build import build, build_job
from pol.errors import JobError
from pol.job.checkpoint import HasTraining, Position
from pol.job.load import load_job
from pol.local.run import LocalRun, run_locally
from pol.state.canonical import state_tree

STEPS = 10
ROWS = 40
"""A batch of 12 rows crosses an epoch in each fourth step; the second job begins in the midst of one."""
BATCH = 12
Given = Path | str | HasTraining | None


def _columns() -> dict[str, np.ndarray[Any, Any]]:
    x = np.random.default_rng(0).standard_normal((ROWS, 6)).astype("f4")
    return {"x": x, "y": (x[:, 0] > 0).astype("i8")}


def _model() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))


def _spec(steps: int = STEPS, resume: Given = None, **fields: Any) -> JobSpec:
    chosen: dict[str, Any] = {
        "name": "more",
        "model": _model(),
        "loss": cross_entropy(),
        "batch": BATCH,
        "steps": steps,
        "round_steps": 5,
        "train": _columns(),
        "holdout": _columns(),
        "resume": resume,
        **fields,
    }
    if "phases" in fields:
        del chosen["loss"]
    return JobSpec(**chosen)


def _alone(steps: int, resume: Given) -> JobSpec:
    """AdamW with two groups, whose rates fall when the second job has begun; 0.01 is no exact fifth of 0.05 in FP32."""
    model = _model()
    groups: list[dict[str, Any]] = [
        {"params": model[0].parameters(), "lr": 0.05},
        {"params": [*model[1].parameters(), *model[4].parameters()]},
    ]
    optimizer = optim.AdamW(groups, 0.01, weight_decay=0.1)
    schedule = lr_scheduler.MultiStepLR(optimizer, [13, 17], 0.5)
    return _spec(steps, resume, model=model, optimizer=optimizer, schedule=schedule, clip_norm=1.0)


def _cycle(steps: int, resume: Given) -> JobSpec:
    """A cycle of rate and momentum over both jobs."""
    model = _model()
    optimizer = optim.Adam(model.parameters(), 0.01)
    schedule = lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=2 * STEPS)
    return _spec(steps, resume, model=model, optimizer=optimizer, schedule=schedule, accumulate=2)


def _averaged(steps: int, resume: Given) -> JobSpec:
    rate = lambda step: 0.05 / (1 + step)  # noqa: E731
    return _spec(steps, resume, optimizer=AdamW(), schedule=rate, slots=3, outer=Average())


def _diloco(steps: int, resume: Given) -> JobSpec:
    """What a step counts itself: the first gradient alone is not dampened."""
    model = nn.Sequential(nn.Dropout(0.3), nn.Linear(6, 2))
    optimizer = optim.SGD(model.parameters(), 0.05, momentum=0.9, dampening=0.5)
    # rounds as long as before, for that is what the job of all steps has
    length = {"round_steps": 5} if resume is None else {"round_steps": None}
    outer = Nesterov(0.7, 0.6)
    return _spec(steps, resume, model=model, optimizer=optimizer, slots=2, outer=outer, ema=0.9, **length)


def _rectified(steps: int, resume: Given) -> JobSpec:
    """A rule with a table of its own, by step, which ends before the job does."""
    model = _model()
    optimizer = optim.RAdam(model.parameters(), 0.05, betas=(0.8, 0.07))
    return _spec(steps, resume, model=model, optimizer=optimizer)


def _summed(steps: int, resume: Given) -> JobSpec:
    """An optimizer that has state before its first step."""
    model = _model()
    optimizer = optim.Adagrad(model.parameters(), 0.05, lr_decay=0.1)
    return _spec(steps, resume, model=model, optimizer=optimizer)


def _by_epoch(steps: int, resume: Given) -> JobSpec:
    """Rates that change with the epochs of the data, of which two jobs have as many as one."""
    model = _model()
    optimizer = optim.Adafactor(model.parameters(), 0.05)
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.7)
    turns = {"schedule": schedule, "schedule_every": "epoch"}
    return _spec(steps, resume, model=model, optimizer=optimizer, **turns)


def _frozen(steps: int, resume: Given) -> JobSpec:
    model = _model()
    model[0].requires_grad_(False)
    return _spec(steps, resume, model=model, optimizer=Lion(), schedule=0.01, slots=2)


def _plain(steps: int, resume: Given) -> JobSpec:
    """An optimizer that keeps nothing."""
    return _spec(steps, resume, optimizer=SGD(), schedule=0.1, slots=2)


def _named(steps: int, resume: Given) -> JobSpec:
    """Names that a job has other words for."""
    model = nn.Sequential(OrderedDict([("in-1", nn.Linear(6, 4)), ("out (2)", nn.Linear(4, 2))]))
    columns = {"the x": _columns()["x"], "y.0": _columns()["y"]}
    data = {"train": columns, "holdout": columns, "loss": cross_entropy("the x", "y.0")}
    return _spec(steps, resume, model=model, optimizer=AdamW(), **data)


def _largest(parameters: list[Tensor], gradients: list[Tensor], states: Any, step: assay.RuleStep) -> dict[str, Tensor]:
    norm = torch.stack([gradient.norm() for gradient in gradients]).max()
    return {"largest": torch.maximum(step.numbers["largest"], norm)}


def _own_rule(p: Tensor, g: Tensor, state: Any, step: assay.RuleStep) -> tuple[Tensor, Any]:
    """A rule with a state, a number of the group, noise, and something that is done in every third step."""
    mean = 0.9 * state["mean"] + g / step.numbers["largest"]
    mean = torch.where(step.number % 3 == 0, 0.5 * mean, mean)
    return p - step.lr * (mean + 0.01 * torch.randn_like(p)), {"mean": mean}


def _in_turn(steps: int, resume: Given) -> JobSpec:
    """Two phases, of which one makes two updates in a step with a schedule of its own, and a table of its rule's."""
    model = _model()
    rule = assay.update_rule(
        _own_rule,
        model[4].parameters(),
        lr=0.05,
        state={"mean": 0.0},
        numbers={"largest": 0.0},
        begin=_largest,
    )
    twice = optim.RAdam(model[0].parameters(), 0.05, betas=(0.8, 0.3))
    falls = lr_scheduler.ExponentialLR(twice, 0.9)
    phases = {
        "whole": assay.Phase(loss=cross_entropy(), optimizer=[rule, twice], schedule=[falls], repeat=2),
        "norm": assay.Phase(
            loss=cross_entropy(),
            optimizer=assay.SAM(optim.SGD(model[1].parameters(), 0.1)),
            schedule=lambda step: 0.1 / (1 + step),
        ),
    }
    return _spec(steps, resume, model=model, phases=phases)


Make = Callable[[int, Given], JobSpec]


def _run(spec: JobSpec, to: Path) -> LocalRun:
    build(spec, to)
    return run_locally(to, out=to / "run")


def _left(position: Position) -> Position:
    """Return a position without the id of the job that came so far."""
    return replace(position, job=bytes(32))


@pytest.mark.parametrize(
    "make",
    [
        _alone,
        _diloco,
        *(
            pytest.param(make, marks=pytest.mark.nightly)
            for make in (
                _averaged,
                _cycle,
                _rectified,
                _summed,
                _by_epoch,
                _frozen,
                _plain,
                _named,
                _in_turn,
            )
        ),
    ],
)
def test_two_jobs_of_ten_steps_are_one_of_twenty(make: Make, tmp_path: Path) -> None:
    whole = _run(make(2 * STEPS, None), tmp_path / "whole")
    first = _run(make(STEPS, None), tmp_path / "first")
    second = _run(make(STEPS, tmp_path / "first" / "run"), tmp_path / "second")
    assert load_job(tmp_path / "second").job.document.start.step == STEPS
    assert np.array_equal(np.vstack([first.losses, second.losses]), whole.losses)
    assert _left(second.position) == _left(whole.position)
    assert second.position.step == 2 * STEPS


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> LocalRun:
    """A job of five steps."""
    return _run(_spec(5), tmp_path_factory.mktemp("first"))


def test_what_is_said_and_taken(first: LocalRun, tmp_path: Path) -> None:
    """The path of a file is as good as what a run returned; and no table holds rates of the steps before."""
    told: list[str] = []
    asked: list[int] = []

    def rate(step: int) -> float:
        asked.append(step)
        return 0.1 / (1 + step)

    assert first.model is not None
    spec = _spec(5, schedule=rate)
    job = build_job(spec, tmp_path, told.append, resume=str(first.model))
    assert told[0] == "continues from step 5: weights, optimizers and the position in the data"
    assert job.document.global_root == first.position.global_root
    assert job.document.opening_locals == first.position.local_roots
    assert set(asked) == set(range(5, 10))


def _others() -> dict[str, np.ndarray[Any, Any]]:
    columns = _columns()
    columns["x"][0, 0] += 1
    return columns


def _less() -> dict[str, np.ndarray[Any, Any]]:
    return {name: column[:-1] for name, column in _columns().items()}


def _used() -> dict[str, Any]:
    """Return an optimizer that has taken a step."""
    model = _model()
    optimizer = optim.AdamW(model.parameters())
    model(torch.zeros(2, 6)).sum().backward()
    optimizer.step()
    return {"model": model, "optimizer": optimizer}


def _counted() -> dict[str, Any]:
    model = _model()
    optimizer = optim.AdamW(model.parameters())
    schedule = lr_scheduler.StepLR(optimizer, 5)
    optimizer.step()
    schedule.step()
    return {"model": model, "optimizer": optimizer, "schedule": schedule}


class _Wider(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Dropout(0.3), nn.Linear(9, 2))


class _Longer(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(*_model(), nn.Linear(2, 2))


REFUSED: dict[str, tuple[str, str, Callable[[], dict[str, Any]]]] = {
    "seed": ("seed", "is 1, but .* with 0.*give seed=0", lambda: {"seed": 1}),
    "slots": ("slots", "is 2, but .*give slots=1", lambda: {"slots": 2}),
    "batch": ("batch", "is 8, but .*give batch=12", lambda: {"batch": 8}),
    "rows": ("train", "has 39 rows", lambda: {"train": _less()}),
    "values": ("train", "columns or values differ", lambda: {"train": _others()}),
    "average": ("ema", "has no moving averages", lambda: {"ema": 0.9}),
    "outer": ("outer", "has no outer momentum", lambda: {"outer": Nesterov()}),
    "shape": ("resume", r"0\.bias is f32\[8\] in the result", lambda: {"model": _Wider()}),
    "more": ("resume", r"has no 5\.bias", lambda: {"model": _Longer()}),
    "less": ("resume", "which the model lacks", lambda: {"model": nn.Sequential(nn.Linear(6, 8))}),
    "optimizer": ("optimizer", r"correction1, which the result", lambda: {"optimizer": Lion()}),
    "other state": (
        "optimizer",
        "correction1, .*give the optimizer of the first job",
        lambda: {"optimizer": SGD(momentum=0.9), "schedule": 0.1},
    ),
    "used": ("optimizer", "has state of its own", _used),
    "counted": ("schedule", "has already counted 1 steps.*rates from step 5", _counted),
    "number": ("resume", "int is not a result that", lambda: {"resume": 3}),
    "nowhere": ("resume", "there is no training at", lambda: {"resume": "nowhere"}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_would_be_another_training_is_refused(what: str, first: LocalRun, tmp_path: Path) -> None:
    field, said, make = REFUSED[what]
    with pytest.raises(JobError, match=said) as caught:
        build(_spec(**{"resume": first, **make()}), tmp_path / "job")
    assert caught.value.field == field
    assert not (tmp_path / "job" / "job.json").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ema.0.bias", "ema: is left out, but the result"),
        ("outer_velocity.0.bias", "outer: is Average, but the result"),
    ],
)
def test_what_only_the_result_has_is_refused(name: str, said: str, first: LocalRun, tmp_path: Path) -> None:
    state = {**first.state, name: first.state["0.bias"]}
    position = replace(first.position, global_root=state_tree(state).root)
    with pytest.raises(JobError, match=said):
        build(_spec(resume=replace(first, state=state, position=position)), tmp_path / "job")
