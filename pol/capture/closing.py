"""The capture of the end of a round: ``outer``, and ``close`` if updates are coded."""

from collections.abc import Callable, Mapping, Sequence

import torch

from pol.capture.author.spec import JobSpec
from pol.capture.codecs.table import codec_of
from pol.capture.functions import JobFunctions, named
from pol.capture.graph.capture import capture_program
from pol.errors import JobError
from pol.job.program import Program
from pol.job.updates import AGGREGATE, END, LOCAL, OPENING, UPDATE, UPDATES

Tensors = Mapping[str, torch.Tensor]
_DTYPES = {"f32": torch.float32, "i64": torch.int64}


def carried_between_rounds(
    spec: JobSpec, functions: JobFunctions, state: Tensors, local: Tensors
) -> dict[str, torch.Tensor]:
    """Return the local state of the job's codec before the first round; it is empty if updates are not coded.

    Raises JobError if no tensor is large enough to be coded, or if the optimizer's state ``local`` uses its names.
    """
    trained = {name: state[name] for name in functions.trained}
    codec = codec_of(spec.update, trained, (), state, spec.momentum_of_slots)
    carried = {} if codec is None else codec.initial()
    for name in carried:
        if name in local:
            raise JobError("optimizer", f"its state {name} has a name of the update's own state", "rename this state")
    return carried


def captured_end(
    spec: JobSpec,
    functions: JobFunctions,
    state: Tensors,
    carried: Tensors,
    updated: Sequence[str],
    tell: Callable[[str], None],
) -> tuple[Program | None, Program]:
    """Return the programs ``close`` and ``outer``; a job whose updates are not coded has no ``close``.

    ``carried`` is the codec's local state, and ``updated`` are the names of the tensors that a step changes.
    """
    trained = {name: state[name] for name in functions.trained}
    functions.codec = codec_of(spec.update, trained, updated, state, spec.momentum_of_slots)
    if functions.codec is None:
        means = named(AGGREGATE, {name: state[name] for name in updated})
        return None, capture_program(functions.outer, {**named("global", state), **means})
    moved = {name: state[name] for name in state if name in {*updated, *trained}}
    inputs = {**named(OPENING, moved), **named(END, moved), **named(LOCAL, carried)}
    close = capture_program(functions.close, inputs)
    update = {name: value for name, value in close.output_types().items() if name.startswith(f"{UPDATE}.")}
    size, plain = sum(value.size for value in update.values()), sum(state[name].nbytes for name in updated)
    tell(f"an update has {size:,} bytes instead of {plain:,} ({plain / size:.1f} times less)")
    stacks = {
        f"{UPDATES}{name.removeprefix(UPDATE)}": torch.zeros((spec.slots, *value.shape), dtype=_DTYPES[value.dtype])
        for name, value in update.items()
    }
    return close, capture_program(functions.outer, {**named("global", state), **stacks})
