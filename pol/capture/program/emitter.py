"""Emitter that writes primitives into a program. It merges equal nodes and omits nodes that change nothing.

The handlers of torch's operations (``rules/``) write primitives only with these functions. So views, casts and
broadcasts that cancel each other never reach a job.

Nodes that a checkpointed part computes again are not merged with the nodes of its first run. So the values of the first
run need not stay in memory until the backward pass: see :attr:`Emitter.rerun`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

import numpy as np

from pol.job.program import Program, ProgramBuilder
from pol.limits import LIMITS, Limits
from pol.ops.elementwise import ELEMENTWISE, broadcast_shapes
from pol.state.arrays import NUMPY_DTYPES, Array
from pol.values import TensorType

Scalar = bool | int | float

BACKWARD = -1
"""Rerun number of nodes that a backward pass computes again outside of checkpointed parts."""

_BROADCASTING = frozenset(row.name for row in ELEMENTWISE if row.arity != (1, 1))


class Emitter:
    """A program under construction; its values are handles of the builder."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._builder = ProgramBuilder(limits)
        self.rerun = 0
        """Number, from 1, of the rerun of a checkpointed part whose nodes are being written; 0 outside of reruns.
        Nodes of a rerun are merged only with each other. Later nodes are merged with the latest of equal nodes, so
        that the earlier ones need not stay in memory."""
        self._known: dict[tuple[object, ...], int] = {}
        self._rerun_of: dict[int, int] = {}
        # For each value, the first value that equals it, across reruns.
        self._first: dict[int, int] = {}
        self._firsts: dict[tuple[object, ...], int] = {}
        self._made: dict[int, tuple[str, tuple[int, ...], dict[str, object]]] = {}
        self._scalars: dict[int, Scalar] = {}
        self._bits: dict[tuple[object, ...], int] = {}
        self._arrays: dict[int, Array] = {}

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> int:
        """Add an input."""
        return self._builder.input(name, dtype, shape)

    def output(self, name: str, value: int) -> None:
        """Make a value an output of the program, with this name."""
        self._builder.output(name, value)

    def build(self) -> Program:
        """Return the program, without nodes that no output needs."""
        return self._builder.build()

    def type(self, value: int) -> TensorType:
        """Return the type of a value."""
        return self._builder.type(value)

    def shape(self, value: int) -> tuple[int, ...]:
        """Return the shape of a value."""
        return self.type(value).shape

    def constant(self, array: Array, dtype: str) -> int:
        """Add a constant, written in ``dtype``."""
        plain = np.ascontiguousarray(array).astype(NUMPY_DTYPES[dtype])
        data = plain.tobytes()
        key = ("constant", dtype, array.shape, data)
        if key not in self._known:
            self._known[key] = self._builder.constant(dtype, array.shape, data)
            self._arrays[self._known[key]] = plain
        return self._known[key]

    def scalar(self, number: Scalar, dtype: str) -> int:
        """Add a constant of shape (); an FP32 constant is rounded once, here."""
        value = self.constant(np.array(number), dtype)
        self._scalars[value] = number
        return value

    def element(self, number: Scalar, dtype: str) -> str:
        """Return a number as the hex digits of one array element. Nodes store numbers in their attributes in this
        form.
        """
        return np.array(number).astype(NUMPY_DTYPES[dtype]).tobytes().hex()

    def is_scalar(self, value: int, number: Scalar) -> bool:
        """Return whether a value is the constant ``number``, possibly broadcast."""
        made = self._made.get(value)
        if made is not None and made[0] == "broadcast":
            value = made[1][0]
        return value in self._scalars and self._scalars[value] == number

    def emit(self, op: str, *args: int, **attrs: object) -> int:
        """Add a node, or return the value of an equal node."""
        if op in _BROADCASTING:
            args = self._without_broadcasts(args)
        rest = tuple(sorted(attrs.items()))
        key = (op, args, rest)
        known = self._known.get(key)
        if known is not None and (not self.rerun or self._rerun_of.get(known) == self.rerun):
            return known
        value = self._builder.node(op, *args, **attrs)
        self._known[key] = value
        self._made[value] = (op, args, attrs)
        self._first[value] = self._firsts.setdefault((op, self._first_of(args), rest), value)
        if self.rerun:
            self._rerun_of[value] = self.rerun
        return value

    @contextmanager
    def anew(self) -> Iterator[None]:
        """Write nodes within this context as a rerun, so that they are not merged with nodes of the forward pass."""
        before, self.rerun = self.rerun, self.rerun or BACKWARD
        yield
        self.rerun = before

    def _first_of(self, values: Sequence[int]) -> tuple[int, ...]:
        """Return, for each value, the first value that equals it, across reruns."""
        return tuple(self._first.get(value, value) for value in values)

    def _without_broadcasts(self, args: tuple[int, ...]) -> tuple[int, ...]:
        """Replace each broadcast operand with its source if the result keeps its shape."""
        current = list(args)
        wanted = broadcast_shapes([self.shape(arg) for arg in args])
        for index, arg in enumerate(args):
            made = self._made.get(arg)
            if made is not None and made[0] == "broadcast":
                shapes = [self.shape(other) for other in current]
                shapes[index] = self.shape(made[1][0])
                if broadcast_shapes(shapes) == wanted:
                    current[index] = made[1][0]
        return tuple(current)

    def product(self, left: int, right: int, bits: int) -> int:
        """Return the product of two values, computed with integers of ``bits`` bits.

        If the program already has a product of the same operands, the number of bits of that product is used instead.
        So a product that is computed again for the backward pass has the same bits as in the forward pass.
        """
        return self._product("matmul", left, right, bits)

    def windows_product(self, left: int, right: int, bits: int, **form: object) -> int:
        """Return the product of a value with the windows of another value; :meth:`product` explains the bits."""
        return self._product("matmul_windows", left, right, bits, **form)

    def _product(self, op: str, left: int, right: int, bits: int, **form: object) -> int:
        key = (op, self._first_of((left, right)), tuple(sorted(form.items())))
        return self.emit(op, left, right, bits=self._bits.setdefault(key, bits), **form)

    def cast(self, value: int, dtype: str) -> int:
        """Return the value in another dtype. If it is an integer or bool constant, the result is also a constant."""
        source = self.type(value).dtype
        if source == dtype:
            return value
        if value in self._arrays and source != "f32":
            return self.constant(self._arrays[value], dtype)
        return self.emit("cast", value, dtype=dtype)

    def reshape(self, value: int, shape: Sequence[int]) -> int:
        """Return the value in another shape of the same size."""
        made = self._made.get(value)
        if made is not None and made[0] == "reshape":
            value = made[1][0]
        return value if self.shape(value) == tuple(shape) else self.emit("reshape", value, shape=tuple(shape))

    def permute(self, value: int, dims: Sequence[int]) -> int:
        """Return the value with its dimensions in another order."""
        rank = len(self.shape(value))
        order = tuple(dim % rank for dim in dims)
        made = self._made.get(value)
        if made is not None and made[0] == "permute":
            inner = made[2]["dims"]
            assert isinstance(inner, tuple)
            value, order = made[1][0], tuple(inner[dim] for dim in order)
        if order == tuple(range(rank)):
            return value
        return self.emit("permute", value, dims=order)

    def broadcast(self, value: int, shape: Sequence[int]) -> int:
        """Return the value repeated to a shape."""
        return value if self.shape(value) == tuple(shape) else self.emit("broadcast", value, shape=tuple(shape))

    def full(self, number: Scalar, dtype: str, shape: Sequence[int]) -> int:
        """Return a value whose elements are all ``number``."""
        return self.broadcast(self.scalar(number, dtype), shape)

    def iota(self, size: int, rank: int = 1, dim: int = 0) -> int:
        """Return 0, 1, … along ``dim`` of a value of ``rank`` dimensions (the others have size 1)."""
        shape = [1] * rank
        shape[dim] = size
        return self.reshape(self.emit("iota", size=size), shape)

    def sum(self, value: int, dims: Sequence[int], keepdim: bool = False) -> int:
        """Return the sum along ``dims`` (all, if none is given)."""
        shape = self.shape(value)
        order = self.dims(value, dims)
        summed = self.emit("sum", value, dims=order, keepdim=False)
        return self.reshape(summed, kept(shape, order)) if keepdim else summed

    def amax(self, value: int, dims: Sequence[int], keepdim: bool = False) -> int:
        """Return the largest element along ``dims`` (all, if none is given)."""
        return self.emit("amax", value, dims=self.dims(value, dims), keepdim=keepdim)

    def dims(self, value: int, dims: Sequence[int]) -> tuple[int, ...]:
        """Return dimensions in ascending order and not negative; all dimensions if ``dims`` is empty."""
        rank = len(self.shape(value))
        return tuple(sorted(dim % rank for dim in dims)) if dims else tuple(range(rank))

    def mean(self, value: int, dims: Sequence[int], keepdim: bool = False, correction: float = 0) -> int:
        """Return the sum along ``dims``, divided by the number of summed elements minus ``correction``."""
        count = prod(self.shape(value)[dim] for dim in self.dims(value, dims))
        return self.emit("div", self.sum(value, dims, keepdim), self.scalar(count - correction, "f32"))

    def one_hot(self, index: int, size: int, dim: int) -> int:
        """Return a bool mask with ``size`` elements along ``dim`` that is true at ``index``.

        ``index`` has size 1 in that dimension.
        """
        return self.emit("eq", self.iota(size, len(self.shape(index)), dim), index)


def kept(shape: Sequence[int], dims: Sequence[int]) -> tuple[int, ...]:
    """Return ``shape`` with the sizes of the dimensions ``dims`` set to 1."""
    return tuple(1 if dim in dims else size for dim, size in enumerate(shape))
