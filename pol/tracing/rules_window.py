"""Convolutions and pooling of torch in primitives: slices, products and elementwise nodes (see :mod:`windows`).

A convolution is one product: of the weights with the columns of what each window reads. So is its gradient by the
input, for each phase; that by the weights is one for each place of a window. All sums are those of products: exact.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import torch

from pol.limits import MAX_OPERANDS, MAX_SUMMED
from pol.tracing.emitter import Emitter
from pol.tracing.rules import Ref, TraceSite, rule
from pol.tracing.windows import Place, Windows

_aten = torch.ops.aten


@torch.library.custom_op("assay::convolution_weight_gradient", mutates_args=())
def convolution_weight_gradient(
    x: torch.Tensor, gradient: torch.Tensor, kernel: list[int], stride: list[int], padding: list[int],
    dilation: list[int], groups: int,
) -> torch.Tensor:  # fmt: skip
    """Gradient of a convolution by its weights; exists while a job is traced and is never run."""
    raise NotImplementedError("this operation exists while a job is traced only")


@convolution_weight_gradient.register_fake
def _(
    x: torch.Tensor, gradient: torch.Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> torch.Tensor:  # fmt: skip
    del stride, padding, dilation
    return x.new_empty((gradient.shape[1], x.shape[1] // groups, *kernel))


CONVOLUTION_WEIGHT_GRADIENT = torch.ops.assay.convolution_weight_gradient.default


def convolution_backward(
    gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias_sizes: Sequence[int] | None,
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int, wanted: Sequence[bool],
) -> tuple[torch.Tensor | None, ...]:  # fmt: skip
    """``aten.convolution_backward`` in parts, so that each product is known for what it is."""
    del bias_sizes, output_padding
    kernel = weight.shape[2:]
    by_x = by_weight = by_bias = None
    if wanted[0]:
        left = [0] * len(kernel)
        if not transposed:
            # what the last window has left over
            windows = Windows(kernel, stride, padding, dilation, x.shape[2:], gradient.shape[2:])
            after = zip(padding, windows.padding_after(), strict=True)
            left = [before - high for before, high in after]
        by_x = _aten.convolution(
            gradient, weight, None, stride, padding, dilation, not transposed, left, groups
        )
    if wanted[1]:
        large, small = (gradient, x) if transposed else (x, gradient)
        by_weight = convolution_weight_gradient(
            large, small, list(kernel), list(stride), list(padding), list(dilation), groups
        )
    if wanted[2]:
        by_bias = gradient.sum((0, *range(2, gradient.dim())))
    return by_x, by_weight, by_bias


# --- slices --------------------------------------------------------------------------------------


def _padded(
    emitter: Emitter, x: int, low: Sequence[int], high: Sequence[int], value: float = 0
) -> int:
    """Pad the last dimensions; a negative number after them cuts nothing."""
    rank = len(emitter.shape(x)) - len(low)
    before, after = (0,) * rank + tuple(low), (0,) * rank + tuple(max(0, h) for h in high)
    if not any((*before, *after)):
        return x
    element = emitter.element(value, emitter.type(x).dtype)
    return emitter.emit("pad", x, low=before, high=after, value=element)


def _read(
    emitter: Emitter, x: int, start: Sequence[int], count: Sequence[int], step: Sequence[int]
) -> int:
    """Return so many elements of the last dimensions, from ``start`` on."""
    shape = emitter.shape(x)
    rank = len(shape) - len(start)
    last = [s + (n - 1) * t + 1 for s, n, t in zip(start, count, step, strict=True)]
    starts, stops = (0,) * rank + tuple(start), (*shape[:rank], *last)
    steps = (1,) * rank + tuple(t if n > 1 else 1 for n, t in zip(count, step, strict=True))
    if not any(starts) and stops == shape and set(steps) <= {1}:
        return x
    return emitter.emit("slice", x, starts=starts, stops=stops, steps=steps)


def _joined(emitter: Emitter, parts: Sequence[int], dim: int) -> int:
    values = list(parts)
    while len(values) > 1:
        groups = [values[at : at + MAX_OPERANDS] for at in range(0, len(values), MAX_OPERANDS)]
        values = [emitter.emit("concat", *group, dim=dim) for group in groups]
    return values[0]


def _columns(emitter: Emitter, parts: Sequence[int], groups: int) -> int:
    """Return values [C, N, places] as the columns of a product: [groups, C / groups x parts, N x places]."""
    channels, rows, *places = emitter.shape(parts[0])
    apart = [emitter.reshape(part, (channels, 1, rows, *places)) for part in parts]
    shape = (groups, channels // groups * len(parts), rows * prod(places))
    return emitter.reshape(_joined(emitter, apart, 1), shape)


def _product(site: TraceSite, left: int, right: int) -> int:
    """Multiply [groups, M, K] and [groups, K, N]; one group is no batch."""
    emitter = site.emitter
    (groups, rows, summed), columns = emitter.shape(left), emitter.shape(right)[-1]
    if groups == 1:
        left, right = (
            emitter.reshape(left, (rows, summed)),
            emitter.reshape(right, (summed, columns)),
        )
    found = emitter.product(left, right, site.bits)
    return emitter.reshape(found, (groups, rows, columns))


# --- convolutions --------------------------------------------------------------------------------


@rule("aten.convolution.default")
def _convolution(
    site: TraceSite, x: Ref, weight: Ref, bias: Ref | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> int:  # fmt: skip
    """``output_padding`` is in the shape of the result."""
    del output_padding
    emitter = site.emitter
    kernel, sizes, places = emitter.shape(weight)[2:], emitter.shape(x)[2:], site.shape[2:]
    if transposed:
        windows = Windows(kernel, stride, padding, dilation, places, sizes)
        result = _spread_back(site, x, weight, windows, groups)
    else:
        windows = Windows(kernel, stride, padding, dilation, sizes, places)
        result = _gathered(site, x, weight, windows, groups)
    if bias is None:
        return result
    row = emitter.reshape(bias, (1, site.shape[1], *[1] * len(places)))
    return emitter.emit("add", result, row)


def _channels_first(emitter: Emitter, x: int) -> int:
    rank = len(emitter.shape(x))
    return emitter.permute(x, (1, 0, *range(2, rank)))


def _gathered(site: TraceSite, x: int, weight: int, windows: Windows, groups: int) -> int:
    emitter = site.emitter
    rows, out = site.shape[:2]
    padded = _padded(emitter, _channels_first(emitter, x), windows.padding, windows.padding_after())
    parts = [
        _read(emitter, padded, place.start, windows.outputs, windows.stride)
        for place in windows.places()
    ]
    columns = _columns(emitter, parts, groups)
    lines = emitter.reshape(weight, (groups, out // groups, emitter.shape(columns)[1]))
    found = emitter.reshape(_product(site, lines, columns), (out, rows, *windows.outputs))
    return _channels_first(emitter, found)


def _spread_back(site: TraceSite, x: int, weight: int, windows: Windows, groups: int) -> int:
    """Return the transpose of a convolution, whose weights are [channels of ``x``, channels / groups, kernel]."""
    emitter = site.emitter
    rows, out = site.shape[:2]
    given = emitter.shape(x)[1]
    per_group, rank = out // groups, len(windows.kernel)
    # [groups, out / groups, in / groups, kernel]
    turned = emitter.permute(
        emitter.reshape(weight, (groups, given // groups, per_group, *windows.kernel)),
        (0, 2, 1, *range(3, 3 + rank)),
    )
    values = _channels_first(emitter, x)

    def phase(parts: Sequence[int], places: Sequence[Place]) -> int:
        columns = _columns(emitter, parts, groups)
        counts = [len({place.at[dim] for place in places}) for dim in range(rank)]
        chosen = _read(emitter, turned, places[0].at, counts, windows.kernel_steps())
        lines = emitter.reshape(chosen, (groups, per_group, emitter.shape(columns)[1]))
        return emitter.reshape(_product(site, lines, columns), (out, rows, *windows.turns()))

    back = _way_back(emitter, (out, rows), [values], windows, phase)
    return _channels_first(emitter, back)


def _way_back(
    emitter: Emitter, rest: Sequence[int], values: Sequence[int], windows: Windows,
    phase: Callable[..., int],
) -> int:  # fmt: skip
    """Return [rest, inputs] from [.., outputs]: ``phase`` makes one of what its places read of each value."""
    rank, turns = len(windows.kernel), windows.turns()
    low, high = windows.reach()
    padded = [_padded(emitter, value, low, high) for value in values]
    ones = (1,) * rank
    found = []
    for _, places in windows.phases():
        read = [
            [
                _read(
                    emitter,
                    value,
                    [s + b for s, b in zip(place.start, low, strict=True)],
                    turns,
                    ones,
                )
                for place in places
            ]
            for value in padded
        ]
        shape = (*rest, *turns)
        found.append(phase(*read, places) if places else emitter.full(0, "f32", shape))
    whole = found[0]
    if len(found) > 1:
        apart = [emitter.reshape(part, (1, *emitter.shape(part))) for part in found]
        stacked = emitter.reshape(_joined(emitter, apart, 0), (*windows.stride, *rest, *turns))
        first = rank + len(rest)
        pairs = [dim for at in range(rank) for dim in (first + at, at)]
        woven = emitter.permute(stacked, (*range(rank, first), *pairs))
        sizes = [n * s for n, s in zip(turns, windows.stride, strict=True)]
        whole = emitter.reshape(woven, (*rest, *sizes))
    return _read(emitter, whole, windows.padding, windows.inputs, ones)


@rule("assay.convolution_weight_gradient.default")
def _weight_gradient(
    site: TraceSite, x: Ref, gradient: Ref, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> int:  # fmt: skip
    """A product for each place of a window, so that no columns are in memory."""
    emitter = site.emitter
    sizes, places = emitter.shape(x)[2:], emitter.shape(gradient)[2:]
    windows = Windows(kernel, stride, padding, dilation, sizes, places)
    rows, given = emitter.shape(x)[:2]
    out = site.shape[0]
    summed = rows * prod(places)
    padded = _padded(emitter, _channels_first(emitter, x), windows.padding, windows.padding_after())
    lines = emitter.reshape(_channels_first(emitter, gradient), (groups, out // groups, summed))
    found = []
    for place in windows.places():
        part = _read(emitter, padded, place.start, places, windows.stride)
        columns = emitter.reshape(part, (groups, given // groups, summed))
        found.append(_long_product(site, lines, columns))
    apart = [emitter.reshape(part, (*site.shape[:2], 1)) for part in found]
    return emitter.reshape(_joined(emitter, apart, 2), site.shape)


def _long_product(site: TraceSite, left: int, right: int) -> int:
    """Multiply [groups, M, K] and [groups, N, K]; of a K that no product has, part by part."""
    emitter = site.emitter
    summed = emitter.shape(left)[-1]
    total = None
    for start in range(0, summed, MAX_SUMMED):
        count = min(MAX_SUMMED, summed - start)
        parts = [_read(emitter, value, [start], [count], [1]) for value in (left, right)]
        found = _product(site, parts[0], emitter.permute(parts[1], (0, 2, 1)))
        total = found if total is None else emitter.emit("add", total, found)
    assert total is not None
    return total


# --- pooling -------------------------------------------------------------------------------------


def _pool(
    inputs: Sequence[int], outputs: Sequence[int], kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int] = (1,),
) -> Windows:  # fmt: skip
    """Torch's pools: one number for all dimensions, or one for each; no stride means that of the kernel."""
    rank = len(outputs)

    def each(numbers: Sequence[int]) -> list[int]:
        return list(numbers) * rank if len(numbers) == 1 else list(numbers)

    size = each(kernel)
    return Windows(
        size, each(stride) if stride else size, each(padding), each(dilation), inputs, outputs
    )


def _divisors(windows: Windows, count_padding: bool, divisor: int | None) -> np.ndarray[Any, Any]:
    """Return by what the sum of each window is divided: torch counts what lies beyond the padding never."""
    if divisor is not None:
        return np.array(divisor)
    found = np.ones((), np.int64)
    rows = zip(
        windows.kernel,
        windows.stride,
        windows.padding,
        windows.inputs,
        windows.outputs,
        strict=True,
    )
    for kernel, stride, padding, size, outputs in rows:
        first = np.arange(outputs) * stride - padding
        end = np.minimum(first + kernel, size + padding)
        if not count_padding:
            first, end = np.maximum(first, 0), np.minimum(end, size)
        found = np.multiply.outer(found, end - first)
    return found.ravel()[0] if (found == found.flat[0]).all() else found


def _sum(emitter: Emitter, parts: Sequence[int]) -> int:
    total = parts[0]
    for part in parts[1:]:
        total = emitter.emit("add", total, part)
    return total


@rule("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
def _avg_pool(
    site: TraceSite, x: Ref, kernel: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    ceil_mode: bool = False, count_include_pad: bool = True, divisor: int | None = None,
) -> int:  # fmt: skip
    # it is in the shape of the result
    del ceil_mode
    emitter, rank = site.emitter, _rank_of(site)
    windows = _pool(emitter.shape(x)[-rank:], site.shape[-rank:], kernel, stride, padding)
    padded = _padded(emitter, x, windows.padding, windows.padding_after())
    parts = [
        _read(emitter, padded, place.start, windows.outputs, windows.stride)
        for place in windows.places()
    ]
    table = _divisors(windows, count_include_pad, divisor)
    return emitter.emit("div", _sum(emitter, parts), emitter.constant(table, "f32"))


@rule("aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default")
def _avg_pool_backward(
    site: TraceSite, gradient: Ref, x: Ref, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    ceil_mode: bool, count_include_pad: bool, divisor: int | None,
) -> int:  # fmt: skip
    del ceil_mode
    emitter, rank = site.emitter, _rank_of(site)
    shape = emitter.shape(x)
    windows = _pool(shape[-rank:], emitter.shape(gradient)[-rank:], kernel, stride, padding)
    table = _divisors(windows, count_include_pad, divisor)
    each = emitter.emit("div", gradient, emitter.constant(table, "f32"))

    def phase(parts: Sequence[int], _places: Sequence[Place]) -> int:
        return _sum(emitter, parts)

    return _way_back(emitter, shape[:-rank], [each], windows, phase)


@rule("aten._adaptive_avg_pool2d.default", "aten._adaptive_avg_pool3d.default")
def _adaptive_avg_pool(site: TraceSite, x: Ref, _sizes: Sequence[int]) -> int:
    """One dimension after another: a window is as many elements of each as every other in its place."""
    emitter, rank = site.emitter, _rank_of(site)
    value = x
    for dim in range(len(site.shape) - rank, len(site.shape)):
        bounds = _adaptive(emitter.shape(value)[dim], site.shape[dim])
        value = Ref(emitter.emit("div", *_parts_sum(emitter, value, dim, bounds)))
    return value


@rule("aten._adaptive_avg_pool2d_backward.default", "aten._adaptive_avg_pool3d_backward.default")
def _adaptive_avg_pool_backward(site: TraceSite, gradient: Ref, _x: Ref) -> int:
    emitter, rank = site.emitter, _rank_of(site)
    value = gradient
    for dim in range(len(site.shape) - rank, len(site.shape)):
        bounds = _adaptive(site.shape[dim], emitter.shape(value)[dim])
        each = Ref(emitter.emit("div", value, _sizes(emitter, bounds, dim, len(site.shape))))
        readers = [
            [at for at, (low, high) in enumerate(bounds) if low <= place < high]
            for place in range(site.shape[dim])
        ]
        spans = [(named[0], named[-1] + 1) for named in readers]
        value = Ref(_parts_sum(emitter, each, dim, spans)[0])
    return value


def _adaptive(inputs: int, outputs: int) -> list[tuple[int, int]]:
    """Return where each window begins and ends, as torch has it."""
    return [(at * inputs // outputs, -(-(at + 1) * inputs // outputs)) for at in range(outputs)]


def _sizes(emitter: Emitter, bounds: Sequence[tuple[int, int]], dim: int, rank: int) -> int:
    shape = [len(bounds) if at == dim else 1 for at in range(rank)]
    sizes = np.array([high - low for low, high in bounds])
    return emitter.constant(sizes.reshape(shape), "f32")


def _parts_sum(
    emitter: Emitter, x: int, dim: int, bounds: Sequence[tuple[int, int]]
) -> tuple[int, int]:
    """Return the sums of parts along ``dim``, one behind the other, and the size of each."""
    shape = emitter.shape(x)
    found = []
    for low, high in bounds:
        start = tuple(low if at == dim else 0 for at in range(len(shape)))
        count = tuple(high - low if at == dim else size for at, size in enumerate(shape))
        part = _read(emitter, x, start, count, (1,) * len(shape))
        found.append(part if high - low == 1 else emitter.sum(part, [dim], keepdim=True))
    return _joined(emitter, found, dim), _sizes(emitter, bounds, dim, len(shape))


@rule("aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default")
def _adaptive_max_pool(site: TraceSite, x: Ref, sizes: Sequence[int]) -> tuple[int, int]:
    rank = _rank_of(site)
    kernel = _even(site.emitter.shape(x)[-rank:], sizes)
    return _max_pool(site, x, kernel)


@rule("aten.adaptive_max_pool2d_backward.default", "aten.adaptive_max_pool3d_backward.default")
def _adaptive_max_pool_backward(site: TraceSite, gradient: Ref, x: Ref, indices: Ref) -> int:
    rank = _rank_of(site)
    emitter = site.emitter
    kernel = _even(emitter.shape(x)[-rank:], emitter.shape(gradient)[-rank:])
    return _max_pool_backward(site, gradient, x, kernel, (), (0,), (1,), False, indices)


def _even(inputs: Sequence[int], outputs: Sequence[int]) -> list[int]:
    # decompositions.py has what would overlap
    return [size // count for size, count in zip(inputs, outputs, strict=True)]


@rule("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def _max_pool(
    site: TraceSite, x: Ref, kernel: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,), ceil_mode: bool = False,
) -> tuple[int, int]:  # fmt: skip
    """The largest element of each window, and where it lies in the plane; of equal ones the first, as torch does."""
    del ceil_mode
    emitter, rank = site.emitter, _rank_of(site)
    outputs = tuple(int(size) for size in site.node.meta["val"][0].shape)
    inputs = emitter.shape(x)[-rank:]
    windows = _pool(inputs, outputs[-rank:], kernel, stride, padding, dilation)
    padded = _padded(emitter, x, windows.padding, windows.padding_after(), -np.inf)
    best = offset = -1
    for place in windows.places():
        part = _read(emitter, padded, place.start, windows.outputs, windows.stride)
        away = emitter.scalar(_flat(place.start, inputs), "i64")
        if best < 0:
            best, offset = part, away
            continue
        is_nan = emitter.emit("ne", part, part)
        is_better = emitter.emit("logical_or", emitter.emit("gt", part, best), is_nan)
        best = emitter.emit("where", is_better, part, best)
        offset = emitter.emit("where", is_better, away, offset)
    first = _positions(emitter, windows.outputs, windows.stride, windows.padding, inputs)
    return best, emitter.broadcast(emitter.emit("add", first, offset), outputs)


@rule(
    "aten.max_pool2d_with_indices_backward.default", "aten.max_pool3d_with_indices_backward.default"
)
def _max_pool_backward(
    site: TraceSite, gradient: Ref, x: Ref, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool, indices: Ref,
) -> int:  # fmt: skip
    """Each element gets the gradients of the windows that name it."""
    del ceil_mode
    emitter, rank = site.emitter, _rank_of(site)
    shape = emitter.shape(x)
    inputs = shape[-rank:]
    outputs = emitter.shape(gradient)[-rank:]
    windows = _pool(inputs, outputs, kernel, stride, padding, dilation)
    zero = emitter.scalar(0, "f32")
    phases = iter([phase for phase, places in windows.phases() if places])

    def phase(parts: Sequence[int], named: Sequence[int], _places: Sequence[Place]) -> int:
        behind = [p - r for p, r in zip(windows.padding, next(phases), strict=True)]
        here = _positions(emitter, windows.turns(), windows.stride, behind, inputs)
        chosen = [
            emitter.emit("where", emitter.emit("eq", name, here), part, zero)
            for part, name in zip(parts, named, strict=True)
        ]
        return _sum(emitter, chosen)

    # what is beyond the windows has no gradient, so it does not matter whom it names
    return _way_back(emitter, shape[:-rank], [gradient, indices], windows, phase)


def _positions(
    emitter: Emitter, counts: Sequence[int], steps: Sequence[int], behind: Sequence[int],
    inputs: Sequence[int],
) -> int:  # fmt: skip
    """Return the number in its plane of element ``step x i - behind``, for each i of each dimension."""
    total, rank = None, len(counts)
    for dim, (count, step, back) in enumerate(zip(counts, steps, behind, strict=True)):
        width = prod(inputs[dim + 1 :])
        numbers = (np.arange(count) * step - back) * width
        shape = [count if at == dim else 1 for at in range(rank)]
        part = emitter.constant(numbers.reshape(shape), "i64")
        total = part if total is None else emitter.emit("add", total, part)
    assert total is not None
    return total


def _flat(offsets: Sequence[int], sizes: Sequence[int]) -> int:
    return sum(at * prod(sizes[dim + 1 :]) for dim, at in enumerate(offsets))


def _rank_of(site: TraceSite) -> int:
    """Return how many dimensions an operation is named for."""
    name = str(site.node.target)
    return next(rank for rank in (1, 2, 3) if f"{rank}d" in name)


# --- larger ones ---------------------------------------------------------------------------------


@rule(
    "aten.upsample_nearest1d.default",
    "aten.upsample_nearest2d.default",
    "aten.upsample_nearest3d.default",
)
def _upsample_nearest(site: TraceSite, x: Ref, *_how: Any) -> int:
    """Each element several times, in each dimension."""
    emitter, rank = site.emitter, _rank_of(site)
    times = _whole_times(site.shape[-rank:], emitter.shape(x)[-rank:])
    return emitter.reshape(
        emitter.broadcast(
            emitter.reshape(x, _apart(emitter.shape(x), [1] * rank)),
            _apart(emitter.shape(x), times),
        ),
        site.shape,
    )


@rule(
    "aten.upsample_nearest1d_backward.default",
    "aten.upsample_nearest2d_backward.default",
    "aten.upsample_nearest3d_backward.default",
)
def _upsample_nearest_backward(site: TraceSite, gradient: Ref, *_how: Any) -> int:
    emitter, rank = site.emitter, _rank_of(site)
    times = _whole_times(emitter.shape(gradient)[-rank:], site.shape[-rank:])
    apart = emitter.reshape(gradient, _apart(site.shape, times))
    first = len(site.shape) - rank
    return emitter.reshape(
        emitter.sum(apart, [first + 2 * at + 1 for at in range(rank)]), site.shape
    )


def _whole_times(large: Sequence[int], small: Sequence[int]) -> list[int]:
    # decompositions.py has all other sizes
    return [after // before for after, before in zip(large, small, strict=True)]


def _apart(shape: Sequence[int], times: Sequence[int]) -> list[int]:
    """Return a shape with each of its last dimensions followed by one of as many times."""
    rank = len(times)
    pairs = zip(shape[-rank:], times, strict=True)
    return [*shape[:-rank], *[size for pair in pairs for size in pair]]
