"""Rewrites of reductions by index, such as ``scatter_reduce``.

Elements are sorted, so that all elements for the same place are adjacent.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pol.capture.reports.reasons import NotInAJob

_aten = torch.ops.aten
_REDUCE = {"add": "sum", "multiply": "prod"}
"""Names of reductions in ``scatter_reduce``, by their names in ``scatter``."""
_INITIAL = {"sum": 0.0, "mean": float("nan"), "prod": 1.0, "max": -torch.inf, "min": torch.inf}
"""Results of ``segment_reduce`` for an empty segment."""


def reduced(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool = True) -> Tensor:
    """Return a copy of ``x`` in which each place that ``index`` names holds the reduction of the elements that are sent
    to this place.

    With ``include_self``, the reduction includes the element of ``x``. The gradient of a product is also right if
    factors are zero.
    """
    if not x.dim():
        line = x.reshape(1), 0, index.reshape(-1), source.reshape(-1)
        return reduced(*line, reduce, include_self).reshape(())
    if not index.numel():
        return x.clone()
    axis = dim % x.dim()
    source = source[tuple(slice(size) for size in index.shape)]
    lines = tuple(slice(None if d == axis else size) for d, size in enumerate(index.shape))
    part = x[lines]
    result = _of_lines(part, axis, index, source, reduce, include_self)
    if result.shape == x.shape:
        return result
    whole = x.clone()
    whole[lines] = result
    return whole


def _of_lines(x: Tensor, axis: int, index: Tensor, source: Tensor, reduce: str, include_self: bool) -> Tensor:
    if reduce == "sum" and include_self:
        return x.scatter_add(axis, index, source)
    counts = torch.zeros(x.shape).scatter_add(axis, index, torch.ones(index.shape))
    is_named = counts > 0
    if reduce in ("sum", "mean"):
        begin = x if include_self else torch.where(is_named, 0, x)
        total = begin.scatter_add(axis, index, source)
        if reduce == "sum":
            return total
        shares = counts + 1 if include_self else counts.clamp(min=1)
        return total / shares.to(x.dtype)
    last = (counts.cumsum(axis) - 1).clamp(min=0).long()
    if reduce == "prod":
        result = _products(axis, index, source).gather(axis, last)
        together: Callable[[Tensor, Tensor], Tensor] = torch.mul
    elif reduce == "amax":
        result = _ascending(axis, index, source).gather(axis, last)
        together = torch.maximum
    else:
        # NaN is last in both orders.
        result = _opposite(_ascending(axis, index, _opposite(source)).gather(axis, last))
        together = torch.minimum
    return torch.where(is_named, together(x, result) if include_self else result, x)


def _opposite(x: Tensor) -> Tensor:
    """Return numbers whose order is the opposite: -x or, for integers, -1 - x.

    Integers do not use -x, because the smallest integer has no negative.
    """
    return -x if x.is_floating_point() else -1 - x


def _ascending(axis: int, index: Tensor, source: Tensor) -> Tensor:
    """Return the source sorted by the elements' target places, and by the values within each place."""
    values, order = source.sort(dim=axis, stable=True)
    _, by_place = index.gather(axis, order).sort(dim=axis, stable=True)
    return values.gather(axis, by_place)


def _products(axis: int, index: Tensor, source: Tensor) -> Tensor:
    """Return the source sorted by the elements' target places, with running products within each place."""
    places, order = index.sort(dim=axis, stable=True)
    values = source.gather(axis, order)
    count = index.shape[axis]
    distance = 1
    while distance < count:
        ahead, behind = (
            values.narrow(axis, distance, count - distance),
            values.narrow(axis, 0, count - distance),
        )
        is_same = places.narrow(axis, distance, count - distance) == places.narrow(axis, 0, count - distance)
        together = torch.where(is_same, ahead * behind, ahead)
        values = torch.cat([values.narrow(axis, 0, distance), together], axis)
        distance *= 2
    return values


def _rows(dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Expand an index of rows to an index for each element of ``source``."""
    shape = [1] * source.dim()
    shape[dim % source.dim()] = -1
    return index.reshape(shape).expand(source.shape)


# --- by operation of torch ---


def _scatter_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    return reduced(x, dim, index, source, reduce, include_self)


def _scatter(x: Tensor, dim: int, index: Tensor, source: Tensor, *, reduce: str) -> Tensor:
    return reduced(x, dim, index, source, _REDUCE[reduce])


def _scatter_value(x: Tensor, dim: int, index: Tensor, value: float, *, reduce: str) -> Tensor:
    source = torch.full(index.shape, value, dtype=x.dtype)
    return reduced(x, dim, index, source, _REDUCE[reduce])


def _index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if not source.dim():
        return reduced(x, dim, index.reshape(()), source, reduce, include_self)
    return reduced(x, dim, _rows(dim, index, source), source, reduce, include_self)


def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    flat = x.reshape(-1)
    return flat.index_put((index.reshape(-1),), source.reshape(-1), accumulate).reshape(x.shape)


def _index_put_impl(
    x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False, unsafe: bool = False
) -> Tensor:
    del unsafe
    return _aten.index_put.default(x, indices, values, accumulate)  # type: ignore[no-any-return]


_DECOMPOSED: dict[Any, Callable[..., Any]] = {
    _aten.scatter_reduce.two: _scatter_reduce,
    _aten.scatter.reduce: _scatter,
    _aten.scatter.value_reduce: _scatter_value,
    _aten.index_reduce.default: _index_reduce,
    _aten.put.default: _put,
    _aten._index_put_impl.default: _index_put_impl,
}


# --- by function of torch, if torch's own gradient depends on values ---


def _with_products(function: Callable[..., Any], ours: Callable[..., Tensor]) -> Callable[..., Any]:
    def called(
        x: Tensor,
        dim: int,
        index: Tensor,
        source: Tensor | None = None,
        reduce: str = "",
        *,
        include_self: bool = True,
        **options: Any,
    ) -> Any:
        value = options.pop("src", source)
        if reduce != "prod" or options:
            return function(x, dim, index, value, reduce, include_self=include_self, **options)
        return ours(x, dim, index, value, reduce, include_self=include_self)

    return called


def _in_place(ours: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def changed(x: Tensor, *arguments: Any, **options: Any) -> Tensor:
        return x.copy_(ours(x.clone(), *arguments, **options))

    return changed


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Return the reduction of each segment; the segments are consecutive along the first dimension."""
    del unsafe
    if indices is not None or axis or (offsets if lengths is None else lengths).dim() != 1:  # type: ignore[union-attr]
        reason = "segment_reduce works only along the first dimension, by lengths or offsets of one dimension"
        raise NotInAJob(reason, "move the dimension to the front, x.movedim(axis, 0), or use scatter_reduce")
    if lengths is None:
        assert offsets is not None
        ends = offsets[1:]
    else:
        ends = lengths.cumsum(0)
    count, places = len(ends), torch.arange(len(data))
    segment = torch.searchsorted(ends.contiguous(), places, right=True).clamp(max=count - 1)
    begin = torch.full((count, *data.shape[1:]), _INITIAL[reduce] if initial is None else initial)
    kinds = {"max": "amax", "min": "amin"}
    return reduced(
        begin.to(data.dtype),
        0,
        _rows(0, segment, data),
        data,
        kinds.get(reduce, reduce),
        include_self=initial is not None and reduce != "mean",
    )


def _index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    if not isinstance(value, Tensor) or not value.requires_grad:
        return torch.ops.aten.index_fill(x, dim, index, value)  # type: ignore[no-any-return]
    if not x.dim():
        return value.expand(())
    axis = dim % x.dim()
    is_named = torch.zeros(x.shape[axis]).index_fill(0, index.reshape(-1), 1.0) > 0
    shape = [-1 if d == axis else 1 for d in range(x.dim())]
    return torch.where(is_named.reshape(shape), value, x)


def _gather(x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    # A sparse gradient has the same numbers as a dense one.
    del sparse_grad
    return torch.ops.aten.gather(x, dim, index)  # type: ignore[no-any-return]


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    torch.segment_reduce: segment_reduce,
    torch.gather: _gather,
    Tensor.gather: _gather,
    torch.index_fill: _index_fill,
    Tensor.index_fill: _index_fill,
    Tensor.index_fill_: _in_place(_index_fill),
    torch.scatter_reduce: _with_products(torch.scatter_reduce, _scatter_reduce),
    Tensor.scatter_reduce: _with_products(Tensor.scatter_reduce, _scatter_reduce),
    Tensor.scatter_reduce_: _with_products(Tensor.scatter_reduce_, _in_place(_scatter_reduce)),
    torch.index_reduce: _with_products(torch.index_reduce, _index_reduce),
    Tensor.index_reduce: _with_products(Tensor.index_reduce, _index_reduce),
    Tensor.index_reduce_: _with_products(Tensor.index_reduce_, _in_place(_index_reduce)),
}
"""Rewrites by the function of torch."""
DECOMPOSITIONS = {**_DECOMPOSED, _aten.segment_reduce.default: segment_reduce}
"""Rewrites by the overload of torch."""
