"""Training results with products of 15 and 8 bits, compared with eager FP32: three seeds, three learning rates.

All runs have the same initial weights, batches and learning rates. FP32 trains twice, the second time with the rows of
each batch reversed, which changes only the rounding. The training loss is the mean of the last twentieth of the steps.
Held-out metrics are always measured in FP32. Rows have the mean, minimum and maximum over the seeds. They also have the
difference between this mean and the mean of FP32, divided by FP32's spread (maximum minus minimum) over the seeds.
"""

import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean
from time import process_time
from types import MappingProxyType

import numpy as np
import torch
from torch import nn

from assay import AdamW, JobSpec, Precision, accuracy
from benchmarks import corpora, eager
from benchmarks.corpora import Corpus
from benchmarks.figures import Figures, Row
from benchmarks.networks import GPT, loss
from benchmarks.threads import limited
from pol.capture.build import build
from pol.capture.functions import evaluating
from pol.capture.loading import load_into
from pol.executor.backend import backend
from pol.executor.names import NATIVE, Engine
from pol.job.load import LoadedJob, load_job
from pol.state.arrays import Array
from pol.work.segments import advance, slot_state

NAME = "parity"
SEEDS = (1, 2, 3)
FP32, BACKWARDS = "FP32", "FP32, rows backwards"
HEAD = "score"
PRECISIONS: Mapping[str, int | Mapping[str, int | Precision]] = MappingProxyType(
    {
        "15 bits": 15,
        "8 bits": 8,
        "8 bits, 15 for weight gradients and head": {
            "": Precision(forward=8, input_gradient=8, weight_gradient=15),
            HEAD: 15,
        },
    }
)
POINTS = 40
"""Maximum number of points of a curve; each point is the mean of the same number of steps."""
LAST = 20
"""The steps are divided into this many equal parts, and the training loss is the mean of the last part."""


@dataclass(frozen=True)
class Study:
    """A model with its data and its training settings."""

    corpus: Callable[[], Corpus]
    model: Callable[[Corpus], nn.Module]
    steps: int
    batch: int
    rates: tuple[float, ...]

    def spec(self, corpus: Corpus, rate: float, seed: int) -> JobSpec:
        """Return the job with the highest learning rate ``rate``: a warm-up, then a cosine decay to a tenth of it."""
        return JobSpec(
            name=NAME,
            model=self.model(corpus),
            loss=loss,
            metrics={"accuracy": accuracy()},
            train=corpus.train,
            holdout=corpus.holdout,
            optimizer=AdamW(weight_decay=0.01),
            schedule=partial(_rate, rate, self.steps),
            clip_norm=1.0,
            steps=self.steps,
            round_steps=self.steps,
            batch=self.batch,
            seed=seed,
        )


def _rate(highest: float, steps: int, step: int) -> float:
    warm = min(1.0, (step + 1) / (0.05 * steps))
    return highest * warm * (0.55 + 0.45 * math.cos(math.pi * step / steps))


class Classifier(nn.Module):
    """A network with two hidden layers and class scores."""

    def __init__(self, features: int, width: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.score = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.score(self.body(x))
        return scores


MODELS: Mapping[str, Study] = MappingProxyType(
    {
        "gpt": Study(
            corpus=lambda: corpora.text(64),
            model=lambda corpus: GPT(64, 2, 64, corpus.classes),
            steps=800,
            batch=16,
            rates=(3e-3, 1e-2, 3e-2),
        ),
        "digits": Study(
            corpus=corpora.digits,
            model=lambda corpus: Classifier(64, 256, corpus.classes),
            steps=1200,
            batch=64,
            rates=(1e-3, 3e-3, 1e-2),
        ),
    }
)


@dataclass(frozen=True)
class Trained:
    """A trained model's loss at each step, and its metrics on held-out data."""

    losses: Sequence[float]
    held_out: Mapping[str, float]

    @property
    def final(self) -> dict[str, float]:
        """The measures to compare, by name: the training loss at the end, and the held-out metrics."""
        last = self.losses[-max(1, len(self.losses) // LAST) :]
        held_out = {f"held-out {name}": value for name, value in self.held_out.items()}
        return {"training loss": mean(last), **held_out}

    @property
    def curve(self) -> list[tuple[int, float]]:
        """The points of the loss curve: a number of steps, and the mean loss of the steps since the previous point."""
        ends = np.unique(np.linspace(0, len(self.losses), POINTS + 1).astype(int)).tolist()
        return [(end, mean(self.losses[start:end])) for start, end in pairwise(ends)]


Runs = Mapping[tuple[str, float], Sequence[Trained]]
"""Results by precision and learning rate, one per seed."""


def run(models: Sequence[str] = tuple(MODELS), curves: Path | None = None) -> Figures:
    """Train some models, or all by default, and draw curves into a folder if one is given."""
    rows: list[Row] = []
    notes = []
    for name in models:
        study = MODELS[name]
        corpus = study.corpus()
        with limited(1):
            runs = train_all(name, study, corpus, SEEDS)
        rows += compared(name, runs)
        notes.append(f"{name}: {corpus.source}; {study.steps} steps of {study.batch} rows")
        notes.append(f"{name}, held out: {_reference(corpus)}")
        if curves is not None:
            from benchmarks.curves import draw

            lines = {key: [one.curve for one in trained] for key, trained in runs.items()}
            draw(lines, curves / f"{NAME}-{name}.svg")
    return Figures(NAME, rows, notes)


def train_all(name: str, study: Study, corpus: Corpus, seeds: Sequence[int]) -> dict[tuple[str, float], list[Trained]]:
    """Train with every precision, rate and seed, and print each result on stderr."""
    runs: dict[tuple[str, float], list[Trained]] = {}
    for rate in study.rates:
        for seed in seeds:
            for precision, trained in train(study.spec(corpus, rate, seed)):
                runs.setdefault((precision, rate), []).append(trained)
                measures = ", ".join(f"{key} {value:.4f}" for key, value in trained.final.items())
                case = f"{name}, rate {rate:g}, {precision}, seed {seed}"
                print(f"{case}: {measures} ({process_time():.0f} s so far)", file=sys.stderr)
    return runs


def train(spec: JobSpec) -> Iterator[tuple[str, Trained]]:
    """Train a job in FP32, in FP32 with reversed rows, and with each precision; yield each name and result."""
    for name, precision in PRECISIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            build(replace(spec, precision=precision), Path(folder))
            loaded = load_job(Path(folder))
        if name == next(iter(PRECISIONS)):
            # FP32 trains only once, because weights and batches do not depend on the precision.
            yield FP32, plain(spec, loaded)
            yield BACKWARDS, plain(spec, loaded, backwards=True)
        yield name, exact(spec, loaded)


def plain(spec: JobSpec, loaded: LoadedJob, backwards: bool = False) -> Trained:
    """Train a job's model in FP32; ``backwards`` reverses the rows of each batch."""
    # Train a copy, because building reads the distribution of initial weights from the model.
    model = deepcopy(spec.model)
    return Trained(list(eager.losses(spec, loaded, model, backwards)), held_out(spec, model))


def exact(spec: JobSpec, loaded: LoadedJob) -> Trained:
    """Train a job on the native executor."""
    engine = backend(Engine(NATIVE))
    state = slot_state(loaded, loaded.global_state, loaded.local_state)
    losses = []
    for step in range(loaded.job.document.steps):
        state, metrics = advance(loaded, state, step, 0, engine)
        losses.append(float(metrics["loss"]))
    model = deepcopy(spec.model)
    load_into(model, state.global_state)
    return Trained(losses, held_out(spec, model))


def held_out(spec: JobSpec, model: nn.Module) -> dict[str, float]:
    """Return the loss and the metrics of a trained model on held-out data, in plain FP32 without dropout."""
    columns = eager.as_tensors(spec.holdout)
    parts = [torch.chunk(column, 8) for column in columns.values()]
    metrics: dict[str, float] = {}
    with evaluating(model), torch.no_grad():
        for values in zip(*parts, strict=True):
            batch = dict(zip(columns, values, strict=True))
            share = len(values[0]) / len(next(iter(columns.values())))
            for name, measure in {"loss": spec.loss, **spec.metrics}.items():
                metrics[name] = metrics.get(name, 0.0) + share * float(measure(model, batch))
    return metrics


def compared(model: str, runs: Runs) -> Iterator[Row]:
    """Yield a row for each measure, learning rate and precision."""
    measures = next(iter(runs.values()))[0].final
    for measure in measures:
        for rate in dict.fromkeys(rate for _, rate in runs):
            fp32 = [trained.final[measure] for trained in runs[FP32, rate]]
            spread = max(fp32) - min(fp32)
            for precision in dict.fromkeys(precision for precision, _ in runs):
                trained = runs[precision, rate]
                values = [one.final[measure] for one in trained]
                different = mean(values) - mean(fp32)
                yield Row(
                    case=f"{model}, {measure}, rate {rate:g}, {precision}",
                    value=mean(values),
                    unit="nats" if measure.endswith("loss") else "share",
                    baseline=None if precision == FP32 else mean(fp32),
                    columns={
                        "least": min(values),
                        "most": max(values),
                        "spreads": None if precision == FP32 or not spread else different / spread,
                    },
                    details={
                        "model": model,
                        "measure": measure,
                        "rate": rate,
                        "precision": precision,
                        "seeds": values,
                        **_curves(measure, trained),
                    },
                )


def _curves(measure: str, trained: Sequence[Trained]) -> dict[str, object]:
    """Return the curves of all seeds if ``measure`` is the training loss, otherwise an empty mapping."""
    return {"curves": [one.curve for one in trained]} if measure == "training loss" else {}


def _reference(corpus: Corpus) -> str:
    """Return a text on the result of a trivial model: the largest class, or a bigram model if the data is a text."""
    x, y = corpus.train["x"], corpus.train["y"]
    if x.dtype != y.dtype:
        return f"the largest class is {np.bincount(corpus.holdout['y']).max() / len(corpus.holdout['y']):.4f}"
    return f"a bigram model has a loss of {bigram_loss(corpus):.4f}"


def bigram_loss(corpus: Corpus) -> float:
    """Return the mean held-out loss of a model that predicts a character from the frequencies of character pairs."""
    counts: Array = np.ones((corpus.classes, corpus.classes))
    np.add.at(counts, (corpus.train["x"], corpus.train["y"]), 1)
    shares = counts / counts.sum(1, keepdims=True)
    return float(-np.log(shares[corpus.holdout["x"], corpus.holdout["y"]]).mean())
