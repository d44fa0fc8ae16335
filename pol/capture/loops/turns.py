"""Bodies of repeats: one turn of a function and its gradient, captured as one program and split into two passes.

The nodes that depend on no gradient are the forward pass. If the backward pass reads one of their values, the value is
stacked, turn by turn, unless it is cheaper to compute it again. Cheaper to compute again are views, bool values,
integers, and the results of a few cheap operations on one value. Products are never computed again, so that each
product has the number of bits of its own pass.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pol.job.program import Program, ProgramBuilder
from pol.ops.repeat import CARRY, CONSTANT, SEQUENCE, STACKED

END, GIVEN, TOTAL, BEGIN, SLOPE = "end", "given", "total", "begin", "slope"
"""Kinds of gradients. In this order, they are taken with respect to the next carried values, the stacked values, the
constants (summed so far), the carried values at the start of the turn, and the sequences.
"""

_VIEWS = frozenset({"reshape", "permute", "broadcast", "slice", "full", "concat", "pad"})
_CHEAP = frozenset({"add", "sub", "mul", "neg", "abs", "maximum", "minimum", "where", "cast", "logical_not"})

Source = tuple[str, int]
"""Kind of an operand of the backward pass (``end``, ``total``, ``given``, ``sequence``, ``constant`` or ``stacked``),
and its number within this kind. For ``stacked``, it is the number of the stack in the forward pass.
"""


@dataclass(frozen=True, slots=True)
class Passes:
    """Two bodies: the forward pass, which also stacks the values that the backward pass needs, and the backward pass.

    ``stacks`` has the positions, in the stacks of the forward pass, of the values that the function itself stacks.
    ``operands`` are the operands of the backward pass. ``slopes`` maps the number of each gradient to its position in
    the stacks of the backward pass.
    """

    forward: Program
    stacks: tuple[int, ...]
    backward: Program
    operands: tuple[Source, ...]
    slopes: Mapping[int, int]


def taken_apart(program: Program) -> Passes:
    """Return the two passes of a program that computes a function and its gradient.

    The inputs are called ``carry``, ``sequence`` and ``constant``, and the gradients ``end``, ``given`` and ``total``.
    The outputs are called ``carry`` and ``stacked``, and the gradients ``begin``, ``total`` and ``slope``. A number
    follows each name, as in ``carry.0``.
    """
    inputs = {spec.name: number for number, spec in enumerate(program.inputs)}
    gradients = {number for _, number in _of(inputs, END, GIVEN, TOTAL)}
    for number, node in enumerate(program.nodes, program.first_node):
        if not gradients.isdisjoint(node.args):
            gradients.add(number)
    begins, slopes = _of(program.outputs, BEGIN, TOTAL), _of(program.outputs, SLOPE)
    needed, values = _needed(program, gradients, [number for _, number in begins + slopes])
    kept = values | needed.difference(gradients)

    ends, own = _of(program.outputs, CARRY), _of(program.outputs, STACKED)
    given = _of(inputs, CARRY, SEQUENCE, CONSTANT)
    fixed = {number: source for source, number in _of(inputs, SEQUENCE, CONSTANT)}
    saved = [number for number in sorted(kept) if number not in fixed]
    stacked = list(dict.fromkeys([*(number for _, number in own), *saved]))
    forward = body_of(program, given, [number for _, number in ends], stacked)

    carried = _of(inputs, END, TOTAL)
    sequences = [(source, n) for source, n in _of(inputs, GIVEN) if n in needed]
    sequences += [(source, n) for n, source in fixed.items() if n in kept and source[0] == SEQUENCE]
    sequences += [((STACKED, stacked.index(number)), number) for number in saved]
    constants = [(source, n) for n, source in fixed.items() if n in kept and source[0] == CONSTANT]
    kinds = ((CARRY, carried), (SEQUENCE, sequences), (CONSTANT, constants))
    named = [((kind, at), n) for kind, chosen in kinds for at, (_, n) in enumerate(chosen)]
    distinct = list(dict.fromkeys(number for _, number in slopes))
    backward = body_of(program, named, [number for _, number in begins], distinct)
    return Passes(
        forward=forward,
        stacks=tuple(stacked.index(number) for _, number in own),
        backward=backward,
        operands=tuple(source for source, _ in (*carried, *sequences, *constants)),
        slopes={index: distinct.index(number) for (_, index), number in slopes},
    )


def _of(names: Mapping[str, int], *kinds: str) -> list[tuple[Source, int]]:
    """Return the inputs or outputs of the given kinds, with their value numbers, sorted by kind and number."""
    sources = []
    for name, number in names.items():
        kind, _, index = name.partition(".")
        if kind in kinds:
            sources.append(((kind, int(index)), number))
    return sorted(sources, key=lambda pair: (kinds.index(pair[0][0]), pair[0][1]))


def _needed(program: Program, gradients: Collection[int], behind: Sequence[int]) -> tuple[set[int], set[int]]:
    """Return the inputs that the backward pass reads, and the values of the forward pass that are stacked for it."""
    first = program.first_node
    read = set(behind)
    for number in reversed(range(first, len(program.types))):
        if number in read and number in gradients:
            read.update(program.nodes[number - first].args)
    ahead = [number for number in sorted(read.difference(gradients)) if number >= first]
    kept = {n for n in ahead if not _is_free(program, n) and not _is_cheap(program, n)}
    for number in ahead:
        if number in kept:
            continue
        roots, operations = _made_of(program, number, kept)
        if _is_free(program, number) or (len(roots) <= 1 and operations <= (2 if roots else 8)):
            kept |= roots
        else:
            kept.add(number)
    inputs, waiting, seen = set[int](), list(behind), set[int]()
    while waiting:
        number = waiting.pop()
        if number in seen or number in kept:
            continue
        seen.add(number)
        if number < len(program.inputs):
            inputs.add(number)
        elif number >= first:
            waiting += program.nodes[number - first].args
    return inputs, kept


def _made_of(program: Program, number: int, kept: Collection[int]) -> tuple[set[int], int]:
    """Return the costly values from which a value is computed, and the number of cheap operations between them and the
    value.
    """
    roots, cheap, waiting = set[int](), set[int](), [number]
    while waiting:
        number = waiting.pop()
        if number < program.first_node or number in kept or number in cheap:
            continue
        if _is_free(program, number) or _is_cheap(program, number):
            cheap.add(number)
            waiting += program.nodes[number - program.first_node].args
        else:
            roots.add(number)
    return roots, len(cheap)


def _is_free(program: Program, number: int) -> bool:
    """Return whether a value is never stacked: it is not FP32, the only dtype of stacks, or it is a view."""
    node = program.nodes[number - program.first_node]
    return program.types[number].dtype != "f32" or node.op in _VIEWS


def _is_cheap(program: Program, number: int) -> bool:
    return program.nodes[number - program.first_node].op in _CHEAP


def body_of(
    program: Program, given: Sequence[tuple[Source, int]], ends: Sequence[int], stacked: Sequence[int]
) -> Program:
    """Return a body that computes the values ``ends`` and ``stacked`` of a program from the values ``given``."""
    builder = ProgramBuilder()
    handles: dict[int, int] = {}
    for (kind, index), number in given:
        value = program.types[number]
        handles[number] = builder.input(f"{kind}.{index}", value.dtype, value.shape)
    wanted, waiting = set[int](), [n for n in (*ends, *stacked) if n not in handles]
    while waiting:
        number = waiting.pop()
        if number not in wanted:
            wanted.add(number)
            offset = number - program.first_node
            operands = program.nodes[offset].args if offset >= 0 else ()
            waiting += [arg for arg in operands if arg not in handles]
    for number in sorted(wanted):
        offset = number - program.first_node
        if offset < 0:
            constant = program.constants[number - len(program.inputs)]
            handles[number] = builder.constant(constant.dtype, constant.shape, constant.data)
            continue
        node = program.nodes[offset]
        args = [handles[arg] for arg in node.args]
        handles[number] = builder.node(node.op, *args, **node.attrs)
    for index, number in enumerate(ends):
        builder.output(f"{CARRY}.{index}", handles[number])
    for index, number in enumerate(stacked):
        builder.output(f"{STACKED}.{index}", handles[number])
    return builder.build()
