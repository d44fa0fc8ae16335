"""The table of primitives: the only operations that a program may hold.

For each: how many operands, which attributes with which bounds, the shape rule (plain integers, so
that a whole program is checked before anything is allocated), and the work. What an operation
computes, bit by bit, is in ``pol/executor/numpy_backend.py`` (reference) and
``pol/executor/torch_backend.py``.

Work of a node is split in three, and a program's work is the sum over its nodes:

* ``products``: 2 x M x N x K x batch of a ``matmul``, the same count as torch's
  ``FlopCounterMode``;
* ``elements``: operations per element (the table's ``cost``) times the elements that are computed;
* ``moved``: bytes read and written, of which ``BYTES_PER_FLOP`` count as one FLOP (a reshape is a view and
  moves nothing, but ``program.py`` counts it where it has to write out another view).

Elementwise operations (arithmetic, comparisons, logic, ``where``) broadcast as NumPy does: shapes
are aligned at the last dimension and a dimension of 1 repeats. Everything else takes shapes as they
are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from pol.job.errors import JobError
from pol.job.limits import MAX_DIMENSION, MAX_INTEGER, MAX_OPERANDS, MAX_RANK, MAX_SITE, MAX_SUMMED
from pol.values import ITEM_SIZE, Shape, TensorType

BYTES_PER_FLOP = 4
"""Bytes moved that count as one FLOP of work: one FP32 number read or written."""

AttributeValue = int | str | bool | tuple[int, ...]
Attributes = Mapping[str, AttributeValue]
Operands = Sequence[TensorType]
ShapeRule = Callable[[Operands, Attributes], TensorType]

FLOATS = ("f32",)
NUMBERS = ("f32", "i64")
ALL = ("f32", "i64", "bool")


@dataclass(frozen=True, slots=True)
class Attribute:
    """What an attribute may hold.

    Args:
        kind: ``int``, ``ints`` (list of at most eight), ``bool``, ``dtype``, or ``element`` (one
            element as little-endian hex).
        low, high: bounds of each integer, both inclusive.
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
class Primitive:
    """One row of the table.

    Args:
        name: the ``op`` of a node.
        arity: smallest and largest number of operands.
        attributes: all of them are required, and no others are allowed.
        rule: type of the result from the operands' types and the attributes; raises JobError with a
            field relative to the node (``args[0]``, ``attrs.dims``).
        cost: operations per computed element.
        counts_operand: elements of the first operand are counted (reductions), not those of the
            result.
        traffic: ``all`` operands and the result, ``result`` (as much read as written), ``rows`` (so
            too, or the numbers of the rows where they are more), or ``none`` (a view).
        scratch: bytes beside operands and result while it runs, for each element of an operand.
    """

    name: str
    arity: tuple[int, int]
    attributes: Mapping[str, Attribute]
    rule: ShapeRule
    cost: int = 1
    counts_operand: bool = False
    traffic: str = "all"
    scratch: int = 0

    def work(self, operands: Operands, attributes: Attributes, result: TensorType) -> Work:
        """Return the work of one node of this primitive."""
        counted = operands[0] if self.counts_operand else result
        moved = 0
        if self.traffic == "all":
            moved = sum(operand.size for operand in operands) + result.size
        elif self.traffic == "result":
            moved = 2 * result.size
        elif self.traffic == "rows":
            moved = max(2 * result.size, operands[1].size)
        products = 2 * result.elements * operands[0].shape[-1] if self.name == "matmul" else 0
        return Work(products, self.cost * counted.elements, moved)


def _refuse(
    field: str, reason: str, remedy: str = "Trace the job again with a supported operation."
) -> JobError:
    return JobError(field, reason, remedy)


def _check_dtype(operands: Operands, allowed: Sequence[str]) -> None:
    for index, operand in enumerate(operands):
        if operand.dtype not in allowed:
            raise _refuse(
                f"args[{index}]",
                f"{operand} is not of dtype {' or '.join(allowed)}.",
                "Add a cast.",
            )


def _check_equal_dtype(operands: Operands, first: int = 0) -> None:
    for index, operand in enumerate(operands[first:], first):
        if operand.dtype != operands[first].dtype:
            reason = f"{operand} and {operands[first]} have different dtypes."
            raise _refuse(f"args[{index}]", reason, "Add a cast.")


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape | None:
    """Return the common shape under NumPy's broadcasting rule, or None if there is none."""
    rank = max(len(shape) for shape in shapes)
    result: list[int] = []
    for padded in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        sizes = {size for size in padded if size != 1}
        if len(sizes) > 1:
            return None
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def _broadcast(operands: Operands) -> Shape:
    shape = broadcast_shapes([operand.shape for operand in operands])
    if shape is None:
        shapes = ", ".join(map(str, operands))
        raise _refuse("args", f"The shapes of {shapes} do not broadcast.", "Reshape the operands.")
    return shape


def _ints(attributes: Attributes, name: str) -> tuple[int, ...]:
    value = attributes[name]
    assert isinstance(value, tuple)
    return value


def _int(attributes: Attributes, name: str) -> int:
    value = attributes[name]
    assert isinstance(value, int)
    return value


def _dtype(attributes: Attributes) -> str:
    value = attributes["dtype"]
    assert isinstance(value, str)
    return value


def _elementwise(allowed: Sequence[str]) -> ShapeRule:
    def rule(operands: Operands, attributes: Attributes) -> TensorType:
        _check_dtype(operands, allowed)
        _check_equal_dtype(operands)
        return TensorType(operands[0].dtype, _broadcast(operands))

    return rule


def _compare(operands: Operands, attributes: Attributes) -> TensorType:
    _check_equal_dtype(operands)
    return TensorType("bool", _broadcast(operands))


def _where(operands: Operands, attributes: Attributes) -> TensorType:
    _check_dtype(operands[:1], ("bool",))
    _check_equal_dtype(operands, 1)
    return TensorType(operands[1].dtype, _broadcast(operands))


def _cast(operands: Operands, attributes: Attributes) -> TensorType:
    return TensorType(_dtype(attributes), operands[0].shape)


def _reshape(operands: Operands, attributes: Attributes) -> TensorType:
    shape = _ints(attributes, "shape")
    if prod(shape) != operands[0].elements:
        reason = f"{operands[0]} has {operands[0].elements} elements, not {prod(shape)}."
        raise _refuse("attrs.shape", reason, "Give a shape of the same size.")
    return TensorType(operands[0].dtype, shape)


def _permute(operands: Operands, attributes: Attributes) -> TensorType:
    dims, shape = _ints(attributes, "dims"), operands[0].shape
    if sorted(dims) != list(range(len(shape))):
        raise _refuse(
            "attrs.dims", f"{list(dims)} is not a permutation of the dimensions of {operands[0]}."
        )
    return TensorType(operands[0].dtype, tuple(shape[dim] for dim in dims))


def _broadcast_to(operands: Operands, attributes: Attributes) -> TensorType:
    shape = _ints(attributes, "shape")
    if broadcast_shapes([operands[0].shape, shape]) != shape:
        raise _refuse("attrs.shape", f"{operands[0]} does not broadcast to {list(shape)}.")
    return TensorType(operands[0].dtype, shape)


def _slice(operands: Operands, attributes: Attributes) -> TensorType:
    shape = operands[0].shape
    lists = {name: _ints(attributes, name) for name in ("starts", "stops", "steps")}
    for name, values in lists.items():
        if len(values) != len(shape):
            raise _refuse(
                f"attrs.{name}", f"There are {len(values)} entries for {len(shape)} dimensions."
            )
    result = []
    for dim, (size, start, stop, step) in enumerate(zip(shape, *lists.values(), strict=True)):
        if not start <= stop <= size:
            raise _refuse(
                f"attrs.stops[{dim}]", f"{start}:{stop} is outside a dimension of {size}."
            )
        result.append((stop - start + step - 1) // step)
    return TensorType(operands[0].dtype, tuple(result))


def _dim(attributes: Attributes, rank: int) -> int:
    dim = _int(attributes, "dim")
    if dim >= rank:
        raise _refuse("attrs.dim", f"Dimension {dim} is outside a rank of {rank}.")
    return dim


def _concat(operands: Operands, attributes: Attributes) -> TensorType:
    _check_equal_dtype(operands)
    shape = operands[0].shape
    dim = _dim(attributes, len(shape))
    for index, operand in enumerate(operands):
        rest = operand.shape[:dim] + operand.shape[dim + 1 :]
        if len(operand.shape) != len(shape) or rest != shape[:dim] + shape[dim + 1 :]:
            raise _refuse(
                f"args[{index}]", f"{operand} does not fit {operands[0]} beside dimension {dim}."
            )
    joined = sum(operand.shape[dim] for operand in operands)
    return TensorType(operands[0].dtype, (*shape[:dim], joined, *shape[dim + 1 :]))


def _check_element(attributes: Attributes, dtype: str) -> None:
    value = attributes["value"]
    assert isinstance(value, str)
    if len(value) != 2 * ITEM_SIZE[dtype]:
        raise _refuse("attrs.value", f"An element of {dtype} is {2 * ITEM_SIZE[dtype]} hex digits.")
    if dtype == "bool" and value not in ("00", "01"):
        raise _refuse("attrs.value", "An element of bool is 00 or 01.")


def _pad(operands: Operands, attributes: Attributes) -> TensorType:
    shape = operands[0].shape
    low, high = _ints(attributes, "low"), _ints(attributes, "high")
    for name, values in (("low", low), ("high", high)):
        if len(values) != len(shape):
            raise _refuse(
                f"attrs.{name}", f"There are {len(values)} entries for {len(shape)} dimensions."
            )
    _check_element(attributes, operands[0].dtype)
    return TensorType(
        operands[0].dtype, tuple(a + s + b for a, s, b in zip(low, shape, high, strict=True))
    )


def _take(operands: Operands, attributes: Attributes) -> TensorType:
    table, index = operands
    _check_dtype([table], ALL)
    if index.dtype != "i64":
        raise _refuse("args[1]", f"{index} is not of dtype i64.", "Add a cast.")
    if not table.shape or not table.shape[0]:
        raise _refuse("args[0]", f"{table} has no rows.", "Take from a table of at least one row.")
    return TensorType(table.dtype, index.shape + table.shape[1:])


def _reduced(shape: Shape, dims: Sequence[int], keepdim: bool) -> Shape:
    if keepdim:
        return tuple(1 if dim in dims else size for dim, size in enumerate(shape))
    return tuple(size for dim, size in enumerate(shape) if dim not in dims)


def _dims(operands: Operands, attributes: Attributes) -> tuple[int, ...]:
    dims, rank = _ints(attributes, "dims"), len(operands[0].shape)
    if list(dims) != sorted(set(dims)) or (dims and dims[-1] >= rank):
        raise _refuse("attrs.dims", f"{list(dims)} are not ascending dimensions of {operands[0]}.")
    return dims


def _sum(operands: Operands, attributes: Attributes) -> TensorType:
    dims = _dims(operands, attributes)
    dtype = "f32" if operands[0].dtype == "f32" else "i64"
    return TensorType(dtype, _reduced(operands[0].shape, dims, bool(attributes["keepdim"])))


def _amax(operands: Operands, attributes: Attributes) -> TensorType:
    _check_dtype(operands, NUMBERS)
    dims = _dims(operands, attributes)
    if any(operands[0].shape[dim] == 0 for dim in dims):
        raise _refuse("attrs.dims", f"{operands[0]} has no largest element along {list(dims)}.")
    return TensorType(
        operands[0].dtype, _reduced(operands[0].shape, dims, bool(attributes["keepdim"]))
    )


def _argmax(operands: Operands, attributes: Attributes) -> TensorType:
    _check_dtype(operands, NUMBERS)
    dim = _dim(attributes, len(operands[0].shape))
    if operands[0].shape[dim] == 0:
        raise _refuse("attrs.dim", f"{operands[0]} has no largest element along {dim}.")
    return TensorType("i64", _reduced(operands[0].shape, (dim,), bool(attributes["keepdim"])))


def _matmul(operands: Operands, attributes: Attributes) -> TensorType:
    _check_dtype(operands, FLOATS)
    left, right = operands
    for index, operand in enumerate(operands):
        if len(operand.shape) < 2:
            raise _refuse(f"args[{index}]", f"{operand} is not a matrix.", "Reshape it.")
    if left.shape[:-2] != right.shape[:-2]:
        raise _refuse(
            "args", f"{left} and {right} have different batch dimensions.", "Broadcast them first."
        )
    summed = left.shape[-1]
    if summed != right.shape[-2]:
        raise _refuse("args", f"{left} and {right} do not fit along the summed dimension.")
    if not 1 <= summed <= MAX_SUMMED:
        reason = f"The summed dimension {summed} is outside 1..{MAX_SUMMED}."
        raise _refuse("args", reason, "Split the product along it.")
    return TensorType("f32", (*left.shape[:-1], right.shape[-1]))


def _iota(operands: Operands, attributes: Attributes) -> TensorType:
    return TensorType("i64", (_int(attributes, "size"),))


def _full(operands: Operands, attributes: Attributes) -> TensorType:
    _check_element(attributes, _dtype(attributes))
    return TensorType(_dtype(attributes), _ints(attributes, "shape"))


def _uniform(operands: Operands, attributes: Attributes) -> TensorType:
    if operands[0] != TensorType("i64", ()):
        raise _refuse("args[0]", f"{operands[0]} is not the step number, an i64 scalar.")
    return TensorType("f32", _ints(attributes, "shape"))


_SHAPE = {"shape": Attribute("ints")}
_DIMS = {"dims": Attribute("ints", 0, MAX_RANK - 1), "keepdim": Attribute("bool")}
_DIM = {"dim": Attribute("int", 0, MAX_RANK - 1)}
_DTYPE = {"dtype": Attribute("dtype")}
_ELEMENT = {"value": Attribute("element")}
_NONE: dict[str, Attribute] = {}


def _table() -> dict[str, Primitive]:
    numbers, floats, bools = _elementwise(NUMBERS), _elementwise(FLOATS), _elementwise(("bool",))
    slices = {
        "starts": Attribute("ints"),
        "stops": Attribute("ints"),
        "steps": Attribute("ints", 1),
    }
    pads = {"low": Attribute("ints"), "high": Attribute("ints"), **_ELEMENT}
    site = {**_SHAPE, "site": Attribute("int", 0, MAX_SITE)}
    rows = [
        *(
            Primitive(name, (2, 2), _NONE, numbers)
            for name in ("add", "sub", "mul", "maximum", "minimum")
        ),
        Primitive("div", (2, 2), _NONE, floats, cost=4),
        *(Primitive(name, (1, 1), _NONE, numbers) for name in ("neg", "abs")),
        Primitive("sqrt", (1, 1), _NONE, floats, cost=4, scratch=16),
        Primitive("exp", (1, 1), _NONE, floats, cost=20),
        Primitive("log", (1, 1), _NONE, floats, cost=30),
        Primitive("tanh", (1, 1), _NONE, floats, cost=30),
        Primitive("erf", (1, 1), _NONE, floats, cost=60),
        *(
            Primitive(name, (2, 2), _NONE, _compare)
            for name in ("eq", "ne", "lt", "le", "gt", "ge")
        ),
        *(Primitive(name, (2, 2), _NONE, bools) for name in ("logical_and", "logical_or")),
        Primitive("logical_not", (1, 1), _NONE, bools),
        Primitive("where", (3, 3), _NONE, _where),
        Primitive("cast", (1, 1), _DTYPE, _cast, scratch=8),
        Primitive("reshape", (1, 1), _SHAPE, _reshape, cost=0, traffic="none"),
        Primitive("permute", (1, 1), {"dims": _DIMS["dims"]}, _permute, cost=0),
        Primitive("broadcast", (1, 1), _SHAPE, _broadcast_to, cost=0),
        Primitive("slice", (1, 1), slices, _slice, cost=0, traffic="result"),
        Primitive("concat", (1, MAX_OPERANDS), _DIM, _concat, cost=0),
        Primitive("pad", (1, 1), pads, _pad, cost=0),
        Primitive("take", (2, 2), _NONE, _take, traffic="rows"),
        Primitive("sum", (1, 1), _DIMS, _sum, counts_operand=True, scratch=4),
        Primitive("amax", (1, 1), _DIMS, _amax, counts_operand=True),
        Primitive(
            "argmax", (1, 1), {**_DIM, "keepdim": _DIMS["keepdim"]}, _argmax, counts_operand=True
        ),
        Primitive("matmul", (2, 2), _NONE, _matmul, cost=0, scratch=32),
        Primitive("iota", (0, 0), {"size": Attribute("int")}, _iota),
        Primitive("full", (0, 0), {**_SHAPE, **_DTYPE, **_ELEMENT}, _full),
        Primitive("uniform", (1, 1), site, _uniform, cost=40),
    ]
    return {row.name: row for row in rows}


PRIMITIVES: Mapping[str, Primitive] = MappingProxyType(_table())
"""Name of the operation to its row of the table."""


def _is_int(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _check_attribute(attribute: Attribute, value: object) -> AttributeValue:
    """Return ``value`` in its checked form (lists become tuples); JobError with the field left
    empty.
    """
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
                if not _is_int(entry, low, high):
                    raise _refuse(f"[{index}]", f"This is not an integer in {low}..{high}.")
            return tuple(value)
    expected = {
        "int": f"an integer in {low}..{high}",
        "ints": f"a list of at most {MAX_RANK} integers in {low}..{high}",
        "bool": "true or false",
        "dtype": f"one of {', '.join(ITEM_SIZE)}",
        "element": "one element as little-endian hex digits",
    }
    raise _refuse("", f"This is not {expected[attribute.kind]}.")


def check_attributes(
    primitive: Primitive, values: Mapping[str, object]
) -> dict[str, AttributeValue]:
    """Return the attributes of a node in checked form, exactly those that the primitive has.

    Raises:
        JobError: with a field relative to the node, such as ``attrs.dims``.
    """
    for name in values:
        if name not in primitive.attributes:
            raise _refuse(
                f"attrs.{name[:40]}", f"{primitive.name} has no such attribute.", "Leave it out."
            )
    checked: dict[str, AttributeValue] = {}
    for name, attribute in primitive.attributes.items():
        if name not in values:
            raise _refuse(f"attrs.{name}", f"{primitive.name} needs this attribute.", "Add it.")
        try:
            checked[name] = _check_attribute(attribute, values[name])
        except JobError as error:
            raise error.under(f"attrs.{name}") from None
    return checked


def infer(
    op: str, operands: Operands, values: Mapping[str, object]
) -> tuple[dict[str, AttributeValue], TensorType]:
    """Check one node and return its attributes in checked form and the type of its result.

    Raises:
        JobError: with a field relative to the node (``op``, ``args[1]``, ``attrs.dims``).
    """
    primitive = PRIMITIVES.get(op)
    if primitive is None:
        raise _refuse("op", f"{op[:40]!r} is not on the list of operations.")
    if not primitive.arity[0] <= len(operands) <= primitive.arity[1]:
        raise _refuse("args", f"{op} does not take {len(operands)} operands.")
    checked = check_attributes(primitive, values)
    result = primitive.rule(operands, checked)
    if len(result.shape) > MAX_RANK:
        raise _refuse("", f"The result has {len(result.shape)} dimensions, more than {MAX_RANK}.")
    for size in result.shape:
        if size > MAX_DIMENSION:
            raise _refuse("", f"The result has a dimension of {size}, more than {MAX_DIMENSION}.")
    return checked, result
