"""The definition of ``repeat``.

A program with a repeat gives the same results as the program with the nodes of each turn written out. Tests compare
executors with the unrolled program. Each node of the unrolled program belongs to one turn of a ``repeat`` and to one
node of its body.
"""

from collections.abc import Sequence

from pol.job.program import Node, Program, ProgramBuilder
from pol.limits import LIMITS, MAX_OPERANDS, Limits
from pol.ops.repeat import CARRY, form


def unroll(program: Program, limits: Limits = LIMITS) -> Program:
    """Return a program without repeats that gives the same outputs as ``program``, bit for bit.

    The returned program omits nodes whose results are not used. There is one difference: if a body does not read an
    operand of its repeat, the returned program omits the node that computes this operand. The original program computes
    this node, and fails if the node uses a row number out of range.

    Raises JobError if the returned program has more nodes than the limits allow.
    """
    builder = ProgramBuilder(limits)
    inputs = [builder.input(spec.name, spec.dtype, spec.shape) for spec in program.inputs]
    values = _written(builder, program, inputs)
    for name, number in program.outputs.items():
        builder.output(name, values[number])
    return builder.build()


def _written(builder: ProgramBuilder, program: Program, inputs: Sequence[int]) -> list[int]:
    """Add a program's constants and nodes to the builder, and return the handles of all its values.

    ``inputs`` are the handles of its inputs.
    """
    values = list(inputs)
    values += [builder.constant(c.dtype, c.shape, c.data) for c in program.constants]
    for node in program.nodes:
        operands = [values[number] for number in node.args]
        if node.op == "repeat":
            values.append(_turns(builder, node, operands))
        else:
            values.append(builder.node(node.op, *operands, **node.attrs))
    return values


def _turns(builder: ProgramBuilder, node: Node, operands: Sequence[int]) -> int:
    body, count = node.attrs["body"], node.attrs["count"]
    roles = form(body, count)
    carried = list(operands[: roles.carried])
    sequences = operands[roles.carried : roles.carried + roles.sequences]
    constants = operands[roles.carried + roles.sequences :]
    stacks: dict[int, list[int]] = {}
    for turn in range(count):
        at = count - 1 - turn if node.attrs["reverse"] else turn
        parts = [_part(builder, sequence, at) for sequence in sequences]
        values = _written(builder, body, [*carried, *parts, *constants])
        carried = [values[body.outputs[f"{CARRY}.{index}"]] for index in range(roles.carried)]
        stacks[at] = [values[body.outputs[name]] for name, _ in roles.parts[roles.carried :]]
    ends = [_flat(builder, value) for value in carried]
    for index in range(len(roles.parts) - roles.carried):
        ends += [_flat(builder, stacks[at][index]) for at in range(count)]
    return _joined(builder, ends)


def _part(builder: ProgramBuilder, sequence: int, at: int) -> int:
    _, *shape = builder.type(sequence).shape
    rest = [0] * len(shape)
    one = builder.node(
        "slice",
        sequence,
        starts=[at, *rest],
        stops=[at + 1, *shape],
        steps=[1] * (1 + len(shape)),
    )
    return builder.node("reshape", one, shape=shape)


def _flat(builder: ProgramBuilder, value: int) -> int:
    return builder.node("reshape", value, shape=[builder.type(value).elements])


def _joined(builder: ProgramBuilder, parts: Sequence[int]) -> int:
    while True:
        groups = [parts[at : at + MAX_OPERANDS] for at in range(0, len(parts), MAX_OPERANDS)]
        parts = [builder.node("concat", *group, dim=0) for group in groups]
        if len(parts) == 1:
            return parts[0]
