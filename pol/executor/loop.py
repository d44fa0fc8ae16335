"""The ordinary way to run a program: one function for each node, called one after another.

What a node becomes, and what an array is, says a library (NumPy, torch). A value is let go after its last use.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from pol.executor.remember import Remembering
from pol.job.program import Node, Program
from pol.ops.primitive import Function, Site
from pol.state.arrays import Array, array_from_bytes, canonical_array

Value = Any
"""An array of the back end's library."""


class LoopBackend(Remembering["Loop"]):
    """A back end that takes programs node by node: a subclass says how nodes and arrays become its library's."""

    name: str

    def made(self, program: Program, seed: int) -> "Loop":
        """Return the functions of a program's nodes for a seed."""
        return Loop(self, program, seed)

    @abstractmethod
    def function(self, op: str, site: Site) -> Function:
        """Return the function of one node; its attributes and shapes are already checked."""

    @abstractmethod
    def upload(self, array: Array) -> Value:
        """Return the array as the library's own."""

    @abstractmethod
    def download(self, value: Value) -> Array:
        """Return a value as a NumPy array."""

    @abstractmethod
    def in_order(self, value: Value) -> Value:
        """Return the value with its elements in one block, the last dimension first: itself where it is so."""

    @abstractmethod
    def session(self) -> AbstractContextManager[object]:
        """Return the context in which functions are called (no warnings, no gradients)."""


def _may_stray(program: Program, number: int, node: Node) -> bool:
    """Whether a library may lay the result out otherwise than in order.

    It may where an operand repeats elements, or where several meet and none has the shape of the result.
    """
    shapes = [program.types[arg].shape for arg in node.args]
    met = len(shapes) > 1 and program.types[number].shape not in shapes
    return met or not program.repeating.isdisjoint(node.args)


@dataclass(frozen=True, slots=True)
class _Step:
    function: Function
    args: tuple[int, ...]
    result: int
    dead: tuple[int, ...]


class Loop:
    """A program as a list of functions. It holds no reference to the program, which may be forgotten."""

    def __init__(self, backend: LoopBackend, program: Program, seed: int) -> None:
        self._backend = backend
        self._inputs = [spec.name for spec in program.inputs]
        self._outputs = dict(program.outputs)
        self._constants = [
            backend.upload(array_from_bytes(c.data, c.type.dtype, c.type.shape, "constant"))
            for c in program.constants
        ]
        self._steps = []
        for offset, node in enumerate(program.nodes):
            number = program.first_node + offset
            operands = tuple(program.types[arg] for arg in node.args)
            site = Site(node.attrs, operands, program.types[number], seed)
            function = backend.function(node.op, site)
            if number not in program.repeating and _may_stray(program, number, node):
                function = self._in_order(function)
            self._steps.append(_Step(function, node.args, number, program.last_uses[offset]))

    def _in_order(self, function: Function) -> Function:
        """Libraries may lay out a result as its operands are, or hand one back: readers count on rows in order."""
        return lambda *operands: self._backend.in_order(function(*operands))

    def run(
        self, inputs: Mapping[str, Array], watch: Callable[[int, Array], None] | None = None
    ) -> dict[str, Array]:
        """Return the outputs by name; ``watch`` gets the value number and array of every node, for bisection."""
        backend = self._backend
        values: list[Value] = [backend.upload(inputs[name]) for name in self._inputs]
        values += [*self._constants, *[None] * len(self._steps)]
        with backend.session():
            for step in self._steps:
                values[step.result] = step.function(*[values[arg] for arg in step.args])
                if watch is not None:
                    watch(step.result, backend.download(values[step.result]))
                for number in step.dead:
                    values[number] = None
            return {name: backend.download(values[n]) for name, n in self._outputs.items()}

    def canonical(
        self, inputs: Mapping[str, Array], donated: Collection[str] = ()
    ) -> dict[str, Array]:
        """Return the outputs in canonical form, with memory of their own; NotFinite where one has none."""
        outputs = self.run(inputs)
        # one after another, so that there is a second copy of one output only
        return {name: canonical_array(outputs.pop(name), name) for name in tuple(outputs)}
