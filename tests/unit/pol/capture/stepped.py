"""The steps of a job one after another, for tests that compare each with a loop of plain torch."""

import torch
from torch import Tensor, nn

from pol.capture.author.spec import JobSpec
from pol.capture.functions import JobFunctions, named, under
from pol.capture.graph.capture import capture_program
from pol.executor.interface import run
from pol.executor.names import NATIVE
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.program import Program
from tests.unit.pol.executor.ops import get

_SEED = 7
Tensors = dict[str, Tensor]


def step_batch(spec: JobSpec, step: int) -> Tensors:
    """Return the rows of a step, in the order of the data."""
    rows = slice(step * spec.batch, (step + 1) * spec.batch)
    return {name: torch.as_tensor(column[rows]) for name, column in spec.train.items()}


def _begun(spec: JobSpec) -> tuple[JobFunctions, Tensors]:
    """Return a job's functions, and the inputs of its first step."""
    assert spec.steps is not None
    functions = JobFunctions(spec, spec.steps, spec.steps * spec.batch)
    tensors = {**dict(spec.model.named_parameters()), **dict(spec.model.named_buffers())}
    state = {name: value.detach().clone() for name, value in tensors.items()}
    local = functions.initial_local(state)
    return functions, {**named("global", state), **named("local", local), **_of_step(spec, 0)}


def _of_step(spec: JobSpec, step: int) -> Tensors:
    number = torch.tensor(step)
    return {**named("batch", step_batch(spec, step)), STEP: number, BATCH_NUMBER: number}


def traced(spec: JobSpec) -> Program:
    """Return the program of a step."""
    functions, inputs = _begun(spec)
    return capture_program(functions.step, inputs, precisions=spec.precisions)


def _exact(program: Program, inputs: Tensors) -> Tensors:
    arrays = {spec.name: inputs[spec.name].numpy() for spec in program.inputs}
    outputs = run(program, arrays, _SEED, get(NATIVE))
    return {name: torch.from_numpy(array.copy()) for name, array in outputs.items()}


def _plain(functions: JobFunctions, inputs: Tensors) -> Tensors:
    given = {name: tensor.clone() for name, tensor in inputs.items()}
    return {name: tensor.detach() for name, tensor in functions.step(given).items()}


def job_steps(spec: JobSpec, steps: int | None = None, is_captured: bool = True) -> list[Tensors]:
    """Return the outputs of each step of a job: in exact arithmetic, or of its functions in plain torch."""
    functions, inputs = _begun(spec)
    program = traced(spec) if is_captured else None
    found = []
    for number in range(steps or spec.steps or 0):
        inputs |= _of_step(spec, number)
        outputs = _plain(functions, inputs) if program is None else _exact(program, inputs)
        found.append(outputs)
        inputs |= {name: tensor for name, tensor in outputs.items() if name in inputs}
    return found


@torch.no_grad()
def assert_near(found: Tensors, model: nn.Module, before: nn.Module, within: float) -> None:
    """Compare the weights after a step with a model's, relative to how far they have moved."""
    own = under("global", found)
    for name, parameter in model.named_parameters():
        if name in own:
            moved = float((parameter - before.get_parameter(name)).abs().max())
            difference = float((own[name] - parameter).abs().max())
            assert difference <= within * moved + 1e-7, f"{name}: {difference} of {moved}"
