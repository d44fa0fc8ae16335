"""The ordinary way to run a program: one function for each node, called one after another.

What a node becomes, and what an array is, says a library (NumPy, torch). A value is let go after its last use. The body
of a repeat is called for one turn after another.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import itemgetter
from typing import Any

from pol.executor.interface import nothing_reads
from pol.executor.remember import Remembering
from pol.job.program import Node, Program
from pol.ops.primitive import Function, Site
from pol.ops.repeat import form
from pol.state.arrays import Array, array_from_bytes, canonical_array

Value = Any
"""An array of the back end's library."""
Place = tuple[int, ...]
"""Of an operation: a value number; within a repeat, then the turn, and the value number in the body, and so on."""
Watch = Callable[[Place, Array], None]


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
    def empty(self, dtype: str, elements: int) -> Value:
        """Return a value of so many elements that nobody has written yet."""

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


def operands_of(args: Sequence[int]) -> Callable[[Sequence[Value]], Sequence[Value]]:
    """Return what takes a node's operands out of all values."""
    if len(args) > 1:
        return itemgetter(*args)
    first = args[0] if args else 0
    return itemgetter(slice(first, first + len(args)))


class _Step:
    """A node: what computes it, of which values, and what nobody needs after it."""

    def __init__(self, function: Function, args: Sequence[int], result: int, dead: Sequence[int]) -> None:
        self.args, self.result, self.dead = args, result, dead
        self.function = function

    def watched(self, watch: Watch, place: Place, *operands: Value) -> Value:
        """Return the result for operands; what is not taken apart needs no watching."""
        return self.function(*operands)


class _Turns:
    """A repeat: what its body computes in each turn, and what becomes of that."""

    def __init__(self, backend: LoopBackend, program: Program, number: int, seed: int) -> None:
        offset = number - program.first_node
        node = program.nodes[offset]
        self.args, self.result, self.dead = node.args, number, program.last_uses[offset]
        body: Program = node.attrs["body"]
        self._backend = backend
        self._body = backend.made(body, seed)
        self._count, self._reverse = node.attrs["count"], node.attrs["reverse"]
        self._form = form(body, self._count)
        self._type = program.types[number]
        # where each stack begins in the result, and elements of a turn in it
        sizes = [value.elements for _, value in self._form.parts]
        starts = [sum(sizes[:index]) for index in range(len(sizes))]
        carried = self._form.carried
        names = [name for name, _ in self._form.parts]
        self._stacks = list(zip(names, starts, strict=True))[carried:]
        self._stack_sizes = [size // self._count for size in sizes[carried:]]
        self._astray = [arg in program.repeating for arg in node.args]
        self._carried_astray = [body.outputs[name] in body.repeating for name, _ in self._form.parts[:carried]]

    def function(self, *operands: Value) -> Value:
        """Return the result for operands."""
        return self._result(operands, None, ())

    def watched(self, watch: Watch, place: Place, *operands: Value) -> Value:
        """Return the result for operands; ``watch`` gets what happens within each turn."""
        return self._result(operands, watch, place)

    def _result(self, operands: Sequence[Value], watch: Watch | None, place: Place) -> Value:
        form, in_order = self._form, self._backend.in_order
        carried, sequences = form.carried, slice(form.carried, form.carried + form.sequences)
        given = [
            in_order(operand) if is_astray else operand
            for operand, is_astray in zip(operands, self._astray, strict=True)
        ]
        kept, constants = given[:carried], given[sequences.stop :]
        result = self._backend.empty(self._type.dtype, self._type.elements)
        for turn in range(self._count):
            at = self._count - 1 - turn if self._reverse else turn
            parts = [sequence[at] for sequence in given[sequences]]
            ends = self._body.values([*kept, *parts, *constants], watch, (*place, turn))
            kept = [
                in_order(ends[name]) if is_astray else ends[name]
                for (name, _), is_astray in zip(form.parts, self._carried_astray, strict=False)
            ]
            for (name, first), size in zip(self._stacks, self._stack_sizes, strict=True):
                start = first + at * size
                result[start : start + size] = ends[name].reshape(-1)
        start = 0
        for value, (_, kind) in zip(kept, form.parts, strict=False):
            result[start : start + kind.elements] = value.reshape(-1)
            start += kind.elements
        return result


class Loop:
    """A program as a list of functions. It holds no reference to the program, which may be forgotten."""

    def __init__(self, backend: LoopBackend, program: Program, seed: int) -> None:
        self._backend = backend
        self._inputs = [spec.name for spec in program.inputs]
        self._outputs = dict(program.outputs)
        self._constants = [
            backend.upload(array_from_bytes(c.data, c.type.dtype, c.type.shape, "constant")) for c in program.constants
        ]
        self._first_node = program.first_node
        self._steps: list[_Step | _Turns] = []
        for offset, node in enumerate(program.nodes):
            number = program.first_node + offset
            if node.op == "repeat":
                self._steps.append(_Turns(backend, program, number, seed))
                continue
            operands = tuple(program.types[arg] for arg in node.args)
            site = Site(attrs=node.attrs, operands=operands, result=program.types[number], seed=seed)
            function = backend.function(node.op, site)
            if number not in program.repeating and _may_stray(program, number, node):
                function = self._in_order(function)
            self._steps.append(_Step(function, node.args, number, program.last_uses[offset]))
        # what is the same in every run is looked up once: small nodes take no longer than going from one to the next
        self._flat = [(step.function, operands_of(step.args), step.result, step.dead) for step in self._steps]

    def _in_order(self, function: Function) -> Function:
        """Libraries may lay out a result as its operands are, or hand one back: readers count on rows in order."""
        return lambda *operands: self._backend.in_order(function(*operands))

    def run(self, inputs: Mapping[str, Array], watch: Watch | None = None) -> dict[str, Array]:
        """Return the outputs by name; ``watch`` gets the place and array of every operation, for bisection."""
        backend = self._backend
        given = [backend.upload(inputs[name]) for name in self._inputs]
        with backend.session():
            found = self.values(given, watch)
            return {name: backend.download(found[name]) for name in self._outputs}

    def values(self, given: Sequence[Value], watch: Watch | None = None, place: Place = ()) -> dict[str, Value]:
        """Return the outputs of inputs in their order, both as the library's own."""
        values = self.begun(given)
        if watch is not None:
            return self._watched(values, watch, place)
        for function, operands, result, dead in self._flat:
            values[result] = function(*operands(values))
            for number in dead:
                values[number] = None
        return self.ended(values)

    def begun(self, given: Sequence[Value]) -> list[Value]:
        """Return room for all values, with inputs and constants in it."""
        return [*given, *self._constants, *[None] * len(self._steps)]

    def ended(self, values: Sequence[Value]) -> dict[str, Value]:
        """Return the outputs by name."""
        return {name: values[number] for name, number in self._outputs.items()}

    def function_of(self, number: int) -> Function:
        """Return what computes the node of a value."""
        return self._steps[number - self._first_node].function

    def _watched(self, values: list[Value], watch: Watch, place: Place) -> dict[str, Value]:
        for step in self._steps:
            here = (*place, step.result)
            values[step.result] = step.watched(watch, here, *(values[arg] for arg in step.args))
            watch(here, self._backend.download(values[step.result]))
            for number in step.dead:
                values[number] = None
        return self.ended(values)

    def canonical(
        self,
        inputs: Mapping[str, Array],
        donated: Collection[str] = (),
        release: Callable[[], None] = nothing_reads,
    ) -> dict[str, Array]:
        """Return the outputs in canonical form, with memory of their own; NotFinite where one has none.

        No input is overwritten, so nobody is asked to release one.
        """
        outputs = self.run(inputs)
        # one after another, so that there is a second copy of one output only
        return {name: canonical_array(outputs.pop(name), name) for name in tuple(outputs)}
