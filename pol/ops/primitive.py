"""What a primitive is: one row with its attributes, shape rule, work, and reference in NumPy.

Rows stand in the files of their families (``elementwise.py``, ``shape.py``, …), and ``table.py`` has them all. Shape
rules work on plain integers, so that a whole program is checked before anything is allocated.

Work of a node is split in three, and a program's work is the sum over its nodes:

* ``products``: 2 x M x N x K x batch of a ``matmul``, the same count as torch's ``FlopCounterMode``;
* ``elements``: operations per element (the row's ``cost``) times the elements that are computed;
* ``moved``: bytes read and written, of which ``BYTES_PER_FLOP`` count as one FLOP (a reshape is a view and moves
  nothing, but ``program.py`` counts it where it has to write out another view).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pol.errors import JobError
from pol.limits import MAX_DIMENSION, MAX_INTEGER, MAX_RANK
from pol.values import ITEM_SIZE, TensorType

BYTES_PER_FLOP = 4
"""Bytes moved that count as one FLOP of work: one FP32 number read or written."""

AttributeValue = int | str | bool | tuple[int, ...]
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

    ``kind`` is ``int``, ``ints`` (a list of at most eight), ``bool``, ``dtype``, or ``element`` (one element as
    little-endian hex); each integer lies in ``low``..``high``.
    """

    kind: str
    low: int = 0
    high: int = MAX_DIMENSION


@dataclass(frozen=True, slots=True)
class Work:
    """Work of a node or program: product FLOPs, elementwise operations, bytes moved."""

    products: int = 0
    elements: int = 0
    moved: int = 0

    @property
    def flops(self) -> int:
        """The one number that is quoted and paid."""
        return self.products + self.elements + self.moved // BYTES_PER_FLOP


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


def _no_products(operands: Operands, result: TensorType) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Primitive:
    """One row of the table: ``name`` is the ``op`` of a node.

    ``arity`` is the smallest and largest number of operands. All ``attributes`` are required, and no others are
    allowed. ``rule`` returns the type of the result; it raises JobError with a field relative to the node
    (``args[0]``, ``attrs.dims``). ``reference`` makes the function that says, bit by bit, what is computed.

    ``cost`` is operations per computed element, which are those of the first operand where ``counts_operand`` (a
    reduction), else those of the result; ``scratch`` is bytes beside operands and result while it runs, for each
    element of an operand. The elements of a ``strided`` result do not lie one after another. What ``may_fail`` can
    end in OutOfRange, whatever its operands are.
    """

    name: str
    arity: tuple[int, int]
    rule: ShapeRule
    reference: Maker
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    cost: int = 1
    counts_operand: bool = False
    traffic: Traffic = Traffic.ALL
    products: Callable[[Operands, TensorType], int] = _no_products
    scratch: int = 0
    strided: bool = False
    may_fail: bool = False

    def work(self, operands: Operands, result: TensorType) -> Work:
        """Return the work of one node of this primitive."""
        counted = operands[0] if self.counts_operand else result
        elements = self.cost * counted.elements
        return Work(self.products(operands, result), elements, self._moved(operands, result))

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


def plain(function: Function) -> Maker:
    """Return the maker of a function that is the same at every site."""
    return lambda site: function


def refuse(
    field: str, reason: str, remedy: str = "trace the job again with a supported operation"
) -> JobError:
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


def check_attributes(
    primitive: Primitive, values: Mapping[str, object]
) -> dict[str, AttributeValue]:
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
        case "bool" if type(value) is bool:
            return value
        case "dtype" if type(value) is str and value in ITEM_SIZE:
            return value
        case "element" if (
            type(value) is str and len(value) <= 16 and not set(value) - set("0123456789abcdef")
        ):
            return value
        case "ints" if isinstance(value, list | tuple) and len(value) <= MAX_RANK:
            for index, entry in enumerate(value):
                if type(entry) is not int or not low <= entry <= high:
                    raise refuse(f"[{index}]", f"is not an integer in {low}..{high}")
            return tuple(value)
    expected = {
        "int": f"an integer in {low}..{high}",
        "ints": f"a list of at most {MAX_RANK} integers in {low}..{high}",
        "bool": "true or false",
        "dtype": f"one of {', '.join(ITEM_SIZE)}",
        "element": "one element as little-endian hex digits",
    }
    raise refuse("", f"is not {expected[attribute.kind]}")
