"""Sorting and related operations, running sums and products, reversal, diagonals and windows.

Equal elements stay in their original order, even if the sort is descending. NaN is last in both directions.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from pol.capture.constants.known import COUNTS
from pol.capture.program.emitter import Emitter
from pol.capture.program.formula import Expression
from pol.capture.program.functions_fp32 import log1p
from pol.capture.rules.index import at_least_1d, gathered
from pol.capture.rules.reduce import opposite
from pol.capture.rules.registry import CaptureSite, Ref, Unsupported, rule
from pol.capture.rules.shape import cut

# --- positions in order ---


def _positions(emitter: Emitter, x: int, axis: int, *, descending: bool) -> int:
    if descending:
        x = opposite(emitter, x)
    return emitter.emit("argsort", x, dim=axis)


def _sortable(site: CaptureSite, x: Ref) -> int:
    emitter = site.emitter
    value = emitter.reshape(x, at_least_1d(emitter.shape(x)))
    return emitter.cast(value, "i64") if emitter.type(x).dtype == "bool" else value


def _first(site: CaptureSite, x: Ref, dim: int, count: int, *, descending: bool) -> tuple[int, ...]:
    """Return the first ``count`` elements along ``dim`` after sorting, and the positions that they had before."""
    emitter, value = site.emitter, _sortable(site, x)
    axis = dim % len(emitter.shape(value))
    positions = _positions(emitter, value, axis, descending=descending)
    positions = cut(site, positions, axis, 0, count)
    values = emitter.cast(gathered(emitter, value, axis, positions), emitter.type(x).dtype)
    shape = emitter.shape(x) and emitter.shape(values)
    return emitter.reshape(values, shape), emitter.reshape(positions, shape)


def _size(site: CaptureSite, x: Ref, dim: int) -> int:
    shape = site.emitter.shape(x)
    return shape[dim] if shape else 1


@rule("aten.sort.default")
def _sort(site: CaptureSite, x: Ref, dim: int = -1, descending: bool = False) -> tuple[int, ...]:
    return _first(site, x, dim, _size(site, x, dim), descending=descending)


@rule("aten.sort.stable")
def _sort_stable(
    site: CaptureSite, x: Ref, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[int, ...]:
    del stable
    return _first(site, x, dim, _size(site, x, dim), descending=descending)


@rule("aten.topk.default")
def _topk(
    site: CaptureSite,
    x: Ref,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,  # noqa: A002
) -> tuple[int, ...]:
    del sorted
    return _first(site, x, dim, k, descending=largest)


def _ranked(
    site: CaptureSite, x: Ref, dim: int, rank: Callable[[int], int], *, keepdim: bool, spreads: bool
) -> tuple[int, ...]:
    """Return the element along ``dim`` with a given rank in ascending order, and its position.

    ``rank`` is a function that returns the rank for the size of the dimension. If ``spreads`` is true, the result is
    NaN if any element is NaN.
    """
    emitter, value = site.emitter, _sortable(site, x)
    axis = dim % len(emitter.shape(value))
    size = emitter.shape(value)[axis]
    order = _positions(emitter, value, axis, descending=False)
    at = cut(site, order, axis, rank(size), rank(size) + 1)
    element = gathered(emitter, value, axis, at)
    if spreads and emitter.type(x).dtype == "f32":
        last = cut(site, order, axis, size - 1, size)
        most = gathered(emitter, value, axis, last)
        is_missing = emitter.emit("ne", most, most)
        element = emitter.emit("where", is_missing, most, element)
        at = emitter.emit("where", is_missing, last, at)
    shape = emitter.shape(element)
    if not emitter.shape(x):
        shape = ()
    elif not keepdim:
        shape = (*shape[:axis], *shape[axis + 1 :])
    return emitter.reshape(element, shape), emitter.reshape(at, shape)


@rule("aten.kthvalue.default")
def _kthvalue(site: CaptureSite, x: Ref, k: int, dim: int = -1, keepdim: bool = False) -> tuple[int, ...]:
    return _ranked(site, x, dim, lambda _: k - 1, keepdim=keepdim, spreads=False)


@rule("aten.median.dim")
def _median_dim(site: CaptureSite, x: Ref, dim: int, keepdim: bool = False) -> tuple[int, ...]:
    return _ranked(site, x, dim, lambda size: (size - 1) // 2, keepdim=keepdim, spreads=True)


@rule("aten.median.default")
def _median(site: CaptureSite, x: Ref) -> int:
    flat = Ref(site.emitter.reshape(x, (site.emitter.type(x).elements,)))
    return _median_dim(site, flat, 0)[0]


@rule("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def _searchsorted(
    site: CaptureSite,
    edges: Ref,
    x: Any,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Ref | None = None,
) -> int:
    """Return the number of edges below each element or, if ``right`` is true, below or equal to it."""
    del out_int32
    emitter = site.emitter
    if sorter is not None:
        raise Unsupported("sorter= is not supported; sort the boundaries first: edges[sorter]")
    dtypes = {emitter.type(v).dtype for v in (edges, x) if isinstance(v, Ref)}
    dtype = "f32" if "f32" in dtypes or isinstance(x, float) else "i64"
    value, lines = site.operand(x, dtype), site.operand(edges, dtype)
    shape = emitter.shape(value)
    # Each element is compared with all edges of its line.
    apart = emitter.reshape(value, (*shape, 1))
    if len(emitter.shape(edges)) > 1:
        own = emitter.shape(edges)
        lines = emitter.reshape(lines, (*own[:-1], 1, own[-1]))
    op = "le" if right or side == "right" else "lt"
    return emitter.sum(emitter.emit(op, lines, apart), [len(shape)])


@rule("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def _bucketize(site: CaptureSite, x: Any, edges: Ref, out_int32: bool = False, right: bool = False) -> int:
    return _searchsorted(site, edges, x, out_int32, right)


# --- running ---


def _running(emitter: Emitter, x: int, axis: int, start: float, step: Callable[[int, int], int]) -> int:
    """Return running results of the operation ``step`` along ``axis``, such as running sums.

    In turn, each element is combined with the elements that are 1, 2, 4, ... places before it. ``start`` is the value
    before the first element.
    """
    shape, dtype = emitter.shape(x), emitter.type(x).dtype
    distance = 1
    while distance < shape[axis]:
        stops = [size - distance if d == axis else size for d, size in enumerate(shape)]
        none = [0] * len(shape)
        earlier = emitter.emit("slice", x, starts=tuple(none), stops=tuple(stops), steps=(1,) * len(shape))
        low = tuple(distance if d == axis else 0 for d in range(len(shape)))
        before = emitter.emit("pad", earlier, low=low, high=tuple(none), value=emitter.element(start, dtype))
        x = step(before, x)
        distance *= 2
    return x


def _with(op: str, start: float) -> Any:
    def handler(site: CaptureSite, x: Ref, dim: int, dtype: Any = None) -> int:
        del dtype
        emitter, value = site.emitter, site.operand(x, site.dtype)
        if not site.shape:
            return value
        axis = dim % len(site.shape)
        return _running(emitter, value, axis, start, lambda a, b: emitter.emit(op, a, b))

    return handler


rule("aten.cumsum.default")(_with("add", 0))
rule("aten.cumprod.default")(_with("mul", 1))


@rule("aten.logcumsumexp.default")
def _logcumsumexp(site: CaptureSite, x: Ref, dim: int) -> int:
    emitter = site.emitter

    def step(left: int, right: int) -> int:
        a, b = Expression(emitter, left), Expression(emitter, right)
        most = a.maximum(b)
        # The difference of two minus infinities would be NaN.
        apart = a.is_equal(b).where(0.0, -abs(a - b))
        return (most + log1p(apart.function("exp"))).handle

    if not site.shape:
        return int(x)
    return _running(emitter, x, dim % len(site.shape), -math.inf, step)


def _running_extreme(op: str) -> Any:
    def handler(site: CaptureSite, x: Ref, dim: int) -> tuple[int, ...]:
        """Return the running extremes and their positions. If several elements are equal, the last one counts."""
        emitter, value = site.emitter, _sortable(site, x)
        if emitter.type(x).dtype == "bool":
            raise Unsupported("running extremes of bool values are not supported; use mask.long()")
        shape = emitter.shape(value)
        axis = dim % len(shape)
        is_float = emitter.type(value).dtype == "f32"
        least = -math.inf if is_float else -(2**63)
        most = math.inf if is_float else 2**63 - 1
        start = least if op == "maximum" else most
        best = _running(emitter, value, axis, start, lambda a, b: emitter.emit(op, a, b))
        here = emitter.iota(shape[axis], len(shape), axis)
        is_best = emitter.emit("eq", value, best)
        if is_float:
            both = emitter.emit(
                "logical_and",
                emitter.emit("ne", value, value),
                emitter.emit("ne", best, best),
            )
            is_best = emitter.emit("logical_or", is_best, both)
        marked = emitter.emit("where", is_best, here, emitter.scalar(0, "i64"))
        place = _running(emitter, marked, axis, 0, lambda a, b: emitter.emit("maximum", a, b))
        out = emitter.shape(x)
        return emitter.reshape(best, out), emitter.reshape(place, out)

    return handler


rule("aten.cummax.default")(_running_extreme("maximum"))
rule("aten.cummin.default")(_running_extreme("minimum"))


@rule("aten.prod.default", "aten.prod.dim_int")
def _prod(site: CaptureSite, x: Ref, dim: int | None = None, keepdim: bool = False, dtype: Any = None) -> int:
    """Multiply the first half of the elements by the second half, and repeat this until one element is left.

    If the number of elements is odd, the last element is kept for the next repetition.
    """
    del dtype
    emitter, value = site.emitter, site.operand(x, site.dtype)
    shape = emitter.shape(value)
    if dim is None or not shape:
        value, axis = emitter.reshape(value, (emitter.type(value).elements,)), 0
    else:
        axis = dim % len(shape)
    del keepdim
    size = emitter.shape(value)[axis]
    if not size:
        return emitter.full(1, site.dtype, site.shape)
    while size > 1:
        half = size // 2
        product = emitter.emit("mul", cut(site, value, axis, 0, half), cut(site, value, axis, half, 2 * half))
        if size % 2:
            last = cut(site, value, axis, size - 1, size)
            product = emitter.emit("concat", product, last, dim=axis)
        value, size = product, half + size % 2
    return emitter.reshape(value, site.shape)


# --- reversal ---


@rule("aten.flip.default", "prims.rev.default")
def _flip(site: CaptureSite, x: Ref, dims: Sequence[int]) -> int:
    emitter, value = site.emitter, int(x)
    for dim in dims:
        value = _reversed(emitter, value, dim % len(site.shape))
    return value


def _reversed(emitter: Emitter, x: int, axis: int) -> int:
    """Return a value with the elements along one dimension in the opposite order."""
    shape = emitter.shape(x)
    size = shape[axis]
    if size < 2:
        return x
    order = [axis, *(d for d in range(len(shape)) if d != axis)]
    backwards = emitter.emit("sub", emitter.scalar(size - 1, "i64"), emitter.iota(size))
    taken = emitter.emit("take", emitter.permute(x, order), backwards)
    return emitter.permute(taken, [order.index(d) for d in range(len(shape))])


# --- diagonals and windows ---


@rule("aten.diagonal.default", "aten.diagonal_copy.default")
def _diagonal(site: CaptureSite, x: Ref, offset: int = 0, dim1: int = 0, dim2: int = 1) -> int:
    """Return the diagonal as a slice of the flat matrix, in which each step goes one row and one column further."""
    emitter, shape = site.emitter, site.emitter.shape(x)
    one, two = dim1 % len(shape), dim2 % len(shape)
    rest = [dim for dim in range(len(shape)) if dim not in (one, two)]
    rows, columns = shape[one], shape[two]
    moved = emitter.permute(x, [*rest, one, two])
    flat = emitter.reshape(moved, (*(shape[dim] for dim in rest), rows * columns))
    count, start = site.shape[-1], offset if offset >= 0 else -offset * columns
    if not count:
        return emitter.full(0, site.dtype, site.shape)
    end = start + (count - 1) * (columns + 1) + 1
    return cut(site, flat, len(rest), start, end, columns + 1)


@rule("aten.diagonal_scatter.default")
def _diagonal_scatter(site: CaptureSite, x: Ref, source: Ref, offset: int = 0, dim1: int = 0, dim2: int = 1) -> int:
    emitter, shape = site.emitter, site.shape
    one, two = dim1 % len(shape), dim2 % len(shape)
    rest = [dim for dim in range(len(shape)) if dim not in (one, two)]
    # Element k of the diagonal is in row k or, if ``offset`` is negative, in column k.
    axis, size = (0, shape[one]) if offset >= 0 else (1, shape[two])
    own = emitter.shape(source)
    high = (*[0] * len(rest), size - own[-1])
    whole = source
    if high[-1]:
        filled = emitter.element(0, site.dtype)
        whole = Ref(emitter.emit("pad", source, low=(0,) * len(high), high=high, value=filled))
    beside = (*own[:-1], size, 1) if axis == 0 else (*own[:-1], 1, size)
    line = emitter.reshape(whole, beside)
    ahead = emitter.emit("add", emitter.iota(shape[one], 2, 0), emitter.scalar(offset, "i64"))
    is_on = emitter.emit("eq", emitter.iota(shape[two], 2, 1), ahead)
    order = [*rest, one, two]
    written = emitter.emit("where", is_on, line, emitter.permute(x, order))
    return emitter.permute(written, [order.index(dim) for dim in range(len(shape))])


@rule("aten.unfold.default")
def _unfold(site: CaptureSite, x: Ref, dim: int, size: int, step: int) -> int:
    emitter, shape = site.emitter, site.emitter.shape(x)
    if not shape:
        return emitter.reshape(x, site.shape)
    axis = dim % len(shape)
    order = [axis, *(d for d in range(len(shape)) if d != axis)]
    first = emitter.emit("mul", emitter.iota(site.shape[axis], 2, 0), emitter.scalar(step, "i64"))
    places = emitter.emit("add", first, emitter.iota(size, 2, 1))
    taken = emitter.emit("take", emitter.permute(x, order), places)
    rest = list(range(2, len(shape) + 1))
    return emitter.permute(taken, [*rest[:axis], 0, *rest[axis:], 1])


_MASKED_SOFTMAX = "it is an internal part of torch's layers; use torch.softmax(x.masked_fill(mask, -torch.inf), dim)"
_REFUSED = {
    "aten._local_scalar_dense.default": "values are unknown before a step; remove .item() and .tolist()",
    **{
        str(overload): "; ".join(reason_and_remedy)
        for packet, reason_and_remedy in COUNTS.items()
        for overload in (getattr(packet, name) for name in packet.overloads())
        if packet is not torch.ops.aten.index
    },
    "aten._masked_softmax.default": _MASKED_SOFTMAX,
    "aten._masked_softmax_backward.default": _MASKED_SOFTMAX,
    "aten._masked_scale.default": "it is an internal part of torch's layers; use x * mask * scale",
    "aten._segment_reduce_backward.default": "it is an internal gradient of torch; use torch.segment_reduce",
    "aten._gather_sparse_backward.default": "its gradient would be sparse; remove sparse_grad=True",
    "aten._sparse_mm_reduce_impl.default": "it is for sparse matrices; use torch.mm, or scatter_reduce of the rows",
    "aten._sparse_mm_reduce_impl_backward.default": "it is for sparse matrices; use torch.mm",
    "aten.batch_norm_backward_reduce.default": "it is part of batch norm on several devices; use nn.BatchNorm2d",
    "aten.fractional_max_pool2d.default": "torch draws its windows at random; use nn.MaxPool2d",
    "aten.fractional_max_pool3d.default": "torch draws its windows at random; use nn.MaxPool3d",
    "aten._fft_r2c.default": "jobs have no complex numbers; multiply by a matrix of cosines and sines",
    "aten._fft_c2c.default": "jobs have no complex numbers; multiply by a matrix of cosines and sines",
}
for _name, _reason in _REFUSED.items():

    @rule(_name)
    def _refused(site: CaptureSite, *_: Any, reason: str = _reason, **__: Any) -> int:
        raise Unsupported(reason)


for _name in ("and", "or", "xor", "left_shift", "right_shift"):

    @rule(f"aten.bitwise_{_name}.Scalar", f"aten.bitwise_{_name}.Tensor_Scalar")
    def _bits(site: CaptureSite, *_: Any, **__: Any) -> int:
        raise Unsupported("bitwise operations on integers are not supported; use // and % by powers of two")


rule("aten.__lshift__.Scalar", "aten.__rshift__.Scalar")(_bits)
