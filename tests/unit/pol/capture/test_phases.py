"""Steps of several losses and optimizers in turn, against the loops that people write for GANs."""

import re
import textwrap
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim
from torch.nn import functional
from torch.optim import lr_scheduler

import assay
from pol.capture.author.spec import Batch, JobSpec
from pol.capture.build import build
from pol.capture.functions import JobFunctions, named
from pol.capture.loading import load_into
from pol.capture.optim.optimizers import averages_initial
from pol.errors import JobError
from pol.executor.names import NATIVE
from pol.job.dataset import batch_at
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.load import load_job
from pol.work.segments import advance, slot_state
from tests.unit.pol.capture.stepped import assert_near, job_steps, step_batch, traced
from tests.unit.pol.executor.ops import get

NOISE, BATCH, STEPS = 6, 12, 4
ROOT = Path(__file__).parents[4]


class Gan(nn.Module):
    """A generator and a discriminator of 8 x 8 images, each with statistics of batches, as DCGAN has them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(NOISE, 8, 4, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 1, 4, 2, 1),
            nn.Tanh(),
        )
        self.critic = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(8, 8, 3, bias=False),
            nn.BatchNorm2d(8),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(32, 1),
        )

    def made(self, z: Tensor) -> Tensor:
        found: Tensor = self.generator(z[:, :, None, None])
        return found

    def judged(self, x: Tensor) -> Tensor:
        found: Tensor = self.critic(x)[:, 0]
        return found


def _of_critic(model: Any, batch: Batch) -> Tensor:
    real, fake = model.judged(batch["x"]), model.judged(model.made(batch["z"]).detach())
    ones, zeros = torch.ones_like(real), torch.zeros_like(fake)
    loss = functional.binary_cross_entropy_with_logits
    return loss(real, ones) + loss(fake, zeros)


def _of_generator(model: Any, batch: Batch) -> Tensor:
    fake = model.judged(model.made(batch["z"]))
    return functional.binary_cross_entropy_with_logits(fake, torch.ones_like(fake))


def _data(rows: int) -> dict[str, Any]:
    from sklearn.datasets import load_digits

    images = load_digits().images[:rows, None].astype(np.float32) / 8 - 1
    z = np.random.default_rng(3).standard_normal((rows, NOISE)).astype(np.float32)
    return {"x": images, "z": z}


def _adams(model: Gan) -> tuple[optim.Adam, optim.Adam]:
    return (
        optim.Adam(model.critic.parameters(), 2e-3, (0.5, 0.999)),
        optim.Adam(model.generator.parameters(), 1e-3, (0.5, 0.999)),
    )


def _spec(model: nn.Module, phases: Any, **fields: Any) -> JobSpec:
    data = _data(BATCH * STEPS)
    chosen: dict[str, Any] = {"batch": BATCH, "steps": STEPS, **fields}
    return JobSpec(
        name="gan",
        model=model,
        train=data,
        holdout={n: c[:8] for n, c in data.items()},
        phases=phases,
        precision=22,
        weights="keep",
        **chosen,
    )


def _dcgan(model: Gan, **fields: Any) -> JobSpec:
    of_critic, of_generator = _adams(model)
    phases = {
        "critic": assay.Phase(loss=_of_critic, optimizer=of_critic),
        "generator": assay.Phase(loss=_of_generator, optimizer=of_generator),
    }
    return _spec(model, phases, **fields)


def _step(loss: Any, model: nn.Module, optimizer: optim.Optimizer, batch: Batch) -> float:
    model.zero_grad()
    found: Tensor = loss(model, batch)
    found.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return float(found.detach())


def _same_buffers(found: dict[str, Tensor], model: nn.Module) -> None:
    for name, buffer in model.named_buffers():
        if buffer.is_floating_point():
            np.testing.assert_allclose(found[f"global.{name}"], buffer, rtol=1e-3, atol=1e-4)


def test_two_networks_train_against_each_other_as_in_a_loop(tmp_path: Path) -> None:
    """A whole job, with the batches that it takes; losses of both are metrics."""
    model = Gan()
    before, copy = deepcopy(model), deepcopy(model)
    spec = _dcgan(model)
    document = build(spec, tmp_path).document
    assert document.metrics == ("loss", "loss.generator")
    assert set(document.eval.outputs) == {"metric.loss", "metric.loss.generator"}
    assert {spec.name.partition(".")[0] for spec in document.local_tensors} == {
        "critic",
        "generator",
    }
    loaded = load_job(tmp_path)
    reached = slot_state(loaded, loaded.global_state, loaded.local_state)
    optimizers = _adams(copy)
    for step in range(STEPS):
        arrays = batch_at(loaded.data, loaded.job, step)
        batch = {name: torch.from_numpy(arrays[f"batch.{name}"].copy()) for name in "xz"}
        losses = [
            _step(loss, copy, optimizer, batch)
            for loss, optimizer in zip((_of_critic, _of_generator), optimizers, strict=True)
        ]
        reached, metrics = advance(loaded, reached, step, 0, get(NATIVE))
        found = [float(metrics[name]) for name in ("loss", "loss.generator")]
        np.testing.assert_allclose(found, losses, rtol=1e-3)
        outputs = {f"global.{n}": torch.from_numpy(a.copy()) for n, a in reached.global_state.items()}
        assert_near(outputs, copy, before, 2e-2)
        _same_buffers(outputs, copy)
    ran = assay.run_locally(tmp_path)
    assert set(ran.after) == {"loss", "loss.generator"}
    load_into(model, ran.state)
    for name, parameter in model.named_parameters():
        assert np.array_equal(parameter.detach(), reached.global_state[name])


def _clipped(p: Tensor, g: Tensor, state: Any, step: assay.RuleStep) -> tuple[Tensor, Any]:
    """RMSprop, and the weights of a critic within a box."""
    square = 0.99 * state["square"] + 0.01 * g * g
    p = p - step.lr * g / (torch.sqrt(square) + 1e-8)
    return p.clamp(-step.options["most"], step.options["most"]), {"square": square}


def _of_wasserstein(model: Any, batch: Batch) -> Tensor:
    real, fake = model.judged(batch["x"]), model.judged(model.made(batch["z"]).detach())
    found: Tensor = fake.mean() - real.mean()
    return found


def _of_its_generator(model: Any, batch: Batch) -> Tensor:
    fake: Tensor = model.judged(model.made(batch["z"]))
    return -fake.mean()


def test_a_critic_takes_several_updates_for_each_of_the_generator() -> None:
    """WGAN: each update has a third of the rows, and the generator the last of these; a schedule goes by steps."""
    model = Gan()
    before, copy = deepcopy(model), deepcopy(model)
    critic = assay.update_rule(_clipped, model.critic.parameters(), lr=1e-2, state={"square": 0.0}, most=0.1)
    spec = _spec(
        model,
        {
            "critic": assay.Phase(
                loss=_of_wasserstein,
                optimizer=critic,
                repeat=3,
                schedule=lr_scheduler.StepLR(critic, 2, 0.5),
            ),
            "generator": assay.Phase(
                loss=_of_its_generator, optimizer=optim.RMSprop(model.generator.parameters(), 1e-3)
            ),
        },
    )
    of_critic = optim.RMSprop(copy.critic.parameters(), 1e-2)
    of_generator = optim.RMSprop(copy.generator.parameters(), 1e-3)
    schedule = lr_scheduler.StepLR(of_critic, 2, 0.5)
    for step, found in enumerate(job_steps(spec, is_captured=False)):
        rows = step_batch(spec, step)
        losses = []
        for part in range(3):
            batch = {name: column[part * 4 : part * 4 + 4] for name, column in rows.items()}
            losses.append(_step(_of_wasserstein, copy, of_critic, batch))
            with torch.no_grad():
                for p in copy.critic.parameters():
                    p.clamp_(-0.1, 0.1)
        loss = _step(_of_its_generator, copy, of_generator, batch)
        schedule.step()
        assert float(found["metric.loss"]) == pytest.approx(np.mean(losses), rel=1e-3, abs=1e-5)
        assert float(found["metric.loss.generator"]) == pytest.approx(loss, rel=1e-3, abs=1e-5)
        assert_near(found, copy, before, 2e-2)
        _same_buffers(found, copy)
    assert float(copy.get_parameter("critic.0.weight").detach().abs().max()) == pytest.approx(0.1)


class Shared(nn.Module):
    """An encoder that two phases move, each with its own momentum, and what draws."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.encoder = nn.Linear(64, 4)
        self.decoder, self.head = nn.Linear(4, 64), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = torch.tanh(self.encoder(x.flatten(1)))
        return found


def _rebuilt(model: Any, batch: Batch) -> Tensor:
    return functional.mse_loss(model.decoder(model(batch["x"])), batch["x"].flatten(1))


def _ranked(model: Any, batch: Batch) -> Tensor:
    ranks: Tensor = model.head(model(batch["x"]))
    return ranks.square().mean() + batch["z"].mean()


def _of_shared(model: Shared) -> tuple[optim.Optimizer, optim.Optimizer]:
    """Return two optimizers, of which the first goes by the number of its steps."""
    first = [*model.encoder.parameters(), *model.decoder.parameters()]
    second = [*model.encoder.parameters(), *model.head.parameters()]
    return optim.Adagrad(first, 0.1, lr_decay=0.5), optim.AdamW(second, 0.01)


def test_phases_may_move_the_same_weights_and_clip_each_by_itself() -> None:
    """The second phase takes the last rows, for it has fewer repeats; averages are of the weights after all phases."""
    model = Shared()
    before, copy = deepcopy(model), deepcopy(model)
    one, two = _of_shared(model)
    phases = {
        "rebuilt": assay.Phase(loss=_rebuilt, optimizer=one, clip_norm=0.1, repeat=3),
        "ranked": assay.Phase(loss=_ranked, optimizer=[two], clip_value=0.01, repeat=2),
    }
    spec = _spec(model, phases)
    first, second = _of_shared(copy)
    for step, found in enumerate(job_steps(spec, is_captured=False)):
        rows = step_batch(spec, step)
        parts = [{name: column[at : at + 4] for name, column in rows.items()} for at in (0, 4, 8)]
        for batch in parts:
            copy.zero_grad()
            _rebuilt(copy, batch).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(copy.parameters(), 0.1)
            first.step()
        for batch in parts[1:]:
            copy.zero_grad()
            _ranked(copy, batch).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_value_(copy.parameters(), 0.01)
            second.step()
        assert_near(found, copy, before, 1e-3)
    names = set(JobFunctions(spec, STEPS).initial_local(dict(model.named_parameters())))
    assert {"rebuilt.sum.encoder.weight", "ranked.exp_avg.encoder.weight"} <= names


def test_averages_are_of_the_weights_after_all_phases() -> None:
    model = Shared()
    one, two = _of_shared(model)
    phases = {
        name: assay.Phase(loss=loss, optimizer=optimizer)
        for name, loss, optimizer in (("rebuilt", _rebuilt, one), ("ranked", _ranked, two))
    }
    spec = _spec(model, phases, ema=0.5)
    state = dict(model.named_parameters())
    averaged = averages_initial(0.5, state, list(state))
    functions = JobFunctions(spec, STEPS)
    inputs = {
        **named("global", {**state, **averaged}),
        **named("local", functions.initial_local(state)),
        **named("batch", step_batch(spec, 0)),
        STEP: torch.tensor(0),
        BATCH_NUMBER: torch.tensor(0),
    }
    found = functions.step(inputs)
    mean = (model.encoder.weight + found["global.encoder.weight"]) / 2
    torch.testing.assert_close(found["global.ema.encoder.weight"], mean.detach())


class Noisy(nn.Module):
    """Its weights become the noise that was drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Parameter(torch.zeros(64)), nn.Parameter(torch.zeros(64))


def test_each_phase_and_each_repeat_draws_its_own(tmp_path: Path) -> None:
    """The gradient of each weight is the noise of its phase, of which the first sums two."""
    model = Noisy()

    def loss(name: str) -> Any:
        return lambda model, batch: -(getattr(model, name) * torch.randn(64)).sum()

    phases = {
        name: assay.Phase(loss=loss(name), optimizer=optim.SGD([model.get_parameter(name)], 1.0), repeat=repeat)
        for name, repeat in (("first", 2), ("second", 1))
    }
    spec = _spec(model, phases, steps=1)
    (found,) = job_steps(spec, 1)
    first, second = (found[f"global.{name}"].numpy() for name in ("first", "second"))
    assert 1.0 < first.std() < 1.8
    assert 0.7 < second.std() < 1.3
    # the second repeat's noise is neither the first's again nor the other phase's
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.4
    assert not np.allclose(first, 2 * second, atol=0.5)
    # and the whole can be built, and evaluated
    build(spec, tmp_path)


def test_products_have_the_bits_of_their_phase() -> None:
    model = nn.ModuleDict({"a": nn.Linear(6, 6), "b": nn.Linear(6, 1)})
    bits = assay.Precision(forward=8, input_gradient=22, weight_gradient=15)

    def loss(model: Any, batch: Batch) -> Tensor:
        found: Tensor = model["b"](torch.tanh(model["a"](batch["z"]))).square().mean()
        return found

    phases = {name: assay.Phase(loss=loss, optimizer=optim.SGD(model[name].parameters(), 0.1)) for name in "ab"}
    spec = _spec(model, phases)
    object.__setattr__(spec, "precision", bits)
    program = traced(spec)
    found = [node.attrs["bits"] for node in program.nodes if "bits" in node.attrs]
    # a: two forward, back through b, and its own weight; b: two forward, and its own weight
    assert sorted(found) == sorted([8, 8, 22, 15, 8, 8, 15])


def _phase(model: Gan, **fields: Any) -> assay.Phase:
    chosen: dict[str, Any] = {"loss": _of_critic, "optimizer": _adams(model)[0], **fields}
    return assay.Phase(**chosen)


@pytest.mark.parametrize(
    ("phases", "fields", "reason"),
    [
        (lambda m: {"a": _phase(m)}, {"loss": _of_critic}, "loss: a job with phases has no.*loss= in each"),
        (lambda m: {"a": _phase(m)}, {"optimizer": assay.AdamW()}, "optimizer: a job with phases has no"),
        (lambda m: {"a": _phase(m)}, {"schedule": 0.1}, "schedule: a job with phases has no"),
        (lambda m: {"a": _phase(m)}, {"clip_norm": 0.1}, "clip_norm: a job with phases has no"),
        (lambda m: {}, {}, "loss: the job has no loss"),
        (lambda m: [_phase(m)], {}, "is a list, which does not name.*'critic'|is a list, which does not name"),
        (lambda m: {"a b": _phase(m)}, {}, "'a b' cannot be the name"),
        (lambda m: {"a": _of_critic}, {}, "phases.a: is a function.*assay.Phase"),
        (lambda m: {"a": _phase(m, repeat=0)}, {}, "phases.a.repeat: 0 is not"),
        (lambda m: {"a": _phase(m, repeat=5)}, {}, "batch: a batch of 12 rows cannot be divided into 5"),
        (lambda m: {"a": _phase(m, repeat=4)}, {"accumulate": 2}, "cannot be divided into 8 equal parts"),
        (lambda m: {"a": _phase(m, clip_norm=-1)}, {}, "phases.a.clip_norm: -1 is not"),
        (lambda m: {"a": _phase(m, schedule_every=0)}, {}, "phases.a.schedule_every"),
        (lambda m: {"a": _phase(m)}, {"metrics": {"loss.a": _of_critic}}, "loss.a is always"),
        (lambda m: {"a": _phase(m, optimizer=assay.AdamW())}, {}, "phases.a.optimizer.*torch.optim.AdamW"),
        (lambda m: {"a": _phase(m, schedule="x")}, {}, "phases.a.schedule"),
        (lambda m: {"a": _phase(m, optimizer="adam")}, {}, r"phases.a.optimizer.*torch.optim.Adam\("),
    ],
)
def test_phases_that_no_job_has_are_refused(phases: Any, fields: Any, reason: str) -> None:
    model = Gan()
    with pytest.raises(JobError, match=reason):
        JobFunctions(_spec(model, phases(model), **fields), STEPS)


def test_a_loss_that_fails_is_named_by_its_phase(tmp_path: Path) -> None:
    model = Gan()
    phases = {
        "critic": _phase(model),
        "generator": _phase(model, loss=lambda model, batch: batch["z"].mean()),
    }
    with pytest.raises(JobError, match=r"phases\.generator\.loss: does not depend on any trained weight"):
        build(_spec(model, phases), tmp_path)
    phases["generator"] = _phase(model, loss=lambda model, batch: batch["q"].mean())
    with pytest.raises(JobError, match="no column 'q'"):
        build(_spec(model, phases), tmp_path)


def test_a_scheduler_in_a_phase_belongs_to_its_optimizer(tmp_path: Path) -> None:
    model = Gan()
    spec = _dcgan(model)
    one, other = (phase.optimizer for phase in spec.phases.values())
    assert isinstance(one, optim.Optimizer)
    assert isinstance(other, optim.Optimizer)
    schedule = lr_scheduler.StepLR(other, 3)
    phases = {"critic": _phase(model, optimizer=one, schedule=schedule)}
    with pytest.raises(JobError, match=r"phases\.critic\.schedule.*another optimizer"):
        JobFunctions(_spec(model, phases), STEPS)


def _blocks(title: str) -> list[str]:
    """Return the code of a section of docs/jobs.md, block by block."""
    text = (ROOT / "docs" / "jobs.md").read_text()
    section = text.partition(f"### {title}\n")[2].partition("\n#")[0]
    found = re.findall(r"(?:^ {4}.*\n(?:\n(?= {4}))?)+", section, re.M)
    return [textwrap.dedent(block) for block in found]


def test_what_the_page_shows_trains() -> None:
    rule, shared = _blocks("Update rules")
    (phases,) = _blocks("Several losses in turn")
    model = Gan()
    names: dict[str, Any] = {"assay": assay, "torch": torch, "model": model}
    names |= {"critic_loss": _of_critic, "generator_loss": _of_generator}
    for block in (rule, shared):
        exec(block, names)
        optimizer = names["optimizer"]
        spec = _spec(model, {"all": assay.Phase(loss=_of_critic, optimizer=optimizer)})
        found = job_steps(spec, 1, is_captured=False)
        assert not torch.equal(found[0]["global.critic.6.weight"], model.get_parameter("critic.6.weight"))
    rest = 'name="page", train=data, holdout=data, batch=6, steps=1'
    code = f"def job(data):\n{textwrap.indent(phases.replace('…', rest), '    ')}"
    exec(code, names)
    spec = names["job"](_data(6))
    assert set(job_steps(spec, is_captured=False)[0]) >= {"metric.loss", "metric.loss.generator"}
