"""Bodies of repeats for tests and benchmarks."""

from collections.abc import Sequence
from typing import Any

from pol.job.program import Program, ProgramBuilder
from pol.values import Shape


def recurrence(shape: Shape = (2, 3), op: str = "tanh") -> Program:
    """A state that takes a part of a sequence in every turn, times a constant; it is carried on and stacked."""
    builder = ProgramBuilder()
    state, part, scale = (builder.input(name, "f32", shape) for name in ("carry.0", "sequence.0", "constant.0"))
    moved = builder.node("add", builder.node("mul", state, scale), part)
    after = builder.node(op, moved)
    builder.output("carry.0", after)
    builder.output("stacked.0", after)
    return builder.build()


def counter(*, carried: int = 1, sequences: int = 0, nodes: int = 1) -> Program:
    """Scalars that are carried, each turned so many times, beside scalars of sequences that nobody reads."""
    builder = ProgramBuilder()
    values = [builder.input(f"carry.{at}", "f32", ()) for at in range(carried)]
    for at in range(sequences):
        builder.input(f"sequence.{at}", "f32", ())
    for at in range(carried):
        for _ in range(nodes):
            values[at] = builder.node("neg", values[at])
        builder.output(f"carry.{at}", values[at])
    return builder.build()


def moved(shape: Shape) -> Program:
    """Large values that are taken from a sequence, carried on and stacked, without any operation."""
    builder = ProgramBuilder()
    state, part = builder.input("carry.0", "f32", shape), builder.input("sequence.0", "f32", shape)
    builder.output("carry.0", part)
    builder.output("stacked.0", state)
    return builder.build()


def nested(body: Program, counts: Sequence[int]) -> Program:
    """A counter within others: the body of one repeat within the body of another one."""
    for count in counts:
        builder = ProgramBuilder()
        state = builder.input("carry.0", "f32", ())
        attrs: dict[str, Any] = {"body": body, "count": count, "reverse": False}
        ended = builder.node("repeat", state, **attrs)
        builder.output("carry.0", builder.node("reshape", ended, shape=[]))
        body = builder.build()
    return body
