"""A chain of elementwise operations for ``pol/native/chain.c``: what is known before operands come is laid out once."""

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pol.native.library import Library, address
from pol.state.arrays import NUMPY_DTYPES, Array
from pol.values import ITEM_SIZE, TensorType

OPS = (
    "add", "sub", "mul", "div", "maximum", "minimum", "neg", "abs", "sqrt", "exp", "log", "tanh", "erf",
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "where", "cast",
)  # fmt: skip
"""In the order of the enumeration in ``pol/native/chain.c``."""

_TYPES = {"f32": 0, "i64": 1, "bool": 2}
_DIMENSIONS = 8


class _Step(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int32) for name in ("op", "type", "a", "b", "c", "result", "to", "unused")
    ]


class _Source(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("item", ctypes.c_int64),
        ("dims", ctypes.c_int64),
        ("sizes", ctypes.c_int64 * _DIMENSIONS),
        ("strides", ctypes.c_int64 * _DIMENSIONS),
    ]


class _Target(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("item", ctypes.c_int64)]


@dataclass(frozen=True, slots=True)
class Link:
    """One operation of a chain: value numbers of operands and result."""

    op: str
    args: tuple[int, ...]
    result: int


class Chain:
    """Elementwise operations whose results have one shape; operands broadcast to it."""

    def __init__(
        self,
        library: Library,
        links: Sequence[Link],
        types: Mapping[int, TensorType],
        sources: Sequence[int],
        results: Sequence[int],
    ) -> None:
        """Lay out the steps. ``types`` has those of all values; ``results`` are values that are wanted outside."""
        self._library = library
        self._shape = types[links[0].result].shape
        self._elements = types[links[0].result].elements
        self._dtypes = [NUMPY_DTYPES[types[number].dtype] for number in results]
        registers, inside = _registers(links, sources, results)
        self._inside = inside
        self._steps = (_Step * len(links))(*[_step(link, types, registers) for link in links])
        self._sources = (_Source * len(sources))()
        for source, number in zip(self._sources, sources, strict=True):
            source.item = ITEM_SIZE[types[number].dtype]
        self._layouts: list[tuple[object, object] | None] = [None] * len(sources)
        self._targets = (_Target * len(results))()
        for target, number in zip(self._targets, results, strict=True):
            target.item = ITEM_SIZE[types[number].dtype]

    def run(self, operands: Sequence[Array]) -> list[Array]:
        """Return the results for operands in the order of the sources; one thread at a time."""
        made = [np.empty(self._shape, dtype) for dtype in self._dtypes]
        if not self._elements:
            return made
        # NumPy makes scalars of what has no dimensions, and those have no place
        arrays = [np.asarray(operand) for operand in operands]
        for index, operand in enumerate(arrays):
            layout = operand.shape, operand.strides
            if self._layouts[index] != layout:
                _lay_out(self._sources[index], operand, self._shape)
                self._layouts[index] = layout
            self._sources[index].data = address(operand)
        for target, result in zip(self._targets, made, strict=True):
            target.data = address(result)
        self._library.chain(self._elements, self._sources, self._targets, self._inside, self._steps)
        return made


def _registers(
    links: Sequence[Link], sources: Sequence[int], results: Sequence[int]
) -> tuple[dict[int, int], int]:
    """Return the register of each value, and how many hold what is needed inside only.

    One is free again behind the last use of its value, but never for a result of the step that reads it last.
    """
    registers = {number: at for at, number in enumerate((*sources, *results))}
    fixed = len(registers)
    last = {number: at for at, link in enumerate(links) for number in link.args}
    free: list[int] = []
    count = 0
    for at, link in enumerate(links):
        if link.result not in registers:
            if not free:
                free.append(fixed + count)
                count += 1
            registers[link.result] = free.pop()
        ended = {number for number in link.args if last[number] == at}
        free += sorted(registers[number] for number in ended if registers[number] >= fixed)
    return registers, count


def _step(link: Link, types: Mapping[int, TensorType], registers: Mapping[int, int]) -> Any:
    at = [registers[number] for number in link.args]
    of = types[link.args[1] if link.op == "where" else link.args[0]].dtype
    a, b, c = (*at, *[at[0]] * 2)[:3]
    to = _TYPES[types[link.result].dtype]
    return _Step(OPS.index(link.op), _TYPES[of], a, b, c, registers[link.result], to, 0)


def _lay_out(source: Any, operand: Array, shape: Sequence[int]) -> None:
    """Write sizes and strides of an operand as it broadcasts, from the last dimension on, as few as there can be."""
    wide = np.broadcast_to(operand, shape)
    sizes, strides = [1], [1]
    for size, step in zip(reversed(wide.shape), reversed(wide.strides), strict=True):
        if size == 1:
            continue
        stride = step // operand.itemsize
        if sizes == [1]:
            sizes, strides = [size], [stride]
        elif stride == strides[-1] * sizes[-1]:
            sizes[-1] *= size
        else:
            sizes.append(size)
            strides.append(stride)
    source.dims = len(sizes)
    source.sizes[: len(sizes)] = sizes
    source.strides[: len(strides)] = strides
