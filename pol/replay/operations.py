"""The execution of a program operation by operation, on any back end, for people who look for a difference.

Each operation runs as a program of its own, so back ends that join operations show their single results too. This is
much slower than :func:`pol.executor.interface.run`, and gives the same bits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from pol.executor.interface import Backend, Compiled
from pol.job.program import Node, Program, make_program
from pol.ops.repeat import form
from pol.state.arrays import NUMPY_DTYPES, Array, array_from_bytes, dtype_name, raw_bytes
from pol.values import TensorSpec

OperationPath = tuple[int, ...]
"""The value number of an operation; within a repeat followed by the turn, and by the value number in the body."""
_RESULT = "result"


@dataclass(frozen=True, slots=True)
class OperationRun:
    """An operation with its operands and its result in one run."""

    path: OperationPath
    node: Node
    operands: tuple[Array, ...]
    result: Array


Observe = Callable[[OperationRun], None]
"""A function that receives every operation after it has run."""


class OperationRunner:
    """A runner of programs, operation by operation, on one back end."""

    def __init__(self, backend: Backend, seed: int) -> None:
        """Use ``backend``, and the seed of the job."""
        self._backend, self._seed = backend, seed
        self._single: dict[tuple[Program, int], tuple[Program, Compiled]] = {}

    def run(self, program: Program, inputs: Mapping[str, Array], observe: Observe) -> dict[str, Array]:
        """Return the outputs by name, as the operations gave them. Raises the same errors as the back end."""
        given = [inputs[spec.name] for spec in program.inputs]
        with np.errstate(all="ignore"):
            return self._values(program, given, observe, ())

    def _values(
        self, program: Program, inputs: Sequence[Array], observe: Observe, path: OperationPath
    ) -> dict[str, Array]:
        constants = [array_from_bytes(c.data, c.type.dtype, c.type.shape, "constant") for c in program.constants]
        values: list[Array | None] = [*inputs, *constants, *[None] * len(program.nodes)]
        for offset, node in enumerate(program.nodes):
            number = program.first_node + offset
            operands = tuple(_present(values[arg]) for arg in node.args)
            here = (*path, number)
            if node.op == "repeat":
                result = self._turns(program, number, operands, observe, here)
            else:
                result = self._alone(program, number, operands)
            observe(OperationRun(path=here, node=node, operands=operands, result=result))
            values[number] = result
            for dead in program.last_uses[offset]:
                values[dead] = None
        return {name: _present(values[number]) for name, number in program.outputs.items()}

    def _alone(self, program: Program, number: int, operands: Sequence[Array]) -> Array:
        """Return the result of one operation, which runs as a program of its own."""
        key = program, number
        if key not in self._single:
            single = single_operation(program, number)
            self._single[key] = single, self._backend.compile(single, self._seed)
        single, compiled = self._single[key]
        given = {spec.name: operand for spec, operand in zip(single.inputs, operands, strict=True)}
        return np.array(compiled.run(given)[_RESULT], order="C")

    def _turns(
        self, program: Program, number: int, operands: Sequence[Array], observe: Observe, path: OperationPath
    ) -> Array:
        """Return the result of a repeat: the carried values after the last turn, then the stacks."""
        attrs = program.nodes[number - program.first_node].attrs
        body, count = attrs["body"], attrs["count"]
        roles = form(body, count)
        first_constant = roles.carried + roles.sequences
        state = list(operands[: roles.carried])
        stacks = {name: np.empty(kind.shape, NUMPY_DTYPES[kind.dtype]) for name, kind in roles.parts[roles.carried :]}
        for turn in range(count):
            at = count - 1 - turn if attrs["reverse"] else turn
            parts = [np.array(sequence[at], order="C") for sequence in operands[roles.carried : first_constant]]
            ends = self._values(body, [*state, *parts, *operands[first_constant:]], observe, (*path, turn))
            state = [ends[name] for name, _ in roles.parts[: roles.carried]]
            for name, stack in stacks.items():
                stack[at] = ends[name]
        return np.concatenate([each.reshape(-1) for each in (*state, *stacks.values())])


def single_operation(program: Program, number: int) -> Program:
    """Return the operation that computes a value, as a program with its operands as inputs."""
    node = program.nodes[number - program.first_node]
    types = [program.types[arg] for arg in node.args]
    inputs = [TensorSpec(f"operand.{at}", kind.dtype, kind.shape) for at, kind in enumerate(types)]
    same = Node(node.op, tuple(range(len(inputs))), node.attrs)
    return make_program(inputs, [], [same], {_RESULT: len(inputs)})


def _present(value: Array | None) -> Array:
    if value is None:
        raise LookupError("a program uses a value that was not computed")
    return value


def value_hash(array: Array) -> bytes:
    """Return a hash of an array: of its dtype, its shape and its bits. All NaN are equal, as no state has one."""
    plain = np.ascontiguousarray(array)
    if plain.dtype.kind == "f":
        plain = np.where(np.isnan(plain), plain.dtype.type(np.nan), plain)
    hashed = sha256(f"assay/value {dtype_name(plain, 'value')} {list(array.shape)} ".encode())
    hashed.update(raw_bytes(plain))
    return hashed.digest()
