"""Views, joins, indexing and constants of torch in primitives."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pol.capture.program.emitter import kept
from pol.capture.rules.registry import CaptureSite, Ref, rule
from pol.limits import MAX_OPERANDS


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
def _reshape(site: CaptureSite, x: Ref, *_how: Any) -> int:
    return site.emitter.reshape(x, site.shape)


@rule("aten.permute.default", "prims.transpose.default")
def _permute(site: CaptureSite, x: Ref, dims: Sequence[int]) -> int:
    return site.emitter.permute(x, dims)


@rule("aten.t.default")
def _t(site: CaptureSite, x: Ref) -> int:
    return site.emitter.permute(x, range(len(site.shape) - 1, -1, -1))


@rule("aten.transpose.int")
def _transpose(site: CaptureSite, x: Ref, first: int, second: int) -> int:
    order = list(range(len(site.shape)))
    order[first], order[second] = order[second], order[first]
    return site.emitter.permute(x, order)


@rule("aten.expand.default")
def _expand(site: CaptureSite, x: Ref, sizes: Sequence[int], implicit: bool = False) -> int:
    del sizes, implicit
    return site.emitter.broadcast(x, site.shape)


@rule("aten.repeat.default")
def _repeat(site: CaptureSite, x: Ref, times: Sequence[int]) -> int:
    """Repeat each dimension: put a dimension of size 1 before it, broadcast the new dimension, and join the two."""
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
def _broadcast_in_dim(site: CaptureSite, x: Ref, shape: Sequence[int], dims: Sequence[int]) -> int:
    aligned = [1] * len(shape)
    for size, dim in zip(site.emitter.shape(x), dims, strict=True):
        aligned[dim] = size
    return site.emitter.broadcast(site.emitter.reshape(x, aligned), shape)


def cut(site: CaptureSite, x: int, dim: int, start: int, stop: int, step: int = 1) -> int:
    """Return a slice of a value along one dimension, or the value itself if the slice has all its elements."""
    shape = site.emitter.shape(x)
    starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[dim], stops[dim], steps[dim] = start, stop, step
    if starts[dim] == 0 and stops[dim] == shape[dim] and step == 1:
        return x
    return site.emitter.emit("slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))


def _bounds(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Return ``start`` and ``end`` limited to ``size``, as Python limits the ends of a slice."""
    low, high, _ = slice(start, end).indices(size)
    return low, max(low, high)


@rule("aten.slice.Tensor")
def _slice(
    site: CaptureSite,
    x: Ref,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> int:
    shape = site.emitter.shape(x)
    low, high = _bounds(shape[dim], start, end)
    return cut(site, x, dim % len(shape), low, high, step)


@rule("aten.select.int")
def _select(site: CaptureSite, x: Ref, dim: int, index: int) -> int:
    shape = site.emitter.shape(x)
    start = index % shape[dim]
    return site.emitter.reshape(cut(site, x, dim % len(shape), start, start + 1), site.shape)


@rule("aten.split.Tensor", "aten.split_with_sizes.default", "aten.split_with_sizes_copy.default")
def _split(site: CaptureSite, x: Ref, size: Any, dim: int = 0) -> tuple[int, ...]:
    shape = site.emitter.shape(x)
    total = shape[dim]
    sizes = [min(size, total - at) for at in range(0, total, size)] if isinstance(size, int) else size
    parts, start = [], 0
    for part in sizes:
        parts.append(cut(site, x, dim % len(shape), start, start + part))
        start += part
    return tuple(parts)


@rule("aten.unbind.int")
def _unbind(site: CaptureSite, x: Ref, dim: int = 0) -> tuple[int, ...]:
    shape = site.emitter.shape(x)
    axis = dim % len(shape)
    rest = shape[:axis] + shape[axis + 1 :]
    return tuple(site.emitter.reshape(cut(site, x, axis, index, index + 1), rest) for index in range(shape[axis]))


@rule("aten.cat.default", "prims.cat.default")
def _cat(site: CaptureSite, parts: Sequence[Ref], dim: int = 0) -> int:
    # torch ignores tensors of shape [0], even if the other tensors have another rank.
    present = [part for part in parts if site.emitter.shape(part) != (0,)] or parts[:1]
    values = [site.operand(part, site.dtype) for part in present]
    axis = dim % len(site.shape)
    # A node takes at most MAX_OPERANDS operands.
    while len(values) > 1:
        groups = [values[at : at + MAX_OPERANDS] for at in range(0, len(values), MAX_OPERANDS)]
        values = [site.emitter.emit("concat", *group, dim=axis) for group in groups]
    return values[0]


@rule("aten.constant_pad_nd.default")
def _pad(site: CaptureSite, x: Ref, widths: Sequence[int], value: float = 0) -> int:
    """Pad by torch's pairs (low, high), which begin with the last dimension; a negative width cuts."""
    rank = len(site.shape)
    low, high = [0] * rank, [0] * rank
    for index in range(len(widths) // 2):
        low[rank - 1 - index], high[rank - 1 - index] = widths[2 * index], widths[2 * index + 1]
    return _padded(site, x, low, high, value)


def _padded(site: CaptureSite, x: int, low: Sequence[int], high: Sequence[int], value: float = 0) -> int:
    """Pad each dimension; a negative width cuts."""
    result = x
    for dim, (before, after) in enumerate(zip(low, high, strict=True)):
        if before < 0 or after < 0:
            size = site.emitter.shape(result)[dim]
            result = cut(site, result, dim, max(0, -before), size - max(0, -after))
    widths = {"low": tuple(max(0, w) for w in low), "high": tuple(max(0, w) for w in high)}
    if not any((*widths["low"], *widths["high"])):
        return result
    element = site.emitter.element(value, site.dtype)
    return site.emitter.emit("pad", result, **widths, value=element)


def _spread(site: CaptureSite, x: int, dim: int, step: int) -> int:
    """Put ``step`` - 1 zeros after each element along ``dim``."""
    shape = site.emitter.shape(x)
    apart = site.emitter.reshape(x, (*shape[: dim + 1], 1, *shape[dim + 1 :]))
    high = [0] * (len(shape) + 1)
    high[dim + 1] = step - 1
    padded = _padded(site, apart, [0] * len(high), high)
    return site.emitter.reshape(padded, (*shape[:dim], shape[dim] * step, *shape[dim + 1 :]))


@rule("aten.slice_scatter.default")
def _slice_scatter(
    site: CaptureSite,
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
def _select_scatter(site: CaptureSite, x: Ref, source: Ref, dim: int, index: int) -> int:
    shape, axis = site.shape, dim % len(site.shape)
    row = site.emitter.reshape(source, kept(shape, [axis]))
    start = index % shape[axis]
    return _slice_scatter(site, x, Ref(row), axis, start, start + 1)


@rule("aten.arange.start_step", "prims.iota.default", "aten.arange.default", "aten.arange.start")
def _arange(site: CaptureSite, *arguments: Any, **options: Any) -> int:
    """Return the numbers start, start + step, …; torch's overloads have different arguments."""
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
    def handler(site: CaptureSite, *arguments: Any, **_options: Any) -> int:
        number = arguments[position] if default is None else default
        if isinstance(number, Ref):
            return site.emitter.broadcast(site.operand(number, site.dtype), site.shape)
        return site.emitter.full(number, site.dtype, site.shape)

    return handler


rule("aten.scalar_tensor.default", "prims.scalar_tensor.default")(_number(0))
rule("aten.full.default", "aten.full_like.default", "aten.fill.Scalar", "aten.fill.Tensor")(_number(1))
rule("aten.new_full.default")(_number(2))
# Programs write to empty memory before they read it; zeros are the same on every machine.
for _name in ("empty.memory_format", "empty_like.default", "empty_permuted.default"):
    rule(f"aten.{_name}")(_number(0, 0.0))
for _name in ("new_empty.default", "new_empty_strided.default", "empty_strided.default"):
    rule(f"aten.{_name}")(_number(0, 0.0))
for _name in ("zeros", "zeros_like", "new_zeros"):
    rule(f"aten.{_name}.default")(_number(0, 0.0))
for _name in ("ones", "ones_like", "new_ones"):
    rule(f"aten.{_name}.default")(_number(0, 1.0))
