"""Optimizers and schedulers of torch, handed in as objects, against themselves: same gradients, same weights."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn, optim
from torch.optim import lr_scheduler

from pol.capture.author.measures import cross_entropy
from pol.capture.author.spec import SGD, JobSpec, Lion
from pol.capture.functions import JobFunctions, named
from pol.capture.optim import tables
from pol.capture.optim.groups import trained_groups
from pol.capture.optim.optimizers import InnerOptimizer, averages_initial, clip_values
from pol.capture.optim.tables import MOST_STEPS, StepTable
from pol.errors import JobError
from pol.job.document import BATCH_NUMBER, STEP

STEPS = 12
ROWS = 24


def _spec(model: nn.Module, **fields: Any) -> JobSpec:
    empty: dict[str, Any] = {}
    chosen = {"name": "o", "batch": 8, "steps": STEPS, **fields}
    return JobSpec(model=model, loss=cross_entropy(), train=empty, holdout=empty, **chosen)


def _model() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))


def _agrees(spec: JobSpec, steps: int = STEPS) -> None:
    """Give torch's optimizer and ours the same random gradients, and compare all parameters."""
    optimizer, scheduler = spec.optimizer, spec.schedule
    assert isinstance(optimizer, optim.Optimizer)
    inner = InnerOptimizer(trained_groups(spec, steps, ROWS))
    named = dict(spec.model.named_parameters())
    weights = {name: p.detach().clone() for name, p in named.items()}
    local, generator = inner.initial(weights), torch.Generator().manual_seed(5)
    for step in range(steps):
        gradients = {n: torch.randn(p.shape, generator=generator) for n, p in named.items()}
        for name, parameter in named.items():
            parameter.grad = gradients[name].clone() if parameter.requires_grad else None
        optimizer.step()
        if isinstance(scheduler, lr_scheduler.LRScheduler):
            scheduler.step()
        moved, kept = inner.update(weights, gradients, local, torch.tensor(step))
        # a state has the types that it began with
        assert {n: t.dtype for n, t in kept.items()} == {n: local[n].dtype for n in kept}
        weights, local = {**weights, **moved}, {**local, **kept}
    for name, parameter in named.items():
        np.testing.assert_allclose(
            weights[name].numpy(), parameter.detach().numpy(), rtol=2e-5, atol=2e-6, err_msg=name
        )


_Make = Callable[[Any], optim.Optimizer]


_EACH: list[_Make] = [
    lambda p: optim.SGD(p, 0.1),
    lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.3, weight_decay=0.1, maximize=True),
    lambda p: optim.SGD(p, torch.tensor(0.1), momentum=0.9, nesterov=True),
    lambda p: optim.Adam(p, 0.05, weight_decay=0.1, foreach=True),
    lambda p: optim.Adam(p, 0.05, (0.7, 0.8), amsgrad=True, maximize=True),
    lambda p: optim.AdamW(p, 0.05, weight_decay=0.2, amsgrad=True),
    lambda p: optim.NAdam(p, 0.05, weight_decay=0.1),
    lambda p: optim.NAdam(p, 0.05, weight_decay=0.1, decoupled_weight_decay=True),
    lambda p: optim.RAdam(p, 0.05, weight_decay=0.1),
    lambda p: optim.RAdam(p, 0.05, (0.9, 0.7), decoupled_weight_decay=True, weight_decay=0.1),
    lambda p: optim.Adamax(p, 0.05, weight_decay=0.1),
    lambda p: optim.RMSprop(p, 0.05, weight_decay=0.1),
    lambda p: optim.RMSprop(p, 0.05, alpha=0.8, momentum=0.9, centered=True),
    lambda p: optim.Adagrad(p, 0.1),
    lambda p: optim.Adagrad(p, 0.1, 0.05, 0.1, initial_accumulator_value=0.5),
    lambda p: optim.Adadelta(p, 1.0, weight_decay=0.1),
    lambda p: optim.Rprop(p, 0.05),
    lambda p: optim.Rprop(p, 0.05, (0.3, 1.5), (0.04, 0.06), maximize=True),
    lambda p: optim.Adafactor(p, 0.05),
    lambda p: optim.Adafactor(p, 0.3, -0.5, (1e-4, 0.2), 1.5, weight_decay=0.1, maximize=True),
]


@pytest.mark.parametrize("make", _EACH)
def test_each_optimizer_moves_parameters_as_torch_does(make: _Make) -> None:
    model = _model()
    _agrees(_spec(model, optimizer=make(model.parameters())))


def _went_on(spec: JobSpec, steps: int, without: tuple[str, ...] = ()) -> JobSpec:
    """Let torch's optimizer and scheduler take some steps, in which some parameters have no gradient."""
    assert isinstance(spec.optimizer, optim.Optimizer)
    generator = torch.Generator().manual_seed(6)
    for _ in range(steps):
        for name, parameter in spec.model.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator)
            parameter.grad = None if name in without else drawn
        spec.optimizer.step()
        if isinstance(spec.schedule, lr_scheduler.LRScheduler):
            spec.schedule.step()
    return spec


@pytest.mark.parametrize("make", _EACH)
def test_each_optimizer_goes_on_from_its_state(make: _Make) -> None:
    """As after ``load_state_dict``; one parameter begins later than the others."""
    model = _model()
    spec = _spec(model, optimizer=make(model.parameters()))
    _went_on(spec, 5, without=("1.bias",))
    _went_on(spec, 3, without=("0.weight",))
    _agrees(spec)


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam])
def test_a_scheduler_and_a_momentum_that_cycles_go_on(make: Any) -> None:
    model = _model()
    options = {"momentum": 0.9} if make is optim.SGD else {}
    optimizer = make(model.parameters(), 0.01, **options)
    schedule = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=STEPS + 9)
    _agrees(_went_on(_spec(model, optimizer=optimizer, schedule=schedule), 7))


def test_groups_have_options_of_their_own_and_what_is_in_none_stays() -> None:
    model = _model()
    model.get_parameter("0.bias").requires_grad_(False)
    groups: list[dict[str, Any]] = [
        {"params": [model.get_parameter("1.weight")], "lr": 0.3, "betas": (0.5, 0.6)},
        {"params": model[0].parameters(), "weight_decay": 0.5},
    ]
    spec = _spec(model, optimizer=optim.AdamW(groups, 0.01))
    found = trained_groups(spec, STEPS, ROWS)
    assert [group.names for group in found] == [("1.weight",), ("0.weight",)]
    initial = InnerOptimizer(found).initial(dict(model.named_parameters()))
    assert {name for name, tensor in initial.items() if tensor.dim()} == {
        f"{kind}.{name}" for kind in ("exp_avg", "exp_avg_sq") for name in ("1.weight", "0.weight")
    }
    bias = model.get_parameter("1.bias")
    before = bias.detach().clone()
    _agrees(spec)
    assert torch.equal(bias, before)


def _to_average(optimizer: optim.Optimizer) -> lr_scheduler.LRScheduler:
    return optim.swa_utils.SWALR(optimizer, 0.05, anneal_epochs=5)


def _warm(optimizer: optim.Optimizer) -> lr_scheduler.LRScheduler:
    first = lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4)
    then = lr_scheduler.CosineAnnealingLR(optimizer, 8)
    return lr_scheduler.SequentialLR(optimizer, [first, then], [4])


def _chained(optimizer: optim.Optimizer) -> lr_scheduler.LRScheduler:
    parts = [lr_scheduler.ExponentialLR(optimizer, 0.9), lr_scheduler.ConstantLR(optimizer, 0.5, 3)]
    return lr_scheduler.ChainedScheduler(parts, optimizer)


@pytest.mark.parametrize(
    "make",
    [
        _warm,
        _chained,
        lambda o: lr_scheduler.LambdaLR(o, [lambda step: 1 / (1 + step), lambda step: 0.5**step]),
        lambda o: lr_scheduler.MultiplicativeLR(o, lambda step: 0.9),
        lambda o: lr_scheduler.PolynomialLR(o, 10, 2.0),
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2),
        lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 3),
        lambda o: lr_scheduler.OneCycleLR(o, [0.1, 0.3], STEPS + 1),
        _to_average,
    ],
)
@pytest.mark.parametrize("kind", ["sgd", "adamw", "rmsprop"])
def test_each_scheduler_gives_what_it_gives_in_a_loop(
    make: Callable[[optim.Optimizer], lr_scheduler.LRScheduler], kind: str
) -> None:
    model = _model()
    groups: list[dict[str, Any]] = [
        {"params": model[0].parameters(), "lr": 0.05},
        {"params": model[1].parameters()},
    ]
    kinds: dict[str, Callable[[], optim.Optimizer]] = {
        "sgd": lambda: optim.SGD(groups, 0.1, momentum=0.9),
        "adamw": lambda: optim.AdamW(groups, 0.1),
        "rmsprop": lambda: optim.RMSprop(groups, 0.1, momentum=0.9),
    }
    optimizer = kinds[kind]()
    _agrees(_spec(model, optimizer=optimizer, schedule=make(optimizer)))


def _rates(spec: JobSpec, steps: int = STEPS) -> list[list[float]]:
    groups = trained_groups(spec, steps, ROWS)
    return [[round(float(g.lr.at(torch.tensor(s))), 6) for s in range(steps)] for g in groups]


def test_building_leaves_scheduler_and_optimizer_as_they_were() -> None:
    model = _model()
    optimizer = optim.SGD(model.parameters(), 0.8)
    scheduler = lr_scheduler.StepLR(optimizer, 3, 0.5)
    spec = _spec(model, optimizer=optimizer, schedule=scheduler)
    assert _rates(spec, 7) == [[0.8] * 3 + [0.4] * 3 + [0.2]]
    assert _rates(spec, 7) == _rates(spec, 7)
    assert (scheduler.last_epoch, optimizer.param_groups[0]["lr"]) == (0, 0.8)


def test_a_scheduler_may_count_epochs() -> None:
    """24 rows, 8 of them in a step of one slot and 16 in one of two."""
    model = _model()
    optimizer = optim.SGD(model.parameters(), 0.8)
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    spec = _spec(model, optimizer=optimizer, schedule=scheduler, schedule_every="epoch")
    assert _rates(spec, 7) == [[0.8] * 3 + [0.4] * 3 + [0.2]]
    assert _rates(replace(spec, slots=2), 6) == [[0.8, 0.8, 0.4, 0.2, 0.2, 0.1]]
    assert _rates(replace(spec, schedule_every=2), 5) == [[0.8, 0.8, 0.4, 0.4, 0.2]]


def test_a_rounded_up_job_keeps_the_last_rate_of_a_scheduler_that_ends() -> None:
    model = _model()
    optimizer = optim.SGD(model.parameters(), 0.1, momentum=0.9)
    spec = _spec(model, optimizer=optimizer, steps=5)
    spec = replace(spec, schedule=lr_scheduler.OneCycleLR(optimizer, 0.1, 5))
    (rates,) = _rates(spec, 8)
    assert rates[4:] == [rates[4]] * 4
    with pytest.raises(JobError, match="ends before step 6 of 12"):
        _rates(replace(spec, steps=STEPS))


def test_without_a_schedule_the_learning_rates_are_the_optimizers() -> None:
    model = _model()
    groups: list[dict[str, Any]] = [
        {"params": model[0].parameters(), "lr": 0.25},
        {"params": model[1].parameters()},
    ]
    spec = _spec(model, optimizer=optim.SGD(groups, 0.5))
    assert _rates(spec, 2) == [[0.25] * 2, [0.5] * 2]
    with pytest.raises(JobError, match=r"schedule: .*LambdaLR"):
        _rates(replace(spec, schedule=0.1))
    one = replace(spec, optimizer=optim.SGD(model.parameters(), 0.5), schedule=lambda step: step)
    assert _rates(one, 3) == [[0.0, 1.0, 2.0]]
    assert _rates(_spec(model), 2) == [[0.001] * 2]


def _cosine_tables(first_rate: float) -> list[StepTable]:
    """Return the tables of two groups, the second with a rate of 0.1, under one scheduler."""
    model = _model()
    groups: list[dict[str, Any]] = [
        {"params": model[0].parameters(), "lr": first_rate},
        {"params": model[1].parameters()},
    ]
    optimizer = optim.SGD(groups, 0.1)
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, 50)
    found = trained_groups(_spec(model, optimizer=optimizer, schedule=scheduler), 9, ROWS)
    return [group.lr for group in found]


def test_tables_that_differ_by_an_exact_factor_are_one() -> None:
    one, other = _cosine_tables(0.4)
    assert np.array_equal(one.values, other.values)
    assert other.at(torch.tensor(5)) == one.at(torch.tensor(5)) * 0.25


def test_a_rate_is_the_same_number_however_many_steps_a_job_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A third of a rounded number is not the rounded third: such tables are one only where two have no room."""
    one, other = _cosine_tables(0.3)
    assert np.allclose(other.values * 3, one.values)
    monkeypatch.setattr(tables, "MOST_STEPS", 20)
    one, other = _cosine_tables(0.3)
    assert np.array_equal(one.values, other.values)


def test_lion_takes_steps_of_one_size() -> None:
    """By hand: sign(b1 m + (1 - b1) g), and a mean by the other beta."""
    model = nn.Linear(2, 1, bias=False)
    spec = _spec(model, optimizer=Lion(betas=(0.5, 0.75), weight_decay=0.1), schedule=0.5)
    inner = InnerOptimizer(trained_groups(spec, 2, ROWS))
    weights = {"weight": torch.tensor([[1.0, 2.0]])}
    local = inner.initial(weights)
    for step, gradient in enumerate(([2.0, -4.0], [-0.25, 8.0])):
        moved, local = inner.update(weights, {"weight": torch.tensor([gradient])}, local, torch.tensor(step))
        weights = moved
    # after the first: 0.95 - 0.5 and 1.9 + 0.5, means 0.5 and -1; then both signs are +
    np.testing.assert_allclose(weights["weight"], [[0.45 * 0.95 - 0.5, 2.4 * 0.95 - 0.5]], rtol=1e-6)


def _step_inputs(functions: JobFunctions, spec: JobSpec) -> dict[str, torch.Tensor]:
    state = {name: p.detach().clone() for name, p in spec.model.named_parameters()}
    state.update(averages_initial(spec.ema, state, functions.trained))
    generator = torch.Generator().manual_seed(7)
    batch = {"x": torch.randn(8, 3, generator=generator), "y": torch.arange(8) % 2}
    return {
        **named("global", state),
        **named("local", functions.initial_local(state)),
        **named("batch", batch),
        STEP: torch.tensor(0),
        BATCH_NUMBER: torch.tensor(0),
    }


def test_a_batch_in_parts_is_the_batch_at_once() -> None:
    found = []
    for parts in (1, 4):
        spec = _spec(_model(), accumulate=parts, clip_norm=0.5, optimizer=SGD(), schedule=0.5)
        functions = JobFunctions(spec, STEPS)
        found.append(functions.step(_step_inputs(functions, spec)))
    whole, sliced = found
    assert whole.keys() == sliced.keys()
    for name, tensor in whole.items():
        np.testing.assert_allclose(sliced[name], tensor, rtol=1e-5, atol=1e-7, err_msg=name)


def test_the_average_of_weights_is_that_of_torch() -> None:
    model = _model()
    model.get_parameter("0.bias").requires_grad_(False)
    averaged = optim.swa_utils.AveragedModel(model, avg_fn=lambda mean, weight, _count: 0.75 * mean + 0.25 * weight)
    # torch's first update copies
    averaged.update_parameters(model)
    spec = _spec(model, ema=0.75, schedule=0.5, optimizer=SGD())
    functions = JobFunctions(spec, STEPS)
    inputs = _step_inputs(functions, spec)
    for _ in range(3):
        inputs |= {name: t for name, t in functions.step(inputs).items() if name in inputs}
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(inputs[f"global.{name}"])
        averaged.update_parameters(model)
    assert "global.ema.0.bias" not in inputs
    for name in functions.trained:
        expected = averaged.module.get_parameter(name).detach()
        np.testing.assert_allclose(inputs[f"global.ema.{name}"], expected, rtol=1e-6, atol=1e-7)
        assert not np.allclose(inputs[f"global.ema.{name}"], inputs[f"global.{name}"], rtol=1e-3)


def test_a_parameter_that_the_loss_does_not_reach_stays() -> None:
    """As in torch, where it has no gradient: not even its decay moves it."""
    model = _model()
    model.register_parameter("unused", nn.Parameter(torch.ones(2)))
    optimizer = optim.AdamW(model.parameters(), 0.5, weight_decay=0.5)
    functions = JobFunctions(_spec(model, optimizer=optimizer), STEPS)
    found = functions.step(_step_inputs(functions, _spec(model)))
    assert torch.equal(found["global.unused"], torch.ones(2))
    assert "local.exp_avg.unused" not in found
    assert "global.0.weight" in found


def test_values_are_clipped_as_torch_does() -> None:
    parameter = nn.Parameter(torch.zeros(4))
    parameter.grad = torch.tensor([-3.0, -0.1, 0.2, 5.0])
    ours = clip_values({"p": parameter.grad.clone()}, 0.25)["p"]
    nn.utils.clip_grad_value_([parameter], 0.25)
    assert torch.equal(ours, parameter.grad)


def _with_hook(model: nn.Module) -> optim.Optimizer:
    optimizer = optim.SGD(model.parameters(), 0.1)
    optimizer.register_step_pre_hook(lambda *_: None)
    return optimizer


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda m: optim.LBFGS(m.parameters()), "optimizer: LBFGS computes the loss several times"),
        (lambda m: optim.SparseAdam(list(m.parameters())), "SparseAdam needs sparse gradients"),
        (lambda m: optim.ASGD(m.parameters()), "ASGD averages.*ema="),
        (lambda m: [SGD(), SGD()], "assay.SGD moves every parameter.*torch.optim.SGD"),
        (lambda m: optim.SGD, r"is a class, not an object; call it: SGD\(model"),
        (lambda m: 0.1, "does not support float as optimizer.*update_rule"),
        (lambda m: optim.SGD(nn.Linear(2, 2).parameters(), 0.1), "is not a parameter of the model"),
        (_with_hook, "has step hooks"),
    ],
)
def test_an_optimizer_that_no_job_has_is_refused_with_a_reason(make: Callable[[nn.Module], Any], reason: str) -> None:
    model = _model()
    with pytest.raises(JobError, match=reason):
        trained_groups(_spec(model, optimizer=make(model)), STEPS, ROWS)


class _Decaying(lr_scheduler.LRScheduler):
    """Changes what is no learning rate."""

    def get_lr(self) -> list[float | torch.Tensor]:
        self.optimizer.param_groups[0]["weight_decay"] = float(self.last_epoch)
        return [0.1]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lr_scheduler.ReduceLROnPlateau, "depends on the loss.*MultiStepLR"),
        (lambda o: [lr_scheduler.StepLR(o, 2)], "ChainedScheduler"),
        (lambda o: lr_scheduler.StepLR(_with_hook(_model()), 2), "of another optimizer"),
        (_Decaying, "changes options of the optimizer"),
    ],
)
def test_a_schedule_that_no_job_has_is_refused_with_a_reason(
    make: Callable[[optim.Optimizer], Any], reason: str
) -> None:
    model = _model()
    optimizer = optim.SGD(model.parameters(), 0.1)
    spec = _spec(model, optimizer=optimizer, schedule=make(optimizer))
    with pytest.raises(JobError, match=reason):
        trained_groups(spec, STEPS, ROWS)


def test_a_cycling_momentum_needs_an_optimizer_that_has_one() -> None:
    model = _model()
    optimizer = optim.NAdam(model.parameters(), 0.1)
    spec = _spec(model, optimizer=optimizer, schedule=lr_scheduler.OneCycleLR(optimizer, 0.1, 20))
    with pytest.raises(JobError, match="cycle_momentum=False"):
        trained_groups(spec, STEPS, ROWS)


def test_a_schedule_longer_than_a_jobs_constants_is_refused() -> None:
    model = _model()
    optimizer = optim.SGD(model.parameters(), 0.1)
    spec = _spec(model, optimizer=optimizer, schedule=lr_scheduler.StepLR(optimizer, 2))
    with pytest.raises(JobError, match="schedule: its table would have"):
        trained_groups(spec, MOST_STEPS + 1, ROWS)


def test_rows_and_columns_are_kept_instead_of_a_matrix() -> None:
    model = _model()
    found = trained_groups(_spec(model, optimizer=optim.Adafactor(model.parameters())), STEPS, ROWS)
    initial = InnerOptimizer(found).initial(dict(model.named_parameters()))
    shapes = {name: tuple(tensor.shape) for name, tensor in initial.items()}
    assert shapes == {
        "row_var.0.weight": (4, 1),
        "col_var.0.weight": (1, 3),
        "variance.0.bias": (4,),
        "row_var.1.weight": (2, 1),
        "col_var.1.weight": (1, 4),
        "variance.1.bias": (2,),
    }


def test_a_schedule_that_rprop_would_not_follow_is_refused() -> None:
    model = _model()
    spec = _spec(model, optimizer=optim.Rprop(model.parameters()), schedule=0.1)
    with pytest.raises(JobError, match=r"schedule: Rprop.*leave schedule= out"):
        trained_groups(spec, STEPS, ROWS)
