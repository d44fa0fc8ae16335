"""The machines that models of 1 and of 7 billion parameters need, by the cost model of plans.

Nothing is trained: a GPT is captured with tensors whose memory is never touched, since a program depends on shapes
alone. Each row has the fewest machines, each with so much memory, on which a plan of stages fits. The seconds of a step
are an estimate: stages compute one after another, at the speed and over the link that are named in the notes. ``check``
is the time to fetch both states over that link, as each check of a segment does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from assay import AdamW, JobSpec
from benchmarks.figures import Figures, Row
from pol.capture.functions import JobFunctions, named
from pol.capture.graph.capture import capture_program
from pol.capture.model.plain_model import own_tensors
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.program import Program
from pol.limits import LIMITS
from pol.split.costs import PlanCost, cost_of
from pol.split.machine import Machine
from pol.split.plan import STATES, make_plan

NAME = "paper"
VOCABULARY, HEAD = 32_000, 128
BATCH, LENGTH = 4, 512
GIBIBYTE = 2**30
SPEEDS = (10**10, 10**12)
"""FLOP/s: two cores of today, and an accelerator or a large server."""
BANDWIDTH = 125_000_000
"""Bytes per second: a network of 1 Gbit/s."""
MACHINES_MAX = 64
_LIMITS = replace(LIMITS, live_size=2**62)


@dataclass(frozen=True)
class Shape:
    """The shape of a GPT, and the memories of machines (GiB) for which there is a row."""

    width: int
    layers: int
    memories: tuple[int, ...]


MODELS: Mapping[str, Shape] = {"1B": Shape(2_048, 18, (8, 16, 32)), "7B": Shape(4_096, 34, (32, 64))}


def run(models: list[str] | None = None) -> Figures:
    """Plan a step of each model."""
    rows: list[Row] = []
    for name in models or MODELS:
        program = step_of(MODELS[name])
        rows += [row_of(name, program, memory) for memory in MODELS[name].memories]
    speeds = " and ".join(f"{speed / 1e9:,.0f} GFLOP/s" for speed in SPEEDS)
    notes = [
        f"{BATCH} rows of {LENGTH} tokens, {VOCABULARY:,} words, AdamW, clipping; machines of {speeds}, "
        f"{8 * BANDWIDTH / 1e9:g} Gbit/s",
    ]
    return Figures(NAME, rows, notes)


def row_of(name: str, program: Program, memory: int) -> Row:
    """Return the row of a program on the fewest machines with so many GiB each."""
    count, cost = fewest(program, memory * GIBIBYTE)
    times = {speed: replanned(program, cost, speed) for speed in SPEEDS}
    states = sum(spec.type.size for spec in program.inputs if spec.name.startswith(STATES))
    columns: dict[str, float | None] = {
        "parameters, 1e9": parameters(program) / 1e9,
        "states GB": states / 1e9,
        "GB per machine": max(machine.memory for machine in cost.machines) / 1e9,
        "sent MB": cost.bytes / 1e6,
        "messages": float(cost.messages),
        "TFLOP": sum(machine.work for machine in cost.machines) / 1e12,
        **{f"s at {speed / 1e9:,.0f} GFLOP/s": seconds for speed, seconds in times.items()},
        "check s": states / BANDWIDTH,
    }
    return Row(f"{name}, {memory} GiB", float(count), "machines", columns=columns)


def fewest(program: Program, memory: int) -> tuple[int, PlanCost]:
    """Return the fewest machines on which a plan of stages fits, and its cost. Raises ValueError if there is none."""
    least = max(1, ceil(sum(spec.type.size for spec in program.inputs) / memory))
    for count in range(least, MACHINES_MAX + 1):
        machines = [Machine(speed=SPEEDS[0], memory=memory, bandwidth=BANDWIDTH)] * count
        cost = cost_of(make_plan(program, machines, count))
        if max(machine.memory for machine in cost.machines) <= memory:
            return count, cost
    raise ValueError(f"no plan of up to {MACHINES_MAX} stages fits machines of {memory} bytes")


def replanned(program: Program, cost: PlanCost, speed: int) -> float:
    """Return the seconds of a step at another speed of all machines. Sending takes as long as before."""
    working = sum(machine.work for machine in cost.machines)
    sending = cost.microseconds / 1e6 - sum(ceil(10**6 * machine.work / SPEEDS[0]) for machine in cost.machines) / 1e6
    return working / speed + sending


def parameters(program: Program) -> int:
    """Return the number of trained parameters."""
    changed = program.changed_outputs()
    return sum(value.elements for name, value in changed.items() if name.startswith("global."))


# --- the models ----------------------------------------------------------------------------------


class Block(nn.Module):
    """A block of a GPT: attention to the earlier tokens, then a network for each token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // HEAD
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        parts = self.project(self.norm1(x)).view(rows, length, 3 * self.heads, HEAD)
        query, key, value = parts.transpose(1, 2).chunk(3, dim=1)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(rows, length, width))
        thought: torch.Tensor = self.think(self.norm2(x))
        return x + thought


class GPT(nn.Module):
    """A GPT whose scores are products with the weights of its words."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, shape.width), nn.Embedding(LENGTH, shape.width)
        self.blocks = nn.Sequential(*(Block(shape.width) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.words(x) + self.places.weight
        return functional.linear(self.norm(self.blocks(x)), self.words.weight)


def _loss(model: nn.Module, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return functional.cross_entropy(model(batch["x"]).flatten(0, 1), batch["y"].flatten())


def step_of(shape: Shape) -> Program:
    """Return the program of a step of a GPT."""
    with torch.device("meta"):
        model = GPT(shape)
    rows = np.zeros((BATCH, LENGTH), np.int64)
    batch = {"x": torch.from_numpy(rows), "y": torch.from_numpy(rows)}
    weights = {name: parameter.detach() for name, parameter in sorted(model.named_parameters())}
    spec = JobSpec(
        name="gpt",
        model=model,
        loss=_loss,
        train={"x": rows, "y": rows},
        holdout={"x": rows, "y": rows},
        batch=BATCH,
        steps=10,
        optimizer=AdamW(weight_decay=0.1),
        schedule=3e-4,
        clip_norm=1.0,
    )
    functions = JobFunctions(spec, 10, BATCH)
    with torch.device("meta"):
        shapes = functions.initial_local(weights)
    local = {name: torch.empty(tensor.shape, dtype=tensor.dtype) for name, tensor in shapes.items()}
    model.to_empty(device="cpu")
    own: dict[str, Any] = own_tensors(model)
    state = {name: own[name].detach() for name in weights}
    inputs = {
        **named("global", state),
        **named("local", local),
        **named("batch", batch),
        STEP: torch.tensor(0),
        BATCH_NUMBER: torch.tensor(0),
    }
    return capture_program(functions.step, inputs, limits=_LIMITS, precisions=spec.precisions, own=own)
