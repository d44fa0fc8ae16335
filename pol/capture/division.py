"""Default division of a job: its steps into rounds, and its rounds into segments.

Each round is paid separately, and a check recomputes whole segments. With one slot, the result has the same bits
whatever the division is. With several slots, each slot trains alone during a round, and the slots are averaged at its
end.
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
"""Ratio of the largest to the smallest number of rounds that the default considers."""
APART_STEPS_MAX = 500
"""Largest default number of steps between two averages of the slots, as in DiLoCo (arXiv 2311.08105)."""

OWN_SHARE = 20
"""Least ratio of a segment's work in steps to its overhead, so that the overhead is a few percent."""
JOB_SEGMENTS_LEAST = 40
"""Smallest default number of segments of the whole job. With fewer segments, those that are drawn for checks would be a
large part of the job.
"""
SHARE_SEGMENTS_ENOUGH = 256
"""Largest useful number of segments per slot and round. With more segments, the trace would be longer, but the checks
would not be better.
"""


@dataclass(frozen=True, slots=True)
class Rounds:
    """A number of rounds, each of the same number of inner steps."""

    count: int
    steps_each: int

    @property
    def steps(self) -> int:
        """Number of steps of the whole job."""
        return self.count * self.steps_each


def divide_rounds(spec: JobSpec, rows: int) -> Rounds:
    """Return the rounds of a job with ``rows`` rows of data; they have at least as many steps as the job asks for.

    If the author does not choose the length of a round, there are 4 to 20 rounds. There are more rounds only if slots
    would otherwise train apart for more than ``APART_STEPS_MAX`` steps. The job gets as few additional steps as
    possible. If the job gives epochs, up to 1 % more steps count as none. Among equal choices, the function takes the
    number of steps per round with the most divisors, because it allows the most lengths of segments.
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
    """Return the work (FLOPs) of a segment in addition to its steps.

    The state at the end of the segment, of ``boundary_size`` bytes, is hashed. A replay also needs the order of the
    segment's samples, which is computed for all rows of an epoch.
    """
    return boundary_size + whole_order_work(order, rows)


def divide_segments(spec: JobSpec, rounds: Rounds, step_work: int, own_work: int) -> int:
    """Return the number of steps per segment, a divisor of the steps per round; work is in FLOPs.

    If the author does not choose this number, segments are as short as their overhead (``own_work``) and
    ``SHARE_SEGMENTS_ENOUGH`` allow. They are shorter still if the job would otherwise have fewer than
    ``JOB_SEGMENTS_LEAST`` segments.
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
