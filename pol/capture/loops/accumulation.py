"""A batch that is gone through in parts: one part as the body of a ``repeat``, which adds up losses and gradients.

A part is captured like a step, with names for its values, so that each of its products has the bits of its own pass.
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
"""Named values of one part to what is carried on, by the same names; what is missing there is carried on as it is."""


def accumulated(
    part: Part,
    carried: Tensors,
    sequences: Tensors,
    constants: Tensors,
    trace: Callable[[Part, Tensors], Program],
) -> dict[str, Tensor]:
    """Return what is carried after all parts of ``sequences``, by name; what no part changes is not among it.

    ``trace`` captures a program of one part from example inputs. Outside a capture it is a loop.

    Raises JobError where a part changes what is no FP32.
    """
    count = len(next(iter(sequences.values())))
    if get_proxy_mode() is None:
        found: dict[str, Tensor] = {}
        for at in range(count):
            own = {name: values[at] for name, values in sequences.items()}
            found.update(part({**constants, **carried, **found, **own}))
        return found
    operands = {**carried, **sequences, **constants}
    with apart():
        shown = {**carried, **{name: values[0] for name, values in sequences.items()}, **constants}
        program = trace(part, dict(zip(shown, stand_ins(shown.values()), strict=True)))
    changed, sources = _sources(program, operands, carried, sequences)
    for name in changed:
        if carried[name].dtype != torch.float32:
            reason = "each part of a batch changes this counter, and integers cannot be averaged over slots"
            raise JobError(f"model.{name.partition('.')[2]}", reason, "make it a float32 buffer")
    numbers = [(source, number) for source, number, _ in sources]
    body = body_of(program, numbers, [program.outputs[input_name(name)] for name in changed], [])
    ends = repeated(body, [operands[name] for _, _, name in sources], count, is_whole=True)
    return dict(zip(changed, ends, strict=True))


def _sources(
    program: Program, given: Iterable[str], carried: Tensors, sequences: Tensors
) -> tuple[list[str], list[tuple[Source, int, str]]]:
    """Return what a part changes, and what each input that is needed is: what no part changes is a constant."""
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
