"""What a person hands over with a model is trained on, and what forward changes is handed on, as in a loop of torch."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from pol.capture.author.spec import Batch, JobSpec
from pol.capture.build import build
from pol.capture.model.plain_model import own_tensors
from pol.capture.model.weights import initial_weights
from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import NATIVE, Engine
from pol.job.dataset import batch_at
from pol.job.document import BATCH_NUMBER, STEP, Job
from pol.job.load import load_job

ROWS, STEPS = 64, 4
X = np.random.default_rng(0).normal(1, 2, (ROWS, 8)).astype(np.float32)
Y = (X[:, 0] > 1).astype(np.int64)
Make = Callable[[], JobSpec]


def spec_of(model: nn.Module, loss: Any, optimizer: Any = None, **options: Any) -> JobSpec:
    data = {"x": X, "y": Y}
    settings: dict[str, Any] = {"precision": 22, "weights": "keep"} | options
    return JobSpec(
        name="kept",
        model=model,
        loss=loss,
        train=data,
        holdout=data,
        batch=16,
        steps=STEPS,
        optimizer=optimizer or torch.optim.SGD(model.parameters(), 0.1),
        **settings,
    )


def classes(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"])


def by_itself(model: nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = model(batch["x"])
    return found


def trained(folder: Path, steps: int = STEPS) -> tuple[list[float], dict[str, np.ndarray]]:
    """Take steps of a job in one slot; return losses and the global state."""
    loaded, native = load_job(folder), backend(Engine(NATIVE))
    document = loaded.job.document
    state = {f"global.{name}": array for name, array in loaded.global_state.items()}
    state |= {f"local.{name}": array for name, array in loaded.local_state.items()}
    losses = []
    for step in range(steps):
        number = np.array(step)
        given = {**state, **batch_at(loaded.data, loaded.job, step)}
        found = run(document.step, {**given, STEP: number, BATCH_NUMBER: number}, document.seed, native)
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


@pytest.mark.parametrize("spelling", ["data =", "data.mul_", "mul_", "copy_", "lerp_", "set", "self.x ="])
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
def test_what_forward_writes_is_handed_on_wherever_it_is(make: Callable[[], nn.Module], tmp_path: Path) -> None:
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
        (torch.zeros(2), _grows, r"model\.seen.*was.*shape \[2\].*shape \[4\].*same shape"),
        (torch.zeros(2), _drops, r"model\.seen.*removes it from the model.*zero"),
    ],
    ids=["counter", "narrow", "grows", "drops"],
)
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
    with pytest.raises(JobError, match=r"model\.other\.weight: is the same tensor as score\.weight"):
        build(spec_of(model, classes), tmp_path)


# --- modes of parts -----------------------------------------------------------------------------


def _normed(frozen: Callable[[Any], None]) -> JobSpec:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.BatchNorm1d(8), nn.Linear(8, 8), nn.Sequential(nn.BatchNorm1d(8), nn.Dropout(0.5)), nn.Linear(8, 2)
    )
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
def test_a_part_in_eval_mode_trains_in_it(frozen: Callable[[Any], None], named: str, tmp_path: Path) -> None:
    told: list[str] = []
    agrees(lambda: _normed(frozen), tmp_path, told)
    assert [line for line in told if "eval mode" in line and f"trains: {named};" in line]


def test_a_model_in_eval_mode_as_a_whole_trains_in_training_mode(tmp_path: Path) -> None:
    told: list[str] = []
    model = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 2)).eval()
    job = build(spec_of(model, classes), tmp_path, told.append)
    assert "0.running_mean" in {spec.name for spec in job.updated}
    assert any("the whole model is in eval mode; it trains in training mode" in line for line in told)
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


# --- initial weights ----------------------------------------------------------------------------


class Words(nn.Module):
    """A language model with tied weights and initial weights of its own: its loss begins at ln 40."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.body = nn.Embedding(40, 16), nn.Linear(16, 16)
        self.score = nn.Linear(16, 40, bias=False)
        self.tokens.weight = self.score.weight
        self.apply(self._init)

    def _init(self, part: nn.Module) -> None:
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, 0.0, 0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.tokens(x)
        found: torch.Tensor = self.score(F.layer_norm(h + self.body(h), (16,)))
        return found


def _next(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"][:, :-1]).flatten(0, 1), batch["x"][:, 1:].flatten())


def _begins(model: nn.Module, tmp_path: Path, **options: Any) -> tuple[dict[str, bool], str]:
    """Build a job; return which tensors it begins with as the model has them, and the line that says so."""
    told: list[str] = []
    build(spec_of(model, classes, weights=None, **options), tmp_path, told.append)
    state = load_job(tmp_path).global_state
    same = {name: bool((state[name] == tensor.detach().numpy()).all()) for name, tensor in model.named_parameters()}
    return same, next(line for line in told if line.startswith("initial weights"))


def _net() -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 2))


LAWFUL = ["0.weight", "0.bias", "3.weight", "3.bias"]


def test_initial_weights_of_its_own_are_kept(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 40, (64, 13))
    data = {"x": rows}
    told: list[str] = []
    spec = JobSpec(name="words", model=Words(), loss=_next, train=data, holdout=data, steps=4, batch=16)
    build(spec, tmp_path, told.append)
    losses, _ = trained(tmp_path, 1)
    assert losses[0] == pytest.approx(np.log(40), rel=0.02)
    assert (
        "initial weights: 2 tensors as they are in the model (shared by several layers: tokens.weight; "
        "changed after their layers drew them: body.weight); 1 drawn from the seed"
    ) in told


def test_what_layers_have_made_is_drawn_from_the_seed(tmp_path: Path) -> None:
    same, line = _begins(_net(), tmp_path)
    assert [name for name in same if not same[name]] == LAWFUL
    assert line == "initial weights: 4 drawn from the seed"


def _stepped(model: Any) -> Any:
    for _ in range(3):
        model(torch.from_numpy(X)).sum().backward()
        torch.optim.SGD(model.parameters(), 0.01).step()
    return model


def _loaded(model: Any) -> Any:
    model.load_state_dict(_net().state_dict())
    return model


def _copied(model: Any) -> Any:
    return copy.deepcopy(model)


def _past_the_count(model: Any) -> Any:
    """Written by .data, which torch does not count: the first weight shows it, and all are kept."""
    model[0].weight.data = torch.randn(16, 8) * 0.02
    return model


def _from_a_vector(model: Any) -> Any:
    numbers = nn.utils.parameters_to_vector(_stepped(_net()).parameters())
    nn.utils.vector_to_parameters(numbers.detach(), model.parameters())
    return model


def _by_data(model: Any) -> Any:
    for part in (model[0], model[3]):
        part.weight.data.normal_(0.0, 0.02)
    return model


@pytest.mark.parametrize("change", [_stepped, _loaded, _copied, _past_the_count, _by_data, _from_a_vector])
def test_weights_that_a_person_has_set_are_kept(change: Callable[[Any], Any], tmp_path: Path) -> None:
    torch.manual_seed(1)
    same, line = _begins(change(_net()), tmp_path)
    assert all(same.values())
    assert "drawn" not in line


def test_only_what_was_set_is_kept(tmp_path: Path) -> None:
    model = _net()
    nn.init.kaiming_normal_(model[0].weight)
    same, line = _begins(model, tmp_path)
    assert [name for name in same if not same[name]] == LAWFUL[1:]
    assert "1 tensor as it is in the model (changed after their layers drew them: 0.weight)" in line


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(3, 50),
        nn.Conv2d(2, 3, 3),
        nn.ConvTranspose1d(2, 3, 5),
        nn.Bilinear(3, 4, 5),
        nn.LSTM(3, 8, 2),
        nn.GRUCell(3, 4),
        nn.Embedding(50, 20),
        nn.EmbeddingBag(9, 4),
        nn.Embedding(30, 8, padding_idx=-1),
        nn.MultiheadAttention(8, 2),
        nn.TransformerEncoderLayer(8, 2, 16),
        nn.Linear(600, 600),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_every_layer_with_a_law_is_known_as_it_was_made(layer: nn.Module) -> None:
    trained_names = [name for name, _ in layer.named_parameters()]
    begun = initial_weights(layer, 3, trained_names, None)
    assert begun.drawn
    assert not begun.kept, str(begun)


def test_a_row_of_padding_stays_zero() -> None:
    layer = nn.Embedding(30, 8, padding_idx=4)
    values = initial_weights(layer, 3, ["weight"], "seed").values["weight"]
    assert not values[4].any()
    assert values[5].any()


# --- state of the optimizer ---------------------------------------------------------------------


def _going_on(make: Callable[[Any], torch.optim.Optimizer], schedule: Any = None, loaded: bool = False) -> JobSpec:
    """A training of 30 steps that goes on, with the very objects or with others that their state was loaded into."""
    torch.manual_seed(0)
    model = nn.Linear(8, 2)
    optimizer = make(model.parameters())
    scheduler = schedule(optimizer) if schedule else None
    for _ in range(30):
        optimizer.zero_grad()
        classes(model, {"x": torch.from_numpy(X), "y": torch.from_numpy(Y)}).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    if loaded:
        states = model.state_dict(), optimizer.state_dict()
        model = nn.Linear(8, 2)
        optimizer = make(model.parameters())
        model.load_state_dict(states[0])
        optimizer.load_state_dict(states[1])
    return spec_of(model, classes, optimizer, weights=None, schedule=scheduler)


def _adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, 1e-2)


def _momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, 0.05, momentum=0.9, dampening=0.5)


def _rms(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.RMSprop(parameters, 1e-2, momentum=0.5)


def _cosine(optimizer: Any) -> Any:
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)


@pytest.mark.parametrize(
    ("make", "schedule", "loaded", "said"),
    [
        (_adam, None, False, "after 30 steps: exp_avg, exp_avg_sq of 2 parameters"),
        (_adam, None, True, "after 30 steps: exp_avg, exp_avg_sq of 2 parameters"),
        (_adam, _cosine, False, "after 30 steps: exp_avg, exp_avg_sq of 2 parameters"),
        (_momentum, _cosine, False, "state: momentum of 2 parameters"),
        (_rms, None, True, "after 30 steps: momentum, square_avg of 2 parameters"),
    ],
)
def test_an_optimizer_goes_on_from_its_state(make: Any, schedule: Any, loaded: bool, said: str, tmp_path: Path) -> None:
    told: list[str] = []
    agrees(lambda: _going_on(make, schedule, loaded), tmp_path, told)
    assert any(line.startswith("the optimizer continues") and line.endswith(said) for line in told)


def test_all_slots_begin_with_the_state_of_the_optimizer(tmp_path: Path) -> None:
    spec = replace(_going_on(_adam), slots=2)
    build(spec, tmp_path)
    state: Any = spec.optimizer.state  # type: ignore[union-attr]
    local = load_job(tmp_path).local_state
    mean = state[spec.model.weight]["exp_avg"]
    np.testing.assert_array_equal(local["exp_avg.weight"], mean.numpy())
    assert local["correction2"] == np.float32(1 - 0.999**30)


def test_state_of_an_optimizer_for_weights_that_are_drawn_is_refused(tmp_path: Path) -> None:
    spec = replace(_going_on(_adam), weights="seed")
    with pytest.raises(JobError, match=r"optimizer: it has state.*draws new weights; leave weights= out"):
        build(spec, tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state.pop("exp_avg_sq"), r"exp_avg_sq of weight is missing.*\[2, 8\]"),
        (lambda state: state["exp_avg"].fill_(torch.nan), "exp_avg of weight has NaN"),
    ],
)
def test_a_state_that_is_not_the_optimizers_is_refused(change: Any, words: str, tmp_path: Path) -> None:
    spec = _going_on(_adam)
    weight = spec.model.get_parameter("weight")
    change(spec.optimizer.state[weight])  # type: ignore[union-attr]
    with pytest.raises(JobError, match=words):
        build(spec, tmp_path)
