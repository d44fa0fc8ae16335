"""Rewrites of resizing and edge padding of images as weighted sums of rows, one dimension after another.

In each dimension, a place of the result is the weighted sum of some rows of the input. Its *taps* are the numbers of
these rows, each with its weight. The gradient is added to the same rows with the same weights.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_aten = torch.ops.aten
_CUBIC = -0.75
"""Parameter of the cubic filter that torch uses."""

Taps = list[tuple[Tensor, Tensor | None]]
"""Row and weight (None for 1) for each place of a result."""
Numbers = NDArray[np.float64]


def _row(numbers: Numbers, size: int) -> Tensor:
    """Return row numbers as integers; a number outside a dimension of ``size`` becomes the row at the edge."""
    return torch.tensor(np.clip(numbers, 0, size - 1).astype(np.int64).tolist())


def _weight(numbers: Numbers) -> Tensor:
    return torch.tensor(numbers.tolist())


def _sources(size: int, count: int, align: bool, scale: float | None) -> Numbers:
    """Return the coordinate, in the input's dimension of ``size``, of each of ``count`` places of the result."""
    places = np.arange(count, dtype=np.float64)
    if align:
        return places * ((size - 1) / (count - 1) if count > 1 else 0.0)
    step = 1 / scale if scale is not None and scale > 0 else size / count
    return (places + 0.5) * step - 0.5


def _linear(size: int, count: int, align: bool, scale: float | None) -> Taps:
    where = np.clip(_sources(size, count, align, scale), 0, size - 1)
    low = np.floor(where)
    part = where - low
    return [(_row(low, size), _weight(1 - part)), (_row(low + 1, size), _weight(part))]


def _cubic(size: int, count: int, align: bool, scale: float | None) -> Taps:
    where = _sources(size, count, align, scale)
    low = np.floor(where)
    return [(_row(low + at, size), _weight(_convolved(np.abs(where - low - at), _CUBIC))) for at in range(-1, 3)]


def _convolved(t: Numbers, a: float) -> Numbers:
    """Return the weight of Keys' cubic filter with the parameter ``a`` at the distance ``t``."""
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((t - 5) * t + 8) * t * a - 4 * a
    weights: Numbers = np.where(t < 1, near, np.where(t < 2, far, 0.0))
    return weights


def _exact(size: int, count: int, align: bool, scale: float | None) -> Taps:
    return [(_row(np.floor(_sources(size, count, align, scale) + 0.5), size), None)]


def _edge(size: int, low: int, high: int) -> Taps:
    return [(_row(np.arange(size + low + high, dtype=np.float64) - low, size), None)]


def _shaped(weight: Tensor, x: Tensor, dim: int) -> Tensor:
    return weight.to(x.dtype).reshape([-1 if d == dim % x.dim() else 1 for d in range(x.dim())])


def _taken(x: Tensor, dim: int, taps: Taps) -> Tensor:
    total = None
    for index, weight in taps:
        part = x.index_select(dim, index)
        part = part if weight is None else part * _shaped(weight, x, dim)
        total = part if total is None else total + part
    assert total is not None
    return total


def _given_back(grad: Tensor, dim: int, size: int, taps: Taps) -> Tensor:
    shape = list(grad.shape)
    shape[dim] = size
    total = torch.zeros(shape, dtype=grad.dtype)
    for index, weight in taps:
        part = grad if weight is None else grad * _shaped(weight, grad, dim)
        total = total.index_add(dim, index, part)
    return total


Filter = Callable[[int, int, bool, float | None], Taps]


def _upsample(filter_: Filter, rank: int, has_align: bool) -> tuple[Any, Any]:
    def all_taps(inputs: Sequence[int], outputs: Sequence[int], options: Sequence[Any]) -> list[Taps]:
        align = bool(options[0]) if has_align else False
        scales = [*options[1 if has_align else 0 :], *[None] * rank][:rank]
        rows = zip(inputs[-rank:], outputs[-rank:], scales, strict=True)
        return [filter_(size, count, align, scale) for size, count, scale in rows]

    def forward(x: Tensor, size: Sequence[int], *options: Any) -> Tensor:
        for dim, taps in enumerate(all_taps(x.shape, size, options), -rank):
            x = _taken(x, dim, taps)
        return x

    def backward(grad: Tensor, size: Sequence[int], inputs: Sequence[int], *options: Any) -> Tensor:
        for dim, taps in enumerate(all_taps(inputs, size, options), -rank):
            grad = _given_back(grad, dim, inputs[dim], taps)
        return grad

    return forward, backward


def _replication_backward(grad: Tensor, x: Tensor, padding: Sequence[int]) -> Tensor:
    for at in range(len(padding) // 2):
        dim, size = -1 - at, x.shape[-1 - at]
        grad = _given_back(grad, dim, size, _edge(size, padding[2 * at], padding[2 * at + 1]))
    return grad


def _antialiased(filter_: Callable[[Numbers], Numbers], support: float) -> Filter:
    """Return a filter whose width is the part of the input that one place of the result covers. The filter's weights
    add up to 1.
    """

    def taps(size: int, count: int, align: bool, scale: float | None) -> Taps:
        step = (size - 1) / (count - 1) if align and count > 1 else 0.0 if align else size / count
        if not align and scale is not None and scale > 0:
            step = 1 / scale
        wide = max(step, 1.0)
        centre = step * (np.arange(count, dtype=np.float64) + 0.5)
        first = np.maximum(np.floor(centre - support * wide + 0.5), 0)
        end = np.minimum(np.floor(centre + support * wide + 0.5), size)
        rows = [first + at for at in range(math.ceil(support * wide) * 2 + 1)]
        weights = [np.where(row < end, filter_(np.abs((row - centre + 0.5) / wide)), 0.0) for row in rows]
        total = sum(weights)
        return [(_row(row, size), _weight(weight / total)) for row, weight in zip(rows, weights, strict=True)]

    return taps


def _triangle(t: Numbers) -> Numbers:
    return np.maximum(1 - t, 0)


def _keys(t: Numbers) -> Numbers:
    return _convolved(t, -0.5)


_KINDS: dict[str, tuple[Filter, int, bool]] = {
    "upsample_linear1d": (_linear, 1, True),
    "upsample_bilinear2d": (_linear, 2, True),
    "upsample_trilinear3d": (_linear, 3, True),
    "upsample_bicubic2d": (_cubic, 2, True),
    "_upsample_nearest_exact1d": (_exact, 1, False),
    "_upsample_nearest_exact2d": (_exact, 2, False),
    "_upsample_nearest_exact3d": (_exact, 3, False),
    "_upsample_bilinear2d_aa": (_antialiased(_triangle, 1.0), 2, True),
    "_upsample_bicubic2d_aa": (_antialiased(_keys, 2.0), 2, True),
}
DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {}
"""Rewrites by the overload of torch."""
for _name, _kind in _KINDS.items():
    _forward, _backward = _upsample(*_kind)
    DECOMPOSITIONS[getattr(_aten, _name).default] = _forward
    DECOMPOSITIONS[getattr(_aten, f"{_name}_backward").default] = _backward
for _rank in (1, 2, 3):
    _overload = getattr(_aten, f"replication_pad{_rank}d_backward").default
    DECOMPOSITIONS[_overload] = _replication_backward


def _nearest(rank: int) -> tuple[Any, Any]:
    """Return two functions: a resizing that takes the nearest row, and its gradient.

    If the factor is an integer, both functions leave the work to a handler, which repeats rows.
    """

    def taps(size: int, count: int, scale: float | None) -> Taps:
        step = 1 / scale if scale is not None and scale > 0 else size / count
        # torch multiplies in FP32.
        where = np.floor(np.arange(count, dtype=np.float32) * np.float32(step))
        return [(_row(where.astype(np.float64), size), None)]

    def forward(x: Tensor, size: Sequence[int], *scales: float | None) -> Any:
        inputs = x.shape[-rank:]
        factors = [*scales, *[None] * rank][:rank]
        rows = list(zip(inputs, size, factors, strict=True))
        if all(count % own == 0 for own, count, _ in rows):
            return NotImplemented
        for dim, row in enumerate(rows, -rank):
            x = _taken(x, dim, taps(*row))
        return x

    def backward(grad: Tensor, size: Sequence[int], inputs: Sequence[int], *scales: float | None) -> Any:
        factors = [*scales, *[None] * rank][:rank]
        rows = list(zip(inputs[-rank:], size, factors, strict=True))
        if all(count % own == 0 for own, count, _ in rows):
            return NotImplemented
        for dim, row in enumerate(rows, -rank):
            grad = _given_back(grad, dim, row[0], taps(*row))
        return grad

    return forward, backward


for _rank in (1, 2, 3):
    _forward, _backward = _nearest(_rank)
    DECOMPOSITIONS[getattr(_aten, f"upsample_nearest{_rank}d").default] = _forward
    DECOMPOSITIONS[getattr(_aten, f"upsample_nearest{_rank}d_backward").default] = _backward


def _adaptive_windows(size: int, count: int) -> Tensor:
    """Return the rows of each of ``count`` windows; a shorter window repeats its last row."""
    starts = [at * size // count for at in range(count)]
    ends = [-(-(at + 1) * size // count) for at in range(count)]
    most = max(end - start for start, end in zip(starts, ends, strict=True))
    return torch.tensor(
        [[min(start + at, end - 1) for at in range(most)] for start, end in zip(starts, ends, strict=True)]
    )


def _adaptive_max(rank: int) -> tuple[Any, Any]:
    """Return two functions: adaptive max pooling, whose windows may overlap, and its gradient.

    If the windows do not overlap, both functions leave the work to a handler, which uses slices.
    """

    def forward(x: Tensor, size: Sequence[int]) -> Any:
        inputs = x.shape[-rank:]
        if all(own % count == 0 for own, count in zip(inputs, size, strict=True)):
            return NotImplemented
        numbers = torch.arange(inputs.numel()).reshape(inputs)
        before = x.dim() - rank
        for dim, (own, count) in enumerate(zip(inputs, size, strict=True)):
            index = _adaptive_windows(own, count)
            at = before + 2 * dim
            rest = [*x.shape[:at], *index.shape, *x.shape[at + 1 :]]
            x = x.index_select(at, index.flatten()).reshape(rest)
            rest = [*numbers.shape[: 2 * dim], *index.shape, *numbers.shape[2 * dim + 1 :]]
            numbers = numbers.index_select(2 * dim, index.flatten()).reshape(rest)
        order = [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
        x = x.permute(*range(before), *[before + dim for dim in order]).flatten(before + rank)
        numbers = numbers.permute(order).flatten(rank)
        largest, place = x.max(-1)
        named = numbers.expand(x.shape).gather(-1, place.unsqueeze(-1)).squeeze(-1)
        return largest, named

    def backward(grad: Tensor, x: Tensor, indices: Tensor) -> Any:
        inputs = x.shape[-rank:]
        if all(own % count == 0 for own, count in zip(inputs, grad.shape[-rank:], strict=True)):
            return NotImplemented
        flat = torch.zeros_like(x).flatten(-rank)
        return flat.scatter_add(-1, indices.flatten(-rank), grad.flatten(-rank)).reshape(x.shape)

    return forward, backward


for _rank in (2, 3):
    _forward, _backward = _adaptive_max(_rank)
    DECOMPOSITIONS[getattr(_aten, f"adaptive_max_pool{_rank}d").default] = _forward
    DECOMPOSITIONS[getattr(_aten, f"adaptive_max_pool{_rank}d_backward").default] = _backward
