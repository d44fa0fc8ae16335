"""The ordinary way to run a program: one function per node, called one after another.

A library (NumPy, torch) provides the functions and the arrays. A value is released after its last use. The body of a
repeat is called once per turn.
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
from pol.ops.product import integer_sums
from pol.ops.repeat import form
from pol.state.arrays import Array, array_from_bytes, canonical_array
from pol.state.held import Held

Value = Any
"""An array of the back end's library."""
Place = tuple[int, ...]
"""The position of an operation. It is a value number; within a repeat, the number of the turn and the value number in
the body follow.
"""
Watch = Callable[[Place, Array], None]


class LoopBackend(Remembering["Loop"]):
    """A back end that runs programs node by node; a subclass provides the functions and arrays of its library."""

    name: str

    def prepare(self, program: Program, seed: int) -> "Loop":
        """Return a program as a list of functions, one per node. ``seed`` is the seed of the job."""
        return Loop(self, program, seed)

    def integer_sums(self, bits: int, left: Array, right: Array, largest: tuple[Array, Array]) -> Array:
        """Return the exact sums of a part of a product, from the reference."""
        return integer_sums(bits, left, right, largest)

    @abstractmethod
    def function(self, op: str, site: Site) -> Function:
        """Return the function that computes a node with the primitive ``op``.

        The node's attributes and shapes were checked before.
        """

    @abstractmethod
    def upload(self, held: Held) -> Value:
        """Convert a NumPy array, or a handle that this back end made, to an array of the library."""

    @abstractmethod
    def download(self, value: Value) -> Array:
        """Convert a value to a NumPy array."""

    def finish(self, loop: "Loop", inputs: Sequence[Value]) -> Mapping[str, Held]:
        """Run a program, and return its outputs in canonical form.

        Raises NotFinite for the first output by name that holds NaN or infinity.
        """
        outputs = loop.values(inputs)
        # They are converted one by one, so that only one output at a time has a second copy.
        return {name: canonical_array(self.download(outputs.pop(name)), name) for name in tuple(outputs)}

    @abstractmethod
    def in_order(self, value: Value) -> Value:
        """Return the value contiguous in C order. If the value already has this order, return the same object."""

    @abstractmethod
    def empty(self, dtype: str, elements: int) -> Value:
        """Return a value of one dimension with ``elements`` elements, which are not initialized."""

    @abstractmethod
    def session(self) -> AbstractContextManager[object]:
        """Return the context in which functions are called: without warnings and without gradients."""


def _may_stray(program: Program, number: int, node: Node) -> bool:
    """Return whether the library may return the result of a node in another order than C order.

    The library may do so if an operand repeats elements, or if there are several operands and none has the shape of the
    result.
    """
    shapes = [program.types[arg].shape for arg in node.args]
    is_broadcast = len(shapes) > 1 and program.types[number].shape not in shapes
    return is_broadcast or not program.repeating.isdisjoint(node.args)


def operands_of(args: Sequence[int]) -> Callable[[Sequence[Value]], Sequence[Value]]:
    """Return a function that selects a node's operands from the list of all values.

    ``args`` are the numbers of the operands.
    """
    if len(args) > 1:
        return itemgetter(*args)
    first = args[0] if args else 0
    return itemgetter(slice(first, first + len(args)))


class _Step:
    """A node as a function, with its operands and its result. ``dead`` has the values that no later node needs."""

    def __init__(self, function: Function, args: Sequence[int], result: int, dead: Sequence[int]) -> None:
        self.args, self.result, self.dead = args, result, dead
        self.function = function

    def watched(self, watch: Watch, place: Place, *operands: Value) -> Value:
        """Return the result for these operands.

        ``watch`` is not called, because an ordinary node has no inner operations.
        """
        return self.function(*operands)


class _Turns:
    """A repeat as a function. It runs the body once per turn, and collects the carried values and the stacks."""

    def __init__(self, backend: LoopBackend, program: Program, number: int, seed: int) -> None:
        offset = number - program.first_node
        node = program.nodes[offset]
        self.args, self.result, self.dead = node.args, number, program.last_uses[offset]
        body: Program = node.attrs["body"]
        self._backend = backend
        self._body = backend.prepare(body, seed)
        self._count, self._reverse = node.attrs["count"], node.attrs["reverse"]
        self._form = form(body, self._count)
        self._type = program.types[number]
        # For each stack, the index of its first element in the result, and its number of elements per turn.
        sizes = [value.elements for _, value in self._form.parts]
        starts = [sum(sizes[:index]) for index in range(len(sizes))]
        carried = self._form.carried
        names = [name for name, _ in self._form.parts]
        self._stacks = list(zip(names, starts, strict=True))[carried:]
        self._stack_sizes = [size // self._count for size in sizes[carried:]]
        self._operand_repeats = [arg in program.repeating for arg in node.args]
        self._carried_repeats = [body.outputs[name] in body.repeating for name, _ in self._form.parts[:carried]]

    @property
    def calls(self) -> int:
        """The number of nodes that all turns compute."""
        count: int = self._count
        return count * self._body.calls

    def function(self, *operands: Value) -> Value:
        """Return the result for these operands."""
        return self._result(operands, None, ())

    def watched(self, watch: Watch, place: Place, *operands: Value) -> Value:
        """Return the result for these operands. ``watch`` receives every operation within each turn."""
        return self._result(operands, watch, place)

    def _result(self, operands: Sequence[Value], watch: Watch | None, place: Place) -> Value:
        form, in_order = self._form, self._backend.in_order
        carried, sequences = form.carried, slice(form.carried, form.carried + form.sequences)
        ordered = [
            in_order(operand) if repeats else operand
            for operand, repeats in zip(operands, self._operand_repeats, strict=True)
        ]
        state = ordered[:carried]
        constants = ordered[sequences.stop :]
        result = self._backend.empty(self._type.dtype, self._type.elements)
        for turn in range(self._count):
            at = self._count - 1 - turn if self._reverse else turn
            parts = [sequence[at] for sequence in ordered[sequences]]
            ends = self._body.values([*state, *parts, *constants], watch, (*place, turn))
            state = [
                in_order(ends[name]) if repeats else ends[name]
                for (name, _), repeats in zip(form.parts, self._carried_repeats, strict=False)
            ]
            for (name, first), size in zip(self._stacks, self._stack_sizes, strict=True):
                start = first + at * size
                result[start : start + size] = ends[name].reshape(-1)
        start = 0
        for value, (_, kind) in zip(state, form.parts, strict=False):
            result[start : start + kind.elements] = value.reshape(-1)
            start += kind.elements
        return result


class Loop:
    """A program as a list of functions. It holds no reference to the program, so that the program can be freed."""

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
        # The functions and operands are looked up once here, since such look-ups take longer than a small node.
        self._flat = [(step.function, operands_of(step.args), step.result, step.dead) for step in self._steps]

    def _in_order(self, function: Function) -> Function:
        """Return a function that also brings the result of ``function`` into C order, because a library may return a
        result in the layout of an operand.
        """
        return lambda *operands: self._backend.in_order(function(*operands))

    @property
    def calls(self) -> int:
        """The number of nodes that a run computes, with all turns of repeats."""
        return len(self._steps) + sum(step.calls for step in self._steps if isinstance(step, _Turns))

    def run(self, inputs: Mapping[str, Held], watch: Watch | None = None) -> dict[str, Array]:
        """Return the outputs by name, on the host.

        ``watch`` receives the place and the result of every operation, which a bisection needs.
        """
        backend = self._backend
        with backend.session():
            outputs = self.values(self._uploaded(inputs), watch)
            return {name: backend.download(outputs[name]) for name in self._outputs}

    def _uploaded(self, inputs: Mapping[str, Held]) -> list[Value]:
        return [self._backend.upload(inputs[name]) for name in self._inputs]

    def values(self, inputs: Sequence[Value], watch: Watch | None = None, place: Place = ()) -> dict[str, Value]:
        """Return the outputs by name.

        ``inputs`` are in the order of the program; all values are arrays of the library.
        """
        values = self.begun(inputs)
        if watch is not None:
            return self._watched(values, watch, place)
        for function, operands, result, dead in self._flat:
            values[result] = function(*operands(values))
            for number in dead:
                values[number] = None
        return self.ended(values)

    def begun(self, inputs: Sequence[Value]) -> list[Value]:
        """Return a list with an entry for each value.

        It holds the inputs and constants, and None for the other values.
        """
        return [*inputs, *self._constants, *[None] * len(self._steps)]

    def ended(self, values: Sequence[Value]) -> dict[str, Value]:
        """Return the outputs by name. ``values`` is the list of all values."""
        return {name: values[number] for name, number in self._outputs.items()}

    def function_of(self, number: int) -> Function:
        """Return the function of the node that computes the value with this number."""
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
        inputs: Mapping[str, Held],
        donated: Collection[str] = (),
        release: Callable[[], None] = nothing_reads,
    ) -> Mapping[str, Held]:
        """Return the outputs in canonical form, in memory of their own.

        Raises NotFinite if an output holds NaN or infinity. No input is overwritten, so ``release`` is not called.
        """
        backend = self._backend
        with backend.session():
            return backend.finish(self, self._uploaded(inputs))
