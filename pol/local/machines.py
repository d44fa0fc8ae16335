"""A job on several machines of one owner: the plans that are possible, with their costs."""

from collections.abc import Sequence
from dataclasses import dataclass

from domain.readable import Readable
from pol.job.document import Job
from pol.machines.ends import End, end_of
from pol.machines.form import CLOSE, OUTER
from pol.split.costs import LIBRARIES_SIZE, MachineCost, PlanCost, best_plan, cost_of, rank
from pol.split.machine import Machine
from pol.split.plan import Plan, shapes

MACHINE_MEMORY = 16 * 2**30
"""Default memory of a machine (bytes)."""


@dataclass(frozen=True, slots=True)
class PlanSummary(Readable):
    """A plan for one step of a job on several machines.

    - ``stages``: the machines of each stage, numbered from 0.
    - ``parts``: the number of parts in which a batch goes through the stages.
    - ``tensors``: for each machine, the number of changed state tensors whose home it is.
    - ``cost``: bytes, messages, and the work and memory of each machine.
    - ``fits``: whether each machine has enough memory.
    - ``is_best``: whether this plan would be taken.
    """

    stages: tuple[tuple[int, ...], ...]
    parts: int
    tensors: tuple[int, ...]
    cost: PlanCost
    fits: bool
    is_best: bool


@dataclass(frozen=True, slots=True)
class EndSummary(Readable):
    """The plan of a program at the end of a round, on several machines.

    - ``program``: ``close``, which makes the update and the local state of a slot, or ``outer``, which makes the next
      global state.
    - ``tensors``: for each machine, the number of tensors of the results that it writes.
    - ``cost``: bytes, messages, and the work and memory of each machine.
    - ``fits``: whether each machine has enough memory.
    """

    program: str
    tensors: tuple[int, ...]
    cost: PlanCost
    fits: bool


def plans_of(job: Job, machines: Sequence[Machine]) -> list[PlanSummary]:
    """Return the plans for a job's step: as many stages as possible first, then more and more rows."""
    plans: dict[tuple[tuple[int, ...], ...], Plan] = {}
    for stages, rows in shapes(len(machines)):
        plan = best_plan(job.document.step, machines, (stages, rows))
        plans.setdefault(plan.stages, plan)
    costs = {stages: cost_of(plan) for stages, plan in plans.items()}
    best = min(costs, key=lambda stages: rank(costs[stages], machines))
    return [_summary(plan, costs[stages], stages == best) for stages, plan in plans.items()]


def _summary(plan: Plan, cost: PlanCost, is_best: bool) -> PlanSummary:
    homes = list(plan.homes.values())
    return PlanSummary(
        stages=plan.stages,
        parts=plan.parts,
        tensors=tuple(homes.count(machine) for machine in range(len(plan.machines))),
        cost=cost,
        fits=rank(cost, plan.machines)[0] == 0,
        is_best=is_best,
    )


def ends_of(job: Job, machines: Sequence[Machine]) -> list[EndSummary]:
    """Return the plans for the programs at the end of a round, on machines of equal kind."""
    return [_end_summary(job, program, machines) for program in (CLOSE, OUTER)]


def _end_summary(job: Job, program: str, machines: Sequence[Machine]) -> EndSummary:
    end = end_of(job.document, program, len(machines), machines[0])
    cost = _alone(job, end, len(machines)) if end.plan is None else cost_of(end.plan)
    keepers = [keeper for file in end.form.writes for keeper in file.keepers]
    return EndSummary(
        program=program,
        tensors=tuple(keepers.count(machine) for machine in range(len(machines))),
        cost=cost,
        fits=rank(cost, machines)[0] == 0,
    )


def _alone(job: Job, end: End, machines: int) -> PlanCost:
    """Return the cost if each tensor of an update comes from the same tensor of the two states.

    A machine holds one tensor at a time: as it was, as it is, and what the update has.
    """
    largest, elements = [0] * machines, [0] * machines
    for spec, keeper in zip(job.update_tensors, end.form.writes[0].keepers, strict=True):
        largest[keeper] = max(largest[keeper], spec.type.size)
        elements[keeper] += spec.type.elements
    costs = tuple(
        MachineCost(work=work, sent=0, received=0, memory=LIBRARIES_SIZE + 3 * size, waiting=0)
        for work, size in zip(elements, largest, strict=True)
    )
    return PlanCost(costs, {}, 0)
