"""Programs: flat lists of primitive operations with typed inputs, constants and named outputs.

Values are numbered: inputs first, then constants, then one per node. A :class:`Program` exists only
in checked form: making one infers the type of every value, so whoever holds one may allocate and
run it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pol.errors import JobError
from pol.job.strict_json import take_int, take_list, take_object, take_str
from pol.limits import LIMITS, MAX_DIMENSION, MAX_OPERANDS, MAX_RANK, Limits
from pol.ops.primitive import AttributeValue, Traffic, Work
from pol.ops.table import PRIMITIVES, infer
from pol.values import ITEM_SIZE, TensorSpec, TensorType

_REMEDY = "make the job smaller or ask the validator for larger limits"
_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
MAX_NAME = 160
"""Characters of the name of an input or output."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant: its type and its elements as little-endian bytes."""

    type: TensorType
    data: bytes


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: name in the table, value numbers of the operands, attributes."""

    op: str
    args: tuple[int, ...]
    attrs: Mapping[str, AttributeValue]


@dataclass(frozen=True, eq=False)
class Program:
    """A checked program. Make one with :func:`make_program`, :func:`parse_program` or
    :class:`ProgramBuilder`.

    Two programs are the same object or different (so that executors can remember them); compare
    ``program_json`` for equality of content.

    Args:
        inputs: named and typed; value numbers from 0.
        constants: value numbers after the inputs.
        nodes: value numbers after the constants.
        outputs: name to value number, in name order.
        types: type of every value.
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
    def works(self) -> tuple[Work, ...]:
        """Work of each node, from the table of primitives; a view of a strided view moves its elements."""
        result = []
        for offset, node in enumerate(self.nodes):
            number = self.first_node + offset
            operands = [self.types[arg] for arg in node.args]
            primitive = PRIMITIVES[node.op]
            work = primitive.work(operands, self.types[number])
            if primitive.traffic is Traffic.VIEW and self._is_strided(node.args[0]):
                work = replace(work, moved=2 * self.types[number].size)
            result.append(work)
        return tuple(result)

    def _is_strided(self, number: int) -> bool:
        """Tell whether a value is a view whose elements do not lie one after another."""
        offset = number - self.first_node
        return offset >= 0 and PRIMITIVES[self.nodes[offset].op].strided

    @cached_property
    def work(self) -> Work:
        """Work of one run: the sum over the nodes."""
        return Work(
            sum(work.products for work in self.works),
            sum(work.elements for work in self.works),
            sum(work.moved for work in self.works),
        )

    @cached_property
    def last_uses(self) -> tuple[tuple[int, ...], ...]:
        """For each node, the values of earlier nodes (or its own) that nothing needs after it."""
        kept = set(self.outputs.values())
        last = {self.first_node + offset: offset for offset in range(len(self.nodes))}
        for offset, node in enumerate(self.nodes):
            for number in node.args:
                if number in last:
                    last[number] = offset
        result: list[list[int]] = [[] for _ in self.nodes]
        for number, offset in last.items():
            if number not in kept:
                result[offset].append(number)
        return tuple(tuple(numbers) for numbers in result)

    @cached_property
    def peak_size(self) -> int:
        """Largest number of bytes of values that are alive at once, with what the running node needs
        beside them (inputs and constants are always alive).
        """
        live = sum(value.size for value in self.types[: self.first_node])
        peak = live
        for offset, dead in enumerate(self.last_uses):
            node = self.nodes[offset]
            live += self.types[self.first_node + offset].size
            read = sum(self.types[number].elements for number in node.args)
            peak = max(peak, live + read * PRIMITIVES[node.op].scratch)
            live -= sum(self.types[number].size for number in dead)
        return peak

    def output_types(self) -> dict[str, TensorType]:
        """Return the type of every output, in name order."""
        return {name: self.types[number] for name, number in self.outputs.items()}


def _check_name(name: str, field: str) -> str:
    if len(name) > MAX_NAME or _NAME.fullmatch(name) is None:
        remedy = "use words of letters, digits and underscores with dots between them"
        raise JobError(field, f"{name[:40]!r} is not a name", remedy)
    return name


def _check_value(value: TensorType, limits: Limits, field: str) -> None:
    if value.elements > limits.value_elements:
        reason = f"the value has {value.elements} elements, more than {limits.value_elements}"
        raise JobError(field, reason, _REMEDY)


def _check_leaves(
    inputs: Sequence[TensorSpec], constants: Sequence[Constant], limits: Limits
) -> None:
    if len({spec.name for spec in inputs}) != len(inputs):
        raise JobError("inputs", "a name occurs twice", "give every input a name of its own")
    for index, spec in enumerate(inputs):
        _check_name(spec.name, f"inputs[{index}].name")
        _check_value(spec.type, limits, f"inputs[{index}].shape")
    for index, constant in enumerate(constants):
        if constant.type.size != len(constant.data):
            reason = f"{constant.type} takes {constant.type.size} bytes, not {len(constant.data)}"
            raise JobError(f"constants[{index}].data", reason, "write all elements")
        if constant.type.dtype == "bool" and constant.data.strip(b"\x00\x01"):
            raise JobError(
                f"constants[{index}].data", "an element of bool is 00 or 01", "write 00 or 01"
            )
    size = sum(len(constant.data) for constant in constants)
    if size > limits.constants_size:
        reason = f"have {size} bytes together, more than {limits.constants_size}"
        raise JobError("constants", reason, "move large constants into the global state")


def _infer_nodes(
    types: list[TensorType], nodes: Sequence[Node], limits: Limits
) -> tuple[Node, ...]:
    """Append the type of every node to ``types`` and return the nodes with their attributes in
    checked form.
    """
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
            attributes, result = infer(node.op, [types[number] for number in node.args], node.attrs)
        except JobError as error:
            raise error.under(field) from None
        _check_value(result, limits, field)
        types.append(result)
        checked.append(Node(node.op, node.args, attributes))
    return tuple(checked)


def make_program(
    inputs: Sequence[TensorSpec],
    constants: Sequence[Constant],
    nodes: Sequence[Node],
    outputs: Mapping[str, int],
    limits: Limits = LIMITS,
) -> Program:
    """Check a program and infer the type of every value; nothing of its sizes is allocated.

    Raises:
        JobError: with a field relative to the program, such as ``nodes[17].attrs.dims``.
    """
    _check_leaves(inputs, constants, limits)
    types = [spec.type for spec in inputs] + [constant.type for constant in constants]
    checked = _infer_nodes(types, nodes, limits)
    if len(outputs) > limits.inputs:
        raise JobError(
            "outputs", f"there are {len(outputs)} outputs, more than {limits.inputs}", _REMEDY
        )
    for name, number in outputs.items():
        _check_name(name, f"outputs.{name[:40]}")
        if not 0 <= number < len(types):
            raise JobError(
                f"outputs.{name}", f"value {number} does not exist", "name a value of the program"
            )
    ordered = {name: outputs[name] for name in sorted(outputs)}
    program = Program(tuple(inputs), tuple(constants), checked, ordered, tuple(types))
    if program.peak_size > limits.live_size:
        reason = f"needs {program.peak_size} bytes at once, more than {limits.live_size}"
        raise JobError("nodes", reason, _REMEDY)
    return program


class ProgramBuilder:
    """Builds a program node by node; every call checks its node at once.

    Values are handles that hold until :meth:`build` numbers them (inputs, constants and nodes may
    come in any order).
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
        """Return the type of a value."""
        return self._types[handle]

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> int:
        """Add an input and return its handle."""
        spec = TensorSpec(name, dtype, tuple(shape))
        handle = self._next(spec.type)
        self._inputs.append((handle, spec))
        return handle

    def constant(self, dtype: str, shape: Sequence[int], data: bytes) -> int:
        """Add a constant of little-endian ``data`` and return its handle."""
        constant = Constant(TensorType(dtype, tuple(shape)), data)
        handle = self._next(constant.type)
        self._constants.append((handle, constant))
        return handle

    def node(self, op: str, *args: int, **attrs: object) -> int:
        """Add a node and return the handle of its result; JobError if the table refuses it."""
        try:
            checked, result = infer(op, [self._types[number] for number in args], attrs)
        except JobError as error:
            raise error.under(f"nodes[{len(self._nodes)}]") from None
        handle = self._next(result)
        self._nodes.append((handle, Node(op, args, checked)))
        return handle

    def output(self, name: str, handle: int) -> None:
        """Name a value as an output; a second call with the same name replaces the first."""
        self._outputs[name] = handle

    def build(self) -> Program:
        """Return the checked program, without the nodes and constants that no output needs."""
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
            [
                Node(node.op, tuple(number[arg] for arg in node.args), node.attrs)
                for _, node in nodes
            ],
            {name: number[handle] for name, handle in self._outputs.items()},
            self._limits,
        )


def take_type(fields: Mapping[str, object], limits: Limits, field: str) -> TensorType:
    """Return the type that ``fields`` name by ``dtype`` and ``shape``, with its size checked."""
    dtype = take_str(fields["dtype"], 8, f"{field}.dtype")
    if dtype not in ITEM_SIZE:
        raise JobError(
            f"{field}.dtype", f"{dtype!r} is not a dtype", f"use one of {', '.join(ITEM_SIZE)}"
        )
    shape = take_list(fields["shape"], MAX_RANK, f"{field}.shape")
    sizes = (
        take_int(size, 0, MAX_DIMENSION, f"{field}.shape[{index}]")
        for index, size in enumerate(shape)
    )
    result = TensorType(dtype, tuple(sizes))
    _check_value(result, limits, f"{field}.shape")
    return result


def take_spec(value: object, limits: Limits, field: str) -> TensorSpec:
    """Return the named tensor that ``value`` describes: name, dtype, shape."""
    fields = take_object(value, ("name", "dtype", "shape"), field)
    name = _check_name(take_str(fields["name"], MAX_NAME, f"{field}.name"), f"{field}.name")
    found = take_type(fields, limits, field)
    return TensorSpec(name, found.dtype, found.shape)


def _take_constant(value: object, limits: Limits, field: str) -> Constant:
    fields = take_object(value, ("dtype", "shape", "data"), field)
    text = take_str(fields["data"], 2 * limits.constants_size, f"{field}.data")
    if len(text) % 2 or set(text) - set("0123456789abcdef"):
        raise JobError(f"{field}.data", "is not lower-case hex", "write little-endian bytes as hex")
    return Constant(take_type(fields, limits, field), bytes.fromhex(text))


def _take_node(value: object, field: str) -> Node:
    fields = take_object(value, ("op", "args", "attrs"), field)
    args = take_list(fields["args"], MAX_OPERANDS, f"{field}.args")
    numbers = [take_int(arg, 0, 2**31, f"{field}.args[{index}]") for index, arg in enumerate(args)]
    attrs = fields["attrs"]
    if not isinstance(attrs, dict):
        raise JobError(f"{field}.attrs", "is not an object", "write the attributes by name")
    return Node(take_str(fields["op"], 64, f"{field}.op"), tuple(numbers), attrs)


def parse_program(value: object, limits: Limits = LIMITS, field: str = "program") -> Program:
    """Return the checked program that parsed JSON describes.

    Raises:
        JobError: with the whole field, such as ``step.nodes[17].attrs.dims``.
    """
    fields = take_object(value, ("inputs", "constants", "nodes", "outputs"), field)
    inputs = take_list(fields["inputs"], limits.inputs, f"{field}.inputs")
    constants = take_list(fields["constants"], limits.nodes, f"{field}.constants")
    nodes = take_list(fields["nodes"], limits.nodes, f"{field}.nodes")
    outputs = fields["outputs"]
    if not isinstance(outputs, dict):
        raise JobError(f"{field}.outputs", "is not an object", "name the outputs")
    specs = [
        take_spec(entry, limits, f"{field}.inputs[{index}]") for index, entry in enumerate(inputs)
    ]
    values = [
        _take_constant(entry, limits, f"{field}.constants[{index}]")
        for index, entry in enumerate(constants)
    ]
    steps = [_take_node(entry, f"{field}.nodes[{index}]") for index, entry in enumerate(nodes)]
    named = {
        name: take_int(number, 0, 2**31, f"{field}.outputs.{name[:40]}")
        for name, number in outputs.items()
    }
    try:
        return make_program(specs, values, steps, named, limits)
    except JobError as error:
        raise error.under(field) from None


def spec_json(spec: TensorSpec) -> dict[str, object]:
    """Return a named tensor as JSON values."""
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}


def program_json(program: Program) -> dict[str, object]:
    """Return a program as JSON values; :func:`parse_program` gives it back."""
    constants = [
        {
            "dtype": constant.type.dtype,
            "shape": list(constant.type.shape),
            "data": constant.data.hex(),
        }
        for constant in program.constants
    ]
    nodes = [
        {
            "op": node.op,
            "args": list(node.args),
            "attrs": {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in node.attrs.items()
            },
        }
        for node in program.nodes
    ]
    return {
        "inputs": [spec_json(spec) for spec in program.inputs],
        "constants": constants,
        "nodes": nodes,
        "outputs": dict(program.outputs),
    }
