"""Views, joins, indexing and constants of torch in primitives."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pol.limits import MAX_OPERANDS
from pol.ops.product import DEFAULT_BITS
from pol.tracing.emitter import kept
from pol.tracing.rules import Ref, TraceSite, Unsupported, rule


@rule(
    "aten.view.default",
    "aten.reshape.default",
    "aten._unsafe_view.default",
    "aten.unsqueeze.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "prims.reshape.default",
    "prims.squeeze.default",
)
def _reshape(site: TraceSite, x: Ref, *_how: Any) -> int:
    return site.emitter.reshape(x, site.shape)


@rule("aten.permute.default", "prims.transpose.default")
def _permute(site: TraceSite, x: Ref, dims: Sequence[int]) -> int:
    return site.emitter.permute(x, dims)


@rule("aten.t.default")
def _t(site: TraceSite, x: Ref) -> int:
    return site.emitter.permute(x, range(len(site.shape) - 1, -1, -1))


@rule("aten.transpose.int")
def _transpose(site: TraceSite, x: Ref, first: int, second: int) -> int:
    order = list(range(len(site.shape)))
    order[first], order[second] = order[second], order[first]
    return site.emitter.permute(x, order)


@rule("aten.expand.default")
def _expand(site: TraceSite, x: Ref, sizes: Sequence[int], implicit: bool = False) -> int:
    del sizes, implicit
    return site.emitter.broadcast(x, site.shape)


@rule("aten.repeat.default")
def _repeat(site: TraceSite, x: Ref, times: Sequence[int]) -> int:
    """Dimension by dimension: put a dimension of 1 before it, repeat that, and join the two."""
    emitter = site.emitter
    value = emitter.reshape(x, (1,) * (len(times) - len(emitter.shape(x))) + emitter.shape(x))
    for dim, count in enumerate(times):
        shape = emitter.shape(value)
        if count != 1:
            before, size, after = shape[:dim], shape[dim], shape[dim + 1 :]
            apart = emitter.reshape(value, (*before, 1, size, *after))
            repeated = emitter.broadcast(apart, (*before, count, size, *after))
            value = emitter.reshape(repeated, (*before, count * size, *after))
    return value


@rule("prims.broadcast_in_dim.default")
def _broadcast_in_dim(site: TraceSite, x: Ref, shape: Sequence[int], dims: Sequence[int]) -> int:
    aligned = [1] * len(shape)
    for size, dim in zip(site.emitter.shape(x), dims, strict=True):
        aligned[dim] = size
    return site.emitter.broadcast(site.emitter.reshape(x, aligned), shape)


def _cut(site: TraceSite, x: int, dim: int, start: int, stop: int, step: int = 1) -> int:
    shape = site.emitter.shape(x)
    starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[dim], stops[dim], steps[dim] = start, stop, step
    if starts[dim] == 0 and stops[dim] == shape[dim] and step == 1:
        return x
    return site.emitter.emit(
        "slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps)
    )


def _bounds(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Return what Python's slicing makes of ``start`` and ``end``."""
    low, high, _ = slice(start, end).indices(size)
    return low, max(low, high)


@rule("aten.slice.Tensor")
def _slice(
    site: TraceSite,
    x: Ref,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> int:
    shape = site.emitter.shape(x)
    low, high = _bounds(shape[dim], start, end)
    return _cut(site, x, dim % len(shape), low, high, step)


@rule("aten.select.int")
def _select(site: TraceSite, x: Ref, dim: int, index: int) -> int:
    shape = site.emitter.shape(x)
    start = index % shape[dim]
    return site.emitter.reshape(_cut(site, x, dim % len(shape), start, start + 1), site.shape)


@rule("aten.split.Tensor", "aten.split_with_sizes.default", "aten.split_with_sizes_copy.default")
def _split(site: TraceSite, x: Ref, size: Any, dim: int = 0) -> tuple[int, ...]:
    shape = site.emitter.shape(x)
    total = shape[dim]
    sizes = (
        [min(size, total - at) for at in range(0, total, size)] if isinstance(size, int) else size
    )
    parts, start = [], 0
    for part in sizes:
        parts.append(_cut(site, x, dim % len(shape), start, start + part))
        start += part
    return tuple(parts)


@rule("aten.unbind.int")
def _unbind(site: TraceSite, x: Ref, dim: int = 0) -> tuple[int, ...]:
    shape = site.emitter.shape(x)
    axis = dim % len(shape)
    rest = shape[:axis] + shape[axis + 1 :]
    return tuple(
        site.emitter.reshape(_cut(site, x, axis, index, index + 1), rest)
        for index in range(shape[axis])
    )


@rule("aten.cat.default", "prims.cat.default")
def _cat(site: TraceSite, parts: Sequence[Ref], dim: int = 0) -> int:
    # torch lets [0] stand for nothing, whatever the rank of the others
    present = [part for part in parts if site.emitter.shape(part) != (0,)] or parts[:1]
    values = [site.operand(part, site.dtype) for part in present]
    axis = dim % len(site.shape)
    # a node takes only so many operands
    while len(values) > 1:
        groups = [values[at : at + MAX_OPERANDS] for at in range(0, len(values), MAX_OPERANDS)]
        values = [site.emitter.emit("concat", *group, dim=axis) for group in groups]
    return values[0]


@rule("aten.constant_pad_nd.default")
def _pad(site: TraceSite, x: Ref, widths: Sequence[int], value: float = 0) -> int:
    """Torch gives (low, high) pairs from the last dimension on; negative widths would cut."""
    rank = len(site.shape)
    low, high = [0] * rank, [0] * rank
    for index in range(len(widths) // 2):
        low[rank - 1 - index], high[rank - 1 - index] = widths[2 * index], widths[2 * index + 1]
    return _padded(site, x, low, high, value)


def _padded(
    site: TraceSite, x: int, low: Sequence[int], high: Sequence[int], value: float = 0
) -> int:
    """Pad each dimension; a negative width cuts."""
    result = x
    for dim, (before, after) in enumerate(zip(low, high, strict=True)):
        if before < 0 or after < 0:
            size = site.emitter.shape(result)[dim]
            result = _cut(site, result, dim, max(0, -before), size - max(0, -after))
    widths = {"low": tuple(max(0, w) for w in low), "high": tuple(max(0, w) for w in high)}
    if not any((*widths["low"], *widths["high"])):
        return result
    element = site.emitter.element(value, site.dtype)
    return site.emitter.emit("pad", result, **widths, value=element)


def _spread(site: TraceSite, x: int, dim: int, step: int) -> int:
    """Put ``step`` - 1 zeros after each element along ``dim``."""
    shape = site.emitter.shape(x)
    apart = site.emitter.reshape(x, (*shape[: dim + 1], 1, *shape[dim + 1 :]))
    high = [0] * (len(shape) + 1)
    high[dim + 1] = step - 1
    padded = _padded(site, apart, [0] * len(high), high)
    return site.emitter.reshape(padded, (*shape[:dim], shape[dim] * step, *shape[dim + 1 :]))


@rule("aten.slice_scatter.default")
def _slice_scatter(
    site: TraceSite,
    x: Ref,
    source: Ref,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> int:
    emitter, rank = site.emitter, len(site.shape)
    axis, size = dim % rank, site.shape[dim]
    first, last = _bounds(size, start, end)
    spread = source if step == 1 else _spread(site, source, axis, step)
    low, high = [0] * rank, [0] * rank
    low[axis], high[axis] = first, size - first - emitter.shape(spread)[axis]
    padded = _padded(site, spread, low, high)
    if emitter.is_scalar(x, 0):
        return padded
    inside = np.zeros(size, np.bool_)
    inside[first:last:step] = True
    mask = emitter.constant(inside.reshape([-1 if d == axis else 1 for d in range(rank)]), "bool")
    return emitter.emit("where", mask, padded, x)


@rule("aten.select_scatter.default")
def _select_scatter(site: TraceSite, x: Ref, source: Ref, dim: int, index: int) -> int:
    shape, axis = site.shape, dim % len(site.shape)
    row = site.emitter.reshape(source, kept(shape, [axis]))
    start = index % shape[axis]
    return _slice_scatter(site, x, Ref(row), axis, start, start + 1)


@rule("aten.embedding.default")
def _embedding(
    site: TraceSite,
    table: Ref,
    index: Ref,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> int:
    # these concern the gradient
    del padding_idx, scale_grad_by_freq, sparse
    return site.emitter.emit("take", table, index)


@rule("aten.embedding_dense_backward.default")
def _embedding_backward(
    site: TraceSite,
    gradient: Ref,
    index: Ref,
    rows: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> int:
    if scale_grad_by_freq:
        raise Unsupported("scale_grad_by_freq is not supported")
    return site.emitter.reshape(_added_rows(site, gradient, index, rows, padding_idx), site.shape)


def _added_rows(site: TraceSite, values: int, index: int, rows: int, left_out: int = -1) -> int:
    """Add each row of ``values`` to the row that ``index`` names of a table of zeros, [rows, width].

    It is the product of the one-hot matrix of the indices with the rows: an exact sum, whatever the order. It has 15
    bits whatever the job's products have, for no product of the model is meant.
    """
    emitter = site.emitter
    count = emitter.type(index).elements
    width = emitter.type(values).elements // count
    flat = emitter.reshape(index, (1, count))
    chosen = emitter.emit("eq", emitter.iota(rows, 2, 0), flat)
    if left_out >= 0:
        other = emitter.emit("ne", flat, emitter.scalar(left_out, "i64"))
        chosen = emitter.emit("logical_and", chosen, other)
    return emitter.emit(
        "matmul",
        emitter.cast(chosen, "f32"),
        emitter.reshape(values, (count, width)),
        bits=DEFAULT_BITS,
    )


@rule("aten.index_put.default", "aten._unsafe_index_put.default")
def _index_put(
    site: TraceSite, x: Ref, indices: Sequence[Ref | None], values: Ref, accumulate: bool = False
) -> int:
    emitter, shape = site.emitter, site.shape
    indexed = [dim for dim, index in enumerate(indices) if index is not None]
    if not accumulate or site.dtype != "f32":
        raise Unsupported("only the gradient of x[i, j, …] with tensors of integers is supported")
    flat = _row_numbers(site, shape, indices)
    rest = [dim for dim in range(len(shape)) if dim not in indexed]
    sizes = [*emitter.shape(flat), *(shape[dim] for dim in rest)]
    order = _order_of_result(indexed, len(emitter.shape(flat)), len(rest))
    whole = emitter.broadcast(values, [sizes[dim] for dim in order])
    rows_first = emitter.permute(whole, [order.index(dim) for dim in range(len(order))])
    spread = _added_rows(site, rows_first, flat, prod(shape[dim] for dim in indexed))
    moved = [*indexed, *rest]
    apart = emitter.reshape(spread, [shape[dim] for dim in moved])
    added = emitter.permute(apart, [moved.index(dim) for dim in range(len(moved))])
    return added if emitter.is_scalar(x, 0) else emitter.emit("add", x, added)


@rule("aten.index_select.default")
def _index_select(site: TraceSite, x: Ref, dim: int, index: Ref) -> int:
    emitter = site.emitter
    rank = len(emitter.shape(x))
    order = [dim % rank, *(axis for axis in range(rank) if axis != dim % rank)]
    taken = emitter.emit("take", emitter.permute(x, order), index)
    return emitter.permute(taken, [order.index(axis) for axis in range(rank)])


@rule("aten.index.Tensor", "aten._unsafe_index.Tensor")
def _index(site: TraceSite, x: Ref, indices: Sequence[Ref | None]) -> int:
    """Take from a table with a row for each combination of what the indexed dimensions can be."""
    emitter, shape = site.emitter, site.emitter.shape(x)
    indexed = [dim for dim, index in enumerate(indices) if index is not None]
    flat = _row_numbers(site, shape, indices)
    rest = [dim for dim in range(len(shape)) if dim not in indexed]
    rows = prod(shape[dim] for dim in indexed)
    table = emitter.reshape(
        emitter.permute(x, [*indexed, *rest]), (rows, *(shape[dim] for dim in rest))
    )
    order = _order_of_result(indexed, len(emitter.shape(flat)), len(rest))
    return emitter.permute(emitter.emit("take", table, flat), order)


def _order_of_result(indexed: Sequence[int], rank: int, rest: int) -> list[int]:
    """Return how what was taken, ``rank`` dimensions of rows before the rest, is put in torch's order.

    Where indexed dimensions are side by side, the rows come where the first of them was, else in front.
    """
    before = indexed[0] if indexed[-1] - indexed[0] == len(indexed) - 1 else 0
    return [*range(rank, rank + before), *range(rank), *range(rank + before, rank + rest)]


def _row_numbers(site: TraceSite, shape: Sequence[int], indices: Sequence[Ref | None]) -> int:
    """Return the row of each combination of indices in a table of all; -1, which no table has, where one is outside.

    With several a number that is outside of its own dimension would else name a row of another combination.
    """
    emitter = site.emitter
    given = [(shape[dim], index) for dim, index in enumerate(indices) if index is not None]
    if any(emitter.type(index).dtype != "i64" for _, index in given):
        raise Unsupported("a mask has as many results as it has ones; use torch.where")
    if len(given) == 1:
        return given[0][1]
    zero, total, inside = emitter.scalar(0, "i64"), None, None
    for at, (size, index) in enumerate(given):
        count = emitter.scalar(size, "i64")
        is_behind = emitter.emit("lt", index, zero)
        part = emitter.emit("where", is_behind, emitter.emit("add", index, count), index)
        is_in = emitter.emit(
            "logical_and", emitter.emit("ge", part, zero), emitter.emit("lt", part, count)
        )
        inside = is_in if inside is None else emitter.emit("logical_and", inside, is_in)
        width = emitter.scalar(prod(size for size, _ in given[at + 1 :]), "i64")
        part = emitter.emit("mul", part, width)
        total = part if total is None else emitter.emit("add", total, part)
    assert total is not None
    assert inside is not None
    return emitter.emit("where", inside, total, emitter.scalar(-1, "i64"))


@rule("aten.gather.default")
def _gather(site: TraceSite, x: Ref, dim: int, index: Ref, sparse_grad: bool = False) -> int:
    """One index for each row: the sum over a one-hot mask, in which all terms but one are zero."""
    del sparse_grad
    emitter, source, wanted = site.emitter, site.emitter.shape(x), site.shape
    if len(source) == 1 and wanted != (1,):
        return emitter.emit("take", x, index)
    axis = dim % len(wanted)
    if (
        wanted[axis] != 1
        or source[:axis] + source[axis + 1 :] != wanted[:axis] + wanted[axis + 1 :]
    ):
        raise Unsupported("only one index for each row can be gathered")
    if emitter.type(x).dtype != "f32":
        raise Unsupported("only float32 can be gathered")
    chosen = emitter.one_hot(index, source[axis], axis)
    zero = emitter.scalar(0, "f32")
    return emitter.sum(emitter.emit("where", chosen, x, zero), [axis], keepdim=True)


@rule("aten.scatter.value", "aten.scatter.src")
def _scatter(site: TraceSite, x: Ref, dim: int, index: Ref, value: Any) -> int:
    emitter, axis = site.emitter, dim % len(site.shape)
    shape = emitter.shape(index)
    if shape != kept(site.shape, [axis]):
        raise Unsupported("only one element for each row can be scattered")
    chosen = emitter.one_hot(index, site.shape[axis], axis)
    result = emitter.emit("where", chosen, site.operand(value, site.dtype), x)
    return emitter.broadcast(result, site.shape)


@rule("aten.scatter_add.default")
def _scatter_add(site: TraceSite, x: Ref, dim: int, index: Ref, source: Ref) -> int:
    """The gradient of gathering one element for each row."""
    emitter = site.emitter
    zeros = Ref(emitter.full(0, site.dtype, site.shape))
    if len(site.shape) == 1 and emitter.shape(index) != (1,):
        added = emitter.reshape(_added_rows(site, source, index, site.shape[0]), site.shape)
    else:
        added = _scatter(site, zeros, dim, index, source)
    return added if emitter.is_scalar(x, 0) else emitter.emit("add", x, added)


@rule("aten.arange.start_step", "prims.iota.default", "aten.arange.default", "aten.arange.start")
def _arange(site: TraceSite, *arguments: Any, **options: Any) -> int:
    """Numbers start, start + step, …; torch's three forms differ in which of them are given."""
    emitter = site.emitter
    size = site.shape[0]
    start, step = 0, 1
    if str(site.node.target) == "prims.iota.default":
        start, step = options.get("start", 0), options.get("step", 1)
    elif len(arguments) >= 2:
        start, step = arguments[0], arguments[2] if len(arguments) > 2 else 1
    value = emitter.cast(emitter.iota(size), site.dtype)
    if step != 1:
        value = emitter.emit("mul", value, emitter.scalar(step, site.dtype))
    if start != 0:
        value = emitter.emit("add", value, emitter.scalar(start, site.dtype))
    return value


def _number(position: int, default: float | None = None) -> Any:
    def handler(site: TraceSite, *arguments: Any, **_options: Any) -> int:
        number = arguments[position] if default is None else default
        if isinstance(number, Ref):
            return site.emitter.broadcast(site.operand(number, site.dtype), site.shape)
        return site.emitter.full(number, site.dtype, site.shape)

    return handler


rule("aten.scalar_tensor.default", "prims.scalar_tensor.default")(_number(0))
rule("aten.full.default", "aten.full_like.default", "aten.fill.Scalar", "aten.fill.Tensor")(
    _number(1)
)
rule("aten.new_full.default")(_number(2))
# Memory without values is written before it is read; zeros are the same on every machine.
for _name in ("empty.memory_format", "empty_like.default", "empty_permuted.default"):
    rule(f"aten.{_name}")(_number(0, 0.0))
for _name in ("new_empty.default", "new_empty_strided.default", "empty_strided.default"):
    rule(f"aten.{_name}")(_number(0, 0.0))
for _name in ("zeros", "zeros_like", "new_zeros"):
    rule(f"aten.{_name}.default")(_number(0, 0.0))
for _name in ("ones", "ones_like", "new_ones"):
    rule(f"aten.{_name}.default")(_number(0, 1.0))
