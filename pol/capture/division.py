"""How a job is divided where its author leaves that open: steps into rounds, and rounds into segments.

Rounds are what is paid, segments what is recomputed by whoever checks. Neither changes a bit of the result where there
is one slot; with more, a round is how long the slots train apart.
"""

from dataclasses import dataclass
from math import isqrt

from domain.amount import ceil_div
from domain.limits import ROUNDS_MAX, SHARE_SEGMENTS_MAX
from pol.capture.author.spec import JobSpec
from pol.job.cost import whole_order_work
from pol.job.sampling import SHUFFLED

ROUNDS_LEAST = 4
ROUNDS_SPREAD = 5
"""From the least sensible number of rounds to the most."""
APART_STEPS_MAX = 500
"""Steps that slots train apart, as in DiLoCo (arXiv 2311.08105)."""

OWN_SHARE = 20
"""A segment's steps have so many times the work that it takes beside them, which so costs a few percent."""
JOB_SEGMENTS_LEAST = 40
"""Segments of all slots in all rounds, so that those that are drawn are a small part of them."""
SHARE_SEGMENTS_ENOUGH = 256
"""Segments of one slot in one round: more make the trace long and the checks no better."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """So many rounds of so many inner steps each."""

    count: int
    steps_each: int

    @property
    def steps(self) -> int:
        """Steps of the whole job."""
        return self.count * self.steps_each


def divide_rounds(spec: JobSpec, rows: int) -> Rounds:
    """Return the rounds of a job with so many rows of data: no fewer steps than it asks for.

    Where the author does not say how long a round is, there are 4 to 20 of them, more only where slots would train
    apart for more than ``APART_STEPS_MAX`` steps; of these, the number that rounds up least (epochs may be a hundredth
    more), and then the one whose steps have the most divisors, for a choice of segments.
    """
    steps = spec.steps_for(rows)
    if spec.round_steps is not None:
        return Rounds(ceil_div(steps, spec.round_steps), spec.round_steps)
    unit = spec.segment_steps or 1
    units = ceil_div(steps, unit)
    least = ROUNDS_LEAST
    if spec.slots > 1:
        least = max(least, ceil_div(units * unit, APART_STEPS_MAX))
    least = min(least, units, ROUNDS_MAX // ROUNDS_SPREAD)

    enough = units if spec.epochs is None else units + units // 100

    def order(count: int) -> tuple[int, int, int]:
        each = ceil_div(units, count)
        return max(enough, count * each), -len(_divisors(each)), count

    count = min(range(least, min(least * ROUNDS_SPREAD, units) + 1), key=order)
    return Rounds(count, ceil_div(units, count) * unit)


def segment_own_work(boundary_size: int, rows: int, order: str = SHUFFLED) -> int:
    """Return the FLOPs that a segment takes beside its steps: it ends with a state, which is hashed.

    A replay of it also needs the order of its samples, such as that of an epoch, of all rows of the data.
    """
    return boundary_size + whole_order_work(order, rows)


def divide_segments(spec: JobSpec, rounds: Rounds, step_work: int, own_work: int) -> int:
    """Return the steps of a segment, a divisor of a round's; works are in FLOPs.

    Where the author does not say it, segments are as short as their own work allows and no more than are useful, yet
    short enough that the job has ``JOB_SEGMENTS_LEAST`` of them, if it has so many steps.
    """
    if spec.segment_steps is not None:
        return spec.segment_steps
    each = rounds.steps_each
    fitting = [steps for steps in _divisors(each) if each // steps <= SHARE_SEGMENTS_MAX]
    cheap = [
        steps
        for steps in fitting
        if steps * step_work >= OWN_SHARE * own_work and each // steps <= SHARE_SEGMENTS_ENOUGH
    ]
    short = [steps for steps in fitting if rounds.count * spec.slots * (each // steps) >= JOB_SEGMENTS_LEAST]
    return min(min(cheap, default=each), max(short, default=fitting[0]))


def _divisors(number: int) -> list[int]:
    """Return the divisors of a number, ascending."""
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
