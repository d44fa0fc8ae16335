"""Building: what is written, what is refused, and that the result is the model that was meant."""

import filecmp
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn, optim
from torch.nn import functional as F  # noqa: N812

from domain.limits import SLOTS_MAX
from pol.capture.author.measures import accuracy, cross_entropy
from pol.capture.author.spec import SGD, AdamW, Batch, JobSpec, Nesterov
from pol.capture.build import build, build_job
from pol.capture.loading import load_into, load_result
from pol.capture.model.weights import seeded_parameters
from pol.capture.optim.optimizers import VELOCITY
from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import Engine
from pol.job.dataset import batch_at
from pol.job.document import Job, order_terms
from pol.job.load import load_job
from pol.job.updates import DIFFERENCE
from pol.local.evaluate import evaluate, load_holdout
from pol.local.inspect import inspect_job
from pol.local.run import run_locally
from pol.work.records import RoundSlot
from pol.work.train import aggregate, train_share

ROOT = Path(__file__).parents[4]
FIXTURE = ROOT / "tests" / "fixtures" / "job_tiny"
NUMPY = backend(Engine("numpy"))


def _spec(model: nn.Module | None = None) -> JobSpec:
    x = np.arange(40, dtype=np.float64).reshape(20, 2) / 40
    y = np.arange(20, dtype=np.int32) % 3
    return JobSpec(
        name="small",
        model=model or nn.Sequential(nn.Linear(2, 3)),
        loss=cross_entropy(),
        train={"x": x, "y": y},
        holdout={"x": x, "y": y},
        optimizer=SGD(),
        schedule=0.1,
        steps=4,
        round_steps=2,
        batch=4,
    )


def test_building_again_gives_the_checked_in_job(tmp_path: Path) -> None:
    """After a wanted change: ``python -m pol.capture examples/tiny.py tests/fixtures/job_tiny``."""
    job = build_job(ROOT / "examples" / "tiny.py", tmp_path)
    assert job.id == load_job(FIXTURE).job.id
    names = [path.relative_to(FIXTURE) for path in FIXTURE.rglob("*") if path.is_file()]
    assert len(names) == 6
    assert not filecmp.cmpfiles(FIXTURE, tmp_path, map(str, names), shallow=False)[1:][0]


def test_torchs_generator_has_no_say(tmp_path: Path) -> None:
    ids = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        ids.append(build(_spec(), tmp_path / str(seed)).id)
    assert ids[0] == ids[1]


def test_the_seed_does(tmp_path: Path) -> None:
    first = build(_spec(), tmp_path / "a").document
    other = build(replace(_spec(), seed=9), tmp_path / "b").document
    assert first.global_root != other.global_root


def test_weights_follow_the_layers_laws() -> None:
    model = nn.Sequential(nn.Embedding(50, 40), nn.Linear(40, 30), nn.LayerNorm(30))
    model.get_parameter("1.bias").data.fill_(0.25)
    found = seeded_parameters(model, 4)
    embedding, weight = found["0.weight"], found["1.weight"]
    bound = 40**-0.5
    assert float(weight.abs().max()) <= bound < float(weight.abs().max()) * 1.02
    assert abs(float(weight.mean())) < 0.01
    assert abs(float(embedding.std()) - 1) < 0.05
    assert torch.equal(found["1.bias"], torch.full((30,), 0.25))  # set on purpose
    assert torch.equal(found["2.weight"], torch.ones(30))
    assert not torch.equal(weight.flatten()[:100], embedding.flatten()[:100])


class Unknown(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.3, 0.7]))
        self.layer = nn.Linear(2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x * self.scale, self.layer.weight)


def test_what_is_not_trained_is_not_drawn() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    found = seeded_parameters(model, 4, ["1.weight"])
    for name, parameter in model.named_parameters():
        assert torch.equal(found[name], parameter.detach()) == (name != "1.weight")


def test_a_parameter_without_a_law_is_named_and_can_be_kept(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"model\.scale.*Unknown.*keep"):
        build(replace(_spec(Unknown()), weights="seed"), tmp_path)
    build(_spec(Unknown()), tmp_path)
    np.testing.assert_array_equal(load_job(tmp_path).global_state["scale"], np.array([0.3, 0.7], np.float32))


def test_frozen_parameters_and_buffers_stay(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3))
    model.get_parameter("0.weight").requires_grad_(False)
    model.register_buffer("offset", torch.tensor([1, 2]))
    job = build(_spec(model), tmp_path)
    assert [spec.name for spec in job.updated] == ["0.bias", "1.bias", "1.weight"]
    assert {spec.name for spec in job.document.global_tensors} >= {"0.weight", "offset"}


class RunningMean(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 3)
        self.register_buffer("seen", torch.zeros(2, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            seen = self.get_buffer("seen")
            seen += x.detach().mean(0).to(seen.dtype) + 1
        return F.linear(x, self.layer.weight)


def test_a_buffer_that_the_forward_pass_changes_is_trained(tmp_path: Path) -> None:
    job = build(_spec(RunningMean(torch.float32)), tmp_path)
    assert "seen" in [spec.name for spec in job.updated]
    loaded = load_job(tmp_path)
    share = train_share(loaded, RoundSlot(0, 0), loaded.global_state, loaded.local_state, backend=NUMPY)
    batches = [batch_at(loaded.data, job, number)["batch.x"] for number in (0, 1)]
    expected = sum(batch.mean(0) + 1 for batch in batches)
    np.testing.assert_allclose(share.global_out["seen"], expected, rtol=1e-6)
    with pytest.raises(JobError, match=r"model\.seen.*averaged"):
        build(_spec(RunningMean(torch.int64)), tmp_path / "integers")


def test_the_schedule_is_a_table_by_step(tmp_path: Path) -> None:
    build(replace(_spec(), schedule=lambda step: [0.1, 0.2, 0.3, 0.4][step]), tmp_path)
    (table,) = [c for c in load_job(tmp_path).job.document.step.constants if c.type.shape == (4,)]
    np.testing.assert_array_equal(np.frombuffer(table.data, np.float32), np.array([0.1, 0.2, 0.3, 0.4], np.float32))


def test_the_course_of_the_learning_rate_is_said_where_it_has_one(tmp_path: Path) -> None:
    said: list[str] = []
    spec = _spec()
    build(replace(spec, schedule=lambda step: [0.1, 0.4, 0.3, 0.2][step]), tmp_path, said.append)
    assert "learning rate: 0.1 in the first step, 0.2 in the last, 0.4 at most" in said
    said.clear()
    build(spec, tmp_path, said.append)
    assert not any("learning rate" in text for text in said)


def test_a_long_holdout_is_cut_into_equal_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pol.capture.build.EVAL_ROWS", 6)
    said: list[str] = []
    job = build(replace(_spec(), metrics={"accuracy": accuracy()}), tmp_path, said.append)
    holdout = load_holdout(tmp_path, job)
    assert len(holdout["y"]) == 20
    assert job.document.eval.inputs[-1].shape[0] == 5
    loaded = load_job(tmp_path)
    metrics = evaluate(job, loaded.global_state, holdout)
    model = nn.Sequential(nn.Linear(2, 3))
    load_into(model, loaded.global_state)
    with torch.no_grad():
        logits = model(torch.tensor(holdout["x"]))
        labels = torch.tensor(holdout["y"])
        assert metrics["accuracy"] == pytest.approx(float((logits.argmax(1) == labels).float().mean()))
        assert metrics["loss"] == pytest.approx(float(nn.functional.cross_entropy(logits, labels)), rel=1e-3)
    assert metrics["majority_baseline"] == pytest.approx(7 / 20)
    monkeypatch.setattr("pol.capture.build.EVAL_ROWS", 7)
    build(_spec(), tmp_path / "cut", said.append)
    assert any("cut from 20 to 18" in text for text in said)


def test_nesterov_is_part_of_the_global_state(tmp_path: Path) -> None:
    job = build(replace(_spec(), outer=Nesterov(lr=0.5, momentum=0.8)), tmp_path)
    assert job.document.aggregation == DIFFERENCE
    loaded = load_job(tmp_path)
    start = loaded.global_state
    update = {s.name: np.full(s.shape, 0.25, np.float32) for s in loaded.job.updated}
    state = start
    for round_ in range(2):
        state = aggregate(loaded, state, [update], NUMPY).state
        velocity = [0.25, 0.25 * 1.8][round_]
        np.testing.assert_allclose(state[VELOCITY + "0.bias"], np.full(3, velocity), rtol=1e-6)
    moved = 0.5 * ((0.25 + 0.8 * 0.25) + (0.25 + 0.8 * 0.45))
    np.testing.assert_allclose(state["0.bias"], start["0.bias"] - moved, rtol=1e-5)
    model = nn.Sequential(nn.Linear(2, 3))
    load_into(model, state)
    np.testing.assert_array_equal(model.get_parameter("0.bias").detach().numpy(), state["0.bias"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1", "no function job"),
        ("\0", "is not a Python file"),
        ("def job(): return 3", "job.. returned int"),
    ],
)
def test_a_file_that_is_no_job_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "file.py"
    file.write_text(text)
    with pytest.raises(JobError, match=reason):
        build_job(file, tmp_path / "out")
    with pytest.raises(JobError, match="no such file"):
        build_job(tmp_path / "missing.py", tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"batch": 2.0}, "batch"),
        ({"steps": 0}, "steps"),
        ({"steps": True}, "steps"),
        ({"steps": None}, "steps"),
        ({"epochs": 3}, "steps"),
        ({"steps": None, "epochs": 0}, "epochs"),
        ({"steps": None, "epochs": float("inf")}, "epochs"),
        ({"slots": 0}, "slots"),
        ({"slots": SLOTS_MAX + 1}, "slots"),
        ({"slots": None}, "slots"),
        ({"round_steps": 0}, "round_steps"),
        ({"segment_steps": 3}, "segment_steps"),
        ({"segment_steps": -1}, "segment_steps"),
        ({"steps": 2**20, "round_steps": 1}, "rounds"),
        ({"metrics": {"loss": accuracy()}}, "metrics"),
        ({"schedule": float("nan")}, "schedule"),
        ({"train": {}}, "train"),
        ({"train": {"x": np.zeros((3, 2)), "y": np.zeros(4, int)}}, "train"),
        ({"holdout": {"x": np.zeros((4, 3)), "y": np.zeros(4, int)}}, "holdout"),
        ({"train": {"x": np.array(["a"]), "y": np.zeros(1, int)}}, "train.x"),
        ({"loss": lambda model, batch: model(batch["x"])}, "loss"),
        ({"loss": lambda model, batch: 3.0}, "loss"),
        ({"model": nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, momentum=None))}, "model.1"),
        ({"model": nn.Linear(2, 3, device="meta")}, "model.weight"),
        ({"model": nn.LazyLinear(3)}, "model.weight"),
        ({"model": nn.Linear(2, 3, dtype=torch.complex64)}, "model.weight"),
        ({"model": optim.swa_utils.AveragedModel(nn.Linear(2, 3))}, "model"),
        ({"model": lambda x: x}, "model"),
        ({"optimizer": torch.optim.SGD([torch.zeros(1)], 0.1)}, "optimizer"),
        ({"outer": SGD()}, "outer"),
        ({"weights": "random"}, "weights"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"seed": 1.0}, "seed"),
        ({"clip_norm": -1.0}, "clip_norm"),
        ({"clip_norm": 0}, "clip_norm"),
        ({"clip_norm": float("nan")}, "clip_norm"),
        ({"clip_value": 0}, "clip_value"),
        ({"accumulate": 3}, "accumulate"),
        ({"accumulate": 0}, "accumulate"),
        ({"ema": 1.0}, "ema"),
        ({"name": "wine (2)"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "-x"}, "name"),
        ({"name": "n" * 65}, "name"),
        ({"name": 3}, "name"),
        ({"check": "no"}, "check"),
        ({"schedule_every": 0}, "schedule_every"),
        ({"schedule_every": 2}, "schedule_every"),
        ({"schedule": lambda step: None}, "schedule"),
        ({"schedule": lambda step: 0.1 / (1 + step), "steps": 2**19}, "schedule"),
        ({"train": {"x": [[1.0], [1.0, 2.0]], "y": [0, 1]}}, "train.x"),
    ],
)
def test_a_spec_that_is_no_job_names_its_field(tmp_path: Path, change: dict[str, object], field: str) -> None:
    with pytest.raises(JobError) as caught:
        build(replace(_spec(), **change), tmp_path)  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("kind", "options", "field"),
    [
        (SGD, {"momentum": -0.1}, "optimizer.momentum"),
        (SGD, {"weight_decay": float("nan")}, "optimizer.weight_decay"),
        (SGD, {"nesterov": True}, "optimizer"),
        (AdamW, {"betas": 0.9}, "optimizer.betas"),
        (AdamW, {"betas": (0.9, 1.0)}, "optimizer.betas"),
        (AdamW, {"eps": "small"}, "optimizer.eps"),
        (AdamW, {"weight_decay": -1}, "optimizer.weight_decay"),
        (Nesterov, {"lr": float("inf")}, "outer.lr"),
        (Nesterov, {"momentum": True}, "outer.momentum"),
    ],
)
def test_settings_out_of_range_are_refused(kind: Callable[..., object], options: dict[str, object], field: str) -> None:
    with pytest.raises(JobError) as caught:
        kind(**options)
    assert caught.value.field == field


def _crossed(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"].float())  # the labels are no classes


def _inverted(model: nn.Module, batch: Batch) -> torch.Tensor:
    outputs = model(batch["x"])
    inverse: torch.Tensor = torch.linalg.pinv(outputs)  # an operation that jobs lack
    return inverse.sum()


@pytest.mark.parametrize(("loss", "comment"), [(_crossed, "no classes"), (_inverted, "that jobs lack")])
def test_an_error_in_the_loss_names_its_line(tmp_path: Path, loss: Callable[..., torch.Tensor], comment: str) -> None:
    with pytest.raises(JobError) as caught:
        build(replace(_spec(), loss=loss), tmp_path)
    assert "test_build.py" in caught.value.field
    assert comment in caught.value.field


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda x, y: {"x": x, "y": y[:-1]}, "train: its columns .*: x .*, y "),
        (lambda x, y: {"x": x[:0], "y": y[:0]}, "train: has no rows"),
        (lambda x, _: {"x": x}, "no column 'y'; use one of its columns: 'x'$"),
    ],
)
def test_columns_that_lack_something_are_refused(
    tmp_path: Path, change: Callable[..., dict[str, Any]], reason: str
) -> None:
    spec = _spec()
    data = change(np.asarray(spec.train["x"]), np.asarray(spec.train["y"]))
    holdout = {name: spec.holdout[name] for name in data}
    with pytest.raises(JobError, match=reason):
        build(replace(spec, train=data, holdout=holdout), tmp_path)


def test_torch_has_nothing_to_warn_of_where_an_array_is_mapped(tmp_path: Path) -> None:
    spec = _spec()
    np.save(tmp_path / "x.npy", np.asarray(spec.train["x"], np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    torch.set_warn_always(True)
    try:
        # a warning is an error here
        build(replace(spec, train={**spec.train, "x": mapped}), tmp_path / "job")
    finally:
        torch.set_warn_always(False)


@pytest.mark.parametrize("wrong", [3, -1])
def test_a_label_outside_the_classes_is_refused(tmp_path: Path, wrong: int) -> None:
    """A traced loss would leave such a row out without a word."""
    spec = _spec()
    labels = np.asarray(spec.train["y"]).copy()
    labels[13] = wrong
    with pytest.raises(JobError, match=r"row 13.*out of bounds"):
        build(replace(spec, train={**spec.train, "y": labels}), tmp_path)


def test_a_label_of_the_holdout_outside_the_classes_is_refused(tmp_path: Path) -> None:
    spec = _spec()
    labels = np.asarray(spec.holdout["y"]).copy()
    labels[7] = 3
    with pytest.raises(JobError, match=r"row 7 of the holdout.*out of bounds"):
        build(replace(spec, holdout={**spec.holdout, "y": labels}), tmp_path)


def test_torch_warns_of_nothing_while_the_loss_is_tried(tmp_path: Path) -> None:
    """A warning is an error here; torch has one for LSTMs with projections, once a process."""

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        return F.cross_entropy(model(batch["x"])[0], batch["y"])

    torch.set_warn_always(True)
    try:
        build(replace(_spec(nn.LSTM(2, 4, proj_size=3)), loss=loss), tmp_path)
    finally:
        torch.set_warn_always(False)


def test_trying_the_loss_changes_no_buffer(tmp_path: Path) -> None:
    class Counting(RunningMean):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.get_buffer("seen").add_(1)
            return super().forward(x)

    model = Counting(torch.float32)
    build(_spec(model), tmp_path)
    assert float(load_job(tmp_path).global_state["seen"].sum()) == 0.0
    assert float(model.get_buffer("seen").sum()) == 0.0


def test_an_unsupported_layer_is_named_before_its_weights(tmp_path: Path) -> None:
    class Inverted(nn.Linear):
        def __init__(self) -> None:
            super().__init__(2, 3)
            # nobody knows how it is drawn
            self.more = nn.Parameter(torch.arange(3.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inverse: torch.Tensor = torch.linalg.pinv(super().forward(x))
            return inverse.T * self.more

    model = Inverted()
    with pytest.raises(JobError, match="linalg"):
        build(_spec(model), tmp_path)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
        self.second.weight = self.first.weight
        self.out = nn.Linear(2, 3)
        self.register_buffer("offset", torch.zeros(2), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.out(self.second(self.first(x)) + self.get_buffer("offset"))
        return outputs


def test_a_result_loads_into_a_model_with_tied_weights(tmp_path: Path) -> None:
    job = build(_spec(Tied()), tmp_path)
    assert "second.weight" not in [spec.name for spec in job.document.global_tensors]
    state = {name: array + 1 for name, array in load_job(tmp_path).global_state.items()}
    model = Tied()
    load_into(model, state)
    assert model.second.weight is model.first.weight
    np.testing.assert_array_equal(model.first.weight.detach().numpy(), state["first.weight"])
    np.testing.assert_array_equal(model.get_buffer("offset").numpy(), np.ones(2))


def _compiled(module: nn.Module) -> nn.Module:
    compiled: Any = torch.compile(module, backend="eager")
    assert isinstance(compiled, nn.Module)
    return compiled


class Wrapped(nn.Module):
    """One module as people wrap modules, in parts and with half of it in another type."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 4, dtype=torch.bfloat16)
        self.second = _compiled(nn.Linear(4, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.first(x)
        outputs: torch.Tensor = self.second(hidden.float())
        return outputs


def test_a_model_is_taken_out_of_what_is_wrapped_around_it(tmp_path: Path) -> None:
    model = Wrapped()
    optimizer = optim.SGD(model.parameters(), 0.1, momentum=0.9)
    wrapped = nn.DataParallel(_compiled(model))
    said: list[str] = []
    spec = replace(_spec(wrapped), optimizer=optimizer, schedule=None, ema=0.5, weights="keep")
    job = build(spec, tmp_path / "job", said.append)
    assert any("model's bfloat16 become float32" in text for text in said)
    assert any("computes in bfloat16 (by autocast" in text for text in said)
    names = {spec.name for spec in job.document.global_tensors}
    assert {"first.weight", "second._orig_mod.bias", "ema.first.weight"} < names
    done = run_locally(tmp_path / "job", out=tmp_path)
    other = nn.DataParallel(Wrapped())
    for ema, prefix in ((False, ""), (True, "ema.")):
        loaded = load_result(other, tmp_path, ema=ema)
        assert loaded is other
        weight = done.state[f"{prefix}second._orig_mod.weight"]
        found = other.module.get_parameter("second._orig_mod.weight").detach()
        np.testing.assert_array_equal(found, weight)


@pytest.fixture(scope="module")
def trained(digits: tuple[Path, Job], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained")
    run_locally(digits[0], out=out)
    return out


def test_digits_learn_what_a_majority_does_not_know(digits: tuple[Path, Job]) -> None:
    result = run_locally(digits[0])
    assert result.before["accuracy"] < 0.3
    assert result.after["accuracy"] > 0.9 > 5 * result.after["majority_baseline"]
    assert result.history["loss"][-1] < 0.3 * result.history["loss"][0]


def test_the_saved_model_loads_into_the_original(digits: tuple[Path, Job], trained: Path) -> None:
    from safetensors.torch import load_file

    from examples.digits import job

    model = job().model
    model.load_state_dict(load_file(trained / "model.safetensors"))
    model.eval()
    holdout = load_holdout(*digits)
    with torch.no_grad():
        found = model(torch.tensor(holdout["x"])).argmax(1).numpy()
    assert float((found == holdout["y"]).mean()) > 0.9


def test_evaluation_runs_without_dropout(digits: tuple[Path, Job]) -> None:
    assert "uniform" in {node.op for node in digits[1].document.step.nodes}
    assert "uniform" not in {node.op for node in digits[1].document.eval.nodes}


def test_the_summary_adds_up(digits: tuple[Path, Job]) -> None:
    summary = inspect_job(digits[1])
    assert summary.parameters == 17_482
    assert sum(summary.flops_by_operation.values()) == summary.step_flops
    states = order_terms(digits[1])
    boundary = states.global_bytes + states.local_bytes
    assert (summary.steps, summary.segments) == (160, 64)
    assert summary.epochs == pytest.approx(2 * 160 * 32 / 1437)
    rest = summary.total_flops - 320 * summary.step_flops - 64 * boundary
    assert rest == summary.rounds * states.outer_work > 0
    assert run(digits[1].document.eval, _eval_inputs(*digits), 0, NUMPY)["metric.accuracy"] < 0.5


def _eval_inputs(folder: Path, job: Job) -> dict[str, np.ndarray]:
    state = {f"global.{name}": array for name, array in load_job(folder).global_state.items()}
    return state | {f"batch.{name}": array for name, array in load_holdout(folder, job).items()}
