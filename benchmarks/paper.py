"""The machines that models of 1 and of 7 billion parameters need, by the cost model of plans.

Nothing is trained: a GPT is captured with tensors whose memory is never touched, since a program depends on shapes
alone. Each row has the fewest machines, each with so much memory, on which a plan of stages fits. The seconds of a step
are an estimate, at the speed and over the link that are named in the notes. ``parts`` is the number of parts in which a
batch then goes through the stages. ``check`` is the time to fetch both states over that link, as each check of a
segment does.
"""

from collections.abc import Mapping
from math import ceil

from benchmarks.figures import Figures, Row
from benchmarks.gpt import Shape, step_of
from pol.job.program import Program
from pol.split.costs import PlanCost, best_plan, cost_of
from pol.split.machine import Machine
from pol.split.plan import STATES, Plan

NAME = "paper"
GIBIBYTE = 2**30
SPEEDS = (10**10, 10**12)
"""FLOP/s: two cores of today, and an accelerator or a large server."""
BANDWIDTH = 125_000_000
"""Bytes per second: a network of 1 Gbit/s."""
MACHINES_MAX = 64
MODELS: Mapping[str, Shape] = {"1B": Shape(2_048, 18), "7B": Shape(4_096, 34)}
MEMORIES: Mapping[str, tuple[int, ...]] = {"1B": (8, 16, 32), "7B": (32, 64)}
"""The memories of machines (GiB) for which there is a row."""


def run(models: list[str] | None = None) -> Figures:
    """Plan a step of each model."""
    rows: list[Row] = []
    for name in models or MODELS:
        program = step_of(MODELS[name])
        rows += [row_of(name, program, memory) for memory in MEMORIES[name]]
    shape = next(iter(MODELS.values()))
    speeds = " and ".join(f"{speed / 1e9:,.0f} GFLOP/s" for speed in SPEEDS)
    notes = [
        f"{shape.rows} rows of {shape.length} tokens, {shape.words:,} words, AdamW, clipping; machines of {speeds}, "
        f"{8 * BANDWIDTH / 1e9:g} Gbit/s",
    ]
    return Figures(NAME, rows, notes)


def row_of(name: str, program: Program, memory: int) -> Row:
    """Return the row of a program on the fewest machines with so many GiB each."""
    count, cost = fewest(program, memory * GIBIBYTE)
    times: dict[str, float] = {}
    for speed in SPEEDS:
        plan = planned(program, count, memory * GIBIBYTE, speed)
        times[f"s at {speed / 1e9:,.0f} GFLOP/s"] = cost_of(plan).microseconds / 1e6
        times[f"parts at {speed / 1e9:,.0f}"] = float(plan.parts)
    states = sum(spec.type.size for spec in program.inputs if spec.name.startswith(STATES))
    columns: dict[str, float | None] = {
        "parameters, 1e9": parameters(program) / 1e9,
        "states GB": states / 1e9,
        "GB per machine": max(machine.memory for machine in cost.machines) / 1e9,
        "sent MB": cost.bytes / 1e6,
        "messages": float(cost.messages),
        "TFLOP": sum(machine.work for machine in cost.machines) / 1e12,
        **times,
        "check s": states / BANDWIDTH,
    }
    return Row(f"{name}, {memory} GiB", float(count), "machines", columns=columns)


def fewest(program: Program, memory: int) -> tuple[int, PlanCost]:
    """Return the fewest machines on which a plan of stages fits, and its cost. Raises ValueError if there is none."""
    least = max(1, ceil(sum(spec.type.size for spec in program.inputs) / memory))
    for count in range(least, MACHINES_MAX + 1):
        cost = cost_of(planned(program, count, memory, SPEEDS[0]))
        if max(machine.memory for machine in cost.machines) <= memory:
            return count, cost
    raise ValueError(f"no plan of up to {MACHINES_MAX} stages fits machines of {memory} bytes")


def planned(program: Program, count: int, memory: int, speed: int) -> Plan:
    """Return the best plan with a stage on each of ``count`` machines, of ``memory`` bytes and ``speed`` FLOP/s."""
    return best_plan(program, [Machine(speed=speed, memory=memory, bandwidth=BANDWIDTH)] * count, (count, 1))


def parameters(program: Program) -> int:
    """Return the number of trained parameters."""
    changed = program.changed_outputs()
    return sum(value.elements for name, value in changed.items() if name.startswith("global."))
