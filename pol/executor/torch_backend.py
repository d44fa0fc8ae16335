"""The torch back end. It runs the primitives in eager mode on a CPU or a GPU.

It is written independently of the reference, so that each checks the other; ``pol/ops`` defines the primitives. This
file avoids four properties of torch that change results. On CPUs, torch's sqrt does not follow IEEE 754. A division by
a Python number may become a product with the reciprocal. A call with an ``alpha`` argument fuses two operations into
one. A reduction over an empty list of dimensions reduces all dimensions. Code that is different for GPUs is in
``integer_products.py`` and ``row_sums.py``.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from operator import mul
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pol.errors import ExecutionError, NotFinite
from pol.executor.chained_loop import ChainedLoop, ChainFunction, ElementwiseChain
from pol.executor.cuda_graphs import Graphs
from pol.executor.integer_products import Choose, Multiply, always, in_digits, in_floats
from pol.executor.loop import Loop, LoopBackend
from pol.executor.row_guard import RowGuard
from pol.executor.row_sums import SumRows, in_passes
from pol.executor.torch_functions import DTYPES, Functions, number
from pol.job.program import Program
from pol.ops import philox
from pol.ops.order import nowhere
from pol.ops.primitive import Function, Site
from pol.ops.shape import outside
from pol.state.arrays import NUMPY_DTYPES, Array
from pol.state.held import Held, on_host
from pol.values import Shape, TensorType

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from pol.executor.triton_chains import Chains


@dataclass(frozen=True, slots=True)
class _Site(Site):
    device: torch.device
    on_gpu: bool
    products: Choose
    sum_rows: SumRows
    guard: RowGuard

    def multiply(self, rows: int, summed: int, columns: int) -> Multiply:
        """Return how to multiply matrices of these sizes. Sums of 22-bit integers that are too long are split."""
        bits = self.attrs["bits"]
        plain = self.products(2 * rows * summed * columns, bits)
        return partial(_sum_in_blocks, plain) if bits == 22 and summed > _SUMMED_EXACTLY else plain


Maker = Callable[[_Site], Function]

LARGEST_DIGITS = {8: 127, 15: 16_256, 22: 2_080_768}
_SUMMED_EXACTLY = 2_048
"""Number of products of 22-bit integers whose sum is exact in FP64. For smaller integers, sums of any allowed length
are exact.
"""
_ROWS_SIZE = 2**24
"""Number of elements in the rows of a product that have FP64 copies at once."""
_WINDOWS_SIZE = 2**20
"""Number of elements of the matrix of windows that are laid out at once."""
_FEW = 2**14
"""Number of elements up to which one more copy costs less than one more call."""
_BLOCK = 2**18
"""Number of elements for which a function is computed at once, to limit the memory of its dozen temporaries."""
_MASK = 0xFFFFFFFF


@cache
def _reaching(bits: int, device: torch.device) -> Tensor:
    """Return the factor f that gives the scale of a row from its largest element.

    The smallest power of two above f x (largest element of the row) is the inverse of the row's scale. A scaled element
    must not be rounded above the largest integer. Let a be the smallest FP32 number that would be too large, and b the
    number before a. The power of two doubles at the middle between b and a, and FP64 never rounds across this point.
    """
    largest = LARGEST_DIGITS[bits]
    # Ties round to even. If the largest integer is odd, a number one half above it is therefore rounded up, which is
    # too large.
    side = 1 if largest % 2 == 0 else -1
    return number(1 / (largest + 0.5 + side * 2.0 ** (bits - 26)), torch.float64, device)


_ROW_OF_ZEROS = 2.0**-300
"""A number that is added to each row's largest element, so that rows of zeros have a scale.

In all other rows, the number is so small that rounding removes it.
"""


def scale_rows(x: Tensor, axis: int, bits: int) -> tuple[Tensor, Tensor]:
    """Scale an FP32 operand along ``axis`` to integers of ``bits`` bits.

    Return the integers and the scales, both in FP64.
    """
    if x.numel() <= _FEW:
        wide = x.double()
        scale = scales(torch.amax(wide.abs(), axis, True), bits)
        return wide.mul_(scale).round_(), scale
    # This avoids the absolute values of all elements, which would take another copy.
    highest, lowest = torch.amax(x, axis, True), torch.amin(x, axis, True)
    scale = scales(torch.maximum(highest, lowest.neg_()).double(), bits)
    return scaled(x, scale), scale


def scales(largest: Tensor, bits: int) -> Tensor:
    """Return the scales of rows, in FP64. ``largest`` holds the largest magnitude in each row, and is overwritten.

    A scale is a power of two. A scale is NaN if the row's largest element is infinite or NaN, and then all results of
    the row are NaN. The division is exact, since its result is a power of two.
    """
    zeros = number(_ROW_OF_ZEROS, torch.float64, largest.device)
    reached = largest.mul_(_reaching(bits, largest.device)).add_(zeros)
    return torch.frexp(reached)[0].div_(reached)


def scaled(x: Tensor, scale: Tensor) -> Tensor:
    """Return the integers of an operand, in FP64.

    Only one copy is made, because a second copy would double the memory.
    """
    return x.double().mul_(scale).round_()


def _unscaled(total: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return sums divided by the scales of both operands, in FP32.

    Only the conversion rounds, since FP64 holds all exponents.
    """
    # The sign of a zero sum depends on the BLAS; this makes it +0.0.
    zero = number(0.0, torch.float64, total.device)
    return total.add_(zero).div_(left).div_(right).float()


def rows_at_once(left: TensorType, right: TensorType) -> int:
    """Return the number of rows of the left operand that a product processes at once.

    The product holds FP64 copies and sums for these rows.
    """
    widest = prod(left.shape[:-2]) * max(left.shape[-1], right.shape[-1])
    return max(1, _ROWS_SIZE // max(1, widest))


def _sum_in_blocks(multiply: Multiply, left: Tensor, right: Tensor, bits: int) -> Tensor:
    """Return the sum of the exact sums of blocks of the summed dimension, added in order.

    To limit memory, only a few rows are processed at once.
    """
    size = _SUMMED_EXACTLY
    total = left.new_zeros((*left.shape[:-1], right.shape[-1]))
    for some, sums in zip(torch.split(left, size, -2), torch.split(total, size, -2), strict=True):
        for a, b in zip(torch.split(some, size, -1), torch.split(right, size, -2), strict=True):
            sums.add_(multiply(a, b, bits))
    return total


def _matmul(site: _Site) -> Function:
    bits, (left, right) = site.attrs["bits"], site.operands
    rows = rows_at_once(left, right)
    multiply = site.multiply(left.shape[-2], left.shape[-1], right.shape[-1])

    def at_once(a: Tensor, b: Tensor) -> Tensor:
        right, right_scale = scale_rows(b, -2, bits)
        left, left_scale = scale_rows(a, -1, bits)
        return _unscaled(multiply(left, right, bits), left_scale, right_scale)

    def run(a: Tensor, b: Tensor) -> Tensor:
        right, right_scale = scale_rows(b, -2, bits)
        result = a.new_empty((*a.shape[:-1], b.shape[-1]))
        for some, target in zip(torch.split(a, rows, -2), torch.split(result, rows, -2), strict=True):
            left, left_scale = scale_rows(some, -1, bits)
            target.copy_(_unscaled(multiply(left, right, bits), left_scale, right_scale))
        return result

    return at_once if site.result.shape[-2] <= rows else run


def _windows_product(site: _Site) -> Function:
    """Return the function of a product with windows. It lays out a limited number of windows at once."""
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
    # This is a power of two, so that no part crosses the end of a block of 22-bit products.
    step = 2 ** (step.bit_length() - 1)

    def columns(flat: Tensor, windows: Tensor) -> Tensor:
        taken = flat.index_select(1, (away[:, None] + windows).reshape(-1))
        return taken.reshape(groups, height, len(windows))

    def plain(a: Tensor, flat: Tensor) -> Tensor:
        multiply = site.multiply(left.shape[1], height, step)
        lines, left_scale = scale_rows(a, -1, bits)
        result = a.new_empty(site.result.shape)
        parts = torch.split(first, step)
        for windows, target in zip(parts, torch.split(result, step, -1), strict=True):
            right, scale = scale_rows(columns(flat, windows), -2, bits)
            total = multiply(lines, right, bits)
            target.copy_(_unscaled(total, left_scale, scale))
        return result

    def transposed(a: Tensor, flat: Tensor) -> Tensor:
        multiply = site.multiply(left.shape[1], step, height)
        largest = torch.cat(
            [columns(flat, some).abs().amax(-1, keepdim=True) for some in torch.split(first, step)],
            -1,
        ).amax(-1, keepdim=True)
        right_scale = scales(largest.double(), bits)
        left_scale = scales(a.abs().amax(-1, keepdim=True).double(), bits)
        total = torch.zeros(site.result.shape, dtype=torch.float64, device=site.device)
        block = torch.zeros_like(total)
        count = 0
        for windows, some in zip(torch.split(first, step), torch.split(a, step, -1), strict=True):
            right = scaled(columns(flat, windows), right_scale)
            block += multiply(scaled(some, left_scale), right.transpose(1, 2), bits)
            count += len(windows)
            if count % _SUMMED_EXACTLY == 0 or count == len(first):
                total += block
                block.zero_()
        return _unscaled(total, left_scale, right_scale.transpose(1, 2))

    run = transposed if attrs["transposed"] else plain
    return lambda a, value: run(a, value.reshape(len(value), -1))


def _away(sizes: list[tuple[int, int, int]], device: torch.device) -> Tensor:
    """Return the offset of each position in a window from the window's first position."""
    offsets = torch.zeros(1, dtype=torch.int64, device=device)
    for places, step, size in sizes:
        along = step * torch.arange(places, device=device)
        offsets = (offsets[:, None] * size + along).reshape(-1)
    return offsets


def _sum_dim(x: Tensor, dim: int) -> Tensor:
    """Return the FP32 sum over one dimension, as a halving tree. The dimension is kept with size 1."""
    count = x.shape[dim]
    if count == 0:
        return torch.zeros_like(x.sum(dim, keepdim=True))
    while count > 1:
        half = 1 << ((count - 1).bit_length() - 1)
        paired = count - half
        if paired == half:
            x, count = torch.add(*torch.chunk(x, 2, dim)), half
            continue
        shorter = x.new_empty((*x.shape[:dim], half, *x.shape[dim + 1 :]))
        lower, upper = x.narrow(dim, 0, paired), x.narrow(dim, half, paired)
        torch.add(lower, upper, out=shorter.narrow(dim, 0, paired))
        # Elements without a partner are added to a zero of the padding, as in the reference.
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
    zero = number(0.0, torch.float32, site.device)
    if not dims:
        return (lambda x: x + 0.0) if site.result.dtype == "f32" else (lambda x: x)
    if site.result.dtype == "f32":
        return lambda x: torch.amax(x, dims, keepdim).add_(zero)
    return lambda x: torch.amax(x, dims, keepdim)


def _argmax(site: _Site) -> Function:
    dim, keepdim = site.attrs["dim"], site.attrs["keepdim"]
    size = site.operands[0].shape[dim]
    rest = len(site.operands[0].shape) - dim - 1
    none, zero = (number(value, torch.int64, site.device) for value in (size, 0))

    def places() -> Tensor:
        return torch.arange(size, device=site.device).reshape(size, *(1,) * rest)

    cached = places() if size <= _FEW else None

    def run(x: Tensor) -> Tensor:
        positions = places() if cached is None else cached
        candidates = torch.where(x == torch.amax(x, dim, True), positions, none)
        first = torch.amin(candidates, dim, keepdim)
        return torch.where(first == none, zero, first)

    return run


def _extreme(function: Function) -> Maker:
    def make(site: _Site) -> Function:
        zero = number(0.0, torch.float32, site.device)
        if site.result.dtype == "f32":
            return lambda a, b: function(a, b).add_(zero)
        return function

    return make


def _plain(function: Function) -> Maker:
    return lambda site: function


def _sqrt(x: Tensor) -> Tensor:
    if x.device.type != "cpu":
        return x.double().sqrt_().float()
    # NumPy's sqrt follows IEEE 754 on every processor, and takes a fifth of the time of torch's sqrt in FP64.
    result = torch.empty_like(x, memory_format=torch.contiguous_format)
    with np.errstate(invalid="ignore"):
        np.sqrt(x.numpy(), out=result.numpy())
    return result


def _composed(name: str) -> Maker:
    def make(site: _Site) -> Function:
        function: Function = getattr(Functions(site.device), name)

        def run(x: Tensor) -> Tensor:
            flat = x.reshape(-1)
            result = torch.empty_like(flat)
            for start in range(0, len(flat), _BLOCK):
                part = slice(start, start + _BLOCK)
                # This assignment rounds to FP32.
                result[part] = function(flat[part].double())
            return result.reshape(x.shape)

        if site.result.elements <= _BLOCK:
            return lambda x: function(x.double()).float()
        return run

    return make


def _cast(site: _Site) -> Function:
    source, target = site.operands[0].dtype, site.result.dtype
    if target == "bool":
        return lambda x: x != 0
    if (source, target) == ("f32", "i64"):
        most, zero = (number(value, torch.float32, site.device) for value in (2.0**63, 0.0))
        return lambda x: torch.where(torch.abs(x) < most, x, zero).long()
    return lambda x: x.to(DTYPES[target])


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
    starts, steps, shape = site.attrs["starts"], site.attrs["steps"], site.result.shape

    def run(x: Tensor) -> Tensor:
        # This is faster than indexing, which processes the dimensions one by one.
        strides = x.stride()
        first = x.storage_offset() + sum(map(mul, starts, strides))
        return x.as_strided(shape, tuple(map(mul, steps, strides)), first).contiguous()

    return run


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

    return lambda table, index: table[site.guard.checked(index, rows, outside)]


def _add_rows(site: _Site) -> Function:
    rows, shape = site.attrs["rows"], site.result.shape
    width = site.result.elements // rows

    def run(index: Tensor, values: Tensor) -> Tensor:
        flat = site.guard.checked(index.reshape(-1), rows, nowhere)
        summands = values.reshape(index.numel(), width)
        return site.sum_rows(flat, summands, rows).reshape(shape)

    return run


def _in_turn(rows: Tensor, summands: Tensor, count: int) -> Tensor:
    """Return sums of rows as ``SumRows`` does; on processors, torch adds in order."""
    return torch.zeros(count, summands.shape[1]).index_add_(0, rows, summands)


def _argsort(site: _Site) -> Function:
    """Return the function that sorts.

    FP32 is sorted by integer keys, since the order of FP32 numbers depends on the device.
    """
    dim, is_float = site.attrs["dim"], site.operands[0].dtype == "f32"
    most, sign = (number(value, torch.int32, site.device) for value in (0x7FFFFFFF, 31))
    zero = number(0.0, torch.float32, site.device)

    def run(x: Tensor) -> Tensor:
        if is_float:
            bits = (x + zero).view(torch.int32)
            # For negative numbers, all bits except the sign are inverted.
            keys = (bits >> sign).bitwise_and_(most).bitwise_xor_(bits)
            x = keys.masked_fill_(torch.isnan(x), most)
        return torch.sort(x, dim=dim, stable=True).indices

    return run


def _floor_divide(site: _Site) -> Function:
    zero, one, minus = (number(value, torch.int64, site.device) for value in (0, 1, -1))

    def run(a: Tensor, b: Tensor) -> Tensor:
        is_zero, is_minus = b == zero, b == minus
        by = torch.where(is_zero | is_minus, one, b)
        quotient = torch.where(is_minus, -a, torch.div(a, by, rounding_mode="floor"))
        return torch.where(is_zero, zero, quotient)

    return run


def _iota(site: _Site) -> Function:
    size = site.attrs["size"]
    return lambda: torch.arange(size, dtype=torch.int64, device=site.device)


def _full(site: _Site) -> Function:
    filled = _element(site).expand(site.result.shape)
    return lambda: filled


def _uniform(site: _Site) -> Function:
    """Return the function that draws numbers.

    Words 0 and 2 are rows of one tensor, and words 1 and 3 are rows of another, so that both products of a Philox round
    are computed at once.
    """
    shape, count, device = site.result.shape, site.result.elements, site.device

    def column(pair: Sequence[int]) -> Tensor:
        return torch.tensor(pair, dtype=torch.int64, device=device)[:, None]

    multipliers = column(philox.MULTIPLIERS)
    keys = [column(key) for key in philox.round_keys(site.seed)]
    mask, half = (number(value, torch.int64, device) for value in (_MASK, 32))

    def words(step: Tensor, first: int, last: int) -> Tensor:
        even = torch.empty(2, last - first, dtype=torch.int64, device=device)
        odd = torch.empty_like(even)
        torch.arange(first, last, out=even[0])
        even[1] = step & mask
        odd[0] = site.attrs["site"]
        odd[1] = (step >> half) & mask
        for key in keys:
            # The result has all 64 bits of the product. In torch, the uppermost bit is the sign.
            products = (even * multipliers).flip(0)
            even = (products >> half).bitwise_and_(mask).bitwise_xor_(odd).bitwise_xor_(key)
            odd = products.bitwise_and_(mask)
        return torch.stack([even, odd], dim=1).reshape(4, -1).T.reshape(-1)

    def run(step: Tensor) -> Tensor:
        result = torch.empty(count, dtype=torch.float32, device=device)
        for start in range(0, count, _BLOCK):
            part = result[start : start + _BLOCK]
            drawn = words(step, start // 4, -(-(start + len(part)) // 4))
            part.copy_(drawn[: len(part)] >> 8)
        return result.mul_(2.0**-24).reshape(shape)

    return run


MAKERS: Mapping[str, Maker] = MappingProxyType(
    {
        "add": _plain(torch.add),
        "sub": _plain(torch.sub),
        "mul": _plain(torch.mul),
        "div": _plain(torch.div),
        "floor_divide": _floor_divide,
        "maximum": _extreme(torch.maximum),
        "minimum": _extreme(torch.minimum),
        "neg": _plain(torch.neg),
        "abs": _plain(torch.abs),
        "sqrt": _plain(_sqrt),
        "exp": _composed("exp"),
        "log": _composed("log"),
        "tanh": _composed("tanh"),
        "erf": _composed("erf"),
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


_DTYPES = {kind: NUMPY_DTYPES[name] for name, kind in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class _Kept:
    """A tensor that stays on the device of a back end (:class:`pol.state.held.OnDevice`)."""

    holder: "TorchBackend"
    tensor: Tensor

    @property
    def dtype(self) -> np.dtype[Any]:
        return _DTYPES[self.tensor.dtype]

    @property
    def shape(self) -> Shape:
        return tuple(self.tensor.shape)

    def read(self) -> Array:
        return self.holder.download(self.tensor)


def use_threads(threads: int) -> None:
    """Let torch compute with this number of threads in this process."""
    torch.set_num_threads(threads)


class TorchBackend(LoopBackend):
    """A back end that computes with torch on one device: ``cpu``, or a GPU (``cuda``, ``cuda:1``)."""

    name = "torch"

    def __init__(
        self,
        device: str = "cpu",
        *,
        on_gpu: bool | None = None,
        products: Choose | None = None,
        sum_rows: SumRows | None = None,
        chains: "Chains | None" = None,
        in_graphs: bool = False,
    ) -> None:
        """Use a device. ``on_gpu`` selects the code for GPUs, even if the device is a processor.

        ``products`` chooses how matrices are multiplied; by default with digits on GPUs, and in FP64 on processors.
        ``sum_rows`` sums rows on a GPU; without it, this takes several passes. ``chains`` makes kernels for chains of
        elementwise nodes; without it, nodes run one by one. With ``in_graphs``, programs that run often become CUDA
        graphs. This needs ``sum_rows``, because passes cannot be recorded.
        """
        super().__init__()
        self._guard = RowGuard()
        try:
            self._device = torch.device(device)
            smallest = torch.full((8,), 2.0**-140, device=self._device)
        except (RuntimeError, AssertionError) as error:
            # The first line of torch's error is the reason; the other lines are about debugging.
            detail = str(error).splitlines()[0]
            raise ExecutionError("backend", f"torch cannot compute on {device!r}: {detail}") from error
        self._on_gpu = self._device.type != "cpu" if on_gpu is None else on_gpu
        if not bool((smallest * torch.full_like(smallest, 0.5)).all()):
            reason = f"this process flushes subnormal numbers to zero on {device}"
            raise ExecutionError("backend", reason)
        self._products = products or always(in_digits if self._on_gpu else in_floats)
        self._sum_rows: SumRows = sum_rows or (in_passes if self._on_gpu else _in_turn)
        self._chains = chains
        self._graphs = Graphs(self._device, self._guard, self._finished) if in_graphs else None

    @property
    def in_chains(self) -> bool:
        """True if kernels compute chains of elementwise nodes."""
        return self._chains is not None and self._chains.are_there

    @property
    def graphs(self) -> int:
        """The number of programs that became CUDA graphs."""
        return 0 if self._graphs is None else self._graphs.count

    def prepare(self, program: Program, seed: int) -> Loop:
        """Return a program as functions for its nodes, or for its chains. ``seed`` is the seed of the job."""
        if self._chains is None:
            return super().prepare(program, seed)
        return ChainedLoop(self, program, seed, self._of_chain)

    def _of_chain(self, chain: ElementwiseChain) -> ChainFunction:
        assert self._chains is not None
        return self._chains.function(chain, self._node_by_node(chain))

    def _node_by_node(self, chain: ElementwiseChain) -> ChainFunction:
        """Return a function that computes a chain node by node.

        It first broadcasts the operands to the chain's shape.
        """
        types = [TensorType(value.dtype, chain.shape) for value in chain.operands]
        rows = []
        for step in chain.steps:
            result = TensorType(step.dtype, chain.shape)
            attrs = {"dtype": step.dtype} if step.op == "cast" else {}
            operands = tuple(types[arg] for arg in step.args)
            rows.append(
                (
                    self.function(step.op, Site(attrs=attrs, operands=operands, result=result, seed=0)),
                    step.args,
                )
            )
            types.append(result)
        results = [len(chain.operands) + result for result in chain.results]

        def run(*operands: Tensor) -> Sequence[Tensor]:
            values = [operand.expand(chain.shape) for operand in operands]
            for function, args in rows:
                values.append(function(*(values[arg] for arg in args)))
            return [values[result].contiguous() for result in results]

        return run

    def function(self, op: str, site: Site) -> Function:
        """Return the function of one node."""
        return MAKERS[op](
            _Site(
                attrs=site.attrs,
                operands=site.operands,
                result=site.result,
                seed=site.seed,
                device=self._device,
                on_gpu=self._on_gpu,
                products=self._products,
                sum_rows=self._sum_rows,
                guard=self._guard,
            )
        )

    def upload(self, held: Held) -> Tensor:
        """Return a tensor that is on the device, or a copy of an array there.

        A copy is made because torch warns about read-only arrays.
        """
        if isinstance(held, _Kept):
            return held.tensor
        return torch.from_numpy(np.array(on_host(held))).to(self._device)

    def download(self, value: Tensor) -> Array:
        """Return the value as a NumPy array."""
        array: Array = value.cpu().contiguous().numpy()
        return array

    def finish(self, loop: Loop, inputs: Sequence[Tensor]) -> Mapping[str, Held]:
        """Return the outputs in canonical form, as handles of tensors that stay on the device.

        Raises NotFinite as ``LoopBackend.finish`` does.
        """
        if self._graphs is not None:
            outcome = self._graphs.run(loop, inputs)
            outputs, not_finite = outcome.outputs, outcome.not_finite
        else:
            outputs, finite = self._finished(loop.values(inputs))
            # The device is asked once for all tensors, since it computes behind the calls.
            is_finite = not finite or bool(torch.stack(tuple(finite.values())).all())
            not_finite = () if is_finite else [name for name, sign in finite.items() if not sign]
        if not_finite:
            raise NotFinite(not_finite[0])
        return {name: _Kept(self, value) for name, value in outputs.items()}

    def _finished(self, outputs: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the outputs in canonical form, and for each FP32 output whether it is finite."""
        zero = number(0.0, torch.float32, self._device)
        kept, finite = dict[str, Tensor](), dict[str, Tensor]()
        for name in tuple(outputs):
            value = outputs.pop(name).contiguous()
            if value.dtype == torch.float32:
                finite[name] = torch.isfinite(value).all()
                # -0.0 + 0.0 is +0.0; every other number stays the same.
                value = value + zero
            kept[name] = value
        return kept, finite

    def in_order(self, value: Tensor) -> Tensor:
        """Return the value in C order, as ``LoopBackend.in_order`` requires."""
        return value.contiguous()

    def empty(self, dtype: str, elements: int) -> Tensor:
        """Return an uninitialized tensor, as ``LoopBackend.empty`` requires."""
        return torch.empty(elements, dtype=DTYPES[dtype], device=self._device)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Return a context without gradients. In it, kernels run on the device of this back end."""
        is_cuda = self._device.type == "cuda"
        with torch.no_grad(), torch.cuda.device(self._device) if is_cuda else nullcontext():
            yield


def sums_on(device: str) -> SumRows | None:
    """Return the kernel that sums rows on a device, or None if it is no NVIDIA GPU or cannot have the kernel."""
    target = torch.device(device)
    if target.type != "cuda" or torch.version.cuda is None:
        return None
    from pol.executor.cuda_rows import kernel_on

    try:
        return kernel_on(target)
    except RuntimeError as error:
        log.warning("rows are added in passes, and no graphs are used, on %s: %s", device, error)
        return None


def chains_on(device: str) -> "Chains | None":
    """Return the maker of kernels for chains. Return None if Triton is not installed or does not support the device."""
    try:
        from pol.executor.triton_chains import Chains, are_for
    except ImportError:
        return None
    target = torch.device(device)
    return Chains(target) if are_for(target) else None
