"""Small jobs of one tensor that load and agree with their order, and what some of them do when they are run."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from pol.job.document import BATCH_NUMBER, Job
from pol.job.program import Program, ProgramBuilder
from pol.job.updates import DIFFERENCE
from pol.job.write import JobSource, write_job
from pol.state.arrays import Array

SIZE = 256
"""Rows and columns of the tensor."""
SLOTS = 2

Change = Callable[[ProgramBuilder, int], int]
"""Adds nodes to a program: from the tensor's value to its next one."""


def const(b: ProgramBuilder, value: float) -> int:
    return b.constant("f32", (), np.array(value, "<f4").tobytes())


def halved(b: ProgramBuilder, value: int) -> int:
    return b.node("mul", value, const(b, 0.5))


def infinite(b: ProgramBuilder, value: int) -> int:
    return b.node("div", const(b, 1.0), b.node("sub", value, value))


def infinite_in_slot_one(b: ProgramBuilder, value: int) -> int:
    """From batch number 1 on, with which slot 1 begins."""
    number = b.node("cast", b.input(BATCH_NUMBER, "i64", ()), dtype="f32")
    left = b.node("maximum", b.node("sub", const(b, 1.0), number), const(b, 0.0))
    return b.node("div", value, left)


def none_at(number: int) -> Change:
    """Lead to no number in the step that takes the batch of this number, and in no other."""

    def change(b: ProgramBuilder, value: int) -> int:
        left = b.node(
            "sub",
            const(b, float(number)),
            b.node("cast", b.input(BATCH_NUMBER, "i64", ()), dtype="f32"),
        )
        return b.node("add", halved(b, value), b.node("div", b.node("sub", value, value), left))

    return change


def none_from(number: int) -> Change:
    """Lead to no number from the batch of this number on, in whichever slot."""

    def change(b: ProgramBuilder, value: int) -> int:
        taken = b.node("cast", b.input(BATCH_NUMBER, "i64", ()), dtype="f32")
        left = b.node("maximum", b.node("sub", const(b, float(number)), taken), const(b, 0.0))
        return b.node("add", halved(b, value), b.node("div", b.node("sub", value, value), left))

    return change


def beyond_the_table(b: ProgramBuilder, value: int) -> int:
    """Take a row that is not there."""
    index = b.constant("i64", (1,), np.array([SIZE + 7], "<i8").tobytes())
    return b.node("add", value, b.node("take", value, index))


def products(count: int) -> Change:
    """Honest work, and much of it."""

    def change(b: ProgramBuilder, value: int) -> int:
        for _ in range(count):
            value = b.node("mul", b.node("matmul", value, value, bits=15), const(b, 0.01))
        return value

    return change


def broad(elements: int) -> Change:
    """Hold some copies of so many elements at once."""

    def change(b: ProgramBuilder, value: int) -> int:
        total = b.node("sum", value, dims=[0, 1], keepdim=False)
        one = b.node("add", b.node("broadcast", total, shape=[elements]), const(b, 1.0))
        two = b.node("mul", one, one)
        small = b.node("mul", b.node("sum", two, dims=[0], keepdim=False), const(b, 1e-12))
        return b.node("add", halved(b, value), small)

    return change


def write_odd_job(
    directory: Path,
    step: Change = halved,
    outer: Change | None = None,
    segment_steps: int = 1,
    segments: int = 1,
) -> Job:
    """Write a job of two rounds of two slots with so many segments each."""
    weights: dict[str, Array] = {"w": np.full((SIZE, SIZE), 0.01, np.float32)}
    shape = (SIZE, SIZE)
    train, end, score = ProgramBuilder(), ProgramBuilder(), ProgramBuilder()
    after = step(train, train.input("global.w", "f32", shape))
    train.output("global.w", after)
    train.output("local.l", train.input("local.l", "f32", ()))
    train.output("metric.loss", train.node("sum", after, dims=[0, 1], keepdim=False))
    before = end.input("global.w", "f32", shape)
    moved = end.node("sub", before, end.input("aggregate.w", "f32", shape))
    end.output("global.w", outer(end, moved) if outer else moved)
    seen = score.input("global.w", "f32", shape)
    score.output("metric.w", score.node("sum", seen, dims=[0, 1], keepdim=False))
    programs: list[Program] = [program.build() for program in (train, end, score)]
    source = JobSource(
        name="odd",
        seed=1,
        rounds=2,
        slots=SLOTS,
        round_steps=segments * segment_steps,
        batch=1,
        segment_steps=segment_steps,
        aggregation=DIFFERENCE,
        step=programs[0],
        outer=programs[1],
        eval=programs[2],
        metrics=("loss",),
        global_state=weights,
        local_state={"l": np.zeros((), np.float32)},
        data={"x": np.zeros((4, 1), np.float32)},
        holdout={"x": np.zeros((4, 1), np.float32)},
    )
    return write_job(directory, source)
