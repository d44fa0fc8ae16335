"""Operations by index and their gradients: rows of tables, gathering, scattering, one index or several.

An index outside its dimension names no element, and a job that reads at such an index stops. If a place is written
twice, the last write counts. Sums are added in the order of the index.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from pol.capture.constants.known import COUNTS
from pol.capture.program.emitter import Emitter, kept
from pol.capture.rules.registry import CaptureSite, Ref, Unsupported, rule
from pol.capture.rules.shape import cut

ONE_HOT_MOST = 1_024
"""Largest number of elements for which a mask of all classes costs less than a lookup."""
_OF_MASKS = "; ".join(COUNTS[torch.ops.aten.index])
_EXACT = 2**24
"""Size below which all integers are exact in FP32."""


@rule("aten.embedding.default")
def _embedding(
    site: CaptureSite,
    table: Ref,
    index: Ref,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> int:
    # These arguments only change the gradient.
    del padding_idx, scale_grad_by_freq, sparse
    return site.emitter.emit("take", table, index)


@rule("aten.embedding_dense_backward.default")
def _embedding_backward(
    site: CaptureSite,
    gradient: Ref,
    index: Ref,
    rows: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> int:
    emitter, values = site.emitter, int(gradient)
    rank = len(emitter.shape(index))
    beside = (*emitter.shape(index), *[1] * (len(emitter.shape(gradient)) - rank))
    if scale_grad_by_freq:
        ones = emitter.full(1, "f32", emitter.shape(index))
        counts = emitter.emit("take", emitter.emit("add_rows", index, ones, rows=rows), index)
        values = emitter.emit("div", values, emitter.reshape(counts, beside))
    if padding_idx >= 0:
        other = emitter.emit("ne", index, emitter.scalar(padding_idx, "i64"))
        zero = emitter.scalar(0, "f32")
        values = emitter.emit("where", emitter.reshape(other, beside), values, zero)
    return emitter.emit("add_rows", index, values, rows=rows)


# --- one index along a dimension ---


@rule("aten.index_select.default")
def _index_select(site: CaptureSite, x: Ref, dim: int, index: Ref) -> int:
    emitter = site.emitter
    if not emitter.shape(x):
        return emitter.reshape(x, site.shape)
    flat = emitter.reshape(index, (emitter.type(index).elements,))
    first = _to_front(len(emitter.shape(x)), dim)
    taken = emitter.emit("take", emitter.permute(x, first), flat)
    return emitter.permute(taken, _back(first))


@rule("aten.index_add.default")
def _index_add(site: CaptureSite, x: Ref, dim: int, index: Ref, source: Ref, alpha: float = 1) -> int:
    emitter, first = site.emitter, _to_front(len(site.shape), dim)
    _check_float(site)
    flat = emitter.reshape(index, (emitter.type(index).elements,))
    rows = emitter.permute(source, first)
    if alpha != 1:
        rows = emitter.emit("mul", rows, emitter.scalar(alpha, "f32"))
    added = emitter.emit("add_rows", flat, rows, rows=site.shape[first[0]])
    return _plus(emitter, x, emitter.permute(added, _back(first)))


@rule("aten.index_copy.default")
def _index_copy(site: CaptureSite, x: Ref, dim: int, index: Ref, source: Ref) -> int:
    emitter, first = site.emitter, _to_front(len(site.shape), dim)
    flat = emitter.reshape(index, (emitter.type(index).elements,))
    written = _written(site, emitter.permute(x, first), flat, emitter.permute(source, first), may_repeat=True)
    return emitter.permute(written, _back(first))


@rule("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def _index_fill(site: CaptureSite, x: Ref, dim: int, index: Ref, value: Any) -> int:
    emitter, axis = site.emitter, dim % len(site.shape)
    count = emitter.type(index).elements
    ones = emitter.full(1, "f32", (count,))
    is_named = _named(emitter, emitter.reshape(index, (count,)), ones, site.shape[axis])
    size = [site.shape[axis] if d == axis else 1 for d in range(len(site.shape))]
    filled = site.operand(value, site.dtype)
    return emitter.emit("where", emitter.reshape(is_named, size), filled, x)


def _to_front(rank: int, dim: int) -> list[int]:
    """Return the numbers of all dimensions in ascending order, but with ``dim`` first."""
    axis = dim % rank
    return [axis, *(other for other in range(rank) if other != axis)]


def _back(order: Sequence[int]) -> list[int]:
    """Return the permutation of dimensions that undoes another permutation."""
    return [order.index(dim) for dim in range(len(order))]


def _check_float(site: CaptureSite) -> None:
    if site.dtype != "f32":
        raise Unsupported("sums of integers by index are not supported; convert the tensors to float32: x.float()")


def _plus(emitter: Emitter, x: int, added: int) -> int:
    return added if emitter.is_scalar(x, 0) else emitter.emit("add", x, added)


# --- an index for each element ---


@rule("aten.gather.default")
def _gather(site: CaptureSite, x: Ref, dim: int, index: Ref, sparse_grad: bool = False) -> int:
    del sparse_grad
    emitter, source, wanted = site.emitter, site.emitter.shape(x), site.shape
    if not emitter.type(index).elements:
        return emitter.full(0, site.dtype, wanted)
    if not source:
        return emitter.reshape(x, wanted)
    axis = dim % len(source)
    if wanted == kept(source, [axis]) and site.dtype == "f32" and emitter.type(x).elements <= ONE_HOT_MOST:
        # All terms of the sum except one are zero.
        chosen = emitter.one_hot(index, source[axis], axis)
        zero = emitter.scalar(0, "f32")
        return emitter.sum(emitter.emit("where", chosen, x, zero), [axis], keepdim=True)
    return gathered(emitter, x, axis, index)


def gathered(emitter: Emitter, x: int, axis: int, index: int) -> int:
    """Return the elements of ``x`` that ``index`` names along the dimension ``axis``.

    Each element of ``index`` reads from its own line of ``x``, as in ``torch.gather``.
    """
    shape = emitter.shape(x)
    last = _to_end(len(shape), axis)
    flat = emitter.reshape(emitter.permute(x, last), (prod(shape),))
    taken = emitter.emit("take", flat, _numbers(emitter, shape, axis, index))
    return emitter.permute(taken, _back(last))


@rule("aten.scatter.value", "aten.scatter.src")
def _scatter(site: CaptureSite, x: Ref, dim: int, index: Ref, value: Any) -> int:
    emitter, shape = site.emitter, at_least_1d(site.shape)
    axis, index = dim % len(shape), _with_dimensions(site, index)
    if not emitter.type(index).elements:
        return int(x)
    given = emitter.shape(index)
    whole = emitter.reshape(x, shape)
    if given == kept(shape, [axis]) and prod(shape) <= ONE_HOT_MOST:
        chosen = emitter.one_hot(index, shape[axis], axis)
        source = value if not isinstance(value, Ref) else Ref(_fitting(site, value, given))
        written = emitter.emit("where", chosen, site.operand(source, site.dtype), whole)
        return emitter.reshape(emitter.broadcast(written, shape), site.shape)
    last = _to_end(len(shape), axis)
    numbers = _numbers(emitter, shape, axis, index)
    count = emitter.type(numbers).elements
    flat = emitter.reshape(numbers, (count,))
    rows = emitter.reshape(emitter.permute(whole, last), (prod(shape),))
    if isinstance(value, Ref):
        values = emitter.reshape(emitter.permute(_fitting(site, value, given), last), (count,))
        # With one index per line, no place is written twice.
        written = _written(site, rows, flat, values, may_repeat=given[axis] > 1)
    elif given[axis] == 1 and site.dtype == "f32" and emitter.is_scalar(x, 0):
        values = emitter.full(value, "f32", (count,))
        written = emitter.emit("add_rows", flat, values, rows=prod(shape))
    else:
        number = emitter.scalar(value, site.dtype)
        is_named = _named(emitter, flat, emitter.full(1, "f32", (count,)), prod(shape))
        written = emitter.emit("where", is_named, number, rows)
    moved = emitter.reshape(written, [shape[dim] for dim in last])
    return emitter.reshape(emitter.permute(moved, _back(last)), site.shape)


@rule("aten.scatter_add.default")
def _scatter_add(site: CaptureSite, x: Ref, dim: int, index: Ref, source: Ref) -> int:
    emitter, shape = site.emitter, at_least_1d(site.shape)
    _check_float(site)
    axis, index = dim % len(shape), _with_dimensions(site, index)
    given = emitter.shape(index)
    if not emitter.type(index).elements:
        return int(x)
    if given == kept(shape, [axis]) and prod(shape) <= ONE_HOT_MOST:
        zeros = Ref(emitter.full(0, site.dtype, site.shape))
        return _plus(emitter, x, _scatter(site, zeros, dim, index, source))
    last = _to_end(len(shape), axis)
    numbers = _numbers(emitter, shape, axis, index)
    values = emitter.permute(_fitting(site, source, given), last)
    added = emitter.emit("add_rows", numbers, values, rows=prod(shape))
    moved = emitter.reshape(added, [shape[dim] for dim in last])
    return _plus(emitter, x, emitter.reshape(emitter.permute(moved, _back(last)), site.shape))


def at_least_1d(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape with at least one dimension."""
    return tuple(shape) or (1,)


def _with_dimensions(site: CaptureSite, index: Ref) -> Ref:
    return Ref(site.emitter.reshape(index, at_least_1d(site.emitter.shape(index))))


def _fitting(site: CaptureSite, source: Ref, shape: Sequence[int]) -> int:
    """Cut a source to ``shape``, which is the shape of the index. The first elements along each dimension remain."""
    value = site.emitter.cast(_with_dimensions(site, source), site.dtype)
    for dim, size in enumerate(shape):
        value = cut(site, value, dim, 0, size)
    return value


def _to_end(rank: int, axis: int) -> list[int]:
    """Return the numbers of all dimensions in ascending order, but with ``axis`` last."""
    return [*(other for other in range(rank) if other != axis), axis]


def _numbers(emitter: Emitter, shape: Sequence[int], axis: int, index: int) -> int:
    """Return the number of the element that each element of ``index`` names, in a value with ``axis`` moved to the end.

    ``shape`` is the shape of the value. An element of ``index`` reads from the line of the value that has the element's
    own position; ``index`` may have fewer lines than the value. The number is -1 if the index is outside of the line.
    """
    moved = emitter.permute(index, _to_end(len(shape), axis))
    others = [size for dim, size in enumerate(shape) if dim != axis]
    if prod(others) == 1:
        return moved
    lines = emitter.reshape(emitter.iota(prod(others)), others)
    starts, box = [0] * len(others), emitter.shape(moved)[:-1]
    if box != tuple(others):
        steps = tuple(1 for _ in others)
        lines = emitter.emit("slice", lines, starts=tuple(starts), stops=box, steps=steps)
    count = emitter.scalar(shape[axis], "i64")
    first = emitter.emit("mul", emitter.reshape(lines, (*box, 1)), count)
    number = emitter.emit("add", first, moved)
    return emitter.emit("where", _is_in(emitter, moved, count), number, emitter.scalar(-1, "i64"))


def _is_in(emitter: Emitter, index: int, count: int) -> int:
    return emitter.emit(
        "logical_and",
        emitter.emit("ge", index, emitter.scalar(0, "i64")),
        emitter.emit("lt", index, count),
    )


def _written(site: CaptureSite, rows: int, numbers: int, values: int, *, may_repeat: bool) -> int:
    """Return ``rows`` after ``values`` are written to the rows with the ``numbers``, of shape [K].

    If a row is written several times, the last write counts. Rows may be written several times only if ``may_repeat``
    is true.
    """
    emitter = site.emitter
    shape, dtype = emitter.shape(rows), emitter.type(rows).dtype
    count, whole = emitter.shape(numbers)[0], len(shape) - 1
    column = (count, *[1] * whole)
    weights = emitter.full(1, "f32", (count,))
    if may_repeat and count > 1:
        order = emitter.emit("argsort", numbers, dim=0)
        numbers, values = (emitter.emit("take", part, order) for part in (numbers, values))
        following = cut(site, numbers, 0, 1, count)
        changes = emitter.emit("ne", cut(site, numbers, 0, 0, count - 1), following)
        is_last = emitter.emit("pad", changes, low=(0,), high=(1,), value="01")
        weights = emitter.cast(is_last, "f32")
        if dtype == "f32":
            zero = emitter.scalar(0, "f32")
            values = emitter.emit("where", emitter.reshape(is_last, column), values, zero)
    if dtype != "f32":
        return _chosen_rows(site, rows, numbers, values, weights)
    added = emitter.emit("add_rows", numbers, values, rows=shape[0])
    if emitter.is_scalar(rows, 0):
        return added
    is_named = _named(emitter, numbers, weights, shape[0])
    column = (shape[0], *[1] * whole)
    return emitter.emit("where", emitter.reshape(is_named, column), added, rows)


def _named(emitter: Emitter, numbers: int, weights: int, rows: int) -> int:
    """Return a bool mask of all ``rows`` rows, true for rows that are in ``numbers`` with a weight above 0."""
    total = emitter.emit("add_rows", numbers, weights, rows=rows)
    return emitter.emit("gt", total, emitter.scalar(0, "f32"))


def _chosen_rows(site: CaptureSite, rows: int, numbers: int, values: int, weights: int) -> int:
    """Take each row from one of two sources, and return the rows. Their elements are integers, which FP32 cannot hold.

    A row comes from ``values`` if its number is in ``numbers`` with a weight above 0, and otherwise from ``rows``.
    """
    emitter = site.emitter
    count, size = emitter.shape(numbers)[0], emitter.shape(rows)[0]
    if count >= _EXACT:
        reason = f"{count:,} integers are written by index, but at most {_EXACT - 1:,} are supported"
        raise Unsupported(reason, "write them in parts, or convert the tensor to float32: x.float()")
    places = emitter.cast(emitter.iota(count), "f32")
    ahead = emitter.emit("add", places, emitter.scalar(1, "f32"))
    total = emitter.emit("add_rows", numbers, emitter.emit("mul", ahead, weights), rows=size)
    place = emitter.cast(total, "i64")
    behind = emitter.emit("add", place, emitter.scalar(size - 1, "i64"))
    is_named = emitter.emit("gt", place, emitter.scalar(0, "i64"))
    both = emitter.emit("concat", rows, emitter.cast(values, emitter.type(rows).dtype), dim=0)
    return emitter.emit("take", both, emitter.emit("where", is_named, behind, emitter.iota(size)))


# --- several indices ---


@rule("aten.index.Tensor", "aten._unsafe_index.Tensor")
def _index(site: CaptureSite, x: Ref, indices: Sequence[Ref | None]) -> int:
    """Compute ``x[indices]``: take rows from a table that has one row for each combination of indices."""
    emitter, shape = site.emitter, site.emitter.shape(x)
    indexed = [dim for dim, index in enumerate(indices) if index is not None]
    flat = _row_numbers(site, shape, indices)
    table = _table(emitter, x, indexed)
    rest = len(shape) - len(indexed)
    order = _order_of_result(indexed, len(emitter.shape(flat)), rest)
    return emitter.permute(emitter.emit("take", table, flat), order)


@rule("aten.index_put.default", "aten._unsafe_index_put.default")
def _index_put(site: CaptureSite, x: Ref, indices: Sequence[Ref | None], values: Ref, accumulate: bool = False) -> int:
    emitter, shape = site.emitter, site.shape
    if any(index is not None and emitter.type(index).dtype == "bool" for index in indices):
        return _masked_put(site, x, indices, values, accumulate)
    indexed = [dim for dim, index in enumerate(indices) if index is not None]
    flat = _row_numbers(site, shape, indices)
    rest = [dim for dim in range(len(shape)) if dim not in indexed]
    sizes = [*emitter.shape(flat), *(shape[dim] for dim in rest)]
    order = _order_of_result(indexed, len(emitter.shape(flat)), len(rest))
    whole = emitter.broadcast(emitter.cast(values, site.dtype), [sizes[dim] for dim in order])
    rows_first = emitter.permute(whole, _back(order))
    moved = [*indexed, *rest]
    apart = [shape[dim] for dim in moved]
    if accumulate:
        _check_float(site)
        rows = prod(shape[dim] for dim in indexed)
        added = emitter.reshape(emitter.emit("add_rows", flat, rows_first, rows=rows), apart)
        return _plus(emitter, x, emitter.permute(added, _back(moved)))
    count = emitter.type(flat).elements
    sources = emitter.reshape(rows_first, (count, *(shape[dim] for dim in rest)))
    numbers = emitter.reshape(flat, (count,))
    written = _written(site, _table(emitter, x, indexed), numbers, sources, may_repeat=True)
    return emitter.permute(emitter.reshape(written, apart), _back(moved))


def _masked_put(site: CaptureSite, x: Ref, indices: Sequence[Ref | None], values: Ref, accumulate: bool) -> int:
    """Write one number to all places where a mask is true."""
    emitter = site.emitter
    (mask, *others), before = [index for index in indices if index is not None], 0
    while indices[before] is None:
        before += 1
    if others or accumulate or emitter.type(values).elements != 1:
        reason = "the number of elements that a mask selects depends on values"
        raise Unsupported(reason, "keep all elements: torch.where(mask, values, x)")
    behind = len(site.shape) - before - len(emitter.shape(mask))
    fitting = emitter.reshape(mask, (*[1] * before, *emitter.shape(mask), *[1] * behind))
    value = emitter.reshape(emitter.cast(values, site.dtype), ())
    return emitter.broadcast(emitter.emit("where", fitting, value, x), site.shape)


def _table(emitter: Emitter, x: int, indexed: Sequence[int]) -> int:
    """Return ``x`` as a table that has one row for each combination of indices of the ``indexed`` dimensions."""
    shape = emitter.shape(x)
    rest = [dim for dim in range(len(shape)) if dim not in indexed]
    rows = prod(shape[dim] for dim in indexed)
    moved = emitter.permute(x, [*indexed, *rest])
    return emitter.reshape(moved, (rows, *(shape[dim] for dim in rest)))


def _order_of_result(indexed: Sequence[int], rank: int, rest: int) -> list[int]:
    """Return the permutation that brings the dimensions of a result into torch's order.

    The result has the ``rank`` dimensions of the row numbers first, and then ``rest`` others.

    If the indexed dimensions are adjacent, the dimensions of rows replace them; otherwise they come first.
    """
    before = indexed[0] if indexed[-1] - indexed[0] == len(indexed) - 1 else 0
    return [*range(rank, rank + before), *range(rank), *range(rank + before, rank + rest)]


def _row_numbers(site: CaptureSite, shape: Sequence[int], indices: Sequence[Ref | None]) -> int:
    """Return the row of :func:`_table` that each combination of ``indices`` names; -1 if an index is out of range.

    Without this -1, an index out of range would name the row of another combination.
    """
    emitter = site.emitter
    pairs = [(shape[dim], index) for dim, index in enumerate(indices) if index is not None]
    if any(emitter.type(index).dtype != "i64" for _, index in pairs):
        raise Unsupported(_OF_MASKS)
    zero, total, inside = emitter.scalar(0, "i64"), None, None
    for at, (size, index) in enumerate(pairs):
        count = emitter.scalar(size, "i64")
        is_behind = emitter.emit("lt", index, zero)
        part = emitter.emit("where", is_behind, emitter.emit("add", index, count), index)
        if len(pairs) == 1:
            return part
        is_in = _is_in(emitter, part, count)
        inside = is_in if inside is None else emitter.emit("logical_and", inside, is_in)
        width = emitter.scalar(prod(size for size, _ in pairs[at + 1 :]), "i64")
        part = emitter.emit("mul", part, width)
        total = part if total is None else emitter.emit("add", total, part)
    assert total is not None
    assert inside is not None
    return emitter.emit("where", inside, total, emitter.scalar(-1, "i64"))
