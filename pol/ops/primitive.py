"""What a primitive is: one row with its attributes, shape rule, work, and reference in NumPy.

Rows stand in the files of their families (``elementwise.py``, ``shape.py``, …), and ``table.py`` has them all. Shape
rules work on plain integers, so that a whole program is checked before anything is allocated.

Work of a node is split in four, and a program's work is the sum over its nodes:

* ``products``: 2 x M x N x K x batch of a ``matmul``, the same count as torch's ``FlopCounterMode``, and three times
  that with 22 bits;
* ``elements``: operations per element (the row's ``cost``) times the elements that are computed, and
  ``FLOPS_PER_RUN`` for each run of elements that a kernel takes in one go, for short rows cost more than long ones;
* ``moved``: bytes read and written, each of which counts as ``FLOPS_PER_BYTE``;
* ``calls``: calls of a library's kernels, each of which counts as ``FLOPS_PER_CALL``, however little it does.

The numbers are such that the time of a node on the reference executor, at the speed of large products there, is
close to its work (``python -m benchmarks work``). Values lie in C order on every executor, so a reshape is a view and
moves nothing; where it cannot be one, because its operand repeats elements, ``program.py`` counts the copy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import Any

from pol.errors import JobError
from pol.limits import MAX_DIMENSION, MAX_INTEGER, MAX_RANK
from pol.values import ITEM_SIZE, TensorType

FLOPS_PER_CALL = 10_000
"""Work of a call of a library's kernel on no elements at all: no node costs less."""

FLOPS_PER_BYTE = 3
"""Work of reading or writing a byte: large values lie in memory, not in a cache."""

FLOPS_PER_RUN = 800
"""Work of an inner loop of a kernel, however few elements it takes."""

AttributeValue = Any
"""An integer, text, truth or tuple of integers; of a ``repeat``, a program."""
Attributes = Mapping[str, Any]
"""Attributes in checked form: exactly those of the row, each an :data:`AttributeValue`."""
Operands = Sequence[TensorType]
ShapeRule = Callable[[Operands, Attributes], TensorType]
Function = Callable[..., Any]
"""Operands in, result out, as arrays of one library; never writes to its operands."""

FLOATS = ("f32",)
NUMBERS = ("f32", "i64")
BOOLS = ("bool",)


@dataclass(frozen=True, slots=True)
class Attribute:
    """What an attribute may hold.

    ``kind`` is ``int``, ``ints`` (a list of at most eight), ``choice`` (one of the integers ``choices``), ``bool``,
    ``dtype``, ``element`` (one element as little-endian hex), or ``program``; each other integer lies in
    ``low``..``high``.
    """

    kind: str
    low: int = 0
    high: int = MAX_DIMENSION
    choices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OpWork:
    """Work of a node or program: product FLOPs, elementwise operations, bytes moved, calls of kernels."""

    products: int = 0
    elements: int = 0
    moved: int = 0
    calls: int = 0

    @property
    def flops(self) -> int:
        """The one number that is quoted and paid."""
        return self.products + self.elements + FLOPS_PER_BYTE * self.moved + FLOPS_PER_CALL * self.calls

    def __add__(self, other: "OpWork") -> "OpWork":
        """Return the work of both."""
        return OpWork(
            products=self.products + other.products,
            elements=self.elements + other.elements,
            moved=self.moved + other.moved,
            calls=self.calls + other.calls,
        )

    def times(self, count: int) -> "OpWork":
        """Return the work of doing it so many times."""
        return OpWork(
            products=count * self.products,
            elements=count * self.elements,
            moved=count * self.moved,
            calls=count * self.calls,
        )


@dataclass(frozen=True, slots=True)
class Site:
    """A node as its function sees it: checked attributes, types of operands and result, and the job's seed."""

    attrs: Attributes
    operands: tuple[TensorType, ...]
    result: TensorType
    seed: int


Maker = Callable[[Site], Function]
"""Returns the function of a primitive at one site, with all that can be known before operands come."""


class Traffic(Enum):
    """What a node reads and writes."""

    ALL = "all operands and the result"
    RESULT = "as much as the result, read and written"
    ROWS = "as RESULT, or the numbers of the rows where they are more"
    VIEW = "nothing, for the result is another view of the operand"


WorkRule = Callable[[Operands, Attributes, TensorType], OpWork]
"""Operands, attributes and result to work."""


def _nothing_more(operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
    return OpWork()


def _no_bytes(operands: Operands, attributes: Attributes, result: TensorType) -> int:
    return 0


BytesRule = Callable[[Operands, Attributes, TensorType], int]
"""Operands, attributes and result to bytes."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """One row of the table: ``name`` is the ``op`` of a node.

    ``arity`` is the smallest and largest number of operands. All ``attributes`` are required, and no others are
    allowed. ``rule`` returns the type of the result; it raises JobError with a field relative to the node
    (``args[0]``, ``attrs.dims``). ``reference`` makes the function that says, bit by bit, what is computed; None for
    what is composed of others, which executors run one after another.

    ``cost`` is operations per computed element, which are those of the first operand where ``counts_operand`` (a
    reduction), else those of the result; ``calls`` is calls of kernels, and ``more`` the work that depends on shapes
    in another way. ``scratch`` is bytes beside operands and result while it runs, for each element of an operand, and
    ``scratch_result`` for each of the result: the most that an executor takes, without the blocks of ``BLOCKS_SIZE``;
    ``more_scratch`` adds what depends on shapes in another way.
    What ``repeats`` has a result in which many elements share one place, so that another shape of it is a copy; who
    takes operands ``in_order`` only, copies these. What ``may_fail`` can end in OutOfRange, whatever its operands are.
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

    def work(self, operands: Operands, attributes: Attributes, result: TensorType) -> OpWork:
        """Return the work of one node of this primitive."""
        counted = operands[0] if self.counts_operand else result
        moved = self._moved(operands, result)
        plain = OpWork(elements=self.cost * counted.elements, moved=moved, calls=self.calls)
        return plain + self.more(operands, attributes, result)

    def scratch_size(self, operands: Operands, attributes: Attributes, result: TensorType) -> int:
        """Return the bytes that an executor takes at most beside operands and result."""
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
    """Return the number of inner loops over ``shape``: its elements divided by those that are taken in one go.

    ``kinds`` has something for each dimension of each array that takes part. Dimensions are taken together from the
    last one on as long as each array keeps its kind (it has the dimension or repeats it, it keeps or reduces it);
    dimensions of size 1 do not count.
    """
    left = [dim for dim, size in enumerate(shape) if size != 1]
    last = left[-1] if left else 0
    while left and all(kind[left[-1]] == kind[last] for kind in kinds):
        left.pop()
    return prod(shape[dim] for dim in left)


def plain(function: Function) -> Maker:
    """Return the maker of a function that is the same at every site."""
    return lambda site: function


def refuse(field: str, reason: str, remedy: str = "trace the job again with a supported operation") -> JobError:
    """Return the error of a node that its row does not allow."""
    return JobError(field, reason, remedy)


def check_dtype(operands: Operands, allowed: Sequence[str]) -> None:
    """Refuse operands of other dtypes than those ``allowed``."""
    for index, operand in enumerate(operands):
        if operand.dtype not in allowed:
            reason = f"{operand} is not of dtype {' or '.join(allowed)}"
            raise refuse(f"args[{index}]", reason, "add a cast")


def check_equal_dtype(operands: Operands, first: int = 0) -> None:
    """Refuse operands of different dtypes, from the one numbered ``first`` on."""
    for index, operand in enumerate(operands[first:], first):
        if operand.dtype != operands[first].dtype:
            reason = f"{operand} and {operands[first]} have different dtypes"
            raise refuse(f"args[{index}]", reason, "add a cast")


def check_length(values: Sequence[int], shape: Sequence[int], name: str) -> None:
    """Refuse an attribute that has not one entry for each dimension."""
    if len(values) != len(shape):
        reason = f"there are {len(values)} entries for {len(shape)} dimensions"
        raise refuse(f"attrs.{name}", reason)


def checked_dim(attributes: Attributes, rank: int) -> int:
    """Return the attribute ``dim``, which must be a dimension of a value of this rank."""
    dim: int = attributes["dim"]
    if dim >= rank:
        raise refuse("attrs.dim", f"dimension {dim} is outside a rank of {rank}")
    return dim


def check_element(attributes: Attributes, dtype: str) -> None:
    """Refuse an attribute ``value`` that is not one element of a dtype."""
    value: str = attributes["value"]
    if len(value) != 2 * ITEM_SIZE[dtype]:
        raise refuse("attrs.value", f"an element of {dtype} is {2 * ITEM_SIZE[dtype]} hex digits")
    if dtype == "bool" and value not in ("00", "01"):
        raise refuse("attrs.value", "an element of bool is 00 or 01")


def check_attributes(primitive: Primitive, values: Mapping[str, object]) -> dict[str, AttributeValue]:
    """Return the attributes of a node in checked form, exactly those that the primitive has.

    Raises JobError with a field relative to the node, such as ``attrs.dims``.
    """
    for name in values:
        if name not in primitive.attributes:
            reason = f"{primitive.name} has no such attribute"
            raise refuse(f"attrs.{name[:40]}", reason, "leave it out")
    checked: dict[str, AttributeValue] = {}
    for name, attribute in primitive.attributes.items():
        if name not in values:
            raise refuse(f"attrs.{name}", f"{primitive.name} needs this attribute", "add it")
        try:
            checked[name] = _checked_attribute(attribute, values[name])
        except JobError as error:
            raise error.under(f"attrs.{name}") from None
    return checked


def _checked_attribute(attribute: Attribute, value: object) -> AttributeValue:
    """Return ``value`` in its checked form (lists become tuples); JobError with the field left empty."""
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
