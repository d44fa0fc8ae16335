"""The interpreter: a program and its inputs in, outputs in canonical form out.

A program becomes a list of closures once for each (back end, seed); a run then calls them one after
another and lets go of every value after its last use. Outputs of FP32 must be finite and lose the
sign of zeros.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pol.executor.backend import Backend, Function, Value
from pol.executor.errors import ExecutionError
from pol.job.program import Program
from pol.state.arrays import NUMPY_DTYPES, Array, array_from_bytes, canonical_array


@dataclass(frozen=True, slots=True)
class _Step:
    function: Function
    args: tuple[int, ...]
    result: int
    dead: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Compiled:
    constants: tuple[Value, ...]
    steps: tuple[_Step, ...]


_COMPILED: WeakKeyDictionary[Program, dict[tuple[int, int], tuple[Backend, _Compiled]]] = (
    WeakKeyDictionary()
)


def _compile(program: Program, seed: int, backend: Backend) -> _Compiled:
    steps = []
    for offset, node in enumerate(program.nodes):
        number = program.first_node + offset
        operands = [program.types[arg] for arg in node.args]
        function = backend.compile(node, operands, program.types[number], seed)
        steps.append(_Step(function, node.args, number, program.last_uses[offset]))
    constants = (
        array_from_bytes(constant.data, constant.type.dtype, constant.type.shape, "constant")
        for constant in program.constants
    )
    return _Compiled(tuple(backend.upload(constant) for constant in constants), tuple(steps))


def _compiled(program: Program, seed: int, backend: Backend) -> _Compiled:
    known = _COMPILED.setdefault(program, {})
    found = known.get((id(backend), seed))
    if found is None or found[0] is not backend:  # the back end is kept, so its id stays its own
        found = known[id(backend), seed] = (backend, _compile(program, seed, backend))
    return found[1]


def _check_inputs(program: Program, inputs: Mapping[str, Array]) -> list[Array]:
    arrays = []
    for spec in program.inputs:
        array = inputs.get(spec.name)
        if array is None:
            raise ExecutionError(spec.name, "This input is missing.")
        if array.shape != spec.shape or array.dtype != NUMPY_DTYPES[spec.dtype]:
            raise ExecutionError(
                spec.name, f"It is {array.dtype}{list(array.shape)}, not {spec.type}."
            )
        arrays.append(array)
    return arrays


def run(
    program: Program,
    inputs: Mapping[str, Array],
    seed: int,
    backend: Backend,
    watch: Callable[[int, Array], None] | None = None,
) -> dict[str, Array]:
    """Run a program.

    Args:
        program: a checked program.
        inputs: at least the program's inputs by name (others are ignored), with their exact dtypes
            and shapes.
        seed: the job's seed, the key of every ``uniform`` node.
        backend: where to run; the result is the same on all.
        watch: called with the value number and array of every node, for tests and bisection.

    Returns:
        The outputs in name order, in canonical form.

    Raises:
        NotFinite: an FP32 output holds NaN or infinity.
        OutOfRange: a ``take`` asked for a row that does not exist.
        ExecutionError: an input is missing or has another type.
    """
    arrays = _check_inputs(program, inputs)
    compiled = _compiled(program, seed, backend)
    values: list[Any] = [backend.upload(array) for array in arrays]
    values += compiled.constants
    values += [None] * len(compiled.steps)
    with backend.session():
        for step in compiled.steps:
            values[step.result] = step.function(*[values[arg] for arg in step.args])
            if watch is not None:
                watch(step.result, backend.download(values[step.result]))
            for number in step.dead:
                values[number] = None
        outputs = {
            name: backend.download(values[number]) for name, number in program.outputs.items()
        }
    return {name: canonical_array(array, name) for name, array in outputs.items()}
