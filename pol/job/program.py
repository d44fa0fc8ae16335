"""Programs: flat lists of primitive operations with typed inputs, constants and named outputs.

Values are numbered: inputs first, then constants, then one value per node. A :class:`Program` exists only in checked
form. Making a Program infers the type of every value, so a program can be allocated and run without further checks.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from domain import codec
from domain.bounds import Length, Range, Size, own_checker
from domain.errors import Refusal
from pol.errors import JobError
from pol.job.strict_json import read_part
from pol.limits import LIMITS, MAX_NESTED, MAX_REPEATED, Limits
from pol.ops.primitive import OpWork
from pol.ops.table import PRIMITIVES, infer
from pol.values import Dimensions, DType, TensorName, TensorSpec, TensorType

_REMEDY = "make the job smaller or ask the validator for larger limits"
_ITEMS_MAX = 2**16
"""Largest number of entries of any list of a program."""
ValueNumber = Annotated[int, Range(0, 2**31)]


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant: its dtype, its shape, and its elements as little-endian bytes."""

    dtype: DType
    shape: Dimensions
    data: Annotated[bytes, Size(0, 2**24)]

    @property
    def type(self) -> TensorType:
        """Dtype and shape without the elements."""
        return TensorType(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: the name of its primitive, the value numbers of its operands, and its attributes."""

    op: Annotated[str, Size(0, 64)]
    args: Annotated[tuple[ValueNumber, ...], Length(0, MAX_REPEATED)]
    attrs: Mapping[Annotated[str, Size(0, 64)], Any]


@dataclass(frozen=True, eq=False)
class Program:
    """A checked program. Make one with :func:`make_program`, :func:`parse_program` or :class:`ProgramBuilder`.

    Values are numbered: the named and typed ``inputs`` from 0, then ``constants``, then ``nodes``. ``outputs`` maps
    names to value numbers, in name order. ``types`` holds the type of every value. Two programs are equal only if they
    are the same object, so that executors can use a program as the key of a cache. To compare the content of programs,
    compare their ``program_json``.
    """

    inputs: tuple[TensorSpec, ...]
    constants: tuple[Constant, ...]
    nodes: tuple[Node, ...]
    outputs: Mapping[str, int]
    types: tuple[TensorType, ...]

    @property
    def first_node(self) -> int:
        """Value number of the first node."""
        return len(self.inputs) + len(self.constants)

    @cached_property
    def bodies(self) -> tuple[tuple["Program", int], ...]:
        """The bodies of the ``repeat`` nodes, each with its number of turns."""
        return tuple((node.attrs["body"], node.attrs["count"]) for node in self.nodes if node.op == "repeat")

    @cached_property
    def nested(self) -> int:
        """Largest depth of repeats within repeats; 0 if the program has no repeat."""
        return max((1 + body.nested for body, _ in self.bodies), default=0)

    @cached_property
    def unrolled_nodes(self) -> int:
        """Number of nodes that the program would have if every turn of its repeats were written out, plus the nodes of
        the repeats themselves.
        """
        return len(self.nodes) + sum(count * body.unrolled_nodes for body, count in self.bodies)

    @cached_property
    def may_fail(self) -> bool:
        """True if a run of the program can end in OutOfRange."""
        own = any(PRIMITIVES[node.op].may_fail for node in self.nodes)
        return own or any(body.may_fail for body, _ in self.bodies)

    @cached_property
    def constants_size(self) -> int:
        """Total size in bytes of the constants of the program and of its bodies."""
        own = sum(constant.type.size for constant in self.constants)
        return own + sum(body.constants_size for body, _ in self.bodies)

    @cached_property
    def repeating(self) -> frozenset[int]:
        """Numbers of values in which several elements may share one address.

        They are views that repeat elements, and reshapes of such views.
        """
        repeating: set[int] = set()
        for number, node in enumerate(self.nodes, self.first_node):
            if PRIMITIVES[node.op].repeats or (node.op == "reshape" and node.args[0] in repeating):
                repeating.add(number)
        return frozenset(repeating)

    def memory_of(self) -> list[int]:
        """Return, for each value, the number of the value in whose memory it lies.

        A reshape lies in the memory of its operand, unless the operand repeats elements. Every other value lies in its
        own memory.
        """
        owners = list(range(len(self.types)))
        for number, node in enumerate(self.nodes, self.first_node):
            if node.op == "reshape" and node.args[0] not in self.repeating:
                owners[number] = owners[node.args[0]]
        return owners

    def works(self) -> Iterator[OpWork]:
        """Yield the work of each node, as the table of primitives defines it.

        A reshape of a value that repeats elements must copy them, and the work of this copy is added.
        """
        for number, node in enumerate(self.nodes, self.first_node):
            operands = [self.types[arg] for arg in node.args]
            work = PRIMITIVES[node.op].work(operands, node.attrs, self.types[number])
            if node.op == "reshape" and node.args[0] in self.repeating:
                work += OpWork(moved=2 * self.types[number].size)
            yield work

    @cached_property
    def work(self) -> OpWork:
        """Work of one run of the program: the sum of the works of its nodes."""
        return sum(self.works(), OpWork())

    @cached_property
    def last_uses(self) -> tuple[tuple[int, ...], ...]:
        """For each node, the numbers of the results that can be freed after this node: it is the last one that uses
        them, and they are not outputs.
        """
        outputs = set(self.outputs.values())
        last = {self.first_node + offset: offset for offset in range(len(self.nodes))}
        for offset, node in enumerate(self.nodes):
            for number in node.args:
                if number in last:
                    last[number] = offset
        result: list[list[int]] = [[] for _ in self.nodes]
        for number, offset in last.items():
            if number not in outputs:
                result[offset].append(number)
        return tuple(tuple(numbers) for numbers in result)

    @cached_property
    def peak_size(self) -> int:
        """Largest number of bytes that a run of the program holds at once, on any executor.

        These bytes hold the values that are alive and the scratch memory of the running node. Constants and inputs are
        alive during the whole run. Inputs count twice, because an executor may copy them. At the end, each output in
        turn is copied into canonical form. Blocks of a fixed size (``BLOCKS_SIZE``) are not counted.
        """
        inputs = sum(spec.type.size for spec in self.inputs)
        always = 2 * inputs + self.constants_size
        peak, live = self._inner_sizes
        outputs = [self.types[number] for number in self.outputs.values()]
        results = {number for number in self.outputs.values() if number >= self.first_node}
        # An output that is an input, or that has two names, is not freed after its copy.
        extra = sum(v.size for v in outputs) - sum(self.types[number].size for number in results)
        # This counts a copy of the largest output, and one flag per element of it.
        largest = max((value.size + value.elements for value in outputs), default=0)
        return always + max(peak, live + extra + largest)

    @property
    def inner_size(self) -> int:
        """Largest number of bytes that a run of this body holds at once, without its inputs and constants."""
        return self._inner_sizes[0]

    @cached_property
    def _inner_sizes(self) -> tuple[int, int]:
        """Two numbers of bytes that a run holds, without its inputs and constants: the largest number, and the number
        at its end.
        """
        live = peak = 0
        # For each result of a node, the number of live values that use its memory.
        sharing = dict.fromkeys(range(self.first_node, len(self.types)), 0)
        memory_of = self.memory_of()
        for offset, (node, dead) in enumerate(zip(self.nodes, self.last_uses, strict=True)):
            row = PRIMITIVES[node.op]
            operands = [self.types[number] for number in node.args]
            result = self.types[self.first_node + offset]
            memory = memory_of[self.first_node + offset]
            if memory == self.first_node + offset:
                live += result.size
            if memory in sharing:
                sharing[memory] += 1
            scratch = row.scratch_size(operands, node.attrs, result)
            if row.in_order:
                scratch += sum(self.types[number].size for number in self.repeating.intersection(node.args))
            peak = max(peak, live + scratch)
            for memory in filter(sharing.__contains__, map(memory_of.__getitem__, dead)):
                sharing[memory] -= 1
                live -= 0 if sharing[memory] else self.types[memory].size
        return peak, live

    def output_types(self) -> dict[str, TensorType]:
        """Return the type of each output by its name, in name order."""
        return {name: self.types[number] for name, number in self.outputs.items()}

    def changed_outputs(self) -> dict[str, TensorType]:
        """Return the type of each output that a run may change, in name order.

        An output that is just the input of the same name is left out.
        """
        own = {spec.name: number for number, spec in enumerate(self.inputs)}
        return {name: self.types[number] for name, number in self.outputs.items() if own.get(name) != number}


_test_name = own_checker(TensorName, "")


def _check_name(name: str, field: str) -> None:
    try:
        _test_name(name)
    except Refusal as refusal:
        raise JobError(field, refusal.reason, refusal.remedy) from None


def _check_value(value: TensorType, limits: Limits, field: str) -> None:
    if value.elements > limits.value_elements:
        reason = f"the value has {value.elements} elements, more than {limits.value_elements}"
        raise JobError(field, reason, _REMEDY)


def _check_leaves(inputs: Sequence[TensorSpec], constants: Sequence[Constant], limits: Limits) -> None:
    for field, count, most in (
        ("inputs", len(inputs), limits.inputs),
        ("constants", len(constants), limits.nodes),
    ):
        if count > most:
            raise JobError(field, f"there are {count}, more than {most}", _REMEDY)
    if len({spec.name for spec in inputs}) != len(inputs):
        raise JobError("inputs", "a name occurs twice", "give every input a name of its own")
    for index, spec in enumerate(inputs):
        _check_name(spec.name, f"inputs[{index}].name")
        _check_value(spec.type, limits, f"inputs[{index}].shape")
    size = 0
    for index, constant in enumerate(constants):
        size += len(constant.data)
        if size > limits.constants_size:
            reason = f"the constants up to this one have more than {limits.constants_size} bytes"
            remedy = "move large constants into the global state"
            raise JobError(f"constants[{index}].data", reason, remedy)
        if constant.type.size != len(constant.data):
            reason = f"{constant.type} takes {constant.type.size} bytes, not {len(constant.data)}"
            raise JobError(f"constants[{index}].data", reason, "write every element of the shape")
        if constant.type.dtype == "bool" and constant.data.strip(b"\x00\x01"):
            raise JobError(f"constants[{index}].data", "an element of bool is 00 or 01", "write 00 or 01")


def infer_node(
    op: str, operands: Sequence[TensorType], values: Mapping[str, object], limits: Limits = LIMITS
) -> tuple[Mapping[str, Any], TensorType]:
    """Check one node as :func:`pol.ops.table.infer` does. An attribute that is a program in JSON is parsed first."""
    row = PRIMITIVES.get(op)
    for name, attribute in row.attributes.items() if row else ():
        if attribute.kind == "program" and isinstance(values.get(name), Mapping):
            body = parse_program(values[name], limits, f"attrs.{name}")
            values = {**values, name: body}
    return infer(op, operands, values)


def _infer_nodes(types: list[TensorType], nodes: Sequence[Node], limits: Limits) -> tuple[Node, ...]:
    """Append the type of each node's result to ``types``. Return the nodes with their attributes in checked form."""
    if len(nodes) > limits.nodes:
        raise JobError("nodes", f"there are {len(nodes)} nodes, more than {limits.nodes}", _REMEDY)
    checked: list[Node] = []
    for index, node in enumerate(nodes):
        field = f"nodes[{index}]"
        for position, number in enumerate(node.args):
            if not 0 <= number < len(types):
                reason = f"value {number} does not exist before this node"
                raise JobError(
                    f"{field}.args[{position}]",
                    reason,
                    "order the nodes so that operands come first",
                )
        try:
            operands = [types[number] for number in node.args]
            attributes, result = infer_node(node.op, operands, node.attrs, limits)
        except JobError as error:
            raise error.under(field) from None
        _check_value(result, limits, field)
        types.append(result)
        checked.append(Node(node.op, node.args, attributes))
    return tuple(checked)


def _check_needed(nodes: Sequence[Node], first_node: int, outputs: Mapping[str, int]) -> None:
    """Raise JobError if the result of a node is not needed for any output, since such a node would only add work."""
    needed = set(outputs.values())
    for offset in reversed(range(len(nodes))):
        if first_node + offset not in needed:
            reason = f"no output needs the result of this {nodes[offset].op}"
            remedy = "remove the node, or build the job again with assay job build"
            raise JobError(f"nodes[{offset}]", reason, remedy)
        needed.update(nodes[offset].args)


def make_program(
    inputs: Sequence[TensorSpec],
    constants: Sequence[Constant],
    nodes: Sequence[Node],
    outputs: Mapping[str, int],
    limits: Limits = LIMITS,
) -> Program:
    """Check the parts of a program, and return the program with the type of every value. No value is allocated.

    Raises JobError with a field relative to the program, such as ``nodes[17].attrs.dims``.
    """
    _check_leaves(inputs, constants, limits)
    types = [spec.type for spec in inputs] + [constant.type for constant in constants]
    checked = _infer_nodes(types, nodes, limits)
    if len(outputs) > limits.inputs:
        raise JobError("outputs", f"there are {len(outputs)} outputs, more than {limits.inputs}", _REMEDY)
    for name, number in outputs.items():
        _check_name(name, f"outputs.{name[:40]}")
        if not 0 <= number < len(types):
            remedy = f"use a value number from 0 to {len(types) - 1}"
            raise JobError(f"outputs.{name}", f"value {number} does not exist", remedy)
    _check_needed(checked, len(types) - len(checked), outputs)
    ordered = {name: outputs[name] for name in sorted(outputs)}
    program = Program(
        inputs=tuple(inputs),
        constants=tuple(constants),
        nodes=checked,
        outputs=ordered,
        types=tuple(types),
    )
    if program.nested > MAX_NESTED:
        reason = f"repeats are nested {program.nested} deep, more than {MAX_NESTED}"
        raise JobError("nodes", reason, "unroll the innermost one")
    if program.unrolled_nodes > limits.unrolled_nodes:
        reason = (
            f"with all repeats written out, there are {program.unrolled_nodes} nodes, more than {limits.unrolled_nodes}"
        )
        raise JobError("nodes", reason, _REMEDY)
    if program.peak_size > limits.live_size:
        reason = f"needs {program.peak_size} bytes at once, more than {limits.live_size}"
        raise JobError("nodes", reason, _REMEDY)
    return program


def part_of(program: Program, names: Collection[str]) -> Program:
    """Return the program of some outputs: their names, and the inputs, constants and nodes that they need."""
    outputs = {name: number for name, number in program.outputs.items() if name in names}
    needed, first = set(outputs.values()), program.first_node
    for offset in reversed(range(len(program.nodes))):
        if first + offset in needed:
            needed.update(program.nodes[offset].args)
    kept = sorted(needed)
    numbers = {old: new for new, old in enumerate(kept)}
    inputs = len(program.inputs)
    return Program(
        inputs=tuple(program.inputs[number] for number in kept if number < inputs),
        constants=tuple(program.constants[number - inputs] for number in kept if inputs <= number < first),
        nodes=tuple(_renumbered(program.nodes[number - first], numbers) for number in kept if number >= first),
        outputs={name: numbers[number] for name, number in outputs.items()},
        types=tuple(program.types[number] for number in kept),
    )


def _renumbered(node: Node, numbers: Mapping[int, int]) -> Node:
    return Node(node.op, tuple(numbers[arg] for arg in node.args), node.attrs)


class ProgramBuilder:
    """A builder that assembles a program node by node. Every call checks the node that it adds at once.

    Inputs, constants and nodes may be added in any order. Each call returns a handle of the new value, which is valid
    until :meth:`build` numbers the values.
    """

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._inputs: list[tuple[int, TensorSpec]] = []
        self._constants: list[tuple[int, Constant]] = []
        self._nodes: list[tuple[int, Node]] = []
        self._types: list[TensorType] = []
        self._outputs: dict[str, int] = {}

    def _next(self, value: TensorType) -> int:
        self._types.append(value)
        return len(self._types) - 1

    def type(self, handle: int) -> TensorType:
        """Return the type of the value with this handle."""
        return self._types[handle]

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> int:
        """Add an input and return the handle of its value."""
        spec = TensorSpec(name, dtype, tuple(shape))
        handle = self._next(spec.type)
        self._inputs.append((handle, spec))
        return handle

    def constant(self, dtype: str, shape: Sequence[int], data: bytes) -> int:
        """Add a constant and return the handle of its value. ``data`` are its elements as little-endian bytes."""
        constant = Constant(dtype, tuple(shape), data)
        handle = self._next(constant.type)
        self._constants.append((handle, constant))
        return handle

    def node(self, op: str, *args: int, **attrs: object) -> int:
        """Add a node and return the handle of its result.

        Raises JobError if the node is not valid for its primitive.
        """
        try:
            operands = [self._types[number] for number in args]
            checked, result = infer_node(op, operands, attrs, self._limits)
        except JobError as error:
            raise error.under(f"nodes[{len(self._nodes)}]") from None
        handle = self._next(result)
        self._nodes.append((handle, Node(op, args, checked)))
        return handle

    def output(self, name: str, handle: int) -> None:
        """Make a value an output with this name. A second call with the same name replaces the first."""
        self._outputs[name] = handle

    def build(self) -> Program:
        """Return the checked program. Nodes and constants that no output needs are left out."""
        needed = set(self._outputs.values())
        for handle, node in reversed(self._nodes):
            if handle in needed:
                needed.update(node.args)
        constants = [(handle, constant) for handle, constant in self._constants if handle in needed]
        nodes = [(handle, node) for handle, node in self._nodes if handle in needed]
        handles = [handle for part in (self._inputs, constants, nodes) for handle, _ in part]
        number = {handle: index for index, handle in enumerate(handles)}
        return make_program(
            [spec for _, spec in self._inputs],
            [constant for _, constant in constants],
            [Node(node.op, tuple(number[arg] for arg in node.args), node.attrs) for _, node in nodes],
            {name: number[handle] for name, handle in self._outputs.items()},
            self._limits,
        )


@dataclass(frozen=True, slots=True)
class _Described:
    """The parts of a program as they are written in JSON, not yet checked."""

    inputs: Annotated[tuple[TensorSpec, ...], Length(0, _ITEMS_MAX)]
    constants: Annotated[tuple[Constant, ...], Length(0, _ITEMS_MAX)]
    nodes: Annotated[tuple[Node, ...], Length(0, _ITEMS_MAX)]
    outputs: Mapping[TensorName, ValueNumber]


def parse_program(value: object, limits: Limits = LIMITS, field: str = "program") -> Program:
    """Return the checked program that ``value`` describes; ``value`` is parsed JSON.

    Raises JobError with the whole field, such as ``step.nodes[17].attrs.dims``.
    """
    described = read_part(_Described, value, field)
    try:
        return make_program(described.inputs, described.constants, described.nodes, described.outputs, limits)
    except JobError as error:
        raise error.under(field) from None


def program_json(program: Program) -> dict[str, object]:
    """Return the JSON values that describe a program. :func:`parse_program` reads them back."""
    nodes = [{"op": node.op, "args": list(node.args), "attrs": _attributes_json(node)} for node in program.nodes]
    return {
        "inputs": codec.to_plain(program.inputs),
        "constants": codec.to_plain(program.constants),
        "nodes": nodes,
        "outputs": dict(program.outputs),
    }


def _attributes_json(node: Node) -> dict[str, object]:
    return {name: _attribute_json(value) for name, value in node.attrs.items()}


def _attribute_json(value: Any) -> object:
    if isinstance(value, Program):
        return program_json(value)
    return list(value) if isinstance(value, tuple) else value
