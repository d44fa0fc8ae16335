"""Alarms: cheap tests of what a provider reports and of the models that it sends, as a baseline.

An alarm proves nothing. It may raise the number of segments that a validator replays of its own choice, and it is never
part of the protocol.

- Log rules and PEV are those of "Ensuring Verifiable and Secure Outsourced Training of Deep Neural Networks" (Lab
  Apex): the number of logged values; at least 40 % of the samples of utilisation above their own mean; memory that
  rises and then stays; and the reported loss within ``sigma * 100 / N`` of the loss on a sample of N percent. All of
  them compare a report of the provider with itself or with a model of the provider, so a false report passes. PEV's
  limit grows as the sample shrinks: at N = 10 it is ten standard deviations.
- Own-against-random loss is that of Gauntlet (arXiv 2505.21684): a round should improve the loss on assigned data more
  than on other data. Gauntlet's overlap (the same largest numbers in two updates) compares workers. It says nothing
  about two rounds of one worker: honest rounds move the same weights. So only equal updates ring.
- Norms: a round should not move the model several times as far as the others, nor almost not at all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.checkers.checker import Draw, Verdict
from pol.state.arrays import State
from tests.security import plain
from tests.security.setting import BATCH, Claim, Logs, Setting

LEAST_BUSY = 0.4
SAMPLE = 10
"""Percent of the data on which PEV evaluates a model."""
TIMES, LEAST = 8.0, 0.02
"""Limits of the move of a round: the median of all rounds times ``TIMES``, and ``LEAST`` times the scale of the job, by
rounds. An honest run passes them; they have no other reason.
"""


def log_faults(logs: Logs, rounds: int) -> Iterator[str]:
    """Yield the log rules that a report breaks."""
    if len(logs.losses) != rounds:
        yield "number of logs"
    mean = sum(logs.utilisation) / len(logs.utilisation)
    if sum(sample > mean for sample in logs.utilisation) < LEAST_BUSY * len(logs.utilisation):
        yield "utilisation"
    half = len(logs.memory) // 2
    if logs.memory[half] < logs.memory[0] or np.ptp(logs.memory[half:]) > 0.05:
        yield "memory"


def is_outside_pev(reported: float, losses: Sequence[float]) -> bool:
    """Return whether a reported loss is further than ``sigma * 100 / N`` from the mean of sampled losses."""
    limit = float(np.std(losses)) * 100 / SAMPLE
    return not abs(reported - float(np.mean(losses))) < limit


def is_repeated(one: State, other: State) -> bool:
    """Return whether two updates have the same numbers."""
    return all(np.array_equal(one[name], other[name]) for name in plain.PARAMETERS)


def gains(before: State, after: State, setting: Setting) -> tuple[float, float]:
    """Return the gain of loss on assigned data, and on data that no provider has."""
    own = setting.images[: len(setting.holdout[0])], setting.labels[: len(setting.holdout[0])]
    first, second = (plain.evaluate(before, *data) - plain.evaluate(after, *data) for data in (own, setting.holdout))
    return first, second


@dataclass(frozen=True)
class Alarms:
    """All alarms together; one that rings counts as found."""

    name: str = "alarms"

    def examine(self, setting: Setting, claim: Claim) -> Draw:
        """Return a function that judges a claim; the lot does not matter."""
        with np.errstate(all="ignore"):
            fault = next(self._rung(setting, claim), "")
        # Forward passes only, a third of a step each: the sample, and two models on own and other data.
        rows = len(setting.images) * SAMPLE // 100 + 4 * len(setting.holdout[0])
        steps = setting.rounds * rows // (3 * BATCH)
        return lambda _lot: Verdict(fault, steps)

    def _rung(self, setting: Setting, claim: Claim) -> Iterator[str]:
        yield from log_faults(claim.logs, setting.rounds)
        opening: State = setting.loaded.global_state
        better, norms = 0, []
        for number, round in enumerate(claim.shown):
            if not all(np.isfinite(np.asarray(value)).all() for value in round.after.values()):
                yield f"round {number}: not finite"
                return
            part = np.random.default_rng(number).choice(len(setting.images), len(setting.images) * SAMPLE // 100)
            losses = [plain.evaluate(round.after, setting.images[[at]], setting.labels[[at]]) for at in part]
            if is_outside_pev(claim.logs.losses[number], losses):
                yield f"round {number}: PEV"
            if number and is_repeated(round.update, claim.shown[number - 1].update):
                yield f"round {number}: repeated"
            own, other = gains(opening, round.after, setting)
            better += 1 if own > other else -1
            norms.append(plain.distance(round.after, opening))
            opening = round.after
        if better < 0:
            yield "own against random loss"
        usual = median(norms)
        for number, norm in enumerate(norms):
            if norm > TIMES * usual or norm < LEAST * setting.scale / setting.rounds:
                yield f"round {number}: norm {norm:.2g}"
