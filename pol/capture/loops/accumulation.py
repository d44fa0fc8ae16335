"""Gradient accumulation: one part of a batch is the body of a ``repeat``, which sums losses and gradients.

A part is captured like a step, with names for its values. From these names, the capture learns to which pass each
product belongs, and so how many bits the product has.
"""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from pol.capture.loops.repeats import apart, stand_ins
from pol.capture.loops.turns import Source, body_of
from pol.capture.rules.repeat_op import repeated
from pol.errors import JobError
from pol.job.program import Program
from pol.names import input_name
from pol.ops.repeat import CARRY, CONSTANT, SEQUENCE

Tensors = Mapping[str, Tensor]
Part = Callable[[Tensors], Tensors]
"""Function from the named values of one part to the carried values after it, by name. A carried value that is missing
in the result is unchanged.
"""


def accumulated(
    part: Part,
    carried: Tensors,
    sequences: Tensors,
    constants: Tensors,
    capture: Callable[[Part, Tensors], Program],
) -> dict[str, Tensor]:
    """Call ``part`` for each part of a batch in turn; return the carried values after the last part, by name.

    Values that no part changes are left out. ``sequences`` has the values of all parts, along the first dimension.

    ``capture`` returns the program of one part for its example inputs. Outside of a capture, the parts run in a loop.

    Raises JobError if a part changes a tensor that is not FP32.
    """
    count = len(next(iter(sequences.values())))
    if get_proxy_mode() is None:
        ends_so_far: dict[str, Tensor] = {}
        for at in range(count):
            own = {name: values[at] for name, values in sequences.items()}
            ends_so_far.update(part({**constants, **carried, **ends_so_far, **own}))
        return ends_so_far
    operands = {**carried, **sequences, **constants}
    with apart():
        shown = {**carried, **{name: values[0] for name, values in sequences.items()}, **constants}
        program = capture(part, dict(zip(shown, stand_ins(shown.values()), strict=True)))
    changed, sources = _sources(program, operands, carried, sequences)
    for name in changed:
        if carried[name].dtype != torch.float32:
            reason = "each part of a batch changes this integer, and integers cannot be averaged over slots"
            buffer = name.partition(".")[2]
            remedy = f"use a float32 buffer: self.register_buffer({buffer.rpartition('.')[2]!r}, torch.zeros(()))"
            raise JobError(f"model.{buffer}", reason, remedy)
    numbers = [(source, number) for source, number, _ in sources]
    body = body_of(program, numbers, [program.outputs[input_name(name)] for name in changed], [])
    ends = repeated(body, [operands[name] for _, _, name in sources], count, is_whole=True)
    return dict(zip(changed, ends, strict=True))


def _sources(
    program: Program, given: Iterable[str], carried: Tensors, sequences: Tensors
) -> tuple[list[str], list[tuple[Source, int, str]]]:
    """Return the names of the carried values that a part changes, and the inputs that the part needs.

    For each input, return its kind and number in the repeat, its value number and its name. A carried value that no
    part changes is a constant of the repeat.
    """
    numbers = {spec.name: number for number, spec in enumerate(program.inputs)}
    inputs = {name: numbers[input_name(name)] for name in given}
    outputs = {name: program.outputs.get(input_name(name), inputs[name]) for name in carried}
    changed = [name for name in carried if outputs[name] != inputs[name]]
    read = {number for node in program.nodes for number in node.args}
    read.update(outputs[name] for name in changed)
    others = [name for name in inputs if inputs[name] in read and name not in changed]
    kinds = {
        CARRY: changed,
        SEQUENCE: [name for name in others if name in sequences],
        CONSTANT: [name for name in others if name not in sequences],
    }
    return changed, [((kind, at), inputs[name], name) for kind, names in kinds.items() for at, name in enumerate(names)]
