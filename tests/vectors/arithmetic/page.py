"""The parts of ``docs/arithmetic.md`` that follow from the code: types and attributes, constants, sequences."""

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, product
from pathlib import Path
from textwrap import dedent
from typing import Any

from pol.errors import JobError
from pol.job.program import infer_node
from pol.limits import (
    MAX_DIMENSION,
    MAX_NESTED,
    MAX_OPERANDS,
    MAX_RANK,
    MAX_REPEATED,
    MAX_SUMMED,
    MAX_TURNS,
)
from pol.ops import functions, philox
from pol.ops.primitive import Attribute, Primitive
from pol.ops.product import BITS, BLOCK, largest_digit
from pol.ops.table import PRIMITIVES
from pol.values import ITEM_SIZE, TensorType
from tests.vectors.arithmetic.cases import FAMILIES, read

PAGE = Path(__file__).parents[3] / "docs" / "arithmetic.md"
_BEGIN, _END = "<!-- made: {} -->\n", "<!-- end -->"
_SCALARS = ("LN2_HIGH", "LN2_LOW", "INVERSE_LN2", "SQRT2")
_POLYNOMIALS = ("EXP", "LOG_EVEN", "LOG_ODD", "ERF_T", "ERF_U", "ERFC_P", "ERFC_Q")
_SEQUENCES = (functions.horner, functions.exp, functions.log, functions.tanh, functions.erf)

Signature = tuple[tuple[str, ...], str]
"""Dtypes of the operands, and the dtype of the result."""


def rendered(text: str) -> str:
    """Return the page with its made parts as the code has them now; ValueError where one has no place."""
    for name, make in PARTS.items():
        begin = _BEGIN.format(name)
        before, found, rest = text.partition(begin)
        if not found:
            raise ValueError(f"the page has no place for {name}")
        text = f"{before}{begin}\n{make()}\n{_END}{rest.partition(_END)[2]}"
    return text


def signatures(op: str) -> list[Signature]:
    """Return the dtypes that a primitive takes and gives: those that its row allows in place of a case's."""
    case = next(case for family in FAMILIES for case in read(family) if case["op"] == op)
    shapes = [tuple(operand["shape"]) for operand in case["operands"]]
    found = []
    for dtypes in product(ITEM_SIZE, repeat=len(shapes)):
        operands = [TensorType(*pair) for pair in zip(dtypes, shapes, strict=True)]
        for attributes in _attributes(PRIMITIVES[op], case["attrs"]):
            try:
                _, result = infer_node(op, operands, attributes)
            except JobError:
                continue
            found.append((dtypes, result.dtype))
    return list(dict.fromkeys(found))


def _attributes(primitive: Primitive, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the attributes of a case with every dtype, and with an element of each size."""
    kinds = {name: attribute.kind for name, attribute in primitive.attributes.items()}
    for dtype, size in product(ITEM_SIZE, sorted(set(ITEM_SIZE.values()))):
        other = {"dtype": dtype, "element": "00" * size}
        yield {name: other.get(kinds[name], value) for name, value in given.items()}


def _primitives() -> str:
    """Return a row for each group of neighbours that take and give the same."""
    rows = ["| primitive | operands → result | attributes |", "|---|---|---|"]
    for cells, group in groupby(PRIMITIVES, _cells):
        rows.append(f"| {', '.join(f'`{op}`' for op in group)} | {cells} |")
    return _lines(rows)


def _cells(op: str) -> str:
    texts = [f"`{name}` {_bounds(value)}" for name, value in PRIMITIVES[op].attributes.items()]
    return f"{_types(op)} | {', '.join(texts) or '–'}"


def _types(op: str) -> str:
    """Return the dtypes of a row in words."""
    found = signatures(op)
    if "dtype" in PRIMITIVES[op].attributes:
        taken = " or ".join(dict.fromkeys(" ".join(dtypes) for dtypes, _ in found))
        return f"{taken} → that of `dtype`".strip()
    low, high = PRIMITIVES[op].arity
    if "body" in PRIMITIVES[op].attributes:
        return f"those of the body → that of its outputs (up to {high:,} operands)"
    if low == high:
        return "; ".join(f"{' '.join(dtypes)} → {result}".strip() for dtypes, result in found)
    same = "; ".join(f"{dtypes[0]} … → {result}" for dtypes, result in found)
    return f"{same} ({low} to {high} operands)"


def _bounds(attribute: Attribute) -> str:
    high = _power(attribute.high)
    match attribute.kind:
        case "int":
            return f"{attribute.low} to {high}"
        case "ints" if (attribute.low, attribute.high) == (0, MAX_DIMENSION):
            return "list"
        case "ints":
            return f"list, each {attribute.low} to {high}"
        case "choice":
            return "/".join(map(str, attribute.choices))
        case "bool":
            return "true or false"
        case "dtype":
            return "/".join(ITEM_SIZE)
        case "program":
            return "a program"
    return "one element"


def _limits() -> str:
    rows = [
        "| quantity | maximum |",
        "|---|---|",
        f"| dimensions of a value | {MAX_RANK} |",
        f"| size of a dimension | {_power(MAX_DIMENSION)} |",
        f"| operands of a node | {MAX_OPERANDS}; of a `repeat` {MAX_REPEATED:,} |",
        f"| turns of a `repeat` | {MAX_TURNS:,} |",
        f"| nesting of bodies | {MAX_NESTED} |",
        f"| summed dimension of a product | {MAX_SUMMED:,} |",
        *(f"| magnitude of a product's integers of {bits} bits | {largest_digit(bits):,} |" for bits in BITS),
        f"| numbers of 22 bits in a summed block | {BLOCK:,} |",
    ]
    return _lines(rows)


def _power(number: int) -> str:
    """Return a number as a power of two less one, if it is one."""
    bits = number.bit_length()
    return f"2^{bits} - 1" if bits > 16 and number == 2**bits - 1 else str(number)


def _constants() -> str:
    rows = ["| name | FP64 |", "|---|---|"]
    rows += [f"| {name} | `{getattr(functions, name).hex()}` |" for name in _SCALARS]
    for name in _POLYNOMIALS:
        numbers: Sequence[float] = getattr(functions, name)
        rows.append(f"| {name} | {', '.join(f'`{number.hex()}`' for number in numbers)} |")
    return _lines(rows)


def _sequences() -> str:
    """Return the functions as they are executed, without what only Python needs."""
    parts = [_plain(function) for function in _SEQUENCES]
    return "```python\n" + "\n\n\n".join(parts) + "\n```\n"


def _plain(function: Callable[..., Any]) -> str:
    tree = ast.parse(dedent(inspect.getsource(function)))
    (definition,) = tree.body
    if not isinstance(definition, ast.FunctionDef):
        raise TypeError("a sequence is a function")
    definition.body = definition.body[1:]
    definition.returns = None
    arguments = definition.args.args
    for argument in arguments:
        argument.annotation = None
    definition.args.args = [argument for argument in arguments if argument.arg != "ns"]
    return ast.unparse(tree).replace("(ns, ", "(").replace("ns.", "").replace("'", '"')


def _philox() -> str:
    rows = ["| name | value |", "|---|---|"]
    for what, numbers in (("M", philox.MULTIPLIERS), ("W", philox.WEYL)):
        rows += [f"| {what}[{index}] | `0x{number:08X}` |" for index, number in enumerate(numbers)]
    rows.append(f"| rounds | {philox.ROUNDS} |")
    rows.append(f"| site of the sample order | `0x{philox.SITE_ORDER:08X}` |")
    rows.append(f"| site of initial weights | `0x{philox.SITE_WEIGHTS:08X}` |")
    rows.append(f"| site of rows by weight | `0x{philox.SITE_ROWS:08X}` |")
    rows.append(f"| positions of a part | {philox.PART_POSITIONS:,} |")
    return _lines(rows)


def _splits() -> str:
    """Return a row for each entry of the column ``splits``. Neighbours with the same column share their rows."""
    rows = ["| primitive | divided along | pieces | what machines exchange |", "|---|---|---|---|"]
    for splits, group in groupby(PRIMITIVES, lambda op: PRIMITIVES[op].splits):
        names = ", ".join(f"`{op}`" for op in group)
        rows += [f"| {names} | {split.along} | {split.pieces.value} | {split.exchange.value} |" for split in splits]
        if not splits:
            rows.append(f"| {names} | – (stays whole) | – | – |")
    return _lines(rows)


def _lines(rows: Sequence[str]) -> str:
    return "\n".join(rows) + "\n"


PARTS: Mapping[str, Callable[[], str]] = {
    "limits": _limits,
    "primitives": _primitives,
    "constants": _constants,
    "sequences": _sequences,
    "philox": _philox,
    "splits": _splits,
}
"""What is made, by the name of its place."""
