"""The definition of a primitive: its attributes, its shape rule, its work, and its reference in NumPy.

Each primitive is defined in the file of its family (``elementwise.py``, ``shape.py``, …), and ``table.py`` collects all
of them. Shape rules work on plain integers, so a whole program is checked before anything is allocated.

The work of a node has four parts, and a program's work is the sum over its nodes:

* ``products``: 2 x M x N x K x batch for a ``matmul``, the same count as torch's ``FlopCounterMode``, and three times
  that for 22 bits.
* ``elements``: the number of computed elements times the operations per element (the primitive's ``cost``). Each run of
  elements that a kernel processes in one inner loop adds ``FLOPS_PER_RUN``, since short rows cost more than long rows.
* ``moved``: bytes read and written, each of which counts as ``FLOPS_PER_BYTE``.
* ``calls``: calls of a library's kernels, each of which counts as ``FLOPS_PER_CALL``, even if it does little.

The constants make the work of a node proportional to its time on the reference executor; large products set the scale
(``python -m benchmarks work``). Values are in C order on every executor, so a reshape is a view and moves nothing. If
its operand repeats elements, a reshape must copy, and ``program.py`` counts the copy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import Any

from pol.errors import JobError
from pol.limits import MAX_DIMENSION, MAX_INTEGER, MAX_RANK
from pol.ops.splits import Split
from pol.values import ITEM_SIZE, TensorType

FLOPS_PER_CALL = 10_000
"""Work of calling a kernel of a library that computes no elements; no call costs less."""

FLOPS_PER_BYTE = 3
"""Work of reading or writing a byte, for large values, which are in memory and not in a cache."""

FLOPS_PER_RUN = 800
"""Work of starting an inner loop of a kernel, independent of its number of elements."""

AttributeValue = Any
"""An integer, a string, a bool, a tuple of integers, or (for ``repeat``) a program."""
Attributes = Mapping[str, Any]
"""Attributes in checked form: exactly the attributes of the primitive, each an :data:`AttributeValue`."""
Operands = Sequence[TensorType]
ShapeRule = Callable[[Operands, Attributes], TensorType]
Function = Callable[..., Any]
"""A function of the operands that returns the result, all as arrays of one library. It never writes to its operands."""

FLOATS = ("f32",)
NUMBERS = ("f32", "i64")
BOOLS = ("bool",)


@dataclass(frozen=True, slots=True)
class Attribute:
    """The values that an attribute may have.

    ``kind`` is ``int``, ``ints`` (a list of at most eight integers), ``choice`` (one of the integers ``choices``),
    ``bool``, ``dtype``, ``element`` (one element as little-endian hex), or ``program``. The integers of ``int`` and
    ``ints`` are in ``low``..``high``.
    """

    kind: str
    low: int = 0
    high: int = MAX_DIMENSION
    choices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OpWork:
    """The work of a node or a program: FLOPs of products, elementwise operations, bytes moved, and kernel calls."""

    products: int = 0
    elements: int = 0
    moved: int = 0
    calls: int = 0

    @property
    def flops(self) -> int:
        """The total work in FLOPs, which is quoted and paid."""
        return self.products + self.elements + FLOPS_PER_BYTE * self.moved + FLOPS_PER_CALL * self.calls

    def __add__(self, other: "OpWork") -> "OpWork":
        """Return the sum of two works, kind by kind."""
        return OpWork(
            products=self.products + other.products,
            elements=self.elements + other.elements,
            moved=self.moved + other.moved,
            calls=self.calls + other.calls,
        )

    def times(self, count: int) -> "OpWork":
        """Return the work of doing this work ``count`` times."""
        return OpWork(
            products=count * self.products,
            elements=count * self.elements,
            moved=count * self.moved,
            calls=count * self.calls,
        )


@dataclass(frozen=True, slots=True)
class Site:
    """The data of a node that no run changes: its attributes, the types of operands and result, and the job's seed."""

    attrs: Attributes
    operands: tuple[TensorType, ...]
    result: TensorType
    seed: int


Maker = Callable[[Site], Function]
"""A function that returns the function of a primitive at one site, prepared before the operands are known."""


class Traffic(Enum):
    """The rule for the number of bytes that a node reads and writes."""

    ALL = "all operands and the result"
    RESULT = "the size of the result, once read and once written"
    ROWS = "as RESULT, or the size of the row numbers if that is larger"
    VIEW = "nothing, since the result is another view of the operand"


WorkRule = Callable[[Operands, Attributes, TensorType], OpWork]
"""A function of operands, attributes and result that returns the work."""


def _nothing_more(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    return OpWork()


def _no_bytes(operands: Operands, attributes: Attributes, result: TensorType) -> int:
    return 0


BytesRule = Callable[[Operands, Attributes, TensorType], int]
"""A function of operands, attributes and result that returns a number of bytes."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive, which is one row of the table of primitives. The field ``op`` of a node contains the name of a
    primitive.

    ``arity`` is the smallest and the largest number of operands. All ``attributes`` are required, and no others are
    allowed. ``rule`` returns the type of the result, or raises JobError with a field relative to the node (``args[0]``,
    ``attrs.dims``). ``reference`` makes the function that defines every bit of the result. It is None for ``repeat``,
    which executors run as a sequence of other primitives.

    ``cost`` is the number of operations per computed element. Computed elements are the elements of the first operand
    if ``counts_operand`` is set (for a reduction), otherwise the elements of the result. ``calls`` is the number of
    kernel calls. ``more`` returns the work that depends on shapes in any other way.

    ``scratch`` is the number of bytes that a run needs in addition to operands and result, per element of the operands.
    ``scratch_result`` is such a number per element of the result. Both are upper bounds for all executors, and do not
    count ``BLOCKS_SIZE``. ``more_scratch`` returns the number of bytes that depend on shapes in any other way.

    ``repeats`` means that elements of the result may share one address, so that a reshape of the result must copy.
    ``in_order`` means that the node needs operands in C order, so operands that repeat elements are copied first.
    ``may_fail`` means that a run can end in OutOfRange. ``splits`` says how the node may be divided among machines; a
    node without a split stays whole.
    """

    name: str
    arity: tuple[int, int]
    rule: ShapeRule
    reference: Maker | None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    cost: int = 1
    counts_operand: bool = False
    calls: int = 1
    traffic: Traffic = Traffic.ALL
    more: WorkRule = _nothing_more
    scratch: int = 0
    scratch_result: int = 0
    more_scratch: BytesRule = _no_bytes
    repeats: bool = False
    in_order: bool = False
    may_fail: bool = False
    splits: tuple[Split, ...] = ()

    def work(self, operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
        """Return the work of one node with this primitive, operands of these types, and this result."""
        counted = operands[0] if self.counts_operand else result
        moved = self._moved(operands, result)
        plain = OpWork(elements=self.cost * counted.elements, moved=moved, calls=self.calls)
        return plain + self.more(operands, attributes, result)

    def scratch_size(self, operands: Operands, attributes: Attributes, result: TensorType) -> int:
        """Return the largest number of bytes that an executor needs for a node, without its operands and result."""
        read = sum(operand.elements for operand in operands)
        plain = self.scratch * read + self.scratch_result * result.elements
        return plain + self.more_scratch(operands, attributes, result)

    def _moved(self, operands: Operands, result: TensorType) -> int:
        match self.traffic:
            case Traffic.ALL:
                return sum(operand.size for operand in operands) + result.size
            case Traffic.RESULT:
                return 2 * result.size
            case Traffic.ROWS:
                return max(2 * result.size, operands[1].size)
            case Traffic.VIEW:
                return 0


def runs(shape: Sequence[int], kinds: Sequence[Sequence[object]]) -> int:
    """Return the number of inner loops over ``shape``: the number of all elements, divided by the number in one inner
    loop.

    ``kinds`` has one list per array, with one entry per dimension: true if the array repeats the dimension, or if the
    dimension is reduced. One inner loop covers the last dimension. It also covers each dimension before it, up to the
    first one where an array's entry changes. Dimensions of size 1 do not count.
    """
    outer = [dim for dim, size in enumerate(shape) if size != 1]
    last = outer[-1] if outer else 0
    while outer and all(kind[outer[-1]] == kind[last] for kind in kinds):
        outer.pop()
    return prod(shape[dim] for dim in outer)


def plain(function: Function) -> Maker:
    """Return the maker of a function that is the same for all nodes."""
    return lambda site: function


def refuse(field: str, reason: str, remedy: str = "build the job again with a supported operation") -> JobError:
    """Return the error for a node that is not valid for its primitive."""
    return JobError(field, reason, remedy)


def check_dtype(operands: Operands, allowed: Sequence[str]) -> None:
    """Raise JobError if the dtype of an operand is not one of the ``allowed`` dtypes."""
    for index, operand in enumerate(operands):
        if operand.dtype not in allowed:
            reason = f"{operand} is not of dtype {' or '.join(allowed)}"
            raise refuse(f"args[{index}]", reason, "add a cast")


def check_equal_dtype(operands: Operands, first: int = 0) -> None:
    """Raise JobError if the operands have different dtypes. Operands before number ``first`` are not checked."""
    for index, operand in enumerate(operands[first:], first):
        if operand.dtype != operands[first].dtype:
            reason = f"{operand} and {operands[first]} have different dtypes"
            raise refuse(f"args[{index}]", reason, "add a cast")


def check_length(values: Sequence[int], shape: Sequence[int], name: str) -> None:
    """Raise JobError if the attribute ``name`` does not have one entry per dimension of ``shape``."""
    if len(values) != len(shape):
        reason = f"there are {len(values)} entries for {len(shape)} dimensions"
        raise refuse(f"attrs.{name}", reason)


def checked_dim(attributes: Attributes, rank: int) -> int:
    """Return the attribute ``dim``. Raises JobError if a value of this rank has no such dimension."""
    dim: int = attributes["dim"]
    if dim >= rank:
        raise refuse("attrs.dim", f"there is no dimension {dim}: the value has {rank} dimensions, numbered from 0")
    return dim


def check_element(attributes: Attributes, dtype: str) -> None:
    """Raise JobError if the attribute ``value`` is not the encoding of one element of the dtype."""
    value: str = attributes["value"]
    if len(value) != 2 * ITEM_SIZE[dtype]:
        raise refuse("attrs.value", f"an element of {dtype} has {2 * ITEM_SIZE[dtype]} hex digits")
    if dtype == "bool" and value not in ("00", "01"):
        raise refuse("attrs.value", "an element of bool is 00 or 01")


def check_attributes(primitive: Primitive, values: Mapping[str, object]) -> dict[str, AttributeValue]:
    """Return the attributes of a node in checked form.

    Raises JobError with a field relative to the node, such as ``attrs.dims``, if an attribute is missing, unknown or
    not valid.
    """
    for name in values:
        if name not in primitive.attributes:
            reason = f"{primitive.name} has no such attribute"
            raise refuse(f"attrs.{name[:40]}", reason, "remove the attribute")
    checked: dict[str, AttributeValue] = {}
    for name, attribute in primitive.attributes.items():
        if name not in values:
            remedy = "build the job again with assay job build"
            raise refuse(f"attrs.{name}", f"{primitive.name} needs this attribute", remedy)
        try:
            checked[name] = _checked_attribute(attribute, values[name])
        except JobError as error:
            raise error.under(f"attrs.{name}") from None
    return checked


def _checked_attribute(attribute: Attribute, value: object) -> AttributeValue:
    """Return ``value`` in its checked form: lists become tuples.

    Raises JobError with an empty field if it is not valid.
    """
    low, high = attribute.low, min(attribute.high, MAX_INTEGER)
    match attribute.kind:
        case "int" if type(value) is int and low <= value <= high:
            return value
        case "choice" if type(value) is int and value in attribute.choices:
            return value
        case "bool" if type(value) is bool:
            return value
        case "dtype" if type(value) is str and value in ITEM_SIZE:
            return value
        case "element" if type(value) is str and len(value) <= 16 and not set(value) - set("0123456789abcdef"):
            return value
        case "program" if hasattr(value, "output_types"):
            return value
        case "ints" if isinstance(value, list | tuple) and len(value) <= MAX_RANK:
            for index, entry in enumerate(value):
                if type(entry) is not int or not low <= entry <= high:
                    raise refuse(f"[{index}]", f"is not an integer in {low}..{high}")
            return tuple(value)
    expected = {
        "int": f"an integer in {low}..{high}",
        "ints": f"a list of at most {MAX_RANK} integers in {low}..{high}",
        "choice": f"one of {', '.join(map(str, attribute.choices))}",
        "bool": "true or false",
        "dtype": f"one of {', '.join(ITEM_SIZE)}",
        "element": "one element as little-endian hex digits",
        "program": "a program",
    }
    raise refuse("", f"is not {expected[attribute.kind]}")
