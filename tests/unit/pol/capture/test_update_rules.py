"""Update rules of one's own: in a job they move weights as they do in a loop of plain torch, and as packages do."""

import runpy
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim
from torch.nn import functional
from torch.optim import lr_scheduler

import assay
from pol.capture.author.spec import Batch, JobSpec
from pol.capture.build import build
from pol.capture.optim.groups import trained_groups
from pol.capture.optim.optimizers import InnerOptimizer
from pol.errors import JobError
from tests.unit.pol.capture.stepped import assert_near, job_steps, step_batch, traced

EXAMPLES = runpy.run_path(str(Path(__file__).parents[4] / "examples" / "optimizers.py"))
STEPS, ROWS = 7, 8
_ADAM: dict[str, Any] = {
    "state": {"mean": 0.0, "square": 0.0},
    "betas": (0.9, 0.99),
    "eps": 1e-6,
    "weight_decay": 0.1,
}


class Net(nn.Module):
    """A tall matrix, a wide one, a bias, and a parameter that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.body, self.head = nn.Linear(3, 8, bias=False), nn.Linear(8, 2)
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(torch.tanh(self.body(x)))
        return found


def _loss(model: nn.Module, batch: Batch) -> Tensor:
    """An error of squares, for gradients of cross-entropy have a singular value of 0, which Muon makes much of."""
    return functional.mse_loss(model(batch["x"]), batch["y"])


def _spec(model: nn.Module, optimizer: Any, **fields: Any) -> JobSpec:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(STEPS * ROWS, 3, generator=generator)
    y = torch.stack([x[:, 0] * x[:, 1], x.abs().sum(1)], 1)
    data = {"x": x.numpy(), "y": y.numpy()}
    chosen: dict[str, Any] = {"loss": _loss, "batch": ROWS, "steps": STEPS, **fields}
    return JobSpec(
        name="rules",
        model=model,
        train=data,
        holdout=data,
        optimizer=optimizer,
        precision=22,
        weights="keep",
        **chosen,
    )


def _eager(spec: JobSpec, model: nn.Module, optimizers: Sequence[Any], step: int) -> float:
    batch = step_batch(spec, step)

    def closure() -> Tensor:
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = spec.loss(model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    if isinstance(optimizers[0], assay.GradientAt):
        return float(optimizers[0].step(closure).detach())
    loss = closure()
    for optimizer in optimizers:
        optimizer.step()
    return float(loss.detach())


def agrees(
    spec: JobSpec,
    model: nn.Module,
    *optimizers: Any,
    within: float = 2e-3,
    is_captured: bool = False,
) -> None:
    """Train a job and a copy of its model with optimizers of plain torch, and compare after each step."""
    before = deepcopy(model)
    for step, found in enumerate(job_steps(spec, is_captured=is_captured)):
        loss = _eager(spec, model, optimizers, step)
        assert float(found["metric.loss"]) == pytest.approx(loss, rel=within / 4)
        assert_near(found, model, before, within)


def _matrices(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.dim() == 2]


def _float(tensor: Tensor) -> Tensor:
    return tensor.float().clone()


# --- the examples against their packages ------------------------------------------------------------


class _Lamb(optim.Optimizer):
    """The algorithm of the paper, with Python's numbers."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.02})
        self.count = 0

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        self.count += 1
        for p in (p for p in self.param_groups[0]["params"] if p.grad is not None):
            state = self.state[p] or {"m": torch.zeros_like(p), "v": torch.zeros_like(p)}
            state["m"] = 0.9 * state["m"] + 0.1 * p.grad
            state["v"] = 0.99 * state["v"] + 0.01 * p.grad.square()
            self.state[p] = state
            m, v = state["m"] / (1 - 0.9**self.count), state["v"] / (1 - 0.99**self.count)
            r = m / (v.sqrt() + 1e-6) + 0.1 * p
            p.sub_(0.02 * float(p.norm() / r.norm()) * r)


class _Slow:
    """Lookahead of the paper, around an optimizer."""

    def __init__(self, base: optim.Optimizer, k: int, alpha: float) -> None:
        self.base, self.k, self.alpha, self.count = base, k, alpha, 0
        self.own = [p for group in base.param_groups for p in group["params"]]
        self.slow = [p.detach().clone() for p in self.own]

    def zero_grad(self) -> None:
        self.base.zero_grad()

    @torch.no_grad()
    def step(self) -> None:
        self.base.step()
        self.count += 1
        if self.count % self.k == 0:
            for slow, p in zip(self.slow, self.own, strict=True):
                slow.add_(self.alpha * (p - slow))
                p.copy_(slow)


def _adafactor(*arguments: Any, **options: Any) -> optim.Optimizer:
    """Return the optimizer of Transformers, which is imported only here: it takes a second."""
    from transformers import optimization

    made: Callable[..., optim.Optimizer] = optimization.Adafactor
    return made(*arguments, **options)


_Pair = tuple[Callable[[nn.Module], Any], Callable[[nn.Module], Any]]
_FACTORED: dict[str, Any] = {"state": EXAMPLES["adafactor_state"]}
PAIRS: dict[str, _Pair] = {
    "muon": (
        lambda m: assay.update_rule(
            EXAMPLES["muon"],
            _matrices(m),
            lr=0.02,
            state={"momentum": 0.0},
            beta=0.95,
            weight_decay=0.1,
        ),
        lambda m: optim.Muon(_matrices(m), 0.02),
    ),
    "torch's muon": (lambda m: optim.Muon(_matrices(m), 0.02),) * 2,
    "torch's muon, plain": (
        lambda m: optim.Muon(_matrices(m), 0.02, nesterov=False, adjust_lr_fn="match_rms_adamw", ns_steps=3),
    )
    * 2,
    "adamw": (
        lambda m: assay.update_rule(EXAMPLES["adamw"], m.parameters(), lr=0.02, **_ADAM),
        lambda m: optim.AdamW(m.parameters(), 0.02, (0.9, 0.99), 1e-6, 0.1),
    ),
    "lamb": (
        lambda m: assay.update_rule(EXAMPLES["lamb"], m.parameters(), lr=0.02, **_ADAM),
        lambda m: _Lamb(m.parameters()),
    ),
    "adafactor": (
        lambda m: assay.update_rule(EXAMPLES["adafactor"], m.parameters(), relative_step=True, **_FACTORED),
        lambda m: _adafactor(m.parameters()),
    ),
    "adafactor with a rate": (
        lambda m: assay.update_rule(EXAMPLES["adafactor"], m.parameters(), lr=0.01, relative_step=False, **_FACTORED),
        lambda m: _adafactor(m.parameters(), lr=0.01, scale_parameter=False, relative_step=False),
    ),
    "lookahead": (
        lambda m: assay.update_rule(
            EXAMPLES["lookahead"](EXAMPLES["adamw"], k=3),
            m.parameters(),
            lr=0.02,
            **_ADAM | {"state": {**_ADAM["state"], "slow": lambda p: p}},
        ),
        lambda m: _Slow(optim.AdamW(m.parameters(), 0.02, (0.9, 0.99), 1e-6, 0.1), 3, 0.5),
    ),
    "lookahead of another": (
        lambda m: assay.update_rule(
            EXAMPLES["lookahead"](lambda p, g, state, step: (p - step.lr * g, state), k=2, alpha=0.8),
            m.parameters(),
            lr=0.5,
            state={"slow": torch.clone},
        ),
        lambda m: _Slow(optim.SGD(m.parameters(), 0.5), 2, 0.8),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_each_rule_moves_weights_as_its_package_does(name: str) -> None:
    """Both sides of Muon in FP32, for bfloat16 has 8 bits."""
    ours, package = PAIRS[name]
    model = Net()
    spec = _spec(model, ours(model))
    copy = deepcopy(model)
    with patch.object(Tensor, "bfloat16", _float):
        agrees(spec, copy, package(copy))


class Deep(nn.Module):
    """A layer for each rule."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in _OF_LAYERS)
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        found: Tensor = self.head(x)
        return found


_OF_LAYERS = tuple(PAIRS)


def test_all_rules_in_one_job_do_the_same_in_exact_arithmetic() -> None:
    model = Deep()
    copy = deepcopy(model)
    ours, packages = (
        [PAIRS[name][side](of.layers[at]) for at, name in enumerate(_OF_LAYERS)]
        for side, of in enumerate((model, copy))
    )
    with patch.object(Tensor, "bfloat16", _float):
        agrees(_spec(model, ours), copy, *packages, within=1e-2, is_captured=True)


def test_torchs_muon_is_near_even_with_its_own_rounding() -> None:
    model = Net()
    spec = _spec(model, optim.Muon(_matrices(model), 0.02))
    copy = deepcopy(model)
    agrees(spec, copy, optim.Muon(_matrices(copy), 0.02), within=5e-2)


@pytest.mark.parametrize("name", ["muon", "adafactor", "lookahead"])
def test_a_rule_is_an_optimizer_of_a_loop_in_plain_torch(name: str) -> None:
    """The same object, with a scheduler of torch."""
    model = Net()
    rule = PAIRS[name][0](model)
    scheduler = lr_scheduler.ExponentialLR(rule, 0.5)
    spec = _spec(deepcopy(model), None)
    own = PAIRS[name][0](spec.model)
    spec = _spec(spec.model, own, schedule=lr_scheduler.ExponentialLR(own, 0.5))
    before = deepcopy(model)
    for step, found in enumerate(job_steps(spec, is_captured=False)):
        _eager(spec, model, [rule], step)
        scheduler.step()
        assert_near(found, model, before, 2e-3)
    restored = PAIRS[name][0](model)
    restored.load_state_dict(rule.state_dict())
    assert restored.steps == deepcopy(rule).steps == STEPS


def _norms(parameters: list[Tensor], gradients: list[Tensor], states: Any, step: assay.RuleStep) -> dict[str, Tensor]:
    """The largest norm of all gradients so far."""
    del parameters, states
    norm = torch.stack([g.norm() for g in gradients]).norm()
    return {"largest": torch.maximum(step.numbers["largest"], norm)}


def _normed(p: Tensor, g: Tensor, state: dict[str, Tensor], step: assay.RuleStep) -> tuple[Tensor, dict[str, Tensor]]:
    """Momentum of a normalized gradient, with a step that shrinks."""
    mean = step.options["momentum"] * state["mean"] + g / step.numbers["largest"]
    return p - step.lr / (1 + step.number) * mean, {"mean": mean}


def _made_normed(model: Net) -> assay.UpdateRule:
    groups: list[dict[str, Any]] = [
        {"params": [model.body.weight]},
        {"params": model.head.parameters(), "lr": 0.3, "momentum": 0.5},
    ]
    return assay.update_rule(
        _normed,
        groups,
        lr=0.1,
        state={"mean": 0.0},
        numbers={"largest": 0.0},
        begin=_norms,
        momentum=0.9,
    )


def test_numbers_of_a_group_are_made_of_all_its_gradients_and_a_rule_goes_on_from_its_state() -> None:
    """A job of a rule that has made two steps is the same as the steps that it would have made."""
    model = Net()
    rule = _made_normed(model)
    spec = _spec(model, rule)
    for step in range(2):
        _eager(spec, model, [rule], step)
    with pytest.raises(JobError, match="draws new weights"):
        trained_groups(replace(spec, weights="seed"), STEPS, ROWS)
    copy = deepcopy(model)
    other = _made_normed(copy)
    other.load_state_dict(rule.state_dict())
    agrees(_spec(model, rule), copy, other, within=1e-4)


@pytest.mark.parametrize(
    "make",
    [_made_normed, PAIRS["adamw"][0], PAIRS["torch's muon"][0]],
    ids=["momentum", "betas", "muon"],
)
def test_a_cycle_of_the_momentum_reaches_the_rule(make: Callable[[Any], Any]) -> None:
    model = Net()
    copy, before = deepcopy(model), deepcopy(model)
    ours, theirs = make(model), make(copy)
    rates = [group["lr"] for group in ours.param_groups]
    schedule, other = (lr_scheduler.OneCycleLR(o, rates, STEPS + 1) for o in (ours, theirs))
    spec = _spec(model, ours, schedule=schedule)
    with patch.object(Tensor, "bfloat16", _float):
        for step, found in enumerate(job_steps(spec, is_captured=False)):
            _eager(spec, copy, [theirs], step)
            other.step()
            assert_near(found, copy, before, 5e-3)


def test_optimizers_of_a_list_share_the_parameters_out() -> None:
    model = Net()

    def made(model: Net) -> list[Any]:
        return [
            optim.Muon([model.body.weight], 0.02),
            assay.update_rule(EXAMPLES["lamb"], model.head.parameters(), lr=0.02, **_ADAM),
        ]

    spec = _spec(model, made(model))
    schedule = lr_scheduler.StepLR(spec.optimizer[0], 2)  # type: ignore[index]
    spec = _spec(model, spec.optimizer, schedule=[schedule])
    groups = trained_groups(spec, STEPS, ROWS)
    rates = [[float(g.lr.at(torch.tensor(step))) for step in (0, 2)] for g in groups]
    np.testing.assert_allclose(rates, [[0.02, 0.002], [0.02, 0.02]])
    copy = deepcopy(model)
    with patch.object(Tensor, "bfloat16", _float):
        agrees(_spec(model, spec.optimizer), copy, *made(copy))


# --- gradients at other weights ---------------------------------------------------------------------


class _Sharp:
    """SAM as its authors' repository has it: two closures in a step."""

    def __init__(self, base: optim.Optimizer, rho: float, adaptive: bool) -> None:
        self.base, self.rho, self.adaptive = base, rho, adaptive

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor]) -> Tensor:
        with torch.enable_grad():
            loss = closure()
        own = [p for g in self.base.param_groups for p in g["params"] if p.grad is not None]
        sizes = [p.abs() if self.adaptive else 1.0 for p in own]
        norms = [(s * p.grad).norm() for s, p in zip(sizes, own, strict=True)]
        scale = self.rho / (torch.stack(norms).norm() + 1e-12)
        moves = [p.square() if self.adaptive else 1.0 for p in own]
        moves = [scale * m * p.grad for m, p in zip(moves, own, strict=True)]
        for move, p in zip(moves, own, strict=True):
            p.add_(move)
        with torch.enable_grad():
            closure()
        for move, p in zip(moves, own, strict=True):
            p.sub_(move)
        self.base.step()
        return loss


class Normed(Net):
    """With statistics of batches, which both passes move, as they do in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(torch.relu(self.norm(self.body(x))))
        return found


@pytest.mark.parametrize(
    ("adaptive", "base"),
    [
        (False, lambda p: optim.SGD(p, 0.3, momentum=0.9, nesterov=True)),
        (True, lambda p: optim.SGD(p, 0.05)),
        (False, lambda p: assay.update_rule(EXAMPLES["adamw"], p, lr=0.02, **_ADAM)),
    ],
)
def test_the_gradient_of_sam_is_where_the_loss_is_highest(
    adaptive: bool, base: Callable[[Any], optim.Optimizer]
) -> None:
    model = Normed()
    rho = 1.0 if adaptive else 0.5
    spec = _spec(model, assay.SAM(base(model.parameters()), rho, adaptive))
    before, copy, own = deepcopy(model), deepcopy(model), deepcopy(model)
    sharp = _Sharp(base(copy.parameters()), rho, adaptive)
    ours = assay.SAM(base(own.parameters()), rho, adaptive)
    for step, found in enumerate(job_steps(spec, is_captured=adaptive)):
        batch = step_batch(spec, step)

        def closure(batch: Batch = batch) -> Tensor:
            sharp.base.zero_grad()
            loss = _loss(copy, batch)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        loss = sharp.step(closure)
        _eager(spec, own, [ours], step)
        assert float(found["metric.loss"]) == pytest.approx(float(loss.detach()), rel=1e-3)
        assert_near(found, copy, before, 5e-3)
        assert_near({f"global.{n}": p for n, p in own.named_parameters()}, copy, before, 1e-4)
        mean = found["global.norm.running_mean"]
        np.testing.assert_allclose(mean, copy.get_buffer("norm.running_mean"), rtol=1e-3, atol=1e-5)


def _ahead(parameters: list[Tensor], gradients: list[Tensor], step: assay.RuleStep) -> list[Tensor]:
    return [p - step.lr * g for p, g in zip(parameters, gradients, strict=True)]


def test_a_gradient_may_be_taken_anywhere() -> None:
    """Extragradient: the gradient after a step is that of the step."""
    model = Net()
    spec = _spec(model, assay.GradientAt(optim.SGD(model.parameters(), 0.5), _ahead))
    before, copy = deepcopy(model), deepcopy(model)
    for step, found in enumerate(job_steps(spec, is_captured=False)):
        there = deepcopy(copy)
        optimizer = optim.SGD(there.parameters(), 0.5)
        _eager(spec, there, [optimizer], step)
        optimizer.zero_grad()
        _loss(there, step_batch(spec, step)).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for p, q in zip(copy.parameters(), there.parameters(), strict=True):
                if q.grad is not None:
                    p.sub_(0.5 * q.grad)
        assert_near(found, copy, before, 2e-3)


def test_a_second_gradient_may_be_taken_in_parts_and_has_the_bits_of_its_pass() -> None:
    model = Net()
    sam = assay.SAM(optim.SGD(model.parameters(), 0.5), 0.3)
    whole, parts = (job_steps(_spec(model, sam, accumulate=count), 2, is_captured=count > 1) for count in (1, 4))
    for name, tensor in whole[1].items():
        np.testing.assert_allclose(parts[1][name], tensor, rtol=1e-4, atol=1e-5, err_msg=name)
    spec = _spec(model, sam)
    bits = assay.Precision(forward=8, input_gradient=22, weight_gradient=15)
    object.__setattr__(spec, "precision", bits)
    nodes = traced(spec).nodes
    found = [node.attrs["bits"] for node in nodes if "bits" in node.attrs]
    assert sorted(found) == sorted([8, 8, 22, 15, 15] * 2)


# --- the formula of a rule that there is ------------------------------------------------------------


def _torchs_adamw(
    parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], step: assay.RuleStep
) -> tuple[Tensor, dict[str, Tensor]]:
    beta1, beta2 = step.options["betas"]
    numbers = step.numbers
    size, scale = step.lr / numbers["correction1"], torch.sqrt(numbers["correction2"])
    value = parameter * (1.0 - step.lr * step.options["weight_decay"])
    mean = beta1 * state["exp_avg"] + (1.0 - beta1) * gradient
    square = beta2 * state["exp_avg_sq"] + (1.0 - beta2) * (gradient * gradient)
    move = mean / (torch.sqrt(square) / scale + step.options["eps"])
    return value - size * move, {"exp_avg": mean, "exp_avg_sq": square}


def _corrections(
    parameters: list[Tensor],
    gradients: list[Tensor],
    states: list[dict[str, Tensor]],
    step: assay.RuleStep,
) -> dict[str, Tensor]:
    betas = zip(("correction1", "correction2"), step.options["betas"], strict=True)
    return {name: step.numbers[name] * beta + (1.0 - beta) for name, beta in betas}


def test_the_formula_of_a_built_in_rule_makes_the_same_bits() -> None:
    model = Net()
    own = assay.update_rule(
        _torchs_adamw,
        model.parameters(),
        lr=0.02,
        begin=_corrections,
        state={"exp_avg": 0.0, "exp_avg_sq": 0.0},
        numbers={"correction1": 0.0, "correction2": 0.0},
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.01,
    )
    outputs = [job_steps(_spec(model, optimizer), 3) for optimizer in (own, optim.AdamW(model.parameters(), 0.02))]
    for mine, built_in in zip(*outputs, strict=True):
        assert mine.keys() == built_in.keys()
        assert all(torch.equal(mine[name], built_in[name]) for name in mine)


def _langevin(p: Tensor, g: Tensor, state: Any, step: assay.RuleStep) -> tuple[Tensor, Any]:
    """Momentum with noise, written in place."""
    state["mean"].mul_(0.5).add_(g)
    p.add_(-step.lr * state["mean"])
    p += step.options["noise"] * torch.randn_like(p)
    return p, state


def test_a_rule_may_write_in_place_and_draw_from_the_seed_of_the_job() -> None:
    """Noise of its own for each parameter and each step."""
    model = Net()

    def made(noise: float) -> JobSpec:
        rule = partial(assay.update_rule, _langevin, lr=0.1, state={"mean": 0.0}, noise=noise)
        return _spec(model, rule(model.parameters()))

    copy = deepcopy(model)
    agrees(made(0.0), copy, optim.SGD(copy.parameters(), 0.1, momentum=0.5), is_captured=True)
    quiet, loud = (job_steps(made(noise), 2) for noise in (0.0, 1e-3))
    names = ("global.body.weight", "global.head.weight")
    first, other = (loud[0][name] - quiet[0][name] for name in names)
    second = loud[1][names[0]] - quiet[1][names[0]]
    assert all(3e-4 < float(part.std()) < 3e-3 for part in (first, other, second))
    assert not torch.allclose(first.flatten()[:16], other.flatten(), atol=1e-4)
    assert not torch.allclose(second, 2 * first, atol=1e-4)


def _writing(parameters: list[Tensor], gradients: list[Tensor], states: Any, step: assay.RuleStep) -> dict[str, Tensor]:
    """Normalize in place, which is nobody else's business."""
    del parameters, step
    for gradient in gradients:
        gradient.mul_(0.0)
    for state in states:
        state["mean"].add_(1.0)
    return {"nothing": torch.zeros(())}


def _in_place(p: Tensor, g: Tensor, state: Any, step: assay.RuleStep) -> tuple[Tensor, Any]:
    state["mean"].mul_(0.5).add_(g)
    return p.sub_(step.lr * state["mean"]), state


def test_what_a_rule_writes_in_place_is_in_copies() -> None:
    model = Net()
    rule = assay.update_rule(
        _in_place,
        model.parameters(),
        lr=0.1,
        state={"mean": 0.0},
        numbers={"nothing": 0.0},
        begin=_writing,
    )
    copy = deepcopy(model)
    agrees(_spec(model, rule), copy, optim.SGD(copy.parameters(), 0.1, momentum=0.5))
    inner = InnerOptimizer(trained_groups(_spec(model, rule), STEPS, ROWS))
    weights = {name: p.detach() for name, p in model.named_parameters()}
    local = inner.initial(weights)
    before = deepcopy((weights, local))
    moved, _ = inner.update(weights, {n: w + 1 for n, w in weights.items()}, local, torch.tensor(0))
    assert not torch.equal(moved["body.weight"], weights["body.weight"])
    for tensors, others in zip((weights, local), before, strict=True):
        assert all(torch.equal(tensors[name], others[name]) for name in others)


def test_the_state_may_begin_with_the_weights_that_are_drawn(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    rule = assay.update_rule(
        EXAMPLES["lookahead"](lambda p, g, state, step: (p - step.lr * g, state)),
        model.parameters(),
        state={"slow": torch.clone},
    )
    spec = _spec(model, rule)
    object.__setattr__(spec, "weights", "seed")
    build(spec, tmp_path)
    loaded = assay.load_job(tmp_path)
    slow = loaded.local_state["slow.weight"]
    assert np.array_equal(slow, loaded.global_state["weight"])
    assert not np.allclose(slow, model.weight.detach().numpy())


# --- what no job has --------------------------------------------------------------------------------

_calls = 0


def _counting(p: Tensor, g: Tensor, state: Any, step: assay.RuleStep) -> tuple[Tensor, Any]:
    global _calls  # noqa: PLW0603 - what people write
    _calls += 1
    return p - g, state


def _random(p: Tensor, g: Tensor, state: Any, step: assay.RuleStep) -> tuple[Tensor, Any]:
    return p - g * float(np.random.random()), state  # noqa: NPY002 - what people write


def _by_value(p: Tensor, g: Tensor, state: Any, step: assay.RuleStep) -> tuple[Tensor, Any]:
    if step.number % 2 == 0:
        return p - g, state
    return p, state


class _Warm:
    """A rule that is an object, and counts by itself."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, p: Tensor, g: Tensor, state: Any, step: assay.RuleStep) -> Any:
        self.seen.append(1)
        return p - g, state


_RULES: list[tuple[Any, Any, str]] = [
    (lambda p, g, s, step: p - g, {}, r"returns Tensor, not a tuple of two.*\(parameter, state\)"),
    (lambda p, g, s, step: (p.sum(), s), {}, r"returns the shape \[\] for the parameter, but it must be \[2\]"),
    (lambda p, g, s, step: (p.double(), s), {}, "returns float64 for the parameter"),
    (lambda p, g, s, step: (1.0, s), {}, "returns float for the parameter.*Python runs once"),
    (lambda p, g, s, step: (p, {}), {"m": 0.0}, "returns no 'm' in its state.*return all of it"),
    (lambda p, g, s, step: (p, {"v": g}), {}, "returns 'v', which is not in its initial state"),
    (lambda p, g, s, step: (p, None), {}, "returns NoneType as state.*dictionary"),
    (lambda p, g, s, step: (p, {"m": 2.0}), {"m": 0.0}, "returns float for 'm'"),
    (lambda p, g, s, step: (p, {"m": g.long()}), {"m": 0.0}, "returns int64 for 'm'"),
    (lambda p, g, s, step: (p - s["v"], s), {"m": 0.0}, "there is no 'v'.*state={'v': 0.0}"),
    (lambda p, g, s, step: (p + g + torch.ones(7), s), {}, r"test_update_rules.py:\d+ `\(lambda"),
    (lambda p, g: (p, {}), {}, "does not take four arguments"),
    (lambda p, g, s, step: (p, s), {"m": torch.tensor(0)}, "'m'.*int64.*step.number"),
    (lambda p, g, s, step: (p, s), {"m": torch.zeros(2, dtype=torch.bool)}, "'m'.*bool"),
    (lambda p, g, s, step: (p, s), {"m": torch.zeros(2).double()}, "'m'.*float64"),
    (lambda p, g, s, step: (p, s), {"m": "0"}, "'m'.*is str"),
    (lambda p, g, s, step: (p, s), {"m.n": 0.0}, "'m.n' cannot be a name"),
    (lambda p, g, s, step: (p, s), lambda p: {"m": p.long()}, "'m'.*int64"),
    (lambda p, g, s, step: (p, s), lambda p: None, "the state is NoneType"),
    (_counting, {}, "the rule changes the Python variable _calls.*state="),
    (_Warm(), {}, "the rule changes the Python variable seen"),
    (_random, {}, "different values for the same arguments.*torch.rand"),
]


@pytest.mark.parametrize(("rule", "state", "reason"), _RULES)
def test_a_rule_that_no_step_can_have_is_refused_with_its_line(rule: Any, state: Any, reason: str) -> None:
    model = Net()
    with pytest.raises(JobError, match=reason) as found:
        trained_groups(_spec(model, assay.update_rule(rule, model.parameters(), state=state)), 1, 8)
    assert found.value.field.startswith("optimizer")


def test_what_depends_on_the_step_is_no_branch() -> None:
    model = Net()
    spec = _spec(model, assay.update_rule(_by_value, model.parameters()))
    with pytest.raises(JobError, match=r"torch\.where") as found:
        traced(spec)
    assert found.value.field.startswith("optimizer, body.weight (test_update_rules.py:")
    assert "if step.number % 2 == 0" in found.value.field


def test_an_operation_without_a_form_names_the_rule_and_the_parameter() -> None:
    def shampoo(p: Tensor, g: Tensor, state: Any, step: assay.RuleStep) -> tuple[Tensor, Any]:
        return p - torch.linalg.svd(g.reshape(len(g), -1))[0] @ g.reshape(len(g), -1), state

    model = nn.Linear(3, 2, bias=False)
    spec = _spec(model, assay.update_rule(shampoo, model.parameters()))
    with pytest.raises(JobError) as found:
        traced(spec)
    assert found.value.field.startswith("optimizer, weight (test_update_rules.py:")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda m: [optim.SGD(m.parameters(), 0.1)] * 2, "two optimizers of the list have the parameter body"),
        (lambda m: [], "the list is empty"),
        (lambda m: [assay.SAM(optim.SGD(m.parameters(), 0.1))], "SAM is in a list"),
        (lambda m: {"a": optim.SGD(m.parameters(), 0.1)}, "dictionary.*assay.Phase"),
        (lambda m: "adam", r"'adam' is a name.*torch.optim.Adam\(model.parameters\(\), lr"),
        (lambda m: "AdamW", r"torch.optim.AdamW\(model.parameters\(\)"),
        (lambda m: "lion", r"torch.optim.AdamW\(model.parameters\(\)"),
        (lambda m: partial(optim.Adam, lr=0.1), r"Adam is not called yet.*Adam\(model"),
        (lambda m: _counting, r"_counting is a function.*update_rule\(_counting, model"),
        (lambda m: _Lamb(m.parameters()), r"does not support .*_Lamb as optimizer.*assay.update_rule"),
        (
            lambda m: _Slow(optim.SGD(m.parameters(), 0.1), 2, 0.5),
            "does not support .*_Slow as optimizer.*assay.update_rule",
        ),
    ],
)
def test_what_is_no_optimizer_of_a_job_says_what_to_give(make: Callable[[nn.Module], Any], reason: str) -> None:
    model = Net()
    with pytest.raises(JobError, match=reason):
        trained_groups(_spec(model, make(model)), STEPS, ROWS)


def test_one_rate_for_optimizers_that_have_several_is_refused() -> None:
    model = Net()
    listed = [optim.SGD([model.body.weight], 0.1), optim.SGD(model.head.parameters(), 0.2)]
    with pytest.raises(JobError, match=r"schedule: .*different learning rates.*LambdaLR"):
        trained_groups(_spec(model, listed, schedule=0.1), STEPS, ROWS)
    other = lr_scheduler.StepLR(optim.SGD(model.parameters(), 0.1), 2)
    with pytest.raises(JobError, match="schedule: it is the scheduler of another optimizer"):
        trained_groups(_spec(model, listed, schedule=[other]), STEPS, ROWS)


class NoamOpt:
    """The Annotated Transformer's."""

    def __init__(self, optimizer: optim.Optimizer) -> None:
        self.optimizer = optimizer

    def rate(self, step: int) -> float:
        return float(step**-0.5)


class Lookahead(NoamOpt):
    """A package's."""


class SAM(NoamOpt):
    """A package's."""


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (NoamOpt, r"is a wrapper around an optimizer.*\.optimizer \(Adam\).*schedule=lambda step: wrapper.rate\("),
        (Lookahead, "examples/optimizers.py"),
        (SAM, r"assay.SAM\(its .optimizer"),
    ],
)
def test_an_object_around_an_optimizer_says_what_is_in_it(kind: type[NoamOpt], reason: str) -> None:
    model = Net()
    noam = kind(optim.Adam(model.parameters(), 0.1))
    with pytest.raises(JobError, match=reason):
        trained_groups(_spec(model, noam), STEPS, ROWS)
    groups = trained_groups(_spec(model, noam.optimizer, schedule=lambda step: noam.rate(step + 1)), STEPS, ROWS)
    assert float(groups[0].lr.at(torch.tensor(3))) == 0.5


def given(value: Any) -> Any:
    """Return what somebody without a type checker gives."""
    return value


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda m: assay.SAM(given(assay.SGD())), "its base is SGD.*torch.optim.SGD"),
        (lambda m: assay.SAM(optim.SGD(m.parameters(), 0.1), rho=0), "rho: 0 is not a positive"),
        (lambda m: assay.update_rule(given(0.1), m.parameters()), "float is not a function"),
        (
            lambda m: assay.GradientAt(optim.SGD(m.parameters(), 0.1), given(3)),
            "int is not a function; give a function",
        ),
        (
            lambda m: assay.update_rule(_by_value, m.parameters(), numbers={"d": 1.0}),
            "numbers= and begin= need each other",
        ),
        (
            lambda m: assay.update_rule(
                _by_value, m.parameters(), state={"d": 0.0}, numbers={"d": 1.0}, begin=_corrections
            ),
            "the name 'd' is in state= and in numbers=",
        ),
        (
            lambda m: assay.update_rule(_by_value, [{"params": m.parameters(), "betta": 1}], beta=2),
            r"'betta', which is not an option of the rule \(beta, lr\)",
        ),
    ],
)
def test_what_a_rule_is_made_of_is_checked_at_once(make: Callable[[nn.Module], Any], reason: str) -> None:
    with pytest.raises(JobError, match=reason):
        make(Net())
