"""A job on several machines of one owner: the plans that are possible, with their costs."""

from collections.abc import Sequence
from dataclasses import dataclass

from domain.readable import Readable
from pol.job.document import Job
from pol.split.costs import PlanCost, cost_of, rank
from pol.split.machine import Machine
from pol.split.plan import Plan, make_plan, shapes

MACHINE_MEMORY = 16 * 2**30
"""Default memory of a machine (bytes)."""


@dataclass(frozen=True, slots=True)
class PlanSummary(Readable):
    """A plan for one step of a job on several machines.

    - ``stages``: the machines of each stage, numbered from 0.
    - ``tensors``: for each machine, the number of changed state tensors whose home it is.
    - ``cost``: bytes, messages, and the work and memory of each machine.
    - ``fits``: whether each machine has enough memory.
    - ``is_best``: whether this plan would be taken.
    """

    stages: tuple[tuple[int, ...], ...]
    tensors: tuple[int, ...]
    cost: PlanCost
    fits: bool
    is_best: bool


def plans_of(job: Job, machines: Sequence[Machine]) -> list[PlanSummary]:
    """Return the plans for a job's step: as many stages as possible first, then more and more rows."""
    plans: dict[tuple[tuple[int, ...], ...], Plan] = {}
    for stages, rows in shapes(len(machines)):
        plan = make_plan(job.document.step, machines, stages, rows)
        plans.setdefault(plan.stages, plan)
    costs = {stages: cost_of(plan) for stages, plan in plans.items()}
    best = min(costs, key=lambda stages: rank(costs[stages], machines))
    return [_summary(plan, costs[stages], stages == best) for stages, plan in plans.items()]


def _summary(plan: Plan, cost: PlanCost, is_best: bool) -> PlanSummary:
    homes = list(plan.homes.values())
    return PlanSummary(
        stages=plan.stages,
        tensors=tuple(homes.count(machine) for machine in range(len(plan.machines))),
        cost=cost,
        fits=rank(cost, plan.machines)[0] == 0,
        is_best=is_best,
    )
