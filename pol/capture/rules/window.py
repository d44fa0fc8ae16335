"""Convolutions and pooling of torch in primitives: slices, products and elementwise nodes (see :mod:`windows`).

A convolution is one product of the weights with the elements that the windows read. The gradient with respect to the
input is one product for each phase. The gradient with respect to the weights is one product. All sums are sums of
products, which are exact.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import product
from math import prod
from typing import Any

import numpy as np
import torch

from pol.capture.program.emitter import Emitter
from pol.capture.rules.registry import CaptureSite, Ref, rule
from pol.capture.rules.windows import WindowOffset, Windows
from pol.limits import MAX_OPERANDS, MAX_SUMMED

_aten = torch.ops.aten


@torch.library.custom_op("assay::convolution_weight_gradient", mutates_args=())
def convolution_weight_gradient(
    x: torch.Tensor,
    gradient: torch.Tensor,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    is_kept: bool,
) -> torch.Tensor:
    """Return the gradient of a convolution with respect to its weights.

    Torch never runs this operation; only captured graphs contain it. If ``is_kept`` is true, ``x`` is a value of the
    forward pass, where it has already been padded.
    """
    raise NotImplementedError("only the executor computes this operation")


@convolution_weight_gradient.register_fake
def _(
    x: torch.Tensor,
    gradient: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    is_kept: bool,
) -> torch.Tensor:
    del stride, padding, dilation, is_kept
    return x.new_empty((gradient.shape[1], x.shape[1] // groups, *kernel))


CONVOLUTION_WEIGHT_GRADIENT = torch.ops.assay.convolution_weight_gradient.default


def convolution_backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> tuple[torch.Tensor | None, ...]:
    """Compute ``aten.convolution_backward`` in parts, so that the kind of each product is known."""
    del bias_sizes, output_padding
    kernel = weight.shape[2:]
    by_x = by_weight = by_bias = None
    if wanted[0]:
        left = [0] * len(kernel)
        if not transposed:
            # ``left`` is the number of elements, in each dimension, that the last window does not read.
            windows = Windows.of(kernel, stride, padding, dilation, x.shape[2:], gradient.shape[2:])
            after = zip(windows.padding, windows.padding_after(), strict=True)
            left = [before - high for before, high in after]
        by_x = _aten.convolution(gradient, weight, None, stride, padding, dilation, not transposed, left, groups)
        # With an output padding as large as a stride, the result may have windows beyond those of x.
        for dim, size in enumerate(x.shape[2:], 2):
            by_x = by_x if by_x.shape[dim] == size else by_x.narrow(dim, 0, size)
    if wanted[1]:
        large, small = (gradient, x) if transposed else (x, gradient)
        by_weight = convolution_weight_gradient(
            large,
            small,
            list(kernel),
            list(stride),
            list(padding),
            list(dilation),
            groups,
            not transposed,
        )
    if wanted[2]:
        by_bias = gradient.sum((0, *range(2, gradient.dim())))
    return by_x, by_weight, by_bias


# --- slices --------------------------------------------------------------------------------------


def _padded(emitter: Emitter, x: int, low: Sequence[int], high: Sequence[int], value: float = 0) -> int:
    """Pad the last dimensions; a negative padding at their ends is ignored."""
    rank = len(emitter.shape(x)) - len(low)
    before, after = (0,) * rank + tuple(low), (0,) * rank + tuple(max(0, h) for h in high)
    if not any((*before, *after)):
        return x
    element = emitter.element(value, emitter.type(x).dtype)
    return emitter.emit("pad", x, low=before, high=after, value=element)


def _read(emitter: Emitter, x: int, start: Sequence[int], count: Sequence[int], step: Sequence[int]) -> int:
    """Return ``count`` elements along each of the last dimensions: every ``step``-th element, beginning with
    ``start``.
    """
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


def _slices(
    emitter: Emitter,
    x: int,
    starts: Sequence[Sequence[int]],
    count: Sequence[int],
    step: Sequence[int],
) -> list[int]:
    """Return one slice of ``x`` for each position in ``starts``, where the slice begins."""
    return [_read(emitter, x, start, count, step) for start in starts]


def _product(site: CaptureSite, left: int, right: int) -> int:
    """Multiply [groups, M, K] and [groups, K, N]; a single group is multiplied without a batch dimension."""
    emitter = site.emitter
    (groups, rows, summed), columns = emitter.shape(left), emitter.shape(right)[-1]
    if groups == 1:
        left, right = (
            emitter.reshape(left, (rows, summed)),
            emitter.reshape(right, (summed, columns)),
        )
    result = emitter.product(left, right, site.bits)
    return emitter.reshape(result, (groups, rows, columns))


def _windows_product(
    site: CaptureSite,
    lines: int,
    x: int,
    starts: Sequence[int],
    strides: Sequence[int],
    counts: Sequence[int],
    kernel: Sequence[int],
    steps: Sequence[int],
    transposed: bool = False,
) -> int:
    """Multiply [groups, M, K] with the elements that windows read from ``x``, [channels, rows, sizes].

    The result has the shape [groups, M, windows]. If ``transposed`` is true, the product sums over the windows instead.
    ``counts`` includes the rows. ``starts`` includes them, too, if the windows do not begin with the first row.
    """
    emitter = site.emitter
    if prod(kernel) == 1 and not transposed:
        # Windows of one element read no element twice, so an ordinary product is enough.
        part = _read(emitter, x, starts, counts[1:], strides)
        groups, _, summed = emitter.shape(lines)
        return _product(site, lines, emitter.reshape(part, (groups, summed, prod(counts))))
    first = (0,) * (1 + len(kernel) - len(starts))
    return emitter.windows_product(
        lines,
        x,
        site.bits,
        starts=(*first, *starts),
        strides=(1, *strides),
        counts=tuple(counts),
        kernel=(1, *kernel),
        steps=(1, *steps),
        transposed=transposed,
    )


# --- convolutions --------------------------------------------------------------------------------


@rule("aten.convolution.default")
def _convolution(
    site: CaptureSite,
    x: Ref,
    weight: Ref,
    bias: Ref | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> int:
    # The shape of the result includes the output padding.
    del output_padding
    emitter = site.emitter
    kernel, sizes, places = emitter.shape(weight)[2:], emitter.shape(x)[2:], site.shape[2:]
    if transposed:
        windows = Windows.of(kernel, stride, padding, dilation, places, sizes)
        result = _transposed(site, x, weight, windows, groups)
    else:
        windows = Windows.of(kernel, stride, padding, dilation, sizes, places)
        result = _gathered(site, x, weight, windows, groups)
    if bias is None:
        return result
    row = emitter.reshape(bias, (1, site.shape[1], *[1] * len(places)))
    return emitter.emit("add", result, row)


def _channels_first(emitter: Emitter, x: int) -> int:
    rank = len(emitter.shape(x))
    return emitter.permute(x, (1, 0, *range(2, rank)))


def _gathered(site: CaptureSite, x: int, weight: int, windows: Windows, groups: int) -> int:
    emitter = site.emitter
    rows, out = site.shape[:2]
    padded = _padded(emitter, _channels_first(emitter, x), windows.padding, windows.padding_after())
    summed = prod(emitter.shape(weight)[1:])
    lines = emitter.reshape(weight, (groups, out // groups, summed))
    result = _windows_product(
        site,
        lines,
        padded,
        (0,) * len(windows.kernel),
        windows.stride,
        (rows, *windows.outputs),
        windows.kernel,
        windows.dilation,
    )
    return _channels_first(emitter, emitter.reshape(result, (out, rows, *windows.outputs)))


def _transposed(site: CaptureSite, x: int, weight: int, windows: Windows, groups: int) -> int:
    """Return the transposed convolution of ``x``.

    The weights have the shape [channels of ``x``, channels of the result / groups, kernel].
    """
    emitter = site.emitter
    rows, out = site.shape[:2]
    channels = emitter.shape(x)[1]
    per_group = out // groups
    rank = len(windows.kernel)
    # Shape [groups, out / groups, in / groups, kernel].
    turned = emitter.permute(
        emitter.reshape(weight, (groups, channels // groups, per_group, *windows.kernel)),
        (0, 2, 1, *range(3, 3 + rank)),
    )
    low, high = windows.reach()
    padded = _padded(emitter, _channels_first(emitter, x), low, high)

    def phase(places: Sequence[WindowOffset]) -> int:
        counts = [len({place.at[dim] for place in places}) for dim in range(rank)]
        chosen = _read(emitter, turned, places[0].at, counts, windows.kernel_steps())
        lines = emitter.reshape(chosen, (groups, per_group, channels // groups * prod(counts)))
        starts = [s + b for s, b in zip(places[0].start, low, strict=True)]
        result = _windows_product(
            site,
            lines,
            padded,
            starts,
            (1,) * rank,
            (rows, *windows.turns()),
            counts,
            windows.place_steps(),
        )
        return emitter.reshape(result, (out, rows, *windows.turns()))

    return _channels_first(emitter, _from_phases(emitter, (out, rows), windows, phase))


def _read_back(
    emitter: Emitter, values: Sequence[int], windows: Windows
) -> Callable[[Sequence[WindowOffset]], list[list[int]]]:
    """Return a function that gets the places of a phase, and returns the slices that these places read from each
    value.
    """
    low, high = windows.reach()
    padded = [_padded(emitter, value, low, high) for value in values]
    ones = (1,) * len(windows.kernel)

    def read(places: Sequence[WindowOffset]) -> list[list[int]]:
        starts = [[s + b for s, b in zip(place.start, low, strict=True)] for place in places]
        return [_slices(emitter, value, starts, windows.turns(), ones) for value in padded]

    return read


def _from_phases(
    emitter: Emitter, rest: Sequence[int], windows: Windows, phase: Callable[[Sequence[WindowOffset]], int]
) -> int:
    """Return a value of shape [rest, inputs] from its phases; ``phase`` returns one phase's elements, [rest, turns]."""
    rank = len(windows.kernel)
    turns = windows.turns()
    ones = (1,) * rank
    shape = (*rest, *turns)
    phases = [phase(places) if places else emitter.full(0, "f32", shape) for _, places in windows.phases()]
    whole = phases[0]
    if len(phases) > 1:
        apart = [emitter.reshape(part, (1, *emitter.shape(part))) for part in phases]
        stacked = emitter.reshape(_joined(emitter, apart, 0), (*windows.stride, *rest, *turns))
        first = rank + len(rest)
        pairs = [dim for at in range(rank) for dim in (first + at, at)]
        woven = emitter.permute(stacked, (*range(rank, first), *pairs))
        sizes = [n * s for n, s in zip(turns, windows.stride, strict=True)]
        whole = emitter.reshape(woven, (*rest, *sizes))
    return _read(emitter, whole, windows.padding, windows.inputs, ones)


@rule("assay.convolution_weight_gradient.default")
def _weight_gradient(
    site: CaptureSite,
    x: Ref,
    gradient: Ref,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    is_kept: bool,
) -> int:
    emitter = site.emitter
    sizes, places = emitter.shape(x)[2:], emitter.shape(gradient)[2:]
    windows = Windows.of(kernel, stride, padding, dilation, sizes, places)
    rows, out = emitter.shape(x)[0], site.shape[0]
    channels = _channels_first(emitter, x)
    # The input is padded again, because the forward pass's padded input is larger and would stay in memory until now.
    with emitter.anew() if is_kept else nullcontext():
        padded = _padded(emitter, channels, windows.padding, windows.padding_after())
    gradients = _channels_first(emitter, gradient)
    total = None
    for first, counts in _boxes((rows, *places), MAX_SUMMED):
        part = _read(emitter, gradients, first, counts, (1,) * len(counts))
        lines = emitter.reshape(part, (groups, out // groups, prod(counts)))
        starts = [at * step for at, step in zip(first, (1, *stride), strict=True)]
        part = _windows_product(site, lines, padded, starts, stride, counts, kernel, dilation, transposed=True)
        total = part if total is None else emitter.emit("add", total, part)
    assert total is not None
    return emitter.reshape(total, site.shape)


def _boxes(sizes: Sequence[int], most: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Divide a box of ``sizes`` into parts of at most ``most`` elements, in their order; yield the starts and sizes."""
    split = next(dim for dim in range(len(sizes)) if prod(sizes[dim + 1 :]) <= most)
    rest = tuple(sizes[split + 1 :])
    step = most // max(1, prod(rest))
    for before in product(*map(range, sizes[:split])):
        for start in range(0, sizes[split], step):
            count = min(step, sizes[split] - start)
            yield (*before, start, *[0] * len(rest)), (*[1] * split, count, *rest)


# --- pooling -------------------------------------------------------------------------------------


def _pool(
    inputs: Sequence[int],
    outputs: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1,),
) -> Windows:
    """Return the windows of a pool of torch; without a stride, the stride is the size of the kernel."""
    return Windows.of(kernel, stride or kernel, padding, dilation, inputs, outputs)


def _divisors(windows: Windows, count_padding: bool, divisor: int | None) -> np.ndarray[Any, Any]:
    """Return the number by which the sum of each window is divided. As in torch, places beyond the padding are never
    counted.
    """
    if divisor is not None:
        return np.array(divisor)
    counts = np.ones((), np.int64)
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
        counts = np.multiply.outer(counts, end - first)
    return counts.ravel()[0] if (counts == counts.flat[0]).all() else counts


def _sum(emitter: Emitter, parts: Sequence[int]) -> int:
    total = parts[0]
    for part in parts[1:]:
        total = emitter.emit("add", total, part)
    return total


@rule("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
def _avg_pool(
    site: CaptureSite,
    x: Ref,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> int:
    # The shape of the result already depends on this mode.
    del ceil_mode
    emitter, rank = site.emitter, _rank_of(site)
    windows = _pool(emitter.shape(x)[-rank:], site.shape[-rank:], kernel, stride, padding)
    padded = _padded(emitter, x, windows.padding, windows.padding_after())
    starts = [place.start for place in windows.places()]
    parts = _slices(emitter, padded, starts, windows.outputs, windows.stride)
    table = _divisors(windows, count_include_pad, divisor)
    return emitter.emit("div", _sum(emitter, parts), emitter.constant(table, "f32"))


@rule("aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default")
def _avg_pool_backward(
    site: CaptureSite,
    gradient: Ref,
    x: Ref,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> int:
    del ceil_mode
    emitter, rank = site.emitter, _rank_of(site)
    shape = emitter.shape(x)
    windows = _pool(shape[-rank:], emitter.shape(gradient)[-rank:], kernel, stride, padding)
    table = _divisors(windows, count_include_pad, divisor)
    each = emitter.emit("div", gradient, emitter.constant(table, "f32"))

    read = _read_back(emitter, [each], windows)
    return _from_phases(emitter, shape[:-rank], windows, lambda places: _sum(emitter, read(places)[0]))


@rule("aten._adaptive_avg_pool2d.default", "aten._adaptive_avg_pool3d.default")
def _adaptive_avg_pool(site: CaptureSite, x: Ref, _sizes: Sequence[int]) -> int:
    """Average one dimension after another.

    This is possible because a window's range in one dimension does not depend on its position in the other dimensions.
    """
    emitter, rank = site.emitter, _rank_of(site)
    value = x
    for dim in range(len(site.shape) - rank, len(site.shape)):
        bounds = _adaptive(emitter.shape(value)[dim], site.shape[dim])
        value = Ref(emitter.emit("div", *_parts_sum(emitter, value, dim, bounds)))
    return value


@rule("aten._adaptive_avg_pool2d_backward.default", "aten._adaptive_avg_pool3d_backward.default")
def _adaptive_avg_pool_backward(site: CaptureSite, gradient: Ref, _x: Ref) -> int:
    emitter, rank = site.emitter, _rank_of(site)
    value = gradient
    for dim in range(len(site.shape) - rank, len(site.shape)):
        bounds = _adaptive(site.shape[dim], emitter.shape(value)[dim])
        each = Ref(emitter.emit("div", value, _sizes(emitter, bounds, dim, len(site.shape))))
        readers = [
            [at for at, (low, high) in enumerate(bounds) if low <= place < high] for place in range(site.shape[dim])
        ]
        spans = [(named[0], named[-1] + 1) for named in readers]
        value = Ref(_parts_sum(emitter, each, dim, spans)[0])
    return value


def _adaptive(inputs: int, outputs: int) -> list[tuple[int, int]]:
    """Return the start and the end of each window, by torch's formula."""
    return [(at * inputs // outputs, -(-(at + 1) * inputs // outputs)) for at in range(outputs)]


def _sizes(emitter: Emitter, bounds: Sequence[tuple[int, int]], dim: int, rank: int) -> int:
    shape = [len(bounds) if at == dim else 1 for at in range(rank)]
    sizes = np.array([high - low for low, high in bounds])
    return emitter.constant(sizes.reshape(shape), "f32")


def _parts_sum(emitter: Emitter, x: int, dim: int, bounds: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return two values: the sums of the parts along ``dim``, joined along ``dim``; and the size of each part."""
    shape = emitter.shape(x)
    sums = []
    for low, high in bounds:
        start = tuple(low if at == dim else 0 for at in range(len(shape)))
        count = tuple(high - low if at == dim else size for at, size in enumerate(shape))
        part = _read(emitter, x, start, count, (1,) * len(shape))
        sums.append(part if high - low == 1 else emitter.sum(part, [dim], keepdim=True))
    return _joined(emitter, sums, dim), _sizes(emitter, bounds, dim, len(shape))


@rule("aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default")
def _adaptive_max_pool(site: CaptureSite, x: Ref, sizes: Sequence[int]) -> tuple[int, int]:
    rank = _rank_of(site)
    kernel = _even(site.emitter.shape(x)[-rank:], sizes)
    return _max_pool(site, x, kernel)


@rule("aten.adaptive_max_pool2d_backward.default", "aten.adaptive_max_pool3d_backward.default")
def _adaptive_max_pool_backward(site: CaptureSite, gradient: Ref, x: Ref, indices: Ref) -> int:
    rank = _rank_of(site)
    emitter = site.emitter
    kernel = _even(emitter.shape(x)[-rank:], emitter.shape(gradient)[-rank:])
    return _max_pool_backward(site, gradient, x, kernel, (), (0,), (1,), False, indices)


def _even(inputs: Sequence[int], outputs: Sequence[int]) -> list[int]:
    # decompositions.py handles windows that overlap.
    return [size // count for size, count in zip(inputs, outputs, strict=True)]


@rule("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def _max_pool(
    site: CaptureSite,
    x: Ref,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[int, int]:
    """Return the largest element of each window, and its number in the plane.

    If several elements are equal, the first one counts, as in torch.
    """
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


@rule("aten.max_pool2d_with_indices_backward.default", "aten.max_pool3d_with_indices_backward.default")
def _max_pool_backward(
    site: CaptureSite,
    gradient: Ref,
    x: Ref,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Ref,
) -> int:
    """Return, for each element of ``x``, the sum of the gradients of all windows whose largest element it is."""
    del ceil_mode
    emitter, rank = site.emitter, _rank_of(site)
    shape = emitter.shape(x)
    inputs = shape[-rank:]
    outputs = emitter.shape(gradient)[-rank:]
    windows = _pool(inputs, outputs, kernel, stride, padding, dilation)
    zero = emitter.scalar(0, "f32")
    phases = iter([phase for phase, places in windows.phases() if places])

    # Places beyond the windows have no gradient, so the elements that they name do not matter.
    read = _read_back(emitter, [gradient, indices], windows)

    def phase(places: Sequence[WindowOffset]) -> int:
        parts, named = read(places)
        behind = [p - r for p, r in zip(windows.padding, next(phases), strict=True)]
        here = _positions(emitter, windows.turns(), windows.stride, behind, inputs)
        chosen = [
            emitter.emit("where", emitter.emit("eq", name, here), part, zero)
            for part, name in zip(parts, named, strict=True)
        ]
        return _sum(emitter, chosen)

    return _from_phases(emitter, shape[:-rank], windows, phase)


def _positions(
    emitter: Emitter,
    counts: Sequence[int],
    steps: Sequence[int],
    behind: Sequence[int],
    inputs: Sequence[int],
) -> int:
    """Return the numbers, in the plane, of the elements at ``steps`` x i - ``behind``.

    In each dimension, i goes from 0 to ``counts`` - 1.
    """
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


def _rank_of(site: CaptureSite) -> int:
    """Return the number of dimensions that the name of an operation contains, such as 2 in ``avg_pool2d``."""
    name = str(site.node.target)
    return next(rank for rank in (1, 2, 3) if f"{rank}d" in name)


# --- upsampling ----------------------------------------------------------------------------------


@rule(
    "aten.upsample_nearest1d.default",
    "aten.upsample_nearest2d.default",
    "aten.upsample_nearest3d.default",
)
def _upsample_nearest(site: CaptureSite, x: Ref, *_how: Any) -> int:
    """Repeat each element in each dimension."""
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
def _upsample_nearest_backward(site: CaptureSite, gradient: Ref, *_how: Any) -> int:
    emitter, rank = site.emitter, _rank_of(site)
    times = _whole_times(emitter.shape(gradient)[-rank:], site.shape[-rank:])
    apart = emitter.reshape(gradient, _apart(site.shape, times))
    first = len(site.shape) - rank
    return emitter.reshape(emitter.sum(apart, [first + 2 * at + 1 for at in range(rank)]), site.shape)


def _whole_times(large: Sequence[int], small: Sequence[int]) -> list[int]:
    # decompositions.py handles sizes that are not multiples.
    return [after // before for after, before in zip(large, small, strict=True)]


def _apart(shape: Sequence[int], times: Sequence[int]) -> list[int]:
    """Return ``shape`` with new dimensions of the sizes ``times``, one after each of the last dimensions."""
    rank = len(times)
    pairs = zip(shape[-rank:], times, strict=True)
    return [*shape[:-rank], *[size for pair in pairs for size in pair]]
