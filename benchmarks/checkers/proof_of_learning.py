"""Proof-of-Learning, as a baseline: written from the descriptions, with the holes that they report.

Source of the method: Jia et al., "Proof-of-Learning: Definitions and Practice" (S&P 2021, arXiv 2103.05633). A prover
keeps checkpoints of the weights and of the optimizer every k steps, the order of its batches, and a hash of its data. A
verifier tests the initial weights (Kolmogorov-Smirnov, p >= 0.01). In each epoch, it trains the Q intervals that moved
the weights most again, from the checkpoint before each. It accepts an interval unless the distance to the next
checkpoint is above delta.

Source of the numbers: Fang et al., "Proof-of-Learning is Currently More Broken Than You Think" (EuroS&P 2023, arXiv
2208.03567). Its released code normalises delta: 0.008 times the distance between two models that were trained from
different seeds, in l2, with k = 10 and Q = 5 of the 39 intervals of an epoch. Here k = 5 and Q = 1 of 8, which is about
the same part of an epoch (12.5 %). ``uniform`` draws the Q intervals of each epoch by a lot after the commitment, as
Fang et al. advise. Everything else is the same.

These properties of the released code are kept on purpose, since the table is to show them:

- The optimizer's state and its hyper-parameters come from the checkpoint, and the order of the batches from the proof.
- The data are the prover's, if the hash of ``str(images)`` is right.
- Parameters are compared, but buffers are not. The comparison rejects if ``distance > delta``.
- Checkpoints are loaded by pickle.
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise

import numpy as np

from benchmarks.checkers.checker import Draw, Verdict
from pol.rules.lots import draw
from pol.state.arrays import Array, State
from tests.security import plain
from tests.security.setting import EPOCH, SEGMENT, Checkpoint, Claim, Setting

DELTA = 0.008
"""Accepted distance, as a part of the distance between two models from different seeds."""
PICKED = 1
"""Intervals that are checked in each epoch (Q)."""
INTERVALS = EPOCH // SEGMENT
LEAST_P = 0.01


def top(moves: Sequence[float], _lot: bytes) -> tuple[int, ...]:
    """Return the intervals that moved the weights most. A NaN counts as the largest move, as in NumPy's order."""
    return tuple(int(at) for at in np.argsort(np.array(moves))[::-1][:PICKED])


def uniform(moves: Sequence[float], lot: bytes) -> tuple[int, ...]:
    """Return intervals that a lot draws."""
    return draw(lot, len(moves), PICKED)


def everything(moves: Sequence[float], _lot: bytes) -> tuple[int, ...]:
    """Return all intervals."""
    return tuple(range(len(moves)))


PICKS = {"top-Q": top, "uniform": uniform, "all": everything}


@dataclass(frozen=True)
class ProofOfLearning:
    """A verifier of Proof-of-Learning. ``pick`` is how it chooses intervals: ``top-Q``, ``uniform`` or ``all``."""

    pick: str

    @property
    def name(self) -> str:
        """The name of the column."""
        return f"PoL {self.pick}"

    def examine(self, setting: Setting, claim: Claim) -> Draw:
        """Return a function that judges a claim, given a lot."""
        if any(each.is_withheld for each in claim.chain):
            return lambda _lot: Verdict("a checkpoint is missing", 0)
        chain = [_loaded(each) for each in claim.chain]
        if hash_of(claim.images) != hash_of(setting.images):
            return lambda _lot: Verdict("other data", 0)
        if not all(_passes_test(setting, chain[0].weights, name) for name in ("0.weight", "3.weight")):
            return lambda _lot: Verdict("the initial weights do not follow their law", 0)
        count = len(chain) - 1
        # Each number is at most one epoch's part, also if the claim has more intervals than the job.
        epochs = [range(start, min(count, start + INTERVALS)) for start in range(0, count, INTERVALS)]
        moves = [plain.distance(one.weights, other.weights) for one, other in pairwise(chain)]
        errors: dict[int, float] = {}
        delta = DELTA * setting.scale

        def judge(lot: bytes) -> Verdict:
            steps = 0
            for number, epoch in enumerate(epochs):
                own = sha256(lot + number.to_bytes(4, "big")).digest()
                for at in PICKS[self.pick]([moves[each] for each in epoch], own):
                    interval = epoch[at]
                    steps += SEGMENT
                    if interval not in errors:
                        errors[interval] = replay_error(claim, chain, interval)
                    # NaN > delta is False: this is the comparison of the released code.
                    if errors[interval] > delta:
                        return Verdict(f"interval {interval} is {errors[interval]:.2g} off", steps)
            return Verdict("", steps)

        return judge


def replay_error(claim: Claim, chain: Sequence[Checkpoint], interval: int) -> float:
    """Return the distance between a checkpoint and the result of training from the one before."""
    start, end = chain[interval], chain[interval + 1]
    weights: State = start.weights
    velocity: State = start.velocity
    for number in range(interval * SEGMENT, (interval + 1) * SEGMENT):
        rows = claim.rows[number % len(claim.rows)]
        weights, velocity, _ = plain.step(weights, velocity, claim.images[rows], claim.labels[rows], start.hyper)
    return plain.distance(weights, end.weights)


def hash_of(images: Array) -> str:
    """Return the hash of a data set: of its printed form, which NumPy abbreviates, and without its labels."""
    return sha256(str(images).encode()).hexdigest()


def _loaded(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint. If it came as a file, the file is loaded as ``torch.load(weights_only=False)`` does."""
    if checkpoint.file is None:
        return checkpoint
    loaded: Checkpoint = pickle.loads(checkpoint.file)
    return loaded


def _passes_test(setting: Setting, weights: State, name: str) -> bool:
    """Return whether weights follow the law that the job declares for them: uniform in plus and minus n^(-1/2)."""
    values = np.asarray(weights[name], np.float64).reshape(-1)
    bound = np.shape(setting.loaded.global_state[name])[1] ** -0.5
    return p_value(np.clip((values + bound) / (2 * bound), 0, 1)) >= LEAST_P


def p_value(uniforms: Array) -> float:
    """Return the p-value of the Kolmogorov-Smirnov test that numbers are uniform in 0..1 (its limit for many)."""
    ordered = np.sort(uniforms)
    count = len(ordered)
    above = np.arange(1, count + 1) / count - ordered
    below = ordered - np.arange(count) / count
    size = count**0.5 * float(max(above.max(), below.max()))
    terms = [(-1) ** (k - 1) * np.exp(-2 * (k * size) ** 2) for k in range(1, 101)]
    return float(np.clip(2 * sum(terms), 0, 1)) if size > 0.2 else 1.0
