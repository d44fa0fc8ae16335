"""A job on several machines of one owner: the options that describe the machines, and the tables to print."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from assay.cli.arguments import FLOPS, SIZE
from assay.cli.output import amount, counted, flops, size, table
from pol.machines.form import MACHINES_MAX, read_shape

if TYPE_CHECKING:
    from rich.table import Table

    from pol.job.document import Job
    from pol.local.machines import EndSummary, PlanSummary

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--machines",
        type=click.IntRange(1, MACHINES_MAX),
        help="Plan a step and the end of a round on this number of machines of one owner.",
    ),
    click.option("--machine-speed", type=FLOPS, help="FLOP/s of each of these machines.  [that of a slot]"),
    click.option("--machine-memory", type=SIZE, help="Memory of each of these machines.  [16GiB]"),
    click.option("--machine-link", type=SIZE, help="Bytes per second of each machine's link.  [125MB: 1 Gbit/s]"),
)
TRAFFIC = {
    "weights": "state tensors that machines need besides their home",
    "stages": "values that cross between stages",
    "rows": "pieces and whole values within a stage",
    "maxima_then_partials": "products: largest magnitudes, then sums of integers",
    "tree_partials": "FP32 sums",
    "integer_partials": "sums of integers",
    "maxima": "largest elements",
    "first_of_largest": "positions of largest elements",
    "rows_from_owners": "rows of a divided table",
    "rows_to_owner": "rows to add to a table",
}
"""A description of each kind of traffic between machines."""
ENDS = {"close": "The update of a slot", "outer": "The next global state"}
"""A description of each program at the end of a round."""


class MachinesShape(click.ParamType[Any]):
    """A click type for machines that train together: their number, or stages x machines per stage, like 2x4."""

    name = "machines"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | tuple[int, int]:
        """Return a number of machines, or the numbers of stages and of machines per stage."""
        try:
            return read_shape(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def machine_options(command: F) -> F:
    """Add to a command the options that describe an owner's machines."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def plan_job(
    job: "Job", machines: int | None, machine_speed: int | None, machine_memory: int | None, machine_link: int | None
) -> tuple[dict[str, Any], list["Table"]]:
    """Return the plans for a job's step, and for the programs at the end of a round, as JSON values and as tables.

    Both are empty without ``machines``.
    """
    from pol.local.machines import MACHINE_MEMORY, ends_of, plans_of
    from pol.split.machine import LINK_SPEED, SLOT_SPEED, Machine

    if machines is None:
        return {}, []
    machine = Machine(
        speed=machine_speed or SLOT_SPEED,
        memory=machine_memory or MACHINE_MEMORY,
        bandwidth=machine_link or LINK_SPEED,
    )
    plans = plans_of(job, [machine] * machines)
    best = next(plan for plan in plans if plan.is_best)
    ends = ends_of(job, [machine] * sum(map(len, best.stages)))
    title = (
        f"A step on {counted(machines, 'machine')} of {flops(machine.speed)}/s, {size(machine.memory)} and "
        f"{size(machine.bandwidth)} per second"
    )
    value = {
        "machine": machine,
        "plans": [_plan_value(plan) for plan in plans],
        "ends": [{"program": end.program, **_values(end)} for end in ends],
    }
    tables = [_all(plans, title), _machines(best), _traffic(best)]
    return {"machines": value}, [*tables, *(_end(end) for end in ends)]


def _plan_value(plan: "PlanSummary") -> dict[str, Any]:
    values = _values(plan)
    for stage, group in enumerate(plan.stages):
        for machine in group:
            values["machines"][machine]["stage"] = stage
    used = [values["machines"][machine] for group in plan.stages for machine in group]
    return {
        "stages": plan.stages,
        "rows": len(plan.stages[0]),
        "parts": plan.parts,
        "is_best": plan.is_best,
        **values,
        "machines": used,
    }


def _values(plan: "PlanSummary | EndSummary") -> dict[str, Any]:
    return {
        "fits": plan.fits,
        "bytes": plan.cost.bytes,
        "messages": plan.cost.messages,
        "microseconds": plan.cost.microseconds,
        "traffic": plan.cost.traffic,
        "machines": [
            {
                "tensors": tensors,
                "work": own.work,
                "sent": own.sent,
                "received": own.received,
                "memory": own.memory,
                "waiting": own.waiting,
            }
            for tensors, own in zip(plan.tensors, plan.cost.machines, strict=True)
        ],
    }


def _all(plans: Sequence["PlanSummary"], title: str) -> "Table":
    columns = (
        "stages",
        "machines per stage",
        "parts of a batch",
        "sent per step",
        "messages",
        "memory, at most",
        "time",
        "",
    )
    rows = [
        (
            len(plan.stages),
            len(plan.stages[0]),
            plan.parts,
            size(plan.cost.bytes),
            plan.cost.messages,
            size(max(own.memory for own in plan.cost.machines)),
            f"{plan.cost.microseconds / 10**6:,.3f} s",
            "best" if plan.is_best else "" if plan.fits else "does not fit",
        )
        for plan in plans
    ]
    return table(title, columns, rows)


def _machines(plan: "PlanSummary") -> "Table":
    columns = ("machine", "stage", "changed tensors", "work", "sent", "received", "memory", "waits")
    rows = [
        (
            machine,
            stage,
            plan.tensors[machine],
            flops(plan.cost.machines[machine].work),
            size(plan.cost.machines[machine].sent),
            size(plan.cost.machines[machine].received),
            size(plan.cost.machines[machine].memory),
            f"{plan.cost.machines[machine].waiting / 10**6:,.3f} s",
        )
        for stage, group in enumerate(plan.stages)
        for machine in group
    ]
    return table("Machines of the best plan", columns, rows)


def _traffic(plan: "PlanSummary") -> "Table":
    rows = [(TRAFFIC[kind], amount(found.messages), size(found.bytes)) for kind, found in plan.cost.traffic.items()]
    return table("What they send per step", ("kind", "messages", "bytes"), rows)


def _end(end: "EndSummary") -> "Table":
    columns = ("machine", "tensors written", "work", "sent", "received", "memory")
    rows = [
        (machine, tensors, flops(own.work), size(own.sent), size(own.received), size(own.memory))
        for machine, (tensors, own) in enumerate(zip(end.tensors, end.cost.machines, strict=True))
    ]
    sent = f"{size(end.cost.bytes)} in {counted(end.cost.messages, 'message')}" if end.cost.messages else "no values"
    title = f"{ENDS[end.program]} (`{end.program}`): {sent} between machines"
    return table(title if end.fits else f"{title}; does not fit", columns, rows)
