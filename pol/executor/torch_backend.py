"""The second executor: the same primitives in torch, eager, one operation for each kernel, on a CPU
or a GPU.

Written apart from the reference, so that one checks the other; ``pol/ops`` says what each
primitive means. Traps that this file goes around: torch's sqrt is not IEEE on CPUs, division by a
Python number may become a product with the reciprocal, ``alpha`` arguments fuse, reductions over an
empty list of dimensions reduce everything.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pol.errors import ExecutionError
from pol.executor.loop import LoopBackend
from pol.ops import functions, philox
from pol.ops.order import nowhere
from pol.ops.primitive import Function, Site
from pol.ops.shape import outside
from pol.state.arrays import NUMPY_DTYPES, Array
from pol.values import TensorType


@dataclass(frozen=True, slots=True)
class _Site(Site):
    device: torch.device


Maker = Callable[[_Site], Function]

LARGEST_DIGITS = {8: 127, 15: 16_256, 22: 2_080_768}
_SUMMED_EXACTLY = 2_048
"""Numbers of 22 bits whose products FP64 sums without a rounding; of the others it is more than a product may sum."""
_ROWS_SIZE = 2**24
"""Elements of rows of a product that have FP64 copies at once."""
_WINDOWS_SIZE = 2**20
"""Elements of what windows read that are laid out at once."""
_BLOCK = 2**18
"""Elements that a sequence of FP64 or 64-bit operations takes at once: its dozen temporaries are what it needs."""
_DTYPES = {"f32": torch.float32, "i64": torch.int64, "bool": torch.bool}
_MASK = 0xFFFFFFFF


class _Namespace:
    """The FP64 operations of ``functions.py`` in torch."""

    def round_even(self, x: Tensor) -> Tensor:
        return torch.round(x)

    def where(self, condition: Tensor, x: Any, y: Any) -> Tensor:
        return torch.where(condition, x, y)

    def clamp(self, x: Tensor, low: float, high: float) -> Tensor:
        return torch.clamp(x, low, high)

    def absolute(self, x: Tensor) -> Tensor:
        return torch.abs(x)

    def power_of_two(self, k: Tensor) -> Tensor:
        return _power_of_two(k.to(torch.int64))

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        bits = x.view(torch.int64)
        k = ((bits >> 52) - 1023).to(torch.float64)
        return k, ((bits & (2**52 - 1)) | (1023 << 52)).view(torch.float64)


_NAMESPACE = _Namespace()


def _power_of_two(exponent: Tensor) -> Tensor:
    """Return 2^exponent in FP64, made of bits (torch.ldexp goes through pow)."""
    return ((exponent + 1023) << 52).view(torch.float64)


def scale_rows(x: Tensor, axis: int, bits: int) -> tuple[Tensor, Tensor]:
    """Scale an FP32 operand along ``axis`` to integers of ``bits``; return them and the inverse scale, in FP64."""
    # without the absolute values of all, which would be another copy
    ends = (torch.abs(end(x, dim=axis, keepdim=True)) for end in (torch.amax, torch.amin))
    largest = torch.maximum(*ends)
    return scaled(x, largest, bits), inverses(largest, bits)[1]


def inverses(largest: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return exponents of scales, and the inverse scales, by the absolute values of the largest elements."""
    largest = largest.to(torch.float64)
    exponent = (largest.view(torch.int64) >> 52) - 1023
    shift = torch.where(largest == 0.0, 0, bits - 2 - exponent)
    too_large = torch.round(largest * _power_of_two(shift)) > LARGEST_DIGITS[bits]
    shift = torch.where(too_large, shift - 1, shift)
    return shift, torch.where(torch.isfinite(largest), _power_of_two(-shift), float("nan"))


def scaled(x: Tensor, largest: Tensor, bits: int) -> Tensor:
    """Return the integers of an operand by the absolute values of its rows' largest elements, in FP64."""
    shift, _ = inverses(largest, bits)
    # in place, for a second copy would double what a product needs beside its operands
    wide = x.to(torch.float64).masked_fill_(~torch.isfinite(largest), 0.0)
    return wide.mul_(_power_of_two(shift)).round_()


def rows_at_once(left: TensorType, right: TensorType) -> int:
    """Return of how many rows a product of many has its FP64 copies and sums at once, for they need memory."""
    widest = prod(left.shape[:-2]) * max(left.shape[-1], right.shape[-1])
    return max(1, _ROWS_SIZE // max(1, widest))


def _sum_in_blocks(left: Tensor, right: Tensor) -> Tensor:
    """Add exact sums of blocks of the summed dimension, in their order; of few rows at once, for they need memory."""
    size = _SUMMED_EXACTLY
    total = left.new_zeros((*left.shape[:-1], right.shape[-1]))
    for some, sums in zip(torch.split(left, size, -2), torch.split(total, size, -2), strict=True):
        for a, b in zip(torch.split(some, size, -1), torch.split(right, size, -2), strict=True):
            sums.add_(torch.matmul(a, b))
    return total


def _matmul(site: _Site) -> Function:
    bits = site.attrs["bits"]
    in_blocks = bits == 22 and site.operands[0].shape[-1] > _SUMMED_EXACTLY

    rows = rows_at_once(*site.operands)

    def run(a: Tensor, b: Tensor) -> Tensor:
        right, right_inverse = scale_rows(b, -2, bits)
        result = a.new_empty((*a.shape[:-1], b.shape[-1]))
        for some, target in zip(
            torch.split(a, rows, -2), torch.split(result, rows, -2), strict=True
        ):
            left, left_inverse = scale_rows(some, -1, bits)
            total = _sum_in_blocks(left, right) if in_blocks else torch.matmul(left, right)
            target.copy_(total.add_(0.0).mul_(left_inverse).mul_(right_inverse))
        return result

    return run


def _windows_product(site: _Site) -> Function:
    """As many windows at once as make a small product, each place in a window a part of what they read."""
    attrs, (left, x) = site.attrs, site.operands
    bits, groups = attrs["bits"], left.shape[0]
    sizes = zip(attrs["kernel"], attrs["steps"], x.shape[1:], strict=True)
    away = _away(list(sizes), site.device)
    starts = zip(attrs["starts"], attrs["strides"], attrs["counts"], x.shape[1:], strict=True)
    first = torch.zeros(1, dtype=torch.int64, device=site.device)
    for start, stride, count, size in starts:
        along = start + stride * torch.arange(count, device=site.device)
        first = (first[:, None] * size + along).reshape(-1)
    height = x.shape[0] // groups * len(away)
    step = max(1, min(_SUMMED_EXACTLY, _WINDOWS_SIZE // (groups * max(height, left.shape[1]))))
    # of 22 bits no part is on both sides of a block
    step = 2 ** (step.bit_length() - 1)

    def columns(flat: Tensor, windows: Tensor) -> Tensor:
        taken = flat.index_select(1, (away[:, None] + windows).reshape(-1))
        return taken.reshape(groups, height, len(windows))

    def plain(a: Tensor, flat: Tensor) -> Tensor:
        lines, left_inverse = scale_rows(a, -1, bits)
        result = a.new_empty(site.result.shape)
        parts = torch.split(first, step)
        for windows, target in zip(parts, torch.split(result, step, -1), strict=True):
            right, inverse = scale_rows(columns(flat, windows), -2, bits)
            in_blocks = bits == 22 and height > _SUMMED_EXACTLY
            total = _sum_in_blocks(lines, right) if in_blocks else torch.matmul(lines, right)
            target.copy_(total.add_(0.0).mul_(left_inverse).mul_(inverse))
        return result

    def transposed(a: Tensor, flat: Tensor) -> Tensor:
        largest = torch.cat(
            [columns(flat, some).abs().amax(-1, keepdim=True) for some in torch.split(first, step)],
            -1,
        ).amax(-1, keepdim=True)
        of_left = a.abs().amax(-1, keepdim=True)
        total = torch.zeros(site.result.shape, dtype=torch.float64, device=site.device)
        block, left_inverse = torch.zeros_like(total), inverses(of_left, bits)[1]
        done = 0
        for windows, some in zip(torch.split(first, step), torch.split(a, step, -1), strict=True):
            right = scaled(columns(flat, windows), largest, bits)
            block += torch.matmul(scaled(some, of_left, bits), right.transpose(1, 2))
            done += len(windows)
            if done % _SUMMED_EXACTLY == 0 or done == len(first):
                total += block
                block.zero_()
        right_inverse = inverses(largest, bits)[1].transpose(1, 2)
        return total.mul_(left_inverse).mul_(right_inverse).to(torch.float32)

    run = transposed if attrs["transposed"] else plain
    return lambda a, value: run(a, value.reshape(len(value), -1))


def _away(sizes: list[tuple[int, int, int]], device: torch.device) -> Tensor:
    """Return how far each place in a window is from where the window is."""
    found = torch.zeros(1, dtype=torch.int64, device=device)
    for places, step, size in sizes:
        along = step * torch.arange(places, device=device)
        found = (found[:, None] * size + along).reshape(-1)
    return found


def _sum_dim(x: Tensor, dim: int) -> Tensor:
    """Sum FP32 over one dimension as a halving tree, which is kept as 1."""
    count = x.shape[dim]
    if count == 0:
        return torch.zeros_like(x.sum(dim, keepdim=True))
    while count > 1:
        half = 1 << ((count - 1).bit_length() - 1)
        paired = count - half
        shorter = x.new_empty((*x.shape[:dim], half, *x.shape[dim + 1 :]))
        lower, upper = x.narrow(dim, 0, paired), x.narrow(dim, half, paired)
        torch.add(lower, upper, out=shorter.narrow(dim, 0, paired))
        if paired < half:
            # what has no partner is added to a zero of the padding
            alone = x.narrow(dim, paired, half - paired)
            torch.add(alone, 0.0, out=shorter.narrow(dim, paired, half - paired))
        x, count = shorter, half
    return x


def _sum(site: _Site) -> Function:
    dims, shape = site.attrs["dims"], site.result.shape
    if site.operands[0].dtype != "f32":
        if not dims:
            return lambda x: x.to(torch.int64)
        return lambda x: torch.sum(x, dims, dtype=torch.int64).reshape(shape)

    def run(x: Tensor) -> Tensor:
        for dim in dims:
            x = _sum_dim(x, dim)
        return x.reshape(shape)

    return run


def _amax(site: _Site) -> Function:
    dims, keepdim = site.attrs["dims"], site.attrs["keepdim"]
    if not dims:
        return (lambda x: x + 0.0) if site.result.dtype == "f32" else (lambda x: x)
    if site.result.dtype == "f32":
        return lambda x: torch.amax(x, dims, keepdim) + 0.0
    return lambda x: torch.amax(x, dims, keepdim)


def _argmax(site: _Site) -> Function:
    dim, keepdim = site.attrs["dim"], site.attrs["keepdim"]
    size = site.operands[0].shape[dim]
    rest = len(site.operands[0].shape) - dim - 1

    def run(x: Tensor) -> Tensor:
        positions = torch.arange(size, device=x.device).reshape(size, *(1,) * rest)
        found = torch.where(x == torch.amax(x, dim, keepdim=True), positions, size)
        first = torch.amin(found, dim, keepdim)
        return torch.where(first == size, 0, first)

    return run


def _extreme(function: Function) -> Maker:
    def make(site: _Site) -> Function:
        if site.result.dtype == "f32":
            return lambda a, b: function(a, b) + 0.0
        return function

    return make


def _plain(function: Function) -> Maker:
    return lambda site: function


def _sqrt(x: Tensor) -> Tensor:
    return torch.sqrt(x.to(torch.float64)).to(torch.float32)


def _composed(function: Callable[[functions.Namespace, Any], Any]) -> Maker:
    def run(x: Tensor) -> Tensor:
        flat = x.reshape(-1)
        done = torch.empty_like(flat)
        for start in range(0, len(flat), _BLOCK):
            part = slice(start, start + _BLOCK)
            # the one rounding to FP32 is in this assignment
            done[part] = function(_NAMESPACE, flat[part].to(torch.float64))
        return done.reshape(x.shape)

    return _plain(run)


def _cast(site: _Site) -> Function:
    source, target = site.operands[0].dtype, site.result.dtype
    if target == "bool":
        return lambda x: x != 0
    if (source, target) == ("f32", "i64"):
        return lambda x: torch.where(torch.abs(x) < 2.0**63, x, 0.0).to(torch.int64)
    return lambda x: x.to(_DTYPES[target])


def _reshape(site: _Site) -> Function:
    shape = site.result.shape
    return lambda x: x.reshape(shape)


def _permute(site: _Site) -> Function:
    dims = site.attrs["dims"]
    return lambda x: x.permute(dims).contiguous()


def _broadcast(site: _Site) -> Function:
    shape = site.result.shape
    return lambda x: x.expand(shape)


def _slice(site: _Site) -> Function:
    bounds = zip(site.attrs["starts"], site.attrs["stops"], site.attrs["steps"], strict=True)
    index = tuple(slice(start, stop, step) for start, stop, step in bounds)
    return lambda x: x[index].contiguous()


def _concat(site: _Site) -> Function:
    dim = site.attrs["dim"]
    return lambda *parts: torch.cat(parts, dim)


def _element(site: _Site) -> Tensor:
    data = bytes.fromhex(site.attrs["value"])
    array = np.frombuffer(data, NUMPY_DTYPES[site.result.dtype]).reshape(())
    return torch.from_numpy(array.copy()).to(site.device)


def _pad(site: _Site) -> Function:
    fill, shape = _element(site), site.result.shape
    pairs = zip(site.attrs["low"], site.operands[0].shape, strict=True)
    index = tuple(slice(low, low + size) for low, size in pairs)

    def run(x: Tensor) -> Tensor:
        padded = fill.expand(shape).clone()
        padded[index] = x
        return padded

    return run


def _take(site: _Site) -> Function:
    rows = site.operands[0].shape[0]

    def run(table: Tensor, index: Tensor) -> Tensor:
        wrong = (index < 0) | (index >= rows)
        if index.numel() and bool(wrong.any()):
            raise outside(int(index[wrong][0]), rows)
        return table[index]

    return run


def _add_rows(site: _Site) -> Function:
    rows, shape, device = site.attrs["rows"], site.result.shape, site.device
    width = site.result.elements // rows

    def run(index: Tensor, values: Tensor) -> Tensor:
        flat, added = index.reshape(-1), values.reshape(index.numel(), width)
        wrong = (flat < 0) | (flat >= rows)
        if bool(wrong.any()):
            raise nowhere(int(flat[wrong][0]), rows)
        total = torch.zeros(rows, width, device=device)
        if device.type == "cpu":
            return total.index_add_(0, flat, added).reshape(shape)
        # other devices add in any order: a processor adds what they have
        named, place = torch.unique(flat, return_inverse=True)
        summed = torch.zeros(len(named), width).index_add_(0, place.cpu(), added.cpu())
        total[named] = summed.to(device)
        return total.reshape(shape)

    return run


def _argsort(site: _Site) -> Function:
    """Integers are sorted in the place of FP32: which order those have depends on the device."""
    dim, is_float = site.attrs["dim"], site.operands[0].dtype == "f32"

    def run(x: Tensor) -> Tensor:
        if is_float:
            bits = (x + 0.0).view(torch.int32)
            keys = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
            x = torch.where(torch.isnan(x), 0x7FFFFFFF, keys)
        return torch.sort(x, dim=dim, stable=True).indices

    return run


def _floor_divide(a: Tensor, b: Tensor) -> Tensor:
    is_zero, is_minus = b == 0, b == -1
    by = torch.where(is_zero | is_minus, 1, b)
    quotient = torch.where(is_minus, -a, torch.div(a, by, rounding_mode="floor"))
    return torch.where(is_zero, 0, quotient)


def _iota(site: _Site) -> Function:
    size = site.attrs["size"]
    return lambda: torch.arange(size, dtype=torch.int64, device=site.device)


def _full(site: _Site) -> Function:
    filled = _element(site).expand(site.result.shape)
    return lambda: filled


def _multiply_words(multiplier: int, word: Tensor) -> tuple[Tensor, Tensor]:
    """Return the high and low half of a product of 32-bit words, in halves that do not overflow an i64."""
    lower = multiplier * (word & 0xFFFF)
    upper = multiplier * (word >> 16) + (lower >> 16)
    return upper >> 16, ((upper & 0xFFFF) << 16) | (lower & 0xFFFF)


def _uniform(site: _Site) -> Function:
    seed, stream = site.seed, site.attrs["site"]
    shape, count, device = site.result.shape, site.result.elements, site.device
    keys = philox.round_keys(seed)

    def words(step: Tensor, first: int, last: int) -> Tensor:
        c0 = torch.arange(first, last, dtype=torch.int64, device=device)
        c1 = torch.full_like(c0, stream)
        c2 = (step & _MASK).expand(c0.shape)
        c3 = ((step >> 32) & _MASK).expand(c0.shape)
        for low, high in keys:
            (high0, low0), (high1, low1) = (
                _multiply_words(philox.MULTIPLIERS[0], c0),
                _multiply_words(philox.MULTIPLIERS[1], c2),
            )
            c0, c1, c2, c3 = high1 ^ c1 ^ low, low1, high0 ^ c3 ^ high, low0
        return torch.stack([c0, c1, c2, c3], dim=1).reshape(-1)

    def run(step: Tensor) -> Tensor:
        done = torch.empty(count, dtype=torch.float32, device=device)
        for start in range(0, count, _BLOCK):
            part = done[start : start + _BLOCK]
            drawn = words(step, start // 4, -(-(start + len(part)) // 4))
            part.copy_(drawn[: len(part)] >> 8)
        return done.mul_(2.0**-24).reshape(shape)

    return run


MAKERS: Mapping[str, Maker] = MappingProxyType(
    {
        "add": _plain(torch.add),
        "sub": _plain(torch.sub),
        "mul": _plain(torch.mul),
        "div": _plain(torch.div),
        "floor_divide": _plain(_floor_divide),
        "maximum": _extreme(torch.maximum),
        "minimum": _extreme(torch.minimum),
        "neg": _plain(torch.neg),
        "abs": _plain(torch.abs),
        "sqrt": _plain(_sqrt),
        "exp": _composed(functions.exp),
        "log": _composed(functions.log),
        "tanh": _composed(functions.tanh),
        "erf": _composed(functions.erf),
        "eq": _plain(torch.eq),
        "ne": _plain(torch.ne),
        "lt": _plain(torch.lt),
        "le": _plain(torch.le),
        "gt": _plain(torch.gt),
        "ge": _plain(torch.ge),
        "logical_and": _plain(torch.logical_and),
        "logical_or": _plain(torch.logical_or),
        "logical_not": _plain(torch.logical_not),
        "where": _plain(torch.where),
        "cast": _cast,
        "reshape": _reshape,
        "permute": _permute,
        "broadcast": _broadcast,
        "slice": _slice,
        "concat": _concat,
        "pad": _pad,
        "take": _take,
        "sum": _sum,
        "amax": _amax,
        "argmax": _argmax,
        "add_rows": _add_rows,
        "argsort": _argsort,
        "matmul": _matmul,
        "matmul_windows": _windows_product,
        "iota": _iota,
        "full": _full,
        "uniform": _uniform,
    }
)


class TorchBackend(LoopBackend):
    """Torch on one device: ``cpu`` or ``cuda``."""

    name = "torch"

    def __init__(self, device: str = "cpu") -> None:
        super().__init__()
        self._device = torch.device(device)
        smallest = torch.full((8,), 2.0**-140, device=self._device)
        if not bool((smallest * torch.full_like(smallest, 0.5)).all()):
            reason = f"this process flushes subnormal numbers to zero on {device}"
            raise ExecutionError("backend", reason)

    def function(self, op: str, site: Site) -> Function:
        """Return the function of one node."""
        return MAKERS[op](_Site(site.attrs, site.operands, site.result, site.seed, self._device))

    def upload(self, array: Array) -> Tensor:
        """Return a copy of the array on the device (torch warns about read-only arrays)."""
        return torch.from_numpy(np.array(array)).to(self._device)

    def download(self, value: Tensor) -> Array:
        """Return the value as a NumPy array."""
        array: Array = value.cpu().contiguous().numpy()
        return array

    def in_order(self, value: Tensor) -> Tensor:
        """See ``LoopBackend.in_order``."""
        return value.contiguous()

    def empty(self, dtype: str, elements: int) -> Tensor:
        """See ``LoopBackend.empty``."""
        return torch.empty(elements, dtype=_DTYPES[dtype], device=self._device)

    def session(self) -> AbstractContextManager[object]:
        """Return a context without gradients."""
        return torch.no_grad()
