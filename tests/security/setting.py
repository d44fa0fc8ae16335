"""The setting of the matrix: one real job, its honest run, and what a provider claims about a run of it.

The job is a classifier of handwritten digits with batch normalisation and SGD with momentum. An epoch has 40 steps, a
segment 5, and a round 5 epochs. A claim has all that any checker of the matrix reads: an exact checker takes the hashes
and the opened states; Proof-of-Learning also takes the provider's data, order of the data, and hyper-parameters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from assay import SGD, JobSpec, cross_entropy
from domain.market.records import JobTerms
from pol.capture.build import build
from pol.errors import StateError
from pol.executor.backend import backend
from pol.executor.interface import Backend
from pol.executor.names import NATIVE, NUMPY, Engine
from pol.job.dataset import sample_rows
from pol.job.document import order_terms
from pol.job.load import LoadedJob, load_job
from pol.state.arrays import Array, State
from pol.work.records import RoundSlot
from pol.work.segments import run_segment, slot_state
from pol.work.train import aggregate, share_update
from tests.security import plain
from tests.security.plain import MOMENTUM, RATE, Hyper

ROWS, BATCH = 1280, 32
EPOCH = ROWS // BATCH
SEGMENT, ROUND = 5, 5 * EPOCH
SEED = 7
PROVIDER, OTHER = "cosmos1honest", "cosmos1other"
HONEST = Hyper()


@dataclass(frozen=True)
class Checkpoint:
    """The states at a boundary, the optimizer's hyper-parameters, and the mean loss since the boundary before (bits).

    ``file`` replaces the bytes of the checkpoint, if the provider sends other bytes than those of the states. If
    ``is_withheld``, the provider never sends it.
    """

    weights: State
    velocity: State
    metrics: tuple[int, ...] = ()
    hyper: Hyper = HONEST
    file: bytes | None = None
    is_withheld: bool = False


@dataclass(frozen=True)
class ClaimedRound:
    """A round as a provider claims it: its boundaries, its update and last local state, and the next global state."""

    checkpoints: tuple[Checkpoint, ...]
    update: State
    local_out: State
    after: State


@dataclass(frozen=True)
class Logs:
    """The report of a provider: the loss of each round's model, and samples of utilisation and memory (0 to 1)."""

    losses: tuple[float, ...]
    utilisation: tuple[float, ...]
    memory: tuple[float, ...]


@dataclass(frozen=True)
class Claim:
    """A run as a provider claims it.

    ``rows`` are the rows of the data in the order in which they were trained on, of shape (steps, batch). ``images``
    and ``labels`` are the data that the provider names. ``opened`` are the rounds that it shows to a checker, if it
    committed to others. ``committed_by`` is the provider whose commitment it sends.
    """

    rounds: tuple[ClaimedRound, ...]
    delivered: State
    rows: Array
    images: Array
    labels: Array
    logs: Logs
    opened: tuple[ClaimedRound, ...] | None = None
    committed_by: str = PROVIDER

    @property
    def shown(self) -> tuple[ClaimedRound, ...]:
        """The rounds that a checker sees when it asks for states."""
        return self.rounds if self.opened is None else self.opened

    @property
    def chain(self) -> tuple[Checkpoint, ...]:
        """All checkpoints in one chain, as Proof-of-Learning has them: a round begins where the last one ends."""
        first, *_ = self.shown
        return (first.checkpoints[0], *(each for round in self.shown for each in round.checkpoints[1:]))


@dataclass(frozen=True)
class Setting:
    """A job with its honest run. ``scale`` is the distance between two models trained from different seeds.

    ``executor`` computes the ends of rounds, and segments too, unless there is a ``trainer``. ``elsewhere`` is what
    trains segments on another honest machine.
    """

    directory: Path
    loaded: LoadedJob
    executor: Backend
    images: Array
    labels: Array
    holdout: tuple[Array, Array]
    rounds: int
    scale: float = 0.0
    trainer: Backend | None = None
    elsewhere: Backend = field(default_factory=lambda: backend(Engine(NUMPY)))
    _honest: list[Claim] = field(default_factory=list)

    @property
    def files(self) -> Path:
        """A folder for states that providers show, each in a file with the name of its root."""
        folder = self.directory.parent / "states"
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def segments(self) -> int:
        """The number of segments of a round."""
        return ROUND // SEGMENT

    @property
    def terms(self) -> JobTerms:
        """The terms of an order of the job."""
        return order_terms(self.loaded.job)

    @cached_property
    def rows(self) -> Array:
        """The rows of each batch of the job, of shape (steps, batch)."""
        steps = self.rounds * ROUND
        return sample_rows(SEED, ROWS, 0, steps * BATCH).reshape(steps, BATCH)

    @property
    def honest(self) -> Claim:
        """The claim of an honest provider."""
        if not self._honest:
            self._honest.append(self.claim(train(self)))
        return self._honest[0]

    @property
    def stolen(self) -> State:
        """A trained model that a cheating provider already has: that of the honest run."""
        return self.honest.delivered

    def batch(self, number: int) -> tuple[Array, Array]:
        """Return the images and the labels of a step's batch."""
        rows = self.rows[number]
        return self.images[rows], self.labels[rows]

    def claim(self, rounds: Sequence[ClaimedRound]) -> Claim:
        """Return a claim of some rounds, with the job's data and logs that look honest."""
        # A cheat reports the true loss of the model that it sends, and telemetry that looks like work.
        losses = tuple(plain.evaluate(each.after, self.images, self.labels) for each in rounds)
        busy = tuple(0.9 if sample % 7 else 0.5 for sample in range(100))
        memory = tuple(min(0.8, sample / 10) for sample in range(100))
        return Claim(
            rounds=tuple(rounds),
            delivered=rounds[-1].after,
            rows=self.rows,
            images=self.images,
            labels=self.labels,
            logs=Logs(losses, busy, memory),
        )


def make_setting(folder: Path, rounds: int, *, bias: bool = True) -> Setting:
    """Build the job with so many rounds in ``folder``, and return it. The first layer has a ``bias``, or not."""
    digits = load_digits()
    order = np.random.default_rng(7).permutation(len(digits.target))
    x, y = digits.data[order].astype(np.float32) / 16, digits.target[order].astype(np.int64)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 32, bias=bias), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
    spec = JobSpec(
        name="matrix",
        model=model,
        loss=cross_entropy(),
        train={"x": x[:ROWS], "y": y[:ROWS]},
        holdout={"x": x[ROWS:], "y": y[ROWS:]},
        optimizer=SGD(momentum=MOMENTUM),
        schedule=lambda _step: RATE,
        steps=rounds * ROUND,
        batch=BATCH,
        slots=1,
        round_steps=ROUND,
        segment_steps=SEGMENT,
        seed=SEED,
    )
    build(spec, folder / "job", check=False)
    loaded = load_job(folder / "job")
    executor = backend(Engine(NATIVE))
    setting = Setting(folder / "job", loaded, executor, x[:ROWS], y[:ROWS], (x[ROWS:], y[ROWS:]), rounds)
    trained = [by_hand(setting, np.random.default_rng(seed).permutation, initial(setting, seed)) for seed in (1, 2)]
    one, other = (rounds_[-1].after for rounds_ in trained)
    return replace(setting, scale=plain.distance(one, other))


def initial(setting: Setting, seed: int) -> dict[str, Array]:
    """Return initial weights from another seed: the weights of each layer of the job in another order."""
    random = np.random.default_rng(seed)
    start = dict(setting.loaded.global_state)
    for name in plain.parameters(start):
        start[name] = random.permutation(np.asarray(start[name]).reshape(-1)).reshape(start[name].shape)
    return start


Bend = Callable[[int, int, Checkpoint], Checkpoint]
"""A change of the checkpoint after a segment; it gets the round and the boundary's number."""


def train(
    setting: Setting,
    bend: Bend | None = None,
    skip: Callable[[int, int], bool] = lambda _round, _segment: False,
    executor: Backend | None = None,
) -> list[ClaimedRound]:
    """Train the job with the product's own trainer, and return its rounds.

    Segments for which ``skip(round, segment)`` is true are not computed: their states stay as they are. ``bend``
    changes checkpoints, and the training goes on from the changed states.
    """
    loaded, runner = setting.loaded, executor or setting.trainer or setting.executor
    state, local = loaded.global_state, loaded.local_state
    rounds: list[ClaimedRound] = []
    for round in range(setting.rounds):
        opening = state
        at = slot_state(loaded, state, local)
        checkpoints = [Checkpoint(at.global_state, at.local_state)]
        for segment in range(setting.segments):
            if skip(round, segment):
                made = replace(checkpoints[-1], metrics=checkpoints[-1].metrics or (0x40000000,))
            else:
                at, boundary = run_segment(loaded, RoundSlot(round, 0), segment, at, runner)
                made = Checkpoint(at.global_state, at.local_state, boundary.metrics)
            if bend is not None:
                bent = bend(round, segment + 1, made)
                if bent is not made:
                    at = slot_state(loaded, bent.weights, bent.velocity)
                made = bent
            checkpoints.append(made)
        rounds.append(end_round(setting, opening, checkpoints))
        state, local = rounds[-1].after, rounds[-1].local_out
    return rounds


def end_round(setting: Setting, opening: State, checkpoints: Sequence[Checkpoint]) -> ClaimedRound:
    """Return a round whose update and aggregation follow from its last checkpoint, if that is a state at all."""
    last = checkpoints[-1]
    try:
        end = slot_state(setting.loaded, last.weights, last.velocity)
        result = share_update(setting.loaded, opening, end, setting.executor)
        after = aggregate(setting.loaded, opening, [result.update], setting.executor).state
    except StateError:
        return ClaimedRound(tuple(checkpoints), last.weights, last.velocity, last.weights)
    return ClaimedRound(tuple(checkpoints), result.update, result.local_out, after)


def from_chain(setting: Setting, chain: Sequence[Checkpoint]) -> list[ClaimedRound]:
    """Return rounds with made-up checkpoints: one per boundary, beginning with boundary 0 of round 0."""
    size = setting.segments
    rounds: list[ClaimedRound] = []
    for round in range(setting.rounds):
        own = [replace(each, metrics=each.metrics or (0x40000000,)) for each in chain[round * size :][: size + 1]]
        first = own[0] if not rounds else Checkpoint(rounds[-1].after, rounds[-1].local_out)
        rounds.append(end_round(setting, first.weights, [replace(first, metrics=()), *own[1:]]))
    return rounds


def by_hand(
    setting: Setting,
    order: Callable[[int], Array] | None = None,
    start: State | None = None,
    hyper: Hyper = HONEST,
    product: plain.Product = np.matmul,
    frozen: tuple[str, ...] = (),
    batch: Callable[[int], tuple[Array, Array]] | None = None,
) -> list[ClaimedRound]:
    """Train with other code than the product's, in ordinary FP32, and return the rounds.

    ``order(rows)`` returns a new order of the rows for each epoch; ``batch(step)`` returns a step's data instead.
    """
    weights, velocity = dict(start or setting.loaded.global_state), dict(setting.loaded.local_state)
    chain = [Checkpoint(weights, velocity, hyper=hyper)]
    rows = None if order is None else np.concatenate([order(ROWS) for _ in range(setting.rounds * ROUND // EPOCH)])
    for number in range(setting.rounds * ROUND):
        if batch is not None:
            x, y = batch(number)
        elif rows is not None:
            at = rows[number * BATCH : (number + 1) * BATCH]
            x, y = setting.images[at], setting.labels[at]
        else:
            x, y = setting.batch(number)
        weights, velocity, loss = plain.step(weights, velocity, x, y, hyper, product, frozen)
        if (number + 1) % SEGMENT == 0:
            bits = int(np.float32(loss).view(np.uint32))
            chain.append(Checkpoint(weights, velocity, (bits,), hyper))
    return from_chain(setting, chain)
