"""The vocabulary of splits: how a node may be computed in pieces on several machines, with the bits of the whole.

Each primitive has a column ``splits`` with the kinds of dimensions along which it may be divided. A primitive without
an entry, or a dimension that no entry covers, stays whole on one machine. ``docs/arithmetic.md`` shows the column, and
a property test runs every primitive in every way that its column allows.

A :class:`Split` lists the :class:`Way` s that it allows for a node. A way divides *rows*: an :class:`Axis` per operand
and result says which dimension holds the rows. Machines divide the rows among themselves. If all machines can compute
their rows of the result alone, the split has no exchange. Otherwise the machines exchange partial results, and one of
them computes the whole result (``pol/split/exchanges.py``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

from pol.values import Shape, TensorType

Operands = Sequence[TensorType]
Attributes = Mapping[str, Any]


class Pieces(Enum):
    """The pieces into which rows may be divided."""

    ANY = "any"
    RESIDUES = "machine r has rows r, r + W, r + 2W, …; W is a power of two"


class Exchange(Enum):
    """The messages after which one machine has the whole result."""

    NONE = "none"
    MAXIMA_THEN_PARTIALS = "largest magnitudes, so that all scales are those of the whole; then sums of integers"
    TREE_PARTIALS = "partial sums in FP32, which continue the halving sum"
    INTEGER_PARTIALS = "partial sums in `i64`"
    MAXIMA = "partial results"
    FIRST_OF_LARGEST = "the largest element and its index"
    ROWS_FROM_OWNERS = "rows, from the machines that hold them"
    ROWS_TO_OWNER = "index and values go to the owner of the table, which adds them in the order of the whole index"


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension of a value that holds the rows of a way. One index of the dimension holds ``unit`` rows.

    The dimension holds all rows ``outer`` times, one time after another, such as once per time step.
    """

    dim: int
    unit: int = 1
    outer: int = 1


@dataclass(frozen=True, slots=True)
class Way:
    """A way to divide a node: the axis of each operand and of the result, or None if each machine has the whole value.

    ``rows`` is the number of rows, which is the same for all axes. ``result`` is None if there is an exchange.
    """

    rows: int
    operands: tuple[Axis | None, ...]
    result: Axis | None

    @property
    def unit(self) -> int:
        """Smallest number of neighbouring rows that stay together."""
        axes = [axis for axis in (*self.operands, self.result) if axis is not None]
        return max(axis.unit for axis in axes)


Ways = Callable[[Operands, Attributes, TensorType], Iterable[Way]]
"""A function of operands, attributes and result that yields the ways of one split."""
Fit = Callable[[Attributes, Way, Operands, TensorType], Attributes]
"""A function of attributes, way, and the types of a machine's pieces that returns the attributes for these pieces."""
Local = Callable[[Any, Axis, Any], Callable[..., Any]]
"""A function of site, axis and indices along this axis (:data:`pol.ops.indices.Indices`) that returns the function
which computes these indices of the result."""


def unchanged(attributes: Attributes, way: Way, operands: Operands, result: TensorType) -> Attributes:
    """Return the attributes of the whole, which also fit the pieces."""
    return attributes


@dataclass(frozen=True, slots=True)
class Split:
    """One entry of the column ``splits``.

    ``along`` says in words which dimensions are divided. ``fit`` adapts the attributes to a piece. A piece is usually
    the same primitive on pieces of the operands; if ``local`` is set, it is the function that computes a piece.
    """

    along: str
    ways: Ways
    pieces: Pieces = Pieces.ANY
    exchange: Exchange = Exchange.NONE
    fit: Fit = unchanged
    local: Local | None = None


def same_dims(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
    """Yield every dimension of a result whose operands broadcast to it. Operands of size 1 stay whole."""
    for dim, size in enumerate(result.shape):
        axes = tuple(_broadcast_axis(operand.shape, result.shape, dim) for operand in operands)
        yield Way(size, axes, Axis(dim))


def _broadcast_axis(shape: Shape, target: Shape, dim: int) -> Axis | None:
    own = dim - (len(target) - len(shape))
    if own < 0 or shape[own] != target[dim]:
        return None
    return Axis(own)


def matching_dims(is_kept: Callable[[Operands, Attributes, int], bool]) -> Ways:
    """Return the ways along each dimension that operands and result have in common and that ``is_kept`` accepts."""

    def ways(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
        for dim, size in enumerate(result.shape):
            if is_kept(operands, attributes, dim):
                yield Way(size, tuple(Axis(dim) for _ in operands), Axis(dim))

    return ways


def equal_rows(operands: Operands, attributes: Attributes, result: TensorType) -> Iterator[Way]:
    """Yield the pairs of a dimension of the operand and one of the reshaped result of which one repeats the other.

    Their rows are the elements from one index of the smaller of the two steps to the next. The longer one holds the
    rows once or several times.
    """
    (operand,) = operands
    if not operand.elements:
        return
    for dim, size in enumerate(operand.shape):
        for other, target in enumerate(result.shape):
            step, pace = prod(operand.shape[dim + 1 :]), prod(result.shape[other + 1 :])
            if size < 2 or target < 2:
                continue
            own, its = step * size, pace * target
            end, least = min(own, its), min(step, pace)
            if step % least == pace % least == end % step == end % pace == own % end == its % end == 0:
                axis = Axis(dim, step // least, own // end)
                yield Way(end // least, (axis,), Axis(other, pace // least, its // end))


def resized(attributes: Attributes, way: Way, operands: Operands, result: TensorType) -> Attributes:
    """Return the attributes with the shape of a piece of the result."""
    return {**attributes, "shape": result.shape}
